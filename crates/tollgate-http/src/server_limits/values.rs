//! Reads the values of fields: counts, durations and points in time in the formats of servers, and lists.
//!
//! 1. What can be read in two ways is not read: a local time without its offset, a bare number of more than a day
//!    that may be milliseconds.
//! 2. A wait of more than [`LONGEST`] is not read. Times are rounded up, counts down.
//! 3. Nothing panics. The time is linear in the length of a value.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Unit;
use super::names::Scale;
use crate::right_split::RightSplit;
use crate::work;

/// The longest wait that is read: 31 days, the longest window of a month.
pub(super) const LONGEST: Duration = Duration::from_secs(31 * 86_400);

/// The longest bare number that is taken for seconds.
const LONGEST_BARE: Duration = Duration::from_secs(86_400);

/// The smallest number of seconds that is a point in time since 1970. As a duration it would be 31 years.
const POINT_IN_TIME: u64 = 1_000_000_000;

/// The smallest point in time that counts milliseconds. In seconds it would be the year 5138.
const IN_MILLISECONDS: u64 = 100_000_000_000;

// Numbers.

/// Reads digits without a sign. A number that is too large saturates.
pub(super) fn integer(text: &[u8]) -> Option<u64> {
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
    let mut digits = text.iter().map(digit);
    let first = digits.next()??;
    digits.try_fold(first, |number, digit| {
        Some(number.saturating_mul(10).saturating_add(digit?))
    })
}

/// Reads seconds with or without a fraction.
fn seconds(text: &[u8]) -> Option<Duration> {
    let Some(point) = text.iter().position(|byte| *byte == b'.') else {
        return integer(text).map(Duration::from_secs);
    };
    let whole = Duration::from_secs(integer(&text[..point])?);
    let fraction = &text[point + 1..];
    integer(fraction)?;
    let digits = fraction.iter().chain([b'0'; 9].iter()).take(9);
    let nanos = digits.fold(0, |nanos, digit| nanos * 10 + u64::from(digit - b'0'));
    let rest = fraction.iter().skip(9).any(|digit| *digit != b'0');
    let fraction = Duration::from_nanos(nanos + u64::from(rest));
    Some(whole.saturating_add(fraction))
}

/// A count, and what may stand beside it in the same number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    /// The count, rounded down. A count below 0 is 0.
    pub(super) count: u64,
    /// The limit, as in `32/40`.
    pub(super) of: Option<u64>,
    /// The period in seconds, as in `100:120`.
    pub(super) period: Option<u64>,
}

impl Count {
    fn parse(text: &[u8]) -> Option<Self> {
        work::add(text.len());
        let is_negative = text.starts_with(b"-");
        let text = &text[usize::from(is_negative)..];
        let is_end = |byte: &u8| !byte.is_ascii_digit();
        let end = text.iter().position(is_end).unwrap_or(text.len());
        let (digits, rest) = text.split_at(end);
        let count = integer(digits)?;
        let mut parsed = Self {
            count: if is_negative { 0 } else { count },
            ..Self::default()
        };
        match rest {
            [] => {}
            [b'.', fraction @ ..] => drop(integer(fraction)?),
            [b'/', of @ ..] => parsed.of = Some(integer(of)?),
            [b':', period @ ..] => parsed.period = Some(integer(period)?),
            _ => return None,
        }
        Some(parsed)
    }
}

// Times.

/// Reads numbers with units, such as `6m0s`, `120ms` and `14432 ms`.
pub(super) fn duration(mut text: &[u8]) -> Option<Duration> {
    let is_number = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let mut sum = None;
    while !text.is_empty() {
        let unit = text.iter().position(|byte| !is_number(byte))?;
        let (number, rest) = text.split_at(unit);
        let end = rest.iter().position(is_number).unwrap_or(rest.len());
        let (unit, rest) = rest.split_at(end);
        let number = seconds(number)?;
        let part = match unit.trim_ascii() {
            b"ns" => number / 1_000_000_000,
            b"us" | b"\xc2\xb5s" => number / 1_000_000,
            b"ms" => number / 1000,
            b"s" | b"sec" | b"second" | b"seconds" => number,
            b"m" | b"min" | b"minute" | b"minutes" => number.saturating_mul(60),
            b"h" | b"hour" | b"hours" => number.saturating_mul(3_600),
            b"d" | b"day" | b"days" => number.saturating_mul(86_400),
            _ => return None,
        };
        sum = Some(part.saturating_add(sum.unwrap_or_default()));
        text = rest;
    }
    sum
}

/// Reads one of the three date formats of HTTP.
pub(super) fn date(text: &[u8]) -> Option<SystemTime> {
    httpdate::parse_http_date(str::from_utf8(text).ok()?).ok()
}

/// Reads a date of RFC 3339, with `Z` or an offset. The seconds may be missing.
fn rfc_3339(text: &[u8]) -> Option<SystemTime> {
    let (day, rest) = text.split_at_checked(10)?;
    let (year, month, day) = match day {
        [year @ .., b'-', m1, m2, b'-', d1, d2] => {
            (integer(year)?, integer(&[*m1, *m2])?, integer(&[*d1, *d2])?)
        }
        _ => return None,
    };
    let [b'T' | b't' | b' ', rest @ ..] = rest else {
        return None;
    };
    let zone = rest.iter().position(|byte| b"Zz+-".contains(byte))?;
    let (clock, zone) = rest.split_at(zone);
    let offset = match zone {
        b"Z" | b"z" => 0,
        [sign @ (b'+' | b'-'), h1, h2, minutes @ ..] => {
            let minutes = match minutes.strip_prefix(b":").unwrap_or(minutes) {
                [] => 0,
                minutes @ [_, _] => integer(minutes).filter(|minutes| *minutes < 60)?,
                _ => return None,
            };
            let hours = integer(&[*h1, *h2]).filter(|hours| *hours < 24)?;
            let offset = i64::try_from(hours * 3_600 + minutes * 60).ok()?;
            if *sign == b'-' { -offset } else { offset }
        }
        _ => return None,
    };
    let (hours, minutes, rest) = match clock.trim_ascii_end() {
        [h1, h2, b':', m1, m2, rest @ ..] => (integer(&[*h1, *h2])?, integer(&[*m1, *m2])?, rest),
        _ => return None,
    };
    let in_minute = match rest {
        [] => Duration::ZERO,
        [b':', rest @ ..] => seconds(rest)?,
        _ => return None,
    };
    // A leap second counts as the next one.
    if hours > 23 || minutes > 59 || in_minute.as_secs() > 60 {
        return None;
    }
    let days = days_since_1970(year, month, day)?;
    let whole = days * 86_400 + i64::try_from(hours * 3_600 + minutes * 60).ok()? - offset;
    // A time before 1970 has passed.
    let whole = Duration::from_secs(u64::try_from(whole).unwrap_or(0));
    UNIX_EPOCH.checked_add(whole.checked_add(in_minute)?)
}

/// Returns the days from 1970-01-01 to a day of the Gregorian calendar.
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<i64> {
    let is_leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let february = if is_leap { 29 } else { 28 };
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let index = usize::try_from(month.checked_sub(1)?).ok()?;
    if !(1..=*months.get(index)?).contains(&day) || !(1..=9999).contains(&year) {
        return None;
    }
    let before = year - 1;
    let leap_days = before / 4 - before / 100 + before / 400;
    let days = before * 365 + leap_days + months[..index].iter().sum::<u64>() + day - 1;
    // The days from year 1 to 1970.
    Some(i64::try_from(days).ok()? - 719_162)
}

/// A time until a reset or a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) duration: Duration,
    /// Whether it is a long bare number, which is read only if the window is known to be as long.
    is_doubtful: bool,
}

impl Wait {
    /// Reads a duration, or the time until a point in time, in any form.
    pub(super) fn parse(text: &[u8], scale: Scale, now: SystemTime) -> Option<Self> {
        work::add(text.len());
        let until = |point: SystemTime| point.duration_since(now).unwrap_or_default();
        let exact = |duration| Self {
            duration,
            is_doubtful: false,
        };
        let wait = if let Some(number) = seconds(text) {
            let number = if scale == Scale::Millis && number.as_secs() < IN_MILLISECONDS {
                number / 1000
            } else {
                number
            };
            match number.as_secs() {
                IN_MILLISECONDS.. => exact(until(UNIX_EPOCH.checked_add(number / 1000)?)),
                POINT_IN_TIME.. => exact(until(UNIX_EPOCH.checked_add(number)?)),
                _ if scale == Scale::Point => return None,
                _ => Self {
                    duration: number,
                    is_doubtful: scale == Scale::Unknown && number > LONGEST_BARE,
                },
            }
        } else {
            let point = || Some(until(rfc_3339(text).or_else(|| date(text))?));
            exact(duration(text).or_else(point)?)
        };
        (wait.duration <= LONGEST).then_some(wait)
    }

    /// Returns the time, unless it is in doubt and the window is not known to be as long.
    pub(super) fn within(self, period: Option<u64>) -> Option<Duration> {
        let longest = Duration::from_secs(period.unwrap_or(0));
        let is_certain = !self.is_doubtful || self.duration <= longest;
        is_certain.then_some(self.duration)
    }
}

// Lists. Those of the draft are structured fields (RFC 9651), and other servers write similar ones.

/// Splits a value at a separator outside of quoted strings.
pub(super) fn split(value: &[u8], separator: u8) -> Vec<&[u8]> {
    let mut parts: Vec<_> = RightSplit::new(value, separator)
        .map(<[u8]>::trim_ascii)
        .collect();
    parts.reverse();
    parts
}

/// An element of a list: a number or a name, and parameters.
#[derive(Clone, Debug, Default)]
pub(super) struct Element<'a> {
    pub(super) name: Option<&'a str>,
    pub(super) count: Option<Count>,
    pub(super) limit: Option<u64>,
    pub(super) remaining: Option<u64>,
    pub(super) reset_after: Option<Duration>,
    /// The period in seconds.
    pub(super) period: Option<u64>,
    pub(super) unit: Option<Unit>,
}

impl<'a> Element<'a> {
    pub(super) fn parse(text: &'a [u8]) -> Self {
        let mut element = Self::default();
        for piece in split(text, b';') {
            element.read(piece);
        }
        element
    }

    /// Reads a name, a number or a parameter. Of several with the same meaning, the last one counts.
    fn read(&mut self, piece: &'a [u8]) {
        if let [b'"', name @ .., b'"'] = piece {
            self.name = str::from_utf8(name).ok();
            return;
        }
        let equals = piece.iter().position(|byte| *byte == b'=');
        let Some(equals) = equals else {
            let count = Count::parse(piece);
            if count.is_some() {
                self.period = count.and_then(|count| count.period).or(self.period);
                self.count = count;
            } else if piece.first().is_some_and(u8::is_ascii_alphabetic) {
                self.name = str::from_utf8(piece).ok();
            }
            return;
        };
        let value = piece[equals + 1..].trim_ascii();
        match piece[..equals].trim_ascii() {
            b"q" | b"limit" | b"total" => self.limit = integer(value),
            b"r" | b"remaining" => self.remaining = integer(value),
            b"t" | b"reset" | b"resets" => {
                let reset_after = integer(value).map(Duration::from_secs);
                self.reset_after = reset_after.filter(|reset_after| *reset_after <= LONGEST);
            }
            b"w" | b"window" => self.period = integer(value),
            b"qu" => self.unit = Some(unit(value)),
            _ => {}
        }
    }
}

/// Reads a quota unit of the draft.
fn unit(value: &[u8]) -> Unit {
    match value {
        b"\"requests\"" => Unit::Requests,
        b"\"content-bytes\"" => Unit::Bytes,
        b"\"tokens\"" => Unit::Tokens,
        _ => Unit::Other,
    }
}

/// Reads the elements of a list. If none has a name, they are the parts of one: draft 07 separates them by commas.
pub(super) fn elements(value: &[u8]) -> Vec<Element<'_>> {
    let mut elements: Vec<_> = split(value, b',').into_iter().map(Element::parse).collect();
    let is_parts = |one: &Element<'_>| one.name.is_none() && one.count.is_none();
    if elements.iter().all(is_parts) {
        let whole = elements.into_iter().reduce(|whole, part| Element {
            limit: part.limit.or(whole.limit),
            remaining: part.remaining.or(whole.remaining),
            reset_after: part.reset_after.or(whole.reset_after),
            period: part.period.or(whole.period),
            unit: part.unit.or(whole.unit),
            ..whole
        });
        return whole.into_iter().collect();
    }
    elements.retain(|one| !is_parts(one));
    elements
}
