//! [`Reply`]: the reply of a script about a rate limit.

use std::time::Duration;

use redis::Value;
use tollgate::{Decision, Tick};

use super::rule::Rule;
use crate::error::StoreError;
use crate::script::numbers;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
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
        if let Value::Array(parts) = value
            && let [
                Value::Int(done),
                Value::Int(wait),
                Value::BulkString(written),
            ] = &parts[..]
        {
            return Self::quick(rule, *done, *wait, written).ok_or(StoreError::Script);
        }
        match Self::read_each(value)?[..] {
            [reply] => Ok(reply),
            _ => Err(StoreError::Script),
        }
    }

    /// Reads the replies about several limits, which have `done` and `now` in common.
    pub(crate) fn read_each(value: &Value) -> Result<Vec<Self>, StoreError> {
        let numbers = numbers(value)?;
        let [done, now, each @ ..] = &numbers[..] else {
            return Err(StoreError::Script);
        };
        let (each, []) = each.as_chunks() else {
            return Err(StoreError::Script);
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

    /// Reads the reply of `quick.lua`: the rest follows from the value that it wrote.
    fn quick(rule: &Rule, done: i64, wait: i64, written: &[u8]) -> Option<Self> {
        let written = std::str::from_utf8(written).ok()?.strip_prefix("d:")?;
        let mut numbers = written.split(':').map(|number| number.parse::<u64>().ok());
        let mut next = || numbers.next()?;
        let [now, owed, unit, position, made] = [next()?, next()?, next()?, next()?, next()?];
        let most = rule.burst.checked_mul(unit)?;
        Some(Self {
            done: u64::try_from(done).ok()?,
            now,
            wait: Duration::from_micros(u64::try_from(wait).ok()?),
            free: most.saturating_sub(owed).checked_div(unit)?,
            reset: Duration::from_micros(owed.div_ceil(rule.count.max(1))),
            position,
            made,
        })
    }

    /// Returns the time by the server's clock.
    pub(crate) fn at(&self) -> Tick {
        Tick::from_nanos(self.now.saturating_mul(1000))
    }

    pub(crate) fn decision(&self, limit: u64) -> Decision {
        Decision::from_parts(limit, self.free, self.wait, self.reset, self.at())
    }
}
