//! Counts the requests of the client, each of them when it has been let in.
//!
//! [`Counted`] sits between the limits and the network, so it sees what is really sent: lists, parts
//! and retries included. A request counts as under way until the last of its answer has arrived.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use async_trait::async_trait;
use hyper::{Method, StatusCode};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use tollgate::adaptive::Feedback;
use tollgate_tower::{ThrottledBody, feedback};

use crate::arrivals::Arrivals;
use crate::found::Found;
use crate::gauge::Gauge;
use crate::grace::Grace;
use crate::pauses::Pauses;
use crate::waits::Waits;

/// What one side sees of the requests.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The uploads.
    pub(crate) gauge: Arc<Gauge>,
    /// The requests of any kind.
    pub(crate) requests: Arc<Gauge>,
    /// When those began that do not only read.
    pub(crate) arrivals: Arc<Arrivals>,
}

impl Seen {
    /// Nothing yet. All begin at the same time, so that they can be drawn side by side.
    pub(crate) fn new(keep_samples: bool) -> Seen {
        Seen {
            gauge: Gauge::new(keep_samples),
            requests: Gauge::new(false),
            arrivals: Arrivals::new(),
        }
    }
}

/// A connector whose requests are counted. Clones count together.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    pub(crate) connector: Arc<dyn HttpConnector>,
    pub(crate) counts: Arc<Counts>,
}

/// What is known of the requests of the client.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) seen: Seen,
    /// How long they waited.
    pub(crate) waits: Waits,
    /// How many the server refused because there were too many.
    pub(crate) throttled: AtomicU64,
    /// What these tell of the rate that it takes.
    pub(crate) found: Found,
    /// Which pauses it asked for, if they are kept.
    pub(crate) pauses: Option<Pauses>,
    /// How long they may take after Ctrl-C.
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
    counts: Arc<Counts>,
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
            // What a POST brings are not bytes of a file.
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
        // Before the limits see the end of the answer, it is no longer counted.
        Ok(answer.map(|body| {
            let body = counts.grace.body(removes_parts, body);
            HttpResponseBody::new(ThrottledBody::holding(body, Some(slot)))
        }))
    }
}

/// Returns whether a server says with this status that there are too many requests.
pub(crate) fn is_refusal(status: StatusCode) -> bool {
    status == StatusCode::SERVICE_UNAVAILABLE || status == StatusCode::TOO_MANY_REQUESTS
}
