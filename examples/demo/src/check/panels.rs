//! Whether the panels live: events come, numbers move, sliders and buttons reach the server.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::Report;
use super::browser::Chromium;

/// Milliseconds. The specification's limits: a slider's value is with the server, and shows.
const SETTING_WITHIN: f64 = 300.0;
const SERIES_WITHIN: f64 = 1000.0;
const FIRST_EVENT_WITHIN: u64 = 5000;
/// How long numbers have to move.
const LOOK: u64 = 4000;
/// Events come ten times a second; a tenth may be late.
const EVENTS_PER_SECOND: f64 = 9.0;

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

/// Each series is a number, some of each panel move, and half of all.
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
        // Nobody calls the routes yet.
        let moves = moved > 0 || panel == "http" && count > 0;
        let line = match moves && wrong.is_empty() {
            true => Ok(measured),
            false => Err(format!("{measured}; no numbers: {wrong:?}")),
        };
        report.line(&format!("panel {panel}"), line);
    }
    let measured = format!("of {} series {} moved", all.len(), moving.len());
    let line = match 2 * moving.len() >= all.len() {
        true => Ok(measured),
        false => Err(measured),
    };
    report.line("panels", line);
    Ok(())
}

/// Where each slider is moved to, and what a series is soon after, and never before.
///
/// What a throttle reports is exact from the next event on: quotas, slots and workers. The other
/// sliders change what throttles decide, and the bound is one that the load of a fresh start cannot
/// reach.
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
    ("tenants.slots", 32, "tenants.slots = 32"),
    ("backend.workers", 50, "backend.workers = 50"),
    // Five permits were good for 250 calls of 20 ms per second; now they are for 50 of 100 ms.
    ("backend.service_ms", 100, "backend.fixed-5.goodput <= 150"),
    ("backend.calls", 0, "backend.fixed-5.in_use = 0"),
    ("http.quota", 500, "http.quota = 500"),
];

/// What was seen of a slider. Times are in milliseconds, without those of what was not seen.
#[derive(Deserialize)]
struct Slid {
    from: u64,
    ready: Option<f64>,
    before: f64,
    server: Option<f64>,
    shown: Option<f64>,
    back: Option<f64>,
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
        let slid: Slid = browser
            .probe("slider", &[name.into(), to.into(), shows.into()])
            .await?;
        let say =
            |time: Option<f64>| time.map_or("never".to_owned(), |time| format!("{time:.0} ms"));
        let measured = format!(
            "{} to {to}: the server has it after {}, {shows} after {} (it was {})",
            slid.from,
            say(slid.server),
            say(slid.shown),
            slid.before,
        );
        let within = |time: Option<f64>, limit| time.is_some_and(|time| time <= limit);
        let well = slid.ready.is_some()
            && within(slid.server, SETTING_WITHIN)
            && within(slid.shown, SERIES_WITHIN)
            && slid.back.is_some();
        let line = if well { Ok(measured) } else { Err(measured) };
        report.line(&format!("slider {name}"), line);
    }
    Ok(())
}

#[derive(Deserialize)]
struct Queue {
    waiting: u64,
    admitted: u64,
    cancelled: u64,
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

/// Four of five of those that waited are cancelled, none of the others is lost, and they move on.
pub(super) async fn cancel(browser: &Chromium, report: &mut Report) -> Result<(), String> {
    let Cancelled {
        refilled,
        before,
        fell,
        after,
        moved_on,
    } = browser.probe("cancel", &[]).await?;
    let cancelled = after.cancelled - before.cancelled;
    let admitted = after.admitted - before.admitted;
    let measured = format!(
        "of {} waiters {cancelled} were cancelled after {:.0} ms and {admitted} admitted meanwhile; {} wait; the next was admitted after {:.0} ms",
        before.waiting,
        fell.unwrap_or(f64::NAN),
        after.waiting,
        moved_on.unwrap_or(f64::NAN),
    );
    // Waiters that were admitted meanwhile may have left before the others were cancelled or after.
    let four_of_five = |waiting: u64| waiting * 4 / 5;
    let expected =
        four_of_five(before.waiting.saturating_sub(admitted))..=four_of_five(before.waiting);
    let well =
        refilled.is_some() && fell.is_some() && moved_on.is_some() && expected.contains(&cancelled);
    report.line(
        "cancel four of five",
        if well { Ok(measured) } else { Err(measured) },
    );
    Ok(())
}

/// Events keep coming to the page while `load` runs.
pub(super) async fn under_load(
    browser: &Chromium,
    report: &mut Report,
    load: impl Future<Output = Result<String, String>>,
) -> Result<(), String> {
    let before: u64 = browser.probe("ticks", &[]).await?;
    let start = std::time::Instant::now();
    let result = load.await;
    let seconds = start.elapsed().as_secs_f64();
    let after: u64 = browser.probe("ticks", &[]).await?;
    report.line("load", result);
    let rate = (after - before) as f64 / seconds;
    let measured = format!("{rate:.1} events per second reached the page in {seconds:.1} s");
    let line = if rate >= EVENTS_PER_SECOND {
        Ok(measured)
    } else {
        Err(measured)
    };
    report.line("page under load", line);
    Ok(())
}
