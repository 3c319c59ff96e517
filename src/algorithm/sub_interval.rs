//! Sub-intervals: a fixed window for each of `k` parts of the period, with `⌊N/(k+1)⌋` in each, so
//! that any period, which touches at most `k + 1` of them, has at most `N`.
//!
//! The whole state is a word, which [`Gcra`](super::gcra::Gcra) decides by parameters in steps.

use std::time::Duration;

use super::definition::{Definition, Promise};
use super::quota_change::QuotaChange;
use crate::quota::Quota;

pub(super) const NO_PARTS: &str = "a period cannot be cut into 0 parts";

pub(super) const fn definition(parts: u32) -> Definition {
    Definition {
        name: "sub-interval",
        parts: Some(parts),
        keeps_a_word: true,
        on_change: QuotaChange::KeepSpent,
    }
}

pub(super) const fn promise(quota: Quota, parts: u32) -> Result<Promise, &'static str> {
    let (count, parts) = (quota.count(), parts as u64);
    match Promise::whole_count(quota) {
        Ok(_) if parts == 0 => Err(NO_PARTS),
        Ok(_) if parts >= count => {
            Err("a period in parts needs a count that is larger than the number of parts")
        }
        Ok(_) => {
            let part = Duration::from_nanos(quota.period_nanos().div_ceil(parts));
            let each = count / (parts + 1);
            Promise::batches(Quota::new(each, part).burst(each))
        }
        Err(reason) => Err(reason),
    }
}
