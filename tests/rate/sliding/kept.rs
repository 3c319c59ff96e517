//! All that was ever charged under one quota after the other, and the rule that goes by it.

use tollgate::{Algorithm, Quota, QuotaChange};

use super::rule::Rule;
use crate::limiter_world::amounts::Scale;
use crate::limiter_world::model::{Booked, Hint, Model};

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

    /// Each quota under which all charges asked, and what was kept of them.
    pub(crate) fn asked(&self) -> impl Iterator<Item = (Quota, Vec<(u64, u64)>)> {
        let quotas = self.quotas.iter().enumerate();
        let asked = quotas.filter(|(_, (_, forced))| !forced);
        asked.map(|(epoch, (quota, _))| {
            let under = self.all.iter().filter(|kept| kept.epoch == epoch);
            (*quota, under.map(|kept| (kept.at, kept.cost)).collect())
        })
    }

    fn force(&mut self) {
        self.quotas.last_mut().expect("there is one").1 = true;
    }

    fn book(&mut self, now: u64, cost: u64) -> Booked {
        let booked = self.rule.book(self.epoch(), self.all.len(), now, cost);
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
        self.rule.available(now)
    }

    fn reset(&self, now: u64) -> Option<u64> {
        self.rule.reset(now)
    }

    fn due(&self, now: u64, ahead: &[u64], cost: u64) -> Option<u64> {
        let (mut rule, mut now) = (self.rule.clone(), now);
        for ahead in ahead {
            now = rule.earliest(now, *ahead)?;
            rule.book(0, usize::MAX, now, *ahead);
        }
        rule.earliest(now, cost)
    }

    /// A log knows when a 1 will be admitted behind others.
    fn hint(&self, line: &[u64], cost: u64) -> Hint {
        if self.rule.is_log() && cost == 1 && line.iter().all(|cost| *cost == 1) {
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
        if self.rule.is_by(quota) {
            return;
        }
        self.rule.change(quota, carry, now);
        self.quotas.push((quota, false));
    }
}
