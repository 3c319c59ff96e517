//! Random classes and operations, beside the naive queue.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{RngSeed, TestCaseError};
use tollgate::fair::{Class, ClassHandle, FairPermit, FairQueue, Share};
use tollgate::throttle::Weighted;
use tollgate::{AcquireError, Clock, Semaphore, Throttle, Waiting};

use super::naive::{self, Model, Outcome};
use crate::support::Waiter;
use crate::support::cases::cases;

type Queue = FairQueue<Arc<Semaphore>, usize>;

#[derive(Clone, Debug)]
enum Step {
    /// Makes a wait and polls it once.
    Enter(usize, u64),
    Try(usize, u64),
    /// Polls a wait that was given something.
    Collect(Index),
    /// Drops a wait, whether or not it was given something.
    GiveUp(Index),
    Release(Index),
    RollBack(Index),
    Settle(Index, u64),
    Advance(u64),
}

#[derive(Clone, Debug)]
struct Settings {
    classes: Vec<naive::Class>,
    permits: usize,
    max_waiters: usize,
    aging: Option<u64>,
    by_cost: bool,
}

fn milliseconds(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn class() -> impl Strategy<Value = naive::Class> {
    let adaptive_lifo = prop::option::weighted(0.5, (0..30_u64).prop_map(milliseconds));
    let most = prop_oneof![Just(u64::from(u32::MAX)), 1..4_u64];
    let max_waiters = prop_oneof![3 => Just(usize::MAX), 1 => 0..4_usize];
    let weight = prop::sample::select(vec![1, 2, 4]);
    (0..3_u8, weight, most, max_waiters, adaptive_lifo).prop_map(
        |(priority, weight, most, max_waiters, adaptive_lifo)| naive::Class {
            priority,
            weight,
            most,
            max_waiters,
            adaptive_lifo,
            held: 0,
            start: 0,
            finish: 0,
            was_eligible: false,
        },
    )
}

fn settings() -> impl Strategy<Value = Settings> {
    (
        prop::collection::vec(class(), 1..5),
        1..5_usize,
        prop_oneof![Just(usize::MAX), 0..6_usize],
        prop::option::of(1..40_u64),
        any::<bool>(),
    )
        .prop_map(|(classes, permits, max_waiters, aging, by_cost)| Settings {
            classes,
            permits,
            max_waiters,
            aging,
            by_cost,
        })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..4_usize, 0..4_u64).prop_map(|(class, cost)| Step::Enter(class, cost)),
        1 => (0..4_usize, 0..4_u64).prop_map(|(class, cost)| Step::Try(class, cost)),
        4 => any::<Index>().prop_map(Step::Collect),
        2 => any::<Index>().prop_map(Step::GiveUp),
        4 => any::<Index>().prop_map(Step::Release),
        2 => any::<Index>().prop_map(Step::RollBack),
        2 => (any::<Index>(), 1..6_u64).prop_map(|(index, used)| Step::Settle(index, used)),
        2 => (0..50_u64).prop_map(Step::Advance),
    ]
}

fn queue(settings: &Settings, clock: &Clock) -> Queue {
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

type Permit = FairPermit<Arc<Semaphore>, usize>;

type Wait = Waiting<<ClassHandle<Arc<Semaphore>, usize> as tollgate::Throttle>::Enter>;

struct Waits {
    id: usize,
    class: usize,
    cost: u64,
    wait: Waiter<Wait>,
}

/// A permit of a class, and its cost.
struct Holds(usize, u64, Permit);

fn compare(
    polled: Poll<Result<Permit, AcquireError>>,
    expected: Option<Outcome>,
) -> Result<Option<Permit>, TestCaseError> {
    match (polled, expected) {
        (Poll::Pending, None) => Ok(None),
        (Poll::Ready(Ok(permit)), Some(Ok(_))) => Ok(Some(permit)),
        (Poll::Ready(Err(error)), Some(Err(kind))) => {
            prop_assert_eq!(error.kind(), kind);
            Ok(None)
        }
        (polled, expected) => Err(TestCaseError::fail(format!("{polled:?}, not {expected:?}"))),
    }
}

fn run(settings: Settings, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let clock = Clock::manual();
    let queue = queue(&settings, &Clock::from(&clock));
    // The slots of classes are numbered as they come.
    let classes: Vec<_> = (0..settings.classes.len())
        .map(|key| queue.class(key))
        .collect();
    for class in &classes {
        drop(class.try_acquire());
    }
    let share = [Share::ByConcurrency, Share::ByCost][usize::from(settings.by_cost)];
    let mut model = Model {
        share,
        aging: settings.aging.map(milliseconds),
        max_waiters: settings.max_waiters,
        classes: settings.classes.clone(),
        waiting: Vec::new(),
        free: settings.permits as u64,
        now: Duration::ZERO,
        virtual_times: [0; 3],
        joined: 0,
        served: Vec::new(),
    };
    // The cost for which the entrant waits changes only when somebody comes or goes, not with time.
    let has_times = |class: &naive::Class| class.adaptive_lifo.is_some();
    let one_cost = settings.aging.is_some() || settings.classes.iter().any(has_times);
    let most = settings.permits as u64;
    let cost_of = |cost: u64| if one_cost { 1 } else { 1 + cost % most };
    let (mut waiting, mut inside, mut ids) = (Vec::<Waits>::new(), Vec::<Holds>::new(), 0);
    for step in steps {
        match step {
            Step::Enter(class, cost) => {
                let (class, cost) = (class % classes.len(), cost_of(cost));
                ids += 1;
                let mut wait = Waiter::new(queue.class(class).acquire_many(cost));
                let polled = wait.poll();
                let expected = model.enter(ids, class, cost);
                if polled.is_pending() && expected.is_none() {
                    let id = ids;
                    waiting.push(Waits {
                        id,
                        class,
                        cost,
                        wait,
                    });
                } else if let Some(permit) = compare(polled, expected)? {
                    inside.push(Holds(class, cost, permit));
                }
            }
            Step::Try(class, cost) => {
                let (class, cost) = (class % classes.len(), cost_of(cost));
                let tried = queue.class(class).try_acquire_many(cost);
                prop_assert_eq!(tried.is_ok(), model.try_enter(class, cost));
                if let Ok(permit) = tried {
                    model.free -= cost;
                    model.classes[class].held += 1;
                    inside.push(Holds(class, cost, permit));
                }
            }
            Step::Collect(index) if !waiting.is_empty() => {
                let at = index.index(waiting.len());
                let polled = waiting[at].wait.poll();
                let expected = model.collect(waiting[at].id);
                if polled.is_ready() {
                    let Waits { class, cost, .. } = waiting.remove(at);
                    if let Some(permit) = compare(polled, expected)? {
                        inside.push(Holds(class, cost, permit));
                    }
                } else {
                    prop_assert_eq!(expected, None);
                }
            }
            Step::GiveUp(index) if !waiting.is_empty() => {
                let Waits {
                    id, class, wait, ..
                } = waiting.remove(index.index(waiting.len()));
                drop(wait);
                model.leave(id, class);
            }
            Step::Release(index) if !inside.is_empty() => {
                let Holds(class, cost, permit) = inside.remove(index.index(inside.len()));
                drop(permit);
                model.release(class, cost);
            }
            Step::RollBack(index) if !inside.is_empty() => {
                let Holds(class, cost, permit) = inside.remove(index.index(inside.len()));
                queue.class(class).rollback(permit);
                model.release(class, cost);
            }
            Step::Settle(index, used) if !inside.is_empty() => {
                let Holds(class, cost, permit) = inside.remove(index.index(inside.len()));
                queue.class(class).settle(permit, used);
                model.release(class, cost);
            }
            Step::Advance(time) => {
                clock.advance(milliseconds(time));
                model.now += milliseconds(time);
            }
            _ => {}
        }
        model.update();
        prop_assert_eq!(queue.throttle().available_permits() as u64, model.free);
        prop_assert_eq!(queue.waiting(), model.waiting.len());
        for class in queue.snapshot() {
            let expected = (model.classes[class.key].held, model.waiting_in(class.key));
            prop_assert_eq!((class.held, class.waiting), expected);
        }
    }
    for Waits { id, mut wait, .. } in waiting {
        if let Some(permit) = compare(wait.poll(), model.collect(id))? {
            // So that nobody else is served meanwhile.
            std::mem::forget(permit);
        }
        std::mem::forget(wait);
    }
    Ok(())
}

#[test]
fn cases_draw_the_same_numbers_in_every_run() {
    assert_ne!(cases(1).rng_seed, RngSeed::Random);
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn random_steps_agree_with_the_naive_queue(
        settings in settings(),
        steps in prop::collection::vec(step(), 0..120),
    ) {
        run(settings, steps)?;
    }
}
