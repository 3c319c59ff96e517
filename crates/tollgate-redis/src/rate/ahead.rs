//! What this process has taken ahead, to decide without a call: the batches that are in the
//! [purse](super::purse), and those that were.
//!
//! 1. At most a chunk is held, and what those in line ask for; each token for at most the hold
//!    time: then what is left of its batch is given back.
//! 2. More is taken while the server has a chunk to spare, for those in line as well. When there is
//!    less, everybody is in line, and the server decides for each.
//! 3. A charge knows the numbers of its tokens. They are put back as long as their batch is in use;
//!    after that they go back to the server, as of that batch.
//!
//! All of it under the lock of the line, but for taking.

use std::collections::VecDeque;
use std::time::Duration;

use tollgate::{Clock, Tick};

use super::charge::{Charge, Source, Ticket};
use super::line::Next;
use super::purse::{self, Purse, Taken, after, between};
use super::reply::Reply;
use super::rule::{Kind, Rule};
use crate::sync::{AtomicU64, Ordering};

/// Of so many batches that were used up it is known what they were.
const KNOWN: usize = 16;

/// What is taken ahead, and for how long.
pub(super) struct Ahead {
    pub(super) purse: Purse,
    pub(super) chunk: u64,
    hold: Duration,
    /// When the server charged the newest batch: microseconds of its clock.
    at: AtomicU64,
    /// The burst of the limit.
    pub(super) burst: AtomicU64,
    clock: Clock,
}

/// A charge that tokens are of.
#[derive(Clone, Copy, Debug)]
struct Batch {
    rule: Rule,
    position: u64,
    made: u64,
    /// The number of its first token, and how many there are.
    first: u64,
    count: u64,
    /// How many more there were, which went back from its end.
    gone: u64,
    over: Tick,
}

impl Batch {
    fn end(&self) -> u64 {
        after(self.first, self.count)
    }

    /// How many of the `n` tokens before a number are of it.
    fn share(&self, end: u64, n: u64) -> u64 {
        // From its first one on, if that does not go round.
        let until = between(self.first, end);
        let from = until.saturating_sub(n);
        if until > between(0, u64::MAX) / 2 {
            return 0;
        }
        until.min(self.count).saturating_sub(from)
    }
}

/// What the driver knows of the purse.
#[derive(Default)]
pub(super) struct Batches {
    /// Of which there may be some left, the oldest first.
    batches: VecDeque<Batch>,
    /// The newest last.
    used: VecDeque<Batch>,
    /// The server had a chunk to spare when it was last asked.
    plenty: bool,
}

/// So many of a batch, to be given back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    batch: Batch,
    pub(super) count: u64,
    /// How many tokens of the batch are behind them.
    behind: u64,
}

impl Rest {
    pub(super) fn ticket(&self) -> Ticket {
        let Batch {
            rule,
            position,
            made,
            ..
        } = self.batch;
        Ticket::Store {
            rule,
            // Only a log knows one token from another; of a debt it would be less that comes back.
            position: match rule.kind {
                Kind::Log => rule.position(position, self.behind),
                Kind::Debt | Kind::Window => position,
            },
            made,
        }
    }
}

impl Ahead {
    pub(super) fn new(chunk: u64, hold: Duration, burst: u64) -> Self {
        Self {
            purse: Purse::new(chunk / 4),
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

    /// The charge for what was taken.
    pub(super) fn charge(&self, cost: u64, taken: Taken) -> Charge {
        Charge {
            cost,
            at: self.at.load(Ordering::Relaxed),
            source: Source::Ahead,
            ticket: Ticket::Ahead(taken.end),
            limit: self.burst.load(Ordering::Relaxed),
            remaining: taken.left,
            reset: Duration::ZERO,
        }
    }
}

impl Batches {
    pub(super) fn learn(&mut self, ahead: &Ahead, free: u64) {
        self.plenty = free >= ahead.chunk;
    }

    /// Nothing that was known holds any more.
    pub(super) fn forget(&mut self) {
        self.plenty = false;
    }

    /// Puts in what was taken ahead, which was asked for at that tick. Says what there was no room
    /// for.
    pub(super) fn put(
        &mut self,
        ahead: &Ahead,
        rule: Rule,
        reply: &Reply,
        asked: Tick,
    ) -> Option<Rest> {
        self.learn(ahead, reply.free);
        if reply.done == 0 {
            return None;
        }
        let purse = &ahead.purse;
        let room = purse::MOST - purse.count();
        let batch = Batch {
            rule,
            position: reply.position,
            made: reply.made,
            first: after(purse.number(), purse.count()),
            count: reply.done.min(room),
            gone: reply.done.saturating_sub(room),
            over: later(asked, ahead.hold),
        };
        self.batches.push_back(batch);
        ahead.at.store(reply.now, Ordering::Relaxed);
        self.retire(ahead);
        purse.put(batch.count);
        let count = reply.done - batch.count;
        let behind = 0;
        (count > 0).then_some(Rest {
            batch,
            count,
            behind,
        })
    }

    /// Those that are used up are no more in use.
    fn retire(&mut self, ahead: &Ahead) {
        let number = ahead.purse.number();
        while let Some(first) = self.batches.front() {
            // The last one may have something put back.
            let used = between(first.first, number);
            let is_used = self.batches.len() > 1 && used >= first.count;
            if !is_used {
                break;
            }
            self.used.extend(self.batches.pop_front());
        }
        self.set_over(ahead);
    }

    fn set_over(&mut self, ahead: &Ahead) {
        while self.used.len() > KNOWN {
            self.used.pop_front();
        }
        let over = self.batches.front();
        let over = over.map_or(0, |batch| batch.over.as_nanos());
        ahead.purse.set_over(over);
    }

    /// Takes out what was there for too long, or all of it.
    pub(super) fn take_back(&mut self, ahead: &Ahead, all: bool) -> Vec<Rest> {
        self.retire(ahead);
        let now = ahead.now();
        let mut rests = Vec::new();
        while let Some(batch) = self.batches.front().copied() {
            if batch.over > now && !all {
                break;
            }
            let count = ahead.purse.pass(batch.end());
            if count > 0 {
                rests.push(Rest {
                    batch,
                    count,
                    behind: batch.gone,
                });
            }
            self.batches.pop_front();
            self.used.push_back(batch);
        }
        self.set_over(ahead);
        rests
    }

    /// Takes out what is more than a chunk: it was for those in line, who have left.
    pub(super) fn take_excess(&mut self, ahead: &Ahead) -> Option<Rest> {
        let last = self.batches.back_mut()?;
        let count = ahead.purse.reduce(ahead.chunk).min(last.count);
        let rest = Rest {
            batch: *last,
            count,
            behind: last.gone,
        };
        last.count -= count;
        last.gone += count;
        (count > 0).then_some(rest)
    }

    /// Gives back the last `n` tokens before a number: puts them back, or says of which batches they
    /// are. Of those that were used up long since nothing is known.
    pub(super) fn give(&self, ahead: &Ahead, end: u64, n: u64) -> Vec<Rest> {
        let mut rests = Vec::new();
        for (batch, in_use) in (self.batches.iter().rev().map(|batch| (batch, true)))
            .chain(self.used.iter().rev().map(|batch| (batch, false)))
        {
            let count = batch.share(end, n);
            let in_use = in_use && batch.over > ahead.now();
            if count == 0 || in_use && ahead.purse.put_back(batch.first, batch.count, count) {
                continue;
            }
            rests.push(Rest {
                batch: *batch,
                count,
                behind: batch.gone + batch.count - between(batch.first, end).min(batch.count),
            });
        }
        rests
    }

    /// How many to take ahead now.
    pub(super) fn wanted(&self, ahead: &Ahead) -> Option<u64> {
        let is_low = ahead.purse.is_low();
        (self.plenty && is_low).then(|| ahead.chunk.saturating_sub(ahead.purse.count()))
    }

    /// Instead of asking for those in line, takes enough for them and a chunk, if there is plenty.
    pub(super) fn instead(&self, ahead: &Ahead, costs: Vec<u64>) -> Next {
        let line = costs
            .iter()
            .fold(0_u64, |sum, cost| sum.saturating_add(*cost));
        let wanted = line
            .saturating_add(ahead.chunk)
            .saturating_sub(ahead.purse.count());
        if self.plenty && line <= purse::MOST - ahead.chunk && wanted > 0 {
            Next::TakeAhead(wanted)
        } else {
            Next::Ask(costs)
        }
    }

    /// How long until the oldest is over.
    pub(super) fn over_in(&self, ahead: &Ahead) -> Option<Duration> {
        let first = self.batches.front().filter(|_| ahead.purse.count() > 0)?;
        Some(first.over.saturating_since(ahead.now()))
    }
}

fn later(tick: Tick, hold: Duration) -> Tick {
    let nanos = u64::try_from(hold.as_nanos()).unwrap_or(u64::MAX);
    Tick::from_nanos(tick.as_nanos().saturating_add(nanos))
}
