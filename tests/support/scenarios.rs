//! The language of table tests: a test is a row of text, and a model gives the expected outcome of each
//! call.
//!
//! `name | set-up | call 1, call 2, 3 x call 4 + call 5`. The name states the promise. A line that begins with blanks
//! continues the row, and one that begins with `#` is a comment. Each table describes its calls.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::{FromStr, SplitWhitespace};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use tollgate::ErrorKind;

/// A row of a table.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) setup: String,
    calls: String,
}

/// Returns the words of the variable `ROW`: only rows whose names contain them are run.
pub(crate) fn chosen() -> Option<String> {
    std::env::var("ROW").ok()
}

/// Returns the [chosen] rows of a table, in order.
pub(crate) fn rows(table: &str) -> Vec<Row> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    let joined = lines.collect::<Vec<_>>().join("\n").replace("\n    ", " ");
    let rows = joined.lines().filter(|row| !row.trim().is_empty());
    let mut rows: Vec<_> = rows
        .map(|row| {
            let parts: Vec<_> = row.split('|').map(|part| part.trim().to_owned()).collect();
            let Ok([name, setup, calls]) = <[String; 3]>::try_from(parts) else {
                panic!("not three parts: {row:?}");
            };
            Row { name, setup, calls }
        })
        .collect();
    assert!(!rows.is_empty(), "a table without rows");
    let chosen = chosen().unwrap_or_default();
    rows.retain(|row| row.name.contains(&chosen));
    rows
}

impl Row {
    /// Returns the calls, with repetitions expanded.
    pub(crate) fn calls<T>(&self, call: impl Fn(&str, &mut Words<'_>) -> T) -> Vec<T> {
        let parse = |text: &String| {
            let mut words = Words::new(text);
            let parsed = call(words.word(), &mut words);
            words.end();
            parsed
        };
        self.texts().iter().map(parse).collect()
    }

    /// Returns the same as text.
    pub(crate) fn texts(&self) -> Vec<String> {
        let mut all = Vec::new();
        for part in self.calls.split(',') {
            let (times, calls) = part.split_once(" x ").unwrap_or(("1", part));
            let times: usize = times.trim().parse().expect("a number of times");
            assert!(times > 0, "no times in {part:?}");
            for _ in 0..times {
                all.extend(calls.split('+').map(|text| text.trim().to_owned()));
            }
        }
        all
    }
}

/// Follows the calls of a row, `call words = what it shows`. A call without `=` shows nothing.
pub(crate) fn follow(
    row: &Row,
    mut call: impl FnMut(&str, &mut Words<'_>) -> String,
) -> Result<(), String> {
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

    /// Returns the next word; there must be one.
    pub(crate) fn word(&mut self) -> &'a str {
        let word = self.rest.next();
        word.unwrap_or_else(|| panic!("a word is missing in {:?}", self.text))
    }

    /// Returns the next word as a number, or as another type that can be parsed.
    pub(crate) fn parse<T: FromStr>(&mut self) -> T {
        self.maybe()
            .unwrap_or_else(|| panic!("a word is missing in {:?}", self.text))
    }

    /// Returns the same, if there is one more word.
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

    /// Returns all remaining words, joined by single spaces.
    pub(crate) fn rest(&mut self) -> String {
        self.rest.by_ref().collect::<Vec<_>>().join(" ")
    }

    /// Returns the next word as a duration.
    pub(crate) fn time(&mut self) -> Duration {
        self.parse::<Time>().0
    }

    /// Returns the same in nanoseconds.
    pub(crate) fn nanos(&mut self) -> u64 {
        u64::try_from(self.time().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Returns the next word as a reason of a refusal.
    pub(crate) fn refusal(&mut self) -> ErrorKind {
        match self.word() {
            "closed" => ErrorKind::Closed,
            "too-much" => ErrorKind::ExceedsCapacity,
            "limited" => ErrorKind::RateLimited,
            "no-permits" => ErrorKind::NoPermits,
            "timed-out" => ErrorKind::TimedOut,
            kind => panic!("no kind of refusal: {kind:?}"),
        }
    }

    /// Refuses remaining words.
    pub(crate) fn end(&mut self) {
        assert_eq!(
            self.rest.next(),
            None,
            "too much is said in {:?}",
            self.text
        );
    }
}

/// How a step names an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// By its position, which must exist.
    Exactly,
    /// By any number; without items the step does nothing.
    AtRandom,
}

impl Names {
    /// Returns the position that the next word names; the call is rejected if there is no item.
    pub(crate) fn choose<T>(
        self,
        words: &mut Words<'_>,
        among: &[T],
    ) -> Result<usize, TestCaseError> {
        let which: usize = words.parse();
        let exists = self == Self::AtRandom || which < among.len();
        assert!(exists, "nobody at {which} in {:?}", words.text);
        which
            .checked_rem(among.len())
            .ok_or_else(|| TestCaseError::reject("nobody"))
    }
}

/// Runs one call in a world. A rejected call does nothing.
pub(crate) fn call(
    text: &str,
    world: impl FnOnce(&str, &mut Words<'_>) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let mut words = Words::new(text);
    let done = world(words.word(), &mut words);
    if !matches!(done, Err(TestCaseError::Reject(_))) {
        words.end();
        return done;
    }
    Ok(())
}

/// Draws up to this many random calls. Each call in the table has its frequency, `#` stands for any
/// number, and `0..5` for one of these.
pub(crate) fn at_random(table: &'static str, most: usize) -> impl Strategy<Value = Vec<String>> {
    let weighted = table.split(',').map(|part| part.trim().split_once(' '));
    let weighted = weighted.map(|part| part.expect("how often it comes"));
    let repeat = |(times, call): (&str, _)| vec![call; times.parse().expect("a number")];
    let calls: Vec<&str> = weighted.flat_map(repeat).collect();
    let numbers = prop::array::uniform3(0..1000_usize);
    let text = move |(call, numbers): (&str, [usize; 3])| {
        let mut numbers = numbers.into_iter();
        let words = call.split_whitespace().map(|word| {
            let (from, to) = match word {
                "#" => (0, 1000),
                _ => match word.split_once("..") {
                    Some((from, to)) => (from.parse().unwrap(), to.parse().unwrap()),
                    None => return word.to_owned(),
                },
            };
            (from + numbers.next().expect("three") % (to - from)).to_string()
        });
        words.collect::<Vec<_>>().join(" ")
    };
    let call = (prop::sample::select(calls), numbers).prop_map(text);
    prop::collection::vec(call, 1..most)
}

/// Runs every row of a table, and returns the rows that fail.
pub(crate) fn check<E: Display>(table: &str, run: impl Fn(&Row) -> Result<(), E>) {
    let fails = |row: &Row| match catch_unwind(AssertUnwindSafe(|| run(row))) {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(format!("{}: {error}", row.name)),
        Err(_) => Some(format!("{}: it panicked", row.name)),
    };
    let failures: Vec<_> = rows(table).iter().filter_map(fails).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// A duration, such as `250ms`, `1s500us`, `5min-1ns` or `never`.
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

/// The retry time of an error: a [`Time`], or `unknown`.
pub(crate) struct RetryAfter(pub(crate) Option<Duration>);

impl FromStr for RetryAfter {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text == "unknown" {
            return Ok(Self(None));
        }
        text.parse().map(|Time(after)| Self(Some(after)))
    }
}

impl RetryAfter {
    /// Returns the retry time of a decision, which does not tell `never` from `unknown`.
    pub(crate) fn of_decision(&self) -> Option<Duration> {
        self.0.filter(|after| *after < Duration::MAX)
    }
}

/// Sums numbers with their units, in nanoseconds.
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
