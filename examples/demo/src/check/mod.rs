//! The check: drives the page in a headless browser, and prints one line for each thing it looks at.
//!
//! The time limits are the specification's. The lines say what was measured, so that a limit that is
//! nearly missed shows.

mod layout;
mod load;
mod panels;

use std::net::SocketAddr;
use std::path::Path;

use browser::{Chromium, Report, interrupted};

use crate::app::App;

/// The functions that this check adds to those of every page.
const PROBE: &str = include_str!("probe.js");

/// Runs all checks, prints a line for each, and returns whether all passed.
pub async fn run(app: &App, address: SocketAddr, screenshots: Option<&Path>) -> bool {
    let mut report = Report::default();
    let url = format!("http://{address}/");
    let opened = tokio::select! {
        opened = Chromium::open(&url, PROBE) => opened,
        () = interrupted() => Err("interrupted".to_owned()),
    };
    match opened {
        Ok(browser) => {
            let checked = tokio::select! {
                checked = check(&browser, &mut report, screenshots, app, address) => checked,
                () = interrupted() => Err("interrupted".to_owned()),
            };
            if let Err(error) = checked {
                report.line("browser", Err(error));
            }
            browser.end().await;
        }
        Err(error) => {
            report.line("browser", Err(error));
            let load = load::measure(app, address).await;
            report.line("load", load::verdict(load));
        }
    }
    report.end()
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
    layout::check(browser, report).await?;
    if let Some(folder) = screenshots {
        layout::screenshots(browser, report, folder).await?;
    }
    panels::by_itself(browser, report).await?;
    panels::five_clients(browser, report).await?;
    panels::sliders(browser, report).await?;
    panels::cancel(browser, report).await?;
    panels::under_load(browser, report, app, address).await?;
    let mut complaints = browser.complaints();
    // The browser logs the refusals that the page's button is there to show.
    complaints.retain(|it| !(it.contains("429") && it.ends_with("/api/hello")));
    let silent = match complaints.is_empty() {
        true => Ok("no error, no warning, no exception".to_owned()),
        false => Err(complaints.join("; ")),
    };
    report.line("console", silent);
    Ok(())
}
