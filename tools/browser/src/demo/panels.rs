//! Checks that the panels work: events come, numbers change, sliders and buttons reach the server.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Instant;

use demo::app::App;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::chromium::Chromium;
use crate::report::Report;

/// Milliseconds: the specification's limits for a slider's value to reach the server, and to show.
const SETTING_WITHIN: f64 = 300.0;
const SERIES_WITHIN: f64 = 1000.0;
/// Ten calls per second are admitted, and an event may come a tenth of a second later.
const ADMITTED_WITHIN: f64 = 400.0;
const FIRST_EVENT_WITHIN: u64 = 5000;
/// How long numbers have to change.
const LOOK: u64 = 4000;
/// Events come ten times a second; a tenth may be late.
const EVENTS_PER_SECOND: f64 = 9.0;
/// How often the load is repeated while the machine is too busy for it.
const ATTEMPTS: usize = 3;

pub(super) async fn first_event(browser: &Chromium, report: &mut Report) -> Result<(), String> {
    let first: Option<f64> = browser
        .probe("events", &[1.into(), FIRST_EVENT_WITHIN.into()])
        .await?;
    let line = match first {
        Some(milliseconds) => Ok(format!(
            "within {milliseconds:.0} ms after the page was open"
        )),
        None => Err(format!("none within {FIRST_EVENT_WITHIN} ms")),
    };
    report.line("first event", line);
    Ok(())
}

/// Checks that each series is a number, and that some of each panel and half of all change.
pub(super) async fn series(browser: &Chromium, report: &mut Report) -> Result<(), String> {
    let moving: BTreeSet<String> = browser.probe("moving", &[LOOK.into()]).await?;
    let all: BTreeMap<String, String> = browser.probe("series", &[]).await?;
    for panel in ["algorithms", "queue", "tenants", "backend", "http"] {
        let (mut count, mut moved, mut wrong) = (0, 0, Vec::new());
        for (name, value) in &all {
            if name.split('.').next() == Some(panel) {
                count += 1;
                moved += u32::from(moving.contains(name));
                if !value.parse::<f64>().is_ok_and(f64::is_finite) {
                    wrong.push(name);
                }
            }
        }
        let measured = format!("of {count} series {moved} moved in {LOOK} ms");
        // There are no calls to the routes yet.
        let moves = moved > 0 || panel == "http" && count > 0;
        let line = if moves && wrong.is_empty() {
            Ok(measured)
        } else {
            Err(format!("{measured}; no numbers: {wrong:?}"))
        };
        report.line(&format!("panel {panel}"), line);
    }
    let measured = format!("of {} series {} moved", all.len(), moving.len());
    let line = if 2 * moving.len() >= all.len() {
        Ok(measured)
    } else {
        Err(measured)
    };
    report.line("panels", line);
    Ok(())
}

/// The contents of a chart over time.
#[derive(Deserialize)]
struct Drawn {
    events: f64,
    span: f64,
    lines: usize,
}

/// A chart over time begins with the existing events: its axis is not longer than the page has been
/// open.
pub(super) async fn axis(browser: &Chromium, report: &mut Report) -> Result<(), String> {
    let _: Option<f64> = browser.probe("events", &[30.into(), 10_000.into()]).await?;
    let Drawn { events, span, .. } = browser.probe("drawn", &["goodput".into()]).await?;
    let measured = format!("{span:.1} s after {events:.1} s of events");
    // A second for events that came late.
    let line = if span <= events + 1.0 {
        Ok(measured)
    } else {
        Err(measured)
    };
    report.line("time axis", line);
    Ok(())
}

/// Checks that the workers change without input, that a slider stops them, and that a button
/// restarts them.
pub(super) async fn by_itself(browser: &Chromium, report: &mut Report) -> Result<(), String> {
    let arguments = ["backend.workers".into(), 25_000.into()];
    let moved: Option<f64> = browser.probe("changes", &arguments).await?;
    let steps: [Option<f64>; 3] = browser.probe("handBack", &[]).await?;
    let [taken, given, left] = steps.map(say);
    let measured = format!(
        "workers moved after {}; a slider had them after {taken}, they went on after {given}, and a \
         slider had them again after {left}",
        say(moved)
    );
    let line = if moved.is_some() && steps.iter().all(Option::is_some) {
        Ok(measured)
    } else {
        Err(measured)
    };
    report.line("workers by themselves", line);
    Ok(())
}

/// Checks that five clients have a line each, and that with the naive controller the sum of their
/// limits runs away.
pub(super) async fn five_clients(browser: &Chromium, report: &mut Report) -> Result<(), String> {
    let () = browser.probe("view", &["five".into()]).await?;
    let () = browser.probe("wait", &[1000.into()]).await?;
    let Drawn { lines, .. } = browser.probe("drawn", &["limits".into()]).await?;
    let arguments = ["backend.fleet.limits".into(), 150.into(), 60_000.into()];
    let () = browser
        .probe("click", &["/backend/fleet/naive".into()])
        .await?;
    let away: Option<f64> = browser.probe("exceeds", &arguments).await?;
    let () = browser
        .probe("click", &["/backend/fleet/default".into()])
        .await?;
    let () = browser.probe("view", &["one".into()]).await?;
    let measured = format!(
        "{lines} lines; with the naive controller, the sum of the limits exceeded 150 after {}",
        say(away)
    );
    let line = if lines == 5 && away.is_some() {
        Ok(measured)
    } else {
        Err(measured)
    };
    report.line("five clients", line);
    Ok(())
}

/// The target of each slider, and the value of a series soon after, which it never has before.
///
/// Quotas are reported by throttles, exact from the next event on. The other sliders change the
/// throttles' decisions, and the bound is one that the load of a fresh start cannot reach.
/// Percentiles leave out calls that came before the slider was moved.
const SLIDERS: [(&str, u64, &str); 10] = [
    // At most 120 calls per second have come.
    ("algorithms.calls", 400, "algorithms.offered >= 150"),
    ("algorithms.quota", 200, "algorithms.quota = 200"),
    // A burst of 10 and 50 refilled tokens were the most; now there are 40 more tokens at once.
    (
        "algorithms.burst",
        50,
        "algorithms.token_bucket.per_second >= 75",
    ),
    ("queue.quota", 100, "queue.quota = 100"),
    // Of 300 calls per second, each waited for at most a second; now 600 come.
    ("tenants.noise", 40, "tenants.fifo.noisy.waiting >= 400"),
    // Waits were as long as a call's patience, a second. Now 800 calls per second get a slot: the
    // at most 345 waiting calls are ahead of a new one for less than half a second.
    ("tenants.slots", 32, "tenants.fifo.quiet-1.p99_ms <= 600"),
    // A hundred calls shared ten workers, and took more than a second.
    ("backend.workers", 50, "backend.fixed-100.p99_ms <= 400"),
    // There are more workers than calls, which took 30 ms at most; now they take 50 ms at least.
    ("backend.service_ms", 100, "backend.fixed-5.p99_ms >= 80"),
    ("backend.calls", 0, "backend.fixed-5.in_use = 0"),
    ("http.quota", 500, "http.quota = 500"),
];

/// The result of a look at the page.
pub(super) enum Found {
    Well,
    /// All is right, but it came late: the machine may have been busy.
    Late,
    Wrong,
}

/// Looks with a function of `probe.js` until the result is other than late, at most this many times.
/// The line states the measurement of each time.
pub(super) async fn look<T: DeserializeOwned>(
    browser: &Chromium,
    probe: &str,
    arguments: &[Value],
    times: usize,
    judge: impl Fn(T) -> (Found, String),
) -> Result<Result<String, String>, String> {
    let mut all = Vec::new();
    loop {
        let (found, measured) = judge(browser.probe(probe, arguments).await?);
        all.push(measured);
        let measured = || all.join("; again: ");
        match found {
            Found::Well => return Ok(Ok(measured())),
            Found::Late if all.len() < times => {}
            Found::Late | Found::Wrong => return Ok(Err(measured())),
        }
    }
}

fn is_within(time: Option<f64>, limit: f64) -> bool {
    time.is_some_and(|time| time <= limit)
}

fn say(time: Option<f64>) -> String {
    time.map_or("never".to_owned(), |time| format!("{time:.0} ms"))
}

/// The observations of a slider. Times are in milliseconds, and left out for events that did not
/// occur.
#[derive(Deserialize)]
struct Slid {
    from: u64,
    ready: Option<f64>,
    before: Option<f64>,
    server: Option<f64>,
    shown: Option<f64>,
    back: Option<f64>,
}

impl Slid {
    fn found(&self) -> Found {
        let all = [self.server, self.shown, self.back];
        if self.ready.is_none() {
            // Some calls took as long before as they should only take after.
            Found::Late
        } else if all.iter().any(Option::is_none) {
            Found::Wrong
        } else if is_within(self.server, SETTING_WITHIN) && is_within(self.shown, SERIES_WITHIN) {
            Found::Well
        } else {
            Found::Late
        }
    }
}

pub(super) async fn sliders(browser: &Chromium, report: &mut Report) -> Result<(), String> {
    let mut settings: Vec<String> = browser.probe("settings", &[]).await?;
    let mut known = SLIDERS.map(|(name, ..)| name);
    settings.sort_unstable();
    known.sort_unstable();
    if settings != known {
        report.line("sliders", Err(format!("the page has {settings:?}")));
    }
    for (name, to, shows) in SLIDERS {
        let judge = |slid: Slid| {
            let measured = format!(
                "{} to {to}: the server has it after {}, {shows} after {} (it was {})",
                slid.from,
                say(slid.server),
                say(slid.shown),
                slid.before.unwrap_or(f64::NAN),
            );
            (slid.found(), measured)
        };
        let arguments = [name.into(), to.into(), shows.into()];
        let line = look(browser, "slider", &arguments, 3, judge).await?;
        report.line(&format!("slider {name}"), line);
    }
    Ok(())
}

#[derive(Deserialize)]
struct Queue {
    waiting: i64,
    admitted: i64,
    cancelled: i64,
    last_waits_s: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Cancelled {
    refilled: Option<f64>,
    before: Queue,
    fell: Option<f64>,
    after: Queue,
    moved_on: Option<f64>,
}

impl Cancelled {
    fn found(&self) -> Found {
        let Self { before, after, .. } = self;
        // Waiters that were admitted meanwhile may have left before or after the others were
        // cancelled.
        let four_of_five = |waiting: i64| waiting * 4 / 5;
        let admitted = after.admitted - before.admitted;
        let expected = four_of_five(before.waiting - admitted)..=four_of_five(before.waiting);
        let a_fifth = 0.15..=0.25;
        let well = [self.refilled, self.fell, self.moved_on]
            .iter()
            .all(Option::is_some)
            && expected.contains(&(after.cancelled - before.cancelled))
            && a_fifth.contains(&(after.last_waits_s / before.last_waits_s));
        match well {
            true if is_within(self.moved_on, ADMITTED_WITHIN) => Found::Well,
            true => Found::Late,
            false => Found::Wrong,
        }
    }
}

/// Checks that four out of five waiters are cancelled, that none of the others is lost, and that they
/// move on: the next is admitted when it is due, and the last waits a fifth as long.
pub(super) async fn cancel(browser: &Chromium, report: &mut Report) -> Result<(), String> {
    let judge = |seen: Cancelled| {
        let Cancelled { before, after, .. } = &seen;
        let measured = format!(
            "of {} waiters {} were cancelled after {} and {} admitted meanwhile; {} wait; \
             queue.admitted rose {} later; queue.last_waits_s fell from {:.2} to {:.2}",
            before.waiting,
            after.cancelled - before.cancelled,
            say(seen.fell),
            after.admitted - before.admitted,
            after.waiting,
            say(seen.moved_on),
            before.last_waits_s,
            after.last_waits_s,
        );
        (seen.found(), measured)
    };
    let line = look(browser, "cancel", &[], 2, judge).await?;
    report.line("cancel four of five", line);
    Ok(())
}

/// Checks that events keep coming to the page under load, and that the page shows the number of
/// admitted requests.
pub(super) async fn under_load(
    browser: &Chromium,
    report: &mut Report,
    app: &App,
    address: SocketAddr,
) -> Result<(), String> {
    let all: BTreeMap<String, String> = browser.probe("series", &[]).await?;
    let shown = all.get("http.admitted").and_then(|it| it.parse().ok());
    let mut admitted: u64 = shown.ok_or("the page shows no http.admitted")?;
    for attempt in 1..=ATTEMPTS {
        let before: u64 = browser.probe("ticks", &[]).await?;
        let start = Instant::now();
        let round = super::measure_load(app, address).await;
        let seconds = start.elapsed().as_secs_f64();
        let after: u64 = browser.probe("ticks", &[]).await?;
        if let Ok(round) = &round {
            admitted += round.answered();
            if !round.holds() && round.is_slow() && attempt < ATTEMPTS {
                continue;
            }
        }
        report.line("load", super::load_verdict(round));
        let rate = after.saturating_sub(before) as f64 / seconds;
        let measured = format!("{rate:.1} events per second reached the page in {seconds:.1} s");
        let live = rate >= EVENTS_PER_SECOND;
        report.line(
            "page under load",
            if live { Ok(measured) } else { Err(measured) },
        );
        break;
    }
    let arguments = [
        "http.admitted".into(),
        admitted.into(),
        FIRST_EVENT_WITHIN.into(),
    ];
    let shown: Option<f64> = browser.probe("becomes", &arguments).await?;
    let measured = format!("http.admitted is {admitted} after {}", say(shown));
    let line = if shown.is_some() {
        Ok(measured)
    } else {
        Err(measured)
    };
    report.line("page after load", line);
    Ok(())
}
