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

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use object_store::client::{HttpClient, HttpRequest, HttpRequestBody};
use tollgate::{Quota, RateLimiter};

use crate::counted::is_refusal;
use crate::found::Found;

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

#[cfg(test)]
mod tests;
