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
//! 2. A waiter is in the queue of the runtime in which it was polled last: polled in another one, it
//!    takes what it was granted, or moves. A runtime that ends closes its queue, which wakes
//!    everybody there to move.
//! 3. A state is dropped when its runtime has ended and nobody is in its queue.

use std::ops::Deref;
use std::sync::Arc;

use super::limiter::RateLimiter;
use super::options::Config;
use super::shared::Shared;
use crate::algorithm::{Tat, fresh_generation};
use crate::time::ByRuntime;
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
        let runtimes = shared.runtimes.as_ref();
        match runtimes.and_then(|runtimes| runtimes.numbered(id.queue())) {
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
        runtimes.here(Self::is_unused, |clock, number| {
            let config = Config {
                clock,
                ..self.config.clone()
            };
            let queue = self.queue();
            let (quota, closed) = (queue.quota, queue.closed);
            drop(queue);
            let state = Self::build(
                quota,
                config,
                fresh_generation(),
                Tat::from_units(0),
                number,
            );
            if closed {
                state.lock_state().close();
            }
            state
        })
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
