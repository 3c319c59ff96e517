//! The permit word: how many permits are free, and who must be told.
//!
//! One atomic word decides everything on the ready path, so there is no second variable to race
//! with. Its value is the signed number of free permits, times eight, plus three flags:
//!
//! - `CLOSED`: nobody is admitted any more;
//! - `QUEUED`: somebody waits, and newcomers are refused, whatever is free;
//! - `NOTICE`: somebody waits for permits or for idleness, so a release must visit the lock.
//!
//! Invariants:
//!
//! 1. Free permits plus those that are held is the limit. After a shrink the free number may be
//!    negative: a debt, paid off by releases.
//! 2. Flags change only under the lock of the line. So whoever holds the lock knows them, and may
//!    clear them by subtraction together with permits.
//! 3. While `QUEUED` is set only the holder of the lock takes permits; others can but add.
//! 4. `QUEUED` implies `NOTICE`, and both are set by a compare-exchange that also sees that the
//!    permits do not suffice; for idleness `NOTICE` is set first and the permits are read then.
//!    A release that comes later in the order of the word sees `NOTICE`
//!    in the value that its addition returns; one that came earlier was counted. None is lost.
//!
//! Ordering: taking is `Acquire`, giving back and adding is `Release`, and everything in between is a
//! read-modify-write, which continues a release sequence; so whoever gets a permit sees everything
//! that its former holders did. Whoever serves the line takes the permits that it saw by
//! [`load`](PermitState::load), which is `Acquire`. Closing is `Release`, for those who see it by a
//! `load`. All else is `Relaxed`: the lock orders it, or the order of changes to this one word.

use crate::sync::{AtomicIsize, Ordering, const_fn};

/// The most permits that fit, with room to add two limits without a wrap.
pub(super) const MAX_PERMITS: usize = (isize::MAX >> 4) as usize;

const CLOSED: isize = 1;
const QUEUED: isize = 2;
const NOTICE: isize = 4;
const FLAGS: u32 = 3;

/// The free permits and the flags.
pub(super) struct PermitState(AtomicIsize);

/// What the word held at one moment.
#[derive(Clone, Copy)]
pub(super) struct PermitSnapshot(isize);

impl PermitSnapshot {
    /// Free permits; negative while a shrink has not been paid off.
    #[inline]
    pub(super) fn free(self) -> isize {
        self.0 >> FLAGS
    }

    #[inline]
    pub(super) fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }

    /// Whether a release must visit the lock.
    #[inline]
    pub(super) fn wants_notice(self) -> bool {
        self.0 & NOTICE != 0
    }
}

/// `permits` in the unit of the word. `permits` is at most `MAX_PERMITS`.
#[inline]
const fn units(permits: usize) -> isize {
    (permits as isize) << FLAGS
}

impl PermitState {
    const_fn! {
        pub(super) fn new(permits: usize) -> Self {
            Self(AtomicIsize::new(units(permits)))
        }
    }

    #[inline]
    pub(super) fn load(&self) -> PermitSnapshot {
        PermitSnapshot(self.0.load(Ordering::Acquire))
    }

    /// Takes permits if they are free, nobody waits, and the word is open. A failure writes
    /// nothing.
    #[inline]
    pub(super) fn try_take(&self, permits: u32) -> bool {
        let Some(need) = need(permits) else {
            return false;
        };
        let mut seen = self.0.load(Ordering::Relaxed);
        while seen >= need && seen & (CLOSED | QUEUED) == 0 {
            let taken = self.0.compare_exchange_weak(
                seen,
                seen - need,
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            match taken {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Takes as many permits as are free, and `most` at most; how many it took. Only under the lock:
    /// it takes from the queue as well.
    pub(super) fn take_up_to(&self, most: usize) -> usize {
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let free = usize::try_from(PermitSnapshot(seen).free()).unwrap_or(0);
            let taken = free.min(most);
            let new = seen - units(taken);
            match self
                .0
                .compare_exchange_weak(seen, new, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return taken,
                Err(now) => seen = now,
            }
        }
    }

    /// Announces a line, unless the permits have become free. Only under the lock.
    pub(super) fn announce(&self, permits: u32) -> bool {
        let need = need(permits).unwrap_or(isize::MAX);
        let mut seen = self.0.load(Ordering::Relaxed);
        while seen < need {
            let announced = self.0.compare_exchange_weak(
                seen,
                seen | QUEUED | NOTICE,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            match announced {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Gives permits back, and says what the word held before.
    #[inline]
    pub(super) fn give(&self, permits: usize) -> PermitSnapshot {
        PermitSnapshot(self.0.fetch_add(units(permits), Ordering::Release))
    }

    /// Takes what was granted to the line, and clears the flags that nobody needs any more. Only
    /// under the lock; `seen` was loaded under the same lock.
    pub(super) fn settle(&self, seen: PermitSnapshot, granted: isize, line: bool, notice: bool) {
        let keep = if line { QUEUED } else { 0 } | if notice { NOTICE } else { 0 };
        let clear = seen.0 & (QUEUED | NOTICE) & !keep;
        let change = (granted << FLAGS) + clear;
        if change != 0 {
            self.0.fetch_sub(change, Ordering::Relaxed);
        }
    }

    /// Asks releases to visit the lock. Only under the lock.
    pub(super) fn ask_notice(&self) {
        self.0.fetch_or(NOTICE, Ordering::Relaxed);
    }

    /// Closes. Only under the lock.
    pub(super) fn close(&self) {
        self.0.fetch_or(CLOSED, Ordering::Release);
    }

    /// Moves the free number by the difference of two limits. Only under the lock.
    pub(super) fn resize(&self, old: usize, new: usize) {
        self.0.fetch_add(units(new) - units(old), Ordering::Release);
    }
}

/// What the word must at least hold for `permits` to be taken; `None` if it never can, which needs
/// a platform where a `u32` can be above the limit.
#[inline]
fn need(permits: u32) -> Option<isize> {
    let permits = usize::try_from(permits).ok()?;
    (permits <= MAX_PERMITS).then(|| units(permits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debt_reads_as_negative_whatever_the_flags() {
        let word = PermitState::new(2);
        word.resize(2, 0);
        assert!(word.try_take(0));
        word.resize(5, 0);
        word.ask_notice();
        assert_eq!(word.load().free(), -5);
        assert!(word.load().wants_notice());
        word.close();
        assert_eq!(word.load().free(), -5);
        assert_eq!(word.give(7).free(), -5);
        assert_eq!(word.load().free(), 2);
    }

    #[test]
    fn the_largest_limit_can_be_moved_both_ways() {
        let word = PermitState::new(MAX_PERMITS);
        word.resize(MAX_PERMITS, 0);
        assert_eq!(word.load().free(), 0);
        word.resize(MAX_PERMITS, 0);
        assert_eq!(word.load().free(), -(MAX_PERMITS as isize));
        word.resize(0, MAX_PERMITS);
        word.resize(0, MAX_PERMITS);
        assert_eq!(word.load().free(), MAX_PERMITS as isize);
    }
}
