//! The word of a gate: the tick at which it reopens, or 0 while it is open.
//!
//! 1. Shutting only ever moves the tick later; a gate that is shut stays so for the longest that it
//!    was told. Only [`open`](Word::open) takes that back.
//! 2. Whoever finds that the time is over [reopens](Word::reopen) by exchanging the very tick that it
//!    saw: if the gate has been shut anew meanwhile, that tick is another one, and it stays shut.
//!
//! All of it is relaxed, as only the word itself is told.

use crate::sync::{AtomicU64, Ordering};
use crate::time::Tick;

const OPEN: u64 = 0;

pub(super) struct Word(AtomicU64);

impl Word {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(OPEN))
    }

    #[inline(always)]
    pub(super) fn is_open(&self) -> bool {
        self.0.load(Ordering::Relaxed) == OPEN
    }

    /// Until when it is shut, unless somebody finds that this is over.
    pub(super) fn shut_until(&self) -> Option<Tick> {
        match self.0.load(Ordering::Relaxed) {
            OPEN => None,
            until => Some(Tick::from_nanos(until)),
        }
    }

    /// Shuts it until then, or longer if it is shut for longer.
    pub(super) fn shut(&self, until: Tick) {
        self.0.fetch_max(until.as_nanos(), Ordering::Relaxed);
    }

    /// Opens it, if it is still shut until the tick that was seen.
    pub(super) fn reopen(&self, seen: Tick) -> bool {
        let (seen, relaxed) = (seen.as_nanos(), Ordering::Relaxed);
        let exchanged = self.0.compare_exchange(seen, OPEN, relaxed, relaxed);
        exchanged.is_ok()
    }

    /// Opens it, however long it was to be shut.
    pub(super) fn open(&self) {
        // A read-modify-write, as the others: none of them is undone by it that comes after.
        self.0.swap(OPEN, Ordering::Relaxed);
    }
}
