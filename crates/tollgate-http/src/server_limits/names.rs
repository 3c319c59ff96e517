//! The grammar of field names. A name is a row of words in any order: a prefix, the words "rate limit", a part of a
//! window, a unit, and words that tell one window from another, such as `x-ratelimit-remaining-tokens-minute`.
//!
//! 1. Fields belong to one window if their names differ only in the part and in words without a meaning.
//! 2. The last word that names a part is the part: the first `limit` of `x-app-limit-24hour-limit` is none.
//! 3. A unit that is not in the table is not taken for requests: words before "rate limit" are a prefix, and others
//!    have to be known.
//! 4. The table is the only place that knows words, and it knows no provider.

use super::Unit;
use super::values::duration;
use crate::work;

/// The meaning of a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Limit,
    Remaining,
    Used,
    Reset,
    /// The time until the next try, such as `Retry-After`.
    Retry,
    /// Whether requests are admitted.
    Status,
    /// The name of the window.
    Name,
    /// Policies of the draft: quotas with their periods.
    Policy,
    /// No word names a part: a list of the draft, or a limit.
    List,
}

/// What is known of a number that says when a window is reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    /// A number of seconds, a point in time, or, on some servers, a number of milliseconds.
    Unknown,
    Seconds,
    Millis,
    /// A point in time.
    Point,
}

#[derive(Clone, Copy)]
enum Word {
    /// The words "rate limit".
    Marker,
    Part(Part, Scale),
    Scale(Scale),
    Unit(Unit),
    /// The period of a window, in seconds.
    Period(u64),
    /// A word that tells windows from one another, all of which count requests.
    Scope,
    /// A word without a meaning.
    Filler,
    /// The field describes a window, and has nothing that changes.
    Constant,
}

use Part::{Limit, List, Name, Policy, Remaining, Reset, Retry, Status, Used};
use Scale::{Millis, Point, Seconds, Unknown};

/// The words of field names, each with its canonical form. Two words that belong together come before each alone.
#[rustfmt::skip]
const WORDS: &[(&[&str], &str, Word)] = &[
    (&["rate-limit", "ratelimit"], "ratelimit", Word::Marker),
    (&["limit", "max", "quota", "allowed"], "limit", Word::Part(Limit, Unknown)),
    (&["remaining", "available", "left"], "remaining", Word::Part(Remaining, Unknown)),
    (&["used", "usage", "count", "observed"], "used", Word::Part(Used, Unknown)),
    (&["reset", "resets"], "reset", Word::Part(Reset, Unknown)),
    (&["reset-after", "reset-in"], "reset", Word::Part(Reset, Seconds)),
    (&["resettime", "expiry", "expires", "next"], "reset", Word::Part(Reset, Point)),
    (&["retry-after", "retry-in", "after"], "retry", Word::Part(Retry, Seconds)),
    (&["status"], "status", Word::Part(Status, Unknown)),
    (&["policy"], "policy", Word::Part(Policy, Unknown)),
    (&["name", "resource", "bucket"], "resource", Word::Part(Name, Unknown)),
    (&["ms", "millis", "milliseconds"], "", Word::Scale(Millis)),
    (&["seconds", "secs", "sec"], "", Word::Scale(Seconds)),
    (&["timestamp", "time", "date", "at", "utc", "epoch"], "", Word::Scale(Point)),
    (&["requests", "request", "reqs", "req", "calls", "call", "queries"], "requests", Word::Unit(Unit::Requests)),
    (&["tokens", "token"], "tokens", Word::Unit(Unit::Tokens)),
    (&["input", "prompt"], "input", Word::Unit(Unit::InputTokens)),
    (&["output", "completion", "generated"], "output", Word::Unit(Unit::OutputTokens)),
    (&["content-bytes", "bytes"], "bytes", Word::Unit(Unit::Bytes)),
    (&["second", "secondly"], "second", Word::Period(1)),
    (&["minute", "minutely", "min"], "minute", Word::Period(60)),
    (&["hour", "hourly"], "hour", Word::Period(3_600)),
    (&["day", "daily", "today"], "day", Word::Period(86_400)),
    (&["week", "weekly"], "week", Word::Period(7 * 86_400)),
    (&["month", "monthly"], "month", Word::Period(31 * 86_400)),
    (&["api-key"], "api-key", Word::Scope),
    (&["api-token", "access-token"], "api-token", Word::Scope),
    (&["account"], "account", Word::Scope),
    (&["api"], "api", Word::Scope),
    (&["app", "application"], "app", Word::Scope),
    (&["client"], "client", Word::Scope),
    (&["endpoint"], "endpoint", Word::Scope),
    (&["global"], "global", Word::Scope),
    (&["ip"], "ip", Word::Scope),
    (&["method"], "method", Word::Scope),
    (&["org", "organization"], "org", Word::Scope),
    (&["project"], "project", Word::Scope),
    (&["read"], "read", Word::Scope),
    (&["reads"], "reads", Word::Scope),
    (&["subscription"], "subscription", Word::Scope),
    (&["team"], "team", Word::Scope),
    (&["tenant"], "tenant", Word::Scope),
    (&["user"], "user", Word::Scope),
    (&["write"], "write", Word::Scope),
    (&["writes"], "writes", Word::Scope),
    (&["per", "this"], "", Word::Filler),
    (&["interval", "period", "window"], "", Word::Constant),
];

/// Words that may end another one, as in `userremaining`.
const ENDINGS: [&str; 4] = ["ratelimit", "limit", "remaining", "reset"];

fn look_up(text: &str) -> Option<(&'static str, Word)> {
    let row = WORDS.iter().find(|(texts, ..)| texts.contains(&text))?;
    Some((row.1, row.2))
}

/// The parsed name of a field.
#[derive(Debug)]
pub(super) struct FieldName {
    pub(super) part: Part,
    pub(super) scale: Scale,
    /// The words that all fields of a window share.
    pub(super) key: String,
    /// Those of them that tell it from others.
    pub(super) name: String,
    pub(super) unit: Unit,
    /// The period of the window, in seconds.
    pub(super) period: Option<u64>,
    /// Whether the name says that it is about a limit. Otherwise the fields of the window have to show it.
    pub(super) is_marked: bool,
}

/// A name while its words are read.
struct Reading {
    part: Option<(Part, Scale)>,
    scale: Option<Scale>,
    key: String,
    name: String,
    unit: Option<Unit>,
    period: Option<u64>,
    has_marker: bool,
    has_limit: bool,
    has_unknown: bool,
    is_constant: bool,
}

impl FieldName {
    /// Parses a name in lower case. Returns `None` if the field is not about a limit.
    pub(super) fn parse(text: &str) -> Option<Self> {
        work::add(text.len());
        if !["limit", "remaining", "reset", "retry"]
            .iter()
            .any(|word| text.contains(word))
        {
            return None;
        }
        let mut reading = Reading {
            part: None,
            scale: None,
            key: String::new(),
            name: String::new(),
            unit: None,
            period: None,
            has_marker: false,
            has_limit: false,
            has_unknown: false,
            is_constant: false,
        };
        let mut rest = text;
        while !rest.is_empty() {
            let first = rest.find(['-', '_']).unwrap_or(rest.len());
            let second = rest[first..]
                .char_indices()
                .skip(1)
                .find(|(_, one)| ['-', '_'].contains(one));
            let second = second.map_or(rest.len(), |(at, _)| first + at);
            let end = if look_up(&rest[..second]).is_some() {
                reading.add(&rest[..second]);
                second
            } else {
                reading.add(&rest[..first]);
                first
            };
            rest = rest.get(end + 1..).unwrap_or_default();
        }
        reading.finish()
    }
}

impl Reading {
    fn add(&mut self, text: &str) {
        if look_up(text).is_some() {
            self.add_whole(text);
            return;
        }
        let mut endings = ENDINGS.iter();
        let begin = |ending: &&&str| {
            text.strip_suffix(**ending)
                .is_some_and(|begin| !begin.is_empty())
        };
        if let Some(ending) = endings.find(begin) {
            self.add_whole(&text[..text.len() - ending.len()]);
            self.add_whole(ending);
        } else {
            self.add_whole(text);
        }
    }

    /// Adds a word that is not divided any further.
    fn add_whole(&mut self, text: &str) {
        if let Some((canonical, word)) = look_up(text) {
            self.add_word(text, canonical, word);
            return;
        }
        let starts_with_number = text.starts_with(|first: char| first.is_ascii_digit());
        if let Some(period) = duration(text.as_bytes()).filter(|_| starts_with_number) {
            self.period = Some(period.as_secs());
            self.push(text, true);
            return;
        }
        self.has_unknown |= text != "x";
        self.push(text, text != "x");
    }

    fn add_word(&mut self, text: &str, canonical: &'static str, word: Word) {
        match word {
            Word::Marker => {
                self.has_marker = true;
                // What was before is a prefix.
                self.has_unknown = false;
                self.push(canonical, false);
            }
            Word::Part(part, scale) => match self.part {
                Some((Retry, _)) => {}
                Some(_) if part == Name => self.push(canonical, true),
                before => {
                    match before {
                        Some((Limit, _)) => {
                            self.has_limit = true;
                            self.push("limit", false);
                        }
                        Some((Name, _)) => self.push("resource", true),
                        _ => {}
                    }
                    self.part = Some((part, scale));
                }
            },
            // Elsewhere, `ms` is the prefix of a vendor.
            Word::Scale(scale) if self.part.is_some() => self.scale = Some(scale),
            Word::Scale(_) => self.push(text, true),
            Word::Unit(unit) => {
                // Tokens of one direction are the narrower unit.
                let is_tokens = matches!(self.unit, Some(Unit::Tokens));
                self.unit = self.unit.filter(|_| !is_tokens).or(Some(unit));
                self.push(canonical, false);
            }
            Word::Period(seconds) => {
                self.period = Some(seconds);
                self.push(canonical, true);
            }
            Word::Scope => self.push(canonical, true),
            Word::Filler => {}
            Word::Constant => self.is_constant = true,
        }
    }

    /// Appends a word to the key, and to the name if it tells windows from one another.
    fn push(&mut self, word: &str, is_name: bool) {
        let name = is_name.then_some(&mut self.name);
        for text in [Some(&mut self.key), name].into_iter().flatten() {
            if !text.is_empty() {
                text.push('-');
            }
            text.push_str(word);
        }
    }

    fn finish(self) -> Option<FieldName> {
        let (part, scale) = match self.part {
            Some(part) => part,
            None if self.has_marker => (List, Unknown),
            None => return None,
        };
        let otherwise = if self.has_unknown {
            Unit::Other
        } else {
            Unit::Requests
        };
        (!self.is_constant).then_some(FieldName {
            part,
            scale: self.scale.unwrap_or(scale),
            key: self.key,
            name: self.name,
            unit: self.unit.unwrap_or(otherwise),
            period: self.period,
            is_marked: self.has_marker || self.has_limit,
        })
    }
}
