//! Tokens that this process has taken from the server in advance, to decide without a call: the
//! batches in the [token cache](super::token_cache), and earlier ones.
//!
//! 1. At most a chunk is held, in addition to the demand of the queue, and each token for at most
//!    the hold time. Then the rest of its batch is returned.
//! 2. Tokens are prefetched while the server has a chunk to spare. When it has less, every call
//!    waits in the queue, and the server decides each one.
//! 3. A charge knows the numbers of its tokens. They are put back while their batch is in use;
//!    after that they are returned to the server, as a part of the batch's charge. The server counts
//!    all tokens of a batch alike, so the part that is returned first is the last one of the charge.
//!
//! All operations except taking tokens run under the lock of the queue.

use std::collections::VecDeque;
use std::time::Duration;

use tollgate::time::Tick;
use tollgate::{Clock, Decision};

use super::ask::Reply;
use super::charge::{Charge, Grant, Part, Source, Ticket};
use super::rule::Rule;
use super::token_cache::{self, Taken, TokenCache, after, between};
use crate::sync::{AtomicU64, Ordering};

/// The number of used-up batches that are remembered for refunds.
const REMEMBERED: usize = 16;

pub(super) struct Prefetch {
    pub(super) cache: TokenCache,
    chunk: u64,
    hold: Duration,
    /// The time at which the server charged the newest batch, in nanoseconds of its clock.
    at: AtomicU64,
    /// The burst of the limit.
    pub(super) burst: AtomicU64,
    clock: Clock,
}

/// A charge that became tokens.
#[derive(Clone, Copy, Debug)]
struct Batch {
    grant: Grant,
    /// The number of its first token.
    first: u64,
    count: u64,
    /// The number of tokens that were returned to the server.
    returned: u64,
    expiry: Tick,
}

impl Batch {
    fn end(&self) -> u64 {
        after(self.first, self.count)
    }

    /// Returns how many of the `n` tokens before the number `end` belong to this batch.
    fn share(&self, end: u64, n: u64) -> u64 {
        let until = between(self.first, end);
        if until > between(0, u64::MAX) / 2 {
            // The number is before the first token of the batch.
            return 0;
        }
        until
            .min(self.count)
            .saturating_sub(until.saturating_sub(n))
    }

    /// Returns the next part of the batch to refund. No two parts have the same position: the server
    /// would refund the same charges twice.
    fn part(&mut self, n: u64) -> Part {
        let mut grant = self.grant;
        grant.position = grant.rule.position(grant.position, self.returned);
        self.returned += n;
        Part { grant, n }
    }
}

impl Prefetch {
    pub(super) fn new(chunk: u64, hold: Duration, burst: u64) -> Self {
        Self {
            cache: TokenCache::new(chunk / 4),
            chunk,
            hold,
            at: AtomicU64::new(0),
            burst: AtomicU64::new(burst),
            clock: Clock::system(),
        }
    }

    pub(super) fn now(&self) -> Tick {
        self.clock.now()
    }

    /// Returns the charge for tokens that were taken.
    pub(super) fn charge(&self, cost: u64, taken: Taken) -> Charge {
        let at = Tick::from_nanos(self.at.load(Ordering::Relaxed));
        let (limit, zero) = (self.burst.load(Ordering::Relaxed), Duration::ZERO);
        Charge {
            cost,
            source: Source::TokenCache,
            ticket: Ticket::Cached(taken.end),
            decision: Decision::from_parts(limit, taken.left, Some(zero), zero, at),
        }
    }
}

/// The batches, oldest first.
#[derive(Default)]
pub(super) struct Batches {
    batches: VecDeque<Batch>,
    /// The number of batches at the end that are in use.
    in_use: usize,
    /// Whether the server had a chunk to spare in its last reply, and the state has not changed
    /// since.
    pub(super) is_plenty: bool,
}

impl Batches {
    pub(super) fn learn(&mut self, prefetch: &Prefetch, free: u64) {
        self.is_plenty = free >= prefetch.chunk;
    }

    /// Returns whether there is no batch whose tokens may be refunded.
    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    fn oldest(&self) -> Option<&Batch> {
        self.batches.get(self.batches.len() - self.in_use)
    }

    fn oldest_mut(&mut self) -> Option<&mut Batch> {
        let used = self.batches.len() - self.in_use;
        self.batches.get_mut(used)
    }

    /// Puts in the tokens of a reply to a call that was made at a tick. Returns the tokens that did
    /// not fit.
    pub(super) fn put(
        &mut self,
        prefetch: &Prefetch,
        rule: Rule,
        reply: &Reply,
        asked: Tick,
    ) -> Option<Part> {
        self.learn(prefetch, reply.free);
        if reply.done == 0 {
            return None;
        }
        let hold = u64::try_from(prefetch.hold.as_nanos()).unwrap_or(u64::MAX);
        // Before the tokens: a caller that takes one finds the time of its batch, or of a later one.
        prefetch.at.store(reply.at().as_nanos(), Ordering::Relaxed);
        let (first, count) = (prefetch.cache.end(), prefetch.cache.put(reply.done));
        let mut batch = Batch {
            grant: Grant::new(&rule, reply, 0),
            first,
            count,
            returned: 0,
            expiry: Tick::from_nanos(asked.as_nanos().saturating_add(hold)),
        };
        let excess = reply.done - count;
        let excess = (excess > 0).then(|| batch.part(excess));
        self.batches.push_back(batch);
        self.in_use += 1;
        excess
    }

    /// Takes out expired tokens, or all of them. Retires used-up batches, except for the last one: a
    /// refund may be put back there.
    pub(super) fn take_expired(&mut self, prefetch: &Prefetch, all: bool) -> Vec<Part> {
        let now = prefetch.now();
        let mut expired = Vec::new();
        loop {
            let has_later = self.in_use > 1;
            let Some(batch) = self.oldest_mut() else {
                break;
            };
            let is_used = between(batch.first, prefetch.cache.number()) >= batch.count;
            let is_over = all || batch.expiry <= now || is_used && has_later;
            if !is_over {
                break;
            }
            let count = prefetch.cache.pass(batch.end());
            if count > 0 {
                expired.push(batch.part(count));
            }
            self.in_use -= 1;
        }
        while self.batches.len() > self.in_use + REMEMBERED {
            self.batches.pop_front();
        }
        expired
    }

    /// Takes out tokens beyond a chunk, which were for waiters that have left.
    pub(super) fn take_excess(&mut self, prefetch: &Prefetch) -> Option<Part> {
        let last = self.batches.back_mut().filter(|_| self.in_use > 0)?;
        let count = prefetch.cache.reduce(prefetch.chunk).min(last.count);
        last.count -= count;
        (count > 0).then(|| last.part(count))
    }

    /// Puts back the last `n` tokens before a number. Returns the tokens that have to be returned
    /// to the server instead, and how many cannot be refunded because their batch is forgotten.
    pub(super) fn put_back(&mut self, prefetch: &Prefetch, end: u64, n: u64) -> (Vec<Part>, u64) {
        let used = self.batches.len() - self.in_use;
        let (mut rest, mut left) = (Vec::new(), n);
        for (index, batch) in self.batches.iter_mut().enumerate().rev() {
            let count = batch.share(end, n);
            left = left.saturating_sub(count);
            let in_use = index >= used && batch.expiry > prefetch.now();
            let put_back = || prefetch.cache.put_back(batch.first, batch.count, count);
            if count == 0 || in_use && put_back() {
                continue;
            }
            rest.push(batch.part(count));
        }
        (rest, left)
    }

    /// Returns how many tokens to take: for an empty queue a chunk, if the cache is low; otherwise
    /// the demand of the waiters and a chunk, instead of a call for each of them.
    pub(super) fn refill(&self, prefetch: &Prefetch, queued: u64) -> Option<u64> {
        let is_due = queued > 0 || prefetch.cache.is_low();
        let wanted = queued
            .saturating_add(prefetch.chunk)
            .saturating_sub(prefetch.cache.count());
        let fits = queued <= token_cache::MOST - prefetch.chunk;
        (self.is_plenty && is_due && fits && wanted > 0).then_some(wanted)
    }

    /// Returns when the oldest tokens expire.
    pub(super) fn expiry(&self) -> Tick {
        self.oldest()
            .map_or(Tick::from_nanos(0), |batch| batch.expiry)
    }
}

#[cfg(test)]
mod tests {
    use tollgate::{Algorithm, Quota};

    use super::*;

    const REPLY: Reply = Reply {
        done: 0,
        now: 1,
        wait: Duration::ZERO,
        free: 500,
        reset: Duration::ZERO,
        position: 70,
        made: 1,
    };

    /// Tokens that are put back are taken again, so the numbers of several charges may be the same.
    #[test]
    fn put_back_of_a_used_batch_gives_each_part_a_position_of_its_own() {
        for algorithm in [Algorithm::Gcra, Algorithm::SlidingLog] {
            let clock = Clock::manual();
            let prefetch = Prefetch {
                clock: Clock::from(&clock),
                ..Prefetch::new(10, Duration::from_nanos(100), 1000)
            };
            let rule = Rule::of(Quota::per_second(1000), algorithm);
            let mut batches = Batches::default();
            let reply = Reply { done: 10, ..REPLY };
            assert!(
                batches
                    .put(&prefetch, rule, &reply, prefetch.now())
                    .is_none()
            );
            let take = |n| prefetch.cache.take_queued(n).unwrap().end;
            let (first, second) = (take(3), take(4));
            assert!(batches.put_back(&prefetch, first, 3).0.is_empty());
            let third = take(2);
            clock.advance(Duration::from_nanos(100));
            let mut parts = batches.take_expired(&prefetch, false);
            parts.extend(batches.put_back(&prefetch, second, 4).0);
            parts.extend(batches.put_back(&prefetch, third, 2).0);
            let parts = parts.iter().map(|part| (part.n, part.grant.position));
            let parts: Vec<_> = parts.collect();
            assert_eq!(parts, [(4, 70), (4, 66), (2, 62)], "{algorithm}");
        }
    }

    #[test]
    fn put_back_of_a_forgotten_batch_returns_what_is_not_refunded() {
        let prefetch = Prefetch::new(10, Duration::from_secs(1000), 1000);
        let rule = Rule::of(Quota::per_second(1000), Algorithm::Gcra);
        let mut batches = Batches::default();
        let mut ends = Vec::new();
        for position in 1..=REMEMBERED as u64 + 2 {
            let reply = Reply {
                done: 10,
                position,
                ..REPLY
            };
            batches.put(&prefetch, rule, &reply, prefetch.now());
            ends.push(prefetch.cache.take_queued(10).unwrap().end);
            assert!(batches.take_expired(&prefetch, false).is_empty());
        }
        let (parts, left) = batches.put_back(&prefetch, ends[0], 4);
        assert_eq!((parts.len(), left), (0, 4));
        // The end of the last forgotten batch, and the beginning of the first batch that is still
        // known.
        let (parts, left) = batches.put_back(&prefetch, ends[0] + 7, 10);
        assert_eq!((parts[0].n, left), (7, 3));
    }

    #[test]
    fn take_expired_leaves_no_expired_token_and_returns_the_unused_part() {
        let clock = Clock::manual();
        let prefetch = Prefetch {
            clock: Clock::from(&clock),
            ..Prefetch::new(10, Duration::from_nanos(100), 1000)
        };
        let rule = Rule::of(Quota::per_second(10).burst(1000), Algorithm::Gcra);
        let reply = |done| Reply { done, ..REPLY };
        let mut batches = Batches::default();
        for count in [10, 5] {
            let rest = batches.put(&prefetch, rule, &reply(count), prefetch.now());
            assert!(rest.is_none());
            clock.advance(Duration::from_nanos(60));
        }
        let end = prefetch.cache.take_queued(4).map(|taken| taken.end);
        assert_eq!(end, Some(4));
        // The first batch expired after 100, and the second one does after 160.
        let expired = batches.take_expired(&prefetch, false);
        assert_eq!(expired.iter().map(|part| part.n).collect::<Vec<_>>(), [6]);
        assert_eq!(batches.expiry().as_nanos(), 160);
        assert!(prefetch.cache.take_queued(6).is_none());
        clock.advance(Duration::from_nanos(40));
        let expired = batches.take_expired(&prefetch, false);
        assert_eq!(expired.iter().map(|part| part.n).collect::<Vec<_>>(), [5]);
        assert!(prefetch.cache.take_queued(1).is_none());
    }
}
