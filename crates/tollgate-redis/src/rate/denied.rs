//! [`DeniedCache`]: the last denial, which decides calls without the server: a cost was denied until a time.
//!
//! 1. A denial holds for every cost that is as high or higher, until its time. It is trusted for
//!    the [recheck](super::RateLimiter::recheck) time at most, and forgotten when a charge is
//!    refunded or the quota changes.
//! 2. Waiters behind the denied one wait longer, at least by the bound of their
//!    [rule](super::rule::Rule::lasting). So a wait that cannot fit its timeout is rejected at
//!    once.
//!
//! Times are arguments: nothing here reads a clock.

use std::time::{Duration, Instant};

use tollgate::{AcquireError, ErrorKind};

use super::charge::{Queue, Source};
use super::options::Options;
use super::rule::Rule;
use crate::queue::MOST_VISITED;

#[derive(Clone, Copy, Debug)]
pub(super) struct Denied {
    pub(super) cost: u64,
    pub(super) rule: Rule,
    /// The earliest time for a call of that cost, unless other calls are faster.
    pub(super) until: Instant,
    /// The time until which the denial is trusted.
    pub(super) believed: Instant,
    /// The time of the next call for the first waiter.
    pub(super) again: Instant,
}

#[derive(Default)]
pub(super) struct DeniedCache {
    denied: Option<Denied>,
    /// The number of times that a denial has been forgotten.
    forgotten: u64,
}

impl DeniedCache {
    /// Forgets the denial, because a charge was refunded or the quota has changed.
    pub(super) fn forget(&mut self) {
        self.denied = None;
        self.forgotten += 1;
    }

    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Takes the result of a call, before which denials were forgotten so many times. A denial from before a
    /// refund, or by another rule, is not valid any more.
    pub(super) fn learn(&mut self, denied: Option<Denied>, forgotten: u64) {
        self.denied = denied.filter(|_| self.forgotten == forgotten);
    }

    /// Takes the result of the fallback.
    pub(super) fn set(&mut self, denied: Option<Denied>) {
        self.denied = denied;
    }

    pub(super) fn is_known(&self, now: Instant) -> bool {
        self.at(now).is_some()
    }

    fn at(&self, now: Instant) -> Option<Denied> {
        self.denied.filter(|denied| denied.believed > now)
    }

    /// Returns the wait of a new caller, if it is known.
    pub(super) fn wait(&self, queue: &Queue, cost: u64, now: Instant) -> Option<Duration> {
        let denied = self.at(now)?;
        let wait = denied.until - now;
        match queue.front() {
            None => (cost >= denied.cost).then_some(wait),
            Some(first) if first.cost < denied.cost => None,
            Some(first) => {
                let behind = queue.total() - u128::from(first.cost) + u128::from(cost);
                Some(wait.saturating_add(denied.rule.lasting(behind)))
            }
        }
    }

    /// Returns whether a caller of this cost would have to wait behind the queue.
    pub(super) fn waits(&self, queue: &Queue, cost: u64, now: Instant) -> bool {
        let first = queue.front().map_or(cost, |first| first.cost);
        self.at(now).is_some_and(|it| first >= it.cost)
    }

    /// Returns when to call again for the queue, if not now.
    pub(super) fn asks_again(&self, queue: &Queue, now: Instant) -> Option<Instant> {
        let first = queue.front()?;
        let denied = self.denied.filter(|denied| first.cost >= denied.cost)?;
        // A caller that only tries does not wait for the next call for the first waiter.
        let waits = denied.again > now && (denied.believed > now || !queue.has_tries());
        waits.then_some(denied.again)
    }

    /// Rejects waiters that try, or whose wait cannot fit, or that are too many beside those that wait elsewhere.
    /// The first `asked` are those of the last call, decided by this source; the others are rejected only by a
    /// denial that is trusted.
    pub(super) fn refuse(
        &self,
        queue: &mut Queue,
        options: &Options,
        mut waiting: usize,
        now: Instant,
        asked: usize,
        source: Source,
    ) {
        let Some(denied) = self.denied else {
            return;
        };
        let is_believed = denied.believed > now;
        let first_wait = denied.until.saturating_duration_since(now);
        // The cost of the waiters between the denied one and this one.
        let mut between = None;
        let behind = queue.len().saturating_sub(MOST_VISITED);
        queue.answer_first(MOST_VISITED, |index, waiter| {
            let cost = u128::from(waiter.cost);
            let wait = match between {
                _ if !is_believed && index >= asked => return None,
                None if waiter.cost < denied.cost => return None,
                None => first_wait,
                Some(between) => first_wait.saturating_add(denied.rule.lasting(between + cost)),
            };
            let fits = |deadline: Instant| deadline.saturating_duration_since(now) >= wait;
            Some(Err(if waiter.tries {
                let source = if index < asked {
                    source
                } else {
                    Source::DeniedCache
                };
                options.denial(source, wait)
            } else if !waiter.deadline.is_none_or(fits) {
                AcquireError::would_take(wait)
            } else if waiting >= options.max_waiters {
                AcquireError::new(ErrorKind::QueueFull)
            } else {
                waiting += 1;
                between = Some(between.map_or(0, |between| between + cost));
                return None;
            }))
        });
        if between.is_some() && behind > 0 {
            let wait = first_wait.saturating_add(denied.rule.lasting(queue.total()));
            let tries = queue.len();
            queue.answer_tries(|_| Err(options.denial(Source::DeniedCache, wait)));
            let stay = behind - (tries - queue.len());
            let excess = (waiting + stay).saturating_sub(options.max_waiters);
            queue.fail_last(excess.min(stay), &AcquireError::new(ErrorKind::QueueFull));
        }
    }
}
