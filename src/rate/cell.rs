//! The word of a limiter, and the limits beside it.
//!
//! The word is a value in 60 bits, a [debt](Debt) or what else the rule [counts](super::rule), with
//! four bits on top: three of the epoch, which counts reconfigurations, refunds and whatever else
//! changes what the value means, and `HELD`, which says that the lock has to be taken: somebody
//! waits, the limiter is closed, or it is being changed.
//!
//! 1. While `HELD` is set, only the holder of the lock writes the word, so a try need not fear to
//!    pass somebody who waits, nor the holder to be overtaken by a try.
//! 2. A decision without the lock loads the word (acquire), then the limits, and changes the word
//!    by a compare-exchange (acquire and release). If that succeeds, the limits belonged to the
//!    word: they are written only while `HELD` is set, and `HELD` is set by a read-modify-write of
//!    the same word. A decision that read a limit which was written later would have exchanged the
//!    word before `HELD` was set, and so would have read what was not written yet.
//! 3. A reconfiguration, a refund and whatever begins a generation begin the next epoch. What they wrote is published by the word
//!    that lets others decide again (release), so whoever loads that (acquire) finds the limits and
//!    the refunds that belong to it, and an exchange that was prepared under older ones fails.
//!    After eight of them epochs repeat; then the debt would have to be the same number as well, in
//!    new units at a new time, or after just as much was taken as was refunded.
//! 4. A refusal changes nothing, so nothing proves it: it looks at the word once more.

use crate::algorithm::{Algorithm, Debt, Inverse, Limits, MOST_DEBT};
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
    pub(super) fn value(self) -> u64 {
        self.0 & MOST_DEBT
    }

    #[inline]
    pub(super) fn debt(self) -> Debt {
        Debt::until(self.value())
    }

    /// With another value, of at most 60 bits.
    #[inline]
    pub(super) fn with(self, value: u64) -> Self {
        // What is not the value stays.
        Self(self.0 - self.value() + value)
    }

    /// In the next epoch.
    pub(super) fn next_epoch(self) -> Self {
        let epoch = self.0.wrapping_add(1 << EPOCH_SHIFT) & EPOCHS;
        Self(self.0 & !EPOCHS | epoch)
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

    /// Changes the value, if nothing has changed since it was seen.
    #[inline]
    pub(super) fn exchange(&self, seen: Seen, value: u64) -> bool {
        // Release: what was read of the limits was read before. Pairs with the acquire of `hold`,
        // which comes before they are written.
        let next = seen.with(value);
        self.0
            .compare_exchange(seen.0, next.0, Ordering::AcqRel, Ordering::Relaxed)
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

    /// As [`confirms`](Self::confirms), and whether the value is the same.
    #[inline]
    pub(super) fn is_still(&self, seen: Seen) -> bool {
        fence(Ordering::Acquire);
        self.0.load(Ordering::Relaxed) == seen.0
    }

    /// Keeps everybody from deciding without the lock. Only under the lock.
    pub(super) fn hold(&self) -> Seen {
        Seen(self.0.fetch_or(HELD, Ordering::AcqRel) | HELD)
    }

    /// Writes the value, and lets others decide or not. Only under the lock and held.
    pub(super) fn store(&self, seen: Seen, held: bool) {
        let word = if held { seen.0 | HELD } else { seen.0 & !HELD };
        self.0.store(word, Ordering::Release);
    }
}

/// Limits that are read without the lock, and written under it while the word is held.
pub(super) struct SharedLimits {
    interval: AtomicU64,
    tolerance: AtomicU64,
    surplus: [AtomicU64; 2],
    lack: [AtomicU64; 2],
    /// How often they were changed.
    generation: AtomicU64,
    step: AtomicU64,
    stride: AtomicU64,
    start: AtomicU64,
}

impl SharedLimits {
    pub(super) fn new(algorithm: Algorithm, quota: Quota) -> Self {
        let (limits, inverse) = algorithm.limits(quota);
        Self {
            interval: AtomicU64::new(limits.interval),
            tolerance: AtomicU64::new(limits.tolerance),
            surplus: limits.surplus.map(AtomicU64::new),
            lack: inverse.lack.map(AtomicU64::new),
            generation: AtomicU64::new(0),
            step: AtomicU64::new(limits.step),
            stride: AtomicU64::new(inverse.stride),
            start: AtomicU64::new(limits.start),
        }
    }

    /// Whether they belong together is for the [cell](Cell) to prove. Without `STEPS` they are of a
    /// rule whose time does not go in steps.
    #[inline(always)]
    pub(super) fn load<const STEPS: bool>(&self) -> Limits {
        let step = if STEPS {
            self.step.load(Ordering::Relaxed)
        } else {
            0
        };
        Limits {
            interval: self.interval.load(Ordering::Relaxed),
            tolerance: self.tolerance.load(Ordering::Relaxed),
            surplus: [
                self.surplus[0].load(Ordering::Relaxed),
                self.surplus[1].load(Ordering::Relaxed),
            ],
            step,
            start: self.start(step != 0),
        }
    }

    /// As [`load`](Self::load).
    #[inline(always)]
    pub(super) fn inverse<const STEPS: bool>(&self) -> Inverse {
        let stride = if STEPS {
            self.stride.load(Ordering::Relaxed)
        } else {
            1
        };
        Inverse {
            lack: [
                self.lack[0].load(Ordering::Relaxed),
                self.lack[1].load(Ordering::Relaxed),
            ],
            stride,
            start: self.start(stride != 1),
        }
    }

    /// Only where time goes in steps.
    #[inline(always)]
    fn start(&self, steps: bool) -> u64 {
        if steps {
            self.start.load(Ordering::Relaxed)
        } else {
            0
        }
    }

    #[inline]
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Begins with another generation than the first. Only while nobody else has it.
    pub(super) fn set_generation(&self, generation: u64) {
        self.generation.store(generation, Ordering::Relaxed);
    }

    /// Only under the lock and held.
    pub(super) fn store(&self, limits: Limits, inverse: Inverse) {
        // After `HELD`, for those who confirm what they have read.
        fence(Ordering::Release);
        self.interval.store(limits.interval, Ordering::Relaxed);
        self.tolerance.store(limits.tolerance, Ordering::Relaxed);
        self.surplus[0].store(limits.surplus[0], Ordering::Relaxed);
        self.surplus[1].store(limits.surplus[1], Ordering::Relaxed);
        self.lack[0].store(inverse.lack[0], Ordering::Relaxed);
        self.lack[1].store(inverse.lack[1], Ordering::Relaxed);
        self.step.store(limits.step, Ordering::Relaxed);
        self.stride.store(inverse.stride, Ordering::Relaxed);
        if limits.step != 0 {
            self.start.store(limits.start, Ordering::Relaxed);
        }
    }

    /// Lets charges from before be told from later ones. Only under the lock and held.
    pub(super) fn begin_generation(&self) {
        let generation = self.generation.load(Ordering::Relaxed);
        self.generation.store(generation + 1, Ordering::Relaxed);
    }
}
