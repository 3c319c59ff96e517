//! What the tests share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderValue, StatusCode};
use tollgate::Clock;
use tollgate::time::ManualClock;
use tollgate_http::{Call, NextStep, Paused, Pauses};

pub(crate) const ORIGIN: &str = "https://example.com:443";

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// Returns pauses without jitter, for calls that wait for a minute, on a manual clock.
pub(crate) fn exact() -> (Pauses, ManualClock) {
    let clock = Clock::manual();
    let pauses = Pauses::new().jitter_percent(0).max_wait(60 * SECOND);
    (pauses.clock(&clock), clock)
}

/// The fields of a response that asks for a wait, if it does.
pub(crate) fn wait_of(seconds: Option<u64>) -> HeaderMap {
    let field = |seconds| (RETRY_AFTER, HeaderValue::from(seconds));
    seconds.map(field).into_iter().collect()
}

/// A call of a test.
pub(crate) struct Caller {
    pub(crate) call: Call<&'static str>,
    woken: Arc<Count>,
}

struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Caller {
    pub(crate) fn new(pauses: &Pauses) -> Self {
        Self::of(pauses, ORIGIN)
    }

    pub(crate) fn of(pauses: &Pauses, origin: &'static str) -> Self {
        let woken = Arc::new(Count(AtomicUsize::new(0)));
        Self {
            call: pauses.call(origin),
            woken,
        }
    }

    pub(crate) fn poll(&mut self) -> Poll<Result<(), Paused>> {
        let waker = Waker::from(Arc::clone(&self.woken));
        self.call.poll_ready(&mut Context::from_waker(&waker))
    }

    pub(crate) fn waits(&mut self) -> bool {
        self.poll().is_pending()
    }

    pub(crate) fn passes(&mut self) -> bool {
        self.poll() == Poll::Ready(Ok(()))
    }

    pub(crate) fn refused(&mut self) -> Paused {
        match self.poll() {
            Poll::Ready(Err(paused)) => paused,
            polled => panic!("it is not refused: {polled:?}"),
        }
    }

    /// Returns whether the call was woken since the last time.
    pub(crate) fn was_woken(&self) -> bool {
        self.woken.0.swap(0, Ordering::Relaxed) > 0
    }

    /// Passes and sends the request.
    pub(crate) fn sends(&mut self) -> bool {
        self.passes() && self.call.send()
    }

    /// Reads a response with this status, and the seconds of its `Retry-After`, if it has one.
    pub(crate) fn answered(&mut self, status: u16, seconds: Option<u64>) -> NextStep {
        let status = StatusCode::from_u16(status).unwrap();
        self.call.answered(status, &wait_of(seconds), true)
    }

    /// Sends the request, and reads a success.
    pub(crate) fn succeeds(&mut self) -> bool {
        self.sends() && self.answered(200, None) == NextStep::Return
    }
}

/// Sends a request that is refused.
pub(crate) fn refuse(pauses: &Pauses, status: u16, seconds: Option<u64>) {
    let mut caller = Caller::new(pauses);
    assert!(caller.sends());
    caller.answered(status, seconds);
}
