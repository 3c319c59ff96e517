//! [`Rule`]: a quota, as the arguments of a script have it.

use std::time::Duration;

use redis::RedisResult;
use tollgate::{Algorithm, Quota};

use super::arguments::{Call, failed};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) algorithm: Algorithm,
    pub(super) count: u64,
    /// In microseconds.
    pub(super) period: u64,
    pub(super) burst: u64,
}

impl Rule {
    /// Reads the arguments from an index on.
    pub(super) fn read(algorithm: Algorithm, call: &Call<'_>, first: usize) -> RedisResult<Self> {
        Ok(Self {
            algorithm,
            count: call.number(first)?,
            period: call.number(first + 1)?,
            burst: call.number(first + 2)?,
        })
    }

    pub(super) fn quota(&self) -> RedisResult<Quota> {
        let period = Duration::from_micros(self.period);
        let quota = Quota::try_new(self.count, period, self.burst);
        quota
            .ok()
            .filter(|quota| self.algorithm.check(*quota).is_ok())
            .ok_or_else(|| failed("the quota is out of range"))
    }
}
