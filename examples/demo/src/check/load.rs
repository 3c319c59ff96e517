//! Two thousand requests per second for ten seconds, from this process over a socket.

use std::error::Error;
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
use tokio::time::Instant;
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
const EVENTS_PER_SECOND: f64 = 9.0;

type BoxError = Box<dyn Error + Send + Sync>;

/// Sends the requests, and checks that the route admitted its quota and that events kept coming.
/// Returns what was measured.
pub(super) async fn run(app: &App, address: SocketAddr) -> Result<String, String> {
    measure(app, address)
        .await
        .map_err(|error| error.to_string())
}

async fn measure(app: &App, address: SocketAddr) -> Result<String, BoxError> {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let (_, before, _) = app.http.admitted_shared();
    let start = Instant::now();
    let (statuses, events) =
        tokio::join!(send_all(&client, address), count_events(&client, address));
    let (statuses, events) = (statuses?, events?);
    let sent_in = start.elapsed().as_secs_f64().max(TIME.as_secs_f64());
    let (quota, after, span) = app.http.admitted_shared();

    let admitted = after - before;
    let (rate, burst) = (quota.count() as f64, quota.max_burst() as f64);
    let expected = rate * span.as_secs_f64() / quota.period().as_secs_f64() + burst;
    let difference = admitted as f64 / expected - 1.0;
    let events = events as f64 / TIME.as_secs_f64();
    let sent = REQUESTS as f64 / sent_in;
    let measured = format!(
        "{sent:.0} requests per second for {:.2} s: {admitted} admitted, quota {expected:.1} \
         ({:+.2} %); {events:.1} events per second",
        span.as_secs_f64(),
        100.0 * difference,
    );
    let holds = difference.abs() <= TOLERANCE
        && events >= EVENTS_PER_SECOND
        && sent >= SENT * RATE as f64
        && statuses
            == Statuses {
                ok: admitted,
                refused: REQUESTS - admitted,
            };
    if holds {
        Ok(measured)
    } else {
        Err(format!("{measured}; clients saw {statuses:?}").into())
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
                    429 => statuses.refused += 1,
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

/// Counts the events that come meanwhile.
async fn count_events(
    client: &Client<HttpConnector, Body>,
    address: SocketAddr,
) -> Result<usize, BoxError> {
    let uri = format!("http://{address}/events");
    let mut body = client
        .request(Request::get(uri).body(Body::empty())?)
        .await?
        .into_body();
    let (end, mut events) = (Instant::now() + TIME, 0);
    while let Ok(Some(frame)) = tokio::time::timeout_at(end, body.frame()).await {
        let data = frame?.into_data().unwrap_or_default();
        events += data.windows(2).filter(|bytes| bytes == b"\n\n").count();
    }
    Ok(events)
}
