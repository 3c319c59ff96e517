//! How a page looks: nothing scrolls sideways, no text covers another, and none is cut at the edge of a
//! canvas.

use serde::Deserialize;

use crate::{Chromium, Report};

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
/// Returns what the browser said.
pub async fn check_layout(
    browser: &Chromium,
    report: &mut Report,
    what: &str,
) -> Result<(), String> {
    let Sideways { page, tables } = browser.probe("sideways", &[]).await?;
    let fits = match page <= 0 && tables.is_empty() {
        true => Ok("nothing scrolls sideways".to_owned()),
        false => Err(format!(
            "the page is {page} px too wide; tables that scroll: {tables:?}"
        )),
    };
    report.line(&format!("{what}, width"), fits);
    let Overlaps { texts, found } = browser.probe("overlaps", &[]).await?;
    let apart = match found.is_empty() {
        true => Ok(format!("none of {texts} texts covers another or is cut")),
        false => Err(found.join("; ")),
    };
    report.line(&format!("{what}, texts"), apart);
    Ok(())
}
