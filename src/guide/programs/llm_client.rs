use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode};
use tollgate::rate::{Charge, Hold};
use tollgate::{AcquireError, Algorithm, Quota, RateLimiter, all};
use tollgate_http::server_limits::{ServerLimits, Unit, Window};

/// A provider may ask for any pause. A longer one is for its operators.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The limits of one key of a provider. All tasks share it.
pub struct Limits {
    requests: Limit,
    tokens: Limit,
}

/// One limit of the provider, and the limiter that enforces it.
struct Limit {
    of_provider: u64,
    limiter: RateLimiter,
}

/// A call that may be sent.
pub struct Call {
    request: Charge,
    tokens: Hold,
}

impl Limits {
    /// Creates the limits for this many requests and tokens per minute, which the provider counts with `algorithm`.
    pub fn new(requests: u64, tokens: u64, algorithm: Algorithm) -> Self {
        let limit = |of_provider: u64| {
            let margin = (of_provider / 50).max(2);
            let slightly_less = of_provider.saturating_sub(margin).max(1);
            let minute = Duration::from_millis(60_100);
            let quota = Quota::new(slightly_less, minute).burst(slightly_less);
            let limiter = RateLimiter::new(quota).algorithm(algorithm);
            Limit {
                of_provider,
                limiter,
            }
        };
        Self {
            requests: limit(requests),
            tokens: limit(tokens),
        }
    }

    /// Waits until a call may be sent. `estimate` is the most that it may use: the tokens of its prompt
    /// and its `max_tokens`.
    pub async fn begin(&self, estimate: u64) -> Result<Call, AcquireError> {
        let (requests, tokens) = (&self.requests.limiter, &self.tokens.limiter);
        let (estimated, request) = all((tokens.cost(estimate), requests)).acquire().await?;
        Ok(Call {
            request,
            tokens: tokens.hold(estimated),
        })
    }

    /// Counts the tokens that an answered call has used. A call that is dropped instead counts its estimate.
    pub fn end(&self, call: Call, status: StatusCode, headers: &HeaderMap, used: u64) {
        let server = ServerLimits::of(headers, SystemTime::now());
        self.requests
            .follow(&call.request, server.tightest(Unit::Requests));
        self.tokens
            .follow(call.tokens.charge(), server.tightest(Unit::Tokens));
        call.tokens.settle(used);
        if status == StatusCode::TOO_MANY_REQUESTS {
            let requests = &self.requests.limiter;
            // The provider has not counted it.
            requests.refund(call.request);
            let pause = server.retry_after().unwrap_or(Duration::from_secs(1));
            requests.pause_for(pause.min(LONGEST_PAUSE));
        }
    }
}

impl Limit {
    fn follow(&self, charge: &Charge, window: Option<&Window>) {
        if let Some(window) = window {
            let reset_after = window.reset_after.unwrap_or_default();
            self.limiter
                .follow(charge, window.used(self.of_provider), reset_after);
        }
    }
}
