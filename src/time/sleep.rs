//! Sleeping on the clock of a throttle; if it has none, on tokio's timer inside a runtime, and on the
//! timer of the process elsewhere.
//!
//! A sleep that is polled outside of the runtime that it began in moves to the timer that is there, for
//! the time that is left: the first runtime may be gone, and its timer with it.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::clock::{Clock, TimerEntry};
use super::runtime;
use super::tick::Tick;

pin_project! {
    /// Ready after a time.
    #[project = Projection]
    pub(crate) enum Sleep {
        Runtime {
            #[pin]
            sleep: runtime::Sleep,
        },
        Clock {
            clock: Clock,
            until: Tick,
            entry: Option<TimerEntry>,
        },
    }
}

impl Sleep {
    /// Ready after `duration` on this clock, if there is one. `blocking` says that the poller blocks its
    /// thread. Then tokio's timer is not used, because the poller may keep it from being driven.
    pub(crate) fn new(clock: Option<Clock>, duration: Duration, blocking: bool) -> Self {
        let clock = clock.filter(|clock| !clock.is_of_runtime());
        if clock.is_none() && !blocking {
            if let Some(sleep) = runtime::Sleep::new(duration) {
                return Self::Runtime { sleep };
            }
        }
        let clock = clock.unwrap_or(Clock::system());
        Self::Clock {
            until: clock.now().saturating_add(duration),
            clock,
            entry: None,
        }
    }

    /// Polls; `blocking` as for [`new`](Self::new).
    pub(crate) fn poll_sleep(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        blocking: bool,
    ) -> Poll<()> {
        if let Self::Runtime { sleep } = &*self {
            if let Some(left) = sleep.left_elsewhere(blocking) {
                self.set(Self::new(None, left, blocking));
            }
        }
        let (clock, until, entry) = match self.project() {
            Projection::Runtime { sleep } => return sleep.poll_sleep(context),
            Projection::Clock {
                clock,
                until,
                entry,
            } => (clock, *until, entry),
        };
        if clock.now() >= until {
            return Poll::Ready(());
        }
        let waker = context.waker().clone();
        match entry {
            Some(entry) => entry.set_waker(waker),
            None => *entry = Some(clock.start_timer(until, waker)),
        }
        clock.catch_up();
        Poll::Pending
    }
}
