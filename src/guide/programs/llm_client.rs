use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode};
use tollgate::{AcquireError, Algorithm, Charge, Hold, Quota, RateLimiter, all};
use tollgate_tower::server_limits::{ServerLimits, Window};

/// A provider may ask for any pause, and a pause cannot be taken back.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The limits of one key of a provider. All tasks share it.
pub struct Limits {
    requests: RateLimiter,
    tokens: RateLimiter,
}

/// A call that may be sent.
pub struct Call {
    request: Charge,
    tokens: Hold,
}

impl Limits {
    /// So many requests and tokens a minute, which the provider counts by this algorithm.
    pub fn new(requests: u64, tokens: u64, algorithm: Algorithm) -> Self {
        let slightly_less = |limit: u64| {
            let limit = limit - (limit / 50).max(2);
            let quota = Quota::new(limit, Duration::from_millis(60_100)).burst(limit);
            RateLimiter::new(quota).algorithm(algorithm)
        };
        Self {
            requests: slightly_less(requests),
            tokens: slightly_less(tokens),
        }
    }

    /// Waits until a call may be sent. `estimate` is what it may use at most: the tokens of its prompt
    /// and its `max_tokens`.
    pub async fn begin(&self, estimate: u64) -> Result<Call, AcquireError> {
        let limits = all((self.tokens.cost(estimate), &self.requests));
        let (tokens, request) = limits.acquire().await?;
        Ok(Call {
            request,
            tokens: self.tokens.hold(tokens),
        })
    }

    /// Counts what an answered call has used. A call that is dropped instead counts its estimate.
    pub fn end(&self, call: Call, status: StatusCode, headers: &HeaderMap, used: u64) {
        let server = ServerLimits::of(headers, SystemTime::now());
        follow(&self.requests, &call.request, server.requests);
        follow(&self.tokens, call.tokens.charge(), server.tokens);
        call.tokens.settle(used);
        if status == StatusCode::TOO_MANY_REQUESTS {
            // The provider has not counted it.
            self.requests.refund(call.request);
            let pause = server
                .retry_after
                .unwrap_or(Duration::from_secs(1))
                .min(LONGEST_PAUSE);
            self.requests.pause_for(pause);
        }
    }
}

fn follow(limiter: &RateLimiter, charge: &Charge, window: Option<Window>) {
    if let Some(window) = window {
        let limit = limiter.quota().count();
        limiter.follow(
            charge,
            window.used(limit),
            window.reset_after.unwrap_or_default(),
        );
    }
}
