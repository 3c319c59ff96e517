//! The language of tests that are tables: a test is a row of text, and what is expected after each call
//! is said by a model.
//!
//! `name | set-up | call 1, call 2, 3 x call 4 + call 5`. The name says which promise it is. A line that begins with blanks
//! continues the row, and one that begins with `#` is a comment. What a call does is said where the table is.

use std::str::{FromStr, SplitWhitespace};
use std::time::Duration;

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

    /// All words that are left, joined by single spaces.
    pub(crate) fn rest(&mut self) -> String {
        self.rest.by_ref().collect::<Vec<_>>().join(" ")
    }

    /// The next word as a length of time.
    pub(crate) fn time(&mut self) -> Duration {
        self.parse::<Time>().0
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

/// A length of time, such as `250ms`, `1s500us`, `5min-1ns` or `never`.
pub(crate) struct Time(pub(crate) Duration);

impl FromStr for Time {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text == "never" {
            return Ok(Self(Duration::MAX));
        }
        let (more, less) = text.split_once('-').unwrap_or((text, "0ns"));
        let nanos = sum(more).zip(sum(less)).ok_or(())?;
        Ok(Self(Duration::from_nanos(nanos.0 - nanos.1)))
    }
}

/// Nanoseconds of numbers with their units, one after the other.
fn sum(text: &str) -> Option<u64> {
    let (mut text, mut sum) = (text, 0);
    while !text.is_empty() {
        let unit = text.find(|letter: char| !letter.is_ascii_digit())?;
        let number: u64 = text[..unit].parse().ok()?;
        text = &text[unit..];
        let end = text.find(|letter: char| letter.is_ascii_digit());
        let nanos = match &text[..end.unwrap_or(text.len())] {
            "ns" => 1,
            "us" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "min" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "d" => 86_400_000_000_000,
            _ => return None,
        };
        text = &text[end.unwrap_or(text.len())..];
        sum += number * nanos;
    }
    Some(sum)
}
