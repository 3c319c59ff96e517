//! The attempts at one request: what the service of tower and clients of other kinds share.

use std::fmt;

use http::{HeaderMap, Method, StatusCode};

use super::RetryAfterLayer;
use super::answer::{asked_wait, is_refusal};
use tollgate::gate::Gate;

/// The attempts at one request, created by [`RetryAfterLayer::attempts`]: for clients that are not services
/// of tower. Dropping them loses nothing: the gates stay with the layer.
pub struct Attempts<B> {
    layer: RetryAfterLayer<B>,
    origin: String,
    retries_left: u32,
}

impl<B> RetryAfterLayer<B> {
    /// Begins a request to an origin: a string for scheme, host and port. A client that is no service of
    /// tower follows the layer with it. `B` is then whatever it has to [copy](Self::copying).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
    /// use tokio::time::Instant;
    /// use tollgate::Clock;
    /// use tollgate_tower::RetryAfterLayer;
    ///
    /// /// In place of a client.
    /// async fn send(page: &str, start: Instant) -> (StatusCode, HeaderMap) {
    ///     if page == "/" && start.elapsed() >= Duration::from_secs(5) {
    ///         return (StatusCode::OK, HeaderMap::new());
    ///     }
    ///     let headers = [("retry-after".parse().unwrap(), HeaderValue::from(5))];
    ///     (StatusCode::SERVICE_UNAVAILABLE, HeaderMap::from_iter(headers))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let layer = RetryAfterLayer::copying(|page: &&str| Some(*page));
    /// let layer = layer.jitter_percent(0).clock(Clock::tokio());
    ///
    /// let start = Instant::now();
    /// let mut attempts = layer.attempts("http://example.com");
    /// let mut page = "/";
    /// let status = loop {
    ///     while let Some(gate) = attempts.blocked() {
    ///         gate.acquire().await?;
    ///     }
    ///     let copy = attempts.copy(&Method::GET, &page);
    ///     let (status, headers) = send(page, start).await;
    ///     match (attempts.answered(status, &headers), copy) {
    ///         (Some(gate), Some(copy)) => {
    ///             gate.acquire().await?;
    ///             page = copy;
    ///         }
    ///         _ => break status,
    ///     }
    /// };
    /// assert_eq!((status.as_u16(), start.elapsed().as_secs()), (200, 5));
    /// # Ok(())
    /// # }
    /// ```
    pub fn attempts(&self, origin: impl Into<String>) -> Attempts<B> {
        Attempts {
            layer: self.clone(),
            origin: origin.into(),
            retries_left: self.retries,
        }
    }
}

impl<B> Attempts<B> {
    /// Returns the gate of the origin if it is blocked now. Look right before the request is sent, and
    /// again after each wait at the gate, because it may have been blocked again.
    ///
    /// # Examples
    ///
    /// See [`RetryAfterLayer::attempts`].
    pub fn blocked(&self) -> Option<Gate> {
        self.layer.origins.blocked(&self.origin)
    }

    /// Returns a copy for the next attempt. `None` if there is none: the method is neither safe nor
    /// idempotent, the retries are used up, or the original cannot be copied. Call it once for each
    /// attempt.
    ///
    /// # Examples
    ///
    /// See [`RetryAfterLayer::attempts`].
    pub fn copy(&mut self, method: &Method, original: &B) -> Option<B> {
        if !method.is_idempotent() {
            return None;
        }
        self.retries_left = self.retries_left.checked_sub(1)?;
        (self.layer.copy_body)(original)
    }

    /// Blocks the gate for as long as the response asks. Returns the gate if the request was refused and
    /// may be sent again after a wait there, and `None` if the response is for the caller.
    ///
    /// # Examples
    ///
    /// See [`RetryAfterLayer::attempts`].
    pub fn answered(&self, status: StatusCode, headers: &HeaderMap) -> Option<Gate> {
        let layer = &self.layer;
        let asked = asked_wait(status, headers, layer.any_status, layer.wall_clock)?;
        let wait = asked.min(layer.max_wait);
        let gate = layer.origins.block(&self.origin, wait, layer.jitter(wait));
        if let (Some(limiter), Err(blocked)) = (&layer.paused, gate.check()) {
            limiter.pause_for(blocked.retry_after().unwrap_or_default());
        }
        (is_refusal(status, Some(asked)) && asked <= layer.max_wait).then_some(gate)
    }
}

impl<B> fmt::Debug for Attempts<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempts")
            .field("origin", &self.origin)
            .field("retries_left", &self.retries_left)
            .finish_non_exhaustive()
    }
}
