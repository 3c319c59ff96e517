//! The fixed window: the whole count at each multiple of the period.
//!
//! Its whole state is a word, which [`Gcra`](super::gcra::Gcra) decides by parameters in steps.

use super::definition::{Definition, Promise};
use super::quota_change::QuotaChange;
use crate::quota::Quota;

pub(super) const DEFINITION: Definition = Definition {
    name: "fixed-window",
    parts: None,
    keeps_a_word: true,
    on_change: QuotaChange::KeepSpent,
};

pub(super) const fn promise(quota: Quota) -> Result<Promise, &'static str> {
    Promise::whole_count(quota)
}
