//! The number of the last served waiter: how a waiter finds out without the lock that it was
//! granted.
//!
//! The queue is served in the order of its numbers, so one word answers for every waiter. It holds
//! the number, times two, plus one flag: `HAS_NOTICES`. The flag means that a waiter that got
//! something other than a grant has not collected it, or that the semaphore is closed.
//!
//! Invariants:
//!
//! 1. The word changes only under the lock, and the number only rises.
//! 2. A waiter was granted if its number is not above the number in a value without `HAS_NOTICES`:
//!    if it had got anything else, the flag would be set until the waiter collects that. If the
//!    flag is set, the waiter has to check its slot, under the lock.
//!
//! Ordering: the word is published with `Release` after the permits were taken from the permit word
//! with `Acquire`, and read with `Acquire`. So a waiter sees everything that the former holders of
//! its permits did.

use crate::sync::{AtomicU64, Ordering, const_fn};

const HAS_NOTICES: u64 = 1;

/// The last number served, and whether there are notices.
pub(super) struct GrantCursor(AtomicU64);

impl GrantCursor {
    const_fn! {
        pub(super) fn new() -> Self {
            Self(AtomicU64::new(0))
        }
    }

    /// Returns whether this number has certainly been granted. `false` means that the waiter has to
    /// check its slot.
    #[inline]
    pub(super) fn has_granted(&self, number: u64) -> bool {
        let seen = self.0.load(Ordering::Acquire);
        seen >= number << 1 && seen & HAS_NOTICES == 0
    }

    /// Publishes that numbers up to this one have been served. Call it only under the lock.
    pub(super) fn publish(&self, number: u64, has_notices: bool) {
        // A number outgrows the shift after 292 years of one waiter per nanosecond.
        let flag = if has_notices { HAS_NOTICES } else { 0 };
        self.0.store(number << 1 | flag, Ordering::Release);
    }
}
