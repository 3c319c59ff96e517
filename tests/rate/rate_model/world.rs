//! A limiter and its model, under the same calls.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tollgate::rate::{Charge, LocalLimiter, MissedTickBehavior, Oversize, Reservation};
use tollgate::time::{ManualClock, Tick};
use tollgate::wait::Waiting;
use tollgate::{AcquireError, Algorithm, Clock, ErrorKind, Quota, RateLimiter, Throttle};

use super::model::{Booked, Hint, Model, model};
use super::naive::{Answer, Fate, Naive};
use super::steps::{Step, Which};
use crate::support::{Waiter, poll_once};

/// The constructor's arguments for a limiter and its model.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) chosen: (Algorithm, Quota),
    pub(crate) missed: Option<MissedTickBehavior>,
    pub(crate) oversize: Oversize,
    pub(crate) max_waiters: usize,
    pub(crate) start: u64,
    pub(crate) max_hold: Option<Duration>,
    /// The batches of the local handles.
    pub(crate) batches: Vec<u64>,
}

impl Setup {
    pub(crate) fn new(chosen: (Algorithm, Quota)) -> Self {
        Self {
            chosen,
            missed: None,
            oversize: Oversize::Refuse,
            max_waiters: usize::MAX,
            start: 0,
            max_hold: None,
            batches: vec![1, 3],
        }
    }

    pub(crate) fn limiter(&self, clock: &ManualClock) -> RateLimiter {
        let limiter = RateLimiter::new(self.chosen.1)
            .algorithm(self.chosen.0)
            .oversize(self.oversize)
            .max_waiters(self.max_waiters)
            .clock(clock);
        let limiter = match self.max_hold {
            Some(longest) => limiter.max_hold(longest),
            None => limiter,
        };
        match self.missed {
            Some(missed) => limiter.missed_tick(missed),
            None => limiter,
        }
    }
}

/// A wait that is not over, or that has not been polled since.
enum Asker {
    Future(Waiter<Waiting<<Arc<RateLimiter> as Throttle>::Enter>>),
    Reserved(Box<Waiting<Reservation>>),
}

/// A local handle: the charge of its last batch, and the rest of that batch.
struct Local {
    handle: LocalLimiter,
    batch: u64,
    /// The number of next calls that ask for their own cost alone.
    alone: u64,
    booked: Option<Booked>,
    buffered: u64,
}

pub(crate) struct World {
    clock: ManualClock,
    limiter: Arc<RateLimiter>,
    naive: Naive,
    askers: Vec<(usize, Asker)>,
    charges: Vec<(Charge, Booked)>,
    locals: Vec<Local>,
    /// The admission times of calls that did not wait, and their costs.
    through: Vec<(u64, u64)>,
}

impl World {
    pub(crate) fn new(setup: Setup) -> Self {
        let (algorithm, quota) = setup.chosen;
        let clock = Clock::manual();
        clock.advance(Duration::from_nanos(setup.start));
        let limiter = setup.limiter(&clock);
        let delays = matches!(
            setup.missed,
            Some(MissedTickBehavior::Delay | MissedTickBehavior::Burst { max: 0 })
        );
        let debts = setup.oversize == Oversize::Overdraft;
        let model = model(algorithm, quota, delays);
        let local = |batch: &u64| Local {
            handle: limiter.local(*batch),
            batch: *batch,
            alone: 0,
            booked: None,
            buffered: 0,
        };
        Self {
            clock,
            locals: setup.batches.iter().map(local).collect(),
            limiter: Arc::new(limiter),
            naive: Naive::new(model, debts, setup.max_waiters, setup.start),
            askers: Vec::new(),
            charges: Vec::new(),
            through: Vec::new(),
        }
    }

    pub(crate) fn model(&self) -> &dyn Model {
        &*self.naive.model
    }

    pub(crate) fn through(&self) -> &[(u64, u64)] {
        &self.through
    }

    pub(crate) fn step(&mut self, step: Step) {
        let scale = self.model().scale().finite();
        match step {
            Step::Try(cost) => self.try_acquire(cost.of(scale)),
            Step::TryUntil(cost) => self.try_until_due(cost.of(scale)),
            Step::TryRest => {
                let left = self.model().available(self.naive.now).min(scale.most);
                self.try_acquire(left);
                self.try_acquire(1);
            }
            Step::Acquire(cost) => self.acquire(cost.of(scale)),
            Step::Reserve(cost) => self.reserve(cost.of(scale)),
            Step::Poll(which) => {
                if let Some(asker) = which.take(&mut self.askers) {
                    self.poll(asker, which);
                }
            }
            Step::Drop(which) => {
                if let Some((name, asker)) = which.take(&mut self.askers) {
                    self.naive.leave(name);
                    drop(asker);
                }
            }
            // It keeps its place, and is never polled again.
            Step::Forget(which) => match which.take(&mut self.askers) {
                Some((_, Asker::Future(waiter))) => std::mem::forget(waiter.into_future()),
                Some((_, Asker::Reserved(reservation))) => std::mem::forget(reservation),
                None => {}
            },
            Step::Advance(pause) => self.advance(pause.of(scale, self.naive.now)),
            Step::Charge(cost) => {
                let cost = cost.of(scale);
                let booked = self.naive.charge(cost);
                self.charges.push((self.limiter.charge(cost), booked));
            }
            Step::Refund(which) => {
                if let Some((charge, booked)) = which.take(&mut self.charges) {
                    self.same_decision_later(&charge, &booked);
                    self.naive.refund(booked, booked.cost);
                    self.limiter.refund(charge);
                }
            }
            Step::Settle(which, quarters) => {
                self.settle(which, |cost| cost / 4 * quarters + cost % 4);
            }
            Step::SettleFor(which, actual) => self.settle(which, |_| actual),
            Step::SetQuota(quota, carry) => {
                if let Some(quota) = fitting(self.model().algorithm(), quota) {
                    self.naive.set_quota(quota, carry);
                    self.limiter.set_quota_with(quota, carry);
                    assert_eq!(self.limiter.quota(), quota);
                }
            }
            Step::Close => {
                self.naive.close();
                self.limiter.close();
            }
            Step::Local(which, cost) => {
                self.try_local(which.index(self.locals.len()), cost.of(scale));
            }
            Step::ReturnUnused(which) => {
                let which = which.index(self.locals.len());
                self.locals[which].handle.return_unused();
                self.returned(which);
            }
            Step::Renew(which) => {
                let which = which.index(self.locals.len());
                let local = &mut self.locals[which];
                local.handle = self.limiter.local(local.batch);
                local.alone = 0;
                self.returned(which);
            }
        }
    }

    fn settle(&mut self, which: Which, actual: impl Fn(u64) -> u64) {
        let Some((charge, booked)) = which.take(&mut self.charges) else {
            return;
        };
        self.same_decision_later(&charge, &booked);
        let actual = actual(booked.cost);
        match actual.checked_sub(booked.cost) {
            Some(0) => {}
            Some(more) => {
                self.naive.charge(more);
            }
            None => self.naive.refund(booked, booked.cost - actual),
        }
        self.limiter.settle(charge, actual);
    }

    pub(crate) fn advance(&mut self, nanos: u64) {
        self.naive.advance(nanos);
        self.clock.advance(Duration::from_nanos(nanos));
    }

    pub(crate) fn try_acquire(&mut self, cost: u64) {
        let answer = self.naive.try_acquire(cost);
        let result = self.limiter.try_acquire_many(cost);
        self.same_answer(answer, result);
    }

    fn try_until_due(&mut self, cost: u64) {
        let due = self.naive.due_of_next(cost);
        self.try_acquire(cost);
        let after = due.map(|due| due - self.naive.now);
        let Some(after) = after.filter(|after| *after > 0) else {
            return;
        };
        self.advance(after - 1);
        self.try_acquire(cost);
        self.advance(1);
        self.try_acquire(cost);
    }

    fn acquire(&mut self, cost: u64) {
        let mut waiter = Waiter::new(Arc::clone(&self.limiter).cost_owned(cost).acquire());
        match (self.naive.acquire(cost), waiter.poll()) {
            (Answer::Limited(..), Poll::Pending) => {
                let name = self.naive.join(cost);
                self.askers.push((name, Asker::Future(waiter)));
            }
            (answer, Poll::Ready(result)) => self.same_answer(answer, result),
            (answer, Poll::Pending) => panic!("it waits, and should be {answer:?}"),
        }
    }

    fn reserve(&mut self, cost: u64) {
        match (self.naive.acquire(cost), self.limiter.reserve_many(cost)) {
            (Answer::Limited(..), Ok(reservation)) => {
                assert_eq!(reservation.cost(), cost);
                let name = self.naive.join(cost);
                let reserved = Asker::Reserved(Box::new(reservation));
                self.askers.push((name, reserved));
            }
            (answer, Ok(mut reservation)) => {
                assert_eq!(reservation.delay(), Duration::ZERO);
                match poll_once(&mut reservation) {
                    Poll::Ready(result) => self.same_answer(answer, result),
                    Poll::Pending => panic!("it waits, and should be {answer:?}"),
                }
            }
            (answer, Err(error)) => self.same_answer(answer, Err(error)),
        }
    }

    /// A call uses the buffered tokens, or else takes a batch, or else the missing ones. After a batch
    /// was refused, sixteen calls do not ask for one. The limiter judges a call for more than its
    /// maximum, or for nothing.
    pub(crate) fn try_local(&mut self, which: usize, cost: u64) {
        let most = self.model().scale().most;
        let local = &mut self.locals[which];
        let result = local.handle.try_acquire_many(cost);
        if 0 < cost && cost <= local.buffered {
            result.expect("enough is buffered");
            local.buffered -= cost;
            self.through.push((self.naive.now, cost));
            return;
        }
        let spent = if cost > most {
            0
        } else {
            cost.min(local.buffered)
        };
        let missing = cost - spent;
        let batch = local.batch.min(most);
        if local.alone > 0 {
            local.alone -= 1;
        } else if 0 < missing && missing < batch {
            if let Answer::Charged(charge) = self.naive.try_acquire(batch) {
                result.expect("a batch is available");
                local.buffered = charge.cost - missing;
                local.booked = Some(charge);
                self.through.push((self.naive.now, cost));
                return;
            }
            local.alone = 16;
        }
        match (self.naive.try_acquire(missing), result) {
            (Answer::Charged(_), Ok(())) => {
                local.buffered -= spent;
                self.through.push((self.naive.now, cost));
            }
            (answer, Err(error)) => self.same_answer(answer, Err(error)),
            (answer, Ok(())) => panic!("should be {answer:?}, and is let through"),
        }
    }

    /// Refunds the buffered tokens, if there were any.
    fn returned(&mut self, which: usize) {
        let local = &mut self.locals[which];
        let unused = std::mem::take(&mut local.buffered);
        if let Some(booked) = local.booked.take().filter(|_| unused > 0) {
            self.naive.refund(booked, unused);
        }
    }

    /// Compares the answers to a call that does not wait.
    fn same_answer(&mut self, answer: Answer, result: Result<Charge, AcquireError>) {
        match (answer, result) {
            (Answer::Charged(booked), Ok(charge)) => {
                if !self.is_without_tick(&charge) {
                    assert_eq!(charge.at().as_nanos(), self.naive.now);
                }
                assert_eq!(charge.cost(), booked.cost);
                self.same_decision(&charge, &booked);
                self.through.push((self.naive.now, booked.cost));
                self.charges.push((charge, booked));
            }
            (Answer::Closed, Err(error)) => assert_eq!(error.kind(), ErrorKind::Closed),
            (Answer::Exceeds(burst), Err(error)) => {
                assert_eq!(error.kind(), ErrorKind::ExceedsCapacity);
                assert_eq!(error.capacity(), Some(burst));
            }
            (Answer::Limited(due, hint), Err(error)) => {
                assert_eq!(error.kind(), ErrorKind::RateLimited);
                let after = error.retry_after().expect("it knows");
                self.same_hint(after, due, hint);
            }
            (Answer::Full(free), Err(error)) => {
                assert_eq!(error.kind(), ErrorKind::QueueFull);
                self.same_time(error.retry_after().expect("it knows"), free);
            }
            (answer, result) => panic!("should be {answer:?}, and is {result:?}"),
        }
    }

    /// Compares the state just after a charge. If the rule keeps more than a word, later charges
    /// count as well.
    fn same_decision_later(&self, charge: &Charge, booked: &Booked) {
        if self.model().algorithm().keeps_a_word() {
            self.same_decision(charge, booked);
        }
    }

    fn same_decision(&self, charge: &Charge, booked: &Booked) {
        // A charge without a limit is not recorded, so the decision is that of the present state.
        if booked.epoch == self.model().epoch() && !self.is_without_tick(charge) {
            let (decision, at) = (self.limiter.decision(charge), charge.at().as_nanos());
            let reset = booked.reset.map(|reset| Duration::from_nanos(reset - at));
            assert_eq!(decision.remaining, booked.left);
            assert_eq!(decision.retry_after, Some(Duration::ZERO));
            assert_eq!(decision.reset_after, reset.unwrap_or(Duration::MAX));
        }
    }

    /// Returns whether no clock was read for a charge: there is no limit, and no pause was just over.
    fn is_without_tick(&self, charge: &Charge) -> bool {
        self.limiter.quota().is_unlimited() && charge.at() == Tick::default()
    }

    /// Compares the retry times.
    fn same_hint(&self, actual: Duration, due: Option<u64>, hint: Hint) {
        let now = self.naive.now;
        assert!(!actual.is_zero() || now == u64::MAX);
        let head = self.naive.due_of_head().unwrap_or(u64::MAX);
        let of_head = Duration::from_nanos(head.saturating_sub(now).saturating_sub(1));
        let exact = due.map_or(Duration::MAX, |due| Duration::from_nanos(due - now));
        match hint {
            Hint::Exact => self.same_time(actual, due),
            Hint::Early => assert!((of_head..=exact).contains(&actual)),
        }
    }

    /// Compares the times until a tick.
    fn same_time(&self, actual: Duration, due: Option<u64>) {
        let now = self.naive.now;
        match due {
            Some(due) => assert_eq!(actual.as_nanos(), u128::from(due - now)),
            None => assert_eq!(actual, Duration::MAX),
        }
    }

    /// Polls a waiter. One of several that still waits then comes last; a named one keeps its
    /// place.
    fn poll(&mut self, (name, mut asker): (usize, Asker), which: Which) {
        let polled = match &mut asker {
            Asker::Future(waiter) => waiter.poll(),
            Asker::Reserved(reservation) => poll_once(&mut **reservation),
        };
        match (self.naive.fate(name), polled) {
            (Fate::Queued, Poll::Pending) => match which {
                Which::Any(_) => self.askers.push((name, asker)),
                Which::Exactly(place) => self.askers.insert(place, (name, asker)),
            },
            (
                Fate::Granted {
                    at,
                    asked,
                    charge: booked,
                },
                Poll::Ready(Ok(charge)),
            ) => {
                assert_eq!(charge.at().as_nanos(), at);
                // The part for which there was time is forgotten when the quota changes.
                let is_forgotten = booked.epoch != self.model().epoch();
                let cost = charge.cost();
                assert!(cost == booked.cost || is_forgotten && cost == asked);
                self.same_decision_later(&charge, &booked);
                self.charges.push((charge, booked));
            }
            (Fate::Refused(burst), Poll::Ready(Err(error))) => {
                assert_eq!(error.kind(), ErrorKind::ExceedsCapacity);
                assert_eq!(error.capacity(), Some(burst));
            }
            (Fate::Closed, Poll::Ready(Err(error))) => assert_eq!(error.kind(), ErrorKind::Closed),
            (fate, polled) => panic!("should be {fate:?}, and is {polled:?}"),
        }
    }

    /// Compares the whole observable state.
    pub(crate) fn compare(&self) {
        let (limiter, naive) = (&self.limiter, &self.naive);
        let (model, now) = (self.model(), naive.now);
        assert_eq!(self.clock.now().as_nanos(), now);
        assert_eq!(limiter.is_closed(), naive.is_closed());
        assert_eq!(limiter.snapshot().available, model.available(now));
        let snapshot = limiter.snapshot();
        assert_eq!(snapshot.limit, model.scale().most);
        assert_eq!(snapshot.waiting, naive.waiting());
        let waits = naive
            .oldest()
            .map(|since| Duration::from_nanos(now - since));
        assert_eq!(snapshot.oldest_wait, waits);
        self.same_time(limiter.peek_many(0).reset_after, model.reset(now));
        let most = model.scale().most;
        for cost in [0, 1, most, most.saturating_add(1)] {
            let after = limiter.peek_many(cost).retry_after;
            if naive.is_closed() || naive.is_too_much(cost) {
                assert_eq!(after, None);
            } else if cost == 0 {
                assert_eq!(after, Some(Duration::ZERO));
            } else if naive.waiting() == 0 {
                let after = after.unwrap_or(Duration::MAX);
                self.same_time(after, naive.due_of_next(cost));
            }
        }
        for local in &self.locals {
            assert_eq!(local.handle.buffered(), local.buffered);
            assert!(local.buffered < local.batch);
        }
        for (name, asker) in &self.askers {
            let waits = naive.fate(*name) == Fate::Queued;
            match asker {
                Asker::Future(waiter) => assert_eq!(waiter.wakes(), usize::from(!waits)),
                Asker::Reserved(reservation) if waits => {
                    self.same_time(reservation.delay(), naive.due_of(*name));
                }
                Asker::Reserved(reservation) => assert_eq!(reservation.delay(), Duration::ZERO),
            }
        }
    }

    /// Polls every waiter.
    pub(crate) fn poll_all(&mut self) {
        let mut place = 0;
        while place < self.askers.len() {
            let (left, asker) = (self.askers.len(), self.askers.remove(place));
            self.poll(asker, Which::Exactly(place));
            self.compare();
            // A waiter that still waits still exists.
            place += self.askers.len() + 1 - left;
        }
    }

    pub(crate) fn assert_promise(&self) {
        self.model().assert_promise();
    }
}

/// Returns the quota that fits an algorithm.
fn fitting(algorithm: Algorithm, quota: Quota) -> Option<Quota> {
    let quota = match algorithm {
        Algorithm::Gcra | Algorithm::TokenBucket => quota,
        _ if quota.is_unlimited() => quota,
        _ => Quota::new(quota.count(), quota.period()),
    };
    algorithm.check(quota).is_ok().then_some(quota)
}
