//! All charges under a sequence of quotas, for the rules that remember: a sliding log or a sliding
//! window.

use num_bigint::BigInt;
use tollgate::rate::QuotaChange;
use tollgate::{Algorithm, Quota};

use super::LAST_TICK;
use super::model::{Booked, Hint, Model};
use super::steps::Scale;

fn nanos(quota: Quota) -> u64 {
    u64::try_from(quota.period().as_nanos()).expect("a quota's period fits")
}

#[derive(Clone)]
enum Remembered {
    Log(Log),
    Window(Window),
}

/// The counting state under the quota in force. After the last tick time stands still.
#[derive(Clone)]
struct Rule {
    most: u64,
    period: u64,
    state: Remembered,
}

impl Rule {
    fn new(algorithm: Algorithm, quota: Quota) -> Self {
        let (most, period) = (quota.count(), nanos(quota));
        let state = match algorithm {
            Algorithm::SlidingWindow => Remembered::Window(Window::new(most, period)),
            Algorithm::SlidingLog => Remembered::Log(Log::new(most, period)),
            other => panic!("there is no model of {other} here: add one"),
        };
        Self {
            most,
            period,
            state,
        }
    }

    fn used(&self, now: u64) -> u64 {
        let now = now.min(LAST_TICK);
        match &self.state {
            Remembered::Log(log) => log.used(now),
            Remembered::Window(window) => window.used(now),
        }
    }

    /// Returns when this many are admitted, if no other caller comes: more than the limit when
    /// nothing is owed.
    fn earliest(&self, now: u64, cost: u64) -> Option<u64> {
        if cost > self.most {
            return self.reset(now);
        }
        let clipped = now.min(LAST_TICK);
        let found = match &self.state {
            Remembered::Log(log) => log.earliest(clipped, cost),
            Remembered::Window(window) => window.earliest(clipped, cost),
        };
        found.map(|tick| if tick == clipped { now } else { tick })
    }

    /// Returns the first tick from `now` on at which nothing is owed.
    fn reset(&self, now: u64) -> Option<u64> {
        let reset = match &self.state {
            Remembered::Log(log) => log.reset(),
            Remembered::Window(window) => window.reset(),
        };
        if reset <= now.min(LAST_TICK) {
            return Some(now);
        }
        Some(reset).filter(|reset| *reset <= LAST_TICK)
    }

    /// Charges as many as there is time for.
    fn book(&mut self, number: usize, now: u64, cost: u64) -> u64 {
        let at = now.min(LAST_TICK);
        match &mut self.state {
            Remembered::Log(log) => log.book(number, at, cost),
            Remembered::Window(window) => window.book(at, cost),
        }
    }

    fn refund(&mut self, booked: Booked, cost: u64, now: u64) {
        let now = now.min(LAST_TICK);
        match &mut self.state {
            Remembered::Log(log) => log.refund(booked.number, cost, now),
            Remembered::Window(window) => window.refund(booked.at, cost, now),
        }
    }

    fn change(&mut self, quota: Quota, carry: QuotaChange, now: u64) {
        let now = now.min(LAST_TICK);
        let (used, old, new) = (self.used(now), self.most, quota.count());
        let owed = match carry {
            QuotaChange::Proportional => {
                let owed = (u128::from(used) * u128::from(new)).div_ceil(u128::from(old));
                u64::try_from(owed).expect("small in tests")
            }
            QuotaChange::KeepSpent => used,
            _ => unreachable!("there are two ways"),
        };
        (self.most, self.period) = (new, nanos(quota));
        match &mut self.state {
            // A log keeps each.
            Remembered::Log(log) if carry == QuotaChange::KeepSpent => {
                log.go_on(new, self.period, now);
            }
            Remembered::Log(log) => log.change(new, self.period, owed, now),
            Remembered::Window(window) => window.change(new, self.period, owed, carry, now),
        }
    }
}

pub(crate) struct Kept {
    algorithm: Algorithm,
    rule: Rule,
    /// The quotas so far, and whether each had a charge that did not ask.
    quotas: Vec<(Quota, bool)>,
    /// The charges by number, without the refunded parts.
    all: Vec<Booked>,
}

impl Kept {
    pub(crate) fn new(algorithm: Algorithm, quota: Quota) -> Self {
        Self {
            algorithm,
            rule: Rule::new(algorithm, quota),
            quotas: vec![(quota, false)],
            all: Vec::new(),
        }
    }

    fn force(&mut self) {
        self.quotas.last_mut().expect("there is one").1 = true;
    }

    fn book(&mut self, now: u64, cost: u64) -> Booked {
        let number = self.all.len();
        let cost = self.rule.book(number, now, cost);
        let booked = Booked {
            epoch: self.epoch(),
            number,
            at: now.min(LAST_TICK),
            cost,
            left: self.available(now),
            reset: self.reset(now),
        };
        self.all.push(booked);
        booked
    }
}

impl Model for Kept {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    fn scale(&self) -> Scale {
        Scale {
            most: self.rule.most,
            count: self.rule.most,
            period: self.rule.period,
        }
    }

    fn epoch(&self) -> usize {
        self.quotas.len() - 1
    }

    fn available(&self, now: u64) -> u64 {
        self.rule.most.saturating_sub(self.rule.used(now))
    }

    fn reset(&self, now: u64) -> Option<u64> {
        self.rule.reset(now)
    }

    fn due(&self, now: u64, ahead: &[u64], cost: u64) -> Option<u64> {
        let (mut rule, mut now) = (self.rule.clone(), now);
        for ahead in ahead {
            now = rule.earliest(now, *ahead)?;
            rule.book(usize::MAX, now, *ahead);
        }
        rule.earliest(now, cost)
    }

    /// A log knows when a 1 will be admitted behind others.
    fn hint(&self, queue: &[u64], cost: u64) -> Hint {
        let is_log = self.algorithm == Algorithm::SlidingLog;
        if is_log && cost == 1 && queue.iter().all(|cost| *cost == 1) {
            Hint::Exact
        } else {
            Hint::Early
        }
    }

    fn admit(&mut self, now: u64, _since: u64, cost: u64) -> Booked {
        if cost > self.rule.most {
            self.force();
        }
        self.book(now, cost)
    }

    fn charge(&mut self, now: u64, cost: u64) -> Booked {
        self.force();
        self.book(now, cost)
    }

    fn refund(&mut self, now: u64, charge: Booked, cost: u64) {
        self.rule.refund(charge, cost, now);
        self.all[charge.number].cost -= cost;
    }

    fn set_quota(&mut self, now: u64, quota: Quota, carry: QuotaChange) {
        if (self.rule.most, self.rule.period) != (quota.count(), nanos(quota)) {
            self.rule.change(quota, carry, now);
            self.quotas.push((quota, false));
        }
    }

    /// Checks the kept charges of each quota under which all charges asked, whatever was before it:
    /// no more in any period than the algorithm promises.
    fn assert_promise(&self) {
        for (epoch, (quota, forced)) in self.quotas.iter().enumerate() {
            let under = self.all.iter().filter(|kept| kept.epoch == epoch);
            let kept: Vec<_> = under.map(|kept| (kept.at, kept.cost)).collect();
            let fullest = fullest(&kept, nanos(*quota));
            let most = self.algorithm.most_in(*quota, quota.period());
            assert!(
                *forced || fullest <= most,
                "{fullest} of {most} in a period"
            );
        }
    }
}

/// A charged unit.
#[derive(Clone, Copy, Debug)]
struct Unit {
    /// The index of its charge.
    charge: usize,
    time: u64,
}

/// A sliding log in its obvious form: the times of all charges, unit by unit, as far as there are
/// slots for them.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    most: u64,
    period: u64,
    units: Vec<Unit>,
    /// The first units with slots of their own, because they had none when all were written again.
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

    /// Returns whether it counts at a tick: its time is in `(now - period, now]`, or in the future.
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

    /// Returns the first tick from `now` on at which this many fit: now, or when some unit is paid
    /// off.
    pub(crate) fn earliest(&self, now: u64, cost: u64) -> Option<u64> {
        let end = |unit: &Unit| unit.time.saturating_add(self.period);
        let ticks = self.units.iter().map(end).filter(|end| *end > now);
        let ticks = ticks.chain([now]).filter(|tick| *tick <= LAST_TICK);
        ticks.filter(|tick| self.fits(*tick, cost)).min()
    }

    /// Returns when nothing is owed any more; a past tick if that is already so.
    pub(crate) fn reset(&self) -> u64 {
        let last = self.units.last();
        last.map_or(0, |unit| unit.time.saturating_add(self.period))
    }

    /// Charges each unit now, or a period after the unit `most` before it. Returns how many there
    /// was time for.
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

    /// Takes the units with future times, which are the last.
    fn take_to_come(&mut self, now: u64) -> Vec<Unit> {
        let past = self.units.iter().filter(|unit| unit.time <= now).count();
        self.units.split_off(past)
    }

    /// Forgets the units whose slots others have taken.
    fn forget_passed(&mut self, now: u64) {
        let mut to_come = self.take_to_come(now);
        let in_places = self.units.len().saturating_sub(self.most as usize);
        if self.apart < in_places {
            self.units.drain(self.apart..in_places);
        }
        self.units.append(&mut to_come);
    }

    /// Removes this many unpaid units of a charge, the last ones first. The future ones then move
    /// as early as possible.
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

    /// Keeps each unit that has a slot; the future ones move as early as possible.
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

    /// Keeps the newest `owed` units, or repeats each as often as necessary; the future ones move
    /// as early as possible.
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

/// A sliding window in its obvious form: two counts, and time that goes from one window to the
/// next.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    most: u64,
    period: u64,
    /// The number of this window, in periods.
    number: u64,
    previous: u64,
    count: u64,
}

impl Window {
    pub(crate) fn new(most: u64, period: u64) -> Self {
        Self {
            most,
            period,
            number: 0,
            previous: 0,
            count: 0,
        }
    }

    /// Begins the next window, which takes the charges beyond the limit.
    fn next(&mut self) {
        self.previous = self.count.min(self.most);
        self.count -= self.previous;
        self.number += 1;
    }

    fn at(&self, now: u64) -> Self {
        let mut this = self.clone();
        while this.number < now / self.period {
            if this.previous == 0 && this.count == 0 {
                this.number = now / self.period;
            } else {
                this.next();
            }
        }
        this
    }

    /// Returns `previous * (period - elapsed)` of this window.
    fn left(&self, now: u64) -> u128 {
        let elapsed = now - self.number * self.period;
        u128::from(self.previous) * u128::from(self.period - elapsed)
    }

    pub(crate) fn used(&self, now: u64) -> u64 {
        let this = self.at(now);
        let left = this.left(now).div_ceil(u128::from(this.period));
        this.count + u64::try_from(left).expect("at most the limit")
    }

    pub(crate) fn fits(&self, now: u64, cost: u64) -> bool {
        let this = self.at(now);
        let period = u128::from(this.period);
        let asked = (u128::from(this.count) + u128::from(cost)) * period;
        this.left(now) + asked <= u128::from(this.most) * period
    }

    /// Returns the first tick from `now` on at which this many fit: in the first window at whose
    /// end they do, and there by bisection, because the estimate only falls within a window.
    pub(crate) fn earliest(&self, now: u64, cost: u64) -> Option<u64> {
        let mut from = now;
        loop {
            let end = u128::from(from / self.period + 1) * u128::from(self.period);
            let mut to = u64::try_from(end - 1).unwrap_or(LAST_TICK).min(LAST_TICK);
            if self.fits(to, cost) {
                while from < to {
                    let middle = from + (to - from) / 2;
                    if self.fits(middle, cost) {
                        to = middle;
                    } else {
                        from = middle + 1;
                    }
                }
                return Some(from);
            }
            if to == LAST_TICK {
                return None;
            }
            from = to + 1;
        }
    }

    /// Returns when nothing counts any more; a past tick if that is already so.
    pub(crate) fn reset(&self) -> u64 {
        let mut this = self.clone();
        if (this.previous, this.count) == (0, 0) {
            return 0;
        }
        while (this.previous, this.count) != (0, 0) {
            this.next();
        }
        this.number.saturating_mul(this.period)
    }

    pub(crate) fn book(&mut self, now: u64, cost: u64) -> u64 {
        *self = self.at(now);
        self.count += cost;
        cost
    }

    /// Reduces the charge in this window. Each full window since an earlier one has taken the
    /// limit; the rest first reduces the remainder of the window before, and then the part beyond
    /// it.
    pub(crate) fn refund(&mut self, at: u64, cost: u64, now: u64) {
        *self = self.at(now);
        let mut cost = cost;
        let mut number = at / self.period;
        if number < self.number {
            while number + 1 < self.number && cost > 0 {
                cost -= cost.min(self.most);
                number += 1;
            }
            let before = cost.min(self.previous);
            self.previous -= before;
            cost -= before;
        }
        self.count -= cost.min(self.count);
    }

    /// Counts `owed`; the part from the window before fades on, in whole numbers, and is at most
    /// the limit. If it would then be rounded up by more than before, nothing fades.
    pub(crate) fn change(
        &mut self,
        most: u64,
        period: u64,
        owed: u64,
        carry: QuotaChange,
        now: u64,
    ) {
        let (this, used) = (self.at(now), self.used(now));
        let big = BigInt::from;
        let left = period - now % period;
        let fading = big(used.saturating_sub(this.count)) * owed / used.max(1);
        let previous = if carry == QuotaChange::KeepSpent && period == this.period {
            big(this.previous)
        } else {
            fading * period / left
        };
        let previous = previous.min(big(most));
        let counted = |previous: &BigInt| (previous * left + (period - 1)) / period;
        // The parts of a call by which the counts are rounded up, times their periods.
        let up = |part: BigInt, period: u64| (&part + (period - 1)) / period * period - part;
        let [old, new] = match carry {
            QuotaChange::Proportional => [this.most, most],
            _ => [1, 1],
        };
        let allowed = up(this.left(now).into(), this.period) * period / old * new;
        let previous = if up(&previous * left, period) * this.period > allowed {
            big(0)
        } else {
            previous
        };
        let count = (big(owed) - counted(&previous)).max(big(0));
        let small =
            |value: BigInt| u64::try_from(value).expect("at most what is owed or the limit");
        *self = Self {
            most,
            period,
            number: now / period,
            previous: small(previous),
            count: small(count),
        };
    }
}

/// A charge: its tick and its cost.
pub(crate) type Entry = (u64, u64);

/// Returns the greatest sum of charges in a period, without its end.
///
/// The fullest periods begin with a charge, so it is enough to check those: two indices that
/// advance together.
pub(crate) fn fullest(charges: &[Entry], period: u64) -> u64 {
    let mut charges = charges.to_vec();
    charges.sort_unstable();
    let (mut end, mut within, mut most) = (0, 0, 0);
    for (from, cost) in &charges {
        while end < charges.len() && charges[end].0 - from < period {
            within += charges[end].1;
            end += 1;
        }
        most = most.max(within);
        within -= cost;
    }
    most
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::support::random::Random;
    use crate::threads::audit;

    /// Sums from each charge on, in the obvious way.
    fn naive(charges: &[Entry], period: u64) -> u64 {
        let from = |from: u64| {
            let within = charges
                .iter()
                .filter(move |(at, _)| (from..from + period).contains(at));
            within.map(|(_, cost)| cost).sum()
        };
        charges.iter().map(|(at, _)| from(*at)).max().unwrap_or(0)
    }

    #[test]
    fn fullest_finds_what_every_pair_finds() {
        let mut random = Random::new(1);
        for _ in 0..2000 {
            let charges: Vec<Entry> = (0..12)
                .map(|_| (u64::from(random.below(100)), u64::from(random.below(4))))
                .collect();
            let period = u64::from(1 + random.below(40));
            assert_eq!(fullest(&charges, period), naive(&charges, period));
        }
    }

    /// A full schedule passes, and with one charge more anywhere it does not.
    #[test]
    fn one_charge_too_many_is_found_wherever_it_is() {
        let quota = Quota::new(5, Duration::from_nanos(10));
        let full: Vec<Entry> = (10..30).map(|number| (20 * number, 5)).collect();
        for algorithm in [Algorithm::SlidingLog, Algorithm::SlidingWindow] {
            assert_eq!(audit(algorithm, quota, &full), Ok(()));
            for (at, _) in &full {
                let seeded = [&full[..], &[(*at, 1)]].concat();
                assert!(
                    audit(algorithm, quota, &seeded).is_err(),
                    "{algorithm} {at}"
                );
            }
        }
    }
}
