//! The model of a limiter without waiters; and the model of the debt under a sequence of quotas, with one
//! schedule for each. The model of the rules that remember is [`Kept`].

use num_bigint::BigInt;
use tollgate::rate::QuotaChange;
use tollgate::{Algorithm, Quota};

use super::kept::Kept;
use super::schedule::{Rule, Schedule};
use super::steps::Scale;

/// A charge, as far as a model knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Booked {
    /// The number of the quota under which it was made.
    pub(crate) epoch: usize,
    /// The number of the charge.
    pub(crate) number: usize,
    pub(crate) at: u64,
    /// The part for which there was time.
    pub(crate) cost: u64,
    /// The available tokens just after it, and the tick at which nothing was owed then.
    pub(crate) left: u64,
    pub(crate) reset: Option<u64>,
}

/// The retry time of a call behind a queue that would be admitted at some tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hint {
    /// That tick.
    Exact,
    /// That tick or an earlier one, but not before the head of the queue is due.
    Early,
}

/// The debt under an algorithm and a sequence of quotas, and the due times.
///
/// A tick of `None` never comes. A cost above the burst is admitted when nothing is owed.
pub(crate) trait Model {
    fn algorithm(&self) -> Algorithm;

    fn scale(&self) -> Scale;

    /// Returns the number of quotas before this one.
    fn epoch(&self) -> usize;

    /// Returns the available tokens at a tick.
    fn available(&self, now: u64) -> u64;

    /// Returns the first tick from `now` on at which nothing is owed.
    fn reset(&self, now: u64) -> Option<u64>;

    /// Returns the first tick from `now` on at which this cost is admitted, if only the waiters
    /// `ahead` come, and each of them is granted when it is due.
    fn due(&self, now: u64, ahead: &[u64], cost: u64) -> Option<u64>;

    /// Returns the precision of the retry time of a call with this cost behind such a queue.
    fn hint(&self, queue: &[u64], cost: u64) -> Hint;

    /// Charges a call that is due at `now`, and may have been due since some earlier tick.
    fn admit(&mut self, now: u64, since: u64, cost: u64) -> Booked;

    /// Charges without asking.
    fn charge(&mut self, now: u64, cost: u64) -> Booked;

    /// Refunds this much of a charge of this epoch.
    fn refund(&mut self, now: u64, charge: Booked, cost: u64);

    /// Begins another epoch, unless the quota is the same in another notation.
    fn set_quota(&mut self, now: u64, quota: Quota, carry: QuotaChange);

    /// Checks the promise of the algorithm with the kept charges of each quota.
    fn assert_promise(&self);
}

/// Returns the model of an algorithm; if it `delays`, late waiters are charged at their grant.
pub(crate) fn model(algorithm: Algorithm, quota: Quota, delays: bool) -> Box<dyn Model> {
    if !algorithm.keeps_a_word() {
        Box::new(Kept::new(algorithm, quota))
    } else {
        Box::new(Owed::new(algorithm, quota, delays))
    }
}

pub(crate) struct Owed {
    algorithm: Algorithm,
    /// A late waiter is charged at its grant.
    delays: bool,
    /// One for each quota so far; the last is in force.
    schedules: Vec<Schedule>,
}

impl Owed {
    pub(crate) fn new(algorithm: Algorithm, quota: Quota, delays: bool) -> Self {
        Self {
            algorithm,
            delays,
            schedules: vec![Schedule::new(Rule::by(algorithm, quota))],
        }
    }

    fn schedule(&self) -> &Schedule {
        self.schedules.last().expect("there is one")
    }

    fn schedule_mut(&mut self) -> &mut Schedule {
        self.schedules.last_mut().expect("there is one")
    }

    fn rule(&self) -> Rule {
        self.schedule().rule
    }

    /// Returns the unit from which on this cost is admitted, at the head of the queue, if the debt
    /// ends at `end`.
    fn due_after(&self, end: BigInt, cost: u64) -> BigInt {
        if cost > self.rule().burst {
            end
        } else {
            end + self.rule().price(cost) - self.rule().tolerance()
        }
    }

    fn book(&mut self, now: u64, start: BigInt, cost: u64, forced: bool) -> Booked {
        let price = self.rule().price(cost);
        // A charge of 0 changes nothing.
        let start = if cost == 0 { 0.into() } else { start };
        let number = self.schedule_mut().charge(price, start, now, forced);
        Booked {
            epoch: self.epoch(),
            number,
            at: now,
            cost,
            left: self.available(now),
            reset: self.reset(now),
        }
    }
}

impl Model for Owed {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    fn scale(&self) -> Scale {
        self.rule().scale()
    }

    fn epoch(&self) -> usize {
        self.schedules.len() - 1
    }

    fn available(&self, now: u64) -> u64 {
        if self.rule().is_unlimited() {
            return self.rule().burst;
        }
        let available = self.schedule().available(now);
        u64::try_from(available).expect("at most the burst")
    }

    fn reset(&self, now: u64) -> Option<u64> {
        self.rule().tick_of(&self.schedule().end(), now)
    }

    fn due(&self, now: u64, ahead: &[u64], cost: u64) -> Option<u64> {
        let rule = self.rule();
        let mut end = self.schedule().end();
        for ahead in ahead {
            let due = self.due_after(end.clone(), *ahead);
            let start = if rule.is_even() {
                due
            } else {
                rule.units(rule.tick_of(&due, now)?)
            };
            end = end.max(start) + rule.price(*ahead);
        }
        let due = rule.tick_of(&self.due_after(end, cost), now);
        if let Some(earliest) = self
            .schedule()
            .earliest(now, cost)
            .filter(|_| ahead.is_empty())
        {
            assert_eq!(due, earliest, "later than the promise needs, or earlier");
        }
        due
    }

    /// Returns `Early` if a waiter in front may not use up a batch.
    fn hint(&self, _queue: &[u64], _cost: u64) -> Hint {
        if self.rule().is_even() {
            Hint::Exact
        } else {
            Hint::Early
        }
    }

    fn admit(&mut self, now: u64, since: u64, cost: u64) -> Booked {
        let rule = self.rule();
        let start = if self.delays || !rule.is_even() {
            rule.units(now)
        } else {
            let due = self.due_after(self.schedule().end(), cost);
            due.max(rule.units(since))
        };
        self.book(now, start, cost, cost == 0 || cost > rule.burst)
    }

    fn charge(&mut self, now: u64, cost: u64) -> Booked {
        let start = self.rule().units(now);
        self.book(now, start, cost, true)
    }

    fn refund(&mut self, now: u64, charge: Booked, cost: u64) {
        let units = self.rule().price(cost);
        self.schedule_mut().refund(charge.number, &units, now);
    }

    /// The available, spent or owed tokens stay so, in the sense of `carry`; in doubt more is owed.
    fn set_quota(&mut self, now: u64, quota: Quota, carry: QuotaChange) {
        let (old, new) = (self.rule(), Rule::by(self.algorithm, quota));
        if old.is(&new) {
            return;
        }
        let owed = self.schedule().owed(now);
        let up = |units: BigInt, by: BigInt, of: BigInt| (units * by + &of - 1) / of;
        let owed = match carry {
            _ if old.is_unlimited() || new.is_unlimited() => 0.into(),
            QuotaChange::Proportional => up(owed, new.tolerance(), old.tolerance()),
            QuotaChange::KeepSpent => up(owed, new.interval(), old.interval()),
            _ => unreachable!("there are two ways"),
        };
        let new = old.then(new, now);
        let mut schedule = Schedule::new(new);
        // A unit that has begun to pass is not granted, unless nothing was owed for as long.
        let start = if old.is_unlimited() || new.is_unlimited() {
            new.units(now)
        } else {
            let idle = (old.units(now) - self.schedule().end()).max(0.into());
            new.units_up(now) - idle * new.interval() / old.interval()
        };
        schedule.charge(owed, start, now, true);
        self.schedules.push(schedule);
    }

    fn assert_promise(&self) {
        self.schedules.iter().for_each(Schedule::assert_promise);
    }
}
