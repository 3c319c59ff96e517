//! The deadline of a queue: one timer entry, which is only ever moved earlier.
//!
//! 1. A caller who makes the head of a queue due earlier, or gives it a head, [arms](Deadline::arm)
//!    the deadline, after the lock of the queue. It may be late with that: an earlier deadline stays.
//! 2. The callback [disarms](Deadline::disarm) it first, then looks at the queue, then arms it again.
//!    So an arming since it disarmed is either seen in the queue, or comes after.
//! 3. It may expire early, or for nothing: when a head has left, or was made to wait longer.
//!
//! The lock is a leaf except for that of the timer.

use std::task::Waker;

use super::clock::{Clock, TimerEntry};
use super::tick::Tick;
use crate::sync::{Mutex, const_fn, lock};

/// When to look at a queue again.
pub(crate) struct Deadline(Mutex<Option<Armed>>);

struct Armed {
    due: Tick,
    entry: TimerEntry,
}

impl Deadline {
    const_fn! {
        pub(crate) fn new() -> Self {
            Self(Mutex::new(None))
        }
    }

    /// Wakes `waker` at `due`, or earlier.
    pub(crate) fn arm(&self, clock: &Clock, due: Tick, waker: Waker) {
        let mut armed = lock(&self.0);
        if armed.as_ref().is_some_and(|armed| armed.due <= due) {
            return;
        }
        let entry = clock.start_timer(due, waker);
        let later = armed.replace(Armed { due, entry });
        drop(armed);
        if let Some(later) = later {
            later.entry.cancel();
        }
        clock.catch_up();
    }

    /// Disarms it, whether or not it has expired.
    pub(crate) fn disarm(&self) {
        let armed = lock(&self.0).take();
        if let Some(armed) = armed {
            armed.entry.cancel();
        }
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        self.disarm();
    }
}
