//! Whether the panels live: events come, numbers move, sliders and buttons reach the server.

use std::collections::BTreeMap;

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

/// Each series is a number, and in each panel of the page most of them move.
pub(super) async fn series(browser: &Chromium, report: &mut Report) -> Result<(), String> {
    let moving: Vec<String> = browser.probe("moving", &[LOOK.into()]).await?;
    let all: BTreeMap<String, String> = browser.probe("series", &[]).await?;
    let mut panels = BTreeMap::<&str, (usize, usize, Vec<&str>)>::new();
    for (name, value) in &all {
        let panel = name.split('.').next().unwrap_or_default();
        let (count, moved, wrong) = panels.entry(panel).or_default();
        *count += 1;
        *moved += usize::from(moving.contains(name));
        if !value.parse::<f64>().is_ok_and(f64::is_finite) {
            wrong.push(name);
        }
    }
    for panel in ["algorithms", "queue", "tenants", "backend", "http"] {
        let line = match panels.remove(panel) {
            None => Err("no series".to_owned()),
            Some((_, _, wrong)) if !wrong.is_empty() => Err(format!("no numbers: {wrong:?}")),
            // Nobody calls the routes yet.
            Some((count, moved, _)) if moved == 0 && panel != "http" => {
                Err(format!("none of {count} series moved in {LOOK} ms"))
            }
            Some((count, moved, _)) => Ok(format!(
                "{count} series are numbers, {moved} moved in {LOOK} ms"
            )),
        };
        report.line(&format!("panel {panel}"), line);
    }
    Ok(())
}

/// Milliseconds, where there is no value that was not seen in time.
#[derive(Deserialize)]
struct Slid {
    from: f64,
    to: f64,
    server: Option<f64>,
    moved: Option<f64>,
    own: Option<f64>,
    back: Option<f64>,
}

pub(super) async fn sliders(browser: &Chromium, report: &mut Report) -> Result<(), String> {
    let settings: Vec<String> = browser.probe("settings", &[]).await?;
    if settings.is_empty() {
        report.line("sliders", Err("the page has none".to_owned()));
    }
    let shows: BTreeMap<String, String> = browser.probe("series", &[]).await?;
    for name in settings {
        let slid: Slid = browser.probe("slider", &[name.as_str().into()]).await?;
        let within = |seen: Option<f64>, limit: f64| seen.is_some_and(|seen| seen <= limit);
        let say =
            |seen: Option<f64>| seen.map_or("never".to_owned(), |seen| format!("{seen:.0} ms"));
        let own = shows.contains_key(&name);
        let measured = format!(
            "{} to {}: the server has it after {}, the panel moves after {}{}",
            slid.from,
            slid.to,
            say(slid.server),
            say(slid.moved),
            if own {
                format!(", {name} shows it after {}", say(slid.own))
            } else {
                String::new()
            },
        );
        let well = within(slid.server, SETTING_WITHIN)
            && within(slid.moved, SERIES_WITHIN)
            && (!own || within(slid.own, SERIES_WITHIN))
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
