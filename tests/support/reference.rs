//! The reference: the meaning of every rate limiter, without a clock, a lock or a waker.
//!
//! 1. A tick is a nanosecond. Every event is kept in the order of the calls, and the state at a
//!    moment is the replay of all events since the quota was last changed.
//! 2. A correction changes the list of events: a settled hold becomes a charge at the place where
//!    the hold began, and a pause that is ended early gets an earlier end.
//! 3. A call is due at the first tick at which it [fits](Owed::fits). A bisection finds that tick,
//!    because the owed part only shrinks while nothing else happens.

mod corrections;
mod follow;
pub(crate) mod local;
mod owed;

use std::collections::VecDeque;
use std::time::Duration;

use tollgate::rate::{MissedTickBehavior, Oversize};
use tollgate::time::ManualClock;
use tollgate::{Algorithm, Quota, RateLimiter};

use self::follow::Others;
use self::owed::{Kind, NOBODY, Rule, up};
pub(crate) use self::owed::{LAST_TICK, Owed};
use super::scenarios::Words;

/// The options of a limiter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) algorithm: Algorithm,
    pub(crate) quota: Quota,
    pub(crate) overdraft: bool,
    pub(crate) max_waiters: usize,
    pub(crate) missed: Option<MissedTickBehavior>,
    /// The longest hold, in nanoseconds.
    pub(crate) max_hold: u64,
    pub(crate) start: u64,
}

impl Setup {
    /// Returns the default options.
    pub(crate) fn new(algorithm: Algorithm, quota: Quota) -> Self {
        Self {
            algorithm,
            quota,
            overdraft: false,
            max_waiters: usize::MAX,
            missed: None,
            max_hold: u64::MAX,
            start: 0,
        }
    }

    /// Sets an option of a row.
    pub(crate) fn set(&mut self, option: &str, words: &mut Words<'_>) {
        match option {
            "overdraft" => self.overdraft = true,
            "waiters" => self.max_waiters = words.parse(),
            "delay" => self.missed = Some(MissedTickBehavior::Delay),
            "makes-up" => self.missed = Some(MissedTickBehavior::Burst { max: words.parse() }),
            "max-hold" => self.max_hold = words.nanos(),
            "at" => self.start = words.nanos(),
            option => panic!("no option: {option:?}"),
        }
    }

    /// Returns a limiter with these options.
    pub(crate) fn build(&self, clock: &ManualClock) -> RateLimiter {
        let limiter = RateLimiter::new(self.quota)
            .algorithm(self.algorithm)
            .max_waiters(self.max_waiters)
            .max_hold(Duration::from_nanos(self.max_hold))
            .clock(clock);
        let limiter = match self.missed {
            Some(missed) => limiter.missed_tick(missed),
            None => limiter,
        };
        if self.overdraft {
            limiter.oversize(Oversize::Overdraft)
        } else {
            limiter
        }
    }
}

/// Returns the state of a limit without charges.
pub(crate) fn owes_nothing(algorithm: Algorithm, quota: Quota) -> Box<dyn Owed> {
    Rule::new(algorithm, quota).owes_nothing()
}

/// An event since the quota was last changed: its owner, its tick, and what happened.
type Event = (usize, i128, What);

#[derive(Clone, Copy)]
enum What {
    /// A charge of a cost; whether it is the grant of a waiter that just became due.
    Charge(i128, bool),
    Refund(i128),
    /// A hold of a cost, what it has used, and the tick at which it ends by itself.
    Hold(i128, Option<i128>, u64),
    /// A pause until the tick.
    Pause,
    /// The amount that was forced in a pause, carried over to this quota.
    Forced(i128),
    /// A new beginning of the present window, as a server reports it.
    Shift(i128),
}

/// A charge, and the state just after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Charged {
    /// The number of the charge.
    pub(crate) owner: usize,
    pub(crate) generation: usize,
    pub(crate) at: u64,
    pub(crate) cost: u64,
    pub(crate) left: u64,
    pub(crate) reset: Option<u64>,
}

/// The outcome of a call. A tick of `None` never comes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Answer {
    Charged(Charged),
    Closed,
    Exceeds(u64),
    /// It is due at a tick. The limiter may tell an earlier tick, down to the second one.
    Limited(Option<u64>, Option<u64>),
    /// It would wait, and there is no slot until the tick.
    Full(Option<u64>),
    /// It would wait for longer than its timeout, as [`Limited`](Self::Limited).
    Late(Option<u64>, Option<u64>),
    /// It waits, under this name.
    Waits(usize),
    /// Its timeout is over.
    TimedOut,
}

#[derive(Clone, Copy)]
struct Waiter {
    name: usize,
    cost: u64,
    joined: u64,
    /// It gives up when it is polled at this tick or later.
    deadline: Option<u64>,
}

/// A limiter.
pub(crate) struct Reference {
    setup: Setup,
    pub(crate) now: u64,
    pub(crate) quota: Quota,
    /// The owed part when the quota was last changed.
    base: Box<dyn Owed>,
    events: Vec<Event>,
    /// The number of charges and holds so far.
    pub(crate) owners: usize,
    /// Charges of other generations cannot be refunded.
    pub(crate) generation: usize,
    paused_until: u64,
    /// The holds, and the charges that they began with.
    begun: Vec<(usize, usize)>,
    /// What is known of a server whose count is followed.
    others: Option<Others>,
    queue: VecDeque<Waiter>,
    /// The answers to all waiters so far, by name.
    answers: Vec<Answer>,
    /// The tick of the last change that may have made the head due.
    changed: u64,
    pub(crate) closed: bool,
}

/// The replay.
impl Reference {
    pub(crate) fn new(setup: Setup) -> Self {
        Self {
            setup,
            now: setup.start,
            quota: setup.quota,
            base: Rule::new(setup.algorithm, setup.quota).owes_nothing(),
            events: Vec::new(),
            owners: 0,
            generation: 0,
            paused_until: 0,
            begun: Vec::new(),
            others: None,
            queue: VecDeque::new(),
            answers: Vec::new(),
            changed: 0,
            closed: false,
        }
    }

    fn replay(&self, events: &[Event]) -> Box<dyn Owed> {
        let mut owed = self.base.copy();
        for (owner, at, what) in events.iter().copied() {
            match what {
                What::Charge(cost, is_grant) => _ = owed.charge(owner, at, is_grant, cost),
                What::Hold(_, used, _) => owed.settle(owner, at, used.unwrap_or(0)),
                What::Refund(cost) => owed.refund(owner, at, cost),
                What::Pause => owed.spend(at),
                What::Forced(amount) => owed.owe(at, amount),
                What::Shift(start) => owed.shift(at, start),
            }
        }
        owed
    }

    fn owed(&self) -> Box<dyn Owed> {
        self.replay(&self.events)
    }

    fn rule(&self) -> &Rule {
        self.base.rule()
    }

    /// Returns the cost that is held beside the charges: none without a limit.
    fn held(&self) -> i128 {
        if self.rule().is_unlimited() {
            return 0;
        }
        let held = self.events.iter().map(|event| match event.2 {
            What::Hold(held, None, _) => held,
            _ => 0,
        });
        held.sum()
    }

    /// Returns whether a cost is admitted at a tick, beside a held cost and the use by others.
    fn fits(&self, owed: &dyn Owed, tick: i128, held: i128, cost: u64) -> bool {
        let is_paused = tick < self.paused_until.into() || self.paused_until == u64::MAX;
        let (burst, cost) = (self.rule().burst, i128::from(cost));
        let of_others = self.others.as_ref().map_or(vec![0], |others| {
            others.beside(self.now.into(), tick, (burst - cost).max(0))
        });
        let fits_beside = |of_others: i128| {
            let beside = held + of_others;
            let all = (beside + cost).min(u64::MAX.into());
            (beside == 0 || all <= burst) && owed.fits(tick, all)
        };
        !is_paused && of_others.into_iter().any(fits_beside)
    }

    /// Returns the tick of a call with this many waiters in front, if nothing else happens.
    fn foresee(&self, ahead: usize, held: i128, cost: u64) -> Option<u64> {
        let (mut owed, mut at) = (self.owed(), i128::from(self.now));
        let front = self.queue.iter().take(ahead).map(|waiter| waiter.cost);
        for cost in front.chain([cost]) {
            at = first(at, |tick| self.fits(&*owed, tick, held, cost))?;
            owed.charge(NOBODY, at, true, cost.into());
        }
        Some(at as u64)
    }

    /// Charges at a tick, with any backlog.
    fn book(&mut self, at: i128, is_grant: bool, cost: u64) -> Charged {
        let (owner, mut owed) = (self.owners, self.owed());
        let (charged, charged_at) = owed.charge(owner, at, is_grant, cost.into());
        self.owners += 1;
        self.events
            .push((owner, at, What::Charge(cost.into(), is_grant)));
        let counted = owed.used(charged_at) + self.held();
        if let Some(others) = &mut self.others {
            others.note(owner, charged_at, charged, counted);
        }
        Charged {
            owner,
            generation: self.generation,
            at: charged_at as u64,
            cost: charged as u64,
            left: (self.rule().burst - owed.used(charged_at)).max(0) as u64,
            reset: first(charged_at, |tick| owed.used(tick) == 0).map(|tick| tick as u64),
        }
    }

    /// Returns the earliest tick of the charge of a late waiter: the tick since which as many
    /// tokens have come as the limiter makes up for. By default that is a hundredth of a second.
    fn earliest(&self) -> i128 {
        let (rule, now) = (*self.owed().rule(), i128::from(self.now));
        let in_time = match rule.kind {
            Kind::Steps => 10_000_000 / rule.period * rule.count,
            _ => 10_000_000 * rule.count / rule.period,
        };
        let most = match self.setup.missed {
            Some(MissedTickBehavior::Delay | MissedTickBehavior::Burst { max: 0 }) => return now,
            _ if rule.is_unlimited() => return now,
            Some(MissedTickBehavior::Burst { max }) => max.into(),
            _ => in_time.max(1),
        };
        if !rule.is_by_word() {
            return now.min(LAST_TICK) - up(most * rule.period, rule.count);
        }
        let unit = rule.units(now) - most * rule.interval();
        first(0, |tick| rule.units(tick) >= unit).unwrap_or(now)
    }

    /// Grants every waiter that is due, as of the tick at which it became due.
    pub(crate) fn serve(&mut self) {
        while let Some(head) = self.queue.front().copied() {
            let (owed, held) = (self.owed(), self.held());
            let fits = |tick| self.fits(&*owed, tick, held, head.cost);
            if !fits(self.now.into()) {
                break;
            }
            let since = self.earliest().max(head.joined.max(self.changed).into());
            let at = first(since, fits).expect("due now or before");
            self.answers[head.name] = Answer::Charged(self.book(at, true, head.cost));
            self.queue.pop_front();
        }
    }

    /// Does the same after a change that may have made the head due.
    fn change(&mut self) {
        self.changed = self.now;
        self.serve();
    }
}

/// Finds the first tick from `from` on at which a condition holds, if it holds from then on.
fn first(from: i128, holds: impl Fn(i128) -> bool) -> Option<i128> {
    let (mut before, mut found) = (from, LAST_TICK);
    if holds(from) {
        return Some(from);
    } else if before >= found || !holds(found) {
        return None;
    }
    while found - before > 1 {
        let middle = before + (found - before) / 2;
        let side = if holds(middle) {
            &mut found
        } else {
            &mut before
        };
        *side = middle;
    }
    Some(found)
}

/// The calls.
impl Reference {
    /// Lets time pass from one due tick to the next.
    pub(crate) fn advance(&mut self, nanos: u64) {
        let target = self.now.saturating_add(nanos);
        while let Some(due) = self.next_due().filter(|due| *due <= target) {
            self.jump(due);
            self.serve();
        }
        self.jump(target);
    }

    /// Returns the next tick at which the head is due, or may be due because a hold ends.
    pub(crate) fn next_due(&self) -> Option<u64> {
        let (due, end) = (self.due_of_head(), self.end_of_hold());
        let end = end.filter(|_| !self.queue.is_empty());
        due.into_iter().chain(end).min()
    }

    /// Lets time jump past due ticks: whoever was due is served late. Holds end that are as old as
    /// they may be, for their whole cost. A waiter that was not due before counts as due by the last of
    /// them.
    pub(crate) fn jump(&mut self, tick: u64) {
        let (due, first) = (self.due_of_head(), self.end_of_hold());
        let was_due = due.is_some_and(|due| first.is_some_and(|first| due < first));
        self.now = tick;
        while let Some(end) = self.end_of_hold().filter(|end| *end <= tick) {
            for (.., what) in &mut self.events {
                match what {
                    What::Hold(cost, used @ None, it) if *it == end => *used = Some(*cost),
                    _ => {}
                }
            }
            if !was_due {
                self.changed = self.changed.max(end);
            }
        }
    }

    /// Returns the tick at which the next hold ends by itself.
    fn end_of_hold(&self) -> Option<u64> {
        let ends = self.events.iter().filter_map(|event| match event.2 {
            What::Hold(_, None, end) => Some(end),
            _ => None,
        });
        ends.min().filter(|end| *end < u64::MAX)
    }

    pub(crate) fn try_acquire(&mut self, cost: u64) -> Answer {
        let (due, is_first) = (self.due_of_next(cost), self.queue.is_empty());
        let is_exact = is_first || self.rule().kind == Kind::Even && self.held() == 0;
        if self.closed {
            Answer::Closed
        } else if self.is_too_much(cost) {
            Answer::Exceeds(self.limit())
        } else if self.admits_all() {
            Answer::Charged(self.without_limit(cost))
        } else if cost == 0 || is_first && due == Some(self.now) {
            Answer::Charged(self.charge(cost))
        } else {
            Answer::Limited(due, if is_exact { due } else { self.due_of_head() })
        }
    }

    pub(crate) fn acquire(&mut self, cost: u64) -> Answer {
        match self.try_acquire(cost) {
            Answer::Limited(due, _) if self.queue.len() >= self.setup.max_waiters => {
                let is_first = self.queue.is_empty();
                Answer::Full(if is_first { due } else { self.due_of_head() })
            }
            Answer::Limited(..) => {
                let (name, joined) = (self.answers.len(), self.now);
                self.answers.push(Answer::Waits(name));
                self.queue.push_back(Waiter {
                    name,
                    cost,
                    joined,
                    deadline: None,
                });
                Answer::Waits(name)
            }
            answer => answer,
        }
    }

    /// Does the same for a wait with a timeout. If the wait is known not to fit, the call is refused
    /// at once. The limiter may know only an earlier tick than the due one, so it says what it did.
    pub(crate) fn acquire_within(&mut self, cost: u64, nanos: u64, is_refused: bool) -> Answer {
        let (due, least) = self.due_without_holds(cost);
        let deadline = self.now.checked_add(nanos);
        let answer = self.acquire(cost);
        let Answer::Waits(name) = answer else {
            return answer;
        };
        let is_late = |due: Option<u64>| due.is_none_or(|due| due - self.now > nanos);
        if is_refused && is_late(due) || is_late(least) {
            self.queue.pop_back();
            self.answers[name] = Answer::TimedOut;
            return Answer::Late(due, least);
        }
        let last = self.queue.back_mut().expect("it joined");
        last.deadline = deadline;
        answer
    }

    /// Gives up a wait whose timeout is over, and returns the present answer.
    pub(crate) fn poll(&mut self, name: usize) -> Answer {
        let is_past = |waiter: &Waiter| waiter.deadline.is_some_and(|it| it <= self.now);
        let is_over = |waiter: &Waiter| waiter.name == name && is_past(waiter);
        if self.queue.iter().any(is_over) {
            self.leave(name);
            self.answers[name] = Answer::TimedOut;
        }
        self.answers[name]
    }

    /// Gives up a place in the queue, or a grant.
    pub(crate) fn leave(&mut self, name: usize) {
        self.queue.retain(|waiter| waiter.name != name);
        if let Answer::Charged(charged) = self.answers[name] {
            self.give_back(charged, charged.cost);
        }
        self.change();
    }

    /// Returns the charge of a call without a limit: it has no tick, and nothing is owed for it.
    fn without_limit(&self, cost: u64) -> Charged {
        Charged {
            owner: NOBODY,
            generation: usize::MAX,
            at: 0,
            cost,
            left: self.limit(),
            reset: None,
        }
    }

    pub(crate) fn charge(&mut self, cost: u64) -> Charged {
        self.book(self.now.into(), false, cost)
    }

    pub(crate) fn close(&mut self) {
        self.closed = true;
        for waiter in self.queue.drain(..) {
            self.answers[waiter.name] = Answer::Closed;
        }
    }
}

/// The observable state.
impl Reference {
    pub(crate) fn limit(&self) -> u64 {
        self.rule().burst as u64
    }

    pub(crate) fn is_too_much(&self, cost: u64) -> bool {
        cost > self.limit() && !self.setup.overdraft
    }

    pub(crate) fn paused_until(&self) -> Option<u64> {
        Some(self.paused_until).filter(|until| self.now < *until)
    }

    pub(crate) fn has_holds(&self) -> bool {
        self.held() > 0
    }

    /// Returns what counts now, and how much of that is a token.
    pub(crate) fn counts(&self) -> (i128, i128) {
        self.owed().counts(self.now.into())
    }

    /// Returns the number of holds that have not ended.
    pub(crate) fn open_holds(&self) -> usize {
        let is_open = |event: &&Event| matches!(event.2, What::Hold(_, None, _));
        self.events.iter().filter(is_open).count()
    }

    /// Returns whether every call is admitted, and nothing is recorded for it.
    fn admits_all(&self) -> bool {
        let is_free = self.queue.is_empty() && !self.closed && self.paused_until().is_none();
        let is_alone = self.open_holds() == 0 && self.others.is_none();
        self.rule().is_unlimited() && is_free && is_alone
    }

    /// Returns what others use of a server that is followed.
    fn used_by_others(&self) -> i128 {
        let others = self.others.as_ref();
        others.map_or(0, |others| others.used(self.now.into()))
    }

    /// Returns whether more counts than the charges.
    pub(crate) fn has_more(&self) -> bool {
        self.held() + self.used_by_others() > 0
    }

    pub(crate) fn is_followed(&self) -> bool {
        self.others.is_some()
    }

    /// Returns how much of the limit is in use: all of it during a pause.
    pub(crate) fn in_use(&self) -> u64 {
        let beside = self.held() + self.used_by_others();
        let used = self.owed().used(self.now.into()) + beside;
        let used = u64::try_from(used).unwrap_or(u64::MAX);
        self.paused_until().map_or(used, |_| self.limit())
    }

    /// Returns the tick at which nothing is in use, if no other call comes.
    pub(crate) fn reset(&self) -> Option<u64> {
        let owed = self.owed();
        let others = self.others.as_ref();
        let known = others.map_or(0, |others| others.end(self.now.into()));
        let is_paused = |tick| tick < self.paused_until.into() || self.paused_until == u64::MAX;
        let is_free = |tick| !is_paused(tick) && tick >= known && owed.used(tick) == 0;
        let reset = first(self.now.into(), is_free).filter(|_| !self.has_holds());
        reset.map(|tick| tick as u64)
    }

    /// Returns the tick of a call that comes now.
    pub(crate) fn due_of_next(&self, cost: u64) -> Option<u64> {
        self.foresee(self.queue.len(), self.held(), cost)
    }

    /// Returns the tick of a call that comes now if all holds are settled for nothing, and an earlier
    /// one that the limiter may tell.
    fn due_without_holds(&self, cost: u64) -> (Option<u64>, Option<u64>) {
        let due = self.foresee(self.queue.len(), 0, cost);
        let is_exact = self.queue.is_empty() || self.rule().kind == Kind::Even && self.held() == 0;
        let head = self.queue.front().map(|head| self.foresee(0, 0, head.cost));
        (due, if is_exact { due } else { head.flatten() })
    }

    pub(crate) fn due_of_head(&self) -> Option<u64> {
        self.foresee(0, self.held(), self.queue.front()?.cost)
    }

    /// Returns the tick of a waiter, if all holds are settled for nothing.
    pub(crate) fn due_of(&self, name: usize) -> Option<u64> {
        let place = self.queue.iter().position(|waiter| waiter.name == name);
        let place = place.expect("it waits");
        self.foresee(place, 0, self.queue[place].cost)
    }

    pub(crate) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Returns the tick at which the head joined.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.queue.front().map(|head| head.joined)
    }

    pub(crate) fn answer(&self, name: usize) -> Answer {
        self.answers[name]
    }
}
