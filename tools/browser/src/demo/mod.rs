//! The check: drives the page in a headless browser, and prints one line for each item.
//!
//! The time limits are the specification's. The lines state the measurements, so that a near miss
//! shows.

mod panels;

use std::error::Error;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use demo::app::{App, Server};
use http_body_util::BodyExt;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use panels::{Found, look};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tollgate::{Clock, Quota, RateLimiter};

use crate::chromium::Chromium;
use crate::report::{self, Report, interrupted};

/// The time that requests have to end after the checks.
const GRACE: Duration = Duration::from_secs(3);

/// The functions that this check adds to those of every page.
const PROBE: &str = include_str!("probe.js");

/// Serves the demonstration, and reports all checks of it.
pub(crate) async fn run(report: &mut Report, screenshots: Option<&Path>) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let mut server = Server::start(listener, App::start(Clock::system()));
    let app = Arc::clone(server.app());
    let ended = tokio::select! {
        () = check_all(report, &app, address, screenshots) => Ok(()),
        error = server.failed() => Err(io::Error::other(format!("a panel has failed: {error}"))),
    };
    server.stop(GRACE).await;
    ended
}

async fn check_all(
    report: &mut Report,
    app: &App,
    address: SocketAddr,
    screenshots: Option<&Path>,
) {
    let url = format!("http://{address}/");
    let opened = tokio::select! {
        opened = Chromium::open(&url, PROBE) => opened,
        () = interrupted() => return report.line("browser", Err("interrupted".to_owned())),
    };
    match opened {
        Ok(browser) => {
            let checked = tokio::select! {
                checked = check(&browser, report, screenshots, app, address) => checked,
                () = interrupted() => Err("interrupted".to_owned()),
            };
            if let Err(error) = checked {
                report.line("browser", Err(error));
            }
            browser.end().await;
        }
        Err(error) => {
            report.line("browser", Err(error));
            let load = measure_load(app, address).await;
            report.line("load", load_verdict(load));
        }
    }
}

async fn check(
    browser: &Chromium,
    report: &mut Report,
    screenshots: Option<&Path>,
    app: &App,
    address: SocketAddr,
) -> Result<(), String> {
    browser.show(1280, false).await?;
    panels::first_event(browser, report).await?;
    panels::axis(browser, report).await?;
    panels::series(browser, report).await?;
    check_layout(browser, report).await?;
    if let Some(folder) = screenshots {
        save_screenshots(browser, report, folder).await?;
    }
    panels::by_itself(browser, report).await?;
    panels::five_clients(browser, report).await?;
    panels::sliders(browser, report).await?;
    panels::cancel(browser, report).await?;
    panels::under_load(browser, report, app, address).await?;
    let mut complaints = browser.complaints();
    // The browser logs the refusals that the page's button provokes on purpose.
    complaints.retain(|it| !(it.contains("429") && it.ends_with("/api/hello")));
    report.console(&complaints);
    Ok(())
}

// The layout of the page at several widths: nothing scrolls sideways, no text covers another, and
// none is cut at the edge of a canvas.

/// CSS pixels: a telephone, a laptop, a large screen.
const WIDTHS: [i64; 3] = [390, 1280, 1920];

async fn check_layout(browser: &Chromium, report: &mut Report) -> Result<(), String> {
    // Its answers stay on the page, so they have to fit as well.
    hello(browser, report).await?;
    for width in WIDTHS {
        browser.show(width, false).await?;
        for view in ["five", "one"] {
            let () = browser.probe("view", &[view.into()]).await?;
            let () = browser.probe("wait", &[300.into()]).await?;
            report::check_layout(browser, report, &format!("{width} px, {view}")).await?;
        }
    }
    browser.show(1280, false).await
}

/// Checks that the button that calls `/api/hello` shows answers, refusals and the fields of the
/// last one.
async fn hello(browser: &Chromium, report: &mut Report) -> Result<(), String> {
    let judge = |answers: String| {
        let statuses = answers.lines().next().unwrap_or_default().to_owned();
        let each: Vec<_> = statuses.split(' ').collect();
        let known = each.len() == 15 && each.iter().all(|it| ["200", "429"].contains(it));
        if !known || !answers.contains("ratelimit: \"client\";") {
            (Found::Wrong, answers)
        } else if each.contains(&"429") {
            (Found::Well, statuses)
        } else {
            // On a slow machine, tokens refill meanwhile.
            (Found::Late, statuses)
        }
    };
    let line = look(browser, "hello", &[], 3, judge).await?;
    report.line("button of /api/hello", line);
    Ok(())
}

/// Writes `demo-{width}-{light,dark}.png` into `folder`.
async fn save_screenshots(
    browser: &Chromium,
    report: &mut Report,
    folder: &Path,
) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    // Charts show the last 20 seconds, and there are ten events in each.
    let filled: Option<f64> = browser
        .probe("events", &[200.into(), 60_000.into()])
        .await?;
    filled.ok_or("200 events took more than a minute")?;
    for width in WIDTHS {
        for dark in [false, true] {
            browser.show(width, dark).await?;
            mix_waiters(browser).await?;
            let scheme = if dark { "dark" } else { "light" };
            let file = folder.join(format!("demo-{width}-{scheme}.png"));
            browser.screenshot(&file).await?;
            report.line("screenshot", Ok(file.display().to_string()));
        }
    }
    browser.show(1280, false).await
}

/// Leaves some waiters admitted, some cancelled and some waiting.
async fn mix_waiters(browser: &Chromium) -> Result<(), String> {
    let () = browser.probe("click", &["/queue/refill".into()]).await?;
    let () = browser.probe("wait", &[5000.into()]).await?;
    let () = browser.probe("click", &["/queue/cancel".into()]).await?;
    // Until an event tells the page.
    browser.probe("wait", &[500.into()]).await
}

// Two thousand requests per second for ten seconds, from this process over a socket.

/// Requests per second.
const RATE: u64 = 2000;
const TIME: Duration = Duration::from_secs(10);
const REQUESTS: u64 = RATE * TIME.as_secs();
/// The greatest number of requests in flight.
const CLIENTS: usize = 64;

/// The greatest difference between the admitted number and the quota.
const TOLERANCE: f64 = 0.01;
/// The fraction of the rate that has to be sent for the check to mean anything.
const SENT: f64 = 0.95;

type BoxError = Box<dyn Error + Send + Sync>;

/// The fraction of the rate that a machine sends unless it is too busy: one that stalled for more
/// than the tenth of a second that can be made up for sends less.
const SENT_WITHOUT_STALL: f64 = 0.995;

/// The measurements of ten seconds.
struct Round {
    /// Requests per second.
    sent: f64,
    /// From the first decision of the limiter to the last.
    span: Duration,
    /// According to the limiter, and according to the quota in that time.
    admitted: u64,
    expected: f64,
    statuses: Statuses,
}

impl Round {
    fn difference(&self) -> f64 {
        self.admitted as f64 / self.expected - 1.0
    }

    /// Returns whether the route admitted its quota, and each answer said so.
    fn holds(&self) -> bool {
        let (ok, refused) = (self.admitted, REQUESTS - self.admitted);
        self.sent >= SENT * RATE as f64
            && self.difference().abs() <= TOLERANCE
            && self.statuses == Statuses { ok, refused }
    }

    /// Returns whether the machine was too busy for the load, which is no failure of the server.
    fn is_slow(&self) -> bool {
        self.sent < SENT_WITHOUT_STALL * RATE as f64
    }

    /// Returns how many requests were answered with the status 200.
    fn answered(&self) -> u64 {
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
async fn measure_load(app: &App, address: SocketAddr) -> Result<Round, BoxError> {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let (limiter, ..) = app.shared();
    // The expectation has a whole burst, which an attempt before this one has used.
    sleep(limiter.peek().reset_after).await;
    let (_, before, _) = app.shared();
    let start = Instant::now();
    let statuses = send_all(&client, address).await?;
    let (quota, (_, admitted, span)) = (limiter.quota(), app.shared());
    let periods = span.as_secs_f64() / quota.period().as_secs_f64();
    Ok(Round {
        sent: REQUESTS as f64 / start.elapsed().max(TIME).as_secs_f64(),
        span,
        admitted: admitted - before,
        expected: quota.count() as f64 * periods + quota.max_burst() as f64,
        statuses,
    })
}

/// Returns the measurements, as an error if they are wrong.
fn load_verdict(round: Result<Round, BoxError>) -> Result<String, String> {
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
    // Late requests may be made up for, up to a tenth of a second.
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
