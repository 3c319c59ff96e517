//! Checks a picture within a page, like in `cargo doc`: it fits the page, nothing of it lies outside, and it is
//! readable in each theme.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::chromium::Chromium;
use crate::report::Report;

/// CSS pixels. Pictures are 960 wide.
const WIDTHS: [i64; 3] = [1200, 800, 390];

/// Whether the system is dark, and the theme of rustdoc with its background and its text color. Like an image, a
/// page without a theme follows the system; a page with one does not. The first is the light form.
const THEMES: [(bool, &str, [&str; 2]); 5] = [
    (false, "", ["", ""]),
    (true, "light", ["white", "black"]),
    (true, "", ["", ""]),
    (false, "dark", ["#353535", "#ddd"]),
    (false, "ayu", ["#0f1419", "#c5c5c5"]),
];

/// The lowest contrast of a text to its background that the guidelines for accessibility permit.
const TEXT: f64 = 4.5;

/// The same for a shape. A shape that is paler in the light form may be as pale in others.
const SHAPE: f64 = 3.0;

#[derive(Deserialize)]
struct Found {
    texts: usize,
    outside: Vec<String>,
}

#[derive(Deserialize)]
struct Contrast {
    background: f64,
    texts: f64,
    colors: BTreeMap<String, f64>,
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
        let line = if outside.is_empty() && texts > 0 {
            Ok(format!("none of {texts} texts lies outside"))
        } else {
            Err(format!("of {texts} texts, {}", outside.join("; ")))
        };
        report.line(&format!("{name}, {width} px"), line);
    }
    let mut light = BTreeMap::new();
    for (dark, theme, [background, ink]) in THEMES {
        browser.show(WIDTHS[0], dark).await?;
        let arguments = [theme.into(), background.into(), ink.into()];
        let () = browser.probe("theme", &arguments).await?;
        let found: Contrast = browser.probe("contrast", &[]).await?;
        if light.is_empty() {
            light.clone_from(&found.colors);
        }
        let system = if dark { "dark" } else { "light" };
        let name = format!("{name}, {system} system, theme {theme:?}");
        let is_dark = theme != "light" && (dark || !theme.is_empty());
        report.line(&name, readable(&found, &light, is_dark));
    }
    Ok(())
}

/// Returns the contrasts, as an error if one is too low or the background does not fit.
fn readable(found: &Contrast, light: &BTreeMap<String, f64>, dark: bool) -> Result<String, String> {
    let Contrast {
        background,
        texts,
        colors,
    } = found;
    let pale = colors.iter().filter(|(color, contrast)| {
        let least = light.get(*color).map_or(SHAPE, |light| light.min(SHAPE));
        **contrast < least
    });
    let pale: Vec<_> = pale
        .map(|(color, contrast)| format!("{color} has {contrast:.2}"))
        .collect();
    let line = format!(
        "luminance of the background {background:.2}, lowest contrast of a text {texts:.1}, {} colors",
        colors.len()
    );
    if pale.is_empty() && *texts >= TEXT && (*background < 0.2) == dark {
        Ok(line)
    } else {
        Err(format!("{line}; too pale: [{}]", pale.join(", ")))
    }
}
