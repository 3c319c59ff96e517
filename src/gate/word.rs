//! The state of a gate in one word: the tick at which it opens, or 0 while it is open.
//!
//! 1. Blocking only moves the tick later, so the longest block wins. Only [`open`](Word::open) takes it
//!    back.
//! 2. A caller who finds that the time is over [opens](Word::expire) the gate by exchanging the tick
//!    that it saw. If the gate has been blocked again meanwhile, the tick differs, and the gate stays
//!    blocked.
//!
//! All accesses are relaxed, because only the word itself is published.

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

    /// Like `is_open`, by a read-modify-write, which reads the newest value there is.
    pub(super) fn is_open_at_last(&self) -> bool {
        self.0.fetch_max(OPEN, Ordering::Relaxed) == OPEN
    }

    /// Until when it is blocked, if nobody has noticed yet that this is over.
    pub(super) fn blocked_until(&self) -> Option<Tick> {
        match self.0.load(Ordering::Relaxed) {
            OPEN => None,
            until => Some(Tick::from_nanos(until)),
        }
    }

    /// Blocks it until `until`, unless it is blocked for longer.
    pub(super) fn block(&self, until: Tick) {
        self.0.fetch_max(until.as_nanos(), Ordering::Relaxed);
    }

    /// Opens it if it is still blocked until `seen`. Returns whether it was.
    pub(super) fn expire(&self, seen: Tick) -> bool {
        let (seen, relaxed) = (seen.as_nanos(), Ordering::Relaxed);
        let exchanged = self.0.compare_exchange(seen, OPEN, relaxed, relaxed);
        exchanged.is_ok()
    }

    /// Opens it, however long it was to be blocked.
    pub(super) fn open(&self) {
        // A read-modify-write like the others, so it does not undo one that comes after it.
        self.0.swap(OPEN, Ordering::Relaxed);
    }
}
