//! A handler that sleeps behind a moving capacity, as one that waits for a database does.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::time::sleep;
use tollgate::Semaphore;
use tollgate::adaptive::{AdaptiveSemaphore, Gradient};
use tollgate_tower::ThrottleLayer;

use super::server::{Server, load};
use super::{Outcome, report};

/// How long the handler has a part of the capacity.
const SERVICE: Duration = Duration::from_millis(20);

/// How many of them there are, one phase after the other.
const CAPACITIES: [usize; 4] = [20, 10, 40, 20];

/// Half as many again as the first capacity serves.
const ARRIVALS: f64 = 1500.0;

/// Before anything is counted, each limit runs as long at the first capacity: connections are opened
/// and code is read from the disk, whatever the limit is.
const WARM_UP: Duration = Duration::from_secs(2);

/// An answer is good until then.
const PATIENCE: Duration = Duration::from_millis(400);

const FIXED: [usize; 6] = [5, 10, 20, 40, 80, 160];

/// Runs all limits, prints a table, and returns whether the adaptive one reaches its target.
pub(crate) async fn run(phase: Duration, seed: u64) -> Result<bool, Box<dyn Error>> {
    let mut outcomes = Vec::new();
    for permits in FIXED {
        let slots = Arc::new(Semaphore::new(permits));
        let app = |router: Router| router.layer(ThrottleLayer::new(slots).refusing());
        outcomes.push(outcome(permits.to_string(), false, phase, seed, app).await?);
    }
    let limit = Arc::new(AdaptiveSemaphore::new(Gradient::default()));
    let app = |router: Router| router.layer(ThrottleLayer::new(Arc::clone(&limit)).refusing());
    let mut adaptive = outcome("adaptive".to_owned(), true, phase, seed, app).await?;
    adaptive.limit = format!("adaptive, {} at last", limit.snapshot().permits.limit);
    outcomes.push(adaptive);

    let title = format!(
        "A handler of {SERVICE:?} with a capacity of {CAPACITIES:?}, each for {phase:?}; {ARRIVALS} requests per second."
    );
    Ok(report(&title, &["p50 [ms]", "p99 [ms]"], &outcomes))
}

async fn outcome(
    limit: String,
    is_adaptive: bool,
    phase: Duration,
    seed: u64,
    throttled: impl FnOnce(Router) -> Router,
) -> Result<Outcome, Box<dyn Error>> {
    let capacity = Arc::new(Semaphore::new(CAPACITIES[0]));
    let handler = get({
        let capacity = Arc::clone(&capacity);
        move || async move {
            let _part = capacity.acquire().await;
            sleep(SERVICE).await;
        }
    });
    let server = Server::start(throttled(Router::new().route("/", handler))).await?;
    let request = || {
        let answer = server.request();
        async {
            answer
                .await
                .is_some_and(|head| head.status == StatusCode::OK)
        }
    };
    let warm_up = seed + CAPACITIES.len() as u64;
    load(ARRIVALS, WARM_UP, PATIENCE, warm_up, request).await;
    let mut latencies = Vec::new();
    for (index, parts) in CAPACITIES.into_iter().enumerate() {
        capacity.set_permits(parts);
        let seed = seed + index as u64;
        latencies.extend(load(ARRIVALS, phase, PATIENCE, seed, request).await);
    }
    latencies.sort_unstable();
    let at = |share: usize| latencies.get(latencies.len() * share / 100).copied();
    let milliseconds = |share| at(share).map_or(0.0, |latency| latency.as_secs_f64() * 1e3);
    Ok(Outcome {
        limit,
        is_adaptive,
        good: latencies.len() as u64,
        p99: at(99),
        others: [50, 99]
            .map(|share| format!("{:.0}", milliseconds(share)))
            .into(),
    })
}
