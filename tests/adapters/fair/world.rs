//! The fair queue and its model, side by side: after each step the whole observable state is
//! compared.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use tollgate::fair::{Class, ClassHandle, FairPermit, FairQueue, Share};
use tollgate::throttle::Weighted;
use tollgate::time::ManualClock;
use tollgate::wait::Waiting;
use tollgate::{AcquireError, Clock, Semaphore, Throttle};

use super::naive::{self, Model, Outcome};
use crate::support::Waiter;
use crate::support::scenarios::{Names, Words, call};

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) classes: Vec<naive::Class>,
    pub(crate) permits: usize,
    pub(crate) max_waiters: usize,
    pub(crate) aging: Option<u64>,
    pub(crate) by_cost: bool,
    pub(crate) class_names: Vec<String>,
    /// Only priorities and weights decide the order.
    pub(crate) is_plain: bool,
}

impl Settings {
    /// Creates both, without any bound.
    pub(crate) fn new(permits: usize, classes: Vec<naive::Class>) -> Self {
        Self {
            classes,
            permits,
            max_waiters: usize::MAX,
            aging: None,
            by_cost: false,
            class_names: Vec::new(),
            is_plain: false,
        }
    }
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
    /// Whether it had a grant before this step.
    served: bool,
}

/// A permit of a class, and its cost.
struct Holds(usize, u64, Permit);

pub(crate) struct World {
    names: Names,
    class_names: Vec<String>,
    /// In random runs every caller asks for one.
    one_cost: bool,
    clock: ManualClock,
    pub(crate) queue: FairQueue<Slots, usize>,
    classes: Vec<ClassHandle<Slots, usize>>,
    model: Model,
    waiting: Vec<Waits>,
    inside: Vec<Holds>,
    ids: usize,
    /// The classes and costs of the callers served in this step.
    pub(crate) served: Vec<(usize, u64)>,
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
        Some(period) => queue.aging(Duration::from_millis(period)),
        None => queue,
    };
    if settings.by_cost {
        queue.share(Share::ByCost)
    } else {
        queue
    }
}

fn compare_outcome(
    polled: Poll<Result<Permit, AcquireError>>,
    expected: Option<Outcome>,
) -> Result<Option<Permit>, TestCaseError> {
    match (polled, expected) {
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
        // The slots of classes are numbered in order of arrival.
        for class in &classes {
            drop(class.try_acquire());
        }
        let share = [Share::ByConcurrency, Share::ByCost][usize::from(settings.by_cost)];
        let model = Model {
            aging: settings.aging.map(Duration::from_millis),
            max_waiters: settings.max_waiters,
            ..Model::new(share, settings.classes.clone(), settings.permits as u64)
        };
        let has_times = |class: &naive::Class| class.adaptive_lifo.is_some();
        let by_count = model.share == Share::ByConcurrency && settings.is_plain;
        Self {
            names,
            class_names: settings.class_names.clone(),
            // The cost for which the entrant waits changes only when a caller comes or goes, not
            // with time.
            one_cost: by_count || model.aging.is_some() || model.classes.iter().any(has_times),
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

    /// Runs a call on both, and compares them. The calls are described in `scenarios.rs`.
    pub(crate) fn step(&mut self, text: &str) -> Tested {
        call(text, |call, words| self.call(call, words))?;
        self.model.update();
        self.compare()
    }

    /// Returns a class by its name, or by any number.
    fn class(&self, words: &mut Words<'_>) -> usize {
        let (name, classes) = (words.word(), &self.class_names);
        let named = classes.iter().position(|other| other == name);
        let numbered = || match self.names {
            Names::Exactly => None,
            Names::AtRandom => Some(name.parse::<usize>().ok()? % self.classes.len()),
        };
        let class = named.or_else(numbered);
        class.unwrap_or_else(|| panic!("no class: {name:?}"))
    }

    /// Returns a cost: at random it is 1 or any number.
    fn cost(&self, words: &mut Words<'_>) -> u64 {
        let cost = words.maybe().unwrap_or(1);
        match self.names {
            Names::Exactly => cost,
            Names::AtRandom if self.one_cost => 1,
            Names::AtRandom => 1 + cost % self.model.limit,
        }
    }

    fn call(&mut self, call: &str, words: &mut Words<'_>) -> Tested {
        match call {
            "enter" => {
                let class = self.class(words);
                let cost = self.cost(words);
                self.enter(class, cost)?;
            }
            "try" => {
                let class = self.class(words);
                let cost = self.cost(words);
                let tried = self.classes[class].try_acquire_many(cost);
                prop_assert_eq!(tried.is_ok(), self.model.try_enter(class, cost));
                let held = tried.map(|permit| Holds(class, cost, permit));
                self.inside.extend(held);
            }
            "poll" => self.poll(self.names.choose(words, &self.waiting)?)?,
            "drop" => {
                let at = self.names.choose(words, &self.waiting)?;
                let Waits { id, class, .. } = self.waiting.remove(at);
                self.model.leave(id, class);
            }
            "release" => self.give_back(words, |_, permit, _| drop(permit))?,
            "undo" => self.give_back(words, |class, permit, _| class.rollback(permit))?,
            "settle" => self.give_back(words, |class, permit, words| {
                class.settle(permit, words.parse());
            })?,
            "advance" => {
                let time = Duration::from_millis(words.parse());
                self.clock.advance(time);
                self.model.now += time;
            }
            "limit" => {
                let limit = words.parse();
                self.queue.throttle().set_permits(limit);
                self.model.set_limit(limit as u64);
            }
            "close" => {
                self.queue.throttle().close();
                self.model.close();
            }
            "gets" => {
                let class = self.class(words);
                let woken = self.waiting.iter().position(|one| one.wait.wakes() > 0);
                let at = woken.ok_or_else(|| TestCaseError::fail("nobody is served"))?;
                prop_assert_eq!(self.waiting[at].class, class, "another class is served");
                self.poll(at)?;
            }
            "next" => {
                self.step("release 0")?;
                self.call("gets", words)?;
            }
            _ => panic!("no call: {call:?}"),
        }
        Ok(())
    }

    fn enter(&mut self, class: usize, cost: u64) -> Tested {
        self.ids += 1;
        self.model.enter(self.ids, class, cost);
        self.waiting.push(Waits {
            id: self.ids,
            class,
            cost,
            wait: Waiter::new(self.classes[class].acquire_many(cost)),
            served: false,
        });
        self.poll(self.waiting.len() - 1)
    }

    fn poll(&mut self, at: usize) -> Tested {
        let polled = self.waiting[at].wait.poll();
        let expected = self.model.collect(self.waiting[at].id);
        if polled.is_ready() || expected.is_some() {
            let Waits { class, cost, .. } = self.waiting.remove(at);
            let held = compare_outcome(polled, expected)?;
            let held = held.map(|permit| Holds(class, cost, permit));
            self.inside.extend(held);
        }
        Ok(())
    }

    fn give_back(
        &mut self,
        words: &mut Words<'_>,
        how: impl FnOnce(&ClassHandle<Slots, usize>, Permit, &mut Words<'_>),
    ) -> Tested {
        let at = self.names.choose(words, &self.inside)?;
        let Holds(class, cost, permit) = self.inside.remove(at);
        how(&self.classes[class], permit, words);
        self.model.release(class, cost);
        Ok(())
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

    /// Lets every caller take its grant and leave, and checks that everything has come back.
    pub(crate) fn leave(mut self) -> Tested {
        loop {
            let served = self.waiting.iter().position(|one| one.wait.wakes() > 0);
            let text = match served {
                Some(at) => format!("poll {at}"),
                None if !self.inside.is_empty() => "release 0".to_owned(),
                None if !self.waiting.is_empty() => "drop 0".to_owned(),
                None => break,
            };
            self.step(&text)?;
        }
        prop_assert_eq!(self.model.free, self.model.limit.cast_signed());
        prop_assert!(self.queue.snapshot().is_empty());
        prop_assert_eq!(Arc::strong_count(self.queue.throttle()), 1);
        Ok(())
    }
}
