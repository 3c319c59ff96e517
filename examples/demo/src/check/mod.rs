//! The check: drives the page in a headless browser, and prints one line for each thing it looks at.
//!
//! The time limits are the specification's. The lines say what was measured, so that a limit that is
//! nearly missed shows.

mod browser;
mod layout;
mod load;
mod panels;

use std::fmt;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;

use browser::Chromium;
use tokio::signal::ctrl_c;

use crate::app::App;

/// What was found, printed as it is found.
#[derive(Default)]
pub(crate) struct Report {
    passed: usize,
    failed: usize,
}

impl Report {
    /// Prints a line and counts it. Both results say what was measured.
    pub(crate) fn line(&mut self, name: &str, result: Result<String, String>) {
        match result {
            Ok(measured) => {
                self.passed += 1;
                print(format_args!("pass  {name}: {measured}"));
            }
            Err(why) => {
                self.failed += 1;
                print(format_args!("FAIL  {name}: {why}"));
            }
        }
    }
}

/// Prints a line. Unlike `println!`, it does not panic when a reader such as `head` has ended: the
/// check goes on, and its exit code says the result.
fn print(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// Runs all checks, prints a line for each, and returns whether all passed.
pub async fn run(app: &App, address: SocketAddr, screenshots: Option<&Path>) -> bool {
    let mut report = Report::default();
    let url = format!("http://{address}/");
    let opened = tokio::select! {
        opened = Chromium::open(&url) => opened,
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
    let Report { passed, failed } = report;
    print(format_args!("{passed} passed, {failed} failed"));
    failed == 0
}

/// Waits for a signal to end, which must not leave the browser behind.
#[cfg(unix)]
async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).expect("it is a signal to listen for");
    tokio::select! {
        _ = ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

#[cfg(not(unix))]
async fn interrupted() {
    let _ = ctrl_c().await;
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
    let complaints = browser.complaints();
    let silent = match complaints.is_empty() {
        true => Ok("no error, no warning, no exception".to_owned()),
        false => Err(complaints.join("; ")),
    };
    report.line("console", silent);
    Ok(())
}
