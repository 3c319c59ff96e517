//! The places of a log.
//!
//! A long one is 59 bits of time, a nanosecond more than the tick so that 0 is no time, and 5 of
//! the lap. A short one is 32 bits of time, counted in units from a base, one more than it is, and
//! has no lap: it is written under the lock only, so it is never pending.
//!
//! The base of short times is moved on, under the lock, before a time does not fit any more: see
//! [`HeldLog`](super::held::HeldLog). A time is rounded up to whole units, so that a charge counts
//! for longer, never for less.

use super::LAPS;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Bits of a lap.
const LAP_BITS: u32 = LAPS.trailing_zeros();

/// What a place holds: when a charge was made, in nanoseconds, if there ever was one, and in which
/// lap, modulo [`LAPS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp(u64);

impl Stamp {
    #[inline]
    pub(super) fn new(time: Option<u64>, lap: u64) -> Self {
        let time = time.map_or(0, |time| time + 1);
        Self(time << LAP_BITS | lap)
    }

    /// What a long place holds.
    #[inline]
    pub(super) fn load(place: &AtomicU64) -> Self {
        // Pairs with the release of `exchange`.
        Self(place.load(Ordering::Acquire))
    }

    /// Writes a long place, if `old` is there still; otherwise says what is.
    #[inline]
    pub(super) fn exchange(self, place: &AtomicU64, old: Self) -> Result<(), Self> {
        place
            .compare_exchange(old.0, self.0, Ordering::AcqRel, Ordering::Acquire)
            .map(drop)
            .map_err(Self)
    }

    #[inline]
    pub(super) fn time(self) -> Option<u64> {
        (self.0 >> LAP_BITS).checked_sub(1)
    }

    #[inline]
    pub(super) fn lap(self) -> u64 {
        self.0 % LAPS
    }

    /// From when on the next may be charged here.
    #[inline]
    pub(super) fn free_from(self, period: u64) -> u64 {
        self.time().map_or(0, |time| time.saturating_add(period))
    }

    /// Whether the next may be charged here.
    #[inline]
    pub(super) fn is_free(self, period: u64, now: u64) -> bool {
        let time = self.0 >> LAP_BITS;
        // No sum wraps: they are of less than 2^59, 2^58, and some years.
        time == 0 || time + period <= now + 1
    }

    /// What is written in the place of whoever has not done so.
    pub(super) fn later(self, period: u64, now: u64, lap: u64) -> Self {
        let time = self.free_from(period).max(now).min(super::LAST_TICK);
        Self::new(Some(time), lap)
    }

    /// When `mine` was charged, which was to follow this, if `other` is found instead.
    #[cold]
    pub(super) fn written_by_another(self, other: Self, mine: Self, period: u64) -> u64 {
        let own = mine.time().unwrap_or_default();
        let found = other.time().unwrap_or_default();
        match (other.lap() + LAPS - mine.lap()) % LAPS {
            // By somebody who needed the place, perhaps a moment earlier.
            0 => own.min(found),
            // And by the next already, which is a period later.
            1 => own.min(found.saturating_sub(period)),
            // Or by several. Whoever wrote it had seen it taken before it looked at the clock, so by
            // clocks that disagree by less than a period it was not longer ago than this.
            _ => self.free_from(period).max(own.saturating_sub(period)),
        }
    }
}

/// What the numbers of a short form mean.
pub(super) struct Short {
    /// The tick of the number 0.
    base: AtomicU64,
    /// Nanoseconds of one.
    unit: AtomicU64,
}

impl Short {
    pub(super) fn new(period: u64) -> Self {
        Self {
            base: AtomicU64::new(0),
            unit: AtomicU64::new(Self::unit_of(period)),
        }
    }

    /// So that a period has at most 2^29.
    fn unit_of(period: u64) -> u64 {
        period.div_ceil(1 << 29)
    }

    /// Only held.
    pub(super) fn change(&self, period: u64, base: u64) {
        self.unit.store(Self::unit_of(period), Ordering::Release);
        self.move_to(base);
    }

    /// Only held; all that is kept must be written anew.
    pub(super) fn move_to(&self, base: u64) {
        self.base.store(base, Ordering::Release);
    }

    /// The last time until then that is kept as it is, with any base that is one itself.
    pub(super) fn step_before(&self, time: u64) -> u64 {
        let (base, unit) = self.scale();
        let since = time.saturating_sub(base);
        base + since - since % unit
    }

    /// So many nanoseconds in whole units, rounded up.
    pub(super) fn whole(&self, nanos: u64) -> u64 {
        let unit = self.unit.load(Ordering::Relaxed);
        nanos.div_ceil(unit).saturating_mul(unit)
    }

    /// The last time that can be written.
    pub(super) fn last(&self) -> u64 {
        self.time(u32::MAX)
    }

    /// The base and the unit. Pairs with the release of `change` and `move_to`, as for a place.
    fn scale(&self) -> (u64, u64) {
        let (base, unit) = (&self.base, &self.unit);
        (base.load(Ordering::Acquire), unit.load(Ordering::Acquire))
    }

    fn time(&self, number: u32) -> u64 {
        let (base, unit) = self.scale();
        base.saturating_add(u64::from(number - 1).saturating_mul(unit))
    }

    /// The number of a time, rounded up. The base if it is earlier, the last if it is too late.
    fn number(&self, time: u64) -> u32 {
        let (base, unit) = self.scale();
        let units = time.saturating_sub(base).div_ceil(unit);
        u32::try_from(units).map_or(u32::MAX, |units| units.saturating_add(1))
    }

    /// The time that is kept for one, also if it is too late for now.
    pub(super) fn rounded(&self, time: u64) -> u64 {
        let base = self.base.load(Ordering::Relaxed);
        base.saturating_add(self.whole(time.saturating_sub(base)))
    }
}

/// The places of a ring.
pub(super) enum Stamps {
    Long(Box<[AtomicU64]>),
    Short(Box<[AtomicU32]>),
}

impl Stamps {
    pub(super) fn new(room: u64, short: bool) -> Self {
        if short {
            Self::Short((0..room).map(|_| AtomicU32::new(0)).collect())
        } else {
            Self::Long((0..room).map(|_| AtomicU64::new(0)).collect())
        }
    }

    pub(super) fn room(&self) -> u64 {
        match self {
            Self::Long(places) => places.len() as u64,
            Self::Short(places) => places.len() as u64,
        }
    }

    /// What is there, if there is such a place. Of a short one the lap is not known.
    pub(super) fn load(&self, index: u64, short: Option<&Short>) -> Option<Stamp> {
        match self {
            Self::Long(places) => places.get(index as usize).map(Stamp::load),
            Self::Short(places) => {
                // Pairs with the release of `store`: whoever has read what was written since finds
                // the word held, or moved on.
                let number = places.get(index as usize)?.load(Ordering::Acquire);
                let time = short.filter(|_| number > 0).map(|it| it.time(number));
                Some(Stamp::new(time, 0))
            }
        }
    }

    /// Writes a place that is pending, if nobody else did; otherwise says what is there. A short
    /// one never is.
    pub(super) fn exchange(&self, index: u64, old: Stamp, new: Stamp) -> Result<(), Stamp> {
        match self {
            Self::Long(places) => new.exchange(&places[index as usize], old),
            Self::Short(_) => Err(old),
        }
    }

    /// Only held, and not while it is pending.
    pub(super) fn store(&self, index: u64, stamp: Stamp, short: Option<&Short>) {
        match self {
            Self::Long(places) => {
                places[index as usize].store(stamp.0, Ordering::Release);
            }
            Self::Short(places) => {
                let number = |time| short.map_or(0, |it| it.number(time));
                let number = stamp.time().map_or(0, number);
                places[index as usize].store(number, Ordering::Release);
            }
        }
    }
}
