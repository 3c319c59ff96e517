//! By which rule a limiter decides, and what that remembers beside the [word](super::cell).
//!
//! 1. The value of the word is a [debt](Debt), the number of those admitted in a
//!    [window](window), or the place in a [log](log) that is next. Everything else is memory,
//!    which only the holder of the lock writes, while the word is held; but for the places of a log.
//! 2. Whatever changes what the value means begins an epoch, so that a decision which was prepared
//!    before fails.
//! 3. What is here is for the holder of the lock. It may look while others go on deciding, and then
//!    sees what was true at some moment since.

mod log;
mod refund;
mod window;

use std::time::Duration;

use self::log::Log;
use self::window::WindowMemory;
use super::cell::Seen;
use super::core::{Core, Decided};
use super::options::{Carry, Oversize};
use crate::algorithm::{Algorithm, Debt, Limits};
use crate::decision::Decision;
use crate::quota::Quota;
use crate::time::{Counter, Tick};

/// What a rule remembers beside the word. Where all that is owed is in the word there is none.
pub(super) enum Memory {
    Window(WindowMemory),
    Log(Log),
}

impl Memory {
    /// With the counter by which tries are decided, if there is nothing else to be heeded.
    pub(super) fn new(
        algorithm: Algorithm,
        quota: Quota,
        plain: Option<Counter>,
    ) -> Option<Box<Self>> {
        let memory = match algorithm {
            Algorithm::Gcra
            | Algorithm::TokenBucket
            | Algorithm::FixedWindow
            | Algorithm::SubInterval { .. } => return None,
            Algorithm::SlidingWindow => Self::Window(WindowMemory::new(quota, plain)),
            Algorithm::SlidingLog => Self::Log(Log::new(quota, plain, false)),
            Algorithm::CompactLog => Self::Log(Log::new(quota, plain, true)),
        };
        Some(Box::new(memory))
    }
}

impl Core {
    /// Decides without the lock at a tick that was read just before.
    pub(super) fn decide_by_rule(&self, cost: u64, now: Tick) -> Decided {
        match self.rule.as_deref() {
            None => self.decide::<true>(cost, now),
            Some(Memory::Window(memory)) => self.decide_by_window(memory, cost, now),
            Some(Memory::Log(log)) => self.decide_by_log(log, cost, now),
        }
    }

    /// From which unit on somebody could be admitted who comes after `before` others: at the
    /// earliest, if there are any.
    pub(super) fn due(&self, limits: &Limits, seen: Seen, before: u128, cost: u64) -> u64 {
        let alone = cost > limits.burst() && self.config.oversize == Oversize::Debt;
        match self.rule.as_deref() {
            None => {
                let before = before.saturating_mul(u128::from(limits.interval));
                let before = u64::try_from(before).unwrap_or(u64::MAX);
                let start = seen.value().saturating_add(before);
                if alone {
                    start
                } else {
                    let end = start.saturating_add(limits.of(cost));
                    end.saturating_sub(limits.tolerance)
                }
            }
            Some(Memory::Window(memory)) => memory.due(seen, before, cost, alone),
            Some(Memory::Log(log)) => log.held(seen, self.clock()).due(before, cost, alone),
        }
    }

    /// From which unit on somebody could be admitted who comes after these others. Takes a step for
    /// each.
    pub(super) fn due_behind(
        &self,
        limits: &Limits,
        seen: Seen,
        others: impl Iterator<Item = u64>,
        cost: u64,
    ) -> u64 {
        match self.rule.as_deref() {
            None if limits.step == 0 => self.due(limits, seen, others.map(u128::from).sum(), cost),
            None => {
                let then = |seen: Seen, cost| {
                    let due = limits.reached(self.due(limits, seen, 0, cost));
                    let debt = Debt::until(seen.value().max(due).saturating_add(cost));
                    seen.with(debt.end())
                };
                self.due(limits, others.fold(seen, then), 0, cost)
            }
            Some(Memory::Window(memory)) => memory.due_behind(seen, others, cost),
            Some(Memory::Log(log)) => log.held(seen, self.clock()).due_behind(others, cost),
        }
    }

    /// Charges so much at a unit, whatever is owed, and says how much fitted. Only held.
    pub(super) fn book(&self, limits: &Limits, seen: Seen, unit: u64, cost: u64) -> (Seen, u64) {
        match self.rule.as_deref() {
            None => {
                let (debt, fitted) = seen.debt().charge(limits, unit, cost);
                (seen.with(debt.end()), fitted)
            }
            Some(Memory::Window(memory)) => memory.book(seen, unit, cost),
            Some(Memory::Log(log)) => log.held(seen, self.clock()).book(unit, cost),
        }
    }

    /// What is owed at a unit.
    pub(super) fn owed(&self, seen: Seen, unit: u64) -> u64 {
        match self.rule.as_deref() {
            None => seen.debt().at(unit),
            Some(Memory::Window(memory)) => memory.owed(seen, unit),
            Some(Memory::Log(log)) => log.held(seen, self.clock()).owed(unit),
        }
    }

    /// From which unit on nothing is owed.
    fn reset(&self, seen: Seen) -> u64 {
        match self.rule.as_deref() {
            None => seen.value(),
            Some(Memory::Window(memory)) => memory.reset(seen),
            Some(Memory::Log(log)) => log.held(seen, self.clock()).reset(),
        }
    }

    /// Whether it looks as if the clock had been set back: so much is seldom owed.
    pub(super) fn looks_behind(&self, limits: &Limits, seen: Seen, now: Tick) -> bool {
        let unit = limits.at(now);
        match self.rule.as_deref() {
            None => seen.debt().at(unit) > limits.tolerance,
            Some(Memory::Window(memory)) => memory.looks_behind(seen, unit),
            Some(Memory::Log(log)) => log.held(seen, self.clock()).looks_behind(unit),
        }
    }

    /// How things stand at a tick.
    pub(super) fn decision(
        &self,
        limits: &Limits,
        seen: Seen,
        now: Tick,
        retry_after: Duration,
    ) -> Decision {
        let owed = self.owed(seen, limits.at(now));
        let reset = self.tick_at(self.reset(seen));
        Decision::new(limits, owed, reset, now, retry_after)
    }

    /// Whether a quota is just what there is, perhaps in other words. Under the lock.
    pub(super) fn is_limited_by(&self, old: &Limits, quota: Quota) -> bool {
        let (new, inverse) = self.config.algorithm.limits(quota);
        let same_period = match self.rule.as_deref() {
            None => inverse.of(old) == self.limits.inverse::<true>(),
            Some(Memory::Window(memory)) => memory.has_period(quota),
            Some(Memory::Log(log)) => log.has_period(quota),
        };
        same_period && new.starting(old.start) == *old
    }

    /// Changes the quota, and what is owed with it. Only held.
    pub(super) fn change(
        &self,
        old: &Limits,
        seen: Seen,
        quota: Quota,
        carry: Carry,
        now: Tick,
    ) -> Seen {
        let (new, inverse) = self.config.algorithm.limits(quota);
        // A step that has begun goes on: what is carried over counts for all of it, and between two
        // that begin there is never less time than a step takes before or after the change.
        let begun = match old.step {
            _ if self.config.one_of_many => Tick::default(),
            0 => now,
            _ => self.tick_at(old.at(now)),
        };
        let new = new.starting(begun.as_nanos());
        let owed = carry.owed(
            self.owed(seen, old.at(now)),
            [old.tolerance, new.tolerance],
            [old.interval, new.interval],
        );
        self.limits.store(new, inverse.of(&new));
        let unit = new.at(now);
        let changed = match self.rule.as_deref() {
            None => seen.with(Debt::until(unit.saturating_add(owed)).end()),
            Some(Memory::Window(memory)) => memory.change(seen, quota, owed, unit),
            Some(Memory::Log(log)) => {
                let owed = (carry != Carry::Additive).then_some(owed);
                log.change(seen, self.clock(), quota, owed, unit)
            }
        };
        changed.next_epoch()
    }

    /// Has steps begin at a tick, with as much that is owed, if time goes in steps. Only held, and
    /// then a generation begins.
    pub(super) fn begin_steps(&self, seen: Seen, now: Tick) -> Seen {
        let old = self.limits.load::<true>();
        let new = old.starting(now.as_nanos());
        if new == old {
            return seen;
        }
        let owed = seen.debt().at(old.at(now));
        self.limits
            .store(new, self.limits.inverse::<true>().of(&new));
        seen.with(Debt::until(new.at(now).saturating_add(owed)).end())
    }

    /// Forgets all that is owed. Only held.
    pub(super) fn forget(&self, seen: Seen) -> Seen {
        let fresh = match self.rule.as_deref() {
            None => self.begin_steps(seen, Tick::default()).with(0),
            Some(Memory::Window(memory)) => memory.forget(seen),
            Some(Memory::Log(log)) => log.held(seen, self.clock()).forget(),
        };
        fresh.next_epoch()
    }

    /// What a nominal time of so many tokens is, in units.
    pub(super) fn span(&self, limits: &Limits, tokens: u64) -> u64 {
        match self.rule.as_deref() {
            None => limits.of(tokens),
            Some(Memory::Window(memory)) => memory.span(tokens),
            Some(Memory::Log(log)) => log.span(tokens),
        }
    }

    /// The tokens of so many nanoseconds, rounded down.
    pub(super) fn tokens_in(&self, limits: &Limits, nanos: u64) -> u64 {
        match self.rule.as_deref() {
            None => limits.tokens(limits.at(Tick::from_nanos(nanos))),
            Some(Memory::Window(memory)) => memory.tokens_in(nanos),
            Some(Memory::Log(log)) => log.tokens_in(nanos),
        }
    }
}

/// How long so many of a number in a period take, on the whole.
fn span(tokens: u64, count: u64, period: u64) -> u64 {
    let nanos = (u128::from(tokens) * u128::from(period)).div_ceil(u128::from(count));
    u64::try_from(nanos).unwrap_or(u64::MAX)
}

/// How many of a number in a period come in so many nanoseconds, on the whole.
fn tokens_in(nanos: u64, count: u64, period: u64) -> u64 {
    let tokens = u128::from(nanos) * u128::from(count) / u128::from(period);
    u64::try_from(tokens).unwrap_or(u64::MAX)
}
