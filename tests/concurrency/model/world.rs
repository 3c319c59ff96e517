//! The semaphore and its model, side by side.

use std::mem;
use std::task::{Poll, Waker};

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use tollgate::{Permit, Semaphore, Throttle, WaitIdle, Waiting};

use super::naive::{Answer, Idle, Model};
use crate::support::{Waiter, assert_at_rest};

/// What happens. An index chooses among those that there are at that moment, in the order in which
/// they came.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Try(u32),
    /// Makes a future and polls it once.
    Acquire(u32),
    /// Many at once, so that they are served in more than one portion.
    Crowd(usize, u32),
    /// Polls one that waits, with a new waker and then with its own again.
    Poll(usize),
    /// Drops one that waits, or that was answered and has not looked yet.
    Drop(usize),
    DropHalf,
    /// The same as a drop, but its destructor never runs.
    Leak(usize),
    Release(usize),
    ReleaseAll,
    LeakPermit(usize),
    /// Which one, and how many permits are taken out of it.
    Split(usize, usize),
    /// Into which one, and which of the others.
    Merge(usize, usize),
    Forget(usize),
    SetPermits(usize),
    AddPermits(usize),
    ForgetPermits(usize),
    RejectImpossible,
    Close,
    WaitIdle,
    PollIdle(usize),
    DropIdle(usize),
    LeakIdle(usize),
    /// As many are free, which the model says as well.
    Free(usize),
    /// As many wait, which the model says as well.
    Waiting(usize),
}

type Tested = Result<(), TestCaseError>;

pub(crate) struct World<'a> {
    semaphore: &'a Semaphore,
    names: Names,
    model: Model,
    /// Names in the model, and futures that have not been collected.
    waiters: Vec<(usize, Waiter<Waiting<<&'a Semaphore as Throttle>::Enter>>)>,
    permits: Vec<Permit<&'a Semaphore>>,
    idlers: Vec<Waiter<Waiting<WaitIdle<&'a Semaphore>>>>,
    /// Something was leaked, so not everything comes back.
    leaked: bool,
}

/// How a step names one of those that there are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Names {
    /// By its place, at which there must be one.
    Exactly,
    /// By any number; without anybody to be named nothing happens.
    AtRandom,
}

impl Names {
    fn choose<T>(self, which: usize, among: &[T]) -> Option<usize> {
        assert!(
            self == Self::AtRandom || which < among.len(),
            "nobody at {which}"
        );
        which.checked_rem(among.len())
    }
}

impl<'a> World<'a> {
    pub(crate) fn new(semaphore: &'a Semaphore, bound: Option<usize>, names: Names) -> Self {
        Self {
            semaphore,
            names,
            model: Model::new(semaphore.permits(), bound),
            waiters: Vec::new(),
            permits: Vec::new(),
            idlers: Vec::new(),
            leaked: false,
        }
    }

    pub(crate) fn step(&mut self, step: Step) -> Tested {
        match step {
            Step::Try(cost) => {
                let tried = self.semaphore.try_acquire_many(cost);
                let answer = self.model.try_acquire(cost as usize);
                prop_assert_eq!(Answer::of(&tried), answer);
                self.permits.extend(tried);
            }
            Step::Acquire(cost) => self.acquire(cost)?,
            Step::Crowd(count, cost) => {
                for _ in 0..count {
                    self.acquire(cost)?;
                }
            }
            Step::Poll(which) => {
                if let Some(at) = self.names.choose(which, &self.waiters) {
                    self.poll(at)?;
                }
            }
            Step::Drop(which) => {
                if let Some(at) = self.names.choose(which, &self.waiters) {
                    self.drop_waiter(at);
                }
            }
            Step::DropHalf => {
                for at in (0..self.waiters.len()).rev().step_by(2) {
                    self.drop_waiter(at);
                }
            }
            Step::Leak(which) => {
                if let Some(at) = self.names.choose(which, &self.waiters) {
                    mem::forget(self.waiters.remove(at).1.into_future());
                    self.leaked = true;
                }
            }
            Step::Release(which) => {
                if let Some(at) = self.names.choose(which, &self.permits) {
                    self.release(at);
                }
            }
            Step::ReleaseAll => {
                while !self.permits.is_empty() {
                    self.release(0);
                }
            }
            Step::LeakPermit(which) => {
                if let Some(at) = self.names.choose(which, &self.permits) {
                    mem::forget(self.permits.remove(at));
                    self.leaked = true;
                }
            }
            Step::Split(which, count) => self.split(which, count)?,
            Step::Merge(into, from) => self.merge(into, from)?,
            Step::Forget(which) => {
                if let Some(at) = self.names.choose(which, &self.permits) {
                    let permit = self.permits.remove(at);
                    self.model.forget(permit.count());
                    permit.forget();
                }
            }
            Step::SetPermits(limit) => {
                self.semaphore.set_permits(limit);
                self.model.set_permits(limit);
            }
            Step::AddPermits(more) => {
                self.semaphore.add_permits(more);
                self.model.set_permits(self.model.limit + more);
            }
            Step::ForgetPermits(permits) => {
                let forgotten = self.semaphore.forget_permits(permits);
                prop_assert_eq!(forgotten, self.model.forget_free(permits));
            }
            Step::RejectImpossible => {
                self.semaphore.reject_impossible();
                self.model.reject_impossible();
            }
            Step::Close => {
                self.semaphore.close();
                self.model.close();
            }
            Step::WaitIdle => {
                self.model.wait_idle();
                self.idlers.push(Waiter::new(self.semaphore.wait_idle()));
                self.poll_idler(self.idlers.len() - 1)?;
            }
            Step::PollIdle(which) => {
                if let Some(at) = self.names.choose(which, &self.idlers) {
                    self.poll_idler(at)?;
                }
            }
            Step::DropIdle(which) => {
                if let Some(at) = self.names.choose(which, &self.idlers) {
                    drop(self.idlers.remove(at));
                    self.model.idlers.remove(at);
                }
            }
            Step::LeakIdle(which) => {
                if let Some(at) = self.names.choose(which, &self.idlers) {
                    mem::forget(self.idlers.remove(at).into_future());
                    self.model.idlers.remove(at);
                }
            }
            Step::Free(free) => prop_assert_eq!(self.semaphore.available_permits(), free),
            Step::Waiting(waiting) => prop_assert_eq!(self.semaphore.snapshot().waiting, waiting),
        }
        Ok(())
    }

    fn acquire(&mut self, cost: u32) -> Tested {
        let name = self.model.acquire(cost as usize);
        self.waiters
            .push((name, Waiter::new(self.semaphore.acquire_many(cost))));
        let at = self.waiters.len() - 1;
        // A caller that is answered at the first poll is never woken.
        if let Some(answer) = self.model.callers[name].answer {
            let (_, mut waiter) = self.waiters.remove(at);
            let Poll::Ready(result) = waiter.poll() else {
                return Err(TestCaseError::fail("it waits"));
            };
            prop_assert_eq!((Answer::of(&result), waiter.wakes()), (answer, 0));
            self.permits.extend(result);
            return Ok(());
        }
        prop_assert!(self.waiters[at].1.is_pending());
        Ok(())
    }

    fn poll(&mut self, at: usize) -> Tested {
        let name = self.waiters[at].0;
        let Some(answer) = self.model.callers[name].answer else {
            let waiter = &mut self.waiters[at].1;
            prop_assert!(waiter.poll_with(Waker::noop()).is_pending());
            prop_assert!(waiter.is_pending());
            return Ok(());
        };
        let (_, mut waiter) = self.waiters.remove(at);
        let Poll::Ready(result) = waiter.poll() else {
            return Err(TestCaseError::fail("not ready, although it was answered"));
        };
        prop_assert_eq!(Answer::of(&result), answer);
        if let Ok(permit) = &result {
            prop_assert_eq!(permit.count(), self.model.callers[name].cost);
        }
        self.permits.extend(result);
        Ok(())
    }

    fn drop_waiter(&mut self, at: usize) {
        let (name, waiter) = self.waiters.remove(at);
        drop(waiter);
        self.model.drop_caller(name);
    }

    fn release(&mut self, at: usize) {
        let permit = self.permits.remove(at);
        let count = permit.count();
        drop(permit);
        self.model.release(count);
    }

    fn split(&mut self, which: usize, count: usize) -> Tested {
        let Some(at) = self.names.choose(which, &self.permits) else {
            return Ok(());
        };
        let before = self.permits[at].count();
        let part = self.permits[at].split(count);
        prop_assert_eq!(part.is_some(), count <= before);
        let parted = part.as_ref().map_or(0, Permit::count);
        prop_assert_eq!(self.permits[at].count() + parted, before);
        self.permits.extend(part);
        Ok(())
    }

    fn merge(&mut self, into: usize, from: usize) -> Tested {
        if self.permits.len() < 2 {
            return Ok(());
        }
        let from = self.permits.remove(from % self.permits.len());
        let into = into % self.permits.len();
        let sum = self.permits[into].count() + from.count();
        self.permits[into].merge(from);
        prop_assert_eq!(self.permits[into].count(), sum);
        Ok(())
    }

    fn poll_idler(&mut self, at: usize) -> Tested {
        let woken = self.idlers[at].poll().is_ready();
        prop_assert_eq!(woken, self.model.idlers[at] == Idle::Woken);
        if woken {
            // Polled again it would wait again.
            self.idlers.remove(at);
            self.model.idlers.remove(at);
        }
        Ok(())
    }

    /// All that can be seen.
    pub(crate) fn compare(&mut self) -> Tested {
        let (semaphore, model) = (self.semaphore, &mut self.model);
        prop_assert_eq!(semaphore.permits(), model.limit);
        prop_assert_eq!(semaphore.available_permits(), model.available());
        prop_assert_eq!(semaphore.snapshot().waiting, model.queue.len());
        prop_assert_eq!(semaphore.is_closed(), model.closed);
        for (name, waiter) in &self.waiters {
            let answered = model.callers[*name].answer.is_some();
            prop_assert_eq!(waiter.wakes(), usize::from(answered), "caller {}", name);
        }
        for (idler, woken) in self.idlers.iter().zip(&mut model.idlers) {
            if *woken == Idle::Perhaps {
                *woken = match idler.wakes() {
                    0 => Idle::Nothing,
                    _ => Idle::Woken,
                };
            }
            prop_assert_eq!(idler.wakes(), usize::from(*woken == Idle::Woken));
        }
        let held: usize = self.permits.iter().map(Permit::count).sum();
        prop_assert!(held <= model.held);
        Ok(())
    }

    /// Everybody goes, in no order, and everything has come back.
    pub(crate) fn leave(mut self) -> Tested {
        while !(self.waiters.is_empty() && self.permits.is_empty()) {
            if !self.waiters.is_empty() {
                self.drop_waiter(self.waiters.len() / 2);
                self.compare()?;
            }
            if !self.permits.is_empty() {
                self.release(self.permits.len() / 2);
                self.compare()?;
            }
        }
        if self.leaked {
            return Ok(());
        }
        prop_assert_eq!(self.model.held, 0);
        prop_assert!(self.model.idlers.iter().all(|woken| *woken == Idle::Woken));
        assert_at_rest(self.semaphore, self.model.limit);
        Ok(())
    }
}
