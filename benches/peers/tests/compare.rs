//! Tests the output of `compare`: each algorithm keeps its promise in the table behind the
//! pictures, and the pictures in `docs` are current.

#[path = "compare/promises.rs"]
mod promises;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use self::promises::{Calls, PERIOD, check, counted};

/// The names of the limiters, and the promises for any second in their pictures.
const LIMITERS: [(&str, usize); 8] = [
    ("gcra", 11),
    ("gcra burst 10", 20),
    ("token-bucket burst 20", 30),
    ("fixed-window", 20),
    ("sliding-window", 19),
    ("sliding-log", 10),
    ("sub-interval/4", 10),
    ("leaky-bucket capacity 10", 11),
];

fn compare(arguments: &[&str], out: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_compare"));
    command.args(arguments).arg("--out").arg(out);
    command.output().expect("the program can be started")
}

/// Returns a directory of its own for each test, with the output in it.
fn written(test: &str, arguments: &[&str]) -> PathBuf {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let output = compare(arguments, &out);
    assert!(output.status.success(), "{output:?}");
    out
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A cell of a table of numbers may be empty.
type Column = (String, Vec<Option<u64>>);

/// The columns of a table, with the names in its first line.
fn columns(file: &Path) -> Vec<Column> {
    let csv = read(file);
    let mut lines = csv.lines();
    let names = lines.next().expect("a line of names").split(',');
    let mut columns: Vec<_> = names.map(|name| (name.to_owned(), Vec::new())).collect();
    for line in lines {
        let cells: Vec<_> = line.split(',').collect();
        assert_eq!(cells.len(), columns.len(), "{line}");
        for ((_, column), cell) in columns.iter_mut().zip(cells) {
            column.push((!cell.is_empty()).then(|| cell.parse().expect("a number")));
        }
    }
    columns
}

/// Returns the results of the calls for each limiter, read from the table.
fn outcomes(test: &str) -> Vec<(&'static str, Calls)> {
    let columns = columns(&written(test, &["algorithms", "--csv"]).join("algorithms.csv"));
    let names = columns[1..].iter().map(|(name, _)| name.as_str());
    assert_eq!(
        names.collect::<Vec<_>>(),
        LIMITERS.map(|(name, _)| name),
        "the array LIMITERS of this file needs a row for each column of the table"
    );
    let mut columns = columns.into_iter().map(|(_, column)| column);
    let arrivals: Option<Vec<u64>> = columns.next().expect("arrivals").into_iter().collect();
    let arrivals = arrivals.expect("each call came at some time");
    let calls = |at| Calls {
        arrivals: arrivals.clone(),
        at,
    };
    let names = LIMITERS.iter().map(|(name, _)| *name);
    names.zip(columns.map(calls)).collect()
}

#[test]
fn every_algorithm_keeps_its_promise_in_every_window() {
    for (name, calls) in outcomes("promises") {
        assert_eq!(check(name, &calls), Ok(()), "{name}");
    }
}

#[test]
fn any_one_more_that_is_let_through_breaks_a_promise() {
    for (name, calls) in outcomes("one_more") {
        let refused = (0..calls.at.len()).filter(|&call| calls.at[call].is_none());
        let refused: Vec<_> = refused.collect();
        assert!(!refused.is_empty(), "{name}");
        for call in refused {
            let mut more = calls.clone();
            more.at[call] = Some(more.arrivals[call]);
            assert!(check(name, &more).is_err(), "{name}: call {call}");
        }
    }
}

#[test]
fn any_one_that_is_let_go_too_early_breaks_the_promise_of_a_queue() {
    let outcomes = outcomes("too_early");
    let (name, calls) = outcomes.last().expect("there are some");
    let waited = (0..calls.at.len())
        .filter(|&call| calls.at[call].is_some_and(|at| at > calls.arrivals[call]));
    let waited: Vec<_> = waited.collect();
    assert!(waited.len() > 20, "{name}");
    for call in waited {
        let mut early = calls.clone();
        early.at[call] = early.at[call].map(|at| at - 2);
        assert!(check(name, &early).is_err(), "{name}: call {call}");
    }
}

#[test]
fn pictures_say_how_many_there_were_in_any_second() {
    let outcomes = outcomes("figures");
    let svg = read(&written("figures", &["algorithms"]).join("algorithms.svg"));
    let mut said = svg
        .lines()
        .filter(|line| line.starts_with("most in any second"));
    for ((name, calls), (_, promised)) in outcomes.iter().zip(LIMITERS) {
        let most = counted(&calls.admitted())
            .filter(|counted| counted.last - counted.first < PERIOD)
            .map(|counted| counted.count)
            .max();
        let most = most.expect("somebody was let through");
        let expected = format!("most in any second: {most}, promised: {promised}");
        assert_eq!(said.next(), Some(expected.as_str()), "{name}");
    }
    assert_eq!(said.next(), None);
}

#[test]
fn pictures_in_the_documentation_are_what_is_written_now() {
    let out = written("stale", &["algorithms", "--csv"]);
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    for file in ["algorithms.csv", "algorithms.svg"] {
        assert!(
            read(&out.join(file)) == read(&docs.join(file)),
            "docs/{file} is not what this writes: \
             cargo run --release -p peers --bin compare -- algorithms --csv"
        );
    }
}

#[test]
fn pictures_are_small_and_stand_alone() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let style = simulations::picture::style();
    for file in [
        "algorithms.svg",
        "pacing.svg",
        "adaptive-workers.svg",
        "adaptive-service.svg",
    ] {
        let svg = read(&docs.join(file));
        assert!(svg.len() < 150_000, "{file}: {}", svg.len());
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        let drawn = svg.replacen(&style, "", 1);
        for foreign in ["href", "url(", "@import", "<script", "<style"] {
            assert!(!drawn.contains(foreign), "{file}: {foreign}");
        }
        for color in drawn.split("=\"#").skip(1).map(|rest| &rest[..6]) {
            let form = format!("--dark-{color}:");
            assert!(
                svg.contains(&form),
                "{file}: #{color} has no dark form; cargo xtask pictures"
            );
        }
        // In the documentation a blank line would end it.
        assert!(svg.lines().all(|line| !line.trim().is_empty()), "{file}");
    }
}

#[test]
fn releases_are_written_in_order() {
    let out = written("pacing", &["pacing", "--csv"]);
    let columns = columns(&out.join("pacing.csv"));
    let names: Vec<_> = columns.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["release", "tollgate", "governor", "leaky-bucket"]);
    assert!(columns[0].1.iter().copied().eq((0..200).map(Some)));
    for (name, releases) in &columns[1..] {
        let came: Vec<_> = releases.iter().flatten().collect();
        assert!(came.is_sorted(), "{name}");
        // A slow contender is cut off: no cell follows an empty one.
        assert!(releases[came.len()..].iter().all(Option::is_none), "{name}");
    }
    assert!(read(&out.join("pacing.svg")).contains("governor"));
}

#[test]
fn what_cannot_be_written_is_an_error() {
    let file = written("unwritable", &["algorithms"]).join("algorithms.svg");
    let output = compare(&["algorithms"], &file.join("below"));
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("algorithms.svg"), "{said}");
}
