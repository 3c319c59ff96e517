//! Runs the threads of every scenario, and checks the invariants.
//!
//! 1. Four to eight threads make calls, one more changes limits and lets time pass, and some permits are
//!    given back by threads of their own. Shuttle's generator draws the actions of each thread, like the
//!    schedule, so that one seed replays both.
//! 2. [`Books`] are kept beside the throttle, with std's types: threads are switched only within
//!    shuttle's types, so every entry is exact. A permit is entered after it was granted and struck before it
//!    is given back, so the books never hold more than the throttle has granted.
//! 3. A wait that is never woken leaves its thread blocked, which shuttle reports as a deadlock.

use std::cell::Cell;
use std::collections::HashMap;
use std::env;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use shuttle::future::block_on;
use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler, Scheduler};
use shuttle::thread::{self, JoinHandle};
use shuttle::{Config, Runner};
use tollgate::{ErrorKind, Throttle, TryThrottle};

/// A throttle, its properties, and its other operations.
pub(crate) trait Subject: Send + Sync + 'static {
    type Throttle: TryThrottle<Permit: Send + 'static>;

    /// The number of groups of calls: keys or classes.
    const GROUPS: u32 = 1;
    /// The maximum cost of a call.
    const MOST_COST: u32 = 2;
    /// Whether [`set`](Self::set) sets the maximum that may be held.
    const HAS_LIMIT: bool = true;
    /// Whether that limit applies to each group, and not to all together.
    const LIMITS_GROUPS: bool = false;
    /// Whether a limit, or a `close`, applies to every call that begins afterwards. A fair queue may
    /// have a permit by then, and decides later which call gets it.
    const DECIDES_AT_ONCE: bool = true;
    const CAN_CLOSE: bool = true;
    /// Whether waits need time to pass, and can time out.
    const HAS_CLOCK: bool = false;

    fn new() -> Self;

    /// Sets the number of permits.
    fn set(&self, _limit: usize) {}

    fn throttle(&self, group: u32, cost: u32) -> Self::Throttle;

    /// Returns the maximum that may ever be held in a group.
    fn most_in(&self, _group: u32) -> u64 {
        u64::MAX
    }

    /// Inspects a permit that was just admitted. Returns a number that grows in the order of
    /// admissions, if the permit tells it.
    fn begin(&self, _permit: &PermitOf<Self>) -> Option<u64> {
        None
    }

    /// Gives a permit back, in one of several ways.
    fn end(&self, _group: u32, permit: PermitOf<Self>) {
        drop(permit);
    }

    /// Changes another setting, or lets some time pass.
    fn change(&self) {}

    /// Lets time pass, so that waits end.
    fn pass_time(&self) {}

    fn close(&self) {}

    /// Checks that everything is free again and nothing waits, when all calls have ended.
    fn assert_at_rest(&self, limit: u64);
}

pub(crate) type PermitOf<S> = <<S as Subject>::Throttle as Throttle>::Permit;

std::thread_local! {
    /// The calls that were admitted after a wait, under all schedules, which run on one thread.
    static WAITED: Cell<u64> = const { Cell::new(0) };
}

/// Draws a number below `end`.
pub(crate) fn draw(end: u32) -> u32 {
    thread_rng().gen_range(0..end)
}

#[derive(Default)]
struct Books {
    /// The number of events.
    now: u64,
    /// The units held in each group.
    held: HashMap<u32, u64>,
    limit: u64,
    /// The largest limit since the beginning.
    largest: u64,
    /// The time of the last change of the limit; `None` during a change.
    changed: Option<u64>,
    is_closing: bool,
    closed: Option<u64>,
    admitted: Vec<Admitted>,
    /// The number of threads that make calls.
    working: usize,
}

impl Books {
    fn event(&mut self) -> u64 {
        self.now += 1;
        self.now
    }
}

/// An admitted call.
#[derive(Debug)]
struct Admitted {
    group: u32,
    began: u64,
    /// The time by which the call was certainly in the queue.
    queued: Option<u64>,
    /// Its place in the order of its group, if it is known.
    place: Option<u64>,
}

impl Admitted {
    /// Returns whether this call was admitted before one that was in the queue when it began.
    fn has_passed(&self, other: &Self) -> bool {
        let was_behind = other.queued.is_some_and(|queued| queued < self.began);
        let (Some(mine), Some(others)) = (self.place, other.place) else {
            return false;
        };
        self.group == other.group && was_behind && mine < others
    }
}

pub(crate) struct Scenario<S> {
    subject: S,
    /// Whether there is one permit, so that its holders come in the order of the queue.
    is_one: bool,
    books: Mutex<Books>,
}

impl<S: Subject> Scenario<S> {
    pub(crate) fn run() {
        let scenario = Arc::new(Self {
            subject: S::new(),
            is_one: S::HAS_LIMIT && draw(2) == 0,
            books: Mutex::default(),
        });
        scenario.set_limit(false);
        let callers = 4 + draw(5) as usize;
        scenario.books().working = callers;
        let changer = Arc::clone(&scenario);
        let mut threads = vec![thread::spawn(move || changer.change())];
        threads.extend((0..callers).map(|_| {
            let scenario = Arc::clone(&scenario);
            thread::spawn(move || scenario.make_calls())
        }));
        threads.into_iter().for_each(join);
        let books = scenario.books();
        assert_eq!(books.held.values().sum::<u64>(), 0);
        for one in &books.admitted {
            let passed = books.admitted.iter().find(|other| one.has_passed(other));
            assert!(passed.is_none(), "{one:?} has passed {passed:?}");
        }
        scenario.subject.assert_at_rest(books.limit);
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets a limit that admits every call, or none.
    fn set_limit(&self, may_pause: bool) {
        let limit = match draw(4) {
            _ if self.is_one => 1,
            0 if may_pause => 0,
            other => 2 + other.min(2),
        };
        let mut books = self.books();
        books.changed = None;
        books.largest = books.largest.max(limit.into());
        drop(books);
        self.subject.set(limit as usize);
        let mut books = self.books();
        books.changed = Some(books.event());
        books.limit = limit.into();
    }

    fn change(&self) {
        for _ in 0..draw(6) {
            match draw(2) {
                0 => self.set_limit(true),
                _ => self.subject.change(),
            }
            thread::yield_now();
        }
        if S::CAN_CLOSE && draw(4) == 0 {
            self.books().is_closing = true;
            self.subject.close();
            let mut books = self.books();
            books.closed = Some(books.event());
        }
        self.set_limit(false);
        // The loop ends after the maximum time of all calls together, so that a forgotten call is found.
        for _ in 0..400 {
            if S::HAS_CLOCK && self.books().working > 0 {
                self.subject.pass_time();
                thread::yield_now();
            }
        }
    }

    fn make_calls(self: &Arc<Self>) {
        let mut helpers = Vec::new();
        for _ in 0..1 + draw(3) {
            self.make_call(&mut helpers);
        }
        helpers.into_iter().for_each(join);
        self.books().working -= 1;
    }

    fn make_call(self: &Arc<Self>, helpers: &mut Vec<JoinHandle<()>>) {
        let group = draw(S::GROUPS);
        let only_one = self.is_one || self.subject.most_in(group) == 1;
        let cost = if only_one { 1 } else { 1 + draw(S::MOST_COST) };
        let throttle = self.subject.throttle(group, cost);
        let (began, mut queued) = (self.books().event(), None);
        let way = draw(6);
        let result = match way {
            0 => Some(throttle.try_enter()),
            1 => {
                let time = Duration::from_millis(250) * draw(if S::HAS_CLOCK { 4 } else { 1 });
                let wait = pin!(throttle.enter().timeout(time));
                block_on(self.wait(wait, &mut queued))
            }
            _ => block_on(self.wait(pin!(throttle.enter()), &mut queued)),
        };
        match result {
            Some(Ok(permit)) => {
                let place = self.subject.begin(&permit);
                let admitted = Admitted {
                    group,
                    began,
                    queued,
                    place,
                };
                self.enter(admitted, cost.into(), only_one);
                let scenario = Arc::clone(self);
                let end = move || scenario.end(group, cost.into(), permit);
                match draw(4) {
                    0 => helpers.push(thread::spawn(end)),
                    _ => end(),
                }
            }
            // A wait ends only when the throttle is closed, or when its time is over.
            Some(Err(error)) => assert!(
                match error.kind() {
                    ErrorKind::Closed => self.books().is_closing,
                    ErrorKind::NoPermits | ErrorKind::RateLimited => way == 0,
                    ErrorKind::TimedOut => way == 1,
                    ErrorKind::TooManyKeys => S::GROUPS > 1,
                    _ => false,
                },
                "{error}"
            ),
            None => {}
        }
    }

    /// Polls some times without being woken. Then leaves, whether the call is being admitted or still
    /// waits.
    async fn wait<F: Future>(
        &self,
        mut wait: Pin<&mut F>,
        queued: &mut Option<u64>,
    ) -> Option<F::Output> {
        for _ in 0..draw(4) {
            let polled = poll_fn(|context| Poll::Ready(wait.as_mut().poll(context))).await;
            if let Poll::Ready(output) = polled {
                return Some(output);
            }
            queued.get_or_insert_with(|| self.books().event());
            thread::yield_now();
        }
        match draw(4) {
            0 => None,
            _ => Some(wait.await),
        }
    }

    fn enter(&self, mut admitted: Admitted, cost: u64, only_one: bool) {
        let mut books = self.books();
        let group = admitted.group;
        let in_group = books.held.entry(group).or_default();
        *in_group += cost;
        let in_group = *in_group;
        let began_after = |event: Option<u64>| event.is_some_and(|event| event < admitted.began);
        let is_exact = S::DECIDES_AT_ONCE && began_after(books.changed);
        let limit = if is_exact { books.limit } else { books.largest };
        let is_late = S::DECIDES_AT_ONCE && began_after(books.closed);
        assert!(!is_late, "admitted after it was closed");
        let held = if S::LIMITS_GROUPS {
            in_group
        } else {
            books.held.values().sum()
        };
        assert!(held <= limit || !S::HAS_LIMIT, "{held} of {limit}");
        if only_one {
            admitted.place = Some(books.event());
        }
        let most = self.subject.most_in(group);
        assert!(in_group <= most, "{in_group} of {most} in {group}");
        WAITED.set(WAITED.get() + u64::from(admitted.queued.is_some()));
        books.admitted.push(admitted);
    }

    fn end(&self, group: u32, cost: u64, permit: PermitOf<S>) {
        for _ in 0..draw(3) {
            thread::yield_now();
        }
        *self.books().held.get_mut(&group).unwrap() -= cost;
        self.subject.end(group, permit);
    }
}

fn join(thread: JoinHandle<()>) {
    thread.join().unwrap();
}

/// Runs a scenario under the number of schedules that `SHUTTLE_ITERATIONS` sets. Half of them are drawn step by
/// step, half have few switches at unlikely places, as in Burckhardt et al., *A randomized scheduler with
/// probabilistic guarantees of finding bugs*, 2010. Alternatively, runs it under the schedule of `SHUTTLE_SEED`: a
/// seed or a schedule, in the form that a failure prints.
///
/// The schedules are the same in every run, unless their number is set.
pub(crate) fn explore(scenario: fn()) {
    if let Ok(seed) = env::var("SHUTTLE_SEED") {
        return replay(scenario, seed.trim());
    }
    WAITED.set(0);
    if let Ok(iterations) = env::var("SHUTTLE_ITERATIONS") {
        let iterations: usize = iterations.parse().expect("a number of schedules");
        run(RandomScheduler::new(iterations / 2), scenario);
        run(PctScheduler::new(4, iterations.div_ceil(2)), scenario);
    } else {
        run(RandomScheduler::new_from_seed(7, 2_500), scenario);
        run(PctScheduler::new_from_seed(7, 4, 2_500), scenario);
    }
    assert!(WAITED.get() > 0, "no call was admitted after it had waited");
}

pub(crate) fn replay(scenario: fn(), seed: &str) {
    match seed.parse() {
        Ok(seed) => run(RandomScheduler::new_from_seed(seed, 1), scenario),
        Err(_) => run(ReplayScheduler::new_from_encoded(seed), scenario),
    }
}

pub(crate) fn run(scheduler: impl Scheduler + 'static, scenario: fn()) {
    let mut config = Config::new();
    // The stack has room for the message of a panic.
    config.stack_size = 1 << 18;
    config.silence_warnings = true;
    Runner::new(scheduler, config).run(scenario);
}
