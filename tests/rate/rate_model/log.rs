//! A sliding log as one would write it down: the times of all that was ever charged, unit by unit, as
//! far as there is a place for them.

use super::LAST_TICK;

/// One that was charged.
#[derive(Clone, Copy, Debug)]
struct Unit {
    /// The index of its charge.
    charge: usize,
    time: u64,
}

/// All that was ever charged, in its order.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    most: u64,
    period: u64,
    units: Vec<Unit>,
    /// The first so many have places of their own, because they had none when all were written again.
    apart: usize,
}

impl Log {
    pub(crate) fn new(most: u64, period: u64) -> Self {
        Self {
            most,
            period,
            units: Vec::new(),
            apart: 0,
        }
    }

    /// Whether it counts at a tick: it is of `(now - period, now]`, or of a time to come.
    fn counts(&self, unit: Unit, now: u64) -> bool {
        unit.time.saturating_add(self.period) > now
    }

    pub(crate) fn used(&self, now: u64) -> u64 {
        let used = self.units.iter().filter(|unit| self.counts(**unit, now));
        used.count() as u64
    }

    pub(crate) fn fits(&self, now: u64, cost: u64) -> bool {
        self.used(now) + cost <= self.most
    }

    /// The first tick from `now` on at which so many fit: now, or when some unit is paid off.
    pub(crate) fn earliest(&self, now: u64, cost: u64) -> Option<u64> {
        let end = |unit: &Unit| unit.time.saturating_add(self.period);
        let ticks = self.units.iter().map(end).filter(|end| *end > now);
        let ticks = ticks.chain([now]).filter(|tick| *tick <= LAST_TICK);
        ticks.filter(|tick| self.fits(*tick, cost)).min()
    }

    /// When nothing is owed any more; a past tick if it is so.
    pub(crate) fn reset(&self) -> u64 {
        let last = self.units.last();
        last.map_or(0, |unit| unit.time.saturating_add(self.period))
    }

    /// Each unit now, or a period after the unit `most` before it. Says how many there was time
    /// for.
    pub(crate) fn book(&mut self, charge: usize, now: u64, cost: u64) -> u64 {
        for fitted in 0..cost {
            let before = self.units.len().checked_sub(self.most as usize);
            let free = before.map_or(0, |before| {
                self.units[before].time.saturating_add(self.period)
            });
            let time = free.max(now);
            if time > LAST_TICK {
                return fitted;
            }
            self.units.push(Unit { charge, time });
        }
        cost
    }

    /// Those of times to come, which are the last.
    fn take_to_come(&mut self, now: u64) -> Vec<Unit> {
        let past = self.units.iter().filter(|unit| unit.time <= now).count();
        self.units.split_off(past)
    }

    /// Forgets those in whose places others are.
    fn forget_passed(&mut self, now: u64) {
        let mut to_come = self.take_to_come(now);
        let in_places = self.units.len().saturating_sub(self.most as usize);
        if self.apart < in_places {
            self.units.drain(self.apart..in_places);
        }
        self.units.append(&mut to_come);
    }

    /// Takes out so many of a charge, as far as they are not paid off, the last ones first. Those
    /// of times to come are as early as they can be then.
    pub(crate) fn refund(&mut self, charge: usize, cost: u64, now: u64) {
        self.forget_passed(now);
        let before = self.units.len();
        for _ in 0..cost {
            let is_of_it = |unit: &Unit| unit.charge == charge && self.counts(*unit, now);
            match self.units.iter().rposition(is_of_it) {
                Some(number) => drop(self.units.remove(number)),
                None => break,
            }
        }
        if self.units.len() == before {
            return;
        }
        let to_come = self.take_to_come(now);
        for unit in to_come {
            self.book(unit.charge, now, 1);
        }
    }

    /// Each is kept that has a place; those of times to come are as early as they can be.
    pub(crate) fn go_on(&mut self, most: u64, period: u64, now: u64) {
        self.forget_passed(now);
        let to_come = self.take_to_come(now);
        (self.most, self.period) = (most, period);
        self.units
            .iter_mut()
            .for_each(|unit| unit.charge = usize::MAX);
        self.apart = self.units.len().saturating_sub(most as usize);
        self.book(usize::MAX, now, to_come.len() as u64);
    }

    /// The newest `owed` are kept, or each as often as it takes; those of times to come are as
    /// early as they can be.
    pub(crate) fn change(&mut self, most: u64, period: u64, owed: u64, now: u64) {
        let used = self.used(now);
        let to_come = self.take_to_come(now).len() as u64;
        let made: Vec<u64> = (self.units.iter())
            .filter(|unit| self.counts(**unit, now))
            .map(|unit| unit.time)
            .collect();
        let (past, to_come) = if owed <= used {
            let gone = (used - owed).min(made.len() as u64);
            let past = made[gone as usize..].to_vec();
            (past, to_come - (used - owed - gone))
        } else {
            let made = if made.is_empty() { vec![now] } else { made };
            let to_come = (to_come * owed).div_ceil(to_come + made.len() as u64);
            let each = |back: u64| {
                let back = back * made.len() as u64 / (owed - to_come);
                made[made.len() - 1 - back as usize]
            };
            let kept = (owed - to_come).min(most);
            ((0..kept).rev().map(each).collect(), to_come)
        };
        *self = Self::new(most, period);
        let kept = |time| Unit {
            charge: usize::MAX,
            time,
        };
        self.units = past.into_iter().map(kept).collect();
        self.apart = self.units.len().saturating_sub(most as usize);
        self.book(usize::MAX, now, to_come);
    }
}
