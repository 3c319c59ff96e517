//! [`Reply`]: the reply of a script about a rate limit.

use std::time::Duration;

use redis::Value;
use tollgate::Decision;
use tollgate::time::Tick;

use super::rule::Rule;
use crate::error::StoreError;
use crate::script::numbers;

/// The reply of a script about a rate limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// The result; at most `u64::MAX`, which stands for all that was asked for.
    pub(crate) done: u64,
    /// Microseconds of the server's clock.
    pub(crate) now: u64,
    pub(crate) wait: Duration,
    pub(crate) free: u64,
    pub(crate) reset: Duration,
    pub(crate) position: u64,
    pub(crate) made: u64,
}

impl Reply {
    pub(crate) fn read(rule: &Rule, value: &Value) -> Result<Self, StoreError> {
        if let Value::BulkString(written) = value {
            return Self::of_written(rule, written).ok_or(StoreError::Unknown);
        }
        match Self::read_each(value)?[..] {
            [reply] => Ok(reply),
            _ => Err(StoreError::Unknown),
        }
    }

    /// Reads the replies about several limits, which share `done` and `now`.
    pub(crate) fn read_each(value: &Value) -> Result<Vec<Self>, StoreError> {
        Self::of_each(&numbers(value)?)
    }

    pub(super) fn of_each(numbers: &[u64]) -> Result<Vec<Self>, StoreError> {
        let [done, now, each @ ..] = numbers else {
            return Err(StoreError::Unknown);
        };
        let (each, []) = each.as_chunks() else {
            return Err(StoreError::Unknown);
        };
        let replies = each
            .iter()
            .map(|&[wait, free, reset, position, made]| Self {
                done: *done,
                now: *now,
                wait: Duration::from_micros(wait),
                free,
                reset: Duration::from_micros(reset),
                position,
                made,
            });
        Ok(replies.collect())
    }

    /// Returns the reply to a call that was charged as a whole, from the value that `head.lua` has written.
    fn of_written(rule: &Rule, written: &[u8]) -> Option<Self> {
        let written = std::str::from_utf8(written).ok()?.strip_prefix("d:")?;
        let mut numbers = written.split(':').map(|number| number.parse::<u64>().ok());
        let mut next = || numbers.next()?;
        let [now, owed, unit, position, made] = [next()?, next()?, next()?, next()?, next()?];
        let most = rule.burst.checked_mul(unit)?;
        Some(Self {
            done: u64::MAX,
            now,
            wait: Duration::ZERO,
            free: most.saturating_sub(owed).checked_div(unit)?,
            reset: Duration::from_micros(owed.div_ceil(rule.count.max(1))),
            position,
            made,
        })
    }

    /// Returns this reply as of the microsecond at which its charge is due.
    pub(super) fn when_due(self) -> Self {
        let micros = u64::try_from(self.wait.as_micros()).unwrap_or(u64::MAX);
        Self {
            now: self.now.saturating_add(micros),
            ..self
        }
    }

    /// Returns the time by the server's clock.
    pub(crate) fn at(&self) -> Tick {
        Tick::from_nanos(self.now.saturating_mul(1000))
    }

    pub(crate) fn decision(&self, limit: u64) -> Decision {
        Decision::from_parts(limit, self.free, Some(self.wait), self.reset, self.at())
    }
}
