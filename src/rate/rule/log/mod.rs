//! The sliding log of a limiter: a ring of the times of the last charges.
//!
//! The value of the word is a [position](Position): the place in the ring that is next, and how
//! often the ring was gone through, its *lap*. A place holds the time of a charge, and the lap in
//! which that was made, modulo [`LAPS`].
//!
//! 1. Whoever is charged 1 without the lock first moves the word on, by a compare-exchange, and so
//!    owns the place; then writes its time there, also by a compare-exchange. A place that was
//!    passed and still holds what the lap before wrote is *pending*.
//! 2. Whoever comes to a pending place writes it: the time as it is now, but no less than a period
//!    after what is there, since the owner was admitted on the strength of that. Then the owner
//!    finds it written, and is charged at that time, if that is earlier than its own. So nobody
//!    waits for anybody, and no charge is lost.
//! 3. Whatever is written to a place is at least a period after what was there. So in any period
//!    there is at most one for each place, whatever the order in which they were written.
//! 4. A time of a lap is never written twice to the same place: laps are told apart, and times of
//!    a place rise. So a compare-exchange which was prepared for one lap fails in every other. After
//!    [`LAPS`] laps they repeat; then the time would have to be the same as well.
//! 5. Only under the lock, and held: charges of more than 1, those that are forced, refunds and
//!    changes of the quota, which write the ring anew, as of later laps. A refusal looks at the word
//!    once more, and finds whether the place was still next.
//! 6. Charges that are forced may be of times to come. There are such only as long as no place is
//!    free, so times rise from the place that is next, round the ring, but for moments by which the
//!    clocks of two threads disagree.
//! 7. A charge is known by how many places were passed when it was made; [refunds](Refunds) count
//!    in places.
//!
//! In the [short form](stamps) every charge is made under the lock; refusals are as here. Charges of
//! so late a time that it cannot be written are counted beside the ring, and written as soon as it
//! can be; until then nothing is decided without the lock.

mod brief;
mod held;
#[cfg(test)]
mod overtaken;
mod stamps;

use std::sync::OnceLock;

use self::held::HeldLog;
use self::stamps::{Short, Stamp, Stamps};

use crate::algorithm::LAST_TICK;
use crate::quota::Quota;
use crate::rate::cell::Seen;
use crate::rate::core::{Core, Decided};
use crate::sync::{AtomicU64, Ordering, fence};
use crate::time::{Clock, Counter, Tick};

/// How many laps are told apart.
const LAPS: u64 = 32;

/// Bits of a place.
const INDEX_BITS: u32 = 28;

/// The place that is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Position {
    index: u64,
    lap: u64,
}

impl Position {
    fn of(seen: Seen) -> Self {
        let value = seen.value();
        Self {
            index: value & ((1 << INDEX_BITS) - 1),
            lap: value >> INDEX_BITS,
        }
    }

    fn value(self) -> u64 {
        const LAP: u64 = (1 << (60 - INDEX_BITS)) - 1;
        (self.lap & LAP) << INDEX_BITS | self.index
    }

    /// The one that is next then, in a ring of so many.
    #[inline]
    fn next(self, len: u64) -> Self {
        let index = self.index + 1;
        if index < len {
            Self { index, ..self }
        } else {
            Self {
                index: 0,
                lap: self.lap + 1,
            }
        }
    }

    /// So many places on, in a ring of so many.
    fn after(self, places: u64, len: u64) -> Self {
        let index = self.index + places;
        if index < len {
            Self { index, ..self }
        } else {
            Self {
                index: index % len,
                lap: self.lap + index / len,
            }
        }
    }

    /// When so many places were passed, in a ring of so many.
    fn when(passed: u64, len: u64) -> Self {
        Self {
            index: passed % len,
            lap: passed / len,
        }
    }

    /// How many places were passed, in a ring of so many.
    fn passed(self, len: u64) -> u64 {
        self.lap.wrapping_mul(len).wrapping_add(self.index)
    }
}

/// What is beside the word.
pub(crate) struct Log {
    /// By which tries are decided, if there is nothing else to be heeded, in the long form;
    pub(in crate::rate) plain: Option<Counter>,
    /// and in the short one.
    pub(in crate::rate) plain_short: Option<Counter>,
    len: AtomicU64,
    /// In nanoseconds.
    period: AtomicU64,
    /// The lap before the first, as it is written.
    laps: AtomicU64,
    /// How many places behind the ring hold times for which there is none in it. Only under the
    /// lock.
    beyond: AtomicU64,
    /// How many charges of a short log are so late that the places hold no time of theirs yet. Only
    /// under the lock, but for those who look whether there are any.
    late: AtomicU64,
    /// Places before this one, as they are passed, hold no charge. Only under the lock.
    unused: AtomicU64,
    /// Which of the rings: how many are before it.
    ring: AtomicU64,
    first: Ring,
    /// What the numbers of a short form mean.
    short: Option<Short>,
}

/// Places, and the ring that came after, when there was not room enough.
struct Ring {
    stamps: Stamps,
    /// With at least twice the room.
    larger: OnceLock<Box<Ring>>,
}

/// A ring as far as it is in use.
#[derive(Clone, Copy)]
struct View<'a> {
    stamps: &'a Stamps,
    len: u64,
    period: u64,
    laps: u64,
}

impl View<'_> {
    /// As it is written in the places from this one on, as long as nobody has passed them.
    fn lap_before(&self, head: Position) -> u64 {
        (self.laps + head.lap) % LAPS
    }

    /// As it is written in the places that were passed.
    fn lap(&self, head: Position) -> u64 {
        (self.laps + head.lap + 1) % LAPS
    }
}

impl Core {
    #[inline(always)]
    pub(in crate::rate) fn decide_by_log(&self, log: &Log, cost: u64, now: Tick) -> Decided {
        let seen = self.cell.load();
        if seen.is_held() || cost != 1 {
            return Decided::Held;
        }
        let view = log.view();
        match view.stamps {
            Stamps::Long(places) => {
                let written = |place: &AtomicU64, found, nanos| {
                    self.write_for_another(log, place, seen, found, nanos)
                };
                self.decide_by_place(&view, places, seen, now, written)
            }
            Stamps::Short(_) => self.refuse_by_short_place(log, seen, now),
        }
    }

    /// The same by the short form.
    #[inline(always)]
    pub(in crate::rate) fn decide_by_short_log(&self, log: &Log, cost: u64, now: Tick) -> Decided {
        let seen = self.cell.load();
        if seen.is_held() || cost != 1 {
            return Decided::Held;
        }
        self.refuse_by_short_place(log, seen, now)
    }

    /// By the place that is next. If that is pending, `written` says what is in it since.
    #[inline(always)]
    fn decide_by_place(
        &self,
        view: &View<'_>,
        places: &[AtomicU64],
        seen: Seen,
        now: Tick,
        written: impl FnOnce(&AtomicU64, Stamp, u64) -> Option<Stamp>,
    ) -> Decided {
        let head = Position::of(seen);
        // While the quota changes, there may be no such place any more.
        let Some(place) = places.get(head.index as usize) else {
            return Decided::Lost;
        };
        let nanos = now.as_nanos().min(LAST_TICK);
        let mut found = Stamp::load(place);
        if found.lap() != view.lap_before(head) {
            match written(place, found, nanos) {
                Some(written) => found = written,
                None => return Decided::Lost,
            }
        }
        if !found.is_free(view.period, nanos) {
            return self.refuse_by_place(view, seen, found, now);
        }
        let next = head.next(view.len);
        let mut charge = self.remembered(next.passed(view.len), now, 1);
        if !self.cell.exchange(seen, next.value()) {
            return Decided::Lost;
        }
        let mine = Stamp::new(Some(nanos), view.lap(head));
        if let Err(other) = mine.exchange(place, found) {
            let at = found.written_by_another(other, mine, view.period);
            charge.at = Tick::from_nanos(at);
        }
        Decided::Charged(charge)
    }

    /// What is in the place that is next, after it was not written by whoever is a lap ahead.
    #[cold]
    #[inline(never)]
    fn write_for_another(
        &self,
        log: &Log,
        place: &AtomicU64,
        seen: Seen,
        found: Stamp,
        now: u64,
    ) -> Option<Stamp> {
        let view = log.view();
        if !self.cell.is_still(seen) {
            return None;
        }
        // Not as of before it was taken: who has taken it may be charged a period before it came.
        let now = now.max(self.clock().now().as_nanos().min(LAST_TICK));
        // If it was written meanwhile, or the word has moved, this fails.
        let lap_before = view.lap_before(Position::of(seen));
        let stamp = found.later(view.period, now, lap_before);
        match stamp.exchange(place, found) {
            Ok(()) => Some(stamp),
            Err(other) => Some(other).filter(|other| other.lap() == lap_before),
        }
    }

    /// A place is not free.
    #[inline(always)]
    fn refuse_by_place(&self, view: &View<'_>, seen: Seen, found: Stamp, now: Tick) -> Decided {
        let due = found.free_from(view.period);
        if !self.cell.is_still(seen) {
            Decided::Lost
        } else if due - view.period > now.as_nanos() {
            // Only by a charge that was forced; or the clock was set back.
            Decided::Held
        } else {
            let due = match due {
                0..=LAST_TICK => Tick::from_nanos(due),
                _ => Tick::from_nanos(u64::MAX),
            };
            Decided::Limited { due, now }
        }
    }

    #[inline(never)]
    fn refuse_by_short_place(&self, log: &Log, seen: Seen, now: Tick) -> Decided {
        if log.late.load(Ordering::Relaxed) > 0 {
            return Decided::Held;
        }
        let view = log.view();
        let index = Position::of(seen).index;
        match view.stamps.load(index, log.short.as_ref()) {
            None => Decided::Lost,
            Some(found) if found.is_free(view.period, now.as_nanos().min(LAST_TICK)) => {
                Decided::Held
            }
            Some(found) => self.refuse_by_place(&view, seen, found, now),
        }
    }
}

impl Ring {
    fn new(room: u64, short: bool) -> Self {
        Self {
            stamps: Stamps::new(room, short),
            larger: OnceLock::new(),
        }
    }
}

impl Log {
    pub(super) fn new(quota: Quota, plain: Option<Counter>, short: bool) -> Self {
        Self {
            plain: plain.filter(|_| !short),
            plain_short: plain.filter(|_| short),
            len: AtomicU64::new(quota.count()),
            period: AtomicU64::new(quota.period_nanos()),
            laps: AtomicU64::new(0),
            beyond: AtomicU64::new(0),
            late: AtomicU64::new(0),
            unused: AtomicU64::new(0),
            ring: AtomicU64::new(0),
            first: Ring::new(quota.count(), short),
            short: short.then(|| Short::new(quota.period_nanos())),
        }
    }

    #[inline(always)]
    fn ring(&self) -> &Ring {
        // Pairs with the release of `change`: the ring was made.
        match self.ring.load(Ordering::Acquire) {
            0 => &self.first,
            before => self.larger_ring(before),
        }
    }

    #[cold]
    #[inline(never)]
    fn larger_ring(&self, before: u64) -> &Ring {
        (0..before).fold(&self.first, |ring, _| {
            ring.larger.get().map_or(ring, |larger| larger)
        })
    }

    /// That these belong together is for the word to prove.
    #[inline(always)]
    fn view(&self) -> View<'_> {
        View {
            stamps: &self.ring().stamps,
            len: self.len.load(Ordering::Relaxed),
            period: self.period.load(Ordering::Relaxed),
            laps: self.laps.load(Ordering::Relaxed),
        }
    }

    /// Has the places written as of other laps from now on, and from another place: what an owner
    /// expects to find, or has been written for it, is not found any more, nor taken for the next.
    /// Only held, and all places must be written anew.
    fn leave_laps(&self, from: Position, to: Position) {
        // After `HELD`, for those who confirm what they have read.
        fence(Ordering::Release);
        let laps = self.laps.load(Ordering::Relaxed) + from.lap + 3;
        let laps = laps.wrapping_sub(to.lap) % LAPS;
        self.laps.store(laps, Ordering::Relaxed);
    }

    /// How many places were passed, also by those that are late. Only under the lock.
    pub(in crate::rate) fn passed(&self, seen: Seen) -> u64 {
        let passed = Position::of(seen).passed(self.len.load(Ordering::Relaxed));
        passed.wrapping_add(self.late.load(Ordering::Relaxed))
    }

    /// For the holder of the lock.
    pub(super) fn held<'a>(&'a self, seen: Seen, clock: &'a Clock) -> HeldLog<'a> {
        HeldLog::new(self, self.view(), seen, clock)
    }

    pub(super) fn has_period(&self, quota: Quota) -> bool {
        self.period.load(Ordering::Relaxed) == quota.period_nanos()
    }

    /// Keeps as many as are `owed`, or each at its own time. Only held.
    pub(super) fn change(
        &self,
        seen: Seen,
        clock: &Clock,
        quota: Quota,
        owed: Option<u64>,
        unit: u64,
    ) -> Seen {
        let (len, period) = (quota.count(), quota.period_nanos());
        let held = self.held(seen, clock);
        let unpaid = held.unpaid(unit);
        let kept = match owed {
            Some(owed) => unpaid.scaled(owed, len, unit),
            None => unpaid.by_longer(period, unit),
        };
        let ring = self.ring();
        let room = ring.stamps.room();
        if len > room {
            let larger = || Box::new(Ring::new(len.max(2 * room), self.short.is_some()));
            ring.larger.get_or_init(larger);
            let before = self.ring.load(Ordering::Relaxed);
            self.ring.store(before + 1, Ordering::Release);
        }
        self.len.store(len, Ordering::Relaxed);
        self.period.store(period, Ordering::Relaxed);
        if let Some(short) = &self.short {
            // Whatever is earlier is free. What is later may be needed if the period grows again.
            short.change(period, unit.saturating_sub(3 * period));
        }
        // So that more places were passed than are in use.
        let laps = kept.count() / len + 1;
        let head = Position {
            index: 0,
            lap: Position::of(seen).lap + laps,
        };
        held.fill(head, kept, unit)
    }

    pub(super) fn span(&self, tokens: u64) -> u64 {
        let (len, period) = (&self.len, &self.period);
        super::span(
            tokens,
            len.load(Ordering::Relaxed),
            period.load(Ordering::Relaxed),
        )
    }

    pub(super) fn tokens_in(&self, nanos: u64) -> u64 {
        let (len, period) = (&self.len, &self.period);
        super::tokens_in(
            nanos,
            len.load(Ordering::Relaxed),
            period.load(Ordering::Relaxed),
        )
    }
}
