//! Sleeps on the timer of a clock.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::clock::{Clock, TimerEntry};
use super::entries::Key;

/// A future that is ready at a tick of a clock.
pub(crate) struct ClockSleep {
    clock: Clock,
    key: Key,
    entry: Option<TimerEntry>,
}

impl ClockSleep {
    /// Creates a sleep of `duration` on this clock, or on the system clock if there is none.
    /// Whether the poller blocks its thread makes no difference.
    pub(crate) fn new(clock: Option<Clock>, duration: Duration, _blocking: bool) -> Self {
        let clock = clock.unwrap_or(Clock::system());
        Self {
            key: Key::new(clock.now().saturating_add(duration)),
            clock,
            entry: None,
        }
    }

    /// Returns the remaining time.
    pub(crate) fn left(&self) -> Duration {
        self.key.due.saturating_since(self.clock.now())
    }

    pub(crate) fn poll_sleep(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        _blocking: bool,
    ) -> Poll<()> {
        if self.left().is_zero() {
            return Poll::Ready(());
        }
        let waker = context.waker().clone();
        // Before the next entry, which has the same key.
        self.entry = None;
        self.entry = Some(self.clock.start_timer(self.key, waker));
        self.clock.catch_up();
        Poll::Pending
    }
}
