//! The line of one limit in this process, and what is known without asking the server.
//!
//! 1. First-in first-out. What is asked of the server is a prefix of the line, and what it grants
//!    is a prefix of that.
//! 2. Whoever gives up is passed over; if the answer comes nevertheless, it is given back.
//! 3. That something was denied until a time holds for all that costs as much or more, until
//!    then; but it is not believed for long. It is forgotten when something is given back, or the
//!    quota changes.
//!
//! Times are given, none is read here.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tollgate::{AcquireError, ErrorKind};

use super::charge::{Charge, Source};
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
    /// Until when that is believed.
    pub(super) believed: Instant,
    /// When to ask again for whoever is in front.
    pub(super) again: Instant,
}

#[derive(Default)]
pub(super) struct Line {
    waiters: VecDeque<Waiter>,
    /// What all of them ask for.
    total: u128,
    denied: Option<Denied>,
    /// How often what was denied has been forgotten.
    pub(super) forgets: u64,
    /// At most so much is added to what those are told who try.
    jitter: Duration,
    /// How many may wait, once it is known that they must.
    max_waiters: usize,
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
    pub(super) fn new(jitter: Duration, max_waiters: usize) -> Self {
        Self {
            jitter,
            max_waiters,
            ..Self::default()
        }
    }

    pub(super) fn len(&self) -> usize {
        self.waiters.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// What the first one asks for.
    pub(super) fn first(&self) -> Option<u64> {
        self.waiters.front().map(|waiter| waiter.cost)
    }

    pub(super) fn costs(&self) -> impl Iterator<Item = u64> {
        self.waiters.iter().map(|waiter| waiter.cost)
    }

    pub(super) fn join(&mut self, waiter: Waiter) {
        self.total += u128::from(waiter.cost);
        self.waiters.push_back(waiter);
    }

    /// Later than that by up to the jitter.
    pub(super) fn jittered(&self, wait: Duration) -> Duration {
        wait.saturating_add(self.jitter.mul_f64(fastrand::f64()))
    }

    fn denied_at(&self, now: Instant) -> Option<Denied> {
        self.denied.filter(|denied| denied.believed > now)
    }

    /// How long somebody would wait for so much who came now, if that is known.
    pub(super) fn wait(&self, rule: &Rule, cost: u64, now: Instant) -> Option<Duration> {
        let denied = self.denied_at(now)?;
        let wait = denied.until - now;
        match self.waiters.front() {
            None => (cost >= denied.cost).then_some(wait),
            Some(first) if first.cost < denied.cost => None,
            // Those behind the one that was denied need as much more.
            Some(first) => {
                let behind = self.total - u128::from(first.cost) + u128::from(cost);
                Some(wait.saturating_add(rule.lasting(behind)))
            }
        }
    }

    /// Whether whoever came now would have to wait, and as many do as may.
    pub(super) fn is_full(&self, now: Instant) -> bool {
        let denied = self.denied_at(now);
        let waits = |first: &Waiter| denied.is_some_and(|denied| first.cost >= denied.cost);
        self.waiters.len() >= self.max_waiters.max(1) && self.waiters.front().is_some_and(waits)
    }

    /// Keeps what is known of whoever is in front, or nothing.
    pub(super) fn learn(&mut self, denied: Option<Denied>) {
        self.denied = denied;
    }

    pub(super) fn forget(&mut self) {
        self.denied = None;
        self.forgets += 1;
    }

    /// Passes over those who gave up; and refuses those who ask for more than goes at once.
    pub(super) fn clear(&mut self, most: u64) {
        let leaves = |waiter: &Waiter| waiter.answer.is_closed() || waiter.cost > most;
        if !self.waiters.iter().any(leaves) {
            return;
        }
        for waiter in std::mem::take(&mut self.waiters) {
            if leaves(&waiter) {
                self.total -= u128::from(waiter.cost);
                let refused = AcquireError::exceeds_capacity(most);
                self.told.push((waiter.answer, Err(refused)));
            } else {
                self.waiters.push_back(waiter);
            }
        }
    }

    /// Refuses those who will not wait, and says what to do.
    pub(super) fn next(&mut self, rule: &Rule, now: Instant, most: usize) -> Next {
        self.refuse(rule, now, 0, Source::Known);
        let Some(first) = self.waiters.front() else {
            return Next::Nothing;
        };
        // Who tries does not wait until it is time to ask for whoever is in front.
        let in_time = self.denied_at(now).is_some() || !self.waiters.iter().any(|it| it.tries);
        let denied = self.denied.filter(|denied| first.cost >= denied.cost);
        if let Some(denied) = denied.filter(|denied| denied.again > now && in_time) {
            return Next::Wait(denied.again);
        }
        Next::Ask(self.costs().take(most).collect())
    }

    /// Refuses whoever is not admitted before they give up, by what is known: the first so many by
    /// this source, as they were asked for just now, and the others if it is believed still.
    pub(super) fn refuse(&mut self, rule: &Rule, now: Instant, asked: usize, source: Source) {
        let Some(denied) = self.denied else {
            return;
        };
        let is_believed = denied.believed > now;
        if !is_believed && asked == 0 {
            return;
        }
        let wait = denied.until.saturating_duration_since(now);
        let (mut behind, mut waiting) = (None, 0);
        for (index, waiter) in std::mem::take(&mut self.waiters).into_iter().enumerate() {
            let wait = match behind {
                // Of this one nothing is known.
                _ if !is_believed && index >= asked => {
                    self.waiters.push_back(waiter);
                    continue;
                }
                None if waiter.cost < denied.cost => {
                    self.waiters.push_back(waiter);
                    continue;
                }
                None => wait,
                Some(before) => wait.saturating_add(rule.lasting(before + u128::from(waiter.cost))),
            };
            let fits = waiter
                .until
                .is_none_or(|until| until.saturating_duration_since(now) >= wait);
            let refused = if waiter.tries {
                let source = if index < asked { source } else { Source::Known };
                source.limited(self.jittered(wait))
            } else if !fits {
                AcquireError::would_take(wait)
            } else if waiting >= self.max_waiters {
                AcquireError::new(ErrorKind::QueueFull)
            } else {
                waiting += 1;
                behind = Some(behind.map_or(0, |before| before + u128::from(waiter.cost)));
                self.waiters.push_back(waiter);
                continue;
            };
            self.total -= u128::from(waiter.cost);
            self.told.push((waiter.answer, Err(refused)));
        }
    }

    /// Grants to those in front, who are still there: nobody else takes from the line.
    pub(super) fn grant(&mut self, charges: impl IntoIterator<Item = Charge>) {
        for charge in charges {
            let waiter = self.waiters.pop_front().expect("it was asked for them");
            self.total -= u128::from(waiter.cost);
            self.told.push((waiter.answer, Ok(charge)));
        }
    }

    /// Refuses the first so many.
    pub(super) fn fail(&mut self, count: usize, error: &AcquireError) {
        let count = count.min(self.waiters.len());
        for waiter in self.waiters.drain(..count) {
            self.total -= u128::from(waiter.cost);
            self.told.push((waiter.answer, Err(error.clone())));
        }
    }

    /// Refuses everybody.
    pub(super) fn fail_all(&mut self, error: &AcquireError) {
        self.fail(self.waiters.len(), error);
    }

    pub(super) fn close(&mut self) {
        self.fail_all(&AcquireError::new(ErrorKind::Closed));
    }
}
