//! While there is room, a map equals one limiter per key, with each algorithm that keeps a word: the same
//! calls go to a map and to a separate limiter for each key.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use tollgate::keyed::{Key, WhenFull};
use tollgate::rate::{Charge, Oversize, Reservation};
use tollgate::time::ManualClock;
use tollgate::wait::Waiting;
use tollgate::{AcquireError, Algorithm, Clock, ErrorKind, Keyed, Quota, RateLimiter, Throttle};

use crate::support::Waiter;
use crate::support::cases::cases;
use crate::support::foreign::panic_message;
use crate::support::scenarios::{Names, Words, at_random, call};

pub(crate) type Users = Keyed<u32, RateLimiter>;

/// Calls, with their keys and costs; any number names a charge or a waiter. `advance` is in steps
/// of 2 ms.
const STEPS: &str = "8 try 0..60 0..5, 4 acquire 0..60 0..5, 1 reserve 0..60 1..4, 2 poll #, 2 drop #, 1 advance 0..1000,
    1 pass 333333333ns, 1 pass 100s, 1 charge 0..60 0..9, 3 refund #, 2 settle # 0..8, 1 set 0..4, 1 shrink";

enum Asker {
    Future(
        Waiter<Waiting<<Key<'static, RateLimiter, u32> as Throttle>::Enter>>,
        Waiter<Waiting<<Arc<RateLimiter> as Throttle>::Enter>>,
    ),
    Reserved(Box<(Waiting<Reservation>, Waiting<Reservation>)>),
}

/// The map refuses only calls that exceed the limit of their key.
struct World {
    clock: ManualClock,
    users: Arc<Users>,
    /// There are as many keys as the map may keep.
    keys: u32,
    max_keys: usize,
    /// The source of individual quotas, if keys have them: the quota at the key's index plus this
    /// offset.
    moved: Option<Arc<AtomicUsize>>,
    quotas: [Quota; 4],
    quota: Quota,
    algorithm: Algorithm,
    oversize: Oversize,
    single: HashMap<u32, Arc<RateLimiter>>,
    askers: Vec<Asker>,
    charges: Vec<(u32, Charge, Charge)>,
}

impl World {
    /// Draws an algorithm that fits all of these quotas; each key has its own quota, or all have
    /// the first.
    fn new(
        algorithm: Algorithm,
        quotas: [Quota; 4],
        (keys, max_keys): (u32, usize),
        own: bool,
        oversize: Oversize,
    ) -> Self {
        let clock = Clock::manual();
        clock.advance(Duration::from_nanos(123_456_789));
        let moved = own.then(|| Arc::new(AtomicUsize::new(0)));
        let quota = quotas[0];
        let mut users = Users::new(
            RateLimiter::new(quota)
                .algorithm(algorithm)
                .oversize(oversize)
                .clock(&clock),
        )
        .max_keys(max_keys)
        .when_full(WhenFull::Reject);
        if let Some(moved) = &moved {
            let moved = Arc::clone(moved);
            users = users.quotas(move |key| {
                quotas[(*key as usize + moved.load(Ordering::Relaxed)) % quotas.len()]
            });
        }
        Self {
            clock,
            users: Arc::new(users),
            keys,
            max_keys,
            moved,
            quotas,
            quota,
            algorithm,
            oversize,
            single: HashMap::new(),
            askers: Vec::new(),
            charges: Vec::new(),
        }
    }

    fn quota_of(&self, key: u32) -> Quota {
        match &self.moved {
            Some(moved) => self.quotas[(key as usize + moved.load(Ordering::Relaxed)) % 4],
            None => self.quota,
        }
    }

    /// Returns the limiter of a key, under the key's present quota.
    fn single(&mut self, key: u32) -> Arc<RateLimiter> {
        let quota = self.quota_of(key);
        let limiter = self.single.entry(key).or_insert_with(|| {
            let limiter = RateLimiter::new(quota)
                .algorithm(self.algorithm)
                .oversize(self.oversize);
            Arc::new(limiter.clock(&self.clock))
        });
        if limiter.quota() != quota {
            limiter.set_quota(quota);
        }
        Arc::clone(limiter)
    }

    fn key(&self, key: u32) -> Key<'static, RateLimiter, u32> {
        Arc::clone(&self.users).key_owned(key)
    }

    /// Asserts that both give the same answer, unless there is no room.
    fn keep(
        &mut self,
        key: u32,
        ours: Result<Charge, AcquireError>,
        model: impl FnOnce(&RateLimiter) -> Result<Charge, AcquireError>,
    ) {
        if is_without_room(&ours) {
            assert_eq!(self.users.len(), self.max_keys);
            return;
        }
        match (ours, model(&self.single(key))) {
            (Ok(ours), Ok(model)) => {
                assert_eq!((ours.cost(), ours.at()), (model.cost(), model.at()));
                assert_eq!(
                    self.users.key(&key).decision(&ours),
                    self.single(key).decision(&model)
                );
                self.charges.push((key, ours, model));
            }
            (ours, model) => assert_eq!(ours.map(drop), model.map(drop)),
        }
    }

    fn go(&mut self, call: &str, words: &mut Words<'_>) -> Result<(), TestCaseError> {
        match call {
            "try" => {
                let (key, cost) = self.key_and_cost(words);
                let tried = self.users.key(&key).try_acquire_many(cost);
                self.keep(key, tried, |model| model.try_acquire_many(cost));
            }
            "acquire" => {
                let (key, cost) = self.key_and_cost(words);
                let mut ours = Waiter::new(self.key(key).acquire_many(cost));
                match ours.poll() {
                    Poll::Ready(output) => {
                        self.keep(key, output, |model| model.acquire_many(cost).wait());
                    }
                    Poll::Pending => {
                        let model = self.single(key).cost_owned(cost).acquire();
                        self.askers.push(Asker::Future(ours, Waiter::parked(model)));
                    }
                }
            }
            "reserve" => {
                let (key, cost) = self.key_and_cost(words);
                let ours = self.key(key).reserve_many(cost);
                if is_without_room(&ours) {
                    return Ok(());
                }
                match (ours, self.single(key).reserve_many(cost)) {
                    (Ok(ours), Ok(model)) => {
                        assert_eq!(ours.delay(), model.delay());
                        self.askers.push(Asker::Reserved(Box::new((ours, model))));
                    }
                    (ours, model) => assert_eq!(ours.map(drop), model.map(drop)),
                }
            }
            "poll" => self.poll(Names::AtRandom.choose(words, &self.askers)?),
            "drop" => drop(
                self.askers
                    .remove(Names::AtRandom.choose(words, &self.askers)?),
            ),
            "advance" => self.clock.advance(Duration::from_millis(2) * words.parse()),
            "pass" => self.clock.advance(words.time()),
            "charge" => {
                let (key, cost) = self.key_and_cost(words);
                let charged = self.users.key(&key).charge(cost);
                self.keep(key, charged, |model| Ok(model.charge(cost)));
            }
            "refund" => {
                let which = Names::AtRandom.choose(words, &self.charges)?;
                let (key, ours, model) = self.charges.remove(which);
                self.users.key(&key).refund(ours);
                self.single(key).refund(model);
            }
            "settle" => {
                let which = Names::AtRandom.choose(words, &self.charges)?;
                let (key, ours, model) = self.charges.remove(which);
                let actual = words.parse();
                match self.users.key(&key).settle(ours, actual) {
                    Ok(()) => self.single(key).settle(model, actual),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::TooManyKeys),
                }
            }
            "set" => {
                self.set_quota(words.parse());
                // A limiter that owed something just before does not give out the unit that has begun. A
                // key that the map has forgotten since does.
                self.clock.advance(Duration::from_nanos(1));
            }
            "shrink" => self.users.shrink(),
            "close" => {
                self.users.close();
                self.single.values().for_each(|limiter| limiter.close());
            }
            _ => panic!("no call: {call:?}"),
        }
        Ok(())
    }

    fn key_and_cost(&self, words: &mut Words<'_>) -> (u32, u64) {
        (words.parse::<u32>() % self.keys, words.parse())
    }

    fn poll(&mut self, at: usize) {
        let over = match &mut self.askers[at] {
            Asker::Reserved(both) => {
                assert_eq!(both.0.delay(), both.1.delay());
                return;
            }
            Asker::Future(ours, model) => {
                assert_eq!(ours.wakes(), model.wakes());
                (ours.poll(), model.poll())
            }
        };
        match over {
            (Poll::Pending, Poll::Pending) => return,
            (Poll::Ready(Ok(ours)), Poll::Ready(Ok(model))) => {
                assert_eq!((ours.cost(), ours.at()), (model.cost(), model.at()));
            }
            (Poll::Ready(ours), Poll::Ready(model)) => {
                assert_eq!(ours.map(drop), model.map(drop));
            }
            other => panic!("{other:?}"),
        }
        self.askers.remove(at);
    }

    fn set_quota(&mut self, to: usize) {
        match &self.moved {
            Some(moved) => {
                moved.fetch_add(to, Ordering::Relaxed);
                self.users.requota_all();
                let keys: Vec<u32> = self.single.keys().copied().collect();
                for key in keys {
                    self.single(key);
                }
            }
            None => {
                self.quota = self.quotas[to];
                self.users.set_quota(self.quota);
                for limiter in self.single.values() {
                    limiter.set_quota(self.quota);
                }
            }
        }
    }

    fn compare(&mut self) {
        let keys: Vec<u32> = self.single.keys().copied().collect();
        assert!(self.users.len() <= self.max_keys);
        for key in keys {
            let (ours, single) = (self.key(key), self.single(key));
            for cost in [0, 1, 3, 20] {
                assert_eq!(
                    ours.peek_many(cost),
                    single.peek_many(cost),
                    "{cost} of {key}"
                );
            }
            let (snapshot, of_single) = (ours.snapshot(), single.snapshot());
            assert_eq!(snapshot.available, of_single.available);
            assert_eq!(snapshot.waiting, of_single.waiting);
            assert_eq!(ours.quota(), single.quota());
        }
    }
}

fn is_without_room<T>(result: &Result<T, AcquireError>) -> bool {
    let error = result.as_ref().err();
    error.is_some_and(|error| error.kind() == ErrorKind::TooManyKeys)
}

const SECOND: Duration = Duration::from_secs(1);

/// Returns the algorithms that keep a word, and quotas that fit them. All except the default have a period
/// of a second: windows of a single limiter restart when their length changes, and those of keys do
/// not.
fn rules() -> impl Strategy<Value = (Algorithm, [Quota; 4])> {
    let any = [
        Quota::per_second(1).burst(3),
        Quota::per_second(3),
        Quota::per_second(7).burst(10),
        Quota::per_minute(90).burst(5),
    ];
    // Counts whose parts of a period fit too.
    let windows = [
        Quota::per_second(6),
        Quota::per_second(5).burst(5),
        Quota::per_second(17),
        Quota::per_second(90),
    ];
    let bursts = any.map(|quota| Quota::per_second(quota.count()).burst(quota.max_burst()));
    let other = prop::sample::select(other_words());
    prop_oneof![
        5 => Just((Algorithm::Gcra, any)),
        1 => Just((Algorithm::TokenBucket, bursts)),
        1 => Just((Algorithm::SubInterval { parts: 1 }, windows)),
        4 => other.prop_map(move |algorithm| (algorithm, windows)),
    ]
}

/// The algorithms that keep a word, except the default.
fn other_words() -> Vec<Algorithm> {
    let all = Algorithm::all().iter().copied();
    let words = all.filter(|it| it.keeps_a_word() && *it != Algorithm::Gcra);
    words.collect()
}

fn oversize() -> impl Strategy<Value = Oversize> {
    prop_oneof![2 => Just(Oversize::Refuse), 1 => Just(Oversize::Overdraft)]
}

fn run(mut world: World, calls: Vec<String>) -> Result<(), TestCaseError> {
    for text in calls.iter().map(String::as_str).chain(["close"]) {
        let mut done = false;
        call(text, |name, words| {
            world.go(name, words).inspect(|()| done = true)
        })?;
        // A call that was skipped has changed nothing.
        if done {
            world.compare();
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(700))]

    #[test]
    fn under_the_cap_every_key_is_a_limiter(
        (rule, quotas) in rules(),
        own in any::<bool>(),
        oversize in oversize(),
        max_keys in prop_oneof![Just(5_usize), Just(100)],
        calls in at_random(STEPS, 80),
    ) {
        run(World::new(rule, quotas, (5, max_keys), own, oversize), calls)?;
    }

    #[test]
    fn at_the_cap_a_key_that_is_not_refused_is_a_limiter(
        (rule, quotas) in rules(),
        own in any::<bool>(),
        oversize in oversize(),
        calls in at_random(STEPS, 120),
    ) {
        run(World::new(rule, quotas, (12, 4), own, oversize), calls)?;
    }

    /// Forty keys, and room for eight.
    #[test]
    fn evicted_keys_are_never_admitted_later(
        (rule, quotas) in rules(),
        own in any::<bool>(),
        calls in vec((0..40_u32, 1..4_u64, 0..400_000_000_u64), 1..200),
    ) {
        let clock = Clock::manual();
        clock.advance(Duration::from_nanos(123_456_789));
        let of = move |key: u32| quotas[if own { key as usize % 4 } else { 0 }];
        let mut users = Users::new(RateLimiter::new(quotas[0]).algorithm(rule).clock(&clock))
            .max_keys(8)
            .when_full(WhenFull::Evict);
        if own {
            users = users.quotas(move |key| of(*key));
        }
        let single = |key| (key, RateLimiter::new(of(key)).algorithm(rule).clock(&clock));
        let single: HashMap<_, _> = (0..40).map(single).collect();
        for (key, cost, pause) in calls {
            clock.advance(Duration::from_nanos(pause));
            let due = single[&key].peek_many(cost).retry_after;
            match users.key(&key).try_acquire_many(cost) {
                Ok(_) => drop(single[&key].charge(cost)),
                Err(error) if error.kind() == ErrorKind::ExceedsCapacity => {}
                Err(error) => {
                    prop_assert_eq!(error.kind(), ErrorKind::RateLimited);
                    prop_assert!(error.retry_after() <= due);
                    prop_assert_ne!(due, Some(Duration::ZERO));
                }
            }
            prop_assert!(users.key(&key).snapshot().available >= single[&key].snapshot().available);
        }
        prop_assert!(users.len() <= 8);
    }
}

/// Counting the steps of a day nanosecond by nanosecond would take years.
#[test]
fn set_quota_for_all_keys_is_done_at_once_by_every_rule() {
    for rule in other_words() {
        let users = Users::new(
            RateLimiter::new(Quota::per_day(20))
                .algorithm(rule)
                .clock(Clock::manual()),
        );
        let most = users.key(&1).snapshot().available;
        users.key(&1).try_acquire_many(most).unwrap();
        users.set_quota(Quota::per_day(40));
        let left = (
            users.key(&1).snapshot().available,
            users.key(&2).snapshot().available,
        );
        assert_eq!(left, (most, 2 * most));
    }
}

#[test]
fn quota_of_a_key_that_does_not_fit_leaves_the_map_as_it_was() {
    let clock = Clock::manual();
    let users = Users::new(
        RateLimiter::new(Quota::per_second(4))
            .algorithm(Algorithm::FixedWindow)
            .clock(&clock),
    )
    .max_keys(4)
    .quotas(|key| match key {
        0 => Quota::per_second(4).burst(2),
        _ => Quota::per_second(4),
    });
    let expected = "a window or a log allows its whole count at once";
    users.key(&1).try_acquire_many(3).unwrap();
    users.key(&2).try_acquire_many(4).unwrap();
    let mut waiter = Waiter::parked(users.key(&2).acquire());
    let wrong = users.key(&0);
    for message in [
        panic_message(|| wrong.try_acquire()),
        panic_message(|| wrong.acquire().wait()),
        panic_message(|| wrong.reserve()),
        panic_message(|| wrong.charge(1)),
        panic_message(|| wrong.peek()),
        panic_message(|| wrong.snapshot().available),
        panic_message(|| wrong.quota()),
    ] {
        assert_eq!(message.as_deref(), Some(expected));
    }
    assert_eq!(users.len(), 2);
    let charge = users.key(&1).try_acquire().unwrap();
    // The charge is gone, whatever its quota is, so a refund gives nothing back.
    wrong.refund(charge);
    assert_eq!(users.key(&1).snapshot().available, 0);
    clock.advance(SECOND);
    waiter.granted();
    users.shrink();
    users.set_quota(Quota::per_second(5));
    assert_eq!(users.key(&1).snapshot().available, 4);
    users.close();
    assert!(users.is_closed());
}
