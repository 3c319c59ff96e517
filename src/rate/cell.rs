//! The word of a limiter, and the limits beside it.
//!
//! The word is a [debt](Debt) in 60 bits, with four on top: three of the epoch, which counts
//! reconfigurations and refunds, and `HELD`, which says that the lock has to be taken: somebody
//! waits, the limiter is closed, or it is being changed.
//!
//! 1. While `HELD` is set, only the holder of the lock writes the word, so a try need not fear to
//!    pass somebody who waits, nor the holder to be overtaken by a try.
//! 2. A decision without the lock loads the word (acquire), then the limits, and changes the word
//!    by a compare-exchange (acquire and release). If that succeeds, the limits belonged to the
//!    word: they are written only while `HELD` is set, and `HELD` is set by a read-modify-write of
//!    the same word. A decision that read a limit which was written later would have exchanged the
//!    word before `HELD` was set, and so would have read what was not written yet.
//! 3. A reconfiguration and a refund begin the next epoch. What they wrote is published by the word
//!    that lets others decide again (release), so whoever loads that (acquire) finds the limits and
//!    the refunds that belong to it, and an exchange that was prepared under older ones fails.
//!    After eight of them epochs repeat; then the debt would have to be the same number as well, in
//!    new units at a new time, or after just as much was taken as was refunded.
//! 4. A refusal changes nothing, so nothing proves it: it looks at the word once more.

use crate::algorithm::{Debt, Inverse, Limits, MOST_DEBT};
use crate::quota::Quota;
use crate::sync::{AtomicU64, Ordering, fence};

const HELD: u64 = 1 << 63;
const EPOCH_SHIFT: u32 = 60;
const EPOCHS: u64 = 0b111 << EPOCH_SHIFT;

/// The word.
pub(super) struct Cell(AtomicU64);

/// The word at some moment.
#[derive(Clone, Copy)]
pub(super) struct Seen(u64);

impl Seen {
    #[inline]
    pub(super) fn is_held(self) -> bool {
        self.0 & HELD != 0
    }

    #[inline]
    pub(super) fn debt(self) -> Debt {
        Debt::until(self.0 & MOST_DEBT)
    }

    #[inline]
    fn with(self, debt: Debt) -> u64 {
        // What is not debt stays.
        self.0 - self.debt().end() + debt.end()
    }
}

impl Cell {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    #[inline]
    pub(super) fn load(&self) -> Seen {
        // Pairs with the release of `store`: the limits are those of this epoch, or later ones.
        Seen(self.0.load(Ordering::Acquire))
    }

    /// Changes the debt, if nothing has changed since it was seen.
    #[inline]
    pub(super) fn exchange(&self, seen: Seen, debt: Debt) -> bool {
        // Release: what was read of the limits was read before. Pairs with the acquire of `hold`,
        // which comes before they are written.
        self.0
            .compare_exchange(seen.0, seen.with(debt), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Whether what was read of the limits since belongs to the word that was seen.
    #[inline]
    pub(super) fn confirms(&self, seen: Seen) -> bool {
        // Whoever has read a limit that was written since `HELD` was set finds it set here.
        fence(Ordering::Acquire);
        let now = self.0.load(Ordering::Relaxed);
        (now ^ seen.0) & (HELD | EPOCHS) == 0
    }

    /// Keeps everybody from deciding without the lock. Only under the lock.
    pub(super) fn hold(&self) -> Seen {
        Seen(self.0.fetch_or(HELD, Ordering::AcqRel) | HELD)
    }

    /// Writes the debt, and lets others decide or not. Only under the lock and held.
    pub(super) fn store(&self, seen: Seen, debt: Debt, held: bool) {
        let word = seen.with(debt);
        let word = if held { word | HELD } else { word & !HELD };
        self.0.store(word, Ordering::Release);
    }

    /// Writes the debt of the next epoch. Only under the lock and held.
    pub(super) fn begin_epoch(&self, seen: Seen, debt: Debt) -> Seen {
        let epoch = seen.0.wrapping_add(1 << EPOCH_SHIFT) & EPOCHS;
        let next = Seen(HELD | epoch | debt.end());
        self.0.store(next.0, Ordering::Release);
        next
    }
}

/// Limits that are read without the lock, and written under it while the word is held.
pub(super) struct SharedLimits {
    interval: AtomicU64,
    tolerance: AtomicU64,
    surplus: [AtomicU64; 2],
    inverse: [AtomicU64; 2],
    /// How often they were changed.
    generation: AtomicU64,
}

impl SharedLimits {
    pub(super) fn new(quota: Quota) -> Self {
        let limits = Limits::new(quota);
        Self {
            interval: AtomicU64::new(limits.interval),
            tolerance: AtomicU64::new(limits.tolerance),
            surplus: limits.surplus.map(AtomicU64::new),
            inverse: Inverse::new(quota).0.map(AtomicU64::new),
            generation: AtomicU64::new(0),
        }
    }

    /// Whether they belong together is for the [cell](Cell) to prove.
    #[inline]
    pub(super) fn load(&self) -> Limits {
        Limits {
            interval: self.interval.load(Ordering::Relaxed),
            tolerance: self.tolerance.load(Ordering::Relaxed),
            surplus: [
                self.surplus[0].load(Ordering::Relaxed),
                self.surplus[1].load(Ordering::Relaxed),
            ],
        }
    }

    /// As [`load`](Self::load).
    #[inline]
    pub(super) fn inverse(&self) -> Inverse {
        Inverse([
            self.inverse[0].load(Ordering::Relaxed),
            self.inverse[1].load(Ordering::Relaxed),
        ])
    }

    #[inline]
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Only under the lock and held.
    pub(super) fn store(&self, quota: Quota) {
        let (limits, inverse) = (Limits::new(quota), Inverse::new(quota));
        // After `HELD`, for those who confirm what they have read.
        fence(Ordering::Release);
        self.interval.store(limits.interval, Ordering::Relaxed);
        self.tolerance.store(limits.tolerance, Ordering::Relaxed);
        self.surplus[0].store(limits.surplus[0], Ordering::Relaxed);
        self.surplus[1].store(limits.surplus[1], Ordering::Relaxed);
        self.inverse[0].store(inverse.0[0], Ordering::Relaxed);
        self.inverse[1].store(inverse.0[1], Ordering::Relaxed);
    }

    /// Lets charges from before be told from later ones. Only under the lock and held.
    pub(super) fn begin_generation(&self) {
        let generation = self.generation.load(Ordering::Relaxed);
        self.generation.store(generation + 1, Ordering::Relaxed);
    }
}
