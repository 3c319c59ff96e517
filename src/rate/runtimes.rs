//! [`States`]: the states of a limiter. On tokio's time there is one for each runtime in which it is used,
//! and one for callers outside of all runtimes; on other clocks there is one.
//!
//! The times of two runtimes need not agree, and two runtimes may use a limiter at once, for
//! example the tests of a program with a limiter in a `static`. So each has a [`Shared`] of its
//! own, on a clock that is bound to the runtime, and none ever decides for another. A limiter asks
//! once for each call which state [decides here](States::in_runtime); a state knows nothing of runtimes
//! except that its clock may end.
//!
//! 1. What all states have in common is changed in [`Runtimes`] first, and then in each state. A new
//!    state takes it over under the same lock, so a state that is created at the same time misses no
//!    change. Each change of a state applies what is in `Runtimes` by then, so no
//!    state returns to an earlier quota.
//! 2. A waiter is in the queue of the runtime in which it was first polled, wherever it is polled
//!    later. When that runtime ends, everybody in its queue is refused.
//! 3. A runtime may end between the choice of its state and the call. The time of the state then
//!    stands still, so the call counts as one just before the end; only waiting is refused there.
//! 4. States of runtimes that have ended are dropped when another state is created, so there is never more
//!    than one state beyond the largest number of runtimes that were in use at once.

use std::sync::Arc;

use super::locked::Locked;
use super::options::Config;
use super::shared::Shared;
use crate::algorithm::{QuotaChange, Restored};
use crate::quota::Quota;
use crate::sync::{Mutex, lock};
use crate::time::{Home, RuntimeId, current, current_home};

/// The states of a limiter.
#[derive(Clone)]
pub struct States {
    /// The only state, or that of callers outside of all runtimes.
    pub(super) outside: Arc<Shared>,
    /// On tokio's time.
    pub(super) runtimes: Option<Arc<Mutex<Runtimes>>>,
}

/// The states of the runtimes, and what is the same in all states.
pub(super) struct Runtimes {
    /// The last change of the quota.
    set: (Quota, QuotaChange),
    /// The state with which every other one begins.
    restored: Option<Box<Restored>>,
    closed: bool,
    states: Vec<Arc<Shared>>,
}

impl Runtimes {
    fn find(&self, runtime: RuntimeId) -> Option<Arc<Shared>> {
        let mut states = self.states.iter();
        states.find(|it| it.config.clock.is_of(runtime)).cloned()
    }
}

impl States {
    /// Creates the first state with `outside`. Later states go on from an earlier one, if there is one.
    pub(super) fn new(
        config: &Config,
        restored: Option<Restored>,
        outside: impl FnOnce(Option<&Restored>, Config) -> Arc<Shared>,
    ) -> Self {
        let outside = outside(restored.as_ref(), config.bound(None));
        let runtimes = config.clock.is_of_runtime().then(|| {
            let quota = outside.queue().ledger.quota();
            Arc::new(Mutex::new(Runtimes {
                set: (quota, config.algorithm.on_change()),
                restored: restored.map(Box::new),
                closed: false,
                states: Vec::with_capacity(1),
            }))
        });
        Self { outside, runtimes }
    }

    /// Returns the state of the current runtime, unless the caller is outside.
    pub(super) fn in_runtime(&self, runtimes: &Mutex<Runtimes>) -> Option<Arc<Shared>> {
        let known = lock(runtimes).find(current()?);
        known.or_else(|| self.create(runtimes, current_home()?))
    }

    fn create(&self, runtimes: &Mutex<Runtimes>, home: Arc<Home>) -> Option<Arc<Shared>> {
        let mut locked = lock(runtimes);
        // Another thread has created it.
        if let Some(known) = locked.find(home.id) {
            return Some(known);
        }
        let ended = locked
            .states
            .extract_if(.., |it| it.config.clock.has_ended());
        let ended: Vec<_> = ended.collect();
        let config = self.outside.config.bound(Some(home));
        let state = Shared::new(locked.set, locked.restored.as_deref(), config);
        if locked.closed {
            Locked::new(&state).lock().close();
        }
        locked.states.push(Arc::clone(&state));
        drop(locked);
        drop(ended);
        Some(state)
    }

    /// Returns all states.
    pub(super) fn all(&self) -> Vec<Arc<Shared>> {
        self.change(|_| ())
    }

    pub(super) fn set_quota(&self, quota: Quota, how: QuotaChange) {
        for state in self.change(|common| common.set = (quota, how)) {
            state.change(|ledger, now| {
                let last = self.runtimes.as_ref().map(|common| lock(common).set);
                let (quota, how) = last.unwrap_or((quota, how));
                ledger.set_quota(quota, how, now);
            });
        }
    }

    pub(super) fn close(&self) {
        for state in self.change(|common| common.closed = true) {
            Locked::new(&state).lock().close();
        }
    }

    /// Changes what is common to all states, and returns the states that have taken over the former.
    fn change(&self, change: impl FnOnce(&mut Runtimes)) -> Vec<Arc<Shared>> {
        let mut all = vec![Arc::clone(&self.outside)];
        if let Some(runtimes) = &self.runtimes {
            let mut locked = lock(runtimes);
            change(&mut locked);
            all.extend_from_slice(&locked.states);
        }
        all
    }
}

#[cfg(all(test, feature = "tokio"))]
mod tests {
    use std::task::{Poll, Waker};
    use std::time::Duration;

    use super::super::acquire::{Call, Limiter, Stage};
    use super::*;
    use crate::error::{AcquireError, ErrorKind};
    use crate::{Clock, RateLimiter};

    #[test]
    fn in_runtime_drops_the_states_of_runtimes_that_have_ended() {
        let limiter = RateLimiter::new(Quota::per_day(1)).clock(Clock::tokio());
        let runtime = || tokio::runtime::Builder::new_current_thread().build();
        let here = || limiter.here(Arc::clone);
        let stays = runtime().unwrap();
        let first = stays.block_on(async { here() });
        for _ in 0..1000 {
            let (one, again) = runtime().unwrap().block_on(async { (here(), here()) });
            assert!(Arc::ptr_eq(&one, &again) && !Arc::ptr_eq(&one, &first));
            // One is the outside's, and this one is dropped next time.
            assert!(limiter.states().all().len() <= 3);
        }
        assert!(Arc::ptr_eq(&stays.block_on(async { here() }), &first));
        assert!(Arc::ptr_eq(&here(), limiter.outside()));
    }

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
