//! The reference: the meaning of every rate limiter, without a clock, a lock or a waker.
//!
//! 1. A tick is a nanosecond. Every event is kept in the order of the calls, and the state at a
//!    moment is the replay of all events since the quota was last changed.
//! 2. A correction changes the list of events: a settled hold becomes a charge at the place where
//!    the hold began, and a pause that is ended early gets an earlier end.
//! 3. A call is due at the first tick at which it [fits](Owed::fits). A bisection finds that tick,
//!    because the owed part only shrinks while nothing else happens.

mod owed;

use std::collections::VecDeque;

use tollgate::rate::{MissedTickBehavior, QuotaChange};
use tollgate::{Algorithm, Quota};

pub(crate) use self::owed::LAST_TICK;
use self::owed::{Kind, NOBODY, Owed, Rule, up};

/// The options of a limiter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) algorithm: Algorithm,
    pub(crate) quota: Quota,
    pub(crate) overdraft: bool,
    pub(crate) max_waiters: usize,
    pub(crate) missed: Option<MissedTickBehavior>,
    pub(crate) start: u64,
}

/// An event since the quota was last changed: its owner, its tick, and what happened.
type Event = (usize, i128, What);

#[derive(Clone, Copy)]
enum What {
    /// A charge of a cost; whether it is the grant of a waiter that just became due.
    Charge(i128, bool),
    Refund(i128),
    /// A hold of a cost, and what it has used.
    Hold(i128, Option<i128>),
    /// A pause until the tick.
    Pause,
    /// The amount that was forced in a pause, carried over to this quota.
    Forced(i128),
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
    /// It waits, under this name.
    Waits(usize),
}

#[derive(Clone, Copy)]
struct Waiter {
    name: usize,
    cost: u64,
    joined: u64,
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
                What::Hold(_, used) => {
                    owed.raise(at);
                    owed.charge(owner, at, false, used.unwrap_or(0));
                }
                What::Refund(cost) => owed.refund(owner, at, cost),
                What::Pause => owed.spend(at),
                What::Forced(amount) => owed.owe(at, amount),
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

    /// Returns the cost that is held beside the charges.
    fn held(&self) -> i128 {
        let held = self.events.iter().map(|event| match event.2 {
            What::Hold(held, None) => held,
            _ => 0,
        });
        held.sum()
    }

    /// Returns whether a cost is admitted at a tick, beside a held cost.
    fn fits(&self, owed: &dyn Owed, tick: i128, held: i128, cost: u64) -> bool {
        let all = (held + i128::from(cost)).min(u64::MAX.into());
        let is_paused = tick < self.paused_until.into() || self.paused_until == u64::MAX;
        let is_possible = held == 0 || all <= self.rule().burst;
        !is_paused && is_possible && owed.fits(tick, all)
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
        let (rule, now) = (self.rule(), i128::from(self.now));
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

/// Returns the amount that these events have charged, at this many units a token.
fn forced(events: impl Iterator<Item = Event>, interval: i128) -> i128 {
    let amounts = events.map(|event| match event.2 {
        What::Charge(cost, _) | What::Hold(_, Some(cost)) => cost * interval,
        What::Refund(cost) => -cost * interval,
        What::Forced(amount) => amount,
        What::Hold(_, None) | What::Pause => 0,
    });
    amounts.sum()
}

/// Returns whether an event is a pause that has not ended.
fn is_active(event: &Event, now: u64) -> bool {
    matches!(event.2, What::Pause) && event.1 > now.into()
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
        while let Some(due) = self.due_of_head().filter(|due| *due <= target) {
            self.jump(due);
            self.serve();
        }
        self.jump(target);
    }

    /// Lets time jump past due ticks: whoever was due is served late.
    pub(crate) fn jump(&mut self, tick: u64) {
        self.now = tick;
    }

    pub(crate) fn try_acquire(&mut self, cost: u64) -> Answer {
        let (due, is_first) = (self.due_of_next(cost), self.queue.is_empty());
        let is_exact = is_first || self.rule().kind == Kind::Even && self.held() == 0;
        if self.closed {
            Answer::Closed
        } else if self.is_too_much(cost) {
            Answer::Exceeds(self.limit())
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
                self.queue.push_back(Waiter { name, cost, joined });
                Answer::Waits(name)
            }
            answer => answer,
        }
    }

    /// Gives up a place in the queue, or a grant.
    pub(crate) fn leave(&mut self, name: usize) {
        self.queue.retain(|waiter| waiter.name != name);
        if let Answer::Charged(charged) = self.answers[name] {
            self.give_back(charged, charged.cost);
        }
        self.change();
    }

    pub(crate) fn charge(&mut self, cost: u64) -> Charged {
        self.book(self.now.into(), false, cost)
    }

    pub(crate) fn refund(&mut self, charged: Charged, cost: u64) {
        self.give_back(charged, cost);
        self.change();
    }

    /// Gives back a part of a charge, unless it is from before a pause, or of another quota.
    fn give_back(&mut self, charged: Charged, cost: u64) {
        if charged.generation == self.generation {
            let refund = What::Refund(cost.into());
            self.events.push((charged.owner, self.now.into(), refund));
        }
    }

    pub(crate) fn settle(&mut self, charged: Charged, used: u64) {
        match charged.cost.checked_sub(used) {
            Some(less) => self.refund(charged, less),
            None => _ = self.charge(used - charged.cost),
        }
    }

    /// Holds the cost of a charge, in place of the charge. In a log and a window the charge itself
    /// is the hold.
    pub(crate) fn hold(&mut self, charged: Charged) -> Charged {
        if !self.rule().is_by_word() {
            let is_known = charged.generation == self.generation;
            return if is_known {
                charged
            } else {
                self.charge(charged.cost)
            };
        }
        self.give_back(charged, charged.cost);
        let (owner, hold) = (self.owners, What::Hold(charged.cost.into(), None));
        self.owners += 1;
        self.events.push((owner, self.now.into(), hold));
        self.change();
        Charged { owner, ..charged }
    }

    /// Charges the usage as of the beginning of the hold. A log and a window correct the charge.
    pub(crate) fn settle_hold(&mut self, hold: Charged, used: u64) {
        if !self.rule().is_by_word() {
            return self.settle(hold, used);
        }
        for (owner, _, what) in &mut self.events {
            if *owner == hold.owner {
                *what = What::Hold(hold.cost.into(), Some(used.into()));
            }
        }
        self.change();
    }

    /// Admits nobody until the end, and spends the burst as of then, except for one token. The
    /// longest pause wins: it and the one that has not ended are one pause.
    pub(crate) fn pause_for(&mut self, nanos: u64) {
        let until = self.now.saturating_add(nanos);
        if until > self.now && until > self.paused_until {
            let is_never = i128::from(until) > LAST_TICK;
            self.paused_until = if is_never { u64::MAX } else { until };
            self.generation += 1;
            if !self.move_pause(until) {
                self.events.push((NOBODY, until.into(), What::Pause));
            }
            self.change();
        }
    }

    /// Moves the end of a pause. What was forced in it counts as of now in a log or a window, and
    /// comes after the spent burst in a backlog. Returns whether there is a pause.
    fn move_pause(&mut self, until: u64) -> bool {
        let now = i128::from(self.now);
        let pause = self
            .events
            .iter()
            .position(|event| is_active(event, self.now));
        let Some(pause) = pause else {
            return false;
        };
        self.events[pause].1 = until.into();
        if !self.rule().is_by_word() {
            let forced = forced(self.events.drain(pause + 1..), 1);
            self.events.push((NOBODY, now, What::Forced(forced)));
        }
        true
    }

    /// Ends a pause, as if it had been asked to end now.
    pub(crate) fn resume(&mut self) {
        if self.move_pause(self.now) {
            self.generation += 1;
        }
        self.paused_until = self.paused_until.min(self.now);
        self.change();
    }

    /// Carries over what is owed. During a pause that is what is owed without it; then the new
    /// burst is spent, and what was forced in the pause follows. Open holds count as of now.
    /// Waiters that ask for too much now are refused.
    pub(crate) fn set_quota(&mut self, quota: Quota, how: QuotaChange) {
        let (old, now) = (*self.rule(), i128::from(self.now));
        let new = Rule::new(self.setup.algorithm, quota);
        self.quota = quota;
        if old.is(&new) {
            return;
        }
        let new = old.then(new, now);
        let pause = self
            .events
            .iter()
            .position(|event| is_active(event, self.now));
        let (before, within) = self.events.split_at(pause.unwrap_or(self.events.len()));
        let base = self.replay(before).change(new, how, now);
        let is_open = |event: &&Event| matches!(event.2, What::Hold(_, None));
        let opened = |events: &[Event]| {
            let holds = events.iter().filter(is_open);
            holds.map(|hold| (hold.0, now, hold.2)).collect::<Vec<_>>()
        };
        let mut events = opened(before);
        if pause.is_some() {
            let forced = forced(within.iter().copied(), old.interval());
            let forced = old.scaled(forced, &new, how);
            events.push((NOBODY, self.paused_until.into(), What::Pause));
            events.push((NOBODY, now, What::Forced(forced)));
            events.extend(opened(within));
        }
        (self.base, self.events) = (base, events);
        self.generation += 1;
        for waiter in std::mem::take(&mut self.queue) {
            if self.is_too_much(waiter.cost) {
                self.answers[waiter.name] = Answer::Exceeds(self.limit());
            } else {
                self.queue.push_back(waiter);
            }
        }
        self.change();
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

    /// Returns how much of the limit is in use: all of it during a pause.
    pub(crate) fn in_use(&self) -> u64 {
        let used = self.owed().used(self.now.into()) + self.held();
        let used = u64::try_from(used).unwrap_or(u64::MAX);
        self.paused_until().map_or(used, |_| self.limit())
    }

    /// Returns the tick at which nothing is in use, if no other call comes.
    pub(crate) fn reset(&self) -> Option<u64> {
        let owed = self.owed();
        let is_free = |tick| self.fits(&*owed, tick, 0, 0) && owed.used(tick) == 0;
        let reset = first(self.now.into(), is_free).filter(|_| !self.has_holds());
        reset.map(|tick| tick as u64)
    }

    /// Returns the tick of a call that comes now.
    pub(crate) fn due_of_next(&self, cost: u64) -> Option<u64> {
        self.foresee(self.queue.len(), self.held(), cost)
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
