//! Checks the playground and pictures: `browser [--screenshots FOLDER] FILE...`, where each file is a built
//! playground (`.html`) or a picture of the documentation (`.svg`). Exits with 1 if something failed.

mod pictures;
mod playground;

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use browser::{Chromium, Report, interrupted};

#[tokio::main]
async fn main() -> ExitCode {
    let mut files: Vec<_> = env::args_os().skip(1).map(PathBuf::from).collect();
    let mut screenshots = None;
    if files.len() > 1 && files[0].as_os_str() == "--screenshots" {
        screenshots = Some(files.remove(1));
        files.remove(0);
    }
    if files.is_empty() {
        eprintln!("usage: browser [--screenshots FOLDER] FILE...");
        return ExitCode::from(2);
    }
    let mut report = Report::default();
    let opened = tokio::select! {
        opened = Chromium::open("about:blank", "") => opened,
        () = interrupted() => Err("interrupted".to_owned()),
    };
    let checked = match opened {
        Ok(browser) => {
            let checked = tokio::select! {
                checked = check(&browser, &mut report, &files, screenshots.as_deref()) => checked,
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
    match report.end() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
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
            pictures::check(browser, report, &path).await?;
        } else {
            playground::check(browser, report, &path, screenshots).await?;
        }
    }
    let complaints = browser.complaints();
    let silent = match complaints.is_empty() {
        true => Ok("no error, no warning, no exception".to_owned()),
        false => Err(complaints.join("; ")),
    };
    report.line("console", silent);
    Ok(())
}
