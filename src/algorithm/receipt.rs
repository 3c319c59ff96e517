//! [`Receipt`]: what a limiter keeps of a charge, so that it finds it again.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::time::Tick;

/// What a limiter charged for one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Receipt {
    /// The position of the charge among all charges of its rule, by which the rule finds it again.
    pub(crate) ticket: u64,
    /// The [generation](fresh_generation) of the charge. The rule leaves that to the limiter.
    pub(crate) generation: u64,
    pub(crate) cost: u64,
    pub(crate) at: Tick,
    /// The backlog just after the charge, if the rule knows it: in its own units.
    pub(crate) owed: u64,
}

/// Returns a number for the charges that a limiter makes from now on: no other limiter of the
/// process has it, and the limiter did not have it before. So a limiter recognizes a receipt of
/// another limiter, or from before its charges were numbered again. The low half is zero, for the
/// hash of a key.
pub(crate) fn fresh_generation() -> u64 {
    // Not a modelled one: a model may run the limiters of many executions.
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed).rotate_left(32)
}
