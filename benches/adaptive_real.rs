//! Compares an adaptive rate with a fixed one in real time. Like S3 without `Retry-After`, the server answers `503
//! SlowDown` above a rate; tasks get an object as often as a connector with an adaptive rate admits them.
//!
//! The store retries refused requests itself, as it does by default: each retry passes the connector, and
//! the server counts it. While a few tasks wait to retry, the others use the rate. The first seconds, in
//! which the limiter finds the rate, are not counted. A fixed limit at the server's own rate shows what the
//! machine can pass: a client that is not scheduled for a while loses its turns.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use clap::Parser;
use futures::future::try_join_all;
use object_store::ObjectStoreExt;
use object_store::path::Path;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tollgate::{Quota, RateLimiter};
use tollgate_adaptive::AdaptiveRate;
use tollgate_bench::harness::{Table, verdict};
use tollgate_bench::object_store::{HyperConnector, serve, store};
use tollgate_object_store::ThrottledConnector;

/// The requests per second that the server accepts.
const RATE: u64 = 500;

/// The bursts that it accepts: the arrivals of 20 ms, and of 100 ms.
const BURSTS: [u64; 2] = [RATE / 50, RATE / 10];

const TASKS: usize = 64;

/// The warm-up, which is not counted.
const SEARCH: Duration = Duration::from_secs(15);

/// The least part of the rate that the client has to get, and the most that may be refused.
const GOODPUT: f64 = 0.95;
const REFUSED: f64 = 0.005;

const SLOW_DOWN: &str =
    "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>";

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Compares an adaptive connector of an object store with a fixed one in real time. Exits with 1 if it misses its
/// targets
#[derive(Debug, Parser)]
#[command(name = "adaptive_real", version)]
struct Args {
    /// How long requests are counted, in seconds, after fifteen that are not
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let counted = Duration::from_secs(Args::parse().seconds);
    let runs = BURSTS.map(|burst| [(burst, true), (burst, false)]);
    let runs = runs.into_iter().flatten();
    let outcomes = runs.map(|(burst, is_adaptive)| outcome(burst, is_adaptive, counted));
    let outcomes = try_join_all(outcomes).await?;
    let mut table = Table::new(
        "limit | burst of the server | good per second | of its rate | refused | failed | verdict",
    );
    let mut holds = true;
    for Outcome {
        adaptive,
        burst,
        good,
        refused,
        failed,
    } in outcomes
    {
        let refused = refused as f64 / (good + refused).max(1) as f64;
        let good = good as f64 / counted.as_secs_f64();
        let share = good / RATE as f64;
        let is_reached = share >= GOODPUT && refused <= REFUSED && failed == 0;
        holds &= is_reached || adaptive.is_none();
        let (limit, verdict) = match adaptive {
            Some(rate) => (format!("adaptive, {rate:.0} at last"), verdict(is_reached)),
            None => (RATE.to_string(), ""),
        };
        let percent = 100.0 * refused;
        table.push(format!(
            "{limit} | {burst} | {good:.1} | {share:.3} | {percent:.2} % | {failed} | {verdict}"
        ));
    }
    println!(
        "{TASKS} tasks that get an object through ThrottledConnector::adaptive; a server that answers 503 above {RATE} per second; {counted:?} after {SEARCH:?}.\n"
    );
    table.print(false);
    Ok(ExitCode::from(u8::from(!holds)))
}

/// The results of a client while it was counted.
struct Outcome {
    /// The adaptive rate at the end.
    adaptive: Option<f64>,
    burst: u64,
    /// Requests that the server accepted, and that it refused.
    good: u64,
    refused: u64,
    /// Gets that failed in spite of their retries.
    failed: u64,
}

/// The requests that the server has accepted, and that it has refused.
type Counts = [AtomicU64; 2];

async fn outcome(burst: u64, is_adaptive: bool, counted: Duration) -> Result<Outcome> {
    let counts = Arc::new(Counts::default());
    let (address, _) = serve(app(burst, Arc::clone(&counts))).await?;
    let rate = Arc::new(AdaptiveRate::new());
    let fixed = Arc::new(RateLimiter::new(Quota::per_second(RATE)));
    let throttle = (!is_adaptive).then_some(fixed);
    let mut connector = ThrottledConnector::new(HyperConnector::default(), throttle);
    if is_adaptive {
        connector = connector.adaptive(Arc::clone(&rate));
    }
    let store = Arc::new(store(address, connector));

    let end = Instant::now() + SEARCH + counted;
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            let (path, mut failed) = (Path::from("object"), 0);
            while Instant::now() < end {
                let got = async { store.get(&path).await?.bytes().await };
                failed += u64::from(got.await.is_err());
            }
            failed
        });
    }
    sleep(SEARCH).await;
    let now = || counts.each_ref().map(|count| count.load(Ordering::Relaxed));
    let before = now();
    sleep(counted).await;
    let (after, rate) = (now(), rate.rate());
    Ok(Outcome {
        adaptive: is_adaptive.then_some(rate),
        burst,
        good: after[0] - before[0],
        refused: after[1] - before[1],
        failed: tasks.join_all().await.into_iter().sum(),
    })
}

fn app(burst: u64, counts: Arc<Counts>) -> Router {
    let accepted = Arc::new(RateLimiter::new(Quota::per_second(RATE).burst(burst)));
    let answer = move || {
        let (count, answer) = match accepted.try_acquire() {
            Ok(_) => (&counts[0], (StatusCode::OK, "an object")),
            Err(_) => (&counts[1], (StatusCode::SERVICE_UNAVAILABLE, SLOW_DOWN)),
        };
        count.fetch_add(1, Ordering::Relaxed);
        std::future::ready(answer)
    };
    Router::new().route("/object", get(answer))
}
