//! A limiter and the reference, under the same calls.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use tollgate::rate::{Charge, Hold, LocalLimiter, MissedTickBehavior, QuotaChange, Reservation};
use tollgate::time::ManualClock;
use tollgate::wait::{Timeout, Waiting};
use tollgate::{AcquireError, Clock, ErrorKind, RateLimiter, Throttle};

use crate::support::reference::local::Local;
use crate::support::reference::{Answer, Charged, Reference, Setup};
use crate::support::scenarios::{Row, Time, Words};
use crate::support::{Waiter, foreign::calls_when_woken, poll_once};

type Enter = <Arc<RateLimiter> as Throttle>::Enter;

/// A wait that is not over, or that has not been polled since.
enum Asker {
    Future(Waiter<Waiting<Enter>>),
    /// Its waker advances the clock, so those behind it are served late.
    Slow(Waiter<Waiting<Enter>>),
    /// Its timeout wakes it as well.
    Within(Waiter<Waiting<Timeout<Enter>>>),
    Reserved(Box<Waiting<Reservation>>),
}

impl Asker {
    fn poll(&mut self) -> Poll<Result<Charge, AcquireError>> {
        match self {
            Self::Future(waiter) | Self::Slow(waiter) => waiter.poll(),
            Self::Within(waiter) => waiter.poll(),
            Self::Reserved(reservation) => poll_once(&mut **reservation),
        }
    }
}

/// A limiter and the reference. Items are named by their positions from 0.
pub(crate) struct World {
    clock: ManualClock,
    limiter: Arc<RateLimiter>,
    pub(super) reference: Reference,
    askers: Vec<(usize, Asker)>,
    charges: Vec<(Charge, Charged)>,
    /// Each with the charge that it began with.
    holds: Vec<(Hold, Charged, Charged)>,
    locals: Vec<(LocalLimiter, Local)>,
    /// Whether a slow waker advances the clock: only while the clock is advanced.
    advances: Arc<AtomicBool>,
    slow: Vec<(usize, u64)>,
    /// The generation and the number of the first charge after the last end of a hold.
    settled: (usize, usize),
    setup: Setup,
    said: Vec<String>,
}

type Outcome = Result<(), String>;

/// Compares what the limiter shows with the reference.
fn same<T: PartialEq + Debug>(what: &str, actual: T, expected: T) -> Outcome {
    if actual == expected {
        return Ok(());
    }
    Err(format!(
        "{what}: the limiter has {actual:?}, and the reference {expected:?}"
    ))
}

impl World {
    pub(crate) fn new(setup: Setup) -> Self {
        let clock = Clock::manual();
        clock.advance(Duration::from_nanos(setup.start));
        let limiter = setup.build(&clock);
        Self {
            clock,
            limiter: Arc::new(limiter),
            reference: Reference::new(setup),
            askers: Vec::new(),
            charges: Vec::new(),
            holds: Vec::new(),
            locals: Vec::new(),
            advances: Arc::default(),
            slow: Vec::new(),
            settled: (0, 0),
            setup,
            said: Vec::new(),
        }
    }

    /// Follows a row: algorithm, quota and options, and then the calls.
    pub(super) fn follow(row: &Row) -> Outcome {
        let mut parts = row.setup.split(';').map(str::trim);
        let limiter = parts.next().expect("an algorithm and a quota");
        let (algorithm, quota) = limiter.split_once(' ').expect("both");
        let mut setup = Setup::new(
            algorithm.parse().expect("an algorithm"),
            quota.parse().expect("a quota"),
        );
        for option in parts {
            let mut words = Words::new(option);
            setup.set(words.word(), &mut words);
            words.end();
        }
        let mut world = Self::new(setup);
        let mut calls = row.texts().into_iter();
        let outcome = calls.try_for_each(|text| world.call(&text));
        outcome.map_err(|error| format!("{}: {error}", row.name))
    }

    pub(super) fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Returns the numbers of waiters, charges, holds and local handles.
    pub(super) fn items(&self) -> [usize; 4] {
        [
            self.askers.len(),
            self.charges.len(),
            self.holds.len(),
            self.locals.len(),
        ]
    }

    pub(super) fn charge(&self, place: usize) -> Charged {
        self.charges[place].1
    }

    /// Returns the charge that a hold began with.
    pub(super) fn charge_of_hold(&self, place: usize) -> Charged {
        self.holds[place].2
    }

    /// Returns the charge of a waiter that was granted and not polled since.
    pub(super) fn grant_of(&self, place: usize) -> Option<Charged> {
        match self.reference.answer(self.askers[place].0) {
            Answer::Charged(charged) => Some(charged),
            _ => None,
        }
    }

    /// Returns whether the settlement of a hold may count between a charge and its refund. A limiter
    /// by word then gives back less than the reference: its docs say that the usage counts as newer.
    pub(super) fn is_beside_hold(&self, charged: Charged) -> bool {
        let is_open = !self.holds.is_empty() && charged.at < self.reference.now;
        let is_older = charged.generation == self.settled.0 && charged.owner < self.settled.1;
        self.setup.algorithm.keeps_a_word() && (is_open || is_older)
    }

    /// Returns the setup and the calls so far as a row.
    fn row(&self) -> String {
        let Setup {
            algorithm,
            quota,
            overdraft,
            max_waiters,
            missed,
            max_hold,
            start,
        } = self.setup;
        let mut setup = format!("{algorithm} {quota}");
        if overdraft {
            setup += "; overdraft";
        }
        if max_waiters < usize::MAX {
            setup += &format!("; waiters {max_waiters}");
        }
        match missed {
            Some(MissedTickBehavior::Delay) => setup += "; delay",
            Some(MissedTickBehavior::Burst { max }) => setup += &format!("; makes-up {max}"),
            _ => {}
        }
        if max_hold < u64::MAX {
            setup += &format!("; max-hold {max_hold}ns");
        }
        if start > 0 {
            setup += &format!("; at {start}ns");
        }
        format!("{setup} | {}", self.said.join(", "))
    }

    /// Makes a call and compares everything afterwards. A call may say what it shows: `call = text`.
    pub(crate) fn call(&mut self, text: &str) -> Outcome {
        self.said.push(text.to_owned());
        let (asked, shows) = text
            .split_once('=')
            .map_or((text, None), |(a, b)| (a, Some(b.trim())));
        let called = catch_unwind(AssertUnwindSafe(|| {
            let mut words = Words::new(asked);
            let shown = self.run(words.word(), &mut words)?;
            words.end();
            match shows {
                Some(expected) if shown != plain(expected) => Err(format!("it shows {shown}")),
                _ => self.compare(),
            }
        }));
        let outcome = called.unwrap_or_else(|_| Err("it panicked".to_owned()));
        outcome.map_err(|error| {
            let number = self.said.len();
            format!(
                "\nstep {number}, {text:?}: {error}\nname | {}\n",
                self.row()
            )
        })
    }

    fn run(&mut self, call: &str, words: &mut Words<'_>) -> Result<String, String> {
        let limiter = Arc::clone(&self.limiter);
        match call {
            "advance" => {
                let time = words.nanos();
                self.advance(time)?;
            }
            "try" => {
                let cost = words.parse();
                let (answer, result) = (
                    self.reference.try_acquire(cost),
                    limiter.try_acquire_many(cost),
                );
                return self.same_answer(answer, result);
            }
            "wait" | "slow" => {
                let cost = words.parse();
                let mut waiter = Waiter::new(Arc::clone(&limiter).cost_owned(cost).acquire());
                let answer = self.reference.acquire(cost);
                let polled = if call == "slow" {
                    let time = words.time();
                    let (clock, advances) = (self.clock.clone(), Arc::clone(&self.advances));
                    let waker = calls_when_woken(move || {
                        if advances.load(Ordering::SeqCst) {
                            clock.advance(time);
                        }
                    });
                    if let Answer::Waits(name) = answer {
                        self.slow.push((name, nanos(time)));
                    }
                    waiter.poll_with(&waker)
                } else {
                    waiter.poll()
                };
                match (answer, polled) {
                    (Answer::Waits(name), Poll::Pending) => {
                        let asker = if call == "slow" {
                            Asker::Slow(waiter)
                        } else {
                            Asker::Future(waiter)
                        };
                        self.askers.push((name, asker));
                    }
                    (answer, Poll::Ready(result)) => return self.same_answer(answer, result),
                    (answer, Poll::Pending) => {
                        return Err(format!("it waits, and the reference has {answer:?}"));
                    }
                }
            }
            "within" => {
                let (cost, time) = (words.parse(), words.time());
                let enter = Arc::clone(&limiter).cost_owned(cost).acquire();
                let mut waiter = Waiter::new(enter.timeout(time));
                let polled = waiter.poll();
                let is_refused = polled.is_ready();
                match (
                    self.reference.acquire_within(cost, nanos(time), is_refused),
                    polled,
                ) {
                    (Answer::Waits(name), Poll::Pending) => {
                        self.askers.push((name, Asker::Within(waiter)));
                    }
                    (answer, Poll::Ready(result)) => return self.same_answer(answer, result),
                    (answer, Poll::Pending) => {
                        return Err(format!("it waits, and the reference has {answer:?}"));
                    }
                }
            }
            "reserve" => {
                let cost = words.parse();
                match (self.reference.acquire(cost), limiter.reserve_many(cost)) {
                    (Answer::Waits(name), Ok(reservation)) => {
                        self.askers
                            .push((name, Asker::Reserved(Box::new(reservation))));
                    }
                    (answer, Ok(mut reservation)) => {
                        same("delay", reservation.delay(), Duration::ZERO)?;
                        match poll_once(&mut reservation) {
                            Poll::Ready(result) => return self.same_answer(answer, result),
                            Poll::Pending => {
                                return Err(format!("it waits, and the reference has {answer:?}"));
                            }
                        }
                    }
                    (answer, Err(error)) => return self.same_answer(answer, Err(error)),
                }
            }
            "poll" => {
                let place = words.parse();
                return self.poll(place);
            }
            "poll-all" => {
                for place in (0..self.askers.len()).rev() {
                    self.poll(place)?;
                }
            }
            "leave" => {
                let (name, asker) = self.askers.remove(words.parse());
                self.slow.retain(|(slow, _)| *slow != name);
                self.reference.leave(name);
                drop(asker);
            }
            "leak" => match self.askers.remove(words.parse()).1 {
                Asker::Future(waiter) | Asker::Slow(waiter) => {
                    std::mem::forget(waiter.into_future());
                }
                Asker::Within(waiter) => std::mem::forget(waiter.into_future()),
                Asker::Reserved(reservation) => std::mem::forget(reservation),
            },
            "local" => {
                let batch = words.parse();
                self.locals.push((limiter.local(batch), Local::new(batch)));
            }
            "take" => {
                let (place, cost): (usize, _) = (words.parse(), words.parse());
                let (handle, local) = &mut self.locals[place];
                let answer = self.reference.take(local, cost);
                match (answer, handle.try_acquire_many(cost)) {
                    (None | Some(Answer::Charged(_)), Ok(())) => return Ok("taken".to_owned()),
                    (Some(answer), Err(error)) => return self.same_answer(answer, Err(error)),
                    (answer, result) => {
                        return Err(format!(
                            "the handle has {result:?}, and the reference {answer:?}"
                        ));
                    }
                }
            }
            "return" => {
                let (handle, local) = &mut self.locals[words.parse::<usize>()];
                self.reference.return_unused(local);
                handle.return_unused();
            }
            "drop-local" => {
                let (handle, mut local) = self.locals.remove(words.parse());
                self.reference.return_unused(&mut local);
                drop(handle);
            }
            "charge" => {
                let cost = words.parse();
                let (charge, charged) = (limiter.charge(cost), self.reference.charge(cost));
                self.charged(charge, charged, true)?;
            }
            "refund" => {
                let (charge, charged) = self.take_charge(words)?;
                self.reference.refund(charged, charged.cost);
                limiter.refund(charge);
            }
            "settle" => {
                let (charge, charged) = self.take_charge(words)?;
                let used = words.parse();
                self.reference.settle(charged, used);
                limiter.settle(charge, used);
            }
            "hold" => {
                let (charge, charged) = self.take_charge(words)?;
                let held = self.reference.hold(charged);
                self.holds.push((limiter.hold(charge), held, charged));
            }
            "used" => {
                let ((hold, held, _), used) = (self.holds.remove(words.parse()), words.parse());
                self.reference.settle_hold(held, used);
                hold.settle(used);
                self.settled = (self.reference.generation, self.reference.owners);
            }
            "drop-hold" => {
                let (hold, held, _) = self.holds.remove(words.parse());
                self.reference.settle_hold(held, hold.cost());
                drop(hold);
                self.settled = (self.reference.generation, self.reference.owners);
            }
            "forget-hold" => std::mem::forget(self.holds.remove(words.parse())),
            "follow" | "answer" => {
                let (charge, charged) = match call {
                    "follow" => &self.charges[words.parse::<usize>()],
                    _ => self.charges.last().expect("it is answered"),
                };
                let (used, time) = (words.parse(), words.time());
                self.reference.follow(*charged, used, nanos(time));
                limiter.follow(charge, used, time);
            }
            "follow-hold" => {
                let (hold, _, charged) = &self.holds[words.parse::<usize>()];
                let (used, time) = (words.parse(), words.time());
                self.reference.follow(*charged, used, nanos(time));
                limiter.follow(hold.charge(), used, time);
            }
            "pause" => {
                let time = words.time();
                self.reference.pause_for(nanos(time));
                limiter.pause_for(time);
            }
            "resume" => {
                self.reference.resume();
                limiter.resume();
            }
            "keep" | "scale" => {
                let how = if call == "keep" {
                    QuotaChange::KeepSpent
                } else {
                    QuotaChange::Proportional
                };
                let quota = words.rest().parse().expect("a quota");
                self.reference.set_quota(quota, how);
                limiter.set_quota_with(quota, how);
            }
            "close" => {
                self.reference.close();
                limiter.close();
            }
            "left" => return Ok(self.left().to_string()),
            "buffered" => {
                let (_, local) = &self.locals[words.parse::<usize>()];
                return Ok(local.buffered.to_string());
            }
            "in-use" => return Ok(self.reference.in_use().to_string()),
            _ => panic!("no call: {call:?}"),
        }
        Ok(String::new())
    }

    /// Lets time pass. After a slow waker, time has jumped to the end, and those who were due are
    /// served there.
    fn advance(&mut self, time: u64) -> Outcome {
        let mut target = self.reference.now.saturating_add(time);
        let open = self.reference.open_holds();
        let mut slow = std::mem::take(&mut self.slow);
        slow.retain(|(name, _)| matches!(self.reference.answer(*name), Answer::Waits(_)));
        while let Some(due) = self.reference.next_due().filter(|due| *due <= target) {
            self.reference.jump(due.max(self.reference.now));
            self.reference.serve();
            slow.retain(|(name, time)| {
                let waits = matches!(self.reference.answer(*name), Answer::Waits(_));
                if !waits {
                    target = target.saturating_add(*time);
                    self.reference.jump(target);
                }
                waits
            });
        }
        self.reference.jump(target);
        self.slow = slow;
        if self.reference.open_holds() < open {
            self.settled = (self.reference.generation, self.reference.owners);
        }
        self.advances.store(true, Ordering::SeqCst);
        self.clock.advance(Duration::from_nanos(time));
        self.advances.store(false, Ordering::SeqCst);
        same("now", self.clock.now().as_nanos(), target)
    }

    /// Returns the available tokens.
    fn left(&self) -> u64 {
        let reference = &self.reference;
        reference.limit().saturating_sub(reference.in_use())
    }

    fn take_charge(&mut self, words: &mut Words<'_>) -> Result<(Charge, Charged), String> {
        let (charge, charged) = self.charges.remove(words.parse());
        if self.setup.algorithm.keeps_a_word() {
            self.same_decision(&charge, &charged)?;
        }
        Ok((charge, charged))
    }

    fn charged(&mut self, charge: Charge, charged: Charged, is_known: bool) -> Outcome {
        same("the tick of the charge", charge.at().as_nanos(), charged.at)?;
        same("the cost of the charge", charge.cost(), charged.cost)?;
        if is_known {
            self.same_decision(&charge, &charged)?;
        }
        self.charges.push((charge, charged));
        Ok(())
    }

    /// Compares the state just after a charge, if it is still known.
    fn same_decision(&self, charge: &Charge, charged: &Charged) -> Outcome {
        let is_known =
            charged.generation == self.reference.generation && !self.reference.has_more();
        let decision = self.limiter.decision(charge);
        if !is_known {
            let left = self.left();
            return same(
                "left, by the decision of an old charge",
                decision.remaining,
                left,
            );
        }
        same("left after the charge", decision.remaining, charged.left)?;
        // The limiter may know the end of its window better now.
        if self.reference.is_followed() {
            return Ok(());
        }
        let reset = tick(charged.at, decision.reset_after);
        same("reset after the charge", reset, charged.reset)
    }

    fn poll(&mut self, place: usize) -> Result<String, String> {
        let (name, asker) = &mut self.askers[place];
        match (self.reference.poll(*name), asker.poll()) {
            (Answer::Waits(_), Poll::Pending) => {
                // The waker of this poll is not slow.
                self.slow.retain(|(slow, _)| slow != name);
                Ok("waits".to_owned())
            }
            (answer, Poll::Ready(result)) => {
                self.askers.remove(place);
                self.same_answer_later(answer, result, self.setup.algorithm.keeps_a_word())
            }
            (answer, Poll::Pending) => Err(format!("it waits, and the reference has {answer:?}")),
        }
    }

    fn same_answer(
        &mut self,
        answer: Answer,
        result: Result<Charge, AcquireError>,
    ) -> Result<String, String> {
        self.same_answer_later(answer, result, true)
    }

    /// Does the same for an answer that may be old: then the state just after a charge need not be
    /// known any more.
    fn same_answer_later(
        &mut self,
        answer: Answer,
        result: Result<Charge, AcquireError>,
        is_known: bool,
    ) -> Result<String, String> {
        let now = self.reference.now;
        match (answer, result) {
            (Answer::Charged(charged), Ok(charge)) => {
                self.charged(charge, charged, is_known)?;
                Ok(format!("charged at {}ns", charged.at))
            }
            (Answer::Closed, Err(error)) if error.kind() == ErrorKind::Closed => {
                Ok("closed".to_owned())
            }
            (Answer::Exceeds(most), Err(error)) if error.kind() == ErrorKind::ExceedsCapacity => {
                same("capacity", error.capacity(), Some(most))?;
                Ok(format!("exceeds {most}"))
            }
            (Answer::Limited(due, least), Err(error)) if error.kind() == ErrorKind::RateLimited => {
                let after = error.retry_after();
                // Behind a hold and waiters the time may be unknown.
                let is_unknown = after.is_none() && self.reference.has_holds();
                if !is_unknown || self.reference.waiting() == 0 {
                    self.same_hint("retry", tick(now, after), due, least)?;
                }
                Ok(format!("limited {}", until(now, due)))
            }
            (Answer::Full(free), Err(error)) if error.kind() == ErrorKind::QueueFull => {
                same(
                    "retry of a full queue",
                    tick(now, error.retry_after()),
                    free,
                )?;
                Ok(format!("full {}", until(now, free)))
            }
            (Answer::Late(due, least), Err(error)) if error.kind() == ErrorKind::TimedOut => {
                self.same_hint("retry", tick(now, error.retry_after()), due, least)?;
                Ok(format!("late {}", until(now, due)))
            }
            (Answer::TimedOut, Err(error)) if error.kind() == ErrorKind::TimedOut => {
                same("retry", error.retry_after(), None)?;
                Ok("timed out".to_owned())
            }
            (answer, result) => Err(format!(
                "the limiter has {result:?}, and the reference {answer:?}"
            )),
        }
    }

    /// Compares the tick at which a call is due: exact, or an earlier one.
    fn same_hint(
        &self,
        what: &str,
        actual: Option<u64>,
        due: Option<u64>,
        least: Option<u64>,
    ) -> Outcome {
        let never = |tick: Option<u64>| tick.unwrap_or(u64::MAX);
        if (never(least)..=never(due)).contains(&never(actual)) {
            return Ok(());
        }
        same(what, actual, due)
    }

    /// Compares the whole observable state.
    fn compare(&self) -> Outcome {
        let (limiter, reference) = (&self.limiter, &self.reference);
        let (now, limit) = (reference.now, reference.limit());
        same("now", self.clock.now().as_nanos(), now)?;
        let waits = |name: usize| matches!(reference.answer(name), Answer::Waits(_));
        // This comes first, because any other call serves the queue.
        for (name, asker) in &self.askers {
            match asker {
                Asker::Future(waiter) => {
                    same("wakes", waiter.wakes(), usize::from(!waits(*name)))?;
                }
                Asker::Within(waiter) if !waits(*name) => {
                    same("is woken", waiter.wakes() > 0, true)?;
                }
                _ => {}
            }
        }
        for (handle, local) in &self.locals {
            same("buffered", handle.buffered(), local.buffered)?;
        }
        for (name, asker) in &self.askers {
            let waits = waits(*name);
            match asker {
                Asker::Future(_) | Asker::Within(_) | Asker::Slow(_) => {}
                Asker::Reserved(reservation) if !waits => {
                    same("delay", reservation.delay(), Duration::ZERO)?;
                }
                Asker::Reserved(reservation) if !reference.has_holds() => {
                    same(
                        "delay",
                        tick(now, reservation.delay()),
                        reference.due_of(*name),
                    )?;
                }
                Asker::Reserved(_) => {}
            }
        }
        same("closed", limiter.is_closed(), reference.closed)?;
        same("quota", limiter.quota(), reference.quota)?;
        let snapshot = limiter.snapshot();
        same("limit", snapshot.limit, limit)?;
        same("in use", snapshot.in_use, reference.in_use())?;
        same("available", snapshot.available, self.left())?;
        same("waiting", snapshot.waiting, reference.waiting())?;
        let oldest = reference
            .oldest()
            .map(|joined| Duration::from_nanos(now - joined));
        same("oldest wait", snapshot.oldest_wait, oldest)?;
        let paused = limiter.paused_until().map(|until| until.as_nanos());
        same("paused until", paused, reference.paused_until())?;
        let reset = tick(now, limiter.peek_many(0).reset_after);
        same("reset", reset, reference.reset())?;
        for cost in [0, 1, limit, limit.saturating_add(1)] {
            let actual = tick(now, limiter.peek_many(cost).retry_after);
            let what = format!("peek {cost}");
            if reference.closed || reference.is_too_much(cost) {
                same(&what, actual, None)?;
            } else if cost == 0 {
                same(&what, actual, Some(now))?;
            } else if reference.waiting() == 0 {
                same(&what, actual, reference.due_of_next(cost))?;
            }
        }
        Ok(())
    }
}

/// Returns a text with its times in nanoseconds.
fn plain(text: &str) -> String {
    let words = text.split(' ').map(|word| match word.parse::<Time>() {
        Ok(Time(time)) if time < Duration::MAX => format!("{}ns", nanos(time)),
        _ => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the tick after a time; `None` if it never comes.
fn tick(now: u64, after: impl Into<Option<Duration>>) -> Option<u64> {
    let after = after.into().filter(|after| *after < Duration::MAX)?;
    Some(now + nanos(after))
}

fn until(now: u64, due: Option<u64>) -> String {
    due.map_or_else(|| "never".to_owned(), |due| format!("{}ns", due - now))
}
