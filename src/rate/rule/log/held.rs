//! A log in the hands of the holder of the lock.
//!
//! Places are counted from the one that is next, which holds the oldest time, so times rise with
//! the count; but two threads may have written theirs the other way round, a moment apart. So it is
//! every place that is looked at where a charge is made, and one of a search where it is only told
//! how things stand.

use std::collections::VecDeque;

use super::stamps::Stamp;
use super::{LAPS, Log, Position, View};
use crate::algorithm::LAST_TICK;
use crate::rate::cell::Seen;
use crate::sync::Ordering;
use crate::time::Clock;

/// For how many periods from now on times are kept in the short form. What comes later is counted.
const AHEAD: u64 = 4;

pub(in crate::rate::rule) struct HeldLog<'a> {
    log: &'a Log,
    view: View<'a>,
    seen: Seen,
    head: Position,
    /// How many more are charged for which the places hold no time yet: as if each had passed its
    /// place, a period after what is there. Then no place was free.
    late: u64,
    clock: &'a Clock,
}

/// How things stand.
impl<'a> HeldLog<'a> {
    pub(super) fn new(log: &'a Log, view: View<'a>, seen: Seen, clock: &'a Clock) -> Self {
        Self {
            log,
            view,
            seen,
            head: Position::of(seen),
            late: log.late.load(Ordering::Relaxed),
            clock,
        }
    }

    /// Which place that is, and the lap in which it was written.
    fn place(&self, number: u64) -> (u64, u64) {
        let index = self.head.index + number;
        if index < self.view.len {
            (index, self.view.lap_before(self.head))
        } else {
            (index - self.view.len, self.view.lap(self.head))
        }
    }

    /// What a place holds, after those that are late.
    fn time(&self, number: u64) -> Option<u64> {
        if self.late == 0 {
            return self.written(number);
        }
        let (len, passed) = (self.view.len, number + self.late % self.view.len);
        let laps = self.late / len + passed / len;
        let time = self.written(passed % len)?;
        Some(time.saturating_add(laps.saturating_mul(self.step())))
    }

    /// What is written in a place. If it is pending, it is written.
    fn written(&self, number: u64) -> Option<u64> {
        let (index, lap) = self.place(number);
        let found = self.view.stamps.load(index, self.log.short.as_ref())?;
        if self.log.short.is_some() || (lap + LAPS - found.lap()) % LAPS != 1 {
            return found.time();
        }
        let now = self.clock.now().as_nanos();
        let stamp = found.later(self.view.period, now, lap);
        match self.view.stamps.exchange(index, found, stamp) {
            Ok(()) => stamp.time(),
            Err(other) => other.time(),
        }
    }

    /// A time as it would be kept.
    fn kept_as(&self, time: u64) -> u64 {
        let short = self.log.short.as_ref();
        short.map_or(time, |short| short.rounded(time))
    }

    /// From one charge at a place to the next, if they are as close as can be.
    fn step(&self) -> u64 {
        let short = self.log.short.as_ref();
        short.map_or(self.view.period, |short| short.whole(self.view.period))
    }

    /// The last time that is kept of what is charged at a unit.
    fn last(&self, unit: u64) -> u64 {
        match self.log.short {
            Some(_) => {
                let ahead = AHEAD.saturating_mul(self.view.period);
                unit.saturating_add(ahead).min(LAST_TICK)
            }
            None => LAST_TICK,
        }
    }

    /// How many can be charged at a place after what it holds, until then.
    fn room(&self, time: u64, last: u64) -> u64 {
        let more = last.checked_sub(time.saturating_add(self.view.period));
        more.map_or(0, |more| 1 + more / self.step())
    }

    /// From when on the next may be charged at a place.
    fn free_from(&self, number: u64) -> u64 {
        let time = self.time(number);
        time.map_or(0, |time| time.saturating_add(self.view.period))
    }

    /// From when on the first so many places are free.
    fn all_free_from(&self, places: u64) -> u64 {
        let free = (0..places).map(|number| self.free_from(number));
        free.max().unwrap_or(0)
    }

    pub(in crate::rate::rule) fn due(&self, before: u128, cost: u64, alone: bool) -> u64 {
        let len = self.view.len;
        if before == 0 {
            let places = if alone { len } else { cost.min(len) };
            return self.all_free_from(places);
        }
        let others = before + u128::from(if alone { len } else { cost }) - 1;
        let laps = others / u128::from(len);
        let place = (others % u128::from(len)) as u64;
        let later = laps.saturating_mul(u128::from(self.step()));
        let later = u64::try_from(later).unwrap_or(u64::MAX);
        self.free_from(place).saturating_add(later)
    }

    pub(in crate::rate::rule) fn due_behind(
        &self,
        others: impl Iterator<Item = u64>,
        cost: u64,
    ) -> u64 {
        let mut foreseen = Foreseen {
            log: self,
            used: 0,
            charges: VecDeque::new(),
        };
        for other in others {
            foreseen.charge(other);
        }
        foreseen.due(cost)
    }

    pub(in crate::rate::rule) fn owed(&self, unit: u64) -> u64 {
        let len = self.view.len;
        let now = self.kept_as(unit);
        if self.time(len - 1).is_some_and(|time| time > now) {
            return self.unpaid(unit).count();
        }
        let (mut free, mut taken) = (0, len);
        while free < taken {
            let middle = free + (taken - free) / 2;
            if self.free_from(middle) <= unit {
                free = middle + 1;
            } else {
                taken = middle;
            }
        }
        // Those that are older than all of the ring.
        let counts = |time: &u64| time.saturating_add(self.view.period) > unit;
        let older = if free == 0 { self.older() } else { Vec::new() };
        len - free + older.iter().filter(|time| counts(time)).count() as u64
    }

    pub(in crate::rate::rule) fn reset(&self) -> u64 {
        self.free_from(self.view.len - 1)
    }

    pub(in crate::rate::rule) fn looks_behind(&self, unit: u64) -> bool {
        self.time(0).is_some_and(|time| time > unit)
    }

    /// What is not paid off at a tick.
    pub(in crate::rate::rule) fn unpaid(&self, unit: u64) -> Unpaid {
        let (period, step) = (self.view.period, self.step());
        let len = self.view.len;
        let places: Vec<Option<u64>> = (0..len).map(|number| self.time(number)).collect();
        // Where nothing was charged since they were written anew.
        let unused = self.log.unused.load(Ordering::Relaxed);
        let unused = unused.saturating_sub(self.head.passed(len)) as usize;
        // What was charged until now is not to come: since the tick was read, by others, or just now
        // in their place; or kept as if it were later.
        let now = self.clock.now().as_nanos().min(LAST_TICK).max(unit);
        let kept_now = self.kept_as(now);
        let mut to_come = 0_u64;
        let is_paid = |time: &u64| time.saturating_add(period) <= unit;
        let (mut paid, mut times) = self.older().into_iter().partition::<Vec<_>, _>(is_paid);
        for (number, time) in places.into_iter().enumerate() {
            let Some(time) = time else {
                continue;
            };
            // Of times to come each was a period after the one before it at the same place.
            let periods = time.saturating_sub(kept_now).div_ceil(step);
            to_come = to_come.saturating_add(periods);
            let time = time.saturating_sub(periods.saturating_mul(step));
            // Kept anew, perhaps in other units, it must not be taken for one to come.
            let time = time.min(now);
            if !is_paid(&time) {
                times.push(time);
            } else if number >= unused {
                paid.push(time);
            }
        }
        paid.sort_unstable();
        times.sort_unstable();
        Unpaid {
            paid,
            times,
            to_come,
        }
    }

    /// Times for which there is no place since the ring has become shorter.
    fn older(&self) -> Vec<u64> {
        let (len, short) = (self.view.len, self.log.short.as_ref());
        let beyond = len..len + self.log.beyond.load(Ordering::Relaxed);
        let stamps = beyond.filter_map(|index| self.view.stamps.load(index, short));
        stamps.filter_map(Stamp::time).collect()
    }
}

/// Charges that are not paid off, in their order.
#[derive(Default)]
pub(in crate::rate::rule) struct Unpaid {
    /// When those were made that are, as far as that is still there; rising.
    paid: Vec<u64>,
    /// When those were made that were made until now; rising.
    times: Vec<u64>,
    /// How many there are of times to come.
    to_come: u64,
}

impl Unpaid {
    /// Those that are not paid off by a longer period.
    pub(super) fn by_longer(mut self, period: u64, unit: u64) -> Self {
        let is_paid = |time: &u64| time.saturating_add(period) <= unit;
        let first = self.paid.partition_point(is_paid);
        let mut times = self.paid.split_off(first);
        times.append(&mut self.times);
        Self { times, ..self }
    }

    /// As many as that: the newest; or each as often as it takes, of which no more are told apart
    /// than `most`.
    pub(super) fn scaled(mut self, owed: u64, most: u64, unit: u64) -> Self {
        self.paid.clear();
        let count = self.count();
        if owed <= count {
            return self.without(0, count - owed);
        }
        if self.times.is_empty() {
            self.times.push(unit);
        }
        let used = u128::from(self.to_come) + self.times.len() as u128;
        let to_come = (u128::from(self.to_come) * u128::from(owed)).div_ceil(used) as u64;
        let (past, made) = (owed - to_come, self.times.len() as u128);
        let time = |back: u64| {
            let back = u128::from(back) * made / u128::from(past);
            self.times[(made - 1 - back) as usize]
        };
        Self {
            paid: Vec::new(),
            times: (0..past.min(most)).rev().map(time).collect(),
            to_come,
        }
    }

    pub(in crate::rate::rule) fn count(&self) -> u64 {
        self.to_come.saturating_add(self.times.len() as u64)
    }

    /// Without those from one number to another.
    pub(in crate::rate::rule) fn without(mut self, from: u64, to: u64) -> Self {
        let past = self.times.len() as u64;
        self.to_come -= to.max(past) - from.max(past);
        self.times
            .drain(from.min(past) as usize..to.min(past) as usize);
        self
    }
}

/// Changing it. Only held.
impl HeldLog<'_> {
    fn store(&self, number: u64, time: Option<u64>) {
        let (index, lap) = self.place(number);
        let short = self.log.short.as_ref();
        let stamp = Stamp::new(time, lap);
        self.view.stamps.store(index, stamp, short);
    }

    /// The word for what has become of it.
    fn seen(&self) -> Seen {
        self.seen.with(self.head.value())
    }

    /// Charges so many at a tick, or each as soon after as its place is free; says how many there
    /// was time for.
    pub(in crate::rate::rule) fn book(self, unit: u64, cost: u64) -> (Seen, u64) {
        let mut this = self.make_room(unit);
        let late = std::mem::take(&mut this.late);
        this.late = late - this.laps(late, this.last(unit));
        let mut fitted = 0;
        if this.late == 0 {
            fitted = this.pass(unit, cost);
        }
        if this.log.short.is_some() {
            let more = this.fitting(cost - fitted, LAST_TICK);
            this.late += more;
            fitted += more;
            this.log.late.store(this.late, Ordering::Relaxed);
        }
        (this.seen(), fitted)
    }

    fn pass(&mut self, unit: u64, cost: u64) -> u64 {
        let (len, last) = (self.view.len, self.last(unit));
        let mut fitted = 0;
        while fitted < cost.min(len) {
            let time = self.free_from(0).max(unit);
            if time > last {
                return fitted;
            }
            // This place becomes the last.
            self.head = self.head.after(1, len);
            self.store(len - 1, Some(time));
            fitted += 1;
        }
        fitted + self.laps(cost - fitted, last)
    }

    /// For how many more there is time until then, if no place is free.
    fn fitting(&self, cost: u64, last: u64) -> u64 {
        if cost == 0 {
            return 0;
        }
        let len = self.view.len;
        let room = |number: u64| self.time(number).map_or(0, |time| self.room(time, last));
        let whole = room(len - 1);
        let more = (0..len).take_while(|number| room(*number) > whole).count() as u64;
        cost.min(whole.saturating_mul(len).saturating_add(more))
    }

    /// Charges so many more, beyond one for each place. Takes as long for many as for few.
    fn laps(&mut self, cost: u64, last: u64) -> u64 {
        let fitted = self.fitting(cost, last);
        if fitted == 0 {
            return 0;
        }
        let (len, step) = (self.view.len, self.step());
        let times: Vec<u64> = (0..len).filter_map(|number| self.time(number)).collect();
        let (laps, rest) = (fitted / len, fitted % len);
        self.head = self.head.after(fitted, len);
        for (number, time) in (0..).zip(times) {
            let laps = laps + u64::from(number < rest);
            let place = (number + len - rest) % len;
            self.store(place, Some(time + laps * step));
        }
        fitted
    }

    /// Has these in place of those that are not paid off, and those of times to come as early as
    /// they can be.
    pub(in crate::rate::rule) fn replace(self, left: Unpaid, unit: u64) -> Seen {
        let passed = self.head.passed(self.view.len).saturating_add(self.late);
        // Those of times to come pass their places once more.
        let head = Position::when(passed.saturating_sub(left.to_come), self.view.len);
        self.fill(head, left, unit)
    }

    /// Writes the ring anew, as of later laps: with these, of which the newest was made before
    /// this place.
    pub(super) fn fill(self, head: Position, left: Unpaid, unit: u64) -> Seen {
        self.log.leave_laps(self.head, head);
        let log = Self {
            view: self.log.view(),
            head,
            late: 0,
            ..self
        };
        let len = log.view.len;
        let times = log.still_told(left.paid, left.times);
        let kept = len.min(times.len() as u64);
        let (older, newest) = times.split_at(times.len() - kept as usize);
        let unused = head.passed(len).saturating_add(len - kept);
        log.log.unused.store(unused, Ordering::Relaxed);
        // Free from now on, and not since ever: who is granted late must not be charged earlier.
        let short = log.log.short.as_ref();
        let before = |time| short.map_or(time, |short| short.step_before(time));
        let free = unit.checked_sub(log.view.period).map(before);
        for number in 0..len - kept {
            log.store(number, free);
        }
        for (number, time) in (len - kept..).zip(newest) {
            log.store(number, Some(*time));
        }
        let beyond = len..log.view.stamps.room();
        let mut count = 0;
        for (index, time) in beyond.zip(older.iter().rev()) {
            let stamp = Stamp::new(Some(*time), 0);
            log.view.stamps.store(index, stamp, short);
            count += 1;
        }
        log.log.beyond.store(count, Ordering::Relaxed);
        let (seen, _) = log.book(unit, left.to_come);
        seen
    }

    /// Those that are paid off and the others, in their order; but for those of the first that are
    /// from before the base.
    fn still_told(&self, mut paid: Vec<u64>, mut times: Vec<u64>) -> Vec<u64> {
        if let Some(short) = &self.log.short {
            paid.retain(|time| short.step_before(*time) <= *time);
        }
        paid.append(&mut times);
        paid
    }

    pub(in crate::rate::rule) fn forget(self) -> Seen {
        if let Some(short) = &self.log.short {
            short.move_to(0);
        }
        let (head, nothing) = (self.head, Unpaid::default());
        self.fill(head, nothing, 0)
    }

    /// Moves the base of short times on, if those that may be needed did not fit otherwise.
    fn make_room(self, unit: u64) -> Self {
        let period = self.view.period;
        let log = self.log;
        let Some(short) = &log.short else {
            return self;
        };
        if unit.saturating_add(AHEAD.saturating_mul(period)) <= short.last() {
            return self;
        }
        let (clock, left) = (self.clock, self.unpaid(unit));
        short.move_to(short.step_before(unit.saturating_sub(period)));
        // Whoever has read a place and another base must fail.
        let seen = self.replace(left, unit).next_epoch();
        log.held(seen, clock)
    }
}

/// A log with charges that are to be made.
struct Foreseen<'a> {
    log: &'a HeldLog<'a>,
    /// How many of its places were used for them.
    used: u64,
    /// How many, and when, in their order.
    charges: VecDeque<(u64, u64)>,
}

impl Foreseen<'_> {
    fn due(&self, cost: u64) -> u64 {
        let len = self.log.view.len;
        let cost = cost.min(len);
        let left = len - self.used;
        if cost <= left {
            return self.log.free_from(self.used + cost - 1);
        }
        let mut missing = cost - left;
        for (count, time) in &self.charges {
            if *count >= missing {
                return time.saturating_add(self.log.view.period);
            }
            missing -= count;
        }
        u64::MAX
    }

    fn charge(&mut self, cost: u64) {
        let due = self.due(cost);
        let at = self.log.kept_as(due);
        let (len, step) = (self.log.view.len, self.log.step());
        if cost <= len {
            self.take(cost);
            self.charges.push_back((cost, at));
        } else {
            // Of more than there are places the last ones are left.
            self.used = len;
            self.charges.clear();
            // For more there is no room.
            let room = self.log.room(at, LAST_TICK);
            let cost = cost.min(len.saturating_mul(1 + room));
            let (laps, rest) = (cost / len, cost % len);
            let after = |laps: u64| at.saturating_add(laps.saturating_mul(step));
            self.charges.push_back((len - rest, after(laps - 1)));
            self.charges.push_back((rest, after(laps)));
        }
    }

    fn take(&mut self, cost: u64) {
        let own = cost.min(self.log.view.len - self.used);
        self.used += own;
        let mut missing = cost - own;
        while let Some((count, _)) = self.charges.front_mut().filter(|_| missing > 0) {
            let taken = missing.min(*count);
            *count -= taken;
            missing -= taken;
            if *count == 0 {
                self.charges.pop_front();
            }
        }
    }
}
