//! Limiters of keys: the methods that [`keyed`](crate::keyed) needs beyond the public ones.
//!
//! A key whose calls do not wait is only a [`Tat`], which its charges change directly. When a call
//! has to wait, the key gets a limiter of its own, which starts with that backlog. Tickets of
//! earlier charges stay valid in it, so they can still be refunded.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::acquire::Limiter;
use super::limiter::RateLimiter;
use super::runtimes::States;
use super::shared::Shared;
use crate::algorithm::{Ledger, Origin, QuotaChange, Restored, Tat};
use crate::quota::Quota;
use crate::sync::{Ordering, fence};
use crate::time::Tick;

/// The limiter that is the pattern of all keys. It charges nothing itself.
impl RateLimiter {
    /// Makes windows begin at multiples of their length since the epoch, even after the length changes, so that
    /// those of all keys begin together.
    ///
    /// # Panics
    ///
    /// Panics after the first use.
    #[track_caller]
    pub(crate) const fn aligned(mut self) -> Self {
        self.config.origin = Origin::at(0);
        self.unused()
    }

    /// Returns another handle of the limiter.
    pub(crate) fn handle(&self) -> Self {
        Self {
            config: self.config.clone(),
            states: OnceLock::from(self.states().clone()),
            ..Self::new(self.quota)
        }
    }

    /// Creates the limiter of a key that goes on from a state, in each runtime.
    pub(crate) fn promote_restored(
        &self,
        restored: Restored,
        quota: (Quota, QuotaChange),
    ) -> Arc<Self> {
        let config = self.config.clone();
        let outside = |restored: Option<&_>, config| Shared::new(quota, restored, config);
        let states = States::new(&config, Some(restored), outside);
        Arc::new(Self {
            config,
            states: OnceLock::from(states),
            ..Self::new(quota.0)
        })
    }

    /// Creates the limiter of a key; on tokio's time it begins without charges in each runtime.
    pub(crate) fn promote(&self, ledger: Ledger) -> Arc<Self> {
        let (config, quota) = (self.config.clone(), ledger.quota());
        let states = States::new(&config, None, |_, config| Shared::of_ledger(ledger, config));
        Arc::new(Self {
            config,
            states: OnceLock::from(states),
            ..Self::new(quota)
        })
    }
}

/// The limiter of a key.
impl RateLimiter {
    /// Returns the end of its backlog and its quota, if nobody else has a handle and it owes
    /// nothing. The caller numbers later charges of the key differently: earlier ones, perhaps
    /// refunded or paid off, are forgotten. The result is valid only if no other thread can get a
    /// handle in the meantime.
    pub(crate) fn try_reclaim(self: &Arc<Self>, now: Tick) -> Option<(Tat, Quota)> {
        if self.has_handles() {
            return None;
        }
        let state = self.outside();
        let (queue, tat) = (state.queue(), state.state.load().tat());
        let owes_nothing = tat.end() <= queue.ledger.params().units_at(now);
        owes_nothing.then_some((tat, queue.ledger.quota()))
    }

    /// Returns the nanoseconds after which it owes nothing, in any runtime in use, as of some time
    /// `ago`, or `None` if there is another handle. The result is valid under the condition of
    /// [`try_reclaim`](Self::try_reclaim).
    pub(crate) fn idle_after(self: &Arc<Self>, ago: Duration) -> Option<u64> {
        if self.has_handles() {
            return None;
        }
        let mut states = self.states().all();
        states.retain(|state| !state.config.clock.has_ended());
        let after = states.into_iter().map(|state| {
            let params = state.queue().ledger.params();
            let paid_off = params.tick_at(state.state.load().tat().end());
            let now = state.config.clock.now().as_nanos();
            paid_off.saturating_add(ago).as_nanos().saturating_sub(now)
        });
        Some(after.max().unwrap_or_default())
    }

    /// Returns whether there is a handle other than the caller's; each future has one.
    fn has_handles(self: &Arc<Self>) -> bool {
        // Each state counts once in the limiter, and once here.
        let is_shared = |state: &Arc<Shared>| Arc::strong_count(state) > 2;
        let others = Arc::strong_count(self) > 1 || self.states().all().iter().any(is_shared);
        // This pairs with the release of other threads when they dropped their handles: their
        // writes are visible.
        fence(Ordering::Acquire);
        others
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::fresh_generation;
    use crate::{Algorithm, Clock};

    fn limiter_of_key(clock: impl Into<Clock>) -> Arc<RateLimiter> {
        let quota = Quota::per_second(1);
        let pattern = RateLimiter::new(quota).clock(clock).aligned();
        pattern.promote(Ledger::new(
            Algorithm::Gcra,
            quota,
            Origin::at(0),
            fresh_generation(),
        ))
    }

    #[test]
    fn try_reclaim_beside_a_handle_or_a_reservation_is_none() {
        let limiter = limiter_of_key(Clock::manual());
        let can_reclaim = || limiter.try_reclaim(Tick::default()).is_some();
        assert!(can_reclaim());
        let handle = Arc::clone(&limiter);
        assert!(!can_reclaim());
        drop(handle);
        assert!(can_reclaim());
        let reservation = limiter.reserve().unwrap();
        assert!(!can_reclaim());
        drop(reservation);
        assert!(can_reclaim());
    }

    /// A reservation has a handle of the state of its runtime, which is one of three.
    #[cfg(feature = "tokio")]
    #[test]
    fn idle_after_beside_a_reservation_in_any_runtime_is_none() {
        let limiter = limiter_of_key(Clock::tokio());
        let runtimes = [(); 2].map(|()| {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            runtime.enable_time().start_paused(true).build().unwrap()
        });
        let is_kept = || limiter.idle_after(Duration::ZERO).is_none();
        for place in [None, Some(&runtimes[0]), Some(&runtimes[1])] {
            let _inside = place.map(tokio::runtime::Runtime::enter);
            assert!(!is_kept());
            let reservation = limiter.reserve().unwrap();
            assert!(is_kept());
            drop(reservation);
            assert!(!is_kept());
        }
        let handle = Arc::clone(&limiter);
        assert!(is_kept());
        drop(handle);
        assert!(!is_kept());
    }
}
