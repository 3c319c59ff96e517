//! Sleeping on the timer of a clock.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::clock::{Alarm, Clock};
use super::tick::Tick;

/// Ready at a tick of a clock.
pub(crate) struct ClockSleep {
    clock: Clock,
    until: Tick,
    alarm: Option<Alarm>,
}

impl ClockSleep {
    pub(crate) fn new(clock: Clock, duration: Duration) -> Self {
        Self {
            until: clock.now().saturating_add(duration),
            clock,
            alarm: None,
        }
    }

    pub(crate) fn poll_sleep(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.clock.now() >= self.until {
            return Poll::Ready(());
        }
        match &self.alarm {
            Some(alarm) => alarm.set_waker(context.waker()),
            None => {
                let alarm = self.clock.set_alarm(self.until, context.waker().clone());
                self.alarm = Some(alarm);
            }
        }
        self.clock.catch_up();
        Poll::Pending
    }
}

impl Drop for ClockSleep {
    fn drop(&mut self) {
        if let Some(alarm) = self.alarm.take() {
            alarm.unset();
        }
    }
}
