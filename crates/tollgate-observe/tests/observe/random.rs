//! A million random operations: every entry is reported once, and every permit.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tollgate::{AcquireError, Clock, OwnedPermit, Semaphore, Throttle, TryThrottle, Waiting};
use tollgate_observe::{EnterObserved, Holders, Observed, ObservedPermit, Observer, Place};

use crate::support::poll_once;
use crate::support::random::Random;

const OPERATIONS: u64 = 1_000_000;

/// How often each report came, and how long all waits were together.
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

/// What the test itself knows.
struct World<'a> {
    observed: Observed<Arc<Semaphore>, Reports<'a>>,
    permits: Vec<Permit<'a>>,
    /// Waits that were polled, and since when they wait.
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
