//! Checks that the playground works, opened from its file. Its clock runs with the frames of the
//! browser, so each line has a time limit.

use std::path::Path;

use serde::Deserialize;

use crate::chromium::Chromium;
use crate::report::{Report, check_layout};

/// The time limit of each check, in milliseconds.
const WITHIN: u64 = 20_000;

/// The time in which the first panel shows how a fixed window doubles, in milliseconds since the page was asked for.
const FIRST: f64 = 1000.0;

/// How often the page is loaded; the fastest counts, because a busy machine delays some.
const LOADS: usize = 3;

/// The documentation that the first panel refers to.
const DOCS: &str = "https://docs.rs/tollgate/latest/tollgate/";

/// What the first panel showed; of pairs, the first is the fixed window, and the second the leaky bucket.
#[derive(Deserialize)]
struct First {
    milliseconds: f64,
    /// Starts while calls came, around the edge.
    around: [u32; 2],
    most: [u32; 2],
    /// The blocks in the column before the edge, and in the one after it.
    columns: [[u32; 2]; 2],
    /// Pixels by which the panel's charts and scale end below the window.
    below: f64,
    scale: Vec<String>,
    links: Vec<String>,
}

#[derive(Deserialize)]
struct Cancelled {
    before: Vec<u32>,
    after: Vec<u32>,
    focus: u32,
}

pub(crate) async fn check(
    browser: &Chromium,
    report: &mut Report,
    path: &Path,
    screenshots: Option<&Path>,
) -> Result<(), String> {
    let url = format!("file://{}", path.display());
    first_second(browser, report, &url).await?;
    browser.show(1280, false).await?;
    browser.go_to(&url, include_str!("playground.js")).await?;
    // The charts begin with a past, after the first panel.
    becomes(browser, report, "the past", "time", 1.0, 1e9).await?;
    let begun: f64 = browser.probe("number", &["time".into()]).await?;
    becomes(browser, report, "the clock runs", "time", begun + 1.0, 1e9).await?;
    algorithms(browser, report).await?;
    queue(browser, report).await?;
    adaptive(browser, report).await?;
    for (panel, charts) in [
        ("edge", 2),
        ("algorithms", 6),
        ("queue", 1),
        ("adaptive", 3),
    ] {
        let pixels: Vec<u64> = browser.probe("drawn", &[panel.into()]).await?;
        let line = format!("pixels of each chart: {pixels:?}");
        let all = pixels.len() == charts && pixels.iter().all(|&it| it > 100);
        report.line(
            &format!("panel {panel}"),
            if all { Ok(line) } else { Err(line) },
        );
    }
    for width in [390, 1280] {
        for dark in [false, true] {
            browser.show(width, dark).await?;
            let scheme = if dark { "dark" } else { "light" };
            check_layout(browser, report, &format!("{width} px, {scheme}")).await?;
            if let Some(folder) = screenshots {
                let file = folder.join(format!("playground-{width}-{scheme}.png"));
                browser.screenshot(&file).await?;
            }
        }
    }
    let requests: Vec<String> = browser.probe("requests", &[]).await?;
    let line = if requests.is_empty() {
        Ok("none".to_owned())
    } else {
        Err(requests.join("; "))
    };
    report.line("requests", line);
    Ok(())
}

/// Checks that the first second shows a fixed window that doubles across its edge beside a leaky bucket that does
/// not, and that nothing moves for those who prefer less motion.
async fn first_second(browser: &Chromium, report: &mut Report, url: &str) -> Result<(), String> {
    let script = include_str!("playground.js");
    browser.run_first(include_str!("first.js")).await?;
    for width in [1280, 390] {
        browser.show(width, false).await?;
        let mut fastest: Option<First> = None;
        for _ in 0..LOADS {
            browser.go_to(url, script).await?;
            let first: Option<First> = browser.probe("first", &[]).await?;
            let time =
                |first: &Option<First>| first.as_ref().map_or(f64::MAX, |it| it.milliseconds);
            if time(&first) < time(&fastest) {
                fastest = first;
            }
        }
        let line = fastest.map_or(Err("no doubling".to_owned()), |first| doubles(&first));
        report.line(&format!("first second, {width} px"), line);
    }
    browser.reduce_motion().await?;
    browser.go_to(url, script).await?;
    let still: (bool, u32, u32, u32, u32) = browser.probe("still", &[]).await?;
    let line = format!("paused, around the edge and most in any second: {still:?}");
    let right = still == (true, 20, 20, 1, 10);
    report.line("less motion", if right { Ok(line) } else { Err(line) });
    Ok(())
}

/// Returns what the first panel showed, as an error if something is missing.
fn doubles(first: &First) -> Result<String, String> {
    let First {
        milliseconds,
        around,
        most,
        columns,
        below,
        scale,
        links,
    } = first;
    let line = format!(
        "after {milliseconds:.0} ms {around:?} starts around the edge, {most:?} in any second, blocks {columns:?}; \
         the charts end {below:.0} px below the window; scale {scale:?}; {} links",
        links.len()
    );
    let right = *milliseconds <= FIRST
        && *around == [20, 1]
        && most[0] == 20
        && most[1] <= 10
        && *columns == [[10, 10], [1, 0]]
        && *below <= 0.0
        && scale.first().is_some_and(|it| it == "0 s")
        && scale.last().is_some_and(|it| it == "3 s")
        && links.len() == 3
        && links.iter().all(|link| link.starts_with(DOCS));
    if right { Ok(line) } else { Err(line) }
}

/// Checks that calls are admitted up to the quota, then that none come, then a burst.
async fn algorithms(browser: &Chromium, report: &mut Report) -> Result<(), String> {
    for (name, calls, least, most) in [("60 calls/s", 60, 30, 50), ("no calls", 0, 0, 0)] {
        slide(browser, "calls", calls).await?;
        let within = [least.into(), most.into(), WITHIN.into()];
        let admitted: Option<f64> = browser.probe("admitted", &within).await?;
        let lanes: Vec<u32> = browser.probe("lanes", &["now".into()]).await?;
        let line = format!("admitted in the last second: {lanes:?}");
        report.line(name, admitted.map(|_| line.clone()).ok_or(line));
    }
    let () = browser.probe("click", &["burst".into()]).await?;
    let admitted: Option<f64> = browser
        .probe("admitted", &[8.into(), 40.into(), WITHIN.into()])
        .await?;
    let lanes: Vec<u32> = browser.probe("lanes", &["now".into()]).await?;
    let line = format!("admitted in the last second: {lanes:?}");
    report.line("burst", admitted.map(|_| line.clone()).ok_or(line));
    slide(browser, "calls", 60).await
}

/// Checks that a cancelled waiter leaves, and that a higher rate releases more.
async fn queue(browser: &Chromium, report: &mut Report) -> Result<(), String> {
    let () = browser.probe("click", &["refill".into()]).await?;
    let Cancelled {
        before,
        after,
        focus,
    } = browser.probe("cancel", &[]).await?;
    let mut expected = before.clone();
    if expected.len() > 3 {
        expected.remove(2);
    }
    let line = format!(
        "{} waiters, then {}; the focus moves to waiter {focus}",
        before.len(),
        after.len()
    );
    let right =
        after.len() + 1 == before.len() && after == expected && before.get(3) == Some(&focus);
    report.line("cancelled waiter", if right { Ok(line) } else { Err(line) });
    slide(browser, "rate", 20).await?;
    becomes(browser, report, "rate of 20/s", "released", 18.0, 21.0).await?;
    slide(browser, "rate", 4).await
}

/// Checks that the limit follows the number of workers.
async fn adaptive(browser: &Chromium, report: &mut Report) -> Result<(), String> {
    slide(browser, "speed", 10).await?;
    // A worker answers 25 calls per second.
    for (workers, limits) in [(40, (38.0, 80.0)), (4, (3.0, 9.0)), (20, (19.0, 40.0))] {
        slide(browser, "workers", workers).await?;
        let name = format!("{workers} workers");
        becomes(browser, report, &name, "limit", limits.0, limits.1).await?;
        let most = 25.0 * f64::from(workers);
        let (least, most) = (0.85 * most, 1.15 * most);
        becomes(browser, report, &name, "goodput", least, most).await?;
    }
    let best: f64 = browser.probe("number", &["best-limit".into()]).await?;
    let line = format!("the best fixed limit of 20 workers is {best}");
    let right = (20.0..=30.0).contains(&best);
    report.line("best fixed limit", if right { Ok(line) } else { Err(line) });
    slide(browser, "speed", 1).await
}

async fn slide(browser: &Chromium, id: &str, value: u32) -> Result<(), String> {
    browser.probe("slide", &[id.into(), value.into()]).await
}

/// Reports whether a number of the page reaches a range.
async fn becomes(
    browser: &Chromium,
    report: &mut Report,
    name: &str,
    id: &str,
    least: f64,
    most: f64,
) -> Result<(), String> {
    let arguments = [id.into(), least.into(), most.into(), WITHIN.into()];
    let after: Option<f64> = browser.probe("becomes", &arguments).await?;
    let value: f64 = browser.probe("number", &[id.into()]).await?;
    let line = match after {
        Some(after) => Ok(format!("{id} is {value} after {after:.0} ms")),
        None => Err(format!("{id} is {value} after {WITHIN} ms")),
    };
    report.line(name, line);
    Ok(())
}
