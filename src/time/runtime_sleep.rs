//! Sleeping inside or outside a runtime of tokio.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::runtime::Id;

use super::clock::Clock;
use super::runtime::current;
use super::sleep::ClockSleep;

pin_project! {
    /// A future that is ready after a time. It runs on the clock of a throttle; if the throttle has
    /// none, on tokio's timer inside a runtime, and on the timer of the process elsewhere.
    #[project = Projection]
    pub(crate) enum Sleep {
        Tokio {
            #[pin]
            sleep: tokio::time::Sleep,
            runtime: Id,
            // The time that was left at the last poll in the runtime.
            left: Duration,
        },
        Clock {
            #[pin]
            sleep: ClockSleep,
        },
    }
}

impl Sleep {
    /// Creates a sleep of `duration` on this clock, if there is one. `blocking` is true if the
    /// poller blocks its thread. In that case tokio's timer is not used, because the blocked thread
    /// may be the one that drives it.
    pub(crate) fn new(clock: Option<Clock>, duration: Duration, blocking: bool) -> Self {
        let clock = clock.filter(|clock| !clock.is_of_runtime());
        match current() {
            Some(runtime) if clock.is_none() && !blocking => Self::Tokio {
                sleep: tokio::time::sleep(duration),
                runtime,
                left: duration,
            },
            _ => Self::Clock {
                sleep: ClockSleep::new(clock, duration, blocking),
            },
        }
    }

    /// Returns the remaining time. In another runtime, whose time need not agree, that is the time
    /// which was left at the last poll. (An entry of a runtime that has ended counts as elapsed, so
    /// nothing more is known.)
    pub(crate) fn left(&self) -> Duration {
        match self {
            Self::Tokio { runtime, left, .. } if current() != Some(*runtime) => *left,
            Self::Tokio { sleep, .. } => {
                let now = tokio::time::Instant::now();
                sleep.deadline().saturating_duration_since(now)
            }
            Self::Clock { sleep } => sleep.left(),
        }
    }

    /// Polls the sleep; `blocking` has the same meaning as in [`new`](Self::new).
    ///
    /// The poller cannot rely on the timer of another runtime, or on that of a runtime that it
    /// blocks. In these cases the sleep moves, for the remaining time, to a timer that it can rely
    /// on: the first runtime may be gone, and its timer with it.
    pub(crate) fn poll_sleep(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        blocking: bool,
    ) -> Poll<()> {
        let now_left = self.left();
        if let Self::Tokio { runtime, .. } = &*self {
            if blocking || current() != Some(*runtime) {
                self.set(Self::new(None, now_left, blocking));
            }
        }
        match self.project() {
            Projection::Tokio { sleep, left, .. } => {
                *left = now_left;
                sleep.poll(context)
            }
            Projection::Clock { sleep } => sleep.poll_sleep(context, blocking),
        }
    }
}
