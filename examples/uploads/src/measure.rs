//! Measures the maximum rate of requests of the embedded server: sends more requests than the server
//! accepts until [`Found`] finds no higher rate.
//!
//! An adaptive rate stays below the limit most of the time, so that few requests are refused. The server's
//! bucket is full then, and the found rate is several percent too low. Here requests arrive faster
//! than the server accepts them, so that the bucket stays empty.
//!
//! 1. The requests are unsigned and pass the same cap as others. The server counts them. It refuses
//!    those above its rate before it rejects the others for their missing signature.
//! 2. The pace settles where about a third of the requests is refused. That leaves enough requests to
//!    empty the bucket when some are late.
//! 3. The measurement ends when the rate has not risen for [`PATIENCE`], when no request is refused at
//!    the highest pace, after [`LONGEST`] at the latest, or when a request cannot be made.
//!
//! The measurement is for the embedded server only. The program does not overload other servers for a figure.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use object_store::client::{HttpClient, HttpRequest, HttpRequestBody};
use tollgate::{Quota, RateLimiter};

use crate::gauge::is_refusal;

/// The longest time of a measurement.
const LONGEST: Duration = Duration::from_secs(15);

/// The maximum number of requests in flight.
const PARALLEL: usize = 8;

/// The highest pace, per second. No client in one process reaches it.
const HIGHEST: f64 = 100_000.0;

/// The factors by which an accepted and a refused request change the pace.
const FASTER: f64 = 1.02;
const SLOWER: f64 = 0.96;

/// The time within which the found rate must rise, and the factor by which it must rise.
const PATIENCE: Duration = Duration::from_secs(3);
const RISE: f64 = 1.005;

/// Sends requests until the rate is found, at `start` per second at first, and never more than
/// `parallel` at once.
pub(crate) async fn measure(
    client: &HttpClient,
    endpoint: &str,
    found: &Found,
    start: f64,
    parallel: usize,
) {
    let pace = Mutex::new(Pace::new(start));
    let limiter = RateLimiter::new(quota(start));
    let sender = async || {
        while limiter.acquire().await.is_ok() {
            let mut request = HttpRequest::new(HttpRequestBody::empty());
            let Ok(uri) = endpoint.parse() else { break };
            *request.uri_mut() = uri;
            let Ok(answer) = client.execute(request).await else {
                break;
            };
            let (now, found) = (Instant::now(), found.rate());
            let rate = {
                let mut pace = pace.lock().unwrap_or_else(PoisonError::into_inner);
                pace.answered(now, is_refusal(answer.status()), found);
                if pace.is_over(now) {
                    break;
                }
                pace.rate
            };
            limiter.set_quota(quota(rate));
        }
        // Closing the limiter ends the other senders too.
        limiter.close();
    };
    let senders = (0..parallel.min(PARALLEL)).map(|_| sender());
    // A timeout is not a failure: the rate found so far is the result.
    let _ = tokio::time::timeout(LONGEST, join_all(senders)).await;
}

/// Returns a quota that spaces requests evenly at this rate.
fn quota(rate: f64) -> Quota {
    Quota::new(1, Duration::from_secs_f64(1.0 / rate))
}

/// The pace of the requests, and the condition for the end.
#[derive(Debug)]
struct Pace {
    rate: f64,
    /// The found rate at its last rise, and the time of that rise.
    risen: Option<(f64, Instant)>,
}

impl Pace {
    fn new(rate: f64) -> Pace {
        Pace { rate, risen: None }
    }

    fn answered(&mut self, now: Instant, is_refused: bool, found: Option<f64>) {
        let change = if is_refused { SLOWER } else { FASTER };
        self.rate = (self.rate * change).min(HIGHEST);
        if let Some(found) = found
            && self.risen.is_none_or(|(rate, _)| found > rate * RISE)
        {
            self.risen = Some((found, now));
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        match self.risen {
            Some((_, at)) => now - at >= PATIENCE,
            // No request is refused, even at the highest pace.
            None => self.rate == HIGHEST,
        }
    }
}

// [`Found`] finds the rate of requests that a server accepts, from the refusals that the client sees.
//
// A server that limits a rate with a token bucket has less than one token when it refuses a request,
// whatever its burst is. So from one refusal to another it accepts at most its rate times the time
// between them, plus one request. It accepts less only if the bucket was full meanwhile.
//
// 1. A window begins at any refusal and ends at any later one. It counts the requests that were sent after
//    the first refusal was recorded and whose answer was recorded before the second one. Its length is the
//    time from sending the first refused request to recording the second refusal.
// 2. The time of an answer is read from the clock under the lock. So no answer counts in a window
//    that ended before it arrived, even if a thread is preempted between an answer and its record.
// 3. So the count of a window, minus one request, is a lower bound of the server's rate, whenever the
//    server decided. A stall of the client, of the network or of the server can only lower it.
// 4. The found rate is the highest rate of any window. Longer windows and a bucket that is full less
//    often bring it closer to the server's rate: see [`measure`](crate::measure).

/// The minimum number of requests of a window, so that one less is 5 %.
const FEWEST: u32 = 20;

/// The maximum number of open windows. Above it, the oldest window is dropped.
const OPEN: usize = 500;

/// The rate that the answers show.
#[derive(Debug, Default)]
pub(crate) struct Found(Mutex<Windows>);

#[derive(Debug, Default)]
struct Windows {
    /// The open windows, in the order in which they begin.
    open: VecDeque<Window>,
    rate: Option<f64>,
}

#[derive(Debug)]
struct Window {
    /// The time at which the first refused request was sent, and the time at which its refusal was recorded.
    began: (Instant, Instant),
    accepted: u32,
}

impl Found {
    /// Records an answer that has arrived, and whether it is a refusal.
    pub(crate) fn answered(&self, sent: Instant, is_refused: bool) {
        self.answered_by(Instant::now, sent, is_refused);
    }

    /// Records an answer at the time of this clock, which is read under the lock.
    pub(crate) fn answered_by(
        &self,
        clock: impl FnOnce() -> Instant,
        sent: Instant,
        is_refused: bool,
    ) {
        let mut windows = self.windows();
        windows.answered(sent, clock(), is_refused);
    }

    /// Returns a lower bound of the server's rate per second.
    pub(crate) fn rate(&self) -> Option<f64> {
        self.windows().rate
    }

    fn windows(&self) -> MutexGuard<'_, Windows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Windows {
    fn answered(&mut self, sent: Instant, now: Instant, is_refused: bool) {
        if !is_refused {
            let before = self
                .open
                .iter_mut()
                .take_while(|window| window.began.1 <= sent);
            before.for_each(|window| window.accepted += 1);
            return;
        }
        for window in self.open.iter().filter(|window| window.accepted >= FEWEST) {
            let length = (now - window.began.0).as_secs_f64();
            let rate = f64::from(window.accepted - 1) / length;
            self.rate = Some(self.rate.map_or(rate, |highest| highest.max(rate)));
        }
        if self.open.len() == OPEN {
            self.open.pop_front();
        }
        self.open.push_back(Window {
            began: (sent, now),
            accepted: 0,
        });
    }
}
