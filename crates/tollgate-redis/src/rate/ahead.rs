//! What this process has taken ahead, to decide without a call.
//!
//! The purse is one word: how many tokens are in it, and whether it is shut. Everybody takes from
//! it by a compare-exchange; only the driver puts in. Tokens are used in the order in which they
//! came, in batches.
//!
//! 1. At most a chunk is in it, and each token is for at most the hold time: then what is left of
//!    its batch is given back. Whoever comes after the oldest batch is over finds nothing, also
//!    if the driver is late.
//! 2. While somebody is in line it is shut, so nobody overtakes them.
//! 3. It is filled while the server has a chunk to spare, for those in line as well. When there is
//!    less, everybody is in line, and the server decides for each.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::time::Duration;

use tollgate::{Clock, Tick};

use super::line::Next;
use super::reply::Reply;
use super::rule::Rule;

const SHUT: u64 = 1 << 63;

/// From which everybody takes.
pub(super) struct Purse {
    pub(super) chunk: u64,
    hold: Duration,
    word: AtomicU64,
    /// When the oldest batch is over, in nanoseconds of the clock.
    over: AtomicU64,
    /// When the newest batch was charged, by the server.
    at: AtomicU64,
    /// The driver was told that it gets empty.
    told: AtomicBool,
    clock: Clock,
}

/// What somebody took from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) left: u64,
    /// Microseconds of the server's clock.
    pub(super) at: u64,
    /// The driver is to be told that it gets empty.
    pub(super) tell: bool,
}

/// A charge that tokens are of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    pub(super) rule: Rule,
    pub(super) position: u64,
    pub(super) made: u64,
    /// How many there were.
    count: u64,
    /// When they were charged: microseconds of the server's clock.
    at: u64,
    over: Tick,
}

/// What the driver knows of the purse, under the lock of the line.
#[derive(Default)]
pub(super) struct Batches {
    batches: VecDeque<Batch>,
    /// The server had a chunk to spare when it was last asked.
    plenty: bool,
}

/// So many of a batch, to be given back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    pub(super) batch: Batch,
    pub(super) count: u64,
}

impl Purse {
    pub(super) fn new(chunk: u64, hold: Duration) -> Self {
        Self {
            chunk,
            hold,
            word: AtomicU64::new(0),
            over: AtomicU64::new(0),
            at: AtomicU64::new(0),
            told: AtomicBool::new(false),
            clock: Clock::system(),
        }
    }

    /// Takes so many, if they are there and nobody is in line.
    pub(super) fn take(&self, n: u64) -> Option<Taken> {
        let mut seen = self.word.load(Ordering::Acquire);
        if seen < n || seen & SHUT != 0 || self.is_over() {
            return None;
        }
        loop {
            let exchanged = self.word.compare_exchange_weak(
                seen,
                seen - n,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            match exchanged {
                Ok(_) => return Some(self.taken(seen - n)),
                Err(other) if other & SHUT == 0 && other >= n => seen = other,
                Err(_) => return None,
            }
        }
    }

    /// As [`take`](Self::take), for whoever is first in line.
    pub(super) fn take_shut(&self, n: u64) -> Option<Taken> {
        if self.is_over() {
            return None;
        }
        let enough = |word: u64| (word & !SHUT >= n).then(|| word - n);
        let before = self
            .word
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, enough);
        before.ok().map(|word| self.taken((word & !SHUT) - n))
    }

    fn taken(&self, left: u64) -> Taken {
        let tell = left <= self.chunk / 4 && {
            // Either the driver finds that it is low, or this that the driver was not told.
            fence(Ordering::SeqCst);
            !self.told.swap(true, Ordering::Relaxed)
        };
        Taken {
            left,
            at: self.at.load(Ordering::Relaxed),
            tell,
        }
    }

    fn is_over(&self) -> bool {
        self.clock.now().as_nanos() >= self.over.load(Ordering::Acquire)
    }

    pub(super) fn now(&self) -> Tick {
        self.clock.now()
    }

    pub(super) fn count(&self) -> u64 {
        self.word.load(Ordering::Acquire) & !SHUT
    }

    /// While somebody is in line. Under the lock of the line.
    pub(super) fn shut(&self, shut: bool) {
        if shut {
            self.word.fetch_or(SHUT, Ordering::AcqRel);
        } else {
            self.word.fetch_and(!SHUT, Ordering::AcqRel);
        }
    }

    /// Takes out what is more than so many.
    fn reduce(&self, most: u64) -> u64 {
        let less = |word: u64| Some(word & SHUT | (word & !SHUT).min(most));
        let before = self
            .word
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
        let (Ok(before) | Err(before)) = before;
        (before & !SHUT).saturating_sub(most)
    }
}

impl Batches {
    /// Under the lock of the line, as all of these.
    pub(super) fn learn(&mut self, purse: &Purse, free: u64) {
        self.plenty = free >= purse.chunk;
    }

    /// Nothing that was known holds any more.
    pub(super) fn forget(&mut self) {
        self.plenty = false;
    }

    /// Puts in what was taken ahead, which was asked for at that tick.
    pub(super) fn put(&mut self, purse: &Purse, rule: Rule, reply: &Reply, asked: Tick) {
        self.learn(purse, reply.free);
        if reply.done == 0 {
            return;
        }
        let batch = Batch {
            rule,
            position: reply.position,
            made: reply.made,
            count: reply.done,
            at: reply.now,
            over: after(asked, purse.hold),
        };
        self.batches.push_back(batch);
        purse.at.store(reply.now, Ordering::Relaxed);
        self.set_over(purse);
        purse.word.fetch_add(reply.done, Ordering::AcqRel);
    }

    fn set_over(&self, purse: &Purse) {
        let over = self
            .batches
            .front()
            .map_or(0, |batch| batch.over.as_nanos());
        purse.over.store(over, Ordering::Release);
    }

    /// Takes out what was there for too long, or all of it.
    pub(super) fn take_back(&mut self, purse: &Purse, all: bool) -> Vec<Rest> {
        let now = purse.now();
        let mut rests = Vec::new();
        while let Some(batch) = self.batches.front().copied() {
            let later: u64 = self.batches.iter().skip(1).map(|batch| batch.count).sum();
            if purse.count() > later && batch.over > now && !all {
                break;
            }
            let count = purse.reduce(later).min(batch.count);
            if count > 0 {
                rests.push(Rest { batch, count });
            }
            self.batches.pop_front();
        }
        self.set_over(purse);
        rests
    }

    /// Takes out what is more than a chunk: it was for those in line, who have left.
    pub(super) fn take_excess(&mut self, purse: &Purse) -> Option<Rest> {
        let last = self.batches.back_mut()?;
        let count = purse.reduce(purse.chunk).min(last.count);
        last.count -= count;
        (count > 0).then_some(Rest {
            batch: *last,
            count,
        })
    }

    /// Puts back what was taken out and not used, if the rest of its batch is there still.
    pub(super) fn put_back(&self, purse: &Purse, at: u64, n: u64) {
        if self.batches.iter().any(|batch| batch.at == at) {
            purse.word.fetch_add(n, Ordering::AcqRel);
        }
    }

    /// How many to take ahead now. If none, whoever finds that it gets empty tells from now on.
    pub(super) fn wanted(&self, purse: &Purse) -> Option<u64> {
        purse.told.store(false, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let count = purse.count();
        (self.plenty && count <= purse.chunk / 4).then(|| purse.chunk - count)
    }

    /// Instead of asking for those in line, takes enough for them and a chunk, if there is plenty.
    pub(super) fn instead(&self, purse: &Purse, costs: Vec<u64>) -> Next {
        if self.plenty {
            let room = purse.chunk.saturating_sub(purse.count());
            let line = costs
                .iter()
                .fold(0_u64, |sum, cost| sum.saturating_add(*cost));
            Next::TakeAhead(room.saturating_add(line))
        } else {
            Next::Ask(costs)
        }
    }

    /// How long until the oldest is over.
    pub(super) fn over_in(&self, purse: &Purse) -> Option<Duration> {
        let first = self.batches.front()?;
        Some(first.over.saturating_since(purse.now()))
    }
}

fn after(tick: Tick, hold: Duration) -> Tick {
    let nanos = u64::try_from(hold.as_nanos()).unwrap_or(u64::MAX);
    Tick::from_nanos(tick.as_nanos().saturating_add(nanos))
}
