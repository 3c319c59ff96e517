//! Measures the rate of requests that the embedded server takes: sends more than it takes until
//! [`Found`] finds no higher rate.
//!
//! An adaptive rate stays below the limit most of the time, so that few requests are refused. The bucket of
//! the server is full then, and the rate that is found is several percent too low. Here requests come faster
//! than the server takes them, so that the bucket stays empty.
//!
//! 1. The requests are unsigned and pass the same cap as others. The server counts them, and refuses
//!    those above its rate, before it rejects the others for want of a signature.
//! 2. The pace settles where about a third of the requests is refused, which leaves enough of them to empty
//!    the bucket when some are late.
//! 3. It ends when the rate has not risen for [`PATIENCE`], when nothing is refused at the highest
//!    pace, after [`LONGEST`] at the latest, or when a request cannot be made.
//!
//! It is for the embedded server only: a server of others is not overloaded to get a figure.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use object_store::client::{HttpClient, HttpRequest, HttpRequestBody};
use tollgate::{Quota, RateLimiter};

use crate::gauge::is_refusal;

/// The longest time that a measurement takes.
const LONGEST: Duration = Duration::from_secs(15);

/// How many requests are under way at most.
const PARALLEL: usize = 8;

/// The highest pace, per second: no client of one process gets there.
const HIGHEST: f64 = 100_000.0;

/// What an accepted request makes of the pace, and what a refused one does.
const FASTER: f64 = 1.02;
const SLOWER: f64 = 0.96;

/// How long the rate that is found is waited for to rise, and by how much.
const PATIENCE: Duration = Duration::from_secs(3);
const RISE: f64 = 1.005;

/// Sends requests until the rate is found, at `start` per second to begin with, and never more than
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
        // The other senders end too.
        limiter.close();
    };
    let senders = (0..parallel.min(PARALLEL)).map(|_| sender());
    // It is no failure to be out of time: what is known then is the result.
    let _ = tokio::time::timeout(LONGEST, join_all(senders)).await;
}

/// A pace, evenly.
fn quota(rate: f64) -> Quota {
    Quota::new(1, Duration::from_secs_f64(1.0 / rate))
}

/// How many requests are sent per second, and until when.
#[derive(Debug)]
struct Pace {
    rate: f64,
    /// The rate that was found when it last rose, and when that was.
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
            // Nothing is refused, however fast requests are sent.
            None => self.rate == HIGHEST,
        }
    }
}

// [`Found`]: the rate of requests that a server takes, from what the client sees of its refusals.
//
// A server that limits a rate with a token bucket has less than one token when it refuses a request,
// whatever its burst is. So from one refusal to another it accepts at most its rate times the time
// between them, and one request. It accepts less only if the bucket was full meanwhile.
//
// 1. A window begins at any refusal and ends at any later one. Requests count in it that were sent after
//    the first refusal was noted, and whose answer was noted before the second one. Its length is the time
//    from sending the first refused request to noting the second refusal.
// 2. An answer is noted at the time that the clock shows under the lock. So no answer counts in a window
//    that ended before it arrived, even if a thread is preempted between an answer and noting it.
// 3. So a window with one request less shows a rate that the server has at least, whenever it decided.
//    A stall of the client, of the network or of the server can only make that smaller.
// 4. The rate that is found is the highest that a window shows. The longer the windows are, and the less
//    often the bucket is full, the closer it comes: see [`measure`](crate::measure).

/// How many requests a window has at least, so that one less is 5 %.
const FEWEST: u32 = 20;

/// How many windows are open at most. Older refusals begin none any more.
const OPEN: usize = 500;

/// What the answers tell of the rate.
#[derive(Debug, Default)]
pub(crate) struct Found(Mutex<Windows>);

#[derive(Debug, Default)]
struct Windows {
    /// In the order in which they begin.
    open: VecDeque<Window>,
    rate: Option<f64>,
}

#[derive(Debug)]
struct Window {
    /// When the request was sent whose refusal begins it, and when that refusal was noted.
    began: (Instant, Instant),
    accepted: u32,
}

impl Found {
    /// Notes an answer that has arrived, and whether it is a refusal.
    pub(crate) fn answered(&self, sent: Instant, is_refused: bool) {
        self.answered_by(Instant::now, sent, is_refused);
    }

    /// Notes an answer at the time of this clock, which is read under the lock.
    pub(crate) fn answered_by(
        &self,
        clock: impl FnOnce() -> Instant,
        sent: Instant,
        is_refused: bool,
    ) {
        let mut windows = self.windows();
        windows.answered(sent, clock(), is_refused);
    }

    /// Returns the rate per second that the server has at least.
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
