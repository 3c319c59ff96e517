//! [`Turns`]: the turns that the server has reserved for the waiters of this process, so that they send nothing while they
//! wait.
//!
//! 1. A turn is a charge with a tick, the microsecond of the server's clock at which it is due. It is used when the time
//!    until then, counted from the receipt of the reply, has passed by the clock of this process: never too early.
//! 2. Turns belong to the waiters of one cost. A turn that is due admits the first of them; if one leaves, the next waiter
//!    of that cost in the queue gets a turn, and otherwise the latest turn is given back.
//! 3. A process holds at most its share: what the rate admits within the [horizon](super::RateLimiter::horizon), divided by
//!    the number of processes that hold turns, but at least one turn. The share begins at one turn, and at most doubles
//!    with each reply. The process asks for more when at most half of its share is left.
//! 4. A turn that would be used late is not used, and its waiter gets another one. A reply that comes late gives no turns,
//!    because the time since their ticks is not known.
//!
//! Times are arguments: nothing here reads a clock.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use super::charge::Charge;
use super::rule::Rule;
use super::state::Queue;
use crate::queue;

type Waiter = queue::Waiter<(), Charge>;

/// How late a turn may be used, unless one cost takes longer; and by how much a round trip may be longer than the shortest
/// one.
const LATE: Duration = Duration::from_millis(50);

/// A turn that is to come.
struct Turn {
    due: Instant,
    charge: Charge,
}

/// The decision of the server about a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decided {
    /// The time until the waiter is due.
    pub(super) wait: Duration,
    /// The position of its charge; `None` if it is due too late.
    pub(super) position: Option<u64>,
}

#[derive(Default)]
pub(super) struct Turns {
    /// The waiters that have turns, first-in first-out.
    waiters: VecDeque<Waiter>,
    /// In the order in which they are due.
    turns: VecDeque<Turn>,
    /// The sum of their costs.
    tokens: u64,
    /// The rule by which they were reserved.
    rule: Option<Rule>,
    share: Option<u64>,
    /// The shortest round trip.
    round_trip: Option<Duration>,
    /// The number of waiters at the front of the queue about whom the server is asked now.
    pub(super) asked: usize,
    /// Others wait for the limit until this time.
    behind: Option<Instant>,
    /// The last call has failed.
    is_lost: bool,
}

impl Turns {
    /// Returns the number of waiters that have turns.
    pub(super) fn waiters(&self) -> usize {
        self.waiters.len()
    }

    /// Returns the number of turns.
    pub(super) fn len(&self) -> usize {
        self.turns.len()
    }

    /// Returns when the next turn is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.turns.front().map(|turn| turn.due)
    }

    pub(super) fn is_of(&self, rule: &Rule) -> bool {
        self.turns.is_empty() || self.rule.as_ref() == Some(rule)
    }

    /// Records until when others wait, as the last reply told.
    pub(super) fn learn_line(&mut self, until: Option<Instant>) {
        (self.behind, self.is_lost) = (until, false);
    }

    /// Forgets about others who wait. After a call without an answer nothing is reserved until another one is answered.
    pub(super) fn lose_line(&mut self) {
        (self.behind, self.is_lost) = (None, true);
    }

    /// Returns whether others wait for the limit, so that a call that takes what is there now gets nothing.
    pub(super) fn is_behind(&self, now: Instant) -> bool {
        let is_behind = self.behind.is_some_and(|behind| behind > now);
        !self.is_lost && (is_behind || !self.turns.is_empty())
    }

    /// Returns the time that a waiter with this deadline has, less a round trip.
    pub(super) fn remaining(&self, deadline: Instant, now: Instant) -> Duration {
        let round_trip = self.round_trip.unwrap_or_default();
        deadline.saturating_duration_since(now + round_trip)
    }

    /// Returns for how many tokens the server may be asked now, if any: waiters that try do not wait until half of the
    /// share is left.
    pub(super) fn room(&self, queue: &Queue) -> Option<u64> {
        let first = queue.front()?.cost;
        let share = self.share.unwrap_or(first);
        let room = share.saturating_sub(self.tokens);
        let is_low = self.tokens <= share / 2 && room >= first;
        let asks = self.turns.is_empty() || is_low || queue.iter().any(|waiter| waiter.tries);
        asks.then_some(room)
    }

    /// Learns the share and the round trip from a reply. Returns whether the reply came in time.
    pub(super) fn learn(&mut self, first: u64, within: u64, holders: u64, took: Duration) -> bool {
        let share = (within / holders.max(1)).max(1);
        let most = self.share.unwrap_or(first).saturating_mul(2);
        self.share = Some(share.min(most));
        let is_late = self.round_trip.is_some_and(|least| took > least + LATE);
        // A late reply may also be the first one over a longer way.
        self.round_trip = self.round_trip.filter(|least| !is_late && *least < took);
        self.round_trip.get_or_insert(took);
        !is_late
    }

    /// Gives a turn to a waiter.
    pub(super) fn add(&mut self, rule: Rule, waiter: Waiter, due: Instant, charge: Charge) {
        self.rule = Some(rule);
        self.tokens = self.tokens.saturating_add(charge.cost);
        let index = self.turns.partition_point(|turn| turn.due <= due);
        self.turns.insert(index, Turn { due, charge });
        self.waiters.push_back(waiter);
    }

    /// Admits the waiters whose turns are due. Returns when the next one is.
    pub(super) fn serve(
        &mut self,
        queue: &mut Queue,
        rule: &Rule,
        now: Instant,
    ) -> Option<Instant> {
        while self.due().is_some_and(|due| due <= now) {
            let Some(turn) = self.turns.pop_front() else {
                break;
            };
            let cost = turn.charge.cost;
            self.tokens -= cost;
            let late = LATE.max(rule.lasting(cost.into()));
            if now - turn.due > late {
                continue;
            }
            if let Some(waiter) = self.first_of(queue, cost) {
                queue.reply(waiter, Ok(turn.charge));
            }
        }
        self.due()
    }

    /// Takes out the first waiter of a cost, of those that have turns, or of the queue.
    fn first_of(&mut self, queue: &mut Queue, cost: u64) -> Option<Waiter> {
        let fits = |waiter: &Waiter| waiter.cost == cost && !waiter.answer.is_closed();
        if let Some(index) = self.waiters.iter().position(fits) {
            return self.waiters.remove(index);
        }
        let fits = |waiter: &Waiter| fits(waiter) && !waiter.tries;
        let index = queue.iter().skip(self.asked).position(fits)?;
        queue.remove(self.asked + index)
    }

    /// Makes the waiters as many as the turns of their cost, after some have left, or were too late. Returns the turns that
    /// nobody wants.
    pub(super) fn balance(&mut self, queue: &mut Queue) -> Vec<Charge> {
        self.waiters.retain(|waiter| !waiter.answer.is_closed());
        let mut spare = BTreeMap::<u64, isize>::new();
        for turn in &self.turns {
            *spare.entry(turn.charge.cost).or_default() += 1;
        }
        for index in (0..self.waiters.len()).rev() {
            let spare = spare.entry(self.waiters[index].cost).or_default();
            *spare -= 1;
        }
        for index in (0..self.waiters.len()).rev() {
            let spare = spare.entry(self.waiters[index].cost).or_default();
            if *spare < 0
                && let Some(waiter) = self.waiters.remove(index)
            {
                *spare += 1;
                queue.put_first(waiter);
            }
        }
        let mut unwanted = Vec::new();
        for (cost, spare) in spare {
            for _ in 0..spare {
                let has_cost = |turn: &Turn| turn.charge.cost == cost;
                if let Some(waiter) = self.first_of(queue, cost) {
                    self.waiters.push_back(waiter);
                } else if let Some(index) = self.turns.iter().rposition(has_cost)
                    && let Some(turn) = self.turns.remove(index)
                {
                    self.tokens -= cost;
                    unwanted.push(turn.charge);
                }
            }
        }
        if self.turns.is_empty() && queue.is_empty() {
            self.share = None;
        }
        unwanted
    }

    /// Moves the waiters back to the front of the queue. Returns the turns.
    pub(super) fn release(&mut self, queue: &mut Queue) -> Vec<Charge> {
        while let Some(waiter) = self.waiters.pop_back() {
            queue.put_first(waiter);
        }
        self.tokens = 0;
        self.turns.drain(..).map(|turn| turn.charge).collect()
    }
}
