//! Bytes and streams behind a throttle.

mod bytes;
#[cfg(feature = "stream")]
mod stream;
#[path = "../../../tests/support/mod.rs"]
mod support;

use support::scenarios::{Row, Words};

/// Follows the calls of a row, `call words = what it shows`. A call without `=` shows nothing.
fn follow(row: &Row, mut call: impl FnMut(&str, &mut Words<'_>) -> String) -> Result<(), String> {
    for text in row.texts() {
        let (asked, expected) = text.split_once('=').unwrap_or((&text, ""));
        let mut words = Words::new(asked);
        let shown = call(words.word(), &mut words);
        words.end();
        if shown != expected.trim() {
            return Err(format!("{text:?} shows {shown:?}"));
        }
    }
    Ok(())
}
