//! The fair queue and its model, side by side: after each step everything that can be seen is compared.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use tollgate::fair::{Class, ClassHandle, FairPermit, FairQueue, Share};
use tollgate::throttle::Weighted;
use tollgate::{AcquireError, Clock, ManualClock, Semaphore, Throttle, Waiting};

use super::naive::{self, Model, Outcome};
use crate::support::Waiter;
use crate::support::scenarios::Names;

/// What happens. Waiters and permits are named as [`Names`] says.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Makes a wait and polls it once.
    Enter(usize, u64),
    Try(usize, u64),
    /// Polls a wait, whether or not it was given something.
    Poll(usize),
    /// Drops a wait, whether or not it was given something.
    Drop(usize),
    Release(usize),
    RollBack(usize),
    Settle(usize, u64),
    /// So many milliseconds.
    Advance(u64),
    Limit(u64),
    Close,
    /// The first one that was given something is of this class, and takes it.
    Gets(usize),
    /// The same, after the first permit was released.
    Next(usize),
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) classes: Vec<naive::Class>,
    pub(crate) permits: usize,
    pub(crate) max_waiters: usize,
    pub(crate) aging: Option<u64>,
    pub(crate) by_cost: bool,
}

pub(crate) type Tested = Result<(), TestCaseError>;
type Slots = Arc<Semaphore>;
type Permit = FairPermit<Slots, usize>;
type Wait = Waiting<<ClassHandle<Slots, usize> as Throttle>::Enter>;

struct Waits {
    id: usize,
    class: usize,
    cost: u64,
    wait: Waiter<Wait>,
    /// Whether it has been given something before this step.
    served: bool,
}

/// A permit of a class, and its cost.
struct Holds(usize, u64, Permit);

pub(crate) struct World {
    names: Names,
    clock: ManualClock,
    pub(crate) queue: FairQueue<Slots, usize>,
    classes: Vec<ClassHandle<Slots, usize>>,
    model: Model,
    waiting: Vec<Waits>,
    inside: Vec<Holds>,
    ids: usize,
    /// The classes and costs of those whom the queue has served in this step.
    pub(crate) served: Vec<(usize, u64)>,
}

fn milliseconds(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn queue(settings: &Settings, clock: &Clock) -> FairQueue<Slots, usize> {
    let classes = settings.classes.clone();
    let queue = FairQueue::new(Arc::new(Semaphore::new(settings.permits)))
        .classes(move |key: &usize| {
            let class = &classes[*key];
            let settings = Class::new()
                .priority(class.priority)
                .weight(u32::try_from(class.weight).unwrap())
                .max_concurrency(u32::try_from(class.most).unwrap())
                .max_waiters(class.max_waiters);
            match class.adaptive_lifo {
                Some(limit) => settings.adaptive_lifo(limit),
                None => settings,
            }
        })
        .max_waiters(settings.max_waiters)
        .clock(clock);
    let queue = match settings.aging {
        Some(period) => queue.aging(milliseconds(period)),
        None => queue,
    };
    match settings.by_cost {
        true => queue.share(Share::ByCost),
        false => queue,
    }
}

fn compare_outcome(
    polled: Poll<Result<Permit, AcquireError>>,
    expected: Option<Outcome>,
) -> Result<Option<Permit>, TestCaseError> {
    match (polled, expected) {
        (Poll::Pending, None) => Ok(None),
        (Poll::Ready(Ok(permit)), Some(Ok(cost))) => {
            prop_assert_eq!(permit.count() as u64, cost);
            Ok(Some(permit))
        }
        (Poll::Ready(Err(error)), Some(Err(kind))) => {
            prop_assert_eq!((error.kind(), error.part()), (kind, None));
            Ok(None)
        }
        (polled, expected) => Err(TestCaseError::fail(format!("{polled:?}, not {expected:?}"))),
    }
}

impl World {
    pub(crate) fn new(settings: &Settings, names: Names) -> Self {
        let clock = Clock::manual();
        let queue = queue(settings, &Clock::from(&clock));
        let classes = (0..settings.classes.len()).map(|key| queue.class(key));
        let classes: Vec<_> = classes.collect();
        // The slots of classes are numbered as they come.
        for class in &classes {
            drop(class.try_acquire());
        }
        let model = Model {
            share: [Share::ByConcurrency, Share::ByCost][usize::from(settings.by_cost)],
            aging: settings.aging.map(milliseconds),
            max_waiters: settings.max_waiters,
            classes: settings.classes.clone(),
            waiting: Vec::new(),
            limit: settings.permits as u64,
            free: settings.permits.cast_signed() as i64,
            closed: false,
            now: Duration::ZERO,
            virtual_times: [0; 256],
            joined: 0,
            served: Vec::new(),
        };
        Self {
            names,
            clock,
            queue,
            classes,
            model,
            waiting: Vec::new(),
            inside: Vec::new(),
            ids: 0,
            served: Vec::new(),
        }
    }

    /// Does it to both, and compares them.
    pub(crate) fn step(&mut self, step: Step) -> Tested {
        match step {
            Step::Enter(class, cost) => self.enter(class, cost)?,
            Step::Try(class, cost) => {
                let tried = self.classes[class].try_acquire_many(cost);
                prop_assert_eq!(tried.is_ok(), self.model.try_enter(class, cost));
                let held = tried.map(|permit| Holds(class, cost, permit));
                self.inside.extend(held);
            }
            Step::Poll(which) => {
                if let Some(at) = self.names.choose(which, &self.waiting) {
                    self.poll(at)?;
                }
            }
            Step::Drop(which) => {
                if let Some(at) = self.names.choose(which, &self.waiting) {
                    let Waits { id, class, .. } = self.waiting.remove(at);
                    self.model.leave(id, class);
                }
            }
            Step::Release(which) => self.give_back(which, |_, permit| drop(permit)),
            Step::RollBack(which) => self.give_back(which, |class, permit| class.rollback(permit)),
            Step::Settle(which, used) => {
                self.give_back(which, |class, permit| class.settle(permit, used));
            }
            Step::Advance(time) => {
                self.clock.advance(milliseconds(time));
                self.model.now += milliseconds(time);
            }
            Step::Limit(limit) => {
                self.queue.throttle().set_permits(limit as usize);
                self.model.set_limit(limit);
            }
            Step::Close => {
                self.queue.throttle().close();
                self.model.close();
            }
            Step::Gets(class) => {
                let woken = self.waiting.iter().position(|one| one.wait.wakes() > 0);
                let at = woken.ok_or_else(|| TestCaseError::fail("nobody is served"))?;
                prop_assert_eq!(self.waiting[at].class, class, "another class is served");
                self.poll(at)?;
            }
            Step::Next(class) => {
                self.step(Step::Release(0))?;
                self.step(Step::Gets(class))?;
            }
        }
        self.model.update();
        self.compare()
    }

    fn enter(&mut self, class: usize, cost: u64) -> Tested {
        self.ids += 1;
        let (id, mut wait) = (
            self.ids,
            Waiter::new(self.classes[class].acquire_many(cost)),
        );
        let polled = wait.poll();
        let expected = self.model.enter(id, class, cost);
        if polled.is_pending() && expected.is_none() {
            self.waiting.push(Waits {
                id,
                class,
                cost,
                wait,
                served: false,
            });
        } else if let Some(permit) = compare_outcome(polled, expected)? {
            self.inside.push(Holds(class, cost, permit));
        }
        Ok(())
    }

    fn poll(&mut self, at: usize) -> Tested {
        let polled = self.waiting[at].wait.poll();
        let expected = self.model.collect(self.waiting[at].id);
        if polled.is_ready() || expected.is_some() {
            let Waits { class, cost, .. } = self.waiting.remove(at);
            let held = compare_outcome(polled, expected)?;
            self.inside
                .extend(held.map(|permit| Holds(class, cost, permit)));
        }
        Ok(())
    }

    fn give_back(&mut self, which: usize, how: impl FnOnce(&ClassHandle<Slots, usize>, Permit)) {
        if let Some(at) = self.names.choose(which, &self.inside) {
            let Holds(class, cost, permit) = self.inside.remove(at);
            how(&self.classes[class], permit);
            self.model.release(class, cost);
        }
    }

    fn compare(&mut self) -> Tested {
        let (model, semaphore) = (&self.model, self.queue.throttle());
        let free = u64::try_from(model.free).unwrap_or(0);
        prop_assert_eq!(semaphore.available_permits() as u64, free);
        let in_line = usize::from(model.stands_in_line());
        prop_assert_eq!(semaphore.snapshot().waiting, in_line);
        prop_assert_eq!(self.queue.waiting(), model.waiting.len());
        let mut seen = vec![(0, 0, None); model.classes.len()];
        for class in self.queue.snapshot() {
            seen[class.key] = (class.held, class.waiting, class.oldest_wait);
        }
        for (class, seen) in seen.into_iter().enumerate() {
            let oldest = model.oldest(class).map(|since| model.now - since);
            let expected = (model.classes[class].held, model.waiting_in(class), oldest);
            prop_assert_eq!(seen, expected, "class {}", class);
        }
        self.served.clear();
        for one in &mut self.waiting {
            let outcome = model.served.iter().find(|(id, _)| *id == one.id);
            prop_assert_eq!(one.wait.wakes(), usize::from(outcome.is_some()));
            if !one.served && outcome.is_some_and(|(_, outcome)| outcome.is_ok()) {
                self.served.push((one.class, one.cost));
            }
            one.served = outcome.is_some();
        }
        Ok(())
    }

    /// Everybody takes what is given, and goes; and everything has come back.
    pub(crate) fn leave(mut self) -> Tested {
        loop {
            let served = self.waiting.iter().position(|one| one.wait.wakes() > 0);
            self.step(match served {
                Some(at) => Step::Poll(at),
                None if !self.inside.is_empty() => Step::Release(self.inside.len() / 2),
                None if !self.waiting.is_empty() => Step::Drop(self.waiting.len() / 2),
                None => break,
            })?;
        }
        prop_assert_eq!(self.model.free, self.model.limit.cast_signed());
        prop_assert!(self.queue.snapshot().is_empty());
        prop_assert_eq!(Arc::strong_count(self.queue.throttle()), 1);
        Ok(())
    }
}
