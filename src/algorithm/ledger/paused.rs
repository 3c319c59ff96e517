//! [`Paused`]: a pause that has not ended.

use crate::algorithm::rule_state::Saved;

/// A pause that has not ended.
pub(super) struct Paused {
    /// The state without the pause.
    pub(super) before: Saved,
    /// The units that were charged since it began.
    pub(super) forced: u64,
    /// The number of the first hold that did not begin before it.
    pub(super) first_hold: u64,
}
