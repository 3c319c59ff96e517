//! Limiters of keys: what [`keyed`](crate::keyed) needs of a limiter beyond its public methods.
//!
//! A key whose calls do not wait is only a [`Tat`], which its charges change directly. When a call
//! has to wait, the key gets a limiter of its own, which starts with that backlog. Tickets of
//! earlier charges stay valid in it, so they can still be refunded.

use std::sync::Arc;
use std::time::Duration;

use super::charge::Charge;
use super::limiter::RateLimiter;
use super::options::Oversize;
use super::shared::Shared;
use crate::algorithm::{Algorithm, Tat};
use crate::error::{AcquireError, ErrorKind};
use crate::quota::Quota;
use crate::sync::{Ordering, fence};
use crate::time::{Clock, Tick};

/// The limiter that those of all keys are like. It charges nothing itself.
impl RateLimiter {
    /// Lets windows begin at the multiples of their length, also after the length changes, so that those
    /// of all keys begin together.
    ///
    /// # Panics
    ///
    /// Panics after the first use.
    #[track_caller]
    pub(crate) const fn aligned(self) -> Self {
        let mut limiter = self.unused();
        limiter.config.aligned = true;
        limiter
    }

    pub(crate) const fn chosen_algorithm(&self) -> Algorithm {
        self.config.algorithm
    }

    pub(crate) fn resolved_clock(&self) -> &Clock {
        self.shared().clock()
    }

    /// Returns whether a cost above the burst is refused.
    pub(crate) fn refuses_oversize(&self) -> bool {
        self.shared().refuses_oversize()
    }

    /// Creates the limiter of a key with a backlog.
    pub(crate) fn promote(&self, quota: Quota, generation: u64, tat: Tat) -> Arc<Self> {
        let shared = Shared::build(quota, self.shared().config.clone(), generation, tat, 0);
        Arc::new(Self::of_shared(shared))
    }

    /// Returns the error of a call that is refused until `due`.
    pub(crate) fn limited(&self, due: Tick, now: Tick) -> AcquireError {
        self.shared().limited(due, now)
    }

    /// Returns the error for a new key without room, with the nanoseconds after which there may be
    /// room, if known.
    pub(crate) fn no_room(&self, after: Option<u64>) -> AcquireError {
        let Some(nanos) = after else {
            return AcquireError::new(ErrorKind::TooManyKeys);
        };
        let after = self.shared().jittered(Duration::from_nanos(nanos));
        AcquireError::after(ErrorKind::TooManyKeys, after)
    }

    /// Returns the error for a full queue if no call may ever wait; otherwise the queue has a
    /// place.
    pub(crate) fn queue_full(&self, after: Duration) -> Option<AcquireError> {
        let none = self.config.max_waiters == 0;
        none.then(|| AcquireError::after(ErrorKind::QueueFull, self.shared().jittered(after)))
    }
}

/// The limiter of a key.
impl RateLimiter {
    /// Returns the end of its backlog and its quota, if forgetting the rest loses nothing: there is
    /// no other handle and no waiter, it is open, and every charge ever made is paid off. Only
    /// valid where no other thread can get a handle meanwhile.
    pub(crate) fn try_reclaim(self: &Arc<Self>, now: Tick) -> Option<(Tat, Quota)> {
        if self.has_handles() {
            return None;
        }
        let shared = self.shared();
        let unit = shared.params.load().units_at(now);
        let tat = shared.state.load().tat();
        let tickets = tat.end().checked_add(shared.params.refunded())?;
        if tickets > unit {
            return None;
        }
        let queue = shared.queue();
        let is_idle = queue.waiting() == 0 && !queue.closed;
        is_idle.then_some((tat, queue.quota))
    }

    /// Returns the nanoseconds after which no runtime in use owes anything, as of some time `ago`.
    /// `None` if there is another handle. Only valid like [`try_reclaim`](Self::try_reclaim).
    pub(crate) fn idle_after(self: &Arc<Self>, ago: Duration) -> Option<u64> {
        if self.has_handles() {
            return None;
        }
        let states = self.shared().of_runtimes();
        let in_use = states.iter().filter(|state| !state.clock().has_ended());
        let after = in_use.map(|state| {
            let (_, inverse) = state.queue().rule.params();
            let paid_off = inverse.tick_at(state.state.load().tat().end());
            let now = state.clock().now().as_nanos();
            paid_off.saturating_add(ago).as_nanos().saturating_sub(now)
        });
        Some(after.max().unwrap_or_default())
    }

    /// Returns whether there is another handle than the caller's; each waiter has one.
    fn has_handles(self: &Arc<Self>) -> bool {
        let others = Arc::strong_count(self) > 1 || Arc::strong_count(self.shared()) > 1;
        // Pairs with the release with which other threads dropped their handles: their writes are
        // visible.
        fence(Ordering::Acquire);
        others
    }

    /// Refunds a part of a charge.
    pub(crate) fn refund_part(&self, charge: &Charge, cost: u64) {
        self.shared().refund(charge, cost);
    }
}

impl Shared {
    /// Returns the most that one call may ask for now, without the lock.
    pub(super) fn max_units(&self) -> u64 {
        match self.refuses_oversize() {
            // Two of the numbers may be of different quotas.
            true => self.params.load().burst().max(1),
            false => u64::MAX,
        }
    }

    /// Returns what adapters take at once now, without the lock.
    pub(super) fn chunk_units(&self) -> u64 {
        self.params.chunk()
    }

    /// Returns whether a cost above the burst is refused.
    fn refuses_oversize(&self) -> bool {
        self.config.oversize == Oversize::Refuse
    }
}
