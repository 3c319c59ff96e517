//! What the models have in common, and which of them it is.

use tollgate::{Algorithm, Quota, QuotaChange};

use super::log::Log;
use super::window::Window;
use crate::limiter_world::LAST_TICK;
use crate::limiter_world::model::Booked;

pub(crate) fn nanos(quota: Quota) -> u64 {
    u64::try_from(quota.period().as_nanos()).expect("a quota's period fits")
}

#[derive(Clone, Debug)]
enum State {
    Log(Log),
    Window(Window),
}

/// A model under some quota.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) most: u64,
    pub(crate) period: u64,
    state: State,
}

impl Rule {
    pub(crate) fn new(algorithm: Algorithm, quota: Quota) -> Self {
        let (most, period) = (quota.count(), nanos(quota));
        Self {
            most,
            period,
            state: match algorithm {
                Algorithm::SlidingWindow => State::Window(Window::new(most, period)),
                _ => State::Log(Log::new(most, period)),
            },
        }
    }

    pub(crate) fn is_log(&self) -> bool {
        matches!(self.state, State::Log(_))
    }

    /// What is owed.
    pub(crate) fn used(&self, now: u64) -> u64 {
        let now = now.min(LAST_TICK);
        match &self.state {
            State::Log(log) => log.used(now),
            State::Window(window) => window.used(now),
        }
    }

    pub(crate) fn available(&self, now: u64) -> u64 {
        self.most.saturating_sub(self.used(now))
    }

    /// When so many are admitted, if nobody else comes: more than the limit when nothing is owed.
    pub(crate) fn earliest(&self, now: u64, cost: u64) -> Option<u64> {
        let clipped = now.min(LAST_TICK);
        let found = if cost > self.most {
            return self.reset(now);
        } else {
            match &self.state {
                State::Log(log) => log.earliest(clipped, cost),
                State::Window(window) => window.earliest(clipped, cost),
            }
        };
        found.map(|tick| if tick == clipped { now } else { tick })
    }

    /// The first tick from `now` on at which nothing is owed.
    pub(crate) fn reset(&self, now: u64) -> Option<u64> {
        let reset = match &self.state {
            State::Log(log) => log.reset(),
            State::Window(window) => window.reset(),
        };
        let is_over = reset <= now.min(LAST_TICK);
        if is_over {
            Some(now)
        } else {
            Some(reset).filter(|reset| *reset <= LAST_TICK)
        }
    }

    pub(crate) fn book(&mut self, epoch: usize, number: usize, now: u64, cost: u64) -> Booked {
        let at = now.min(LAST_TICK);
        let cost = match &mut self.state {
            State::Log(log) => log.book(number, at, cost),
            State::Window(window) => window.book(at, cost),
        };
        Booked {
            epoch,
            at,
            cost,
            number,
        }
    }

    pub(crate) fn refund(&mut self, booked: Booked, cost: u64, now: u64) {
        let now = now.min(LAST_TICK);
        match &mut self.state {
            State::Log(log) => log.refund(booked.number, cost, now),
            State::Window(window) => window.refund(booked.at, cost, now),
        }
    }

    pub(crate) fn is_by(&self, quota: Quota) -> bool {
        (self.most, self.period) == (quota.count(), nanos(quota))
    }

    pub(crate) fn change(&mut self, quota: Quota, carry: QuotaChange, now: u64) {
        let now = now.min(LAST_TICK);
        let (used, old, new) = (self.used(now), self.most, quota.count());
        let owed = match carry {
            QuotaChange::Proportional => {
                let owed = (u128::from(used) * u128::from(new)).div_ceil(u128::from(old));
                u64::try_from(owed).expect("small in tests")
            }
            // In a log each is kept.
            QuotaChange::KeepSpent if self.is_log() => used,
            QuotaChange::KeepSpent => used.min(old).min(new) + used.saturating_sub(old),
            _ => unreachable!("there are two ways"),
        };
        let period = nanos(quota);
        (self.most, self.period) = (new, period);
        match &mut self.state {
            State::Log(log) if carry == QuotaChange::KeepSpent => {
                log.go_on(new, period, now);
            }
            State::Log(log) => log.change(new, period, owed, now),
            State::Window(window) => window.change(new, period, owed, now),
        }
    }
}
