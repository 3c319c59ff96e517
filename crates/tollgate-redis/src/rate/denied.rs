//! [`DeniedCache`]: the last denial, which decides calls without the server: a cost was denied until a time; and the
//! last failure, after which nobody calls again until a time.
//!
//! 1. A denial holds for every cost that is as high or higher, until its time. It is trusted for
//!    the [recheck](super::RateLimiter::recheck) time at most, and forgotten when a charge is
//!    refunded or the quota changes.
//! 2. Waiters behind the denied one wait longer, at least by the bound of their
//!    [rule](super::rule::Rule::lasting). So a wait that cannot fit its timeout is rejected at
//!    once.
//! 3. Callers that try are denied. Those of a set have charges of some limits, so they are no concern of a denial
//!    ([`DENIES_TRIES`](super::Charging::DENIES_TRIES)).
//!
//! Times are arguments: nothing here reads a clock.

use std::time::{Duration, Instant};

use tollgate::{AcquireError, ErrorKind};

use super::charge::Source;
use super::options::{Options, SOON};
use super::rule::Rule;
use crate::queue::{MOST_VISITED, WaitQueue};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Denied {
    pub(crate) cost: u64,
    pub(crate) rule: Rule,
    /// The earliest time for a call of that cost, unless other calls are faster.
    pub(crate) until: Instant,
    /// The time until which the denial is trusted.
    pub(crate) believed: Instant,
    /// The time of the next call for the first waiter.
    pub(crate) again: Instant,
}

impl Denied {
    /// Returns the denial of a call by a rule, which was sent at a time, and whose reply told the wait. For a rule that
    /// reserves turns the next call is made at once.
    pub(crate) fn of(
        options: &Options,
        cost: u64,
        rule: Rule,
        wait: Duration,
        [sent, answered]: [Instant; 2],
    ) -> Self {
        Self {
            cost,
            rule,
            // The moment at which the server computed this wait is unknown. Counted from the reply,
            // it is long enough.
            until: answered + wait,
            // Counted from the moment when the call was sent, it is not too long, so no caller is
            // denied without need.
            believed: sent + wait.min(options.recheck),
            again: if rule.is_reserved() {
                answered
            } else {
                options.jittered(answered + wait.min(options.recheck.max(SOON)))
            },
        }
    }
}

#[derive(Default)]
pub(crate) struct DeniedCache {
    denied: Option<Denied>,
    /// The number of times that a denial has been forgotten.
    forgotten: u64,
    /// The last call has failed. The next one for waiters is not before this time.
    lost: Option<Instant>,
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
        self.lost = None;
    }

    /// Takes the result of the fallback, after which nobody calls before `again`.
    pub(super) fn fail(&mut self, denied: Option<Denied>, again: Instant) {
        (self.denied, self.lost) = (denied, Some(again));
    }

    /// Returns the last denial.
    pub(crate) fn last(&self) -> Option<Denied> {
        self.denied
    }

    /// Returns when waiters may call again, if the last call has failed.
    pub(super) fn lost(&self) -> Option<Instant> {
        self.lost
    }

    pub(super) fn is_at_rest(&self, now: Instant) -> bool {
        self.at(now).is_none() && self.lost.is_none_or(|lost| lost <= now)
    }

    fn at(&self, now: Instant) -> Option<Denied> {
        self.denied.filter(|denied| denied.believed > now)
    }

    /// Returns the wait of a new caller, if it is known.
    pub(super) fn wait<R, P>(
        &self,
        queue: &WaitQueue<R, P>,
        cost: u64,
        now: Instant,
    ) -> Option<Duration> {
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
    pub(super) fn waits<R, P>(&self, queue: &WaitQueue<R, P>, cost: u64, now: Instant) -> bool {
        let first = queue.front().map_or(cost, |first| first.cost);
        self.at(now).is_some_and(|it| first >= it.cost)
    }

    /// Returns when to call again for the queue, if not now. A caller that only tries does not wait for the next call
    /// for the first waiter, and one that has charges waits for the end of an outage.
    pub(crate) fn asks_again<R, P>(
        &self,
        queue: &WaitQueue<R, P>,
        denies_tries: bool,
        now: Instant,
    ) -> Option<Instant> {
        let (first, tries) = (queue.front()?, queue.has_tries());
        let lost = self.lost.filter(|_| !(tries && denies_tries));
        let denied = self.denied.filter(|denied| {
            let decides = !tries || (denies_tries && denied.believed > now);
            first.cost >= denied.cost && decides
        });
        let again = [lost, denied.map(|denied| denied.again)];
        again.into_iter().flatten().find(|again| *again > now)
    }

    /// Rejects waiters that try, or whose wait cannot fit, or that are too many beside those that wait elsewhere.
    /// The first `asked` are those of the last call, decided by this source; the others are rejected only by a
    /// denial that is trusted.
    pub(super) fn refuse<R, P>(
        &self,
        queue: &mut WaitQueue<R, P>,
        options: &Options,
        denies_tries: bool,
        mut waiting: usize,
        now: Instant,
        (asked, source): (usize, Source),
    ) {
        let Some(denied) = self.denied else {
            return;
        };
        let is_believed = denied.believed > now;
        let first_wait = denied.until.saturating_duration_since(now);
        // The cost of the waiters between the denied one and this one.
        let mut between = None;
        let behind = queue.len().saturating_sub(MOST_VISITED);
        let mut tries = queue.tried();
        if !denies_tries {
            // Callers of a set that have charges keep their places.
            waiting += tries;
        }
        queue.answer_first(MOST_VISITED, |index, waiter| {
            let cost = u128::from(waiter.cost);
            let wait = match between {
                _ if waiter.tries && !denies_tries => {
                    tries -= 1;
                    return None;
                }
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
            let all = queue.len();
            if denies_tries {
                tries = 0;
                queue.answer_tries(|_| Err(options.denial(Source::DeniedCache, wait)));
            }
            let stay = behind - (all - queue.len()) - tries;
            let excess = (waiting + stay).saturating_sub(options.max_waiters);
            queue.fail_last(excess.min(stay), &AcquireError::new(ErrorKind::QueueFull));
        }
    }
}
