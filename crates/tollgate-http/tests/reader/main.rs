//! Reads responses as providers document them, refusals, and random fields.

mod forms;
mod random;
mod table;

use http::StatusCode;
use tollgate_http::server_limits::{ServerLimits, Unit};
use tollgate_http::{ResponseClass, asked_wait};

use self::table::{in_seconds, rows};

/// Returns what is read, in the form of the table.
fn read(limits: &ServerLimits) -> Vec<String> {
    let or_unknown = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let windows = limits.windows().map(|window| {
        let unit = match window.unit {
            Unit::Requests => "requests",
            Unit::Tokens => "tokens",
            Unit::InputTokens => "input",
            Unit::OutputTokens => "output",
            Unit::Bytes => "bytes",
            _ => "other",
        };
        let name = Some(window.name.to_string()).filter(|name| !name.is_empty());
        let (name, remaining) = (or_unknown(name), window.remaining);
        let limit = or_unknown(window.limit.map(|limit| limit.to_string()));
        let reset_after = or_unknown(window.reset_after.map(in_seconds));
        format!("{name} | {unit} | {limit} | {remaining} | {reset_after}")
    });
    let wait = limits.retry_after().map(in_seconds);
    windows
        .chain(wait.map(|wait| format!("wait {wait}")))
        .collect()
}

#[test]
fn of_the_documented_examples_reads_their_windows() {
    let rows = rows(include_str!("windows.txt"));
    assert!(rows.len() >= 80, "only {} examples", rows.len());
    let mut wrong = 0;
    for row in &rows {
        let read = read(&ServerLimits::of(&row.headers, row.now()));
        if read != row.expected {
            println!(
                "{}:\n  read {read:#?}\n  expected {:#?}",
                row.title, row.expected
            );
            wrong += 1;
        }
    }
    assert_eq!(wrong, 0, "of {} examples", rows.len());
}

#[test]
fn of_the_documented_refusals_is_a_refusal_with_their_wait() {
    let rows = rows(include_str!("refusals.txt"));
    assert!(rows.len() >= 52, "only {} refusals", rows.len());
    let mut wrong = 0;
    for row in &rows {
        let status = row.status.expect("a status");
        let status = StatusCode::from_u16(status).expect("a status");
        let wait = asked_wait(status, &row.headers, || row.now());
        let class = ResponseClass::of(status, &row.headers, || row.now());
        // A wait of nothing asks for none.
        let asks = wait.filter(|wait| !wait.is_zero());
        let read = match class {
            ResponseClass::Success => "answered".to_owned(),
            ResponseClass::Refused(wait) if wait != asks => format!("class {class:?}"),
            ResponseClass::RefusedAlone if asks.is_some() => format!("class {class:?}"),
            _ => format!("refused {}", wait.map_or("-".to_owned(), in_seconds)),
        };
        if row.expected != [read.as_str()] {
            println!("{}: read {read}, expected {:?}", row.title, row.expected);
            wrong += 1;
        }
    }
    assert_eq!(wrong, 0, "of {} refusals", rows.len());
}
