//! Lines of a check, one for each item.

use std::fmt;
use std::io::{self, Write};

use serde::Deserialize;
use tokio::signal::ctrl_c;

use crate::chromium::Chromium;

/// The results, printed as they come.
#[derive(Debug, Default)]
pub(crate) struct Report {
    passed: usize,
    failed: usize,
}

impl Report {
    /// Prints a line and counts it. Both results state the measurement.
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

    /// Prints whether the browser complained: errors, warnings and exceptions.
    pub(crate) fn console(&mut self, complaints: &[String]) {
        let silent = if complaints.is_empty() {
            Ok("no error, no warning, no exception".to_owned())
        } else {
            Err(complaints.join("; "))
        };
        self.line("console", silent);
    }

    /// Prints how many passed and failed, and returns whether all passed.
    pub(crate) fn end(self) -> bool {
        let Self { passed, failed } = self;
        print(format_args!("{passed} passed, {failed} failed"));
        failed == 0
    }
}

/// Prints a line. Unlike `println!`, it does not panic when a reader such as `head` has ended: the
/// check continues, and its exit code gives the result.
fn print(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// Waits for a signal to end, which must not leave the browser behind.
#[cfg(unix)]
pub(crate) async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).expect("it is a signal to listen for");
    tokio::select! {
        _ = ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

#[cfg(not(unix))]
pub(crate) async fn interrupted() {
    let _ = ctrl_c().await;
}

// The layout of a page: nothing scrolls sideways, no text covers another, and none is cut at the edge
// of a canvas.

#[derive(Deserialize)]
struct Sideways {
    page: i64,
    tables: Vec<String>,
}

#[derive(Deserialize)]
struct Overlaps {
    texts: usize,
    found: Vec<String>,
}

/// Reports whether the page fits its window, and whether its texts are apart.
///
/// # Errors
///
/// Returns the browser's error.
pub(crate) async fn check_layout(
    browser: &Chromium,
    report: &mut Report,
    what: &str,
) -> Result<(), String> {
    let Sideways { page, tables } = browser.probe("sideways", &[]).await?;
    let fits = if page <= 0 && tables.is_empty() {
        Ok("nothing scrolls sideways".to_owned())
    } else {
        Err(format!(
            "the page is {page} px too wide; tables that scroll: {tables:?}"
        ))
    };
    report.line(&format!("{what}, width"), fits);
    let Overlaps { texts, found } = browser.probe("overlaps", &[]).await?;
    let apart = if found.is_empty() {
        Ok(format!("none of {texts} texts covers another or is cut"))
    } else {
        Err(found.join("; "))
    };
    report.line(&format!("{what}, texts"), apart);
    Ok(())
}
