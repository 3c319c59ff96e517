//! The list of holders.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use tollgate::semaphore::OwnedPermit;
use tollgate::time::ManualClock;
use tollgate::wait::Waiting;
use tollgate::{AcquireError, Clock, Semaphore, Throttle, TryThrottle};
use tollgate_observe::{EnterObserved, Holders, Observed, ObservedPermit, Observer, Place};

use super::SECOND;
use crate::support::random::{Random, on_threads};
use crate::support::{Waiter, poll_once};

type Slots = Observed<Arc<Semaphore>, Holders>;

fn slots(permits: usize) -> (Slots, Holders, ManualClock) {
    let clock = Clock::manual();
    let holders = Holders::new("slots").clock(&clock);
    let semaphore = Arc::new(Semaphore::new(permits));
    (Observed::new(semaphore, holders.clone()), holders, clock)
}

#[test]
fn list_is_ordered_by_age_and_older_than_is_exclusive() {
    let (slots, holders, clock) = slots(3);
    assert!(holders.oldest().is_none());
    let oldest = slots.try_acquire().unwrap();
    clock.advance(SECOND);
    let middle = slots.try_acquire().unwrap();
    clock.advance(SECOND);
    let mut newest = Waiter::new(slots.acquire());
    let _newest = newest.granted();
    let held = |holders: Vec<tollgate_observe::Holder>| -> Vec<_> {
        holders.iter().map(|holder| holder.held).collect()
    };
    assert_eq!(held(holders.list()), [2 * SECOND, SECOND, Duration::ZERO]);
    assert_eq!(held(holders.older_than(SECOND)), [2 * SECOND]);
    assert_eq!(holders.oldest().unwrap().since.as_nanos(), 0);
    drop(oldest);
    assert_eq!(held(holders.list()), [SECOND, Duration::ZERO]);
    // A slot is reused, and the order is by time.
    let _again = slots.try_acquire().unwrap();
    drop(middle);
    clock.advance(SECOND);
    assert_eq!(held(holders.list()), [SECOND, SECOND]);
}

#[test]
fn debug_is_a_table() {
    let (slots, holders, clock) = slots(2);
    assert_eq!(format!("{holders:?}"), "0 holders of slots");
    let line = line!() + 1;
    let _one = slots.try_acquire().unwrap();
    clock.advance(90 * SECOND);
    let _two = slots.try_acquire().unwrap();
    let file = file!();
    let expected = format!(
        "2 holders of slots\n     90.000s  {file}:{line}:22\n     0.000ns  {file}:{}:22",
        line + 2
    );
    assert_eq!(format!("{holders:?}"), expected);
}

#[test]
fn labelled_handles_of_a_list_label_their_permits() {
    let clock = Clock::manual();
    let holders = Holders::new("slots").labelled("nobody").clock(&clock);
    let semaphore = Semaphore::new(4);
    let ann = Observed::new(&semaphore, holders.labelled("ann"));
    let bob = Observed::new(&semaphore, holders.labelled(String::from("bob")));
    let other = Observed::new(&semaphore, &holders);
    let labels = || -> Vec<_> {
        let listed = holders.list().into_iter();
        listed.filter_map(|holder| holder.label).collect()
    };
    let permits = [&ann, &bob, &ann].map(|slots| {
        clock.advance(SECOND);
        slots.try_acquire().unwrap()
    });
    clock.advance(SECOND);
    let _last = other.try_acquire().unwrap();
    assert_eq!(labels(), ["ann", "bob", "ann", "nobody"].map(Arc::from));
    let table = format!("{holders:?}");
    assert!(table.lines().nth(2).unwrap().ends_with("  bob"), "{table}");
    drop(permits);
    assert_eq!(labels(), [Arc::from("nobody")]);
}

#[test]
fn permit_that_is_released_on_another_thread_is_removed() {
    let (slots, holders, _clock) = slots(1000);
    let permits: Vec<_> = (0..1000).map(|_| slots.try_acquire().unwrap()).collect();
    assert_eq!(holders.list().len(), 1000);
    thread::spawn(move || drop(permits)).join().unwrap();
    assert!(holders.list().is_empty());
    // Another clock makes another list.
    let other = holders.clone().clock(Clock::manual());
    let _permit = slots.try_acquire().unwrap();
    assert_eq!((holders.list().len(), other.list().len()), (1, 0));
}

#[test]
fn threads_leave_no_holder_behind() {
    let (slots, holders, _clock) = slots(3);
    on_threads(4, |random| {
        for _ in 0..2_000 {
            let permit = match random.below(2) {
                0 => slots.acquire().wait().ok(),
                _ => slots.try_acquire().ok(),
            };
            // Its own permit is in the list.
            assert!(permit.is_none() || holders.oldest().is_some());
        }
    });
    assert!(holders.list().is_empty());
}

#[test]
fn task_is_that_which_acquired() {
    let (slots, holders, _clock) = slots(2);
    let runtime = crate::support::paused_runtime();
    runtime.block_on(async move {
        let outside = slots.try_acquire().unwrap();
        assert_eq!(holders.oldest().unwrap().task(), None);
        drop(outside);
        let task = tokio::spawn(async move { slots.acquire().await.unwrap() });
        let id = task.id();
        let permit = task.await.unwrap();
        assert_eq!(holders.oldest().unwrap().task(), Some(id));
        assert!(format!("{holders:?}").ends_with(&format!("  task {id}")));
        drop(permit);
    });
}

// A million random operations: every entry is reported once, and every permit.

const OPERATIONS: u64 = 1_000_000;

/// The number of each report, and the total duration of all waits.
#[derive(Default)]
struct Counts {
    admitted: Cell<u64>,
    refused: Cell<u64>,
    abandoned: Cell<u64>,
    released: Cell<u64>,
    undone: Cell<u64>,
    waited: Cell<Duration>,
}

fn count(counter: &Cell<u64>) {
    counter.set(counter.get() + 1);
}

impl Counts {
    fn wait(&self, waited: Option<Duration>) {
        let waited = waited.unwrap_or_default();
        self.waited.set(self.waited.get() + waited);
    }
}

impl Observer for Counts {
    type Held = ();

    fn admitted(&self, _: Place, waited: Option<Duration>) {
        count(&self.admitted);
        self.wait(waited);
    }

    fn refused(&self, _: Place, _: &AcquireError, waited: Option<Duration>) {
        count(&self.refused);
        self.wait(waited);
    }

    fn abandoned(&self, _: Place, waited: Duration) {
        count(&self.abandoned);
        self.wait(Some(waited));
    }

    fn released(&self, (): ()) {
        count(&self.released);
    }

    fn undone(&self, (): ()) {
        count(&self.undone);
    }
}

type Reports<'a> = (&'a Counts, &'a Holders);
type Permit<'a> = ObservedPermit<OwnedPermit, Reports<'a>>;
type Wait<'a> = Waiting<EnterObserved<<Arc<Semaphore> as Throttle>::Enter, Reports<'a>>>;

/// The state that the test itself tracks.
struct World<'a> {
    observed: Observed<Arc<Semaphore>, Reports<'a>>,
    permits: Vec<Permit<'a>>,
    /// The polled waits, and when each began.
    waits: Vec<(Wait<'a>, Duration)>,
    entries: u64,
    waited: Duration,
}

impl<'a> World<'a> {
    fn poll(&mut self, mut wait: Wait<'a>, since: Duration, now: Duration) {
        match poll_once(&mut wait) {
            Poll::Pending => self.waits.push((wait, since)),
            Poll::Ready(entered) => {
                self.waited += now - since;
                self.permits.extend(entered);
            }
        }
    }

    fn step(&mut self, random: &mut Random, now: Duration) {
        let any = |random: &mut Random, of: usize| random.below(of.max(1) as u32) as usize;
        let (permit, wait) = (
            any(random, self.permits.len()),
            any(random, self.waits.len()),
        );
        let has = (!self.permits.is_empty(), !self.waits.is_empty());
        match (random.below(1_000), has) {
            (0..200, _) => {
                self.entries += 1;
                self.permits.extend(self.observed.try_enter());
            }
            (200..450, _) => {
                self.entries += 1;
                let wait = self.observed.enter();
                self.poll(wait, now, now);
            }
            // Never polled, so it is no entry.
            (450..460, _) => drop(self.observed.enter()),
            (460..600, (_, true)) => {
                let (wait, since) = self.waits.swap_remove(wait);
                self.poll(wait, since, now);
            }
            (600..680, (_, true)) => {
                let (wait, since) = self.waits.swap_remove(wait);
                self.waited += now - since;
                drop(wait);
            }
            (680..900, (true, _)) => drop(self.permits.swap_remove(permit)),
            (900..960, (true, _)) => {
                let permit = self.permits.swap_remove(permit);
                self.observed.rollback(permit);
            }
            (960..970, (true, _)) => {
                let permit = self.permits.swap_remove(permit);
                let holder = AssertUnwindSafe(|| {
                    let _permit = permit;
                    // A panic without the hook, which would print it.
                    resume_unwind(Box::new("a holder that panics on purpose"))
                });
                assert!(catch_unwind::<_, ()>(holder).is_err());
            }
            (970..980, _) => self
                .observed
                .throttle()
                .set_permits(random.below(6) as usize),
            _ => {}
        }
    }
}

#[test]
fn random_operations_are_all_reported_once() {
    let (clock, counts) = (Clock::manual(), Counts::default());
    let holders = Holders::new("slots").clock(&clock);
    let semaphore = Arc::new(Semaphore::new(3).max_waiters(4));
    let mut world = World {
        observed: Observed::new(semaphore, (&counts, &holders)).clock(&clock),
        permits: Vec::new(),
        waits: Vec::new(),
        entries: 0,
        waited: Duration::ZERO,
    };
    let check = |world: &World<'_>| {
        let [admitted, refused, abandoned] =
            [&counts.admitted, &counts.refused, &counts.abandoned].map(Cell::get);
        let (released, undone) = (counts.released.get(), counts.undone.get());
        let (held, waiting) = (world.permits.len(), world.waits.len() as u64);
        assert_eq!(admitted, released + undone + held as u64);
        assert_eq!(world.entries, admitted + refused + abandoned + waiting);
        assert_eq!(world.waited, counts.waited.get());
        assert_eq!(holders.list().len(), held);
    };
    let random = &mut Random::new(1);
    for operation in 0..OPERATIONS {
        world.step(random, Duration::from_nanos(clock.now().as_nanos()));
        clock.advance(Duration::from_nanos(random.below(3).into()));
        if operation % 100 == 0 {
            check(&world);
        }
    }
    world.observed.throttle().close();
    world.waits.clear();
    world.permits.clear();
    let ended = [&counts.admitted, &counts.refused, &counts.abandoned].map(Cell::get);
    assert_eq!(ended.iter().sum::<u64>(), world.entries);
    // Every kind of end is frequent.
    assert!(ended.iter().all(|count| *count > 10_000), "{ended:?}");
    let back = [&counts.released, &counts.undone].map(Cell::get);
    assert_eq!(back.iter().sum::<u64>(), ended[0]);
    assert!(back.iter().all(|count| *count > 10_000), "{back:?}");
    assert!(holders.list().is_empty());
}
