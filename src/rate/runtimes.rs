//! The states of a limiter on tokio's time: one for each runtime in which it is used, and one for
//! callers outside of all runtimes.
//!
//! The times of two runtimes need not agree, and two runtimes may use a limiter at once, for
//! example the tests of a program with a limiter in a `static`. So each has a [`Shared`] of its
//! own, on a clock that is bound to the runtime, and none ever decides for another. A limiter asks
//! once for each call which state [decides here](Runtimes::here); a state knows nothing of runtimes
//! except that its clock may end.
//!
//! 1. What all states have in common is changed in [`SharedSettings`] first, and then in each state. A new
//!    state takes it over under the same lock, so a state that is created at the same time misses no
//!    change. Each change of a state applies what is in `SharedSettings` by then, so no
//!    state returns to an earlier quota.
//! 2. A waiter is in the queue of the runtime in which it was first polled, wherever it is polled
//!    later. When that runtime ends, everybody in its queue is refused.
//! 3. A runtime may end between the choice of its state and the call. The time of the state then
//!    stands still, so the call counts as one just before the end; only waiting is refused there.

use std::sync::Arc;

use super::options::Config;
use super::shared::Shared;
use crate::algorithm::QuotaChange;
use crate::quota::Quota;
use crate::time::{ByRuntime, Clock, Home};

/// The states of the runtimes.
pub(super) struct Runtimes(ByRuntime<SharedSettings, Shared>);

/// What is the same in all runtimes.
#[derive(Clone, Copy)]
struct SharedSettings {
    quota: Quota,
    how: QuotaChange,
    closed: bool,
}

impl Runtimes {
    /// Creates the states of a limiter, if each runtime has one on its clock.
    pub(super) fn new(quota: Quota, config: &Config) -> Option<Arc<Self>> {
        let states = config.clock.states(SharedSettings {
            quota,
            how: config.algorithm.on_change(),
            closed: false,
        });
        states.map(|states| Arc::new(Self(states)))
    }

    /// Returns the state of the current runtime.
    pub(super) fn here(&self, config: &Config) -> Arc<Shared> {
        self.0.here(|home, common| common.new_state(home, config))
    }

    /// Returns the state of callers outside of all runtimes.
    pub(super) fn outside(&self, config: &Config) -> Arc<Shared> {
        self.0
            .outside(|home, common| common.new_state(home, config))
    }

    /// Returns all states.
    pub(super) fn all(&self) -> Vec<Arc<Shared>> {
        self.0.all()
    }

    pub(super) fn set_quota(&self, quota: Quota, how: QuotaChange) {
        let change = |common: &mut SharedSettings| (common.quota, common.how) = (quota, how);
        for state in self.0.change(change) {
            state.change(|ledger, now| {
                let SharedSettings { quota, how, .. } = self.0.common();
                ledger.set_quota(quota, how, now);
            });
        }
    }

    pub(super) fn close(&self) {
        for state in self.0.change(|common| common.closed = true) {
            state.lock_state().close();
        }
    }

    pub(super) fn quota(&self) -> Quota {
        self.0.common().quota
    }

    pub(super) fn is_closed(&self) -> bool {
        self.0.common().closed
    }
}

impl SharedSettings {
    fn new_state(self, home: Arc<Home>, config: &Config) -> Arc<Shared> {
        let config = Config {
            clock: Clock::bound(home),
            ..config.clone()
        };
        let state = Shared::new(self.quota, config);
        if self.closed {
            state.lock_state().close();
        }
        state
    }
}

#[cfg(all(test, feature = "tokio"))]
mod tests {
    use std::task::{Poll, Waker};
    use std::time::Duration;

    use super::super::acquire::{Call, Limiter, Stage};
    use super::*;
    use crate::RateLimiter;
    use crate::error::{AcquireError, ErrorKind};

    /// Ends a runtime after a call has chosen its state.
    #[test]
    fn state_of_a_runtime_that_has_ended_decides_as_of_its_end_and_keeps_nobody_waiting() {
        let limiter = RateLimiter::new(Quota::per_day(1).burst(2)).clock(Clock::tokio());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let (waker, mut waits) = (Waker::noop(), Call::new(2));
        let state = runtime.block_on(async {
            let state = limiter.here(Arc::clone);
            let too_large = Call::new(3).join(&state, waker);
            assert!(matches!(too_large, Poll::Ready(Err(_))));
            state.decide(1).unwrap();
            assert!(waits.join(&state, waker).is_pending());
            state
        });
        let is_unused = || state.queue().waiters.is_empty() && !state.queue().waiters.has_kept();
        drop(runtime);
        state.on_deadline();
        let ended = |polled| match polled {
            Poll::Ready(Err(error)) => AcquireError::kind(&error) == ErrorKind::RuntimeEnded,
            _ => false,
        };
        assert!(ended(waits.wait(waker)) && is_unused());
        state.decide(1).unwrap();
        let refused = state.decide(1).unwrap_err();
        assert_eq!(refused.retry_after(), Some(Duration::from_secs(86_400)));
        let mut late = Call::new(1);
        assert!(ended(late.join(&state, waker)));
        assert!(matches!(late.stage, Stage::Over) && is_unused());
    }
}
