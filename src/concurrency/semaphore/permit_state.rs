//! The permit word: the number of free permits, and whether waiters must be notified.
//!
//! One atomic word decides everything on the fast path, so there is no second variable to race
//! with. Its value is the signed number of free permits, times eight, plus three flags:
//!
//! - `CLOSED`: no caller is admitted any more;
//! - `QUEUED`: there are waiters, and newcomers are refused, even if permits are free;
//! - `NOTICE`: there are waiters for permits or for idleness, so a release must take the lock.
//!
//! Invariants:
//!
//! 1. Free permits plus held permits equal the limit. After a shrink the free number may be
//!    negative: a debt, which releases pay off.
//! 2. Flags change only under the lock of the queue. So the holder of the lock knows them, and may
//!    clear them by subtraction together with permits.
//! 3. While `QUEUED` is set, only the holder of the lock takes permits; other threads can only add
//!    permits.
//! 4. `QUEUED` implies `NOTICE`. Both are set by a compare-exchange that also verifies that the
//!    permits do not suffice; for idleness, `NOTICE` is set first and the permits are read
//!    afterwards. A release that comes later in the modification order of the word sees `NOTICE` in
//!    the value that its addition returns; a release that came earlier was counted. So no release
//!    is lost.
//!
//! Ordering: taking is `Acquire`, and returning and adding are `Release`. Everything in between is
//! a read-modify-write, which continues a release sequence. So a caller that gets a permit sees
//! everything that its former holders did. The thread that serves the queue takes the permits that
//! it saw with [`load`](PermitState::load), which is `Acquire`. Closing is `Release`, for threads
//! that see it with a `load`. All other accesses are `Relaxed`: they are ordered by the lock, or by
//! the modification order of this one word.

use crate::sync::{AtomicIsize, Ordering, const_fn};

/// The maximum number of permits, with room to add two limits without wrapping.
pub(super) const MAX_PERMITS: usize = (isize::MAX >> 4) as usize;

const CLOSED: isize = 1;
const QUEUED: isize = 2;
const NOTICE: isize = 4;
/// The number of flags.
const FLAGS: u32 = 3;
/// One permit, in the unit of the word.
const PERMIT: isize = 1 << FLAGS;

/// The free permits and the flags.
pub(super) struct PermitState(AtomicIsize);

/// The value of the word at one moment.
#[derive(Clone, Copy)]
pub(super) struct PermitSnapshot {
    /// The number of free permits; it is negative until a shrink has been paid off.
    pub(super) free: isize,
    pub(super) closed: bool,
    queued: bool,
    /// Whether a release must take the lock.
    pub(super) notice: bool,
}

impl PermitSnapshot {
    #[inline(always)]
    fn of(word: isize) -> Self {
        Self {
            free: word >> FLAGS,
            closed: word & CLOSED != 0,
            queued: word & QUEUED != 0,
            notice: word & NOTICE != 0,
        }
    }

    /// Returns the number of free permits, without a debt.
    pub(super) fn available(self) -> usize {
        usize::try_from(self.free).unwrap_or(0)
    }
}

impl PermitState {
    const_fn! {
        pub(super) fn new(permits: usize) -> Self {
            Self(AtomicIsize::new(permits as isize * PERMIT))
        }
    }

    #[inline]
    pub(super) fn load(&self) -> PermitSnapshot {
        PermitSnapshot::of(self.0.load(Ordering::Acquire))
    }

    /// Takes permits if they are free, there are no waiters, and the semaphore is open. A failure
    /// writes nothing.
    #[inline]
    pub(super) fn try_take(&self, permits: u64) -> bool {
        let need = need(permits);
        let take = |seen| (seen >= need && seen & (CLOSED | QUEUED) == 0).then(|| seen - need);
        self.update(Ordering::Acquire, take).is_ok()
    }

    /// Takes as many permits as are free, up to `most`, and returns how many it took. Call it only
    /// under the lock: it ignores `QUEUED`.
    pub(super) fn take_up_to(&self, most: usize) -> usize {
        let part = |seen| PermitSnapshot::of(seen).available().min(most);
        let take = |seen| Some(seen - part(seen) as isize * PERMIT);
        self.update(Ordering::Relaxed, take).map_or_else(part, part)
    }

    /// Sets `QUEUED` and `NOTICE`, unless the permits have become free. Call it only under the
    /// lock.
    pub(super) fn announce(&self, permits: u64) -> bool {
        let need = need(permits);
        let announce = |seen| (seen < need).then_some(seen | QUEUED | NOTICE);
        self.update(Ordering::Relaxed, announce).is_ok()
    }

    #[inline(always)]
    fn update(&self, set: Ordering, next: impl Fn(isize) -> Option<isize>) -> Result<isize, isize> {
        self.0.fetch_update(set, Ordering::Relaxed, next)
    }

    /// Returns permits, and returns the value that the word held before.
    #[inline]
    pub(super) fn give(&self, permits: usize) -> PermitSnapshot {
        let permits = permits as isize * PERMIT;
        PermitSnapshot::of(self.0.fetch_add(permits, Ordering::Release))
    }

    /// Takes the permits that were granted to waiters, and clears the flags that are no longer
    /// needed. Call it only under the lock, with a `seen` that was loaded under the same lock.
    pub(super) fn settle(&self, seen: PermitSnapshot, granted: isize, queue: bool, notice: bool) {
        let mut change = granted * PERMIT;
        if seen.queued && !queue {
            change += QUEUED;
        }
        if seen.notice && !notice {
            change += NOTICE;
        }
        if change != 0 {
            self.0.fetch_sub(change, Ordering::Relaxed);
        }
    }

    /// Makes releases take the lock. Call it only under the lock.
    pub(super) fn ask_notice(&self) {
        self.0.fetch_or(NOTICE, Ordering::Relaxed);
    }

    /// Closes the semaphore. Call it only under the lock.
    pub(super) fn close(&self) {
        self.0.fetch_or(CLOSED, Ordering::Release);
    }

    /// Changes the free number by the difference of two limits. Call it only under the lock.
    pub(super) fn resize(&self, old: usize, new: usize) {
        let change = (new as isize - old as isize) * PERMIT;
        self.0.fetch_add(change, Ordering::Release);
    }
}

/// Returns the least value of the word with which this [request](requested) can be served.
#[inline]
fn need(permits: u64) -> isize {
    debug_assert!(
        permits <= MAX_PERMITS as u64 + 1,
        "{permits} were requested"
    );
    permits as isize * PERMIT
}

/// Returns a number of permits that the word can be compared with. Above the largest limit this is one more than
/// that, which is never free. It is called where a request enters, so that it costs nothing where the number is a
/// constant.
#[inline(always)]
pub(super) fn requested(permits: u64) -> u64 {
    permits.min(MAX_PERMITS as u64 + 1)
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
        assert_eq!(word.load().free, -5);
        assert!(word.load().notice);
        word.close();
        assert_eq!(word.load().free, -5);
        assert_eq!(word.give(7).free, -5);
        assert_eq!(word.load().free, 2);
    }

    #[test]
    fn the_largest_limit_can_be_moved_both_ways() {
        let word = PermitState::new(MAX_PERMITS);
        word.resize(MAX_PERMITS, 0);
        assert_eq!(word.load().free, 0);
        word.resize(MAX_PERMITS, 0);
        assert_eq!(word.load().free, -(MAX_PERMITS as isize));
        word.resize(0, MAX_PERMITS);
        word.resize(0, MAX_PERMITS);
        assert_eq!(word.load().free, MAX_PERMITS as isize);
    }
}
