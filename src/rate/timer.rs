//! [`QueueTimer`]: the one deadline of a queue, which serves the queue when its head is due.
//!
//! 1. Arming only moves the deadline earlier. The deadline may come early or needlessly; the queue
//!    then computes when its head is due, and arms it again.
//! 2. It holds the limiter weakly, so a limiter that is dropped while its timer is armed is freed.
//! 3. It is armed, and calls the queue, without the lock of the queue.

use std::sync::{Arc, OnceLock, Weak};
use std::task::{Wake, Waker};

use super::shared::Shared;
use crate::time::{Clock, Deadline, Tick};

/// The next time at which the queue of a limiter is served.
pub(super) struct QueueTimer {
    alarm: Deadline,
    shared: Weak<Shared>,
    /// Created for the first waiter.
    waker: OnceLock<Waker>,
}

/// Calls the queue.
struct OnDeadline(Weak<Shared>);

impl Wake for OnDeadline {
    fn wake(self: Arc<Self>) {
        if let Some(shared) = self.0.upgrade() {
            shared.on_deadline();
        }
    }
}

impl QueueTimer {
    pub(super) fn new(shared: Weak<Shared>) -> Self {
        Self {
            alarm: Deadline::new(),
            shared,
            waker: OnceLock::new(),
        }
    }

    /// Arms the timer to call the queue at `due`, or earlier.
    pub(super) fn arm(&self, clock: &Clock, due: Tick) {
        let new = || Waker::from(Arc::new(OnDeadline(Weak::clone(&self.shared))));
        let waker = self.waker.get_or_init(new).clone();
        self.alarm.arm(clock, due, waker);
    }

    /// Disarms the timer, whether or not the deadline has passed.
    pub(super) fn disarm(&self) {
        self.alarm.disarm();
    }
}
