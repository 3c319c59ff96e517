//! [`Span`]: when a throttle decided first and last.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;
use tollgate::AcquireError;
use tollgate_observe::{Observer, Place};

/// Observes the time from the first decision to the last.
#[derive(Debug, Default)]
pub(crate) struct Span(Mutex<Option<(Instant, Instant)>>);

impl Span {
    /// Returns the time between the first decision and the last, and forgets both.
    pub(crate) fn take(&self) -> Duration {
        let span = self.0.lock().expect("no code panics under the lock").take();
        span.map_or(Duration::ZERO, |(first, last)| last - first)
    }

    fn decided(&self) {
        let now = Instant::now();
        let mut span = self.0.lock().expect("no code panics under the lock");
        let (_, last) = span.get_or_insert((now, now));
        *last = now.max(*last);
    }
}

impl Observer for Span {
    type Held = ();

    fn admitted(&self, _: Place, _: Option<Duration>) {
        self.decided();
    }

    fn refused(&self, _: Place, _: &AcquireError, _: Option<Duration>) {
        self.decided();
    }
}
