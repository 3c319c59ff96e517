//! Checks pages and pictures in a headless browser: `browser [--screenshots FOLDER] demo` serves the demonstration
//! and checks it, and `browser [--screenshots FOLDER] FILE...` checks files, each of which is a built playground
//! (`.html`) or a picture of the documentation (`.svg`). Prints a line for each check, and exits with 1 if one
//! failed.

mod chromium;
mod demo;
mod picture;
mod playground;
mod report;

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::chromium::Chromium;
use crate::report::{Report, interrupted};

#[tokio::main]
async fn main() -> ExitCode {
    let mut files: Vec<_> = env::args_os().skip(1).map(PathBuf::from).collect();
    let mut screenshots = None;
    if files.len() > 1 && files[0].as_os_str() == "--screenshots" {
        screenshots = Some(files.remove(1));
        files.remove(0);
    }
    if files.is_empty() {
        eprintln!("usage: browser [--screenshots FOLDER] demo|FILE...");
        return ExitCode::from(2);
    }
    let mut report = Report::default();
    if files.len() == 1 && files[0].as_os_str() == "demo" {
        if let Err(error) = demo::run(&mut report, screenshots.as_deref()).await {
            report.line("demo", Err(error.to_string()));
        }
    } else {
        check_files(&mut report, &files, screenshots.as_deref()).await;
    }
    if report.end() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

async fn check_files(report: &mut Report, files: &[PathBuf], screenshots: Option<&Path>) {
    let opened = tokio::select! {
        opened = Chromium::open("about:blank", "") => opened,
        () = interrupted() => Err("interrupted".to_owned()),
    };
    let checked = match opened {
        Ok(browser) => {
            let checked = tokio::select! {
                checked = check(&browser, report, files, screenshots) => checked,
                () = interrupted() => Err("interrupted".to_owned()),
            };
            browser.end().await;
            checked
        }
        Err(error) => Err(error),
    };
    if let Err(error) = checked {
        report.line("browser", Err(error));
    }
}

async fn check(
    browser: &Chromium,
    report: &mut Report,
    files: &[PathBuf],
    screenshots: Option<&Path>,
) -> Result<(), String> {
    for file in files {
        let path = file.canonicalize();
        let path = path.map_err(|error| format!("{}: {error}", file.display()))?;
        if path.extension().is_some_and(|it| it == "svg") {
            picture::check(browser, report, &path).await?;
        } else {
            playground::check(browser, report, &path, screenshots).await?;
        }
    }
    report.console(&browser.complaints());
    Ok(())
}
