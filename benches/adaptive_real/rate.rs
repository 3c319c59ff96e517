//! A server that refuses above a rate that moves, and clients that limit themselves.
//!
//! With `Retry-After`, all clients wait as long as the server asks them to, in whole seconds. Without it,
//! a refusal costs nothing here, so the best fixed limit is one that is never too low; for the server,
//! it is an attack.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;
use futures::future::{BoxFuture, try_join_all};
use tollgate::adaptive::AdaptiveRate;
use tollgate::{Quota, RateLimiter, Throttle};
use tollgate_tower::ThrottleLayer;

use super::server::{Server, load};
use super::{Outcome, report};

/// The rates of the server, one phase after the other.
const RATES: [u64; 4] = [200, 100, 400, 200];

/// More than the server ever accepts.
const ARRIVALS: f64 = 600.0;

/// An answer is good until then.
const PATIENCE: Duration = Duration::from_millis(400);

/// A request waits so long for the limit of its client. With all of its patience, a queue that is
/// always full would leave no time for the answer.
const WAIT: Duration = Duration::from_millis(200);

const FIXED: [u64; 4] = [100, 200, 400, 800];

/// What limits a client.
trait Limit: Throttle<Enter: Send, Permit: Send> + Send + Sync + 'static {
    const IS_ADAPTIVE: bool;

    /// Ends a request that was refused.
    fn refused(&self, permit: Self::Permit, retry_after: Option<Duration>);
}

impl Limit for Arc<RateLimiter> {
    const IS_ADAPTIVE: bool = false;

    fn refused(&self, _: Self::Permit, retry_after: Option<Duration>) {
        self.pause_for(retry_after.unwrap_or_default());
    }
}

impl Limit for Arc<AdaptiveRate> {
    const IS_ADAPTIVE: bool = true;

    fn refused(&self, permit: Self::Permit, retry_after: Option<Duration>) {
        permit.throttled(retry_after);
    }
}

/// Runs all limits at once, prints two tables, and returns whether the adaptive ones reach their target.
pub(crate) async fn run(phase: Duration, seed: u64) -> Result<bool> {
    let all = |obeys: bool| {
        let fixed = FIXED.map(|rate| {
            let limit = Arc::new(RateLimiter::new(Quota::per_second(rate)));
            outcome(rate.to_string(), limit, obeys, phase, seed)
        });
        let adaptive = Arc::new(AdaptiveRate::new());
        let adaptive = outcome("adaptive".to_owned(), adaptive, obeys, phase, seed);
        try_join_all(fixed.into_iter().chain([adaptive]))
    };
    let (with, without) = tokio::try_join!(all(true), all(false))?;
    let title = |how: &str| {
        format!(
            "A server that refuses above {RATES:?} per second, each for {phase:?}, {how}; {ARRIVALS} requests per second."
        )
    };
    let headings = ["refused"];
    let with = report(&title("with Retry-After"), &headings, &with);
    let without = report(&title("without Retry-After"), &headings, &without);
    Ok(with && without)
}

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn outcome<L: Limit>(
    name: String,
    limit: L,
    obeys: bool,
    phase: Duration,
    seed: u64,
) -> BoxFuture<'static, Result<Outcome>> {
    Box::pin(async move {
        let quota = |rate: u64| Quota::per_second(rate).burst(rate / 10);
        let rate = Arc::new(RateLimiter::new(quota(RATES[0])));
        let layer = ThrottleLayer::new(Arc::clone(&rate)).refusing();
        let app = Router::new().route("/", get(|| async { "an answer" }));
        let server = Server::start(app.layer(layer)).await?;
        let refused = Arc::new(AtomicU64::new(0));
        let mut good = 0;
        for (index, per_second) in RATES.into_iter().enumerate() {
            rate.set_quota(quota(per_second));
            let request = || {
                let (limit, answer) = (limit.clone(), server.request());
                let refused = Arc::clone(&refused);
                async move {
                    let Ok(permit) = limit.enter().timeout(WAIT).await else {
                        return false;
                    };
                    let Some(head) = answer.await else {
                        return false;
                    };
                    let is_refused = head.status == StatusCode::TOO_MANY_REQUESTS;
                    if is_refused {
                        refused.fetch_add(1, Ordering::Relaxed);
                        limit.refused(permit, retry_after(&head.headers).filter(|_| obeys));
                    }
                    !is_refused
                }
            };
            let seed = seed + index as u64;
            good += load(ARRIVALS, phase, PATIENCE, seed, request).await.len() as u64;
        }
        let refused = refused.load(Ordering::Relaxed);
        let share = refused as f64 / (refused + good).max(1) as f64;
        Ok(Outcome {
            limit: name,
            is_adaptive: L::IS_ADAPTIVE,
            good,
            p99: None,
            others: vec![format!("{:.2} %", 100.0 * share)],
        })
    })
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get("retry-after")?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}
