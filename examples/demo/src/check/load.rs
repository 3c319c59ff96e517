//! Two thousand requests per second for ten seconds, from this process over a socket.

use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tollgate::{Quota, RateLimiter};

use crate::app::App;

/// Requests per second.
const RATE: u64 = 2000;
const TIME: Duration = Duration::from_secs(10);
const REQUESTS: u64 = RATE * TIME.as_secs();
/// How many requests are under way at most.
const CLIENTS: usize = 64;

/// How far what was admitted may be from the quota.
const TOLERANCE: f64 = 0.01;
/// How much of the rate has to be sent for the check to mean anything.
const SENT: f64 = 0.95;

type BoxError = Box<dyn Error + Send + Sync>;

/// How much of the rate a machine sends that is not too busy: one that stalled for more than the
/// tenth of a second that can be made up for sends less.
const SENT_WITHOUT_STALL: f64 = 0.995;

/// What was measured in ten seconds.
pub(super) struct Round {
    /// Requests per second.
    sent: f64,
    /// From the first decision of the limiter to the last.
    span: Duration,
    /// By the limiter, and by the quota in that time.
    admitted: u64,
    expected: f64,
    statuses: Statuses,
}

impl Round {
    fn difference(&self) -> f64 {
        self.admitted as f64 / self.expected - 1.0
    }

    /// Returns whether the route admitted its quota, and each answer said so.
    pub(super) fn holds(&self) -> bool {
        let (ok, refused) = (self.admitted, REQUESTS - self.admitted);
        self.sent >= SENT * RATE as f64
            && self.difference().abs() <= TOLERANCE
            && self.statuses == Statuses { ok, refused }
    }

    /// Returns whether the machine was too busy for the load, which says nothing about the server.
    pub(super) fn is_slow(&self) -> bool {
        self.sent < SENT_WITHOUT_STALL * RATE as f64
    }

    /// Returns how many requests were answered with the status 200.
    pub(super) fn answered(&self) -> u64 {
        self.statuses.ok
    }
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Statuses { ok, refused } = self.statuses;
        write!(
            f,
            "{:.0} requests per second; from the first decision to the last {:.2} s: \
             {} admitted, quota {:.1} ({:+.2} %); answers {ok} and {refused}",
            self.sent,
            self.span.as_secs_f64(),
            self.admitted,
            self.expected,
            100.0 * self.difference(),
        )
    }
}

/// Sends the requests.
pub(super) async fn measure(app: &App, address: SocketAddr) -> Result<Round, BoxError> {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let limiter = app.http.shared.throttle();
    let (decisions, span) = app.http.shared.observer();
    // What is expected has a whole burst, which an attempt before this one has used.
    sleep(limiter.peek().reset_after).await;
    let before = decisions.admitted.total();
    span.take();
    let start = Instant::now();
    let statuses = send_all(&client, address).await?;
    let (quota, span) = (limiter.quota(), span.take());
    let periods = span.as_secs_f64() / quota.period().as_secs_f64();
    Ok(Round {
        sent: REQUESTS as f64 / start.elapsed().max(TIME).as_secs_f64(),
        span,
        admitted: decisions.admitted.total() - before,
        expected: quota.count() as f64 * periods + quota.max_burst() as f64,
        statuses,
    })
}

/// Returns what was measured, as an error if it is not as it should be.
pub(super) fn verdict(round: Result<Round, BoxError>) -> Result<String, String> {
    match round {
        Ok(round) if round.holds() => Ok(round.to_string()),
        Ok(round) => Err(round.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Statuses {
    ok: u64,
    refused: u64,
}

/// Sends all requests at the rate, and counts the answers.
async fn send_all(
    client: &Client<HttpConnector, Body>,
    address: SocketAddr,
) -> Result<Statuses, BoxError> {
    // What is late may be made up for, up to a tenth of a second.
    let pace = RateLimiter::new(Quota::per_second(RATE).burst(RATE / 10));
    pace.charge(RATE / 10);
    let pace = Arc::new(pace);
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS as u64 {
        let (client, pace) = (client.clone(), pace.clone());
        clients.spawn(async move {
            let mut statuses = Statuses::default();
            for _ in (number..REQUESTS).step_by(CLIENTS) {
                pace.acquire().await?;
                match get(&client, address).await? {
                    200 => statuses.ok += 1,
                    503 => statuses.refused += 1,
                    status => return Err(format!("an answer has the status {status}").into()),
                }
            }
            Ok(statuses)
        });
    }
    let mut sum = Statuses::default();
    while let Some(statuses) = clients.join_next().await {
        let statuses: Result<Statuses, BoxError> = statuses?;
        let Statuses { ok, refused } = statuses?;
        sum.ok += ok;
        sum.refused += refused;
    }
    Ok(sum)
}

async fn get(client: &Client<HttpConnector, Body>, address: SocketAddr) -> Result<u16, BoxError> {
    let uri = format!("http://{address}/api/shared");
    let answer = client
        .request(Request::get(uri).body(Body::empty())?)
        .await?;
    let status = answer.status().as_u16();
    answer.into_body().collect().await?;
    Ok(status)
}
