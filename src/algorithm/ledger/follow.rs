//! Following the count of a server, which shows the use by [others](super::others).

use std::time::Duration;

use super::Ledger;
use super::others::{Growth, OthersUse};
use crate::algorithm::rule::{OfOthers, Receipt};
use crate::algorithm::rule_state::RuleState;
use crate::time::Tick;

impl Ledger {
    /// Returns the use by others, beside the charges.
    pub(super) fn others_use(&self) -> OthersUse {
        let others = self.others.as_ref();
        others.map_or_else(OthersUse::default, |it| it.used)
    }

    /// Remembers the charge of a call, if a server is followed.
    pub(super) fn remember(&mut self, receipt: &Receipt) {
        let held = u64::try_from(self.held_cost()).unwrap_or(u64::MAX);
        if let Some(others) = self.others.as_mut().filter(|_| receipt.cost > 0) {
            let counted = self.rule.backlog(receipt.at).saturating_add(held);
            others.remember(receipt, counted);
        }
    }

    /// Forgets a call that the server does not count, if one is followed.
    pub(super) fn forget_call(&mut self, charge: &Receipt, cost: i128) {
        let known = charge.generation == self.generation;
        if let Some(others) = self.others.as_mut().filter(|_| known) {
            others.refund(charge, cost);
        }
    }

    /// Brings the ledger in step with a server's count, as the response to the call of a charge
    /// reports it. Returns the use by others, beside the charges.
    pub(crate) fn follow(
        &mut self,
        receipt: &Receipt,
        used: u64,
        reset_after: Duration,
        now: Tick,
    ) -> u64 {
        if receipt.generation != self.generation || self.rule.params().is_unlimited() {
            return self.others_use().cost;
        }
        let period = self.quota.period();
        let end = receipt.at.saturating_add(reset_after.min(period));
        let earlier = match &self.others {
            None => u64::MAX,
            Some(others) if others.used.until <= now => self.quota.period_nanos() / 100,
            Some(_) => 0,
        };
        // Every response counts here, because an older one may know better when a window ends.
        let windows = self.algorithm.has_windows();
        let follow = |rule: &mut RuleState| rule.follow(windows, end, now, earlier);
        let count = if windows {
            // A new end of the window hides the idle time until now from the open holds.
            let idle = self.before_pause(now, |rule| {
                let end = rule.tat().end();
                rule.raise(now);
                rule.tat().end() - end
            });
            let pause = self.pause.as_ref();
            if let Some(held) = &mut self.held {
                held.add_idle(pause.map_or(u64::MAX, |pause| pause.first_hold), idle);
            }
            self.before_pause(now, follow)
        } else {
            follow(&mut self.rule)
        };
        let own = self.in_use(now).saturating_sub(self.others_use().cost);
        // This bound keeps a server from stopping the limiter for longer.
        let used = used.min(self.rule.capacity().saturating_mul(2));
        let others = self.others.get_or_insert_default();
        let soon = receipt.at.saturating_add(period / 1000);
        let answer = others.answer(receipt, soon, own);
        if let OfOthers::Growing { end, .. } = count {
            others.used.until = end;
        }
        let mut missing = 0;
        if let Some(answer) = answer {
            match count {
                OfOthers::Charged => {
                    missing = used.saturating_add(answer.since).saturating_sub(own);
                }
                OfOthers::Standing => {
                    others.used = OthersUse {
                        cost: used.saturating_sub(answer.counted),
                        until: receipt.at.saturating_add(period),
                        growth: None,
                    };
                }
                OfOthers::Growing { end, is_of_this } if is_of_this => {
                    // Without this difference, calls of this limiter would look like those of
                    // others until the end.
                    let told = used.saturating_sub(answer.until_soon);
                    let mut told = OthersUse {
                        cost: told,
                        until: end,
                        growth: Some(Growth {
                            told,
                            at: receipt.at,
                            passed: period.saturating_sub(end.saturating_since(receipt.at)),
                        }),
                    };
                    told.advance(now);
                    // The use by others never shrinks in a window, but calls reach the server in
                    // another order.
                    if told.cost >= others.used.cost {
                        others.used = told;
                    }
                }
                OfOthers::Growing { .. } => {}
            }
        }
        // This is no call, so it has no record.
        self.charge_rule(missing, |rule| rule.charge(now, missing));
        self.others_use().cost
    }
}
