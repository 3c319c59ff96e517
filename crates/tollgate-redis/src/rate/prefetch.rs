//! Tokens that this process has taken from the server in advance, to decide without a call: the
//! batches that were charged, and the [number](super::token_cache) of tokens that are not used.
//!
//! 1. At most a chunk is held, in addition to the demand of the queue, and each token for at most
//!    the hold time. Then the rest of its batch is returned.
//! 2. Tokens are prefetched while the server has a chunk to spare. When it has less, every call
//!    waits in the queue, and the server decides each one.
//! 3. The oldest tokens are used first. So those of the newest batch are held last, and the number of tokens tells
//!    how many of each batch are held.
//! 4. A charge knows when its tokens expire at the earliest, and so the earliest batch that they may be of. They are
//!    put back while that batch is in use, and otherwise returned to the server as a part of its charge. No part
//!    is returned twice. The server counts all tokens of a batch alike, so the first part is the end of the charge.
//!
//! All operations except taking tokens run under the lock of the queue.

use std::collections::VecDeque;
use std::time::Duration;

use tollgate::Decision;
use tollgate::time::Tick;

use super::charge::{Charge, Grant, Part, Source, Ticket};
use super::reply::Reply;
use super::rule::Rule;
use super::token_cache::{Taken, TokenCache};
use crate::script::MOST;
use crate::store::StoreClock;
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
    clock: StoreClock,
}

/// A charge that became tokens.
#[derive(Clone, Copy, Debug)]
struct Batch {
    grant: Grant,
    /// The number of its tokens that were not returned to the server: those that are held, and those that were used.
    count: u64,
    expiry: Tick,
}

impl Batch {
    /// Takes out the last tokens of the charge, at most `n`, to refund them. Reduces `n` by their number.
    fn part(&mut self, n: &mut u64) -> Option<Part> {
        let (grant, count) = (self.grant, self.count.min(*n));
        self.grant.position = grant.rule.position(grant.position, count);
        self.count -= count;
        *n -= count;
        (count > 0).then_some(Part { grant, n: count })
    }
}

impl Prefetch {
    pub(super) fn new(chunk: u64, hold: Duration, burst: u64, clock: StoreClock) -> Self {
        Self {
            cache: TokenCache::new(chunk / 4),
            chunk,
            hold,
            at: AtomicU64::new(0),
            burst: AtomicU64::new(burst),
            clock,
        }
    }

    pub(super) fn now(&self) -> Tick {
        self.clock.now()
    }

    /// Takes tokens, if there are enough and nobody waits.
    #[inline]
    pub(super) fn take(&self, cost: u64) -> Option<(Charge, bool)> {
        let taken = self.cache.take(cost, || self.now().as_nanos())?;
        Some((self.charge(cost, taken), taken.notify))
    }

    /// Returns the charge for tokens that were taken.
    fn charge(&self, cost: u64, taken: Taken) -> Charge {
        let at = Tick::from_nanos(self.at.load(Ordering::Relaxed));
        let (limit, zero) = (self.burst.load(Ordering::Relaxed), Duration::ZERO);
        Charge {
            is_turn: false,
            cost,
            source: Source::TokenCache,
            ticket: Ticket::Cached(Tick::from_nanos(taken.closes)),
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

    /// Returns the sum of the tokens of the newest batches.
    fn total(&self, batches: usize) -> u64 {
        let newest = self.batches.iter().rev().take(batches);
        newest.map(|batch| batch.count).sum()
    }

    fn oldest(&mut self) -> Option<&mut Batch> {
        let used = self.batches.len() - self.in_use;
        self.batches.get_mut(used)
    }

    /// Puts in the tokens of a reply to a call that was made at a tick.
    pub(super) fn put(&mut self, prefetch: &Prefetch, rule: Rule, reply: &Reply, asked: Tick) {
        self.learn(prefetch, reply.free);
        if reply.done == 0 {
            return;
        }
        let hold = u64::try_from(prefetch.hold.as_nanos()).unwrap_or(u64::MAX);
        // Before the tokens: a caller that takes one finds the time of its batch, or of a later one.
        prefetch.at.store(reply.at().as_nanos(), Ordering::Relaxed);
        self.batches.push_back(Batch {
            grant: Grant::new(&rule, reply, 0),
            count: reply.done,
            expiry: Tick::from_nanos(asked.as_nanos().saturating_add(hold)),
        });
        self.in_use += 1;
        prefetch.cache.put(reply.done, u64::MAX);
    }

    /// Takes tokens for the first waiter, if there are enough.
    pub(super) fn take(&mut self, prefetch: &Prefetch, cost: u64) -> Option<Charge> {
        let expiry = self.oldest()?.expiry.as_nanos();
        let taken = prefetch.cache.take_until(expiry, cost)?;
        Some(prefetch.charge(cost, taken))
    }

    /// Takes out expired tokens, or all of them. Retires used-up batches, except for the last one: a
    /// refund may be put back there.
    pub(super) fn take_expired(&mut self, prefetch: &Prefetch, all: bool) -> Vec<Part> {
        let now = prefetch.now();
        let mut expired = Vec::new();
        while self.in_use > 0 {
            let (has_later, later) = (self.in_use > 1, self.total(self.in_use - 1));
            let is_used = has_later && prefetch.cache.count() <= later;
            let is_over = |batch: &&mut Batch| all || batch.expiry <= now || is_used;
            let Some(batch) = self.oldest().filter(is_over) else {
                break;
            };
            let mut held = prefetch.cache.reduce(later);
            expired.extend(batch.part(&mut held));
            self.in_use -= 1;
        }
        while self.batches.len() > self.in_use + REMEMBERED {
            self.batches.pop_front();
        }
        expired
    }

    /// Takes out tokens beyond a chunk, which were for waiters that have left.
    pub(super) fn take_excess(&mut self, prefetch: &Prefetch) -> Vec<Part> {
        let mut excess = prefetch.cache.reduce(prefetch.chunk);
        let newest = self.batches.iter_mut().rev();
        newest.filter_map(|batch| batch.part(&mut excess)).collect()
    }

    /// Puts back `n` tokens that expire at that time or later. Returns the tokens that have to be returned
    /// to the server instead, and how many cannot be refunded because their batch is forgotten.
    pub(super) fn put_back(
        &mut self,
        prefetch: &Prefetch,
        expiry: Tick,
        mut n: u64,
    ) -> (Vec<Part>, u64) {
        let (now, most) = (prefetch.now(), self.total(self.in_use));
        let used = self.batches.len() - self.in_use;
        let mut rest = Vec::new();
        let first = self.batches.partition_point(|batch| batch.expiry < expiry);
        if self
            .batches
            .get(first)
            .is_none_or(|batch| batch.expiry != expiry)
        {
            return (rest, n);
        }
        // Once a batch is returned as a whole, the tokens are of later ones.
        for (index, batch) in self.batches.iter_mut().enumerate().skip(first) {
            let is_in_use = index >= used && batch.expiry > now;
            if n == 0 || is_in_use && prefetch.cache.put(n, most) {
                return (rest, 0);
            }
            rest.extend(batch.part(&mut n));
        }
        (rest, n)
    }

    /// Returns how many tokens to take: for an empty queue a chunk, if the cache is low; otherwise
    /// the demand of the waiters and a chunk, instead of a call for each of them.
    pub(super) fn refill(&self, prefetch: &Prefetch, queued: u64) -> Option<u64> {
        let is_due = queued > 0 || prefetch.cache.is_low();
        let wanted = queued
            .saturating_add(prefetch.chunk)
            .saturating_sub(prefetch.cache.count());
        (self.is_plenty && is_due && (1..=MOST).contains(&wanted)).then_some(wanted)
    }

    /// Returns when the oldest tokens expire.
    pub(super) fn expiry(&mut self) -> Tick {
        self.oldest()
            .map_or(Tick::from_nanos(0), |batch| batch.expiry)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tollgate::time::ManualClock;
    use tollgate::{Algorithm, Clock, Quota};

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

    /// The hold time, in nanoseconds.
    const HOLD: u64 = 100;

    /// A prefetch of chunks of 10, which is not shared, and what its model knows.
    struct Held {
        clock: ManualClock,
        prefetch: Prefetch,
        batches: Batches,
        rule: Rule,
        /// The position of the last charge.
        position: u64,
    }

    impl Held {
        fn new(algorithm: Algorithm) -> Self {
            let clock = Clock::manual();
            Self {
                prefetch: Prefetch {
                    clock: Clock::from(&clock).into(),
                    ..Prefetch::new(10, Duration::from_nanos(HOLD), 1000, Clock::system().into())
                },
                clock,
                batches: Batches::default(),
                rule: Rule::of(Quota::per_second(1000), algorithm),
                position: 70,
            }
        }

        /// Puts in a batch.
        fn put(&mut self, done: u64) {
            self.position += done;
            let position = self.position;
            let reply = Reply {
                done,
                position,
                ..REPLY
            };
            let asked = self.prefetch.now();
            self.batches.put(&self.prefetch, self.rule, &reply, asked);
        }

        /// Takes tokens for the first waiter, and returns when they expire at the earliest.
        fn take(&mut self, n: u64) -> Option<Tick> {
            Some(expiry(self.batches.take(&self.prefetch, n)?))
        }

        fn advance(&self, nanos: u64) {
            self.clock.advance(Duration::from_nanos(nanos));
        }

        fn take_expired(&mut self) -> Vec<Part> {
            self.batches.take_expired(&self.prefetch, false)
        }

        fn put_back(&mut self, expiry: Tick, n: u64) -> (Vec<Part>, u64) {
            self.batches.put_back(&self.prefetch, expiry, n)
        }
    }

    fn expiry(charge: Charge) -> Tick {
        match charge.ticket {
            Ticket::Cached(expiry) => expiry,
            other => panic!("{other:?} is not of a prefetch"),
        }
    }

    fn counts(parts: &[Part]) -> Vec<u64> {
        parts.iter().map(|part| part.n).collect()
    }

    /// Tokens that are put back are taken again, so several charges may have had the same ones.
    #[test]
    fn put_back_of_a_used_batch_gives_each_part_a_position_of_its_own() {
        for algorithm in [Algorithm::Gcra, Algorithm::SlidingLog] {
            let mut held = Held::new(algorithm);
            held.put(10);
            let [first, second] = [3, 4].map(|n| held.take(n).unwrap());
            assert!(held.put_back(first, 3).0.is_empty());
            let third = held.take(2).unwrap();
            held.advance(HOLD);
            let mut parts = held.take_expired();
            parts.extend(held.put_back(second, 4).0);
            parts.extend(held.put_back(third, 2).0);
            let parts = parts.iter().map(|part| (part.n, part.grant.position));
            let parts: Vec<_> = parts.collect();
            assert_eq!(parts, [(4, 80), (4, 76), (2, 72)], "{algorithm}");
        }
    }

    #[test]
    fn put_back_of_a_forgotten_batch_returns_what_is_not_refunded() {
        let mut held = Held::new(Algorithm::Gcra);
        let mut taken = Vec::new();
        for _ in 0..REMEMBERED + 2 {
            held.put(10);
            // The batch before is used up.
            assert!(held.take_expired().is_empty());
            taken.push(held.take(10).unwrap());
            held.advance(1);
        }
        held.put(10);
        assert!(held.take_expired().is_empty());
        let (parts, left) = held.put_back(taken[1], 4);
        assert_eq!((parts.len(), left), (0, 4));
        // The first batch that is still known, and the next one.
        let (parts, left) = held.put_back(taken[2], 13);
        assert_eq!((counts(&parts), left), (vec![10, 3], 0));
    }

    #[test]
    fn take_expired_leaves_no_expired_token_and_returns_the_unused_part() {
        let mut held = Held::new(Algorithm::Gcra);
        for count in [10, 5] {
            held.put(count);
            held.advance(60);
        }
        assert!(held.take(4).is_some());
        // The first batch expired after 100, and the second one does after 160.
        assert_eq!(counts(&held.take_expired()), [6]);
        assert_eq!(held.batches.expiry().as_nanos(), 160);
        assert!(held.take(6).is_none());
        held.advance(40);
        assert_eq!(counts(&held.take_expired()), [5]);
        assert!(held.take(1).is_none());
    }

    #[test]
    fn refill_asks_for_the_waiters_and_a_chunk_while_there_is_plenty() {
        let mut held = Held::new(Algorithm::Gcra);
        let refill = |held: &Held, queued| held.batches.refill(&held.prefetch, queued);
        assert_eq!(refill(&held, 5), None);
        held.put(10);
        assert_eq!(
            [0, 5, u64::MAX].map(|queued| refill(&held, queued)),
            [None, Some(5), None]
        );
        held.take(8).unwrap();
        assert_eq!(
            [0, 5].map(|queued| refill(&held, queued)),
            [Some(8), Some(13)]
        );
    }

    /// The plainest model: what was charged, returned and lost, unit by unit.
    #[derive(Default)]
    struct Model {
        /// The position of the end of each batch, its count, and when it expires.
        charged: Vec<(u64, u64, u64)>,
        /// The positions of the units that were returned.
        returned: BTreeSet<u64>,
        /// The charges that are not refunded.
        out: Vec<(Tick, u64)>,
        lost: u64,
    }

    impl Model {
        fn returned(&mut self, parts: Vec<Part>) {
            for Part { grant, n } in parts {
                let is_its = |(end, count, _): &(u64, u64, u64)| {
                    (*end - count..*end).contains(&(grant.position - 1))
                };
                let (end, count, _) = self.charged.iter().copied().find(is_its).unwrap();
                assert!(grant.position - n >= end - count, "a part of one batch");
                for position in grant.position - n..grant.position {
                    assert!(
                        self.returned.insert(position),
                        "{position} is returned twice"
                    );
                }
            }
        }

        /// Returns how many units of the batches that expire after a time were not returned.
        fn left(&self, after: u64) -> u64 {
            let batches = self.charged.iter().filter(|(.., expiry)| *expiry > after);
            let units = batches.flat_map(|(end, count, _)| *end - count..*end);
            units.filter(|unit| !self.returned.contains(unit)).count() as u64
        }

        fn check(&self, held: &Held) {
            let charged: u64 = self.charged.iter().map(|(_, count, _)| count).sum();
            let out: u64 = self.out.iter().map(|(_, n)| n).sum();
            let (held, known) = (held.prefetch.cache.count(), self.returned.len() as u64);
            assert_eq!(
                charged,
                held + out + known + self.lost,
                "no unit is lost or created"
            );
        }
    }

    #[test]
    fn prefetch_in_any_order_is_like_a_model_of_single_units() {
        let mut rng = fastrand::Rng::with_seed(31);
        let mut seen = [0_u64; 3];
        for _ in 0..3_000 {
            let algorithm = [Algorithm::Gcra, Algorithm::SlidingLog][rng.usize(0..2)];
            let (mut held, mut model) = (Held::new(algorithm), Model::default());
            for _ in 0..rng.usize(1..60) {
                match rng.u32(0..6) {
                    0 => {
                        let count = rng.u64(1..30);
                        held.put(count);
                        let expiry = held.prefetch.now().as_nanos() + HOLD;
                        model.charged.push((held.position, count, expiry));
                    }
                    1 if !model.out.is_empty() => {
                        let index = rng.usize(..model.out.len());
                        let (expiry, cost) = model.out.swap_remove(index);
                        // A part of the charge, or all of it.
                        let n = rng.u64(1..=cost);
                        model.out.extend((n < cost).then_some((expiry, cost - n)));
                        let (parts, lost) = held.put_back(expiry, n);
                        assert!(lost == 0 || model.charged.len() > REMEMBERED);
                        seen[1] += u64::from(!parts.is_empty());
                        seen[2] += u64::from(parts.is_empty() && lost == 0);
                        model.returned(parts);
                        model.lost += lost;
                    }
                    2 => held.advance(rng.u64(0..60)),
                    // The driver looks now and then.
                    3 => {
                        let (expired, excess) = (
                            held.take_expired(),
                            held.batches.take_excess(&held.prefetch),
                        );
                        model.returned(expired);
                        model.returned(excess);
                        let now = held.prefetch.now().as_nanos();
                        let count = held.prefetch.cache.count();
                        assert!(
                            count <= model.left(now),
                            "it was charged within the hold time"
                        );
                        held.prefetch
                            .cache
                            .open_until(held.batches.expiry().as_nanos());
                    }
                    _ => {
                        let (now, n) = (held.prefetch.now().as_nanos(), rng.u64(1..8));
                        let most = model.left(now);
                        if let Some((charge, _)) = held.prefetch.take(n) {
                            assert!(n <= most, "no unit is used after its time");
                            seen[0] += 1;
                            model.out.push((expiry(charge), n));
                        }
                    }
                }
                model.check(&held);
            }
            // The limiter is closed or dropped.
            let rest = held.batches.take_expired(&held.prefetch, true);
            model.returned(rest);
            assert_eq!(held.prefetch.cache.count(), 0);
            model.check(&held);
        }
        // Each kind of step has been taken.
        assert!(seen.iter().all(|count| *count > 1_000), "{seen:?}");
    }
}
