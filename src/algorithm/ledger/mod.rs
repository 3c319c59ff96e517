//! [`Ledger`]: what is owed to a limiter. It is a pure value: every call that needs the time takes
//! it.
//!
//! Time pays off what the [rule](RuleState) counts. Beside it stand a [pause](mod@pause), costs that are
//! [held](mod@held) until their usage is known, and the use of [others](mod@others) of the same server:
//! their files have their own rules. A call is due when its cost fits together with all of them.
//!
//! 1. Nothing is due during a pause.
//! 2. A receipt has the generation in which its charge was made, and is worth nothing in another
//!    one.
//! 3. The ledger says [itself](Ledger::is_free) when the word of the rule is all that it has, so
//!    that decisions without the lock are possible; and that the word has
//!    [changed its meaning](Ledger::take_renewed), so that decisions which have read it before have
//!    to fail.

mod follow;
mod held;
mod hold;
mod others;
pub(super) mod pause;
mod paused;
mod state;

use std::sync::Arc;

use self::held::Held;
pub(crate) use self::held::HeldCharge;
use self::others::Others;
pub(super) use self::others::{Growth, OthersUse};
use self::paused::Paused;
use super::choice::Algorithm;
use super::gcra::{Gcra, Origin, Tat};
use super::params::Params;
use super::quota_change::QuotaChange;
use super::rule::{Receipt, fresh_generation};
use super::rule_state::{self, RuleState};
use super::sliding_log::Ring;
use crate::quota::Quota;
use crate::status::{Decision, Snapshot};
use crate::time::{Tick, granted_at, not_before};

/// The maximum of refunded units in one generation.
pub(super) const MOST_REFUNDED: u64 = 1 << 62;

/// What is owed to a limiter.
pub(crate) struct Ledger {
    algorithm: Algorithm,
    rule: RuleState,
    quota: Quota,
    generation: u64,
    /// No call is admitted before this tick, the end of the last pause.
    paused_until: Tick,
    /// A pause that has not ended; in the rule, the burst is spent as of its end.
    pause: Option<Box<Paused>>,
    held: Option<Box<Held>>,
    /// The known state of a server whose count is followed.
    others: Option<Box<Others>>,
    /// Whether the meaning of the word has changed.
    renewed: bool,
}

/// Construction and reading.
impl Ledger {
    /// Creates a ledger without charges. With an `origin`, windows begin at multiples of their
    /// length since that tick, even after the quota has changed.
    pub(crate) fn new(algorithm: Algorithm, quota: Quota, origin: Origin, generation: u64) -> Self {
        let rule = RuleState::new(algorithm, quota, origin);
        Self::of_rule(algorithm, rule, quota, generation)
    }

    /// Creates the ledger of a key, whose whole state is in this rule.
    pub(crate) fn of_word(algorithm: Algorithm, rule: Gcra, quota: Quota, generation: u64) -> Self {
        Self::of_rule(algorithm, RuleState::Gcra(rule), quota, generation)
    }

    fn of_rule(algorithm: Algorithm, rule: RuleState, quota: Quota, generation: u64) -> Self {
        Self {
            algorithm,
            rule,
            quota,
            generation,
            paused_until: Tick::default(),
            pause: None,
            held: None,
            others: None,
            renewed: false,
        }
    }

    pub(crate) fn quota(&self) -> Quota {
        self.quota
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the maximum charge at once.
    pub(crate) fn capacity(&self) -> u64 {
        self.rule.capacity()
    }

    /// Returns whether there are holds: calls are due earlier if these are settled.
    pub(crate) fn has_holds(&self) -> bool {
        self.held_cost() > 0
    }

    /// Returns the held cost, which time does not pay off; none without a limit.
    fn held_cost(&self) -> u128 {
        let held = self.held.as_ref();
        let held = held.filter(|_| !self.quota.is_unlimited());
        held.map_or(0, |held| held.cost)
    }

    /// Returns the tick at which `cost` is due after `behind` has been charged, like the rule, but
    /// not before the end of a pause. It assumes that no hold is settled until then.
    pub(crate) fn due(&self, behind: u128, cost: u64) -> Tick {
        self.due_by(self.held_cost(), cost, |cost| self.rule.due(behind, cost))
    }

    /// Returns the same if all holds were settled now, for nothing.
    pub(crate) fn due_without_holds(&self, behind: u128, cost: u64) -> Tick {
        self.due_by(0, cost, |cost| self.rule.due(behind, cost))
    }

    /// Begins to foresee charges.
    pub(crate) fn forecast(&self) -> Forecast<'_> {
        Forecast {
            ledger: self,
            rule: self.rule.forecast(),
        }
    }

    /// Returns the used part of the capacity: all of it during a pause.
    pub(crate) fn in_use(&mut self, now: Tick) -> u64 {
        if self.pause.is_some() {
            return self.capacity();
        }
        self.rule.backlog(now).saturating_add(self.beside())
    }

    /// Returns the decision for a call that is due at `due`.
    pub(crate) fn decision(&mut self, now: Tick, due: Tick) -> Decision {
        let (limit, in_use) = (self.capacity(), self.in_use(now));
        Decision::at(now, limit, in_use, due, self.reset())
    }

    /// Returns the decision just after a charge, or the present one if that is no longer known.
    pub(crate) fn decision_after(&mut self, charge: &Receipt, now: Tick) -> Decision {
        if charge.generation != self.generation || self.beside() > 0 {
            return self.decision(now, now);
        }
        let (backlog, reset) = self.rule.after(charge);
        Decision::at(charge.at, self.capacity(), backlog, Tick::default(), reset)
    }

    /// Returns the state without waiters.
    pub(crate) fn snapshot(&mut self, now: Tick) -> Snapshot {
        let (limit, in_use) = (self.capacity(), self.in_use(now));
        Snapshot {
            limit,
            in_use,
            available: limit.saturating_sub(in_use),
            waiting: 0,
            oldest_wait: None,
        }
    }

    /// Returns the tick at which nothing is in use, if no other call comes: never while there is a
    /// hold.
    fn reset(&self) -> Tick {
        if self.has_holds() {
            return Tick::from_nanos(u64::MAX);
        }
        let others = self.others_use();
        let known = if others.cost > 0 {
            others.until
        } else {
            Tick::default()
        };
        self.rule.reset().max(self.paused_until).max(known)
    }

    /// Returns the cost that counts beside the charges.
    fn beside(&self) -> u64 {
        let beside = self.held_cost() + u128::from(self.others_use().cost);
        u64::try_from(beside).unwrap_or(u64::MAX)
    }

    /// Does the same as [`due`](Self::due), for a rule and a held cost.
    fn due_by(&self, held: u128, cost: u64, due: impl Fn(u64) -> Tick) -> Tick {
        if self.is_free() {
            return not_before(due(cost), self.paused_until);
        }
        let (others, capacity) = (self.others_use(), self.capacity());
        let due_beside = |others: u64| {
            let beside = held + u128::from(others);
            let all = u64::try_from(beside + u128::from(cost)).unwrap_or(u64::MAX);
            if beside == 0 || all <= capacity {
                not_before(due(all), self.paused_until)
            } else {
                Tick::from_nanos(u64::MAX)
            }
        };
        if others.cost == 0 {
            return due_beside(0);
        }
        // When the use by others is no longer known, one call goes alone, to learn it from the
        // response.
        let rest = capacity.saturating_sub(cost);
        let later = match others.growth {
            None => others.cost.min(rest),
            Some(_) => 0,
        };
        due_beside(others.cost).min(due_beside(later).max(others.until))
    }
}

/// Changes.
impl Ledger {
    /// Charges now, with any backlog.
    pub(crate) fn charge(&mut self, now: Tick, cost: u64) -> Receipt {
        self.charge_call(cost, |rule| rule.charge(now, cost))
    }

    /// Charges a call if it is due, at the tick when it became due. That tick is not before
    /// `after`, and not longer ago than the limiter `makes_up` for: a number of tokens, or that of
    /// the rule.
    pub(crate) fn grant(
        &mut self,
        now: Tick,
        cost: u64,
        after: Tick,
        makes_up: Option<u64>,
    ) -> Option<Receipt> {
        let due = self.due(0, cost);
        if !due.has_come(now) {
            return None;
        }
        let earliest = match makes_up {
            Some(0) => now,
            _ => self.rule.earliest(now, makes_up),
        };
        let at = granted_at(due, earliest.max(after), now);
        Some(self.charge_call(cost, |rule| rule.grant(at, cost)))
    }

    /// Makes the charge of a call, and keeps what everything beside the rule has to know of it.
    fn charge_call(
        &mut self,
        cost: u64,
        charge: impl FnOnce(&mut RuleState) -> Receipt,
    ) -> Receipt {
        let receipt = if self.is_free() {
            charge(&mut self.rule)
        } else {
            let receipt = self.charge_rule(cost, charge);
            self.remember(&receipt);
            receipt
        };
        Receipt {
            generation: self.generation,
            ..receipt
        }
    }

    /// Makes a charge, and keeps what [holds](mod@held) and a [pause](mod@pause) have to know of it.
    /// A pause keeps the whole cost, also if there is no time for it before the last tick.
    fn charge_rule(
        &mut self,
        cost: u64,
        charge: impl FnOnce(&mut RuleState) -> Receipt,
    ) -> Receipt {
        let end = self.rule.tat().end();
        let receipt = charge(&mut self.rule);
        let params = self.rule.params();
        if let Some(held) = self.held.as_mut().filter(|held| !held.is_empty()) {
            let charged = params.units_of(receipt.cost);
            held.add_idle(u64::MAX, self.rule.tat().end() - end - charged);
        }
        if let Some(pause) = &mut self.pause {
            pause.forced = pause.forced.saturating_add(params.units_of(cost));
        }
        receipt
    }

    /// Gives back up to `cost` of a charge whose call is not made, except the part that time has
    /// paid off.
    pub(crate) fn give_back(&mut self, charge: &Receipt, cost: u64, now: Tick) {
        self.forget_call(charge, i128::from(cost));
        self.return_to_rule(charge, cost, now);
    }

    /// Does the same for a charge that continues to count in another way.
    fn return_to_rule(&mut self, charge: &Receipt, cost: u64, now: Tick) {
        // This is a charge of another limiter, or one under another quota, which was carried over
        // with the whole spent part.
        if charge.generation != self.generation {
            return;
        }
        if let Some(pause) = &mut self.pause {
            // Time pays off nothing of it until the end.
            let units = self.rule.params().units_of(cost.min(charge.cost));
            pause.forced = pause.forced.saturating_sub(units);
        }
        if self.rule.give_back(charge, cost, now) == 0 {
            return;
        }
        if self.rule.first_ticket() > MOST_REFUNDED {
            self.begin_generation();
        }
        // A decision that has read the old sum of refunds must now fail, even if the word has
        // become the same again.
        self.renewed = true;
    }

    /// Changes the quota. One that means the same as the old one is only stored.
    pub(crate) fn set_quota(&mut self, quota: Quota, how: QuotaChange, now: Tick) {
        let [old, new] = [self.quota, quota].map(|quota| self.algorithm.promise(quota));
        self.quota = quota;
        if old.params() == new.params() {
            return;
        }
        if let Some(pause) = &mut self.pause {
            pause.forced = how.carried(pause.forced, &old.params(), &new.params());
        }
        self.before_pause(now, |rule| rule.change(&new, how, now));
        if let Some(held) = self.held.as_mut().filter(|held| !held.is_empty()) {
            held.forget_idle();
            self.before_pause(now, |rule| rule.raise(now));
        }
        self.begin_generation();
    }

    /// Starts to number charges again: earlier charges can no longer be refunded.
    fn begin_generation(&mut self) {
        self.generation = fresh_generation();
        self.rule.forget_receipts();
        if let Some(others) = &mut self.others {
            others.forget_charges();
        }
        self.renewed = true;
    }
}

/// The word, and decisions without the lock.
impl Ledger {
    /// Takes over the word in the state in which decisions without the lock left it, and stops
    /// them.
    pub(crate) fn lock(&mut self, word: Tat) {
        self.rule.lock(word);
    }

    /// Brings what changes by itself to a tick. Returns a tick if calls may be due from that one
    /// on, and were not before.
    pub(crate) fn advance(&mut self, now: Tick) -> Option<Tick> {
        let due = self.end_old_holds(now);
        self.end_pause(now);
        if let Some(others) = &mut self.others {
            others.advance(now);
        }
        due
    }

    /// Returns whether the clock seems to have been set back. A pause leads to the same state of
    /// the rule, and comparing clocks costs more than a refusal.
    pub(crate) fn is_ahead_of(&self, now: Tick) -> bool {
        self.rule.is_ahead_of(now) && self.paused_until <= now
    }

    /// Returns whether the rule alone may decide, without the lock.
    pub(crate) fn is_free(&self) -> bool {
        let has_holds = self.held.as_ref().is_some_and(|held| !held.is_empty());
        self.pause.is_none() && !has_holds && self.others.is_none()
    }

    /// Returns whether every call is admitted, and nothing is recorded for it.
    pub(crate) fn admits_all(&self) -> bool {
        self.is_free() && self.quota.is_unlimited()
    }

    /// Returns whether the word decides, without the lock.
    pub(crate) fn is_in_word(&self) -> bool {
        self.rule.is_in_word()
    }

    /// Returns the word, for decisions without the lock.
    pub(crate) fn word(&self) -> Tat {
        self.rule.tat()
    }

    /// Allows decisions without the lock again, after the word was published.
    pub(crate) fn unlock(&self) {
        self.rule.unlock();
    }

    /// Returns whether the word has changed its meaning since the last call.
    pub(crate) fn take_renewed(&mut self) -> bool {
        std::mem::take(&mut self.renewed)
    }

    /// Returns the parameters of decisions without the lock, or at least the capacity.
    pub(crate) fn params(&self) -> Params {
        self.rule.params()
    }

    /// Returns the base ticket of decisions without the lock.
    pub(crate) fn first_ticket(&self) -> u64 {
        self.rule.first_ticket()
    }

    /// Returns the ring that decides calls of cost 1 without the lock, if the word does not.
    pub(crate) fn ring(&self) -> Option<&Arc<Ring>> {
        self.rule.ring()
    }
}

/// A forecast of what is due after foreseen charges, while decisions without the lock are stopped.
/// It assumes that all holds are settled for nothing.
pub(crate) struct Forecast<'a> {
    ledger: &'a Ledger,
    rule: rule_state::Forecast<'a>,
}

impl Forecast<'_> {
    /// Does the same as [`Ledger::due_without_holds`].
    pub(crate) fn due(&self, behind: u128, cost: u64) -> Tick {
        self.ledger
            .due_by(0, cost, |cost| self.rule.due(behind, cost))
    }

    /// Foresees the charge that [`Ledger::grant`] makes at the tick when a call is due.
    pub(crate) fn grant(&mut self, at: Tick, cost: u64) {
        self.rule.grant(at, cost);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn is_ahead_of_a_tick_in_a_pause_is_false() {
        let quota = Quota::per_second(10).burst(5);
        let mut ledger = Ledger::new(Algorithm::Gcra, quota, Origin::NONE, 1);
        let [now, end] = [1, 60_000_000_000].map(Tick::from_nanos);
        ledger.pause(end.saturating_since(now), now);
        assert!(!ledger.is_ahead_of(now));
        ledger.paused_until = Tick::default();
        assert!(ledger.is_ahead_of(now));
        // The clock was set back from a time later than the end.
        ledger.charge(Tick::from_nanos(90_000_000_000), 5);
        assert!(ledger.is_ahead_of(end));
    }

    #[test]
    fn pause_beside_the_use_by_others_spends_no_more_than_the_burst() {
        let mut ledger = Ledger::new(
            Algorithm::SlidingLog,
            Quota::per_second(10),
            Origin::NONE,
            1,
        );
        ledger.lock(ledger.word());
        let [now, end] = [5_000, 5_500].map(|millis| Tick::from_nanos(millis * 1_000_000));
        let charge = ledger.charge(now, 1);
        ledger.follow(&charge, 6, Duration::from_secs(1), now);
        assert_eq!(ledger.in_use(now), 6);
        ledger.pause(end.saturating_since(now), now);
        ledger.advance(end);
        // One token is left.
        assert_eq!(ledger.in_use(end), 9);
    }
}
