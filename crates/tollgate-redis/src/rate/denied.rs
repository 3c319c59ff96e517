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
        // The place behind those that are visited.
        let mut end = 0;
        let mut tries = queue.tried();
        if !denies_tries {
            // Callers of a set that have charges keep their places.
            waiting += tries;
        }
        queue.answer_first(MOST_VISITED, |index, waiter| {
            end = waiter.number + 1;
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
                // Those in front may be callers that this denial does not concern.
                queue.answer_tries_from(end, |_| Err(options.denial(Source::DeniedCache, wait)));
            }
            let stay = behind - (all - queue.len()) - tries;
            let excess = (waiting + stay).saturating_sub(options.max_waiters);
            queue.fail_last(excess.min(stay), &AcquireError::new(ErrorKind::QueueFull));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;
    use tollgate::{Algorithm, Quota};

    use super::*;
    use crate::queue::Waiter;

    type Queue = WaitQueue<(), ()>;

    /// Returns a queue of callers with these costs, of which some try.
    fn queue(costs: impl IntoIterator<Item = (u64, bool)>) -> Queue {
        let mut queue = Queue::new();
        for (cost, tries) in costs {
            let number = queue.next_number();
            queue.insert(Waiter {
                number,
                cost,
                tries,
                deadline: None,
                request: (),
                answer: oneshot::channel().0,
            });
        }
        queue
    }

    /// Rejects callers by the denial of a cost, which is trusted for so long. The first one was asked for.
    fn refused(queue: &mut Queue, cost: u64, max_waiters: usize, trusted: Duration) {
        let (now, mut cache) = (Instant::now(), DeniedCache::default());
        let denied = Denied {
            cost,
            rule: Rule::of(Quota::per_second(100), Algorithm::Gcra),
            until: now + trusted,
            believed: now + trusted,
            again: now,
        };
        cache.learn(Some(denied), 0);
        let options = Options {
            max_waiters,
            ..Options::default()
        };
        cache.refuse(queue, &options, true, 0, now, (1, Source::Store));
    }

    fn kinds(queue: &Queue) -> Vec<ErrorKind> {
        let answers = queue.replies.iter();
        answers
            .map(|(_, answer)| answer.as_ref().unwrap_err().kind())
            .collect()
    }

    /// More callers try in front than stay behind.
    #[test]
    fn refuse_after_a_late_reply_rejects_behind_those_that_are_visited() {
        use ErrorKind::{QueueFull, RateLimited};
        let last = MOST_VISITED + 1;
        for (max_waiters, expected) in [
            (usize::MAX, &[RateLimited][..]),
            (2, &[RateLimited]),
            (1, &[RateLimited, QueueFull]),
        ] {
            let tries = |index| [10, 20, 30, last].contains(&index);
            let mut queue = queue((0..=last).map(|index| (1, tries(index))));
            refused(&mut queue, 1, max_waiters, Duration::ZERO);
            assert_eq!(kinds(&queue), expected, "{max_waiters}");
            assert_eq!(queue.tried(), 3);
        }
    }

    #[test]
    fn refuse_of_a_higher_cost_keeps_a_call_that_tries_in_front_of_many() {
        let others = (0..MOST_VISITED).map(|_| (5, false));
        let mut queue = queue([(1, true)].into_iter().chain(others));
        refused(&mut queue, 5, usize::MAX, Duration::from_secs(1));
        assert_eq!((kinds(&queue), queue.tried()), (vec![], 1));
    }
}
