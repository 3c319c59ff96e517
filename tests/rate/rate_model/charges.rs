//! The most obvious limiter: it remembers everything it ever charged.

use num_bigint::BigInt;

use super::rule::Rule;

/// All charges ever made: at which tick, and how much.
pub(crate) struct Charges {
    pub(crate) rule: Rule,
    pub(crate) list: Vec<(u64, u64)>,
}

impl Charges {
    pub(crate) fn new(rule: Rule) -> Self {
        Self {
            rule,
            list: Vec::new(),
        }
    }

    /// The first tick from `now` on at which so much more would fit, if nobody else came; `None`
    /// for never.
    ///
    /// It fits when, from each earlier charge until then, no more is charged than the burst and
    /// what time has given since that charge; and it alone is at most the burst.
    pub(crate) fn earliest(&self, now: u64, cost: u64) -> Option<u64> {
        if cost > self.rule.burst {
            return None;
        }
        let mut since = self.rule.price(cost);
        let mut needed = BigInt::from(0);
        for (tick, charged) in self.list.iter().rev() {
            since += self.rule.price(*charged);
            needed = needed.max(self.rule.units(*tick) + &since - self.rule.tolerance());
        }
        self.rule.tick_of(&needed, now)
    }

    /// Whether so much fits now.
    pub(crate) fn fits(&self, now: u64, cost: u64) -> bool {
        self.earliest(now, cost) == Some(now)
    }

    /// The promise, over every pair of charges.
    pub(crate) fn assert_promise(&self) {
        for (first, (from, _)) in self.list.iter().enumerate() {
            let mut units = BigInt::from(0);
            for (to, cost) in &self.list[first..] {
                units += self.rule.price(*cost);
                assert!(
                    self.rule.allows(&units, *from, *to),
                    "too much from tick {from} to tick {to}: {units} units"
                );
            }
        }
    }
}
