//! The pace behind fair queues in front of a rate whose timers are late by a script: limiters, compositions,
//! boxes and other queues.
//!
//! Timers are late by 0.1 to 5 ms each, and once a second by 20 ms. The callers come again as soon as they are
//! polled, after each millisecond.

use std::fmt::Debug;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate::fair::{Class, ClassHandle, FairQueue};
use tollgate::rate::Charge;
use tollgate::throttle::{BoxThrottle, Polling};
use tollgate::time::{ManualClock, Tick};
use tollgate::wait::Waiting;
use tollgate::{AcquireError, Clock, Quota, RateLimiter, Semaphore, Throttle, all};

use crate::support::Waiter;
use crate::support::random::Random;

const STEP: Duration = Duration::from_millis(1);

/// How late the timers are.
#[derive(Clone, Copy)]
enum Timers {
    OnTime,
    Late,
}

/// Returns the lateness of each timer, one after the other.
fn lateness(timers: Timers, clock: &ManualClock) -> impl FnMut() -> Duration + use<> {
    let (mut random, mut seconds, clock) = (Random::new(7), 0, clock.clone());
    move || {
        if let Timers::OnTime = timers {
            return Duration::ZERO;
        }
        let second = clock.now().as_nanos() / 1_000_000_000;
        if std::mem::replace(&mut seconds, second) < second {
            return Duration::from_millis(20);
        }
        Duration::from_micros(100 + u64::from(random.below(4_901)))
    }
}

/// Returns the part of a rate that callers with these costs use, who come again each time.
fn pace<P: Debug, F>(
    clock: &ManualClock,
    timers: Timers,
    rate: u64,
    costs: &[u64],
    enter: impl Fn(u64) -> Waiting<F>,
) -> f64
where
    F: Future<Output = Result<P, AcquireError>>,
{
    let (mut random, mut late) = (Random::new(1), lateness(timers, clock));
    let mut ask = || {
        let cost = costs[random.next() as usize % costs.len()];
        (cost, Waiter::new(enter(cost)))
    };
    let mut callers: Vec<_> = (0..400.max(rate / 25)).map(|_| ask()).collect();
    for (_, caller) in &mut callers {
        if caller.poll().is_ready() {
            // The burst.
            *caller = Waiter::new(enter(1));
            let _ = caller.poll();
        }
    }
    // A second with a timer that is late by 20 ms, unless that would be too many callers for a test.
    let steps = match (timers, rate) {
        (Timers::OnTime, _) => 100,
        (_, ..=10_000) => 1_100,
        _ => 20,
    };
    let (start, mut used) = (clock.now(), 0);
    for _ in 0..steps {
        clock.advance_late(STEP, &mut late);
        for slot in callers.iter_mut().filter(|(_, caller)| caller.wakes() > 0) {
            let (cost, mut caller) = std::mem::replace(slot, ask());
            if caller.poll().is_ready() {
                used += cost;
                let _ = slot.1.poll();
            } else {
                *slot = (cost, caller);
            }
        }
    }
    let elapsed = clock.now().saturating_since(start);
    used as f64 / (rate as f64 * elapsed.as_secs_f64())
}

/// The limiter of one row.
fn limiter(clock: &ManualClock, rate: u64, burst: u64) -> Arc<RateLimiter> {
    let quota = Quota::per_second(rate).burst(burst);
    Arc::new(RateLimiter::new(quota).clock(clock))
}

fn class<T>(throttle: T) -> ClassHandle<T, u8>
where
    T: Throttle<Permit: Send, Enter: Send> + Send + Sync + 'static,
{
    FairQueue::new(throttle).class(7)
}

fn paced<T: Throttle<Permit: Debug>>(
    timers: Timers,
    rate: u64,
    make: impl FnOnce(Arc<RateLimiter>) -> T,
) -> f64 {
    let clock = Clock::manual();
    let throttle = make(limiter(&clock, rate, 1));
    pace(&clock, timers, rate, &[1], |_| throttle.enter())
}

/// Returns the pace of the limiter alone, behind a queue, and behind a queue in a queue, with costs of 1 and 5.
fn of_costs(timers: Timers, rate: u64) -> [f64; 3] {
    const COSTS: [u64; 2] = [1, 5];
    let clocks = [(); 3].map(|()| Clock::manual());
    let [alone, behind, twice] = [0, 1, 2].map(|at| limiter(&clocks[at], rate, 5));
    let (behind, twice) = (class(behind), class(class(twice)));
    [
        pace(&clocks[0], timers, rate, &COSTS, |n| {
            Arc::clone(&alone).cost_owned(n).acquire()
        }),
        pace(&clocks[1], timers, rate, &COSTS, |n| behind.acquire_many(n)),
        pace(&clocks[2], timers, rate, &COSTS, |n| twice.acquire_many(n)),
    ]
}

/// Returns the pace of each arrangement, the limiter alone first.
fn rows(timers: Timers, rate: u64) -> [(&'static str, f64); 8] {
    let slots = || Arc::new(Semaphore::new(100_000));
    let both = |limiter| all((slots(), limiter));
    [
        ("the limiter alone", paced(timers, rate, |it| it)),
        ("before the limiter", paced(timers, rate, class)),
        (
            "before all((slots, limiter))",
            paced(timers, rate, |it| class(both(it))),
        ),
        (
            "before all((limiter, slots))",
            paced(timers, rate, |it| class(all((it, slots())))),
        ),
        (
            "before a box of the limiter",
            paced(timers, rate, |it| class(BoxThrottle::new(it))),
        ),
        (
            "before a box of all",
            paced(timers, rate, |it| class(BoxThrottle::new(both(it)))),
        ),
        (
            "a queue in a queue",
            paced(timers, rate, |it| class(class(it))),
        ),
        (
            "all with a queue in a queue",
            paced(timers, rate, |it| class(all((slots(), class(it))))),
        ),
    ]
}

/// The queue admits callers at the ticks at which the limiter would admit them without it, so it has its pace.
#[test]
fn acquire_keeps_the_pace_of_a_rate_in_every_arrangement() {
    for rate in [1_000, 10_000, 100_000] {
        for (timers, name, least) in [
            (Timers::OnTime, "on time", 0.998),
            (Timers::Late, "late", 0.98),
        ] {
            let rows = rows(timers, rate);
            let (_, alone) = rows[0];
            for (row, pace) in rows {
                println!("{rate}/s, timers {name}, {row}: {pace:.3}");
                assert!(
                    pace > least && pace > alone - 0.001,
                    "{pace}, and alone {alone}"
                );
            }
            let costs = of_costs(timers, rate);
            println!("{rate}/s, timers {name}, costs of 1 and 5: {costs:.3?}");
            for pace in costs {
                assert!(pace > least && pace > costs[0] - 0.001, "{costs:?}");
            }
        }
    }
}

/// The time for which an entrant waits for a slot, after its charge, is no lateness of the rate.
#[test]
fn acquire_after_a_wait_for_slots_behind_the_rate_is_not_made_up_for() {
    let clock = Clock::manual();
    let rate = Arc::new(RateLimiter::new(Quota::per_second(10)).clock(&clock));
    let slots = Arc::new(Semaphore::new(3));
    let held = slots.try_acquire_many(3).unwrap();
    let queue = FairQueue::new(all((rate, Arc::clone(&slots)))).clock(&clock);
    let class = queue.class("all");
    let mut waiters = [(); 3].map(|()| Waiter::parked(class.acquire()));
    clock.advance(Duration::from_secs(1));
    drop(held);
    let granted = |waiters: &mut [Waiter<_>; 3]| {
        waiters
            .iter_mut()
            .map(|it| u32::from(it.poll().is_ready()))
            .sum::<u32>()
    };
    // The charge of the first one is a second old, and that of the second one is now.
    assert_eq!(granted(&mut waiters), 2);
}

type Task = Box<dyn FnOnce() + Send>;

/// A limiter that runs a task inside the first poll of an entry.
#[derive(Clone)]
struct RunsATask(Arc<RateLimiter>, Arc<Mutex<Option<Task>>>);

impl Throttle for RunsATask {
    type Permit = Charge;
    type Enter = Pin<Box<dyn Future<Output = Result<Charge, AcquireError>> + Send>>;

    fn enter(&self) -> Waiting<Self::Enter> {
        let Self(rate, task) = self.clone();
        let (mut wait, mut is_new) = (rate.enter().into_inner(), true);
        Waiting::new(Box::pin(poll_fn(move |context| {
            if std::mem::take(&mut is_new) {
                let task = task.lock().unwrap().take();
                task.into_iter().for_each(|task| task());
            }
            Pin::new(&mut wait).poll(context)
        })))
    }

    fn polling(&self) -> Polling {
        Polling::BY_WAKERS
    }
}

/// The tick of an entrant is its own: another queue that runs inside its poll enters its rate as of now.
#[test]
fn drop_of_a_permit_inside_the_poll_of_another_queue_enters_as_of_now() {
    let clock = Clock::manual();
    let tick = |millis: u64| Tick::from_nanos(1_000_000 * millis);
    let task = Arc::<Mutex<Option<Task>>>::default();
    let outer = class(RunsATask(limiter(&clock, 100, 1), Arc::clone(&task)));
    let one = Class::new().max_concurrency(1);
    let inner = FairQueue::new(limiter(&clock, 100, 1))
        .clock(&clock)
        .classes(move |_| one);
    let inner = ["a", "b"].map(|key| inner.class(key));

    // Each queue has served a waiter on time, so it knows the clock of its rate.
    let started = inner[0].try_acquire().unwrap();
    assert_eq!(Waiter::new(outer.acquire()).granted().at(), tick(0));
    let mut behind = [(); 3].map(|()| Waiter::parked(outer.acquire()));
    let mut first = Waiter::parked(inner[1].acquire());
    clock.advance(Duration::from_millis(10));
    let held = first.granted();
    assert_eq!((started.at(), held.at()), (tick(0), tick(10)));
    assert!(behind[1].is_pending());

    // Its class is at its maximum, and no timer runs for it.
    let mut waits = Waiter::parked(inner[1].acquire());
    *task.lock().unwrap() = Some(Box::new(move || drop(held)));
    clock.advance_late(Duration::from_millis(10), || Duration::from_millis(5));
    assert!(task.lock().unwrap().is_none());
    assert_eq!(behind[1].granted().at(), tick(20));
    assert_eq!(waits.granted().at(), tick(25));
}
