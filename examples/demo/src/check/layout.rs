//! How the page looks at several widths: nothing scrolls sideways, no text covers another, and none is
//! cut at the edge of a canvas.

use std::path::Path;

use browser::{Chromium, Report};

use super::panels::{Found, look};

/// CSS pixels: a telephone, a laptop, a large screen.
const WIDTHS: [i64; 3] = [390, 1280, 1920];

pub(super) async fn check(browser: &Chromium, report: &mut Report) -> Result<(), String> {
    // Its answers stay on the page, so that they have to fit as well.
    hello(browser, report).await?;
    for width in WIDTHS {
        browser.show(width, false).await?;
        for view in ["five", "one"] {
            let () = browser.probe("view", &[view.into()]).await?;
            let () = browser.probe("wait", &[300.into()]).await?;
            browser::check_layout(browser, report, &format!("{width} px, {view}")).await?;
        }
    }
    browser.show(1280, false).await
}

/// The button that calls `/api/hello` shows answers, refusals and the fields of the last one.
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
            // On a slow machine, tokens come back meanwhile.
            (Found::Late, statuses)
        }
    };
    let line = look(browser, "hello", &[], 3, judge).await?;
    report.line("button of /api/hello", line);
    Ok(())
}

/// Writes `demo-{width}-{light,dark}.png` into `folder`.
pub(super) async fn screenshots(
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
