//! The alarm of a line: one, which is only ever moved earlier.
//!
//! 1. Whoever makes the head of a line due earlier, or gives it one, [arms](Alarm::arm) the alarm
//!    for it, after the lock of the line. It may be late with that: an earlier alarm stays.
//! 2. Whoever is called takes the alarm [off](Alarm::take_off) first, then looks at the line, then
//!    arms it anew. So what was armed since it took it off is either seen in the line, or armed
//!    after.
//! 3. It may go off early, or for nothing: when a head has left, or was made to wait longer.
//!
//! The lock is a leaf but for that of the timer.

use std::task::Waker;

use super::clock::{self, Clock};
use super::tick::Tick;
use crate::sync::{Mutex, const_fn, lock};

/// When a line is to be looked at again.
pub(crate) struct Alarm(Mutex<Option<Set>>);

struct Set {
    due: Tick,
    alarm: clock::Alarm,
}

impl Alarm {
    const_fn! {
        pub(crate) fn new() -> Self {
            Self(Mutex::new(None))
        }
    }

    /// Has `bell` called at `due`, or earlier.
    pub(crate) fn arm(&self, clock: &Clock, due: Tick, bell: Waker) {
        let mut set = lock(&self.0);
        if set.as_ref().is_some_and(|set| set.due <= due) {
            return;
        }
        let alarm = clock.set_alarm(due, bell);
        let later = set.replace(Set { due, alarm });
        drop(set);
        if let Some(later) = later {
            later.alarm.unset();
        }
        clock.catch_up();
    }

    /// Takes it off, whether or not it has gone off.
    pub(crate) fn take_off(&self) {
        let set = lock(&self.0).take();
        if let Some(set) = set {
            set.alarm.unset();
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.take_off();
    }
}
