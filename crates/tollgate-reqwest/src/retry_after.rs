//! Requests that wait for as long as servers ask. The layer decides the meaning of a response, and the
//! requests that it affects.

use async_trait::async_trait;
use http::Extensions;
use reqwest::{Request, Response, Url};
use reqwest_middleware::{Middleware, Next, Result};
use tollgate_tower::RetryAfterLayer;

/// Makes a client wait for as long as a server asks, with `Retry-After` or an exhausted limit. All requests to that
/// server wait, not only the refused one.
///
/// It is the [`RetryAfterLayer`] of [`tollgate-tower`] as a middleware, with the same bounds, settings and
/// [responses that count](RetryAfterLayer): create the layer with its settings, and the middleware [from
/// it](Self::from). Clones share the gates of the servers.
///
/// # Order of middleware
///
/// The first middleware of a client is the outermost. Add this one before the limits that a request waits for, and its
/// [innermost](Self::innermost) clone as the last, which checks the gate once more: so no request is sent during a
/// pause, wherever it has waited. See [the example](crate#a-client-that-keeps-all-limits).
///
/// A request that reqwest has accepted is sent, even if reqwest is still connecting. Redirects are followed by
/// reqwest, below all middleware, so they do not wait. If a server refuses after a redirect, the gate of that server
/// is blocked, and not the gate of the server that sent the redirect.
///
/// # Bounds
///
/// - A request with an idempotent method is sent up to three times: it is repeated twice, unless
///   [`retries`](RetryAfterLayer::retries) says otherwise.
/// - A pause is up to 10 % longer than the server asks for, see [`jitter_percent`](RetryAfterLayer::jitter_percent).
/// - The client does not wait for a pause longer than [`max_wait`](RetryAfterLayer::max_wait), a minute by default:
///   the refusal is returned at once, and during the pause one request is sent each `max_wait`, until the next
///   refusal.
/// - [`pausing`](RetryAfterLayer::pausing) describes the requests that are sent at the end of a pause.
///
/// # Cancel safety
///
/// Dropping the future of a request removes it from the queue at the gate, and loses nothing.
///
/// [`tollgate-tower`]: https://docs.rs/tollgate-tower/latest/tollgate_tower/
#[derive(Clone, Debug)]
pub struct RetryAfterMiddleware(RetryAfterLayer<Request>);

impl RetryAfterMiddleware {
    /// Creates a middleware with the settings of [`RetryAfterLayer::copying`], which repeats requests that
    /// [can be cloned](Request::try_clone): requests without a body, or with a body in memory.
    ///
    /// # Examples
    ///
    /// See [the crate](crate).
    pub fn new() -> Self {
        Self(RetryAfterLayer::copying(Request::try_clone))
    }

    /// Returns the clone that goes directly around the client. See [`RetryAfterLayer::innermost`].
    ///
    /// # Examples
    ///
    /// See [the crate](crate#a-client-that-keeps-all-limits).
    #[must_use]
    pub fn innermost(&self) -> Self {
        Self(self.0.innermost())
    }
}

/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use reqwest::Request;
/// use tollgate_reqwest::{RetryAfterLayer, RetryAfterMiddleware};
///
/// let layer = RetryAfterLayer::copying(Request::try_clone);
/// let retry = RetryAfterMiddleware::from(layer.max_wait(Duration::from_secs(20)).retries(5));
/// ```
impl From<RetryAfterLayer<Request>> for RetryAfterMiddleware {
    fn from(layer: RetryAfterLayer<Request>) -> Self {
        Self(layer)
    }
}

impl Default for RetryAfterMiddleware {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Middleware for RetryAfterMiddleware {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let origin = origin(request.url());
        let mut attempts = self.0.attempts(origin.clone());
        loop {
            while let Some(gate) = attempts.blocked() {
                // Without a timeout this does not fail.
                let _opened = gate.acquire_owned().await;
            }
            let copy = attempts.copy(request.method(), &request);
            let answer = next.clone().run(request, extensions).await?;
            let answering = self.0.attempts(origin_of(&answer, &origin));
            let gate = answering.answered(answer.status(), answer.headers());
            let (Some(gate), Some(copy)) = (gate, copy) else {
                return Ok(answer);
            };
            // The resources of the refusal are free during the wait.
            drop(answer);
            let _opened = gate.acquire_owned().await;
            request = copy;
        }
    }
}

fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Returns the origin of the response. After a redirect it is not the requested one.
fn origin_of(answer: &Response, requested: &str) -> String {
    match answer.url().host_str() {
        // The URL that reqwest invents if another middleware has created the response without a URL.
        Some("no.url.provided.local") => requested.to_owned(),
        _ => origin(answer.url()),
    }
}
