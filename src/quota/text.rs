//! The text of a quota: its parser, which reads from left to right without an allocation, and its form in
//! serde. If a part is missing, the [`QuotaError`] states which part was expected, and where. A constructor
//! that panics has the same text as the error of `try_new`, without the values.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::{Quota, UNITS, UNLIMITED};

/// Parses a quota [as text](Quota#as-text).
impl FromStr for Quota {
    type Err = QuotaError;

    /// # Errors
    ///
    /// Returns an error if the text is no quota, or if the quota exceeds the
    /// [limits](Quota#limits).
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::Quota;
    ///
    /// # fn main() -> Result<(), tollgate::rate::QuotaError> {
    /// let quota: Quota = "1000 / 10 seconds, burst 50".parse()?;
    /// assert_eq!(quota.to_string(), "1000/10s burst 50");
    /// # Ok(())
    /// # }
    /// ```
    fn from_str(text: &str) -> Result<Self, QuotaError> {
        let mut reader = Reader {
            rest: text.trim_start(),
            len: text.len(),
        };
        if reader.skip(UNLIMITED) {
            reader.expect_end()?;
            return Ok(Self::UNLIMITED);
        }
        let count = reader.number("a quota such as 100/s")?;
        reader.expect("/", "a slash after a whole number")?;
        let times = if reader.rest.starts_with(|c: char| c.is_ascii_digit()) {
            reader.number("a number")?
        } else {
            1
        };
        let period = u128::from(times) * u128::from(reader.unit()?);
        let mut burst = 1;
        if !reader.rest.is_empty() {
            let rule = if reader.skip(",") {
                "\"burst\""
            } else {
                "\"burst\" or the end"
            };
            reader.expect("burst", rule)?;
            burst = reader.number("a number for the burst")?;
        }
        reader.expect_end()?;
        Self::checked(count, period, burst)
    }
}

/// The rest of a text, which does not begin with a space.
struct Reader<'a> {
    rest: &'a str,
    len: usize,
}

impl<'a> Reader<'a> {
    fn expected(&self, rule: &'static str) -> QuotaError {
        let found = Found::Text(self.len - self.rest.len());
        QuotaError { rule, found }
    }

    /// Skips a text, and returns whether it was present.
    fn skip(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest).trim_start();
        rest.is_some()
    }

    /// Skips a text that is required.
    fn expect(&mut self, text: &str, rule: &'static str) -> Result<(), QuotaError> {
        if self.skip(text) {
            Ok(())
        } else {
            Err(self.expected(rule))
        }
    }

    fn expect_end(&self) -> Result<(), QuotaError> {
        match self.rest {
            "" => Ok(()),
            _ => Err(self.expected("the end")),
        }
    }

    /// Takes everything up to the first character of another kind.
    fn take(&mut self, kind: fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !kind(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        taken
    }

    fn number(&mut self, rule: &'static str) -> Result<u64, QuotaError> {
        let missing = self.expected(rule);
        let too_large = self.expected("a number of at most 18446744073709551615");
        match self.take(|c| c.is_ascii_digit()) {
            "" => Err(missing),
            // A number that consists of digits can only be too large.
            digits => digits.parse().map_err(|_| too_large),
        }
    }

    /// Returns the nanoseconds of the unit.
    fn unit(&mut self) -> Result<u64, QuotaError> {
        let unknown = self.expected("a unit of time (d, h, min, s, ms, us or ns)");
        let name = self.take(char::is_alphabetic);
        let unit = UNITS.iter().find(|(_, names, _)| names.contains(&name));
        unit.map(|(_, _, nanos)| *nanos).ok_or(unknown)
    }
}

/// Why a [`Quota`](crate::Quota) is invalid: it exceeds the [limits](crate::Quota#limits), or its
/// text cannot be parsed. The message contains the values, or the position in the text.
///
/// # Examples
///
/// ```
/// use tollgate::Quota;
///
/// let error = "100/fortnight".parse::<Quota>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "at byte 4: expected a unit of time (d, h, min, s, ms, us or ns)",
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaError {
    /// The limit that a quota exceeds, or the part that is expected in a text.
    pub(super) rule: &'static str,
    pub(super) found: Found,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The count, the period and the burst.
    Quota(u64, Duration, u64),
    /// The rest of a text, from this byte on.
    Text(usize),
}

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = self.rule;
        match self.found {
            Found::Quota(count, period, burst) => {
                write!(f, "{rule}: {count} in {period:?}, burst {burst}")
            }
            Found::Text(at) => write!(f, "at byte {at}: expected {rule}"),
        }
    }
}

impl std::error::Error for QuotaError {}

/// A quota is serialized as its text, in every format, so that a configuration is readable.
#[cfg(feature = "serde")]
mod serde {
    use std::fmt;

    use serde::de::{Deserialize, Deserializer, Error, Visitor};
    use serde::ser::{Serialize, Serializer};

    use crate::quota::Quota;

    /// Serializes the quota [as text](Quota#as-text).
    impl Serialize for Quota {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_str(self)
        }
    }

    /// Deserializes a quota from its [text](Quota#as-text).
    impl<'de> Deserialize<'de> for Quota {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_str(ReadQuota)
        }
    }

    struct ReadQuota;

    impl Visitor<'_> for ReadQuota {
        type Value = Quota;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a quota such as \"100/s burst 20\"")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Quota, E> {
            // The reader of this message sees a whole configuration, and needs to know which text is
            // meant.
            let parsed = text.parse();
            parsed.map_err(|error| E::custom(format_args!("{text:?} is no quota: {error}")))
        }
    }
}
