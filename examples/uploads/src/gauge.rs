//! Counts the uploads or requests in flight, and records the highest count.
//!
//! The embedded server has two gauges, one for the PUT requests that it serves and one for all
//! requests. The client has a gauge too. A slot counts from [`Gauge::enter`] until it is dropped,
//! on every path, so a request that fails or is abandoned cannot be counted forever.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use hyper::{Method, StatusCode};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use tokio::sync::watch;
use tollgate::throttle::Feedback;
use tollgate_tower::{ThrottledBody, feedback};

use crate::arrivals::{Arrivals, Waits};
use crate::grace::Grace;
use crate::measure::Found;
use crate::progress::Pauses;

/// The counts of a gauge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The uploads in flight now.
    pub in_flight: usize,
    /// The highest number of uploads in flight at once.
    pub peak: usize,
    /// The uploads that have begun, including those that have ended.
    pub begun: u64,
}

/// The number of uploads in flight just after it changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The time since the gauge was made.
    pub at: Duration,
    /// The uploads in flight from then on.
    pub in_flight: usize,
}

/// A counter of uploads in flight.
#[derive(Debug)]
pub struct Gauge {
    counts: watch::Sender<Counts>,
    /// The samples, kept only for a plot. They grow with the number of uploads.
    samples: Option<Mutex<Vec<Sample>>>,
    made: Instant,
}

/// One upload in flight, counted until it is dropped.
#[derive(Debug)]
pub struct Slot(Arc<Gauge>);

impl Gauge {
    /// Makes a gauge at zero, which keeps every change if `keep_samples` is true.
    pub fn new(keep_samples: bool) -> Arc<Gauge> {
        Arc::new(Gauge {
            counts: watch::Sender::new(Counts::default()),
            samples: keep_samples.then(Mutex::default),
            made: Instant::now(),
        })
    }

    /// Counts one more upload, until the slot is dropped.
    pub fn enter(self: &Arc<Self>) -> Slot {
        self.change(|counts| {
            counts.in_flight += 1;
            counts.begun += 1;
            counts.peak = counts.peak.max(counts.in_flight);
        });
        Slot(Arc::clone(self))
    }

    /// Returns the current counts.
    pub fn counts(&self) -> Counts {
        *self.counts.borrow()
    }

    /// Waits until the counts satisfy `wanted`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn wait_for(&self, wanted: impl FnMut(&Counts) -> bool) {
        // An error would mean that the sender is gone, but `self` owns it.
        let _ = self.counts.subscribe().wait_for(wanted).await;
    }

    /// Returns every change so far, oldest first; empty unless the gauge keeps samples.
    pub fn samples(&self) -> Vec<Sample> {
        self.samples.as_ref().map_or_else(Vec::new, |samples| {
            samples
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone()
        })
    }

    fn change(&self, change: impl FnOnce(&mut Counts)) {
        self.counts.send_modify(|counts| {
            change(counts);
            // The samples are added under the lock of the counts, so they are in the order of the changes.
            if let Some(samples) = &self.samples {
                samples
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(Sample {
                        at: self.made.elapsed(),
                        in_flight: counts.in_flight,
                    });
            }
        });
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.change(|counts| counts.in_flight -= 1);
    }
}

// Counts each request of the client from the moment that the limits admit it.
//
// [`Counted`] sits between the limits and the network, so it sees the requests that are really sent,
// including lists, parts and retries. A request counts as in flight until its whole answer has arrived.

/// The counts of the requests on one side, the client or the server.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Counts the uploads.
    pub(crate) gauge: Arc<Gauge>,
    /// Counts the requests of any kind.
    pub(crate) requests: Arc<Gauge>,
    /// Records the times of all requests that do not only read.
    pub(crate) arrivals: Arc<Arrivals>,
}

impl Seen {
    /// Makes empty counts. All gauges and logs begin at the same time, so that they can share one plot.
    pub(crate) fn new(keep_samples: bool) -> Seen {
        Seen {
            gauge: Gauge::new(keep_samples),
            requests: Gauge::new(false),
            arrivals: Arrivals::new(),
        }
    }
}

/// A connector that counts its requests. Clones share the counts.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    pub(crate) connector: Arc<dyn HttpConnector>,
    pub(crate) counts: Arc<ClientCounts>,
}

/// The client's counts of its requests.
#[derive(Debug)]
pub(crate) struct ClientCounts {
    pub(crate) seen: Seen,
    /// The times that the requests waited.
    pub(crate) waits: Waits,
    /// The number of requests that the server refused because there were too many.
    pub(crate) throttled: AtomicU64,
    /// The rate of the server that these refusals show.
    pub(crate) found: Found,
    /// Reports the pauses that the server asks for, if they are kept.
    pub(crate) pauses: Option<Pauses>,
    /// Limits the duration of requests after Ctrl-C.
    pub(crate) grace: Grace,
}

impl HttpConnector for Counted {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(CountedClient {
            client: self.connector.connect(options)?,
            counts: Arc::clone(&self.counts),
        }))
    }
}

#[derive(Debug)]
struct CountedClient {
    client: HttpClient,
    counts: Arc<ClientCounts>,
}

#[async_trait]
impl HttpService for CountedClient {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let counts = &*self.counts;
        counts.waits.admitted();
        let slot = counts.seen.requests.enter();
        let is_upload = request.method() == Method::PUT;
        let _upload = is_upload.then(|| counts.seen.gauge.enter());
        if request.method() != Method::GET && request.method() != Method::HEAD {
            // The body of a POST does not contain bytes of a file.
            let bytes = is_upload.then(|| request.body().content_length() as u64);
            counts.seen.arrivals.record(bytes.unwrap_or(0));
        }
        let sent = Instant::now();
        let removes_parts = request.method() == Method::DELETE;
        let answer = self.client.execute(request);
        let answer = counts.grace.answer(removes_parts, answer).await?;
        let is_refused = is_refusal(answer.status());
        counts.found.answered(sent, is_refused);
        if is_refused {
            counts.throttled.fetch_add(1, Ordering::Relaxed);
        }
        if let Feedback::Overloaded { retry_after } = feedback(&answer)
            && let (Some(pauses), Some(asked)) = (&counts.pauses, retry_after)
        {
            pauses.asked(Instant::now(), asked);
        }
        // The request stops counting before the limits see the end of the answer.
        Ok(answer.map(|body| {
            let body = counts.grace.body(removes_parts, body);
            HttpResponseBody::new(ThrottledBody::holding(body, Some(slot)))
        }))
    }
}

/// Returns whether this status means that there are too many requests.
pub(crate) fn is_refusal(status: StatusCode) -> bool {
    status == StatusCode::SERVICE_UNAVAILABLE || status == StatusCode::TOO_MANY_REQUESTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peak_stays_when_slots_are_dropped() {
        let gauge = Gauge::new(true);
        let first = gauge.enter();
        let second = gauge.enter();
        drop(first);
        let third = gauge.enter();
        drop((second, third));
        assert_eq!(
            gauge.counts(),
            Counts {
                in_flight: 0,
                peak: 2,
                begun: 3
            }
        );
        let seen: Vec<_> = gauge.samples().iter().map(|s| s.in_flight).collect();
        assert_eq!(seen, [1, 2, 1, 2, 1, 0]);
    }

    #[test]
    fn no_samples_unless_asked_for() {
        let gauge = Gauge::new(false);
        drop(gauge.enter());
        assert_eq!(gauge.samples(), []);
    }
}
