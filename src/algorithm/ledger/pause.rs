//! Pauses, and the burst that is spent at their end.
//!
//! 1. A pause spends the burst as of its end, except for one token, and begins a generation:
//!    earlier charges can no longer be refunded. The longest pause wins.
//! 2. The ledger keeps the state of the rule without the pause, and the charges that were forced
//!    since it began. So whatever changes before the end is computed from there: the usage of an
//!    earlier hold, another quota, another end, so that a longer pause and the first are one. Then the burst is spent again, and the forced
//!    charges come on top. The part that a pause has spent is no backlog, so it is not scaled.
//! 3. When a pause is over, what it has spent counts as idle time before it for the
//!    [holds](super::held) that are still open: they find the state that they would have found if
//!    their usage had been known before the pause.

use std::time::Duration;

use super::Ledger;
use super::paused::Paused;
use crate::algorithm::params::tick_or_never;
use crate::algorithm::rule_state::{RuleState, Saved};
use crate::time::Tick;

impl Ledger {
    /// Returns the end of a pause, if there is one.
    pub(crate) fn paused_until(&self) -> Option<Tick> {
        self.pause.as_ref().map(|_| self.paused_until)
    }

    /// Pauses for a duration, unless there is a pause for longer.
    pub(crate) fn pause(&mut self, duration: Duration, now: Tick) {
        let until = now.saturating_add(duration);
        let end = end_of_pause(self.paused_until, until, now);
        if end == self.paused_until {
            return;
        }
        self.paused_until = end;
        let first_hold = self.held.as_ref().map_or(0, |held| held.next);
        self.pause.get_or_insert_with(|| {
            Box::new(Paused {
                before: self.rule.save(),
                forced: 0,
                first_hold,
            })
        });
        self.before_pause(now, |_| ());
        self.begin_generation();
        // The whole burst is spent, so the use by others is already included.
        if let Some(others) = &mut self.others {
            others.forget_use();
        }
    }

    /// Ends a pause, as if it had been asked to end now.
    pub(crate) fn resume(&mut self, now: Tick) {
        if self.pause.is_some() {
            self.paused_until = now;
            self.before_pause(now, |_| ());
            self.end_pause(now);
            self.begin_generation();
        }
    }

    /// Changes the rule, as if that had been done before the pause, if there is one.
    pub(super) fn before_pause<R>(
        &mut self,
        now: Tick,
        change: impl FnOnce(&mut RuleState) -> R,
    ) -> R {
        let Some(pause) = &mut self.pause else {
            return change(&mut self.rule);
        };
        self.rule.restore(&pause.before, now);
        let changed = change(&mut self.rule);
        pause.before = self.rule.save();
        self.rule.spend_burst(self.paused_until);
        self.rule.owe(now, pause.forced);
        changed
    }

    /// Forgets a pause whose end has come.
    pub(super) fn end_pause(&mut self, now: Tick) {
        let Some(pause) = self.pause.take_if(|_| has_ended(self.paused_until, now)) else {
            return;
        };
        if let (Some(held), Saved::Word(before)) = (&mut self.held, pause.before) {
            let spent = self.rule.tat().end().saturating_sub(pause.forced);
            held.add_idle(pause.first_hold, spent.saturating_sub(before.end()));
        }
    }
}

/// Returns the end of a pause after a request to pause until a tick: the same as before, if the tick has come or the
/// present pause is longer.
pub(in crate::algorithm) const fn end_of_pause(present: Tick, until: Tick, now: Tick) -> Tick {
    let until = until.as_nanos();
    if until > now.as_nanos() && until > present.as_nanos() {
        tick_or_never(until)
    } else {
        present
    }
}

/// Returns whether a pause with this end is over.
pub(in crate::algorithm) const fn has_ended(end: Tick, now: Tick) -> bool {
    end.as_nanos() <= now.as_nanos()
}
