//! Sleeping on the timer of a clock.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::clock::{Clock, TimerEntry};
use super::tick::Tick;

/// Ready at a tick of a clock.
pub(crate) struct ClockSleep {
    clock: Clock,
    until: Tick,
    entry: Option<TimerEntry>,
}

impl ClockSleep {
    pub(crate) fn new(clock: Clock, duration: Duration) -> Self {
        Self {
            until: clock.now().saturating_add(duration),
            clock,
            entry: None,
        }
    }

    pub(crate) fn poll_sleep(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.clock.now() >= self.until {
            return Poll::Ready(());
        }
        match &self.entry {
            Some(entry) => entry.set_waker(context.waker()),
            None => {
                let entry = self.clock.start_timer(self.until, context.waker().clone());
                self.entry = Some(entry);
            }
        }
        self.clock.catch_up();
        Poll::Pending
    }
}

impl Drop for ClockSleep {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            entry.cancel();
        }
    }
}
