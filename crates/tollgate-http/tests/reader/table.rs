//! Parses the tables of responses: text files whose format their first lines explain.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue};

/// A response of a provider, and what its client has to read in it.
#[derive(Debug, Default)]
pub(super) struct Row {
    pub(super) title: &'static str,
    pub(super) now: u64,
    pub(super) status: Option<u16>,
    pub(super) headers: HeaderMap,
    pub(super) expected: Vec<&'static str>,
}

impl Row {
    pub(super) fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(self.now)
    }
}

/// Returns the rows of a table. Each row has a source.
pub(super) fn rows(table: &'static str) -> Vec<Row> {
    let rows = table.split("\n## ").skip(1).map(row);
    rows.collect()
}

fn row(text: &'static str) -> Row {
    let (title, text) = text.split_once('\n').expect("a title");
    let (source, fields) = text.split_once('\n').expect("a source");
    let known = source.starts_with("https://") || source.starts_with("from ");
    assert!(known, "{title} has no source");
    let mut row = Row {
        title,
        ..Row::default()
    };
    for line in fields.lines().filter(|line| !line.is_empty()) {
        if let Some(expected) = line.strip_prefix("= ") {
            row.expected.push(expected);
        } else if let Some(now) = line.strip_prefix("now ") {
            row.now = now.parse().expect("seconds");
        } else if let Ok(status) = line.parse() {
            row.status = Some(status);
        } else {
            let (name, value) = line.split_once(": ").expect("a field");
            let name = HeaderName::try_from(name).expect("a name");
            let value = HeaderValue::try_from(value).expect("a value");
            row.headers.append(name, value);
        }
    }
    row
}

/// Returns seconds in the shortest form.
pub(super) fn in_seconds(duration: Duration) -> String {
    let text = format!("{}.{:09}", duration.as_secs(), duration.subsec_nanos());
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.to_owned()
}
