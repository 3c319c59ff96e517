//! The states of a limiter on tokio's time: one for each runtime in which it is used, and one for
//! callers outside of all runtimes.
//!
//! The times of two runtimes need not agree, and two runtimes may use a limiter at once, for
//! example the tests of a program with a limiter in a `static`. So each has a [`Shared`] of its
//! own, on a clock that is bound to the runtime, and none ever decides for another.
//!
//! 1. The first `Shared` of a limiter has the table, and decides nothing. It has the quota and
//!    whether the limiter is closed; both are changed there first, and then in each state. A new
//!    state takes them over under the lock of the table, so a state that is created at the same
//!    time misses neither. Changes of the quota are numbered, and no state returns to an earlier
//!    one.
//! 2. A waiter is in the queue of the runtime in which it was last polled. When it is polled in
//!    another runtime, it collects its grant, or moves. When a runtime ends, everybody in its queue
//!    is woken to [move](super::waiters::QueueEntry::Moves).
//! 3. The table forgets a state whose runtime has ended when it creates another one. A waiter keeps
//!    the state in whose queue it is.
//! 4. A runtime may end between the choice of its state and the call. The time of the state then
//!    stands still, so the call counts as one just before the end; only waiting is refused there.

use std::sync::Arc;

use super::options::Config;
use super::shared::Shared;
use crate::time::{ByRuntime, Clock};

impl Shared {
    /// Calls `run` with the state that decides here: this one, or that of the current runtime.
    pub(super) fn here<R>(&self, run: impl FnOnce(&Self) -> R) -> R {
        let state = self.in_runtime();
        run(state.as_deref().unwrap_or(self))
    }

    /// Returns the state of the current runtime, if this state has the table.
    #[inline]
    pub(super) fn in_runtime(&self) -> Option<Arc<Self>> {
        let runtimes = self.runtimes.as_ref()?;
        Some(self.find_or_create(runtimes))
    }

    #[cold]
    fn find_or_create(&self, runtimes: &ByRuntime<Self>) -> Arc<Self> {
        runtimes.here(|home| {
            let config = Config {
                clock: Clock::bound(home),
                ..self.config.clone()
            };
            let queue = self.queue();
            let (quota, changes, closed) = (queue.ledger().quota(), queue.changes, queue.closed);
            drop(queue);
            let state = Self::new(quota, config);
            state.queue().changes = changes;
            if closed {
                state.lock_state().close();
            }
            state
        })
    }

    /// Returns the states of all runtimes.
    pub(super) fn of_runtimes(&self) -> Vec<Arc<Self>> {
        let runtimes = self.runtimes.as_ref();
        runtimes.map(ByRuntime::all).unwrap_or_default()
    }
}

#[cfg(all(test, feature = "tokio"))]
mod tests {
    use super::super::acquire::Limiter;
    use std::task::{Poll, Waker};
    use std::time::Duration;

    use super::super::acquire::{Call, Stage};
    use super::*;
    use crate::RateLimiter;
    use crate::quota::Quota;

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
            let state = limiter.shared().in_runtime().unwrap();
            assert!(matches!(
                Call::new(3).join(&state, waker),
                Some(Poll::Ready(Err(_)))
            ));
            state.try_acquire_many(1).unwrap();
            assert!(matches!(waits.join(&state, waker), Some(Poll::Pending)));
            state
        });
        let is_unused = || state.queue().waiters.is_empty() && !state.queue().waiters.has_kept();
        drop(runtime);
        state.on_deadline();
        let Stage::Waiting(waiter) = &mut waits.stage else {
            panic!("it does not wait");
        };
        assert!(waiter.poll(waker).is_none());
        assert!(is_unused());
        state.try_acquire_many(1).unwrap();
        let refused = state.try_acquire_many(1).unwrap_err();
        assert_eq!(refused.retry_after(), Some(Duration::from_secs(86_400)));
        let mut late = Call::new(1);
        assert!(late.join(&state, waker).is_none());
        assert!(matches!(late.stage, Stage::New) && is_unused());
    }
}
