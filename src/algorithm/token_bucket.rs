//! The token bucket: batches that are added at each multiple of the period.
//!
//! Its whole state is a word, which [`Gcra`](super::gcra::Gcra) decides by parameters in steps.

use super::definition::{Definition, Promise};
use super::quota_change::QuotaChange;
use crate::quota::Quota;

pub(super) const DEFINITION: Definition = Definition {
    name: "token-bucket",
    parts: None,
    keeps_a_word: true,
    on_change: QuotaChange::KeepSpent,
};

pub(super) const fn promise(quota: Quota) -> Result<Promise, &'static str> {
    let (count, burst) = (quota.count(), quota.max_burst());
    match Promise::batches(quota) {
        Ok(promise) => Ok(Promise {
            batch: match burst {
                1 => quota.burst(count),
                // Tokens without room in the bucket are lost.
                _ if burst < count => Quota::new(burst, quota.period()).burst(burst),
                _ => quota,
            },
            ..promise
        }),
        Err(reason) => Err(reason),
    }
}
