//! Tests the log against a model that keeps the tick of every charge, and tests its limits.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;

use super::super::refunds::CAPACITY;
use super::*;

/// After the last tick.
const NEVER: u64 = LAST_TICK + 1;

/// One unit of a charge.
#[derive(Clone, Copy, Debug)]
struct Unit {
    charge: usize,
    tick: u64,
}

/// All units that were ever charged, in order.
#[derive(Clone, Debug)]
struct Model {
    most: usize,
    period: u64,
    units: Vec<Unit>,
    /// The number of first units that had no slot when the quota last changed. A refund gives back
    /// none of them, and gives none of them a slot.
    without_slot: usize,
}

impl Model {
    fn counts(&self, unit: Unit, now: u64) -> bool {
        unit.tick.saturating_add(self.period) > now
    }

    /// Returns the units that count. They are the last ones, because the ticks go forward.
    fn counting(&self, now: u64) -> &[Unit] {
        let paid = |unit: &Unit| !self.counts(*unit, now);
        &self.units[self.units.partition_point(paid)..]
    }

    fn used(&self, now: u64) -> usize {
        self.counting(now).len()
    }

    /// Returns the first tick from `now` on at which `cost` fits: now, or when a unit is paid off.
    fn due(&self, now: u64, cost: u64) -> u64 {
        let cost = (cost as usize).min(self.most);
        let ends = self
            .counting(now)
            .iter()
            .map(|unit| unit.tick + self.period);
        let fits = |tick: &u64| self.used(*tick) + cost <= self.most;
        let first = [now].into_iter().chain(ends).find(fits);
        first.expect("at the end all are paid")
    }

    fn due_behind(&self, now: u64, behind: u64, cost: u64) -> u64 {
        let (mut model, mut now) = (self.clone(), now);
        for _ in 0..behind {
            now = model.due(now, 1);
            model.charge(usize::MAX, now, 1);
        }
        model.due(now, cost)
    }

    /// Charges each unit now, or a period after the unit that is `most` before it.
    fn charge(&mut self, charge: usize, now: u64, cost: u64) -> u64 {
        for charged in 0..cost {
            let before = self.units.len().checked_sub(self.most);
            let free = before.map_or(0, |before| self.units[before].tick + self.period);
            let tick = free.max(now);
            if tick > LAST_TICK {
                return charged;
            }
            self.units.push(Unit { charge, tick });
        }
        cost
    }

    fn take_ahead(&mut self, now: u64) -> Vec<Unit> {
        let past = self.units.iter().filter(|unit| unit.tick <= now).count();
        self.units.split_off(past)
    }

    /// Forgets the units whose slots others have taken.
    fn forget_replaced(&mut self, now: u64) {
        let mut ahead = self.take_ahead(now);
        let in_slots = self.units.len().saturating_sub(self.most);
        if self.without_slot < in_slots {
            self.units.drain(self.without_slot..in_slots);
        }
        self.units.append(&mut ahead);
    }

    fn give_back(&mut self, charge: usize, cost: u64, now: u64) -> u64 {
        self.forget_replaced(now);
        let mut given = 0;
        while given < cost {
            let is_of_it = |unit: &Unit| unit.charge == charge && self.counts(*unit, now);
            let Some(number) = self.units.iter().rposition(is_of_it) else {
                break;
            };
            self.units.remove(number);
            given += 1;
        }
        if given > 0 {
            let ahead = self.take_ahead(now);
            for unit in ahead {
                self.charge(unit.charge, now, 1);
            }
        }
        given
    }

    fn forget_charges(&mut self) {
        let units = self.units.iter_mut();
        units.for_each(|unit| unit.charge = usize::MAX);
    }

    fn keep(&mut self, most: usize, period: u64, now: u64) {
        self.forget_replaced(now);
        let ahead = self.take_ahead(now).len();
        (self.most, self.period) = (most, period);
        self.forget_charges();
        self.without_slot = self.units.len().saturating_sub(most);
        self.charge(usize::MAX, now, ahead as u64);
    }

    fn scale(&mut self, most: usize, period: u64, now: u64) {
        let used = self.used(now);
        let owed = (used * most).div_ceil(self.most);
        let ahead = self.take_ahead(now).len();
        let made: Vec<u64> = (self.units.iter())
            .filter(|unit| self.counts(**unit, now))
            .map(|unit| unit.tick)
            .collect();
        let (past, ahead) = if owed <= used {
            let gone = (used - owed).min(made.len());
            (made[gone..].to_vec(), ahead - (used - owed - gone))
        } else {
            let ahead = (ahead * owed).div_ceil(used);
            let each = |back| made[made.len() - 1 - back * made.len() / (owed - ahead)];
            (
                (0..(owed - ahead).min(most)).rev().map(each).collect(),
                ahead,
            )
        };
        (self.most, self.period) = (most, period);
        let charge = usize::MAX;
        self.units = past.into_iter().map(|tick| Unit { charge, tick }).collect();
        self.without_slot = self.units.len().saturating_sub(most);
        self.charge(charge, now, ahead as u64);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Claim,
    Try(u64),
    Charge(u64),
    GiveBack(Index, u64),
    Advance(u64),
    Change(u64, u64, bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => Just(Step::Claim),
        4 => (1..6_u64).prop_map(Step::Try),
        3 => (1..24_u64).prop_map(Step::Charge),
        5 => (any::<Index>(), 1..24_u64).prop_map(|(which, cost)| Step::GiveBack(which, cost)),
        10 => prop_oneof![0..60_u64, 0..400_u64].prop_map(Step::Advance),
        2 => (1..8_u64, 8..120_u64, any::<bool>())
            .prop_map(|(count, period, scales)| Step::Change(count, period, scales)),
    ]
}

fn quota(count: u64, period: u64) -> Quota {
    Quota::new(count, Duration::from_nanos(period))
}

/// A log and its model.
struct Pair {
    log: SlidingLog,
    model: Model,
    now: u64,
    /// Tickets of charges that were not refunded, their costs, and the numbers of the charges.
    charges: Vec<(u64, u64, usize)>,
    number: usize,
}

impl Pair {
    fn new(count: u64, period: u64, now: u64) -> Self {
        Self {
            log: SlidingLog::new(quota(count, period)),
            model: Model {
                most: count as usize,
                period,
                units: Vec::new(),
                without_slot: 0,
            },
            now,
            charges: Vec::new(),
            number: 0,
        }
    }

    fn charged(&mut self, ticket: u64, cost: u64) {
        self.charges.push((ticket, cost, self.number));
        self.number += 1;
    }

    fn charge(&mut self, cost: u64) {
        let fitting = self.model.charge(self.number, self.now, cost);
        let (ticket, charged, _) = self.log.charge(self.now, cost);
        assert_eq!(charged, fitting);
        self.charged(ticket, fitting);
    }

    fn give_back(&mut self, which: usize, cost: u64) {
        let (ticket, charged, number) = self.charges.remove(which);
        let cost = cost.min(charged);
        let given = self.log.give_back(ticket, cost, self.now);
        assert_eq!(given, self.model.give_back(number, cost, self.now));
    }

    fn run(&mut self, step: Step) {
        let now = self.now;
        match step {
            Step::Claim => match self.log.ring().try_charge(now) {
                Claim::Charged { ticket, .. } => {
                    assert_eq!(self.model.due(now, 1), now);
                    self.model.charge(self.number, now, 1);
                    self.charged(ticket, 1);
                }
                Claim::Denied(due) => assert_eq!(due, self.model.due(now, 1)),
                Claim::Locked => {
                    assert!(self.model.units.last().is_some_and(|unit| unit.tick > now));
                }
            },
            Step::Advance(nanos) => self.now = (now + nanos).min(LAST_TICK),
            _ => {
                self.log.lock();
                self.run_locked(step);
                self.log.unlock();
            }
        }
        self.log.lock();
        self.assert_same();
        self.log.unlock();
    }

    fn run_locked(&mut self, step: Step) {
        let now = self.now;
        match step {
            Step::Try(cost) => {
                let cost = cost.min(self.model.most as u64);
                if self.log.due(0, cost) <= now {
                    self.charge(cost);
                }
            }
            Step::Charge(cost) => self.charge(cost),
            Step::GiveBack(which, cost) if !self.charges.is_empty() => {
                self.give_back(which.index(self.charges.len()), cost);
            }
            Step::Change(count, period, scales) => {
                self.log.change(quota(count, period), scales, now);
                if scales {
                    self.model.scale(count as usize, period, now);
                } else {
                    self.model.keep(count as usize, period, now);
                }
            }
            _ => {}
        }
    }

    fn assert_same(&mut self) {
        let now = self.now;
        let (log, model) = (&mut self.log, &self.model);
        assert!(model.units.is_sorted_by_key(|unit| unit.tick));
        assert_eq!(log.backlog(now), model.used(now) as u64);
        let last = model.units.iter().map(|unit| unit.tick + model.period);
        assert_eq!(log.reset().max(now), last.max().unwrap_or(0).max(now));
        assert_eq!(log.due(0, 0), 0);
        for cost in 1..=model.most as u64 + 1 {
            assert_eq!(log.due(0, cost).max(now), model.due(now, cost));
            for behind in [1, 2, 5, 11] {
                let due = log.due(behind.into(), cost).max(now);
                let exact = model.due_behind(now, behind, cost);
                if model.used(now) >= model.most {
                    assert_eq!(due, exact);
                } else {
                    assert!(due <= exact);
                }
            }
        }
        self.assert_foreseen();
    }

    /// Foresees charges at the ticks when they are due, and compares with a model that makes them.
    fn assert_foreseen(&self) {
        let (mut log, mut model) = (Forecast::new(&self.log), self.model.clone());
        let (most, mut now) = (model.most as u64, self.now);
        for cost in [1, most, 2, 3 * most + 2, 1, 2, most + 1, 1] {
            let due = log.due(0, cost).max(now);
            assert_eq!(due.min(NEVER), model.due(now, cost).min(NEVER));
            if due >= NEVER {
                break;
            }
            now = due;
            log.charge(now, cost);
            model.charge(usize::MAX, now, cost);
            for behind in [1, 2, 11] {
                let due = log.due(behind.into(), 1).max(now).min(NEVER);
                if model.used(now) >= model.most {
                    assert_eq!(due, model.due_behind(now, behind, 1).min(NEVER));
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(200)
    })]

    #[test]
    fn log_agrees_with_model(
        count in 1..8_u64,
        period in 8..120_u64,
        start in prop_oneof![0..3_u64, Just(1 << 40)],
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut pair = Pair::new(count, period, start);
        for step in steps {
            pair.run(step);
        }
    }

    /// This uses only the definition: nothing here knows about slots.
    #[test]
    fn log_admits_as_many_in_any_period_as_the_definition(
        count in 1..8_u64,
        period in 8..120_u64,
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut definition = Definition::new(count, period);
        for step in steps {
            definition.run(step);
        }
    }
}

/// The ticks of all charges that were not refunded, and a log that may have forgotten some.
struct Definition {
    log: SlidingLog,
    count: u64,
    period: u64,
    now: u64,
    /// The tick, the ticket and the cost of each.
    charges: Vec<(u64, u64, u64)>,
    /// Charges until this tick were a period old, and may be forgotten. Only a longer period could
    /// count them again.
    forgotten: Option<u64>,
}

impl Definition {
    fn new(count: u64, period: u64) -> Self {
        Self {
            log: SlidingLog::new(quota(count, period)),
            count,
            period,
            now: 0,
            charges: Vec::new(),
            forgotten: None,
        }
    }

    /// Returns the smallest and the largest possible number of charges in the period that ends with
    /// a tick.
    fn within(&self, end: u64) -> (u64, u64) {
        let within = |(tick, _, _): &&(u64, u64, u64)| tick + self.period > end;
        let known = |(tick, _, _): &&(u64, u64, u64)| Some(*tick) > self.forgotten;
        let within = self.charges.iter().filter(within);
        let cost = |(_, _, cost): &(u64, u64, u64)| *cost;
        (
            within.clone().filter(known).map(cost).sum(),
            within.map(cost).sum(),
        )
    }

    fn run(&mut self, step: Step) {
        let now = self.now;
        match step {
            Step::Claim => match self.log.ring().try_charge(now) {
                Claim::Charged { ticket, at } => self.admitted(ticket, at, 1),
                Claim::Denied(due) => self.denied(due, 1),
                Claim::Locked => panic!("nothing is forced"),
            },
            Step::Try(cost) => {
                let cost = cost.min(self.count);
                self.log.lock();
                match self.log.due(0, cost) {
                    due if due > now => self.denied(due, cost),
                    _ => {
                        let (ticket, _, at) = self.log.charge(now, cost);
                        self.admitted(ticket, at, cost);
                    }
                }
                self.log.unlock();
            }
            Step::GiveBack(which, _) if !self.charges.is_empty() => {
                let which = which.index(self.charges.len());
                let (_, ticket, cost) = self.charges[which];
                let given = locked(&mut self.log, |log| log.give_back(ticket, cost, now));
                if given > 0 {
                    assert_eq!(given, cost);
                    self.charges.remove(which);
                }
            }
            Step::Advance(nanos) => self.now += nanos,
            Step::Change(count, period, _) => {
                self.forgotten = self.forgotten.max(now.checked_sub(self.period));
                (self.count, self.period) = (count, period);
                let change = |log: &mut SlidingLog| log.change(quota(count, period), false, now);
                locked(&mut self.log, change);
            }
            _ => {}
        }
        let (least, most) = self.within(self.now);
        let backlog = locked(&mut self.log, |log| log.backlog(self.now));
        assert!((least..=most).contains(&backlog));
    }

    fn admitted(&mut self, ticket: u64, at: u64, cost: u64) {
        assert_eq!(at, self.now);
        self.charges.push((at, ticket, cost));
        assert!(self.within(at).0 <= self.count);
    }

    fn denied(&self, due: u64, cost: u64) {
        assert!(due > self.now);
        assert!(self.within(due).0 + cost <= self.count);
        assert!(self.within(due - 1).1 + cost > self.count);
    }
}

/// A refund gives back its own charge. The others count again in a longer period, even one that has
/// had no slot since the count became smaller.
#[test]
fn change_of_the_period_after_a_refund_counts_charges_without_a_slot_again() {
    let mut pair = Pair::new(2, 8, 0);
    for step in [
        Step::Claim,
        Step::Claim,
        Step::Change(1, 8, false),
        Step::Advance(8),
        Step::Claim,
    ] {
        pair.run(step);
    }
    pair.log.lock();
    pair.give_back(2, 1);
    pair.log.unlock();
    pair.run(Step::Claim);
    assert_eq!(locked(&mut pair.log, |log| log.backlog(8)), 1);
    // The second charge was replaced by one that was refunded, and its tick is lost.
    pair.run(Step::Change(1, 9, false));
    assert_eq!(locked(&mut pair.log, |log| log.backlog(8)), 2);
    pair.run(Step::Advance(1));
    assert_eq!(locked(&mut pair.log, |log| log.backlog(9)), 1);
}

fn locked<T>(log: &mut SlidingLog, work: impl FnOnce(&mut SlidingLog) -> T) -> T {
    log.lock();
    let result = work(log);
    log.unlock();
    result
}

/// Returns a log whose head is in this lap, as if the charges of all earlier laps had been made.
fn log_in_lap(count: u64, period: u64, lap: u64) -> SlidingLog {
    let mut log = SlidingLog::new(quota(count, period));
    log.lock();
    log.head.lap = lap;
    log.seize();
    let ticket = log.head.number();
    log.lay(count, &[], ticket);
    log.unlock();
    log
}

fn assert_exact(log: &mut SlidingLog, count: u64, period: u64, laps: u64) {
    for lap in 0..laps {
        let now = 1_000 + lap * period;
        let mut last = 0;
        for _ in 0..count {
            match log.ring().try_charge(now) {
                Claim::Charged { ticket, .. } => last = ticket,
                claim => panic!("{claim:?} in lap {lap}"),
            }
        }
        let denied = log.ring().try_charge(now + period - 1);
        assert_eq!(denied, Claim::Denied(now + period));
        let given = locked(log, |log| log.give_back(last, 1, now));
        assert!(given <= 1);
        let claim = log.ring().try_charge(now);
        assert_eq!(matches!(claim, Claim::Charged { .. }), given == 1);
        assert_eq!(locked(log, |log| log.backlog(now)), count);
    }
}

/// One charge kept a ticket from more than 2^32 laps ago.
#[test]
fn log_after_many_laps_admits_as_before() {
    for count in [1, 2, 3, 5, 8] {
        for lap in [1 << 32, (1 << 32) - 2, (1 << 58) - 2, (1 << 60) - 1] {
            let mut log = log_in_lap(count, 10, lap);
            assert_exact(&mut log, count, 10, 40);
        }
    }
}

/// The lap ends after centuries, and even then nothing is locked.
#[test]
fn log_at_the_end_of_its_laps_goes_on() {
    for count in [1, 2, 3, 5, 8] {
        let last = u64::MAX >> Position::index_bits(count);
        for before in [4, 5, 20] {
            let mut log = log_in_lap(count, 10, last - before);
            assert_exact(&mut log, count, 10, 40);
        }
    }
}

#[test]
fn give_back_after_the_last_ticket_gives_nothing() {
    let mut log = log_in_lap(1, 1, LAST_TICKET - 5);
    log.lock();
    let (first, ..) = log.charge(100, 2);
    assert_eq!(log.give_back(first, 1, 100), 1);
    let (last, ..) = log.charge(100, 20);
    assert!(last > LAST_TICKET);
    assert_eq!(log.give_back(last, 20, 100), 0);
    assert_eq!(log.backlog(100), 21);
    assert_eq!(log.due(0, 1), 121);
    assert_eq!(log.give_back(log.total() + 1, 1, 100), 0);
}

#[test]
fn give_back_after_more_refunds_than_are_remembered_gives_no_more_than_is_due() {
    let count = 3 * CAPACITY as u64;
    let mut log = SlidingLog::new(quota(count, 1 << 40));
    log.lock();
    let tickets: Vec<u64> = (0..count).map(|tick| log.charge(tick, 1).0).collect();
    // The newest comes first, so that the following ones are older than all remembered ones.
    let given = tickets
        .iter()
        .rev()
        .map(|ticket| log.give_back(*ticket, 1, count));
    assert!(given.sum::<u64>() >= CAPACITY as u64);
    let left = log.backlog(count);
    assert_eq!(log.give_back(tickets[0], 1, count), 0);
    assert_eq!(log.backlog(count), left);
}

/// Charges that are ahead do not reach beyond the last tick.
#[test]
fn charge_of_the_largest_cost_fits_until_the_last_tick() {
    let mut log = SlidingLog::new(quota(3, 1_000));
    log.lock();
    let (ticket, cost, _) = log.charge(500, u64::MAX);
    assert_eq!(cost, 3 * ((LAST_TICK - 500) / 1_000 + 1));
    assert!(log.reset() > LAST_TICK);
    assert_eq!(log.charge(500, 1).1, 0);
    assert_eq!(log.backlog(500), cost);
    // After a long time the ring is the same as if each charge had been written.
    assert_eq!(log.backlog(1 << 50), cost - 3 * (((1 << 50) - 500) / 1_000));
    assert_eq!(log.due(0, 1), LAST_TICK - (LAST_TICK - 500) % 1_000 + 1_000);
    assert_eq!(log.give_back(ticket, 2, 1 << 50), 2);
    assert_eq!(log.give_back(ticket, u64::MAX, LAST_TICK), 1);
    assert_eq!(log.backlog(LAST_TICK), 0);
}

#[test]
fn log_at_the_last_tick_admits_until_it_is_full() {
    let mut log = SlidingLog::new(quota(1, 1 << 40));
    let Claim::Charged { ticket, .. } = log.ring().try_charge(LAST_TICK) else {
        panic!("it is free");
    };
    assert_eq!(
        locked(&mut log, |log| log.give_back(ticket, 1, u64::MAX)),
        1
    );
    assert!(matches!(
        log.ring().try_charge(u64::MAX),
        Claim::Charged { .. }
    ));
    let never = LAST_TICK + (1 << 40);
    assert_eq!(log.ring().try_charge(u64::MAX), Claim::Denied(never));
}

#[test]
fn change_of_the_period_twice_leaves_charges_at_their_ticks() {
    let hour = 3_600_000_000_000;
    let mut log = SlidingLog::new(quota(2, hour));
    assert!(matches!(log.ring().try_charge(1), Claim::Charged { .. }));
    log.lock();
    log.charge(2, 1);
    log.change(quota(2, 24 * hour), false, 10);
    assert_eq!(log.due(0, 1), 1 + 24 * hour);
    log.change(quota(2, hour), false, 20);
    assert_eq!(log.due(0, 1), 1 + hour);
    assert_eq!(log.due(0, 2), 2 + hour);
}

/// Smaller and larger arrays; the smaller ones stay locked.
#[test]
fn change_of_the_count_keeps_charges_in_new_slots() {
    let mut log = SlidingLog::new(quota(1, 10_000));
    let mut charged = 0;
    for power in 0..12 {
        let count = 1 << power;
        locked(&mut log, |log| {
            log.change(quota(count, 10_000), false, 50_000);
        });
        while let Claim::Charged { .. } = log.ring().try_charge(50_000) {
            charged += 1;
        }
        assert_eq!(charged, count);
        locked(&mut log, |log| log.change(quota(1, 10_000), false, 50_000));
        assert_eq!(log.ring().try_charge(50_000), Claim::Denied(60_000));
        assert_eq!(locked(&mut log, |log| log.backlog(50_000)), count);
    }
}

/// A thread was suspended after it had read its clock, and another one has charged since.
#[test]
fn try_charge_at_an_older_tick_than_the_newest_charges_at_the_newest() {
    let mut log = SlidingLog::new(Quota::new(2, Duration::from_nanos(10)));
    assert!(matches!(
        log.ring().try_charge(100),
        Claim::Charged { at: 100, .. }
    ));
    assert!(matches!(
        log.ring().try_charge(95),
        Claim::Charged { at: 100, .. }
    ));
    assert_eq!(log.ring().try_charge(109), Claim::Denied(110));
    log.lock();
    assert_eq!(log.charge(90, 1).2, 100);
}

/// The refunded charge had replaced one that counts at that older tick.
#[test]
fn try_charge_at_an_older_tick_than_a_refunded_charge_is_not_before_it() {
    let mut log = SlidingLog::new(Quota::new(1, Duration::from_nanos(10)));
    assert!(matches!(
        log.ring().try_charge(0),
        Claim::Charged { at: 0, .. }
    ));
    let Claim::Charged { ticket, .. } = log.ring().try_charge(12) else {
        panic!("it is a period later");
    };
    log.lock();
    assert_eq!(log.give_back(ticket, 1, 12), 1);
    log.unlock();
    assert!(matches!(
        log.ring().try_charge(5),
        Claim::Charged { at: 12, .. }
    ));
}

/// The thread has read its clock in a pause that has ended since.
#[test]
fn try_charge_at_an_older_tick_than_a_restore_is_not_before_it() {
    let mut log = SlidingLog::new(Quota::new(2, Duration::from_nanos(10)));
    locked(&mut log, |log| {
        let saved = log.save();
        log.restore(&saved, 12);
    });
    assert!(matches!(
        log.ring().try_charge(5),
        Claim::Charged { at: 12, .. }
    ));
}
