//! Taking a [state](LimiterState) of a ledger, and making a ledger of a state.
//!
//! A ledger that is made from a state has the ticks of the state, and [moves](Ledger::shift) to those of a clock.

use super::Ledger;
use super::others::Others;
use super::paused::Paused;
use crate::algorithm::gcra::Origin;
use crate::algorithm::params::tick_or_never;
use crate::algorithm::rule_state::RuleState;
use crate::algorithm::state::{LimiterState, PauseState, Restored, UNUSED};
use crate::algorithm::{Algorithm, QuotaChange};
use crate::quota::Quota;
use crate::time::Tick;

impl Ledger {
    /// Returns the state at a tick, as if all holds had been dropped.
    pub(crate) fn state(&mut self, now: Tick) -> LimiterState {
        let state = self.state_with_holds(now);
        let Some(held) = self.held.as_ref().filter(|held| !held.is_empty()) else {
            return state;
        };
        let mut copy = Self::of_state(&state);
        copy.held = Some(held.clone());
        if let (Some(copy), Some(pause)) = (&mut copy.pause, &self.pause) {
            copy.first_hold = pause.first_hold;
        }
        copy.end_holds(now);
        copy.state_with_holds(now)
    }

    fn state_with_holds(&mut self, now: Tick) -> LimiterState {
        let before = self
            .pause
            .as_ref()
            .map(|pause| self.rule.owed_of(&pause.before));
        LimiterState {
            algorithm: self.algorithm,
            quota: self.quota,
            epoch: 0,
            at: now.as_nanos(),
            generation: UNUSED,
            owed: before.unwrap_or_else(|| self.rule.owed()),
            pause: self.pause.as_ref().map(|pause| PauseState {
                until: self.paused_until.as_nanos(),
                forced: pause.forced,
            }),
            others: self.others.as_ref().map(|others| others.used),
        }
    }

    /// Creates the ledger of a state, in the time of the state.
    pub(crate) fn of_state(state: &LimiterState) -> Self {
        let (now, promise) = (
            Tick::from_nanos(state.at),
            state.algorithm.promise(state.quota),
        );
        let rule = RuleState::of_owed(&state.owed, &promise, now);
        let mut ledger = Self::of_rule(state.algorithm, rule, state.quota, state.generation);
        ledger.lock(ledger.word());
        ledger.others = state.others.map(|used| Box::new(Others::of_use(used)));
        if let Some(pause) = state.pause {
            ledger.pause_again(Tick::from_nanos(pause.until), pause.forced, now);
        }
        ledger
    }

    /// Creates the ledger that goes on from a state after some time, at a tick, and under a quota. With an `origin`, its
    /// windows begin at multiples of their length since that tick.
    pub(crate) fn restored(
        restored: &Restored,
        (quota, how): (Quota, QuotaChange),
        origin: Origin,
        now: Tick,
        generation: u64,
    ) -> Self {
        let mut ledger = Self::of_state(&restored.state);
        ledger.generation = generation;
        ledger.shift(restored.shift_to(now), now);
        if let Some(origin) = origin.get() {
            ledger.rule.align(origin, now);
        }
        ledger.advance(now);
        ledger.set_quota(quota, how, now);
        ledger
    }

    /// Moves everything along the time by this number of nanoseconds. The present is then this tick. Requires that
    /// there are no holds.
    pub(crate) fn shift(&mut self, by: i64, now: Tick) {
        let shifted = |tick: Tick| {
            if tick.is_never() {
                return tick;
            }
            tick_or_never(tick.as_nanos().saturating_add_signed(by))
        };
        let until = shifted(self.paused_until);
        self.paused_until = Tick::default();
        match self.pause.take().filter(|_| until > now) {
            Some(pause) => {
                self.rule.restore(&pause.before, now);
                self.rule.shift(by, now);
                self.pause_again(until, pause.forced, now);
            }
            None => self.rule.shift(by, now),
        }
        if let Some(others) = &mut self.others {
            others.used.shift(by, shifted(others.used.until));
        }
    }

    /// Begins a pause that has begun before.
    fn pause_again(&mut self, until: Tick, forced: u64, now: Tick) {
        self.paused_until = until;
        self.pause = Some(Box::new(Paused {
            before: self.rule.save(),
            forced,
            first_hold: 0,
        }));
        self.before_pause(now, |_| ());
    }

    /// Changes to the quota of another user of the same state. What was spent under another quota stays spent: as a
    /// time, if a rule decides by the end of the backlog, or else in number.
    pub(crate) fn use_quota(&mut self, quota: Quota, now: Tick) {
        let [old, new] = [self.quota, quota].map(|quota| self.algorithm.promise(quota).params());
        if self.algorithm != Algorithm::Gcra {
            self.set_quota(quota, QuotaChange::KeepSpent, now);
        } else if old != new {
            if let Some(pause) = &mut self.pause {
                pause.forced = QuotaChange::KeepSpent.carried(pause.forced, &old, &new);
            }
            self.before_pause(now, |rule| rule.change_units(&old, new, now));
            self.begin_generation();
        }
        self.quota = quota;
    }

    /// Returns the beginning and the length of the window or step at a tick, if the rule has any.
    pub(crate) fn window_at(&self, now: Tick) -> Option<(i64, u64)> {
        self.rule.window_at(now)
    }
}
