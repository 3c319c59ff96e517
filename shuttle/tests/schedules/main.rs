//! Runs throttles with six to thirty threads under random schedules, whereas loom's models have two or
//! three threads under all schedules. See [`driver`] for the actions of the threads and the checks: never more
//! permits are held than the limit, callers are admitted in the order of their queue, and in the end everything is
//! free and nothing waits.

#![cfg(tollgate_shuttle)]

mod broken;
mod driver;

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use shuttle::thread;
use tollgate::fair::{Class, ClassHandle, FairQueue, Share};
use tollgate::keyed::{Key, WhenFull};
use tollgate::rate::Charge;
use tollgate::throttle::Cost;
use tollgate::time::ManualClock;
use tollgate::{Algorithm, Clock, Keyed, Pool, Quota, RateLimiter, Semaphore, Snapshot};
use tollgate_adaptive::{AdaptiveSemaphore, Controller, SampleWindow, Shared, Target};

use crate::driver::{PermitOf, Scenario, Subject, draw, explore};

/// A hasher that is the same in every run, unlike the default one.
type Hashing = BuildHasherDefault<DefaultHasher>;

/// The number of keys, which exceeds the capacity of a map.
const KEYS: u32 = 6;
const MAX_KEYS: usize = 4;

fn assert_free(snapshot: Snapshot, limit: u64) {
    assert_eq!((snapshot.in_use, snapshot.waiting), (0, 0));
    assert_eq!((snapshot.limit, snapshot.available), (limit, limit));
}

#[test]
fn semaphore() {
    explore(Scenario::<Arc<Semaphore>>::run);
}

impl Subject for Arc<Semaphore> {
    type Throttle = Cost<Self>;

    fn new() -> Self {
        Self::new(Semaphore::new(0))
    }

    fn set(&self, limit: usize) {
        self.set_permits(limit);
    }

    fn throttle(&self, _: u32, cost: u32) -> Self::Throttle {
        Self::clone(self).cost_owned(cost.into())
    }

    fn end(&self, _: u32, mut permit: PermitOf<Self>) {
        drop(permit.split(1));
    }

    fn close(&self) {
        Semaphore::close(self);
    }

    fn assert_at_rest(&self, limit: u64) {
        assert_free(self.snapshot(), limit);
    }
}

#[test]
fn pool_of_items() {
    explore(Scenario::<Items>::run);
}

struct Items {
    pool: Arc<Pool<Item>>,
    alive: Arc<()>,
}

/// Whether a thread touches the item, and the number of items.
type Item = (AtomicBool, Arc<()>);

impl Subject for Items {
    type Throttle = Arc<Pool<Item>>;

    const MOST_COST: u32 = 1;

    fn new() -> Self {
        let alive = Arc::new(());
        let counted = Arc::clone(&alive);
        let make = move || (AtomicBool::new(false), Arc::clone(&counted));
        let pool = Arc::new(Pool::with_factory(1, make));
        Self { pool, alive }
    }

    fn set(&self, limit: usize) {
        self.pool.set_size(limit);
    }

    fn throttle(&self, _: u32, _: u32) -> Self::Throttle {
        Arc::clone(&self.pool)
    }

    fn begin(&self, item: &PermitOf<Self>) -> Option<u64> {
        assert!(!item.0.swap(true, Ordering::Relaxed), "held twice");
        None
    }

    fn end(&self, _: u32, item: PermitOf<Self>) {
        item.0.store(false, Ordering::Relaxed);
        match draw(3) {
            0 => item.discard(),
            _ => drop(item),
        }
    }

    fn close(&self) {
        self.pool.close();
    }

    fn assert_at_rest(&self, limit: u64) {
        assert_free(self.pool.snapshot(), limit);
        // One reference is held by the scenario, and one by the closure that makes items.
        let items = Arc::strong_count(&self.alive) as u64 - 2;
        assert!(items <= if self.pool.is_closed() { 0 } else { limit });
    }
}

#[test]
fn keyed_semaphores() {
    explore(Scenario::<Slots>::run);
}

type Slots = Arc<Keyed<u32, Semaphore, Hashing>>;

impl Subject for Slots {
    type Throttle = Cost<Key<'static, Semaphore, u32, Hashing>>;

    const GROUPS: u32 = KEYS;
    const LIMITS_GROUPS: bool = true;

    fn new() -> Self {
        let slots = Keyed::<u32, _>::semaphores(1).max_keys(MAX_KEYS);
        let slots = slots.hasher(Hashing::default());
        // The map creates its table at the first use, by an `OnceLock` of std.
        assert_eq!(slots.key(&0).snapshot().available, 1);
        Self::new(slots)
    }

    fn set(&self, limit: usize) {
        self.set_permits(limit);
    }

    fn throttle(&self, key: u32, cost: u32) -> Self::Throttle {
        Self::clone(self).key_owned(key).cost(cost.into())
    }

    fn change(&self) {
        match draw(2) {
            0 => self.shrink(),
            _ => self.retain(|key| key % 2 == 0),
        }
    }

    fn close(&self) {
        Keyed::close(self);
    }

    fn assert_at_rest(&self, limit: u64) {
        (0..KEYS).for_each(|key| assert_free(self.key(&key).snapshot(), limit));
        assert!(self.keys().next().is_none() && self.len() <= MAX_KEYS);
    }
}

#[test]
fn fair_queue() {
    explore(Scenario::<Classes>::run);
}

/// Three classes, the first of which admits one call at a time.
type Classes = FairQueue<Arc<Semaphore>, u32>;

impl Subject for Classes {
    type Throttle = Cost<ClassHandle<Arc<Semaphore>, u32>>;

    const GROUPS: u32 = 3;
    const DECIDES_AT_ONCE: bool = false;

    fn new() -> Self {
        let share = [Share::ByConcurrency, Share::ByCost][draw(2) as usize];
        let queue = Self::new(Arc::new(Semaphore::new(0)));
        let queue = queue.clock(Clock::manual()).share(share);
        queue.classes(|class| match class {
            0 => Class::new().max_concurrency(1),
            1 => Class::new().weight(3),
            _ => Class::new().priority(1),
        })
    }

    fn set(&self, limit: usize) {
        FairQueue::throttle(self).set_permits(limit);
    }

    fn throttle(&self, class: u32, cost: u32) -> Self::Throttle {
        self.class(class).cost(cost.into())
    }

    fn most_in(&self, class: u32) -> u64 {
        if class == 0 { 1 } else { u64::MAX }
    }

    fn close(&self) {
        FairQueue::throttle(self).close();
    }

    fn assert_at_rest(&self, limit: u64) {
        assert_free(FairQueue::throttle(self).snapshot(), limit);
        assert!(self.waiting() == 0 && self.snapshot().is_empty());
    }
}

#[test]
fn adaptive_semaphore() {
    explore(Scenario::<Adapted>::run);
}

struct Adapted(Shared<AdaptiveSemaphore>, ManualClock);

/// Alternates between two limits, in windows of two samples.
struct Alternating;

const LIMITS: [f64; 2] = [2.0, 4.0];

impl Controller for Alternating {
    fn initial(&self) -> Target {
        let (limit, samples) = (LIMITS[0], 2);
        Target { limit, samples }
    }

    fn update(&mut self, window: &SampleWindow) -> Target {
        let samples = window.samples();
        assert_eq!(samples, 2);
        let limit = LIMITS[usize::from(window.limit() == LIMITS[0])];
        Target { limit, samples }
    }
}

impl Subject for Adapted {
    type Throttle = Shared<AdaptiveSemaphore>;

    const MOST_COST: u32 = 1;
    const HAS_LIMIT: bool = false;

    fn new() -> Self {
        let clock = Clock::manual();
        let semaphore = AdaptiveSemaphore::new(Alternating).clock(&clock);
        Self(Shared::from(semaphore), clock)
    }

    fn throttle(&self, _: u32, _: u32) -> Self::Throttle {
        self.0.clone()
    }

    fn most_in(&self, _: u32) -> u64 {
        LIMITS[1] as u64
    }

    fn end(&self, _: u32, permit: PermitOf<Self>) {
        match draw(3) {
            0 => permit.overloaded(),
            1 => permit.ignore(),
            _ => drop(permit),
        }
    }

    fn change(&self) {
        self.1.advance(Duration::from_millis(draw(100).into()));
    }

    fn close(&self) {
        self.0.close();
    }

    fn assert_at_rest(&self, _: u64) {
        let snapshot = self.0.snapshot();
        let limit = LIMITS[snapshot.windows as usize % 2];
        assert_eq!(
            (snapshot.window.limit(), snapshot.rejected_targets),
            (limit, 0)
        );
        assert_free(snapshot.permits, limit as u64);
    }
}

#[test]
fn rate_limiter() {
    explore(Scenario::<Rate<Arc<RateLimiter>>>::run);
}

#[test]
fn keyed_limiters() {
    explore(Scenario::<Rate<Users>>::run);
}

const PERIOD: Duration = Duration::from_secs(1);

/// An algorithm, a burst, and the maximum admitted in any period, for quotas of four and of six. Keys
/// have the first five.
const RULES: [(Algorithm, u64, [u64; 2]); 7] = [
    (Algorithm::Gcra, 2, [6, 8]),
    (Algorithm::Gcra, 4, [8, 10]),
    (Algorithm::TokenBucket, 1, [8, 12]),
    (Algorithm::FixedWindow, 1, [8, 12]),
    (Algorithm::SubInterval { parts: 1 }, 1, [4, 6]),
    (Algorithm::SlidingWindow, 1, [7, 11]),
    (Algorithm::SlidingLog, 1, [4, 6]),
];

/// A limiter, or one for each key, on a manual clock: no period admits more than the algorithm promises,
/// unless backlogs are dropped with their keys.
struct Rate<T> {
    limiter: T,
    clock: ManualClock,
    rule: (Algorithm, u64, [u64; 2]),
    drops_backlogs: bool,
    /// The charges that were not given back: the group, the nanosecond and the cost.
    charged: Mutex<Vec<(u32, u64, u64)>>,
}

impl<T> Rate<T> {
    fn new(rules: usize, limiter: impl FnOnce(RateLimiter, Quota) -> T) -> Self {
        let clock = Clock::manual();
        clock.advance(100 * PERIOD);
        let rule = RULES[draw(rules as u32) as usize];
        let quota = Quota::new(4, PERIOD).burst(rule.1);
        let each = RateLimiter::new(quota).algorithm(rule.0).clock(&clock);
        let (limiter, charged) = (limiter(each, quota), Mutex::default());
        Self {
            limiter,
            clock,
            rule,
            drops_backlogs: false,
            charged,
        }
    }

    fn six(&self) -> Quota {
        Quota::new(6, PERIOD).burst(self.rule.1)
    }

    fn add(&self, group: u32, charge: &Charge, cost: u64) {
        let at = charge.at().as_nanos();
        self.charged.lock().unwrap().push((group, at, cost));
    }

    fn pass_some_time(&self) {
        self.clock.advance(Duration::from_millis(50) * draw(8));
    }

    /// Checks every period, and waits until everything is paid off.
    fn assert_at_most(&self, count: u64) {
        let most = self.rule.2[usize::from(count == 6)];
        let charged = self.charged.lock().unwrap();
        for &(group, begin, _) in &*charged {
            let period = begin..begin + PERIOD.as_nanos() as u64;
            let within = charged
                .iter()
                .filter(|it| it.0 == group && period.contains(&it.1));
            let sum: u64 = within.map(|(.., cost)| cost).sum();
            let is_kept = sum <= most || self.drops_backlogs;
            assert!(is_kept, "{sum} of {most} from {begin}: {charged:?}");
        }
        self.clock.advance(4 * PERIOD);
    }
}

impl Subject for Rate<Arc<RateLimiter>> {
    type Throttle = Cost<Arc<RateLimiter>>;

    const HAS_LIMIT: bool = false;
    const HAS_CLOCK: bool = true;

    fn new() -> Self {
        Self::new(RULES.len(), |limiter, _| {
            // The limiter creates its state at the first use, by an `OnceLock` of std.
            assert_eq!(limiter.snapshot().waiting, 0);
            Arc::new(limiter)
        })
    }

    fn throttle(&self, _: u32, cost: u32) -> Self::Throttle {
        Arc::clone(&self.limiter).cost_owned(cost.into())
    }

    fn begin(&self, charge: &Charge) -> Option<u64> {
        Some(charge.at().as_nanos())
    }

    fn end(&self, group: u32, charge: Charge) {
        match draw(4) {
            0 => self.limiter.refund(charge),
            1 => {
                let hold = self.limiter.hold(charge);
                thread::yield_now();
                let used = draw(2).into();
                self.add(group, hold.charge(), used);
                hold.settle(used);
            }
            _ => self.add(group, &charge, charge.cost()),
        }
    }

    fn change(&self) {
        match draw(8) {
            0 => self.limiter.set_quota(self.six()),
            1 => self.limiter.pause_for(PERIOD / 8),
            2 => drop(self.limiter.reserve()),
            _ => self.pass_some_time(),
        }
    }

    fn pass_time(&self) {
        self.clock.advance(PERIOD / 4);
    }

    fn close(&self) {
        self.limiter.close();
    }

    fn assert_at_rest(&self, _: u64) {
        self.assert_at_most(self.limiter.quota().count());
        let snapshot = self.limiter.snapshot();
        assert_free(snapshot, snapshot.limit);
    }
}

type Users = Arc<Keyed<u32, RateLimiter, Hashing>>;

impl Subject for Rate<Users> {
    type Throttle = Cost<Key<'static, RateLimiter, u32, Hashing>>;

    const GROUPS: u32 = KEYS;
    const HAS_LIMIT: bool = false;
    const HAS_CLOCK: bool = true;

    fn new() -> Self {
        let drops_backlogs = draw(2) == 0;
        let made = Self::new(RULES.len() - 2, |each, quota| {
            let users = Keyed::<u32, _>::new(each).max_keys(MAX_KEYS);
            let users = users.hasher(Hashing::default());
            let users = users.when_full(if drops_backlogs {
                WhenFull::Evict
            } else {
                WhenFull::Reject
            });
            let users = match draw(2) {
                0 => users.quotas(move |_| quota),
                _ => users,
            };
            assert_eq!(users.key(&0).snapshot().waiting, 0);
            Arc::new(users)
        });
        Self {
            drops_backlogs,
            ..made
        }
    }

    fn throttle(&self, key: u32, cost: u32) -> Self::Throttle {
        Arc::clone(&self.limiter).key_owned(key).cost(cost.into())
    }

    fn begin(&self, charge: &Charge) -> Option<u64> {
        Some(charge.at().as_nanos())
    }

    fn end(&self, key: u32, charge: Charge) {
        match draw(4) {
            // It might be that of an earlier backlog, which must not be refunded.
            0 if !self.drops_backlogs => self.limiter.key(&key).refund(charge),
            _ => self.add(key, &charge, charge.cost()),
        }
    }

    fn change(&self) {
        match draw(10) {
            0 => self.limiter.set_quota(self.six()),
            1 => self.limiter.shrink(),
            2 => self.limiter.requota_all(),
            3 => drop(self.limiter.key(&draw(KEYS)).reserve()),
            4 if self.drops_backlogs => self.limiter.retain(|key| key % 2 == 0),
            _ => self.pass_some_time(),
        }
    }

    fn pass_time(&self) {
        self.clock.advance(PERIOD / 4);
    }

    fn close(&self) {
        self.limiter.close();
    }

    fn assert_at_rest(&self, _: u64) {
        self.assert_at_most(self.limiter.quota().count());
        assert!(self.limiter.len() <= MAX_KEYS);
        for key in 0..KEYS {
            let snapshot = self.limiter.key(&key).snapshot();
            assert_free(snapshot, snapshot.limit);
        }
        self.limiter.shrink();
        // The limiter of a closed key is kept.
        assert!(self.limiter.is_empty() || self.limiter.is_closed());
    }
}
