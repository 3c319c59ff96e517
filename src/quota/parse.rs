//! Parsing of a quota, from left to right and without an allocation. If a part is missing, the
//! error says what was expected and where.

use std::str::FromStr;

use super::error::Found;
use super::{DAY, HOUR, MICROSECOND, MILLISECOND, MINUTE, Quota, QuotaError, SECOND, UNLIMITED};

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
    /// # fn main() -> Result<(), tollgate::QuotaError> {
    /// let quota: Quota = "1000 / 10 seconds, burst 50".parse()?;
    /// assert_eq!(quota.to_string(), "1000/10s burst 50");
    /// # Ok(())
    /// # }
    /// ```
    fn from_str(text: &str) -> Result<Self, QuotaError> {
        let mut reader = Reader {
            rest: text,
            len: text.len(),
        };
        reader.skip_spaces();
        if reader.skip(UNLIMITED) {
            return match reader.rest {
                "" => Ok(Self::UNLIMITED),
                _ => Err(reader.expected("the end")),
            };
        }
        let count = reader.expected_number("a quota such as 100/s")?;
        if !reader.skip("/") {
            return Err(reader.expected("a slash after a whole number"));
        }
        let times = reader.number()?.unwrap_or(1);
        let unit = reader.unit()?;
        let burst = reader.burst()?;
        Self::checked(count, u128::from(times) * u128::from(unit), burst)
    }
}

/// The rest of a text. Between two calls it does not begin with a space.
struct Reader<'a> {
    rest: &'a str,
    len: usize,
}

impl<'a> Reader<'a> {
    fn expected(&self, rule: &'static str) -> QuotaError {
        let found = Found::Text(self.len - self.rest.len());
        QuotaError { rule, found }
    }

    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Skips a text, and returns whether it was there.
    fn skip(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        self.skip_spaces();
        rest.is_some()
    }

    /// Takes everything up to the first character of another kind.
    fn take(&mut self, kind: fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !kind(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        self.skip_spaces();
        taken
    }

    fn number(&mut self) -> Result<Option<u64>, QuotaError> {
        let too_large = self.expected("a number of at most 18446744073709551615");
        match self.take(|c| c.is_ascii_digit()) {
            "" => Ok(None),
            // A number of digits alone can only be too large.
            digits => digits.parse().map(Some).map_err(|_| too_large),
        }
    }

    fn expected_number(&mut self, what: &'static str) -> Result<u64, QuotaError> {
        self.number()?.ok_or_else(|| self.expected(what))
    }

    /// Returns the nanoseconds of the unit.
    fn unit(&mut self) -> Result<u64, QuotaError> {
        let unknown = self.expected("a unit of time (d, h, min, s, ms, us or ns)");
        match self.take(char::is_alphabetic) {
            "d" | "day" | "days" => Ok(DAY),
            "h" | "hour" | "hours" => Ok(HOUR),
            "m" | "min" | "minute" | "minutes" => Ok(MINUTE),
            "s" | "sec" | "second" | "seconds" => Ok(SECOND),
            "ms" => Ok(MILLISECOND),
            // The micro sign, and the Greek letter that looks like it.
            "us" | "\u{b5}s" | "\u{3bc}s" => Ok(MICROSECOND),
            "ns" => Ok(1),
            _ => Err(unknown),
        }
    }

    /// Returns the burst that ends the text, or 1 if the text ends here.
    fn burst(&mut self) -> Result<u64, QuotaError> {
        if self.rest.is_empty() {
            return Ok(1);
        }
        let what = match self.skip(",") {
            true => "\"burst\"",
            false => "\"burst\" or the end",
        };
        if !self.skip("burst") {
            return Err(self.expected(what));
        }
        let burst = self.expected_number("a number for the burst")?;
        if !self.rest.is_empty() {
            return Err(self.expected("the end"));
        }
        Ok(burst)
    }
}
