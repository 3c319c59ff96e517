//! The cache of the last denial, which decides calls without the server: a cost was denied until a
//! time.
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

use super::charge::Source;
use super::state::{Options, Queue, RateState};

#[derive(Clone, Copy, Debug)]
pub(super) struct Denied {
    pub(super) cost: u64,
    /// When a call of that cost is not too early, unless other calls are faster.
    pub(super) until: Instant,
    /// The time until which the denial is trusted.
    pub(super) believed: Instant,
    /// When to call again for the first waiter.
    pub(super) again: Instant,
}

/// Returns the wait, longer by a random time of at most `max`.
pub(crate) fn jittered(wait: Duration, max: Duration) -> Duration {
    wait.saturating_add(max.mul_f64(fastrand::f64()))
}

impl Options {
    /// Returns a denial by this source. Its wait is longer by at most the jitter.
    pub(super) fn denial(&self, source: Source, wait: Duration) -> AcquireError {
        source.limited(jittered(wait, self.jitter))
    }
}

impl RateState {
    fn denied_at(&self, now: Instant) -> Option<Denied> {
        self.denied.filter(|denied| denied.believed > now)
    }

    /// Returns how long a new caller would wait, if that is known.
    pub(super) fn wait(&self, queue: &Queue, cost: u64, now: Instant) -> Option<Duration> {
        let denied = self.denied_at(now)?;
        let wait = denied.until - now;
        match queue.front() {
            None => (cost >= denied.cost).then_some(wait),
            Some(first) if first.cost < denied.cost => None,
            Some(first) => {
                let behind = queue.total() - u128::from(first.cost) + u128::from(cost);
                Some(wait.saturating_add(self.rule.lasting(behind)))
            }
        }
    }

    /// Returns whether a new caller would have to wait, while the queue is full.
    pub(super) fn is_full(&self, queue: &Queue, max_waiters: usize, now: Instant) -> bool {
        let waits = |cost| self.denied_at(now).is_some_and(|it| cost >= it.cost);
        queue.len() >= max_waiters.max(1) && queue.front().is_some_and(|first| waits(first.cost))
    }

    /// Returns when to call again for the queue, if not now.
    pub(super) fn asks_again(&self, queue: &Queue, now: Instant) -> Option<Instant> {
        let first = queue.front()?;
        // A caller that tries does not wait until the next call for the first waiter.
        let nobody_tries = || !queue.iter().any(|waiter| waiter.tries);
        let denied = self.denied.filter(|denied| first.cost >= denied.cost)?;
        let waits = denied.again > now && (denied.believed > now || nobody_tries());
        waits.then_some(denied.again)
    }

    /// Rejects waiters that try, or whose wait cannot fit. The first `asked` are those of the last
    /// call, decided by this source; the others are rejected only by a denial that is trusted.
    pub(super) fn refuse(
        &self,
        queue: &mut Queue,
        options: &Options,
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
        let (mut between, mut waiting) = (None, 0);
        queue.answer(|index, waiter| {
            let cost = u128::from(waiter.cost);
            let wait = match between {
                _ if !is_believed && index >= asked => return None,
                None if waiter.cost < denied.cost => return None,
                None => first_wait,
                Some(between) => first_wait.saturating_add(self.rule.lasting(between + cost)),
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
    }
}
