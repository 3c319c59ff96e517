//! Sleeping on the clock of a throttle; if it has none, on tokio's timer inside a runtime, and on the
//! timer of the process elsewhere.
//!
//! A sleep that is polled outside of the runtime that it began in moves to the timer that is there, for
//! the time that is left: the first runtime may be gone, and its timer with it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::runtime::Id;
use tokio::time::Instant;

use super::clock::Clock;
use super::clock_sleep::ClockSleep;
use super::runtime::current;

pin_project! {
    /// Ready after a time.
    #[project = Projection]
    pub(crate) enum Sleep {
        Tokio {
            #[pin]
            sleep: tokio::time::Sleep,
            runtime: Id,
        },
        Clock {
            #[pin]
            sleep: ClockSleep,
        },
    }
}

impl Sleep {
    /// Ready after `duration` on this clock, if there is one. `blocking` says that the poller blocks its
    /// thread. Then tokio's timer is not used, because the poller may keep it from being driven.
    pub(crate) fn new(clock: Option<Clock>, duration: Duration, blocking: bool) -> Self {
        let clock = clock.filter(|clock| !clock.is_of_runtime());
        match (clock, current()) {
            (Some(clock), _) => Self::Clock {
                sleep: ClockSleep::new(clock, duration),
            },
            (None, Some(runtime)) if !blocking => Self::Tokio {
                sleep: tokio::time::sleep(duration),
                runtime,
            },
            (None, _) => Self::Clock {
                sleep: ClockSleep::new(Clock::system(), duration),
            },
        }
    }

    /// Returns how much is left of a sleep on a timer that this poller cannot rely on: the timer of
    /// another runtime, or of the one that it blocks.
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
            self.set(Self::new(None, left, blocking));
        }
        match self.project() {
            Projection::Tokio { sleep, .. } => sleep.poll(context),
            Projection::Clock { sleep } => sleep.poll_sleep(context),
        }
    }
}
