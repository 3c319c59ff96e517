//! [`Fallback`]: the behavior of a limit while its store fails; and [`Shares`]: the parts of the quotas that this
//! process uses meanwhile, of a limiter or of each limit of a set.
//!
//! 1. A share is charged for each call that the server admits, as far as it fits. Use beyond the share must not
//!    make this process wait in an outage.
//! 2. What the shares admit is owed to the server until it is charged there, once, after the outage.
//! 3. Each waiter that was behind the failed call, and asks for an answer now, learns of the failure, so nobody
//!    waits for one deadline after another. The others keep their places, unless the fallback admits them.

use std::time::{Duration, Instant};

use tollgate::rate::{Charge, Oversize};
use tollgate::{AcquireError, Algorithm, Quota, RateLimiter};

use crate::error::StoreError;
use crate::queue::{MOST_VISITED, WaitQueue};
use crate::sync::{AtomicU64, Ordering};

/// The shortest time until the next call for waiters after a failure.
const AFTER_FAILURE: Duration = Duration::from_millis(50);

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

/// The shares of a limiter or of a set, with its behavior in an outage. Empty unless the fallback is
/// [`Local`](Fallback::Local).
#[derive(Debug)]
pub(crate) struct Shares {
    fallback: Fallback,
    /// Waiters get the errors of the store.
    fail_waiting: bool,
    each: Vec<LocalShare>,
}

impl Shares {
    /// Creates the shares of limits with these quotas.
    ///
    /// # Panics
    ///
    /// Panics if a quota cannot be split into that many shares, or a share is too small for the
    /// algorithm.
    #[track_caller]
    pub(crate) fn new(
        fallback: Fallback,
        fail_waiting: bool,
        limits: impl IntoIterator<Item = (Quota, Algorithm)>,
    ) -> Self {
        let mut each = Vec::new();
        for (quota, algorithm) in limits {
            each.extend(LocalShare::new(fallback, quota, algorithm));
        }
        Self {
            fallback,
            fail_waiting,
            each,
        }
    }

    /// Takes the quotas of other shares.
    pub(crate) fn follow(&self, others: &Self) {
        for (share, other) in self.each.iter().zip(&others.each) {
            share.limiter.set_quota(other.limiter.quota());
        }
    }

    /// Charges units that the server has admitted, as far as they fit.
    pub(crate) fn charge(&self, n: u64) {
        for share in &self.each {
            share.charge(n);
        }
    }

    /// Returns whether waiters simply wait through an outage.
    pub(crate) fn waits(&self) -> bool {
        self.fallback == Fallback::FailClosed && !self.fail_waiting
    }

    /// Decides about a call of between `least` and `n` units while the server does not. A denial has a time after
    /// which to retry.
    pub(crate) fn decide(
        &self,
        n: u64,
        least: u64,
        error: StoreError,
    ) -> Result<(u64, Vec<Charge>), AcquireError> {
        let decided = self.decide_by_share(n, least, error);
        decided.map_err(|(refused, _)| refused)
    }

    /// Like [`decide`](Self::decide). A denial has the index of the share that made it.
    fn decide_by_share(
        &self,
        n: u64,
        least: u64,
        error: StoreError,
    ) -> Result<(u64, Vec<Charge>), (AcquireError, usize)> {
        if error.is_mistake() || self.fallback == Fallback::FailClosed {
            return Err((error.into(), 0));
        }
        let free = self.each.iter().map(LocalShare::free);
        let n = free.fold(n, u64::min).max(least);
        let mut charges = Vec::new();
        for (index, share) in self.each.iter().enumerate() {
            match share.acquire(n) {
                Ok(charge) => charges.push(charge),
                Err(refused) => {
                    self.refund(charges, n);
                    // The server may be back, and admit a call that the share never would.
                    let wait = refused.retry_after().filter(|wait| *wait < Duration::MAX);
                    let refused = AcquireError::limited(wait.unwrap_or(AFTER_FAILURE));
                    return Err((refused, index));
                }
            }
        }
        Ok((n, charges))
    }

    /// Returns `n` units of each charge.
    pub(crate) fn refund(&self, charges: Vec<Charge>, n: u64) {
        for (share, charge) in self.each.iter().zip(charges) {
            share.refund(charge, n);
        }
    }

    /// Returns whether new shares would be the same.
    pub(crate) fn are_unused(&self) -> bool {
        let is_unused = |share: &LocalShare| !share.owes() && share.limiter.snapshot().in_use == 0;
        self.each.iter().all(is_unused)
    }

    /// Handles a call that failed to decide for the waiters with these numbers, which are sorted. The fallback decides
    /// for all current waiters in their order, until it denies one. Without a fallback they wait on, unless they try and
    /// `fails_tries`, or have no time. Those of the call get a mistake. Returns when the next call may be made, and
    /// the denial of the first waiter that was denied.
    pub(crate) fn fail<R, P>(
        &self,
        queue: &mut WaitQueue<R, P>,
        now: Instant,
        asked: impl IntoIterator<Item = u64>,
        error: StoreError,
        fails_tries: bool,
        permit: impl Fn(u64, Vec<Charge>) -> P,
    ) -> (Instant, Option<ShareDenied>) {
        let mut denied = None;
        // With jitter, so that the processes of a fleet do not call together.
        let again = now + AFTER_FAILURE.mul_f64(1.0 + fastrand::f64());
        let asked: Vec<u64> = asked.into_iter().collect();
        // Nothing was sent for the other waiters.
        let unsent = if error.is_perhaps_charged() {
            StoreError::Unavailable
        } else {
            error
        };
        let error_of = |number| match asked.binary_search(&number) {
            Ok(_) => error,
            Err(_) => unsent,
        };
        if error.is_mistake() {
            for number in asked {
                if let Some(waiter) = queue.remove(number) {
                    queue.reply(waiter, Err(error.into()));
                }
            }
        } else if self.waits() {
            queue.answer_first(MOST_VISITED, |_, waiter| {
                let has_time = waiter.deadline.is_none_or(|deadline| deadline > again);
                let waits = has_time && !(fails_tries && waiter.tries);
                (!waits).then(|| Err(error_of(waiter.number).into()))
            });
            if fails_tries {
                queue.answer_tries(|_| Err(unsent.into()));
            }
        } else {
            queue.answer_until(|waiter| {
                let cost = waiter.cost;
                let decided = self.decide_by_share(cost, cost, error_of(waiter.number));
                denied = decided.as_ref().err().and_then(|(refused, share)| {
                    Some(ShareDenied {
                        share: *share,
                        cost,
                        wait: refused.retry_after()?,
                    })
                });
                let answer = || match decided {
                    Ok((cost, charges)) => Ok(permit(cost, charges)),
                    Err((refused, _)) => Err(refused),
                };
                denied.is_none().then(answer)
            });
        }
        (if queue.is_empty() { now } else { again }, denied)
    }

    /// Returns to the server what it does not know, before a call for callers. If the last call has failed, a call that
    /// charges nothing finds out whether the outage is over: a server that was stopped executes all calls
    /// that it got. Then what the shares have admitted meanwhile is charged.
    pub(crate) async fn repay<T, U>(
        &self,
        has_failed: bool,
        peek: impl Future<Output = Result<T, StoreError>>,
        charge: impl AsyncFnOnce(Vec<u64>) -> Result<U, StoreError>,
    ) -> Result<(), StoreError> {
        let owes = self.each.iter().any(LocalShare::owes);
        if owes || has_failed {
            peek.await?;
        }
        if !owes {
            return Ok(());
        }
        let owed: Vec<u64> = self.each.iter().map(LocalShare::take_owed).collect();
        if owed.iter().all(|owed| *owed == 0) {
            return Ok(());
        }
        let answer = charge(owed.clone()).await;
        if let Err(error) = &answer
            && !error.is_perhaps_charged()
        {
            for (share, owed) in self.each.iter().zip(owed) {
                share.owed.fetch_add(owed, Ordering::Relaxed);
            }
        }
        answer.map(drop)
    }
}

/// A share has denied a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShareDenied {
    /// The index of the share, and so of its limit.
    pub(crate) share: usize,
    pub(crate) cost: u64,
    pub(crate) wait: Duration,
}

/// The share of a quota.
#[derive(Debug)]
struct LocalShare {
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
    fn new(fallback: Fallback, quota: Quota, algorithm: Algorithm) -> Option<Self> {
        let Fallback::Local { share } = fallback else {
            return None;
        };
        let limiter = RateLimiter::new(part(quota, algorithm, share));
        Some(Self {
            limiter: limiter.algorithm(algorithm).oversize(Oversize::Overdraft),
            owed: AtomicU64::new(0),
        })
    }

    /// Charges units that the server has admitted, as far as they fit.
    fn charge(&self, n: u64) {
        let cost = self.free().min(n);
        // If it fails, another charge has taken some of it just now.
        drop(self.limiter.try_acquire_many(cost));
    }

    /// Returns the units that it can admit now.
    fn free(&self) -> u64 {
        self.limiter.snapshot().available
    }

    /// Admits `n` units while the server does not decide.
    fn acquire(&self, n: u64) -> Result<Charge, AcquireError> {
        let charge = self.limiter.try_acquire_many(n)?;
        self.owed.fetch_add(n, Ordering::Relaxed);
        Ok(charge)
    }

    /// Returns `n` units of a charge.
    fn refund(&self, charge: Charge, n: u64) {
        let rest = charge.cost().saturating_sub(n);
        self.limiter.settle(charge, rest);
        let refunded = |owed: u64| Some(owed.saturating_sub(n));
        let _ = self
            .owed
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, refunded);
    }

    /// Returns whether there is something that the server was not told.
    fn owes(&self) -> bool {
        self.owed.load(Ordering::Relaxed) > 0
    }

    /// Takes the units that it has admitted and time has not paid off.
    fn take_owed(&self) -> u64 {
        let unpaid = self.limiter.snapshot().in_use;
        self.owed.swap(0, Ordering::Relaxed).min(unpaid)
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
    use std::error::Error;

    use tokio::sync::oneshot;

    use super::*;
    use crate::queue::Waiter;

    const DAY: Duration = Duration::from_secs(86_400);

    type Answers = Vec<Result<u64, Option<StoreError>>>;

    /// The share of a quota of ten a day.
    fn shares(fallback: Fallback, fail_waiting: bool) -> Shares {
        let limits = [(Quota::per_day(10).burst(10), Algorithm::Gcra)];
        Shares::new(fallback, fail_waiting, limits)
    }

    /// Waiters of a cost of 4 each, with the numbers 0, 1, .., that try, or have this time.
    fn queue(waiters: &[Option<Duration>]) -> WaitQueue<(), u64> {
        let mut queue = WaitQueue::new();
        for time in waiters {
            let number = queue.next_number();
            queue.insert(Waiter {
                number,
                cost: 4,
                tries: time.is_none(),
                deadline: time.map(|time| Instant::now() + time),
                request: (),
                answer: oneshot::channel().0,
            });
        }
        queue
    }

    /// Fails the call for the first two waiters. Returns the answers, and what was denied.
    fn failed(
        shares: &Shares,
        waiters: &[Option<Duration>],
        error: StoreError,
    ) -> (Answers, Option<u64>, bool) {
        let (mut queue, begin) = (queue(waiters), Instant::now());
        let (again, denied) = shares.fail(&mut queue, begin, [0, 1], error, true, |cost, _| cost);
        let denied = denied.map(|denied| denied.cost);
        let replies = queue.replies.into_iter().map(|(_, answer)| {
            answer.map_err(|error| error.source().and_then(|it| it.downcast_ref().copied()))
        });
        (replies.collect(), denied, again >= begin + AFTER_FAILURE)
    }

    #[test]
    fn fail_without_a_fallback_keeps_those_that_wait_and_have_time() {
        let waiters = [Some(DAY), Some(Duration::ZERO), None, Some(DAY)];
        let (timeout, unsent) = (StoreError::Timeout, StoreError::Unavailable);
        let shares = shares(Fallback::FailClosed, false);
        let (answers, denied, pauses) = failed(&shares, &waiters, timeout);
        assert_eq!(answers, [Err(Some(timeout)), Err(Some(unsent))]);
        assert!(denied.is_none() && pauses);
        // Unless waiters get the errors, too.
        let shares = self::shares(Fallback::FailClosed, true);
        let (answers, _, pauses) = failed(&shares, &waiters, timeout);
        let errors = [timeout, timeout, unsent, unsent];
        assert_eq!(answers, errors.map(|error| Err(Some(error))));
        assert!(!pauses, "nobody waits");
    }

    #[test]
    fn fail_with_a_fallback_admits_until_it_denies() {
        let waiters = [Some(DAY); 4];
        let shares = shares(Fallback::Local { share: 1 }, false);
        let (answers, denied, pauses) = failed(&shares, &waiters, StoreError::Timeout);
        assert_eq!(
            (answers, denied, pauses),
            (vec![Ok(4), Ok(4)], Some(4), true)
        );
        let open = self::shares(Fallback::FailOpen, false);
        let (answers, denied, pauses) = failed(&open, &waiters, StoreError::Timeout);
        assert_eq!((answers, denied, pauses), (vec![Ok(4); 4], None, false));
    }

    #[test]
    fn fail_of_several_shares_names_the_one_that_denied() {
        let limits = [10, 6].map(|count| (Quota::per_day(count).burst(count), Algorithm::Gcra));
        let shares = Shares::new(Fallback::Local { share: 1 }, false, limits);
        let (mut queue, begin) = (queue(&[Some(DAY); 2]), Instant::now());
        let (_, denied) = shares.fail(&mut queue, begin, [0], StoreError::Timeout, false, |n, _| n);
        let denied = denied.unwrap();
        assert_eq!((denied.share, denied.cost, queue.len()), (1, 4, 1));
    }

    #[test]
    fn fail_of_a_mistake_is_an_error_of_those_of_the_call() {
        for fallback in [Fallback::FailClosed, Fallback::FailOpen] {
            let error = StoreError::WrongType;
            let (answers, ..) = failed(&shares(fallback, false), &[Some(DAY); 4], error);
            assert_eq!(answers, [Err(Some(error)); 2], "{fallback:?}");
        }
    }

    #[test]
    fn decide_of_several_shares_charges_all_or_none() {
        let limits = [10, 6].map(|count| (Quota::per_day(count).burst(count), Algorithm::Gcra));
        let shares = Shares::new(Fallback::Local { share: 1 }, false, limits);
        let decide = |n, least| shares.decide(n, least, StoreError::Timeout);
        assert_eq!(decide(4, 4).unwrap().0, 4);
        assert!(decide(3, 3).unwrap_err().retry_after().is_some());
        let (n, charges) = decide(9, 1).unwrap();
        assert_eq!(n, 2, "the least of what is left");
        shares.refund(charges, n);
        assert_eq!(decide(9, 1).unwrap().0, 2);
    }

    #[test]
    fn repay_charges_what_was_admitted_once_unless_it_was_not_sent() {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.unwrap();
        let shares = shares(Fallback::Local { share: 1 }, false);
        let repay = |has_failed, peek: Result<(), StoreError>, charge: Result<(), StoreError>| {
            let (mut asked, mut charged) = (false, None);
            let peek = async {
                asked = true;
                peek
            };
            let charge = async |owed: Vec<u64>| {
                charged = Some(owed[0]);
                charge
            };
            let answer = runtime.block_on(shares.repay(has_failed, peek, charge));
            (answer, asked, charged)
        };
        assert_eq!(repay(false, Ok(()), Ok(())), (Ok(()), false, None));
        assert_eq!(repay(true, Ok(()), Ok(())), (Ok(()), true, None));
        // With tokio's clock, which other packages may ask for, each runtime has a share of its own.
        let decide = async { shares.decide(4, 4, StoreError::Timeout).unwrap() };
        drop(runtime.block_on(decide));
        let (timeout, unsent) = (StoreError::Timeout, StoreError::Unavailable);
        assert_eq!(
            repay(false, Err(timeout), Ok(())),
            (Err(timeout), true, None)
        );
        assert_eq!(
            repay(false, Ok(()), Err(unsent)),
            (Err(unsent), true, Some(4))
        );
        assert_eq!(
            repay(false, Ok(()), Err(timeout)),
            (Err(timeout), true, Some(4))
        );
        // It may have been charged.
        assert_eq!(repay(false, Ok(()), Ok(())), (Ok(()), false, None));
    }

    #[test]
    fn charge_beyond_the_share_leaves_no_debt() {
        let quota = Quota::per_day(10).burst(10);
        let share = LocalShare::new(Fallback::Local { share: 2 }, quota, Algorithm::Gcra).unwrap();
        share.charge(3);
        assert_eq!(share.limiter.snapshot().available, 2);
        share.charge(1000);
        assert_eq!(share.limiter.snapshot().in_use, 5);
        assert!(share.acquire(1).is_err());
        assert!(!share.owes(), "the server has counted these");
    }

    #[test]
    fn take_owed_returns_what_was_admitted_and_not_refunded_once() {
        let quota = Quota::per_day(10).burst(10);
        let share = LocalShare::new(Fallback::Local { share: 1 }, quota, Algorithm::Gcra).unwrap();
        share.charge(4);
        let charge = share.acquire(6).unwrap();
        share.refund(charge, 2);
        assert_eq!([share.take_owed(), share.take_owed()], [4, 0]);
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
