//! [`Fallback`]: the behavior of a rate limit without its store; and [`LocalShare`]: the part of the quota that this
//! process uses meanwhile.
//!
//! 1. The share is charged for each call that the server admits, as far as it fits. Use beyond the share must not
//!    make this process wait in an outage.
//! 2. What the share admits is owed to the server until it is charged there, once, after the outage.

use std::time::Duration;

use tollgate::rate::{Charge, Oversize};
use tollgate::{AcquireError, Algorithm, Quota, RateLimiter};

#[cfg(doc)]
use crate::error::StoreError;
use crate::sync::{AtomicU64, Ordering};

/// The behavior of a rate limit while its store cannot decide.
///
/// A [mistake](StoreError::is_mistake) is an error with every fallback, for example a key that holds a value of
/// another kind. Everything else is an outage, including a missing right, a wrong password, and an error that this
/// crate does not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fallback {
    /// Returns the error for every call that asks for an answer now, of the kind
    /// [`Store`](tollgate::ErrorKind::Store). A caller that waits keeps its place until the server is back, or
    /// its timeout ends; see [`fail_waiting`](crate::RateLimiter::fail_waiting).
    #[default]
    FailClosed,
    /// Admits every call.
    FailOpen,
    /// Decides in this process, with an equal share of the quota and the same algorithm. While at
    /// most `share` processes do so, they keep the quota together. A
    /// call for more than the share, but not for more than the burst, is admitted when there is no
    /// debt, and leaves a debt.
    ///
    /// The share is charged all the time, also for the calls that the server admits, as far as they fit into it; a
    /// refund by the server does not return that. So a process that has used its share gets no second burst when an
    /// outage begins. When the server is back, the first call of the limiter charges what the share has admitted and
    /// time has not paid off, so there is none when the outage ends either; that takes two more round trips. The
    /// charge is lost if it gets no answer.
    Local {
        /// The number of shares: the number of processes.
        share: u32,
    },
}

/// The share of a quota.
#[derive(Debug)]
pub(crate) struct LocalShare {
    limiter: RateLimiter,
    /// The units that it has admitted since the server was last told.
    owed: AtomicU64,
}

impl LocalShare {
    /// Creates the share of a fallback, if it has one.
    ///
    /// # Panics
    ///
    /// Panics if the quota cannot be split into that many shares, or a share is too small for the
    /// algorithm.
    #[track_caller]
    pub(crate) fn new(fallback: Fallback, quota: Quota, algorithm: Algorithm) -> Option<Self> {
        let Fallback::Local { share } = fallback else {
            return None;
        };
        let limiter = RateLimiter::new(part(quota, algorithm, share));
        Some(Self {
            limiter: limiter.algorithm(algorithm).oversize(Oversize::Overdraft),
            owed: AtomicU64::new(0),
        })
    }

    /// Takes the quota of another share.
    pub(crate) fn follow(&self, other: &Self) {
        self.limiter.set_quota(other.limiter.quota());
    }

    /// Charges units that the server has admitted, as far as they fit.
    pub(crate) fn charge(&self, n: u64) {
        let cost = self.limiter.snapshot().available.min(n);
        // If it fails, another charge has taken some of it just now.
        drop(self.limiter.try_acquire_many(cost));
    }

    /// Admits as many units as there are, between `least` and `n`, while the server does not decide.
    pub(crate) fn acquire(&self, n: u64, least: u64) -> Result<Charge, AcquireError> {
        let cost = self.limiter.snapshot().available.min(n).max(least);
        let charge = self.limiter.try_acquire_many(cost)?;
        self.owed.fetch_add(cost, Ordering::Relaxed);
        Ok(charge)
    }

    /// Returns `n` units of a charge.
    pub(crate) fn refund(&self, charge: Charge, n: u64) {
        let rest = charge.cost().saturating_sub(n);
        self.limiter.settle(charge, rest);
        let refunded = |owed: u64| Some(owed.saturating_sub(n));
        let _ = self
            .owed
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, refunded);
    }

    /// Returns whether a new share would be the same.
    pub(super) fn is_unused(&self) -> bool {
        !self.owes() && self.limiter.snapshot().in_use == 0
    }

    /// Returns whether there is something that the server was not told.
    pub(crate) fn owes(&self) -> bool {
        self.owed.load(Ordering::Relaxed) > 0
    }

    /// Takes the units that it has admitted and time has not paid off. The caller charges them on the server, or
    /// [puts them back](Self::put_back).
    pub(crate) fn take_owed(&self) -> u64 {
        let unpaid = self.limiter.snapshot().in_use;
        self.owed.swap(0, Ordering::Relaxed).min(unpaid)
    }

    pub(crate) fn put_back(&self, owed: u64) {
        self.owed.fetch_add(owed, Ordering::Relaxed);
    }
}

/// Returns one of `share` equal parts.
#[track_caller]
fn part(quota: Quota, algorithm: Algorithm, share: u32) -> Quota {
    let parts = u64::from(share);
    if algorithm == Algorithm::Gcra || parts == 0 {
        return quota.split(share);
    }
    // Steps return the whole count at once, so the count is divided.
    let count = quota.count() / parts;
    let most = match (algorithm, quota.max_burst()) {
        // A burst of 1 stands for the count.
        (Algorithm::TokenBucket, burst @ 2..) => burst / parts,
        _ => count,
    };
    if count > 0 && most > 1 {
        return Quota::new(count, quota.period()).burst(most);
    }
    // One unit at a time.
    let seldom = quota.period().as_nanos() * u128::from(share);
    let seldom = seldom.div_ceil(u128::from(quota.count()));
    let seldom = Duration::from_nanos(u64::try_from(seldom).unwrap_or(u64::MAX));
    Quota::new(1, seldom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charge_beyond_the_share_leaves_no_debt() {
        let quota = Quota::per_day(10).burst(10);
        let share = LocalShare::new(Fallback::Local { share: 2 }, quota, Algorithm::Gcra).unwrap();
        share.charge(3);
        assert_eq!(share.limiter.snapshot().available, 2);
        share.charge(1000);
        assert_eq!(share.limiter.snapshot().in_use, 5);
        assert!(share.acquire(1, 1).is_err());
        assert!(!share.owes(), "the server has counted these");
    }

    #[test]
    fn take_owed_returns_what_was_admitted_and_not_refunded_once() {
        let quota = Quota::per_day(10).burst(10);
        let share = LocalShare::new(Fallback::Local { share: 1 }, quota, Algorithm::Gcra).unwrap();
        share.charge(4);
        let charge = share.acquire(9, 1).unwrap();
        assert_eq!(charge.cost(), 6);
        share.refund(charge, 2);
        assert_eq!([share.take_owed(), share.take_owed()], [4, 0]);
        share.put_back(4);
        assert_eq!(share.take_owed(), 4);
    }

    #[test]
    fn part_of_each_algorithm_divides_rate_and_burst() {
        let part =
            |algorithm, share| part(Quota::per_second(10).burst(6), algorithm, share).to_string();
        assert_eq!(part(Algorithm::Gcra, 4), "10/4s");
        assert_eq!(part(Algorithm::FixedWindow, 4), "2/s burst 2");
        assert_eq!(part(Algorithm::TokenBucket, 3), "3/s burst 2");
        assert_eq!(part(Algorithm::SlidingLog, 20), "1/2s");
        assert_eq!(part(Algorithm::TokenBucket, 4), "1/400ms");
        assert_eq!(part(Algorithm::TokenBucket, 100), "1/10s");
    }
}
