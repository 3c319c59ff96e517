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
use crate::time::Clock;

/// For how many periods from now on times are kept in the short form.
const AHEAD: u64 = 4;

pub(in crate::rate::rule) struct HeldLog<'a> {
    log: &'a Log,
    view: View<'a>,
    seen: Seen,
    head: Position,
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

    /// What a place holds. If it is pending, it is written.
    fn time(&self, number: u64) -> Option<u64> {
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
        let later = laps.saturating_mul(u128::from(self.view.period));
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
        let (mut free, mut taken) = (0, self.view.len);
        while free < taken {
            let middle = free + (taken - free) / 2;
            if self.free_from(middle) <= unit {
                free = middle + 1;
            } else {
                taken = middle;
            }
        }
        self.view.len - free
    }

    pub(in crate::rate::rule) fn reset(&self) -> u64 {
        self.free_from(self.view.len - 1)
    }

    pub(in crate::rate::rule) fn looks_behind(&self, unit: u64) -> bool {
        self.time(0).is_some_and(|time| time > unit)
    }

    /// What is not paid off at a tick.
    pub(in crate::rate::rule) fn unpaid(&self, unit: u64) -> Unpaid {
        let period = self.view.period;
        let mut to_come = 0_u64;
        let mut times = Vec::new();
        for number in 0..self.view.len {
            let Some(time) = self.time(number) else {
                continue;
            };
            // Of times to come each was a period after the one before it at the same place.
            let periods = time.saturating_sub(unit).div_ceil(period);
            to_come = to_come.saturating_add(periods);
            let time = time.saturating_sub(periods.saturating_mul(period));
            if time.saturating_add(period) > unit {
                times.push(time);
            }
        }
        times.sort_unstable();
        Unpaid { times, to_come }
    }

    /// The times that count under other limits, of which `owed` are to be taken at `unit`: the
    /// newest; or each as often as it takes, if there are fewer.
    pub(super) fn kept(&self, len: u64, owed: u64, unit: u64) -> Vec<u64> {
        let times = (0..self.view.len).filter_map(|number| self.time(number));
        let counts = |time: &u64| time.saturating_add(self.view.period) > unit;
        let mut times: Vec<u64> = times.filter(counts).collect();
        times.sort_unstable();
        times.reverse();
        let kept = owed.min(len);
        let used = times.len() as u128;
        let time = |back: u64| {
            let back = match u128::from(owed) > used {
                true => u128::from(back) * used / u128::from(owed),
                false => u128::from(back),
            };
            times.get(back as usize).map_or(unit, |time| *time)
        };
        (0..kept).rev().map(time).collect()
    }
}

/// Charges that are not paid off, in their order.
pub(in crate::rate::rule) struct Unpaid {
    /// When those were made that were made until now; rising.
    times: Vec<u64>,
    /// How many there are of times to come.
    to_come: u64,
}

impl Unpaid {
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
    pub(in crate::rate::rule) fn book(mut self, unit: u64, cost: u64) -> (Seen, u64) {
        self.make_room(unit);
        let (len, period) = (self.view.len, self.view.period);
        let last = match self.log.short {
            Some(_) => unit
                .saturating_add(AHEAD.saturating_mul(period))
                .min(LAST_TICK),
            None => LAST_TICK,
        };
        let mut fitted = 0;
        while fitted < cost.min(len) {
            let time = self.free_from(0).max(unit);
            if time > last {
                return (self.seen(), fitted);
            }
            // This place becomes the last.
            self.head = self.head.after(1, len);
            self.store(len - 1, Some(time));
            fitted += 1;
        }
        let laps = self.laps(cost - fitted, last);
        (self.seen(), fitted + laps)
    }

    /// Charges so many more, beyond one for each place. Takes as long for many as for few.
    fn laps(&mut self, cost: u64, last: u64) -> u64 {
        if cost == 0 {
            return 0;
        }
        let (len, period) = (self.view.len, self.view.period);
        let times: Vec<u64> = (0..len).filter_map(|number| self.time(number)).collect();
        let room = |time: &u64| last.saturating_sub(*time) / period;
        let whole = times.last().map_or(0, room);
        let more = times.iter().take_while(|time| room(time) > whole).count() as u64;
        let most = whole.saturating_mul(len).saturating_add(more);
        let fitted = cost.min(most);
        let (laps, rest) = (fitted / len, fitted % len);
        self.head = self.head.after(fitted, len);
        for (number, time) in (0..).zip(times) {
            let laps = laps + u64::from(number < rest);
            let place = (number + len - rest) % len;
            self.store(place, Some(time + laps * period));
        }
        fitted
    }

    /// Has these in place of those that are not paid off, and those of times to come as early as
    /// they can be.
    pub(in crate::rate::rule) fn replace(self, left: Unpaid, unit: u64) -> Seen {
        self.log.leave_laps();
        let passed = self.head.passed(self.view.len);
        let log = Self {
            view: self.log.view(),
            // Those of times to come pass their places once more.
            head: Position::when(passed - left.to_come, self.view.len),
            ..self
        };
        // Free from now on. A short place is free if there is nothing; nobody else has to know.
        let long = log.log.short.is_none();
        let free = unit.checked_sub(log.view.period).filter(|_| long);
        log.fill(&left.times, free);
        let (seen, _) = log.book(unit, left.to_come);
        seen
    }

    /// Writes every place: these times are the newest, the others are free.
    pub(super) fn fill(&self, times: &[u64], free: Option<u64>) {
        let others = self.view.len - times.len() as u64;
        for number in 0..others {
            self.store(number, free);
        }
        for (number, time) in (others..).zip(times) {
            self.store(number, Some(*time));
        }
    }

    pub(in crate::rate::rule) fn forget(self) -> Seen {
        self.log.leave_laps();
        if let Some(short) = &self.log.short {
            short.move_to(0);
        }
        let log = Self {
            view: self.log.view(),
            ..self
        };
        log.fill(&[], None);
        log.seen()
    }

    /// Moves the base of short times on, if those that may be needed did not fit otherwise.
    fn make_room(&mut self, unit: u64) {
        let period = self.view.period;
        let Some(short) = &self.log.short else {
            return;
        };
        if unit.saturating_add(AHEAD.saturating_mul(period)) <= short.last() {
            return;
        }
        let times: Vec<Option<u64>> = (0..self.view.len).map(|number| self.time(number)).collect();
        let base = short.step_before(unit.saturating_sub(period));
        short.move_to(base);
        for (number, time) in (0..).zip(times) {
            // Whatever is earlier is free.
            self.store(number, time.filter(|time| *time >= base));
        }
        // Whoever has read a place and another base must fail.
        self.seen = self.seen.next_epoch();
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
        let at = self.log.kept_as(self.due(cost));
        let (len, period) = (self.log.view.len, self.log.view.period);
        if cost <= len {
            self.take(cost);
            self.charges.push_back((cost, at));
        } else {
            // Of more than there are places the last ones are left.
            self.used = len;
            self.charges.clear();
            let (laps, rest) = (cost / len, cost % len);
            let after = |laps: u64| at.saturating_add(laps.saturating_mul(period));
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
