//! The states of a limiter on tokio's time: one for each runtime in which it is used, and one for the
//! outside of all runtimes.
//!
//! The times of two runtimes need not agree, and two runtimes may use a limiter at once, as the tests
//! of a program do with one in a `static`. So each has a [`Shared`] of its own, on a clock that is bound
//! to the runtime, and none ever decides for another.
//!
//! 1. The first `Shared` of a limiter has the table, and decides nothing. It has the quota and
//!    whether the limiter is closed; both are changed there first, and then in each state. A state
//!    takes them over under the lock of the table, so one that is made meanwhile misses neither.
//!    Changes of the quota are numbered, and no state goes back to an earlier one.
//! 2. A waiter is in the queue of the runtime in which it was polled last: polled in another one, it
//!    takes what it was granted, or moves. When a runtime ends, everybody in its queue is woken to
//!    [move](super::queue::QueueEntry::Moves).
//! 3. A state is dropped when its runtime has ended, and nobody is in its queue or has still to take
//!    what is kept there. A waiter that was released by `close` does not keep it: it finds the first
//!    `Shared` instead, which is closed, too.
//! 4. A runtime may end between the choice of its state and the call. The time of the state stands
//!    still then, so the call is one of just before the end; only waiting is refused there.

use std::ops::Deref;
use std::sync::Arc;

use super::charge::Charge;
use super::limiter::RateLimiter;
use super::options::Config;
use super::shared::Shared;
use crate::algorithm::{Tat, fresh_generation};
use crate::time::{ByRuntime, Clock};
use crate::wait_queue::WaiterId;

/// A state of a limiter: its only one, or that of a runtime.
pub(super) enum StateRef<'a> {
    Only(&'a Arc<Shared>),
    OfRuntime(Arc<Shared>),
}

impl Deref for StateRef<'_> {
    type Target = Arc<Shared>;

    fn deref(&self) -> &Arc<Shared> {
        match self {
            Self::Only(shared) => shared,
            Self::OfRuntime(shared) => shared,
        }
    }
}

impl RateLimiter {
    /// Returns the state that decides here.
    pub(super) fn here(&self) -> StateRef<'_> {
        let shared = self.shared();
        match shared.here() {
            None => StateRef::Only(shared),
            Some(here) => StateRef::OfRuntime(here),
        }
    }

    /// Returns the state in whose queue a waiter is.
    pub(super) fn state_of(&self, id: &WaiterId) -> StateRef<'_> {
        let shared = self.shared();
        match shared.find_runtime(|state| state.number == id.queue()) {
            None => StateRef::Only(shared),
            Some(state) => StateRef::OfRuntime(state),
        }
    }
}

impl Shared {
    /// Returns the state of the current runtime, if this one has the table of them.
    pub(super) fn here(&self) -> Option<Arc<Self>> {
        let runtimes = self.runtimes.as_ref()?;
        Some(self.here_in(runtimes))
    }

    #[cold]
    fn here_in(&self, runtimes: &ByRuntime<Self>) -> Arc<Self> {
        runtimes.here(Self::is_unused, |home, number| {
            let config = Config {
                clock: Clock::bound(home),
                ..self.config.clone()
            };
            let queue = self.queue();
            let (quota, changes, closed) = (queue.quota, queue.changes, queue.closed);
            drop(queue);
            let state = Self::build(
                quota,
                config,
                fresh_generation(),
                Tat::from_units(0),
                number,
            );
            state.queue().changes = changes;
            if closed {
                state.lock_state().close();
            }
            state
        })
    }

    fn find_runtime(&self, is: impl Fn(&Self) -> bool) -> Option<Arc<Self>> {
        self.runtimes.as_ref()?.find(is)
    }

    /// Returns the state that made a charge: no two have the same generation. `None` if it can no
    /// longer be refunded.
    pub(super) fn of_charge(&self, charge: &Charge) -> Option<Arc<Self>> {
        let generation = charge.receipt().generation;
        self.find_runtime(|state| state.params.generation() == generation)
    }

    /// Returns whether nobody is in the queue.
    fn is_unused(&self) -> bool {
        let queue = self.queue();
        queue.waiting() == 0 && !queue.waiters.has_kept()
    }

    /// Returns the states of all runtimes.
    pub(super) fn of_runtimes(&self) -> Vec<Arc<Self>> {
        let all = self.runtimes.as_ref().map(|runtimes| runtimes.all());
        all.unwrap_or_default()
    }
}

#[cfg(all(test, feature = "tokio"))]
mod tests {
    use std::task::{Poll, Waker};
    use std::time::Duration;

    use super::super::acquire::Stage;
    use super::*;
    use crate::quota::Quota;
    use crate::time::Clock;

    /// What a call meets whose runtime ends when it has chosen the state.
    #[test]
    fn state_of_a_runtime_that_has_ended_decides_as_of_its_end_and_keeps_nobody_waiting() {
        let limiter = RateLimiter::new(Quota::per_day(1).burst(2)).clock(Clock::tokio());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let (waker, mut waits) = (Waker::noop(), Stage::New);
        let state = runtime.block_on(async {
            let state = Arc::clone(&limiter.here());
            assert!(matches!(
                state.join(3, waker, &mut Stage::New),
                Some(Poll::Ready(Err(_)))
            ));
            state.try_charge(1, 1).unwrap();
            assert_eq!(
                state.join(2, waker, &mut waits).map(|it| it.is_ready()),
                Some(false)
            );
            state
        });
        drop(runtime);
        state.on_deadline();
        let Stage::Waiting(id) = waits else {
            panic!("it does not wait");
        };
        assert!(state.poll_waiter(&id, waker).is_none());
        assert!(state.is_unused());
        state.try_charge(1, 1).unwrap();
        let refused = state.try_charge(1, 1).unwrap_err();
        assert_eq!(refused.retry_after(), Some(Duration::from_secs(86_400)));
        let mut late = Stage::New;
        assert!(state.join(1, waker, &mut late).is_none());
        assert!(matches!(late, Stage::New) && state.is_unused());
    }
}
