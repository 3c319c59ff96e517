//! Limiters of keys: what [`keyed`](crate::keyed) needs of a limiter beyond its public methods.
//!
//! A key whose calls do not wait is only a [`Tat`], which its charges change directly. When a call
//! has to wait, the key gets a limiter of its own, which starts with that backlog. Tickets of
//! earlier charges stay valid in it, so they can still be refunded.

use std::sync::Arc;
use std::time::Duration;

use super::acquire::Acquire;
use super::charge::Charge;
use super::config::Config;
use super::limiter::RateLimiter;
use super::options::Oversize;
use super::shared::Shared;
use crate::algorithm::{Algorithm, Tat};
use crate::error::{AcquireError, ErrorKind};
use crate::quota::Quota;
use crate::sync::{Ordering, fence};
use crate::time::{Clock, Tick};
use crate::wait::Waiting;

/// What the limiters of all keys share.
pub(crate) struct Template(Arc<Shared>);

/// The limiter of one key.
#[derive(Clone)]
pub struct DedicatedLimiter(Arc<RateLimiter>);

impl RateLimiter {
    /// Returns a template of its quota and options, for the limiters of many keys.
    pub(crate) fn template(&self) -> Template {
        let (quota, config) = self.chosen();
        let config = Config {
            aligned: true,
            ..config.clone()
        };
        Template(Shared::new(quota, config))
    }
}

impl Template {
    pub(crate) fn clock(&self) -> &Clock {
        self.0.clock()
    }

    pub(crate) fn algorithm(&self) -> Algorithm {
        self.0.config.algorithm
    }

    /// Returns whether a cost above the burst is refused.
    pub(crate) fn refuses_oversize(&self) -> bool {
        self.0.config.oversize == Oversize::Refuse
    }

    /// Returns the error of a call that is refused until `due`.
    pub(crate) fn limited(&self, due: Tick, now: Tick) -> AcquireError {
        self.0.limited(due, now)
    }

    /// Returns the error for a new key without room, with the nanoseconds after which there may be
    /// room, if known.
    pub(crate) fn no_room(&self, after: Option<u64>) -> AcquireError {
        match after {
            Some(nanos) => {
                let after = self.0.jittered(Duration::from_nanos(nanos));
                AcquireError::too_many_keys(after)
            }
            None => AcquireError::new(ErrorKind::TooManyKeys),
        }
    }

    /// Returns the error for a full queue if no call may ever wait; otherwise the queue has a
    /// place.
    pub(crate) fn queue_full(&self, after: Duration) -> Option<AcquireError> {
        let none = self.0.config.max_waiters == 0;
        none.then(|| AcquireError::queue_full(self.0.jittered(after)))
    }

    /// Creates the limiter of a key with a backlog.
    pub(crate) fn promote(&self, quota: Quota, generation: u64, tat: Tat) -> DedicatedLimiter {
        let config = self.0.config.clone();
        let shared = Shared::owing(quota, config, generation, tat);
        DedicatedLimiter(Arc::new(RateLimiter::of_shared(shared)))
    }
}

impl DedicatedLimiter {
    /// Returns the end of its backlog and its quota, if forgetting the rest loses nothing: there is
    /// no other handle and no waiter, it is open, and every charge ever made is paid off. Only
    /// valid where no other thread can get a handle meanwhile.
    pub(crate) fn try_reclaim(&self, now: Tick) -> Option<(Tat, Quota)> {
        let shared = self.0.shared();
        if Arc::strong_count(&self.0) > 1 || Arc::strong_count(shared) > 1 {
            return None;
        }
        // Pairs with the release with which other threads dropped their handles: their writes are
        // visible.
        fence(Ordering::Acquire);
        let unit = shared.params.load().units_at(now);
        let tat = shared.state.load().tat();
        let tickets = tat.end().checked_add(shared.params.refunded())?;
        if tickets > unit {
            return None;
        }
        let queue = shared.queue();
        let is_idle = queue.waiting() == 0 && !queue.is_closed();
        is_idle.then_some((tat, queue.quota))
    }

    /// Returns the limiter itself.
    pub(crate) fn limiter(&self) -> &RateLimiter {
        &self.0
    }

    pub(crate) fn acquire(self, cost: u64) -> Waiting<Acquire<Arc<RateLimiter>>> {
        self.0.acquire_many_owned(cost)
    }

    pub(crate) fn refund(&self, charge: &Charge, cost: u64) {
        self.0.shared().refund(charge, cost);
    }
}
