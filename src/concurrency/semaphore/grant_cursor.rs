//! The last number served: how a waiter finds out without the lock that it was granted.
//!
//! The line is served in the order of its numbers, so one word answers for every waiter. It holds
//! the number, times two, plus one flag: `HAS_NOTICES`, somebody who was told something else than a
//! grant has not collected it, or the semaphore is closed.
//!
//! Invariants:
//!
//! 1. Changes only under the lock, and the number only rises.
//! 2. A waiter whose number is not above it, in a value without `HAS_NOTICES`, was granted: had it
//!    been told anything else, the flag would stand until it collects. With the flag it has to
//!    look at its place, under the lock.
//!
//! Ordering: published with `Release` after the permits were taken from the word with `Acquire`,
//! and read with `Acquire`; so a waiter sees all that the former holders of its permits did.

use std::num::NonZeroU64;

use crate::sync::{AtomicU64, Ordering, const_fn};

const HAS_NOTICES: u64 = 1;

/// The last number served, and whether somebody has to look.
pub(super) struct GrantCursor(AtomicU64);

impl GrantCursor {
    const_fn! {
        pub(super) fn new() -> Self {
            Self(AtomicU64::new(0))
        }
    }

    /// Whether this number has certainly been granted. `false` means that it has to look.
    #[inline]
    pub(super) fn has_granted(&self, number: NonZeroU64) -> bool {
        let seen = self.0.load(Ordering::Acquire);
        seen >= number.get() << 1 && seen & HAS_NOTICES == 0
    }

    /// Publishes that numbers up to this one have been served. Only under the lock.
    pub(super) fn publish(&self, number: NonZeroU64, told: bool) {
        // A number that outgrew the shift would be 292 years of one waiter a nanosecond away.
        let flag = if told { HAS_NOTICES } else { 0 };
        self.0.store(number.get() << 1 | flag, Ordering::Release);
    }
}
