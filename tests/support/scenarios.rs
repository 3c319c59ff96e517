//! The language of tests that are tables: a test is a row of text, and what is expected after each call
//! is said by a model.
//!
//! `name | set-up | call 1, call 2, 3 x call 4 + call 5`. The name says which promise it is. A line that begins with blanks
//! continues the row, and one that begins with `#` is a comment. What a call does is said where the table is.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::{FromStr, SplitWhitespace};

/// A row of a table.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) setup: String,
    calls: String,
}

/// The rows of a table, in their order.
pub(crate) fn rows(table: &str) -> Vec<Row> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    let joined = lines.collect::<Vec<_>>().join("\n").replace("\n    ", " ");
    let rows = joined.lines().filter(|row| !row.trim().is_empty());
    rows.map(|row| {
        let parts: Vec<_> = row.split('|').map(|part| part.trim().to_owned()).collect();
        let Ok([name, setup, calls]) = <[String; 3]>::try_from(parts) else {
            panic!("not three parts: {row:?}");
        };
        Row { name, setup, calls }
    })
    .collect()
}

impl Row {
    /// The calls, those that are repeated as often as the row says.
    pub(crate) fn calls<T>(&self, call: impl Fn(&str, &mut Words<'_>) -> T) -> Vec<T> {
        let mut all = Vec::new();
        for part in self.calls.split(',') {
            let (times, calls) = part.split_once(" x ").unwrap_or(("1", part));
            for _ in 0..times.trim().parse().expect("a number of times") {
                for text in calls.split('+') {
                    let mut words = Words::new(text);
                    all.push(call(words.word(), &mut words));
                    words.end();
                }
            }
        }
        all
    }
}

/// The words of a call or a set-up, one after the other.
pub(crate) struct Words<'a> {
    text: &'a str,
    rest: SplitWhitespace<'a>,
}

impl<'a> Words<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let rest = text.split_whitespace();
        Self { text, rest }
    }

    /// The next word; there must be one.
    pub(crate) fn word(&mut self) -> &'a str {
        let word = self.rest.next();
        word.unwrap_or_else(|| panic!("a word is missing in {:?}", self.text))
    }

    /// The next word as a number, or as whatever else a word can be parsed as.
    pub(crate) fn parse<T: FromStr>(&mut self) -> T {
        self.maybe()
            .unwrap_or_else(|| panic!("a word is missing in {:?}", self.text))
    }

    /// The same, if there is one more word.
    pub(crate) fn maybe<T: FromStr>(&mut self) -> Option<T> {
        let word = self.rest.next()?;
        let parsed = word.parse().ok();
        Some(parsed.unwrap_or_else(|| panic!("{word:?} is not expected in {:?}", self.text)))
    }

    /// Takes the next word if it is this one.
    pub(crate) fn says(&mut self, word: &str) -> bool {
        let is_next = self.rest.clone().next() == Some(word);
        if is_next {
            self.rest.next();
        }
        is_next
    }

    /// Refuses words that are left over.
    pub(crate) fn end(&mut self) {
        assert_eq!(
            self.rest.next(),
            None,
            "too much is said in {:?}",
            self.text
        );
    }
}

/// How a step names one of those that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// By its place, at which there must be one.
    Exactly,
    /// By any number; without anybody to be named nothing happens.
    AtRandom,
}

impl Names {
    pub(crate) fn choose<T>(self, which: usize, among: &[T]) -> Option<usize> {
        assert!(
            self == Self::AtRandom || which < among.len(),
            "nobody at {which}"
        );
        which.checked_rem(among.len())
    }
}

/// Runs every row of a table, and says which of them fail.
pub(crate) fn check<E: Display>(table: &str, run: impl Fn(&Row) -> Result<(), E>) {
    let fails = |row: &Row| match catch_unwind(AssertUnwindSafe(|| run(row))) {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(format!("{}: {error}", row.name)),
        Err(_) => Some(format!("{}: it panicked", row.name)),
    };
    let failures: Vec<_> = rows(table).iter().filter_map(fails).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
