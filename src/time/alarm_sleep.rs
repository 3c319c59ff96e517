//! Sleeping on the timer of the process.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::alarm::{Alarm, TIMER};
use super::clock::Clock;
use super::tick::Tick;

/// Ready at a tick of the system clock.
pub(crate) struct AlarmSleep {
    until: Tick,
    alarm: Option<Alarm>,
}

impl AlarmSleep {
    /// Ready after `duration`. There is no runtime to ask for, so `_blocking` makes no difference.
    pub(crate) fn new(duration: Duration, _blocking: bool) -> Self {
        Self {
            until: Clock::system().now().saturating_add(duration),
            alarm: None,
        }
    }
}

impl AlarmSleep {
    /// Polls; `_blocking` as for [`new`](Self::new).
    pub(crate) fn poll_sleep(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        _blocking: bool,
    ) -> Poll<()> {
        if Clock::system().now() >= self.until {
            return Poll::Ready(());
        }
        match self.alarm {
            Some(alarm) => TIMER.set_waker(alarm, context.waker()),
            None => self.alarm = Some(TIMER.set(self.until, context.waker().clone())),
        }
        Poll::Pending
    }
}

impl Drop for AlarmSleep {
    fn drop(&mut self) {
        if let Some(alarm) = self.alarm.take() {
            TIMER.unset(alarm);
        }
    }
}
