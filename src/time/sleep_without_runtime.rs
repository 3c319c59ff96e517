//! Sleeping where no runtime is known: on the clock of a throttle, or on the system clock.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::clock::Clock;
use super::clock_sleep::ClockSleep;

/// Ready after a time.
pub(crate) struct Sleep(ClockSleep);

impl Sleep {
    /// Ready after `duration` on this clock, if there is one. There is no runtime that the poller
    /// could block, so `_blocking` makes no difference.
    pub(crate) fn new(clock: Option<Clock>, duration: Duration, _blocking: bool) -> Self {
        let clock = clock.unwrap_or(Clock::system());
        Self(ClockSleep::new(clock, duration))
    }

    /// Polls; `_blocking` as for [`new`](Self::new).
    pub(crate) fn poll_sleep(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        _blocking: bool,
    ) -> Poll<()> {
        Pin::new(&mut self.0).poll_sleep(context)
    }
}
