//! Sleeping on tokio's timer inside a runtime, and on the timer of the process elsewhere.
//!
//! A sleep that finds itself polled outside of the runtime that it began in goes over to what is
//! there, for the time that is left: the first runtime may be gone, and its timer with it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project::pin_project;
use tokio::runtime::{Handle, Id};
use tokio::time::Instant;

use super::alarm_sleep::AlarmSleep;

/// Ready after a time.
#[pin_project(project = Projection)]
pub(crate) enum Sleep {
    Tokio {
        #[pin]
        sleep: tokio::time::Sleep,
        runtime: Id,
    },
    Alarm(#[pin] AlarmSleep),
}

impl Sleep {
    /// Ready after `duration`. `blocking` says that the poller blocks its thread: then tokio's
    /// timer might be the one that it keeps from being driven, and is not used.
    pub(crate) fn new(duration: Duration, blocking: bool) -> Self {
        match current() {
            Some(runtime) if !blocking => Self::Tokio {
                sleep: tokio::time::sleep(duration),
                runtime,
            },
            _ => Self::Alarm(AlarmSleep::new(duration, blocking)),
        }
    }

    /// How much is left of a sleep on a timer that this poller cannot rely on: that of another
    /// runtime, or of the one that it blocks.
    fn left_elsewhere(&self, blocking: bool) -> Option<Duration> {
        match self {
            Self::Tokio { sleep, runtime } if blocking || current() != Some(*runtime) => {
                Some(sleep.deadline().saturating_duration_since(Instant::now()))
            }
            _ => None,
        }
    }

    /// Polls; `blocking` as for [`new`](Self::new).
    pub(crate) fn poll_sleep(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        blocking: bool,
    ) -> Poll<()> {
        if let Some(left) = self.left_elsewhere(blocking) {
            self.set(Self::new(left, blocking));
        }
        match self.project() {
            Projection::Tokio { sleep, .. } => sleep.poll(context),
            Projection::Alarm(sleep) => sleep.poll_sleep(context, blocking),
        }
    }
}

/// The runtime that polls.
fn current() -> Option<Id> {
    Handle::try_current().ok().map(|handle| handle.id())
}
