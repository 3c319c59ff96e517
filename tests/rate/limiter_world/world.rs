//! A limiter and its model, to which the same is done.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tollgate::Waiting;

use proptest::sample::Index;
use tollgate::rate::AcquireOwned;
use tollgate::{
    AcquireError, Algorithm, Charge, Clock, ErrorKind, ManualClock, Oversize, Quota, RateLimiter,
    Reservation,
};

use super::model::{Booked, Hint, Model};
use super::naive::{Fate, Naive, Told};
use super::steps::Step;
use crate::support::{Waiter, poll_once};

/// Somebody who waits, or who was served and has not looked.
enum Asker {
    Future(Waiter<Waiting<AcquireOwned>>),
    Reserved(Box<Waiting<Reservation>>),
}

pub(crate) struct World<M> {
    clock: ManualClock,
    limiter: Arc<RateLimiter>,
    naive: Naive<M>,
    askers: Vec<(usize, Asker)>,
    charges: Vec<(Charge, Booked)>,
}

impl<M: Model> World<M> {
    /// The limiter has the algorithm and the quota of the model.
    pub(crate) fn new(limiter: RateLimiter, model: M, oversize: Oversize, start: u64) -> Self {
        let clock = Clock::manual();
        clock.advance(Duration::from_nanos(start));
        let limiter = limiter.oversize(oversize).clock(&clock);
        Self {
            clock,
            limiter: Arc::new(limiter),
            naive: Naive::new(model, oversize == Oversize::Overdraft, start),
            askers: Vec::new(),
            charges: Vec::new(),
        }
    }

    pub(crate) fn step(&mut self, step: Step) {
        let scale = self.naive.model.scale();
        match step {
            Step::Try(cost) => {
                let told = self.naive.try_acquire(cost.of(scale));
                let result = self.limiter.try_acquire_many(cost.of(scale));
                self.told(told, result);
            }
            Step::Acquire(cost) => {
                let future = Arc::clone(&self.limiter).acquire_many_owned(cost.of(scale));
                let mut waiter = Waiter::new(future);
                let told = self.naive.try_acquire(cost.of(scale));
                match (told, waiter.poll()) {
                    (Told::Limited(..), Poll::Pending) => {
                        let name = self.naive.join(cost.of(scale));
                        self.askers.push((name, Asker::Future(waiter)));
                    }
                    (told, Poll::Ready(result)) => self.told(told, result),
                    (told, Poll::Pending) => panic!("it waits, and should be {told:?}"),
                }
            }
            Step::Reserve(cost) => {
                let told = self.naive.try_acquire(cost.of(scale));
                match (told, self.limiter.reserve_many(cost.of(scale))) {
                    (Told::Limited(..), Ok(reservation)) => {
                        let name = self.naive.join(cost.of(scale));
                        let reserved = Asker::Reserved(Box::new(reservation));
                        self.askers.push((name, reserved));
                    }
                    (told, Ok(mut reservation)) => {
                        assert_eq!(reservation.delay(), Duration::ZERO);
                        match poll_once(&mut reservation) {
                            Poll::Ready(result) => self.told(told, result),
                            Poll::Pending => panic!("it waits, and should be {told:?}"),
                        }
                    }
                    (told, Err(error)) => self.told(told, Err(error)),
                }
            }
            Step::Poll(which) => {
                if !self.askers.is_empty() {
                    self.poll(which.index(self.askers.len()));
                }
            }
            Step::Drop(which) => {
                if let Some((name, asker)) = take(&mut self.askers, which) {
                    self.naive.leave(name);
                    drop(asker);
                }
            }
            Step::Forget(which) => {
                // It keeps its place, and nobody will ever look at it.
                match take(&mut self.askers, which) {
                    Some((_, Asker::Future(waiter))) => std::mem::forget(waiter.into_future()),
                    Some((_, Asker::Reserved(reservation))) => std::mem::forget(reservation),
                    None => {}
                }
            }
            Step::Advance(pause) => {
                let nanos = pause.of(scale, self.naive.now);
                self.naive.advance(nanos);
                self.clock.advance(Duration::from_nanos(nanos));
            }
            Step::Charge(cost) => {
                let cost = cost.of(scale);
                let booked = self.naive.charge(cost);
                self.charges.push((self.limiter.charge(cost), booked));
            }
            Step::Refund(which) => {
                if let Some((charge, booked)) = take(&mut self.charges, which) {
                    self.naive.refund(booked, booked.cost);
                    self.limiter.refund(charge);
                }
            }
            Step::Settle(which, quarters) => {
                if let Some((charge, booked)) = take(&mut self.charges, which) {
                    let actual = booked.cost / 4 * quarters + booked.cost % 4;
                    match actual.checked_sub(booked.cost) {
                        Some(0) => {}
                        Some(more) => {
                            self.naive.charge(more);
                        }
                        None => self.naive.refund(booked, booked.cost - actual),
                    }
                    self.limiter.settle(charge, actual);
                }
            }
            Step::SetQuota(quota, carry) => {
                let Some(quota) = fitting(self.naive.model.algorithm(), quota) else {
                    return;
                };
                self.naive.set_quota(quota, carry);
                self.limiter.set_quota_with(quota, carry);
                assert_eq!(self.limiter.quota(), quota);
            }
            Step::Close => {
                self.naive.close();
                self.limiter.close();
            }
        }
    }

    /// Compares what one is told who does not wait.
    fn told(&mut self, told: Told, result: Result<Charge, AcquireError>) {
        match (told, result) {
            (Told::Charged(booked), Ok(charge)) => {
                assert_eq!(charge.at().as_nanos(), self.naive.now);
                assert_eq!(charge.cost(), booked.cost);
                let left = self.naive.model.available(self.naive.now);
                assert_eq!(self.limiter.decision(&charge).remaining, left);
                self.charges.push((charge, booked));
            }
            (Told::Closed, Err(error)) => assert_eq!(error.kind(), ErrorKind::Closed),
            (Told::Exceeds(burst), Err(error)) => {
                assert_eq!(error.kind(), ErrorKind::ExceedsCapacity);
                assert_eq!(error.capacity(), Some(burst));
            }
            (Told::Limited(due, hint), Err(error)) => {
                assert_eq!(error.kind(), ErrorKind::RateLimited);
                let after = error.retry_after().expect("it knows");
                self.same_hint(after, due, hint);
            }
            (told, result) => panic!("should be {told:?}, and is {result:?}"),
        }
    }

    /// The time until one may come again.
    fn same_hint(&self, actual: Duration, due: Option<u64>, hint: Hint) {
        let now = self.naive.now;
        assert!(!actual.is_zero() || now == u64::MAX);
        if hint == Hint::Exact {
            return self.same_time(actual, due);
        }
        let head = self.naive.due_of_head().unwrap_or(u64::MAX);
        assert!(actual >= Duration::from_nanos((head - now).saturating_sub(1)));
        if hint == Hint::Early {
            let after = due.map_or(Duration::MAX, |due| Duration::from_nanos(due - now));
            assert!(actual <= after);
        }
        if hint == Hint::Late {
            let after = due.map_or(Duration::MAX, |due| Duration::from_nanos(due - now));
            assert!(actual >= after);
        }
    }

    /// The time until a tick, or until about the last there is.
    fn same_time(&self, actual: Duration, due: Option<u64>) {
        let now = self.naive.now;
        match due {
            Some(due) => assert_eq!(actual.as_nanos(), u128::from(due - now)),
            None => assert_eq!(actual, Duration::MAX),
        }
    }

    fn same_delay(&self, actual: Duration, name: usize) {
        match self.naive.fate(name) {
            Fate::InLine if self.naive.is_doomed(name) => {}
            Fate::InLine => self.same_time(actual, self.naive.due_of(name)),
            _ => assert_eq!(actual, Duration::ZERO),
        }
    }

    fn poll(&mut self, index: usize) {
        let (name, mut asker) = self.askers.remove(index);
        let polled = match &mut asker {
            Asker::Future(waiter) => waiter.poll(),
            Asker::Reserved(reservation) => poll_once(&mut **reservation),
        };
        match (self.naive.fate(name), polled) {
            (Fate::InLine, Poll::Pending) => self.askers.push((name, asker)),
            (
                Fate::Granted {
                    at,
                    asked,
                    charge: booked,
                },
                Poll::Ready(Ok(charge)),
            ) => {
                assert_eq!(charge.at().as_nanos(), at);
                // For how much of it there was time is forgotten when the quota changes.
                let is_forgotten = booked.epoch != self.naive.model.epoch();
                let cost = charge.cost();
                assert!(cost == booked.cost || is_forgotten && cost == asked);
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

    /// Whatever can be seen.
    pub(crate) fn compare(&self) {
        assert_eq!(self.clock.now().as_nanos(), self.naive.now);
        assert_eq!(self.limiter.waiting(), self.naive.waiting());
        assert_eq!(self.limiter.is_closed(), self.naive.is_closed());
        let (model, now) = (&self.naive.model, self.naive.now);
        assert_eq!(self.limiter.available(), model.available(now));
        self.same_time(self.limiter.peek_many(0).reset_after, model.reset(now));
        for (name, asker) in &self.askers {
            match asker {
                Asker::Future(waiter) => {
                    let served = self.naive.fate(*name) != Fate::InLine;
                    assert_eq!(waiter.wakes(), usize::from(served));
                }
                Asker::Reserved(reservation) => {
                    self.same_delay(reservation.delay(), *name);
                }
            }
        }
    }

    /// Everybody looks.
    pub(crate) fn end(mut self) -> M {
        for _ in 0..self.askers.len() {
            // Whoever still waits comes last then.
            self.poll(0);
            self.compare();
        }
        self.naive.model
    }
}

fn take<T>(from: &mut Vec<T>, which: Index) -> Option<T> {
    (!from.is_empty()).then(|| from.remove(which.index(from.len())))
}

/// That which an algorithm can have of it.
fn fitting(algorithm: Algorithm, quota: Quota) -> Option<Quota> {
    let quota = match algorithm {
        Algorithm::Gcra | Algorithm::TokenBucket => quota,
        _ => Quota::new(quota.count(), quota.period()),
    };
    algorithm.check(quota).is_ok().then_some(quota)
}
