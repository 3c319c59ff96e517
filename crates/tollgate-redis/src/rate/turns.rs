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
//! 4. A process whose next turn is far looks whether the line has become shorter, because the quota was raised or the limit
//!    was lost; then it gives its turns back and reserves again.
//! 5. A turn that would be used late is not used, and its waiter gets another one. A reply that comes late gives no turns,
//!    because the time since their ticks is not known.
//! 6. A step visits a bounded number of waiters and turns of each cost, however many there are.
//!
//! Times are arguments: nothing here reads a clock.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::charge::{Charge, Queue};
use super::rule::Rule;
use crate::queue::{self, LimitCounters};

type Waiter = queue::Waiter<(), Charge>;

/// How late a turn may be used, unless one cost takes longer; and by how much a round trip may be longer than the shortest
/// one.
pub(crate) const LATE: Duration = Duration::from_millis(50);

/// A turn is far if it is due later than this.
const FAR: Duration = Duration::from_secs(5);

/// The number of waiters that are visited to find one of a cost.
const MOST_VISITED: usize = 256;

/// For how long the key of the turns is left out after a call with both keys was refused.
const WITHOUT_KEY: Duration = Duration::from_secs(1);

/// A turn that is to come.
struct Turn {
    due: Instant,
    charge: Charge,
}

/// The turns of one cost.
#[derive(Default)]
struct Line {
    /// The waiters that have turns, by their numbers.
    waiters: BTreeMap<u64, Waiter>,
    turns: usize,
}

#[derive(Default)]
pub(super) struct Turns {
    counters: Arc<LimitCounters>,
    /// By their costs.
    lines: BTreeMap<u64, Line>,
    /// The number of waiters that have turns.
    waiters: usize,
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
    /// When to look whether the line has become shorter.
    look: Option<Instant>,
    /// Until then the key of the turns is left out.
    without_key: Option<Instant>,
}

impl Turns {
    pub(super) fn new(counters: Arc<LimitCounters>) -> Self {
        Self {
            counters,
            ..Self::default()
        }
    }

    /// Returns the number of waiters that have turns.
    pub(super) fn waiters(&self) -> usize {
        self.waiters
    }

    /// Returns the number of turns.
    pub(super) fn len(&self) -> usize {
        self.turns.len()
    }

    /// Returns when the next turn is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.turns.front().map(|turn| turn.due)
    }

    /// Returns when to look whether the line has become shorter, if the next turn is far.
    pub(super) fn looks_at(&mut self, now: Instant) -> Option<Instant> {
        let Some(due) = self.due() else {
            self.look = None;
            return None;
        };
        let left = due.saturating_duration_since(now);
        if left > FAR {
            self.look.get_or_insert(now + FAR.max(left / 10));
        }
        self.look
    }

    /// Records that the server was asked where the line ends. Returns the turns if that is before them, and moves their
    /// waiters back to the front of the queue.
    pub(super) fn looked(&mut self, queue: &mut Queue, end: Instant) -> Vec<Charge> {
        self.look = None;
        match self.due() {
            Some(due) if end < due => self.release(queue),
            _ => Vec::new(),
        }
    }

    /// Returns whether there is no turn, and nothing is known that a new limiter would not know.
    pub(super) fn is_at_rest(&self, now: Instant) -> bool {
        self.turns.is_empty() && self.has_key(now)
    }

    /// Forgets the share: nobody waits.
    pub(super) fn rest(&mut self) {
        self.share = None;
    }

    /// Returns whether a call may have the key of the turns beside that of the limit.
    pub(super) fn has_key(&self, now: Instant) -> bool {
        self.without_key.is_none_or(|until| until <= now)
    }

    /// Records that a call with both keys was refused: a cluster has moved only one of them, or the user has a right only for
    /// that of the limit.
    pub(super) fn lose_key(&mut self, now: Instant) {
        self.without_key = Some(now + WITHOUT_KEY);
    }

    pub(super) fn is_of(&self, rule: &Rule) -> bool {
        self.turns.is_empty() || self.rule.as_ref() == Some(rule)
    }

    /// Records until when others wait, as the last reply told.
    pub(super) fn learn_line(&mut self, until: Option<Instant>) {
        self.behind = until;
    }

    /// Returns whether others wait for the limit, so that a call that takes what is there now gets nothing.
    pub(super) fn is_behind(&self, now: Instant) -> bool {
        self.behind.is_some_and(|behind| behind > now) || !self.turns.is_empty()
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
        let asks = self.turns.is_empty() || is_low || queue.has_tries();
        asks.then_some(room)
    }

    /// Learns the share and the round trip from a reply. Returns whether the reply came in time.
    pub(super) fn learn(&mut self, first: u64, within: u64, holders: u64, took: Duration) -> bool {
        let share = within.checked_div(holders).unwrap_or(1).max(1);
        let most = self.share.unwrap_or(first).saturating_mul(2);
        self.share = Some(share.min(most));
        let is_late = self.round_trip.is_some_and(|least| took > least + LATE);
        // A late reply may also be the first one over a longer way.
        self.round_trip = self.round_trip.filter(|least| !is_late && *least < took);
        self.round_trip.get_or_insert(took);
        !is_late
    }

    /// Gives a turn to a waiter.
    pub(super) fn add(&mut self, rule: Rule, waiter: Waiter, due: Instant, mut charge: Charge) {
        charge.is_turn = true;
        self.counters.reserved_turn();
        self.rule = Some(rule);
        self.tokens = self.tokens.saturating_add(charge.cost);
        let index = self.turns.partition_point(|turn| turn.due <= due);
        let line = self.lines.entry(charge.cost).or_default();
        line.turns += 1;
        line.waiters.insert(waiter.number, waiter);
        self.waiters += 1;
        self.turns.insert(index, Turn { due, charge });
    }

    /// Takes out a waiter that has a turn.
    fn remove(&mut self, cost: u64, number: u64) -> Option<Waiter> {
        let waiter = self.lines.get_mut(&cost)?.waiters.remove(&number)?;
        self.waiters -= 1;
        Some(waiter)
    }

    /// Takes out a waiter that has left.
    pub(super) fn leave(&mut self, number: u64) {
        let has_it = |(_, line): &(&u64, &Line)| line.waiters.contains_key(&number);
        if let Some((&cost, _)) = self.lines.iter().find(has_it) {
            drop(self.remove(cost, number));
        }
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
            self.forget(cost);
            let late = LATE.max(rule.lasting(cost.into()));
            if now - turn.due <= late
                && let Some(waiter) = self.first_of(queue, cost)
            {
                queue.reply(waiter, Ok(turn.charge));
            } else {
                self.counters.unused_turns(1);
            }
        }
        self.due()
    }

    /// Records that a turn of this cost is not held any more.
    fn forget(&mut self, cost: u64) {
        self.tokens -= cost;
        if let Some(line) = self.lines.get_mut(&cost) {
            line.turns -= 1;
        }
    }

    /// Takes out the first waiter of a cost, of those that have turns, or of the queue.
    fn first_of(&mut self, queue: &mut Queue, cost: u64) -> Option<Waiter> {
        let mut waiters = self.lines.get(&cost)?.waiters.values();
        let first = waiters.find(|it| is_served(it, cost)).map(|it| it.number);
        match first {
            Some(number) => self.remove(cost, number),
            None => self.first_of_queue(queue, cost),
        }
    }

    fn first_of_queue(&self, queue: &mut Queue, cost: u64) -> Option<Waiter> {
        let mut waiters = queue.iter().skip(self.asked).take(MOST_VISITED);
        let first = waiters.find(|it| is_served(it, cost) && !it.tries)?;
        let number = first.number;
        queue.remove(number)
    }

    /// Makes the waiters as many as the turns of their cost, after some have left, or were too late. Returns the turns that
    /// nobody wants.
    pub(super) fn balance(&mut self, queue: &mut Queue) -> Vec<Charge> {
        let mut unwanted = Vec::new();
        let differ = |(_, line): &(&u64, &Line)| line.waiters.len() != line.turns;
        let costs: Vec<u64> = self
            .lines
            .iter()
            .filter(differ)
            .map(|(&it, _)| it)
            .collect();
        for cost in costs {
            self.balance_line(queue, cost, &mut unwanted);
        }
        self.lines.retain(|_, line| line.turns > 0);
        if self.turns.is_empty() && queue.is_empty() {
            self.rest();
        }
        unwanted
    }

    fn balance_line(&mut self, queue: &mut Queue, cost: u64, unwanted: &mut Vec<Charge>) {
        let Some(line) = self.lines.get_mut(&cost) else {
            return;
        };
        while line.waiters.len() > line.turns
            && let Some((_, waiter)) = line.waiters.pop_last()
        {
            self.waiters -= 1;
            queue.insert(waiter);
        }
        for _ in line.waiters.len()..line.turns {
            let has_cost = |turn: &Turn| turn.charge.cost == cost;
            if let Some(waiter) = self.first_of_queue(queue, cost)
                && let Some(line) = self.lines.get_mut(&cost)
            {
                line.waiters.insert(waiter.number, waiter);
                self.waiters += 1;
            } else if let Some(index) = self.turns.iter().rposition(has_cost)
                && let Some(turn) = self.turns.remove(index)
            {
                self.forget(cost);
                self.counters.unused_turns(1);
                unwanted.push(turn.charge);
            }
        }
    }

    /// Moves the waiters back to the front of the queue. Returns the turns.
    pub(super) fn release(&mut self, queue: &mut Queue) -> Vec<Charge> {
        let lines = std::mem::take(&mut self.lines);
        for waiter in lines
            .into_values()
            .flat_map(|line| line.waiters.into_values())
        {
            queue.insert(waiter);
        }
        (self.waiters, self.tokens, self.look) = (0, 0, None);
        self.counters.unused_turns(self.turns.len());
        self.turns.drain(..).map(|turn| turn.charge).collect()
    }
}

/// Returns whether a turn of this cost may admit the waiter.
fn is_served(waiter: &Waiter, cost: u64) -> bool {
    waiter.cost == cost && !waiter.answer.is_closed()
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;
    use tollgate::{Algorithm, Quota};

    use super::super::charge::Source;
    use super::*;
    use crate::queue::Answer;

    const SECOND: Duration = Duration::from_secs(1);

    type Receiver = oneshot::Receiver<Answer<Charge>>;

    /// A waiter that is not in the queue.
    fn waiter(cost: u64) -> (Waiter, Receiver) {
        let (answer, receiver) = oneshot::channel();
        let waiter = Waiter {
            number: 0,
            cost,
            tries: false,
            deadline: None,
            request: (),
            answer,
        };
        (waiter, receiver)
    }

    fn rule() -> Rule {
        Rule::of(Quota::per_second(100), Algorithm::Gcra)
    }

    /// Turns of these costs, one in each second, and their waiters.
    fn turns(costs: &[u64], now: Instant) -> (Turns, Queue, Vec<Receiver>) {
        let mut turns = Turns::default();
        let mut queue = Queue::new();
        let receivers = costs.iter().zip(1..).map(|(cost, seconds)| {
            let (waiter, receiver) = waiter(*cost);
            let number = queue.next_number();
            let waiter = Waiter { number, ..waiter };
            let charge = Charge::open(*cost, Source::Store);
            turns.add(rule(), waiter, now + SECOND * seconds, charge);
            receiver
        });
        let receivers = receivers.collect();
        (turns, queue, receivers)
    }

    /// Returns the indices of the waiters that are admitted.
    fn admitted(queue: &mut Queue, receivers: &mut [Receiver]) -> Vec<usize> {
        for (sender, answer) in std::mem::take(&mut queue.replies) {
            sender.send(answer).unwrap();
        }
        let receivers = receivers.iter_mut().enumerate();
        let admitted = receivers.filter_map(|(index, it)| it.try_recv().is_ok().then_some(index));
        admitted.collect()
    }

    #[test]
    fn serve_admits_the_first_waiter_of_the_cost_of_each_turn() {
        let now = Instant::now();
        let (mut turns, mut queue, mut receivers) = turns(&[1, 3, 1], now);
        assert_eq!(turns.serve(&mut queue, &rule(), now), Some(now + SECOND));
        let next = turns.serve(&mut queue, &rule(), now + SECOND);
        assert_eq!(next, Some(now + SECOND * 2));
        assert_eq!(admitted(&mut queue, &mut receivers), [0]);
        // The second waiter of cost 1 takes the place of the first in the line, not that of cost 3.
        assert!(turns.balance(&mut queue).is_empty());
        let _ = turns.serve(&mut queue, &rule(), now + SECOND * 2);
        assert_eq!(admitted(&mut queue, &mut receivers), [1]);
    }

    #[test]
    fn serve_admits_with_a_charge_that_is_a_turn() {
        let now = Instant::now();
        let (mut turns, mut queue, _receivers) = turns(&[1], now);
        let _ = turns.serve(&mut queue, &rule(), now + SECOND);
        let (_, answer) = queue.replies.pop().unwrap();
        assert!(answer.unwrap().is_turn());
        assert!(!Charge::open(1, Source::Store).is_turn());
    }

    #[test]
    fn serve_of_a_late_turn_admits_nobody_and_its_last_waiter_returns_to_the_queue() {
        let now = Instant::now();
        let (mut turns, mut queue, mut receivers) = turns(&[1, 1, 2], now);
        let _ = turns.serve(&mut queue, &rule(), now + SECOND + LATE);
        assert_eq!(admitted(&mut queue, &mut receivers), [0], "just in time");
        let late = now + SECOND * 2 + LATE + Duration::from_nanos(1);
        assert_eq!(
            turns.serve(&mut queue, &rule(), late),
            Some(now + SECOND * 3)
        );
        assert!(turns.balance(&mut queue).is_empty());
        assert!(admitted(&mut queue, &mut receivers).is_empty());
        let costs: Vec<_> = queue.iter().map(|waiter| waiter.cost).collect();
        assert_eq!((costs, turns.waiters(), turns.len()), (vec![1], 1, 1));
    }

    #[test]
    fn balance_after_a_waiter_left_serves_the_queue_or_returns_the_latest_turn() {
        let now = Instant::now();
        let (mut turns, mut queue, mut receivers) = turns(&[2, 2, 1], now);
        let (next, receiver) = waiter(1);
        let number = queue.next_number();
        queue.insert(Waiter { number, ..next });
        receivers.push(receiver);
        // One of cost 2 and one of cost 1 leave.
        for index in [2, 0] {
            drop(receivers.remove(index));
            turns.leave(index as u64);
        }
        let unwanted = turns.balance(&mut queue);
        assert_eq!(unwanted.iter().map(Charge::cost).collect::<Vec<_>>(), [2]);
        assert!(queue.is_empty());
        let dues: Vec<_> = turns.turns.iter().map(|turn| turn.due).collect();
        assert_eq!(dues, [now + SECOND, now + SECOND * 3]);
        let _ = turns.serve(&mut queue, &rule(), now + SECOND);
        assert_eq!(admitted(&mut queue, &mut receivers), [0]);
        let _ = turns.serve(&mut queue, &rule(), now + SECOND * 3);
        assert_eq!(admitted(&mut queue, &mut receivers), [1]);
    }

    #[test]
    fn room_begins_with_one_turn_and_doubles_up_to_the_share() {
        let now = Instant::now();
        let (mut turns, mut queue, _receivers) = turns(&[], now);
        let (head, _receiver) = waiter(3);
        queue.insert(head);
        assert_eq!(turns.room(&queue), Some(3));
        for (holders, expected) in [
            (2, 6),
            (2, 12),
            (2, 24),
            (2, 25),
            (5, 10),
            (2, 20),
            (500, 1),
        ] {
            assert!(turns.learn(3, 50, holders, SECOND));
            assert_eq!(turns.room(&queue), Some(expected));
        }
        // With a turn, more are asked for when half of the share is left, and the next cost fits.
        let charge = Charge::open(13, Source::Store);
        turns.add(rule(), waiter(13).0, now + SECOND, charge);
        for (holders, expected) in [
            (50, None),
            (2, None),
            (2, None),
            (2, None),
            (2, None),
            (1, Some(19)),
        ] {
            assert!(turns.learn(3, 50, holders, SECOND));
            assert_eq!(turns.room(&queue), expected, "{:?}", turns.share);
        }
    }

    #[test]
    fn learn_of_a_late_reply_is_false_once() {
        let mut turns = Turns::default();
        let millis = Duration::from_millis;
        let took = [20, 10, 60, 61, 90, 111, 5, 56].map(millis);
        let timely = took.map(|took| turns.learn(1, 1, 1, took));
        assert_eq!(timely, [true, true, true, false, true, true, true, false]);
    }

    #[test]
    fn looks_at_a_far_turn_is_after_five_seconds_or_a_tenth() {
        let now = Instant::now();
        for (seconds, expected) in [(5, None), (6, Some(5)), (50, Some(5)), (600, Some(60))] {
            let (mut turns, mut queue, _receivers) = turns(&[], now);
            turns.add(
                rule(),
                waiter(1).0,
                now + SECOND * seconds,
                Charge::open(1, Source::Store),
            );
            let look = expected.map(|expected| now + SECOND * expected);
            assert_eq!(turns.looks_at(now), look);
            assert_eq!(turns.looks_at(now + SECOND * 4), look, "it is near by now");
            let due = now + SECOND * seconds;
            assert!(turns.looked(&mut queue, due).is_empty());
            assert_eq!(turns.looked(&mut queue, due - SECOND).len(), 1);
            assert_eq!((queue.len(), turns.len()), (1, 0));
        }
    }
}
