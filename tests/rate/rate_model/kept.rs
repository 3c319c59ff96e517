//! All that was ever charged under one quota after the other, by the rules that remember: a sliding
//! log or a sliding window.

use tollgate::{Algorithm, Quota, QuotaChange};

use super::LAST_TICK;
use super::amounts::Scale;
use super::log::Log;
use super::model::{Booked, Hint, Model};
use super::window::Window;
use crate::audit::fullest;

fn nanos(quota: Quota) -> u64 {
    u64::try_from(quota.period().as_nanos()).expect("a quota's period fits")
}

#[derive(Clone)]
enum Remembered {
    Log(Log),
    Window(Window),
}

/// What counts under the quota in force. After the last tick time stands still.
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

    /// When so many are admitted, if nobody else comes: more than the limit when nothing is owed.
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

    /// The first tick from `now` on at which nothing is owed.
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
            QuotaChange::KeepSpent => used.min(old).min(new) + used.saturating_sub(old),
            _ => unreachable!("there are two ways"),
        };
        (self.most, self.period) = (new, nanos(quota));
        match &mut self.state {
            // In a log each is kept.
            Remembered::Log(log) if carry == QuotaChange::KeepSpent => {
                log.go_on(new, self.period, now);
            }
            Remembered::Log(log) => log.change(new, self.period, owed, now),
            Remembered::Window(window) => window.change(new, self.period, owed, now),
        }
    }
}

pub(crate) struct Kept {
    algorithm: Algorithm,
    rule: Rule,
    /// The quotas that there were, and whether anything was charged under each that did not ask.
    quotas: Vec<(Quota, bool)>,
    /// By its number; without what was given back.
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

    /// Of what was kept under each quota under which all charges asked, whatever was before it: a
    /// log admits no more than the count in any period, a window less than twice as many.
    fn assert_promise(&self) {
        for (epoch, (quota, forced)) in self.quotas.iter().enumerate() {
            let under = self.all.iter().filter(|kept| kept.epoch == epoch);
            let kept: Vec<_> = under.map(|kept| (kept.at, kept.cost)).collect();
            let fullest = fullest(&kept, nanos(*quota));
            assert!(
                *forced
                    || fullest <= quota.count()
                    || self.algorithm == Algorithm::SlidingWindow && fullest < 2 * quota.count(),
                "{fullest} in a period"
            );
        }
    }
}
