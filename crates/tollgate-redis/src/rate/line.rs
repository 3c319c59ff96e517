//! The line of one limit in this process, and what is known without asking the server.
//!
//! 1. First-in first-out. What is asked of the server is a prefix of the line, and what it grants
//!    is a prefix of that.
//! 2. Whoever gives up is passed over; if the answer comes nevertheless, it is given back.
//! 3. That something was denied until a time holds for all that costs as much or more, until
//!    then. It is forgotten when something is given back, or the quota changes.
//!
//! Times are given, none is read here.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tollgate::{AcquireError, ErrorKind};

use super::charge::Charge;
use super::rule::Rule;

pub(super) type Answer = crate::wait::Answer<Charge>;

/// Somebody who waits, or tries.
pub(super) struct Waiter {
    pub(super) cost: u64,
    /// Wants an answer now.
    pub(super) tries: bool,
    /// Will not wait for longer.
    pub(super) until: Option<Instant>,
    pub(super) answer: oneshot::Sender<Answer>,
}

/// Something was denied.
#[derive(Clone, Copy, Debug)]
pub(super) struct Denied {
    pub(super) cost: u64,
    /// Nothing of that cost is admitted before.
    pub(super) until: Instant,
    /// When to ask again for whoever is in front: not before it is admitted.
    pub(super) again: Instant,
}

#[derive(Default)]
pub(super) struct Line {
    pub(super) waiters: VecDeque<Waiter>,
    pub(super) denied: Option<Denied>,
    /// How often what was denied has been forgotten.
    pub(super) forgets: u64,
    /// Answers that are given once the lock is gone, as they wake somebody.
    pub(super) told: Vec<(oneshot::Sender<Answer>, Answer)>,
}

/// What to do next for the line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nobody is in it.
    Nothing,
    /// Ask for these costs.
    Ask(Vec<u64>),
    /// Look again then.
    Wait(Instant),
    /// Take so many ahead.
    TakeAhead(u64),
}

impl Line {
    /// How long somebody would wait for so much who came now, if that is known.
    pub(super) fn wait(&self, rule: &Rule, cost: u64, now: Instant) -> Option<Duration> {
        let denied = self.denied.filter(|denied| denied.until > now)?;
        let wait = denied.until - now;
        match self.waiters.front() {
            None => (cost >= denied.cost).then_some(wait),
            Some(first) if first.cost < denied.cost => None,
            // Those behind the one that was denied need as much more.
            Some(_) => {
                let behind = self.waiters.iter().skip(1);
                let behind = behind.fold(cost, |sum, waiter| sum.saturating_add(waiter.cost));
                Some(wait.saturating_add(rule.lasting(behind)))
            }
        }
    }

    /// Passes over those who gave up.
    pub(super) fn clear(&mut self) {
        self.waiters.retain(|waiter| !waiter.answer.is_closed());
    }

    /// Refuses those who will not wait, and says what to do.
    pub(super) fn next(&mut self, rule: &Rule, now: Instant, most: usize) -> Next {
        if let Some(denied) = self.denied.filter(|denied| denied.until > now) {
            self.refuse(rule, denied, now);
        } else {
            self.denied = None;
        }
        let Some(first) = self.waiters.front() else {
            return Next::Nothing;
        };
        if let Some(denied) = self.denied.filter(|denied| first.cost >= denied.cost) {
            return Next::Wait(denied.again);
        }
        let costs = self.waiters.iter().map(|waiter| waiter.cost);
        Next::Ask(costs.take(most).collect())
    }

    /// Refuses whoever is not admitted before they give up.
    fn refuse(&mut self, rule: &Rule, denied: Denied, now: Instant) {
        let wait = denied.until - now;
        let mut behind = None;
        let mut kept = VecDeque::with_capacity(self.waiters.len());
        for waiter in self.waiters.drain(..) {
            let wait = match behind {
                // Of this one nothing is known.
                None if waiter.cost < denied.cost => {
                    kept.push_back(waiter);
                    continue;
                }
                None => wait,
                Some(before) => {
                    wait.saturating_add(rule.lasting(waiter.cost.saturating_add(before)))
                }
            };
            let fits = waiter.until.is_none_or(|until| until - now >= wait);
            if waiter.tries {
                let refused = Err(AcquireError::limited(wait));
                self.told.push((waiter.answer, refused));
            } else if !fits {
                let refused = Err(AcquireError::would_take(wait));
                self.told.push((waiter.answer, refused));
            } else {
                behind = Some(behind.map_or(0, |before: u64| before.saturating_add(waiter.cost)));
                kept.push_back(waiter);
            }
        }
        self.waiters = kept;
    }

    /// Grants to those in front, who are still there: nobody else takes from the line.
    pub(super) fn grant(&mut self, charges: impl IntoIterator<Item = Charge>) {
        for charge in charges {
            let waiter = self.waiters.pop_front().expect("it was asked for them");
            self.told.push((waiter.answer, Ok(charge)));
        }
    }

    /// Refuses the first so many.
    pub(super) fn fail(&mut self, count: usize, error: &AcquireError) {
        let count = count.min(self.waiters.len());
        for waiter in self.waiters.drain(..count) {
            self.told.push((waiter.answer, Err(error.clone())));
        }
    }

    pub(super) fn close(&mut self) {
        let all = self.waiters.len();
        self.fail(all, &AcquireError::new(ErrorKind::Closed));
    }
}
