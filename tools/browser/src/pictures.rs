//! A picture within a page, as `cargo doc` shows it: it fits the page, and nothing of it lies outside.

use std::fs;
use std::path::Path;

use browser::{Chromium, Report};
use serde::Deserialize;

/// CSS pixels. Pictures are 960 wide.
const WIDTHS: [i64; 3] = [1200, 800, 390];

#[derive(Deserialize)]
struct Found {
    texts: usize,
    outside: Vec<String>,
}

pub(crate) async fn check(
    browser: &Chromium,
    report: &mut Report,
    path: &Path,
) -> Result<(), String> {
    let wrong = |error| format!("{}: {error}", path.display());
    let picture = fs::read_to_string(path).map_err(wrong)?;
    browser
        .go_to("about:blank", include_str!("pictures.js"))
        .await?;
    let () = browser.probe("put", &[picture.into()]).await?;
    let name = path.file_name().unwrap_or_default().display().to_string();
    for width in WIDTHS {
        browser.show(width, false).await?;
        let Found { texts, outside } = browser.probe("picture", &[]).await?;
        let line = match outside.is_empty() && texts > 0 {
            true => Ok(format!("none of {texts} texts lies outside")),
            false => Err(format!("of {texts} texts, {}", outside.join("; "))),
        };
        report.line(&format!("{name}, {width} px"), line);
    }
    Ok(())
}
