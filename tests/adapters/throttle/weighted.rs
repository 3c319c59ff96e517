//! Throttles that admit a caller for several units at once, and the snapshots of the limits behind
//! a throttle.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use Said::{Nothing, Permits, Rate};
use tollgate::fair::FairQueue;
use tollgate::rate::Oversize;
use tollgate::throttle::{BoxThrottle, Inspect, LimitStatus, Weighted, per_call};
use tollgate::{
    Algorithm, Clock, ErrorKind, Gate, Keyed, LeakyBucket, Pool, Quota, RateLimiter, Semaphore,
    Throttle, TryThrottle, all,
};
use tollgate_observe::Observed;

use crate::support::{Waiter, assert_at_rest, kind};

const QUOTA: Quota = Quota::per_hour(1).burst(10);

fn limiter() -> RateLimiter {
    RateLimiter::new(QUOTA).clock(Clock::manual())
}

fn keyed() -> Arc<Keyed<u8, RateLimiter>> {
    Arc::new(Keyed::new(RateLimiter::new(QUOTA).clock(Clock::manual())))
}

/// Returns the rest of a rate.
fn available(throttle: &impl Inspect) -> u64 {
    let mut available = None;
    throttle.inspect(None, &mut |_, status| {
        if let LimitStatus::Rate { decision, .. } = status {
            available = Some(decision.remaining);
        }
    });
    available.expect("it is a rate")
}

/// Takes six, uses two, and waits for the rest, which is one more than would fit at first.
#[track_caller]
fn settles<T: Weighted<Permit: Debug, Many: TryThrottle> + Inspect>(throttle: T) {
    assert_eq!(throttle.max_units(), 10);
    let permit = throttle.cost(6).try_enter().unwrap();
    assert_eq!(available(&throttle), 4);
    assert!(throttle.cost(5).try_enter().is_err());
    throttle.settle(permit, 2);
    assert_eq!(available(&throttle), 8);
    let permit = Waiter::new(throttle.cost(8).enter()).granted();
    assert_eq!(available(&throttle), 0);
    throttle.rollback(permit);
    assert_eq!(available(&throttle), 8);
    let refused = Waiter::new(throttle.cost(11).enter()).output();
    assert_eq!(kind(refused), ErrorKind::ExceedsCapacity);
}

#[test]
fn settle_gives_back_what_was_not_used_of_a_rate() {
    settles(&limiter());
    settles(Arc::new(limiter()));
    settles(&&limiter());
    settles(Arc::new(&Arc::new(&limiter())));
    let shared = Arc::new(limiter());
    settles(&shared);
    settles(Some(&limiter()));
    settles(Arc::new(Some(Arc::new(limiter()))));
    settles(Observed::new(Some(&limiter()), ()));
    let keyed = keyed();
    settles(keyed.key(&7));
    settles(&keyed.key(&9));
    settles(Some(Some(keyed.key(&5))));
    settles(Arc::clone(&keyed).key_owned(8));
    settles(FairQueue::new(Arc::new(limiter())).class(7));
    let (slots, rates) = (Semaphore::new(1), [(); 5].map(|()| limiter()));
    let [a, b, c, d, e] = &rates;
    settles(all((a,)).weighted());
    settles(all((per_call(&slots), b)).weighted());
    settles(all((c, per_call(&slots), d, Some(e))).weighted());
    let both = || all((per_call(Arc::new(Semaphore::new(1))), Arc::new(limiter())));
    settles(both().weighted());
    settles(FairQueue::new(both().weighted()).class(7));
    assert_at_rest(&slots, 1);
}

#[test]
fn weighted_all_takes_the_weight_of_every_part() {
    let (few, many) = (Semaphore::new(8), Semaphore::new(65_536));
    let both = all((&few, &many)).weighted();
    assert_eq!((both.max_units(), both.chunk_units()), (8, 4));
    let (of_few, of_many) = both.cost(8).try_enter().unwrap();
    assert_eq!((of_few.count(), of_many.count()), (8, 8));
    drop((of_few, of_many));
    let one = both.try_enter().unwrap();
    assert_eq!(many.available_permits(), 65_535);
    both.settle(one, 0);
    let refused = both.cost(65_536).try_enter().unwrap_err();
    assert_eq!(
        (refused.kind(), refused.part()),
        (ErrorKind::ExceedsCapacity, Some(0))
    );
    assert_at_rest(&few, 8);
    assert_at_rest(&many, 65_536);
}

#[test]
fn per_call_takes_one_whatever_the_weight() {
    let rate = limiter();
    let calls = per_call(&rate);
    assert_eq!(
        (calls.max_units(), calls.chunk_units()),
        (u64::MAX, u64::MAX)
    );
    for n in [0, 1, 65_536, u64::MAX] {
        _ = Waiter::new(calls.cost(n).enter()).granted();
    }
    assert_eq!(available(&calls), 6);
    let used = calls.cost(9).try_enter().unwrap();
    calls.settle(used, 5);
    assert_eq!(available(&calls), 5);
    let unused = calls.cost(9).try_enter().unwrap();
    calls.settle(unused, 0);
    assert_eq!(available(&calls), 5);
}

#[test]
fn settle_charges_what_was_used_beyond_the_charge() {
    let limiter = limiter();
    let charge = limiter.cost(2).try_enter().unwrap();
    Weighted::settle(&&limiter, charge, 5);
    assert_eq!(limiter.snapshot().available, 5);
}

#[test]
fn settle_returns_all_permits_of_a_semaphore() {
    let semaphore = Arc::new(Semaphore::new(10));
    let throttle = Arc::clone(&semaphore);
    let permit = throttle.cost(6).try_enter().unwrap();
    throttle.settle(permit, 6);
    let borrowed = &*semaphore;
    let permit = Waiter::new(borrowed.cost(10).enter()).granted();
    borrowed.settle(permit, 0);
    assert_at_rest(&semaphore, 10);
}

#[test]
fn cost_of_none_admits_any_number() {
    let nothing: Option<&Semaphore> = None;
    assert_eq!(nothing.max_units(), u64::MAX);
    for n in [0, 1, u64::from(u32::MAX) + 1, u64::MAX] {
        let waited = Waiter::new(nothing.cost(n).enter()).granted();
        let tried = nothing.cost(n).try_enter().unwrap();
        assert!(waited.is_none() && tried.is_none());
        nothing.settle(waited, n);
        nothing.settle(tried, 0);
    }
    // This happens when a configuration changes between two calls.
    let semaphore = Semaphore::new(2);
    let permit = Some(&semaphore).cost(2).try_enter().unwrap();
    nothing.settle(permit, 2);
    assert_at_rest(&semaphore, 2);
}

/// Moves at most the units that one call may take, like the example of the trait.
#[test]
fn max_units_of_no_permits_is_one_and_a_call_for_it_waits() {
    fn parks<T: Weighted<Permit: Debug>>(throttle: T, raise: impl FnOnce()) {
        assert_eq!(throttle.max_units(), 1);
        let mut waiter = Waiter::parked(throttle.cost(4096.min(throttle.max_units())).enter());
        raise();
        drop(waiter.granted());
    }
    let semaphore = Arc::new(Semaphore::new(0));
    for _ in 0..2 {
        semaphore.set_permits(0);
        parks(&*semaphore, || semaphore.set_permits(3));
        semaphore.set_permits(0);
        parks(Some(Arc::clone(&semaphore)), || semaphore.set_permits(3));
    }
    let slots = Keyed::<u8, _>::semaphores(0);
    parks(slots.key(&7), || slots.set_permits(3));
    slots.set_permits(0);
    parks(slots.key(&7), || slots.set_permits(3));
}

#[test]
fn max_units_is_the_burst_the_limit_or_unbounded() {
    let (semaphore, clock) = (Semaphore::new(10), Clock::manual());
    assert_eq!((&semaphore).max_units(), 10);
    semaphore.set_permits(3);
    assert_eq!((&semaphore).max_units(), 3);
    let large = Semaphore::new(Semaphore::MAX_PERMITS);
    assert_eq!((&large).max_units(), Semaphore::MAX_PERMITS as u64);
    let slots = Keyed::<u8, _>::semaphores(4);
    assert_eq!(slots.key(&7).max_units(), 4);

    let limiter = RateLimiter::new(QUOTA).clock(&clock);
    assert_eq!((&limiter).max_units(), 10);
    limiter.set_quota(QUOTA.burst(20));
    assert_eq!((&limiter).max_units(), 20);
    for algorithm in [Algorithm::SlidingWindow, Algorithm::SlidingLog] {
        let limiter = RateLimiter::new(Quota::per_hour(30)).algorithm(algorithm);
        assert_eq!((&limiter).max_units(), 30, "{algorithm:?}");
    }
    let overdraws = RateLimiter::new(QUOTA).oversize(Oversize::Overdraft);
    assert_eq!((&overdraws).max_units(), u64::MAX);
    let overdraws = Keyed::<u8, _>::new(RateLimiter::new(QUOTA).oversize(Oversize::Overdraft));
    assert_eq!(overdraws.key(&7).max_units(), u64::MAX);
    // With the key in the map or not.
    let keyed = keyed();
    assert_eq!(keyed.key(&7).max_units(), 10);
    keyed.key(&7).try_acquire().unwrap();
    assert_eq!(keyed.key(&7).max_units(), 10);
}

#[test]
fn chunk_units_is_what_comes_in_ten_milliseconds() {
    let quota = |count| Quota::per_second(count).burst(1_000_000);
    let limiter = RateLimiter::new(Quota::bytes_per_second(1_000_000)).clock(Clock::manual());
    let shared = Arc::new(RateLimiter::new(quota(200_000)));
    assert_eq!((&limiter).chunk_units(), 10_000);
    assert_eq!(Some(&&limiter).chunk_units(), 10_000);
    assert_eq!(shared.chunk_units(), 2_000);
    limiter.set_quota(quota(250_000));
    assert_eq!((&limiter).chunk_units(), 2_500);
    // The same rate in other numbers, and one below one in that time.
    let millisecond = std::time::Duration::from_millis(1);
    limiter.set_quota(Quota::new(250, millisecond).burst(1_000_000));
    assert_eq!((&limiter).chunk_units(), 2_500);
    limiter.set_quota(Quota::per_minute(1).burst(10_000));
    assert_eq!((&limiter).chunk_units(), 1024);
    for algorithm in [Algorithm::SlidingWindow, Algorithm::SlidingLog] {
        let limiter = RateLimiter::new(Quota::per_second(300_000)).algorithm(algorithm);
        assert_eq!((&limiter).chunk_units(), 3_000, "{algorithm:?}");
        limiter.set_quota(Quota::per_second(500_000));
        assert_eq!((&limiter).chunk_units(), 5_000, "{algorithm:?}");
    }
}

/// This also holds where a call may overdraw, and `max_units` is not the burst.
#[test]
fn chunk_units_is_at_most_half_of_the_burst() {
    for oversize in [Oversize::Refuse, Oversize::Overdraft] {
        for (burst, chunk) in [(1, 1), (10, 5), (11, 6), (2048, 1024), (50_000, 10_000)] {
            let quota = Quota::per_second(1_000_000).burst(burst);
            let limiter = RateLimiter::new(quota).oversize(oversize);
            let keyed = Keyed::<u64, _>::new(RateLimiter::new(quota).oversize(oversize));
            assert_eq!((&limiter).chunk_units(), chunk, "{burst}");
            assert_eq!(keyed.key(&7).chunk_units(), chunk, "{burst}");
        }
    }
}

#[test]
fn chunk_units_of_a_key_is_by_its_quota() {
    let quota = |count| Quota::per_second(count).burst(1_000_000);
    let keyed = Keyed::<u64, _>::new(RateLimiter::new(quota(700_000)).clock(Clock::manual()));
    assert_eq!(keyed.key(&7).chunk_units(), 7_000);
    keyed.set_quota(quota(900_000));
    assert_eq!(keyed.key(&7).chunk_units(), 9_000);
    let own = Keyed::<u64, _>::new(RateLimiter::new(quota(700_000)).clock(Clock::manual()))
        .quotas(move |key| quota(100_000 * key));
    assert_eq!(own.key(&8).chunk_units(), 8_000);
}

#[test]
fn chunk_units_of_permits_is_half_of_the_limit() {
    assert_eq!((&Semaphore::new(3)).chunk_units(), 2);
    let slots = Keyed::<u8, _>::semaphores(4);
    assert_eq!(slots.key(&7).chunk_units(), 2);
    assert_eq!(None::<&RateLimiter>.chunk_units(), u64::MAX);
}

#[cfg(target_pointer_width = "64")]
#[test]
fn cost_of_a_semaphore_may_be_larger_than_four_gigabytes() {
    const GIGABYTE: u64 = 1 << 30;
    let memory = Semaphore::new(16 * GIGABYTE as usize);
    assert_eq!((&memory).max_units(), 16 * GIGABYTE);
    let held = memory.try_acquire_many(10 * GIGABYTE).unwrap();
    assert_eq!(held.count() as u64, 10 * GIGABYTE);
    // The lower 32 bits of both are zero.
    assert!(memory.cost(8 * GIGABYTE).try_acquire().is_err());
    let mut waiting = Waiter::parked(memory.acquire_many(8 * GIGABYTE));
    let mut behind = Waiter::parked(memory.acquire());
    drop(held);
    drop((waiting.granted(), behind.granted()));

    let per_user = Keyed::<u8, _>::semaphores(16 * GIGABYTE as usize);
    let user = per_user.key(&7);
    let most = user.try_acquire_many(16 * GIGABYTE).unwrap();
    assert!(user.try_acquire().is_err());
    drop(most);
    assert_at_rest(&memory, 16 * GIGABYTE as usize);
}

#[test]
fn cost_above_every_limit_is_refused_and_takes_nothing() {
    let semaphore = Semaphore::new(Semaphore::MAX_PERMITS);
    let slots = Keyed::<u8, _>::semaphores(8);
    for many in [
        Semaphore::MAX_PERMITS as u64 + 1,
        u64::MAX / 8 + 1,
        u64::MAX - 7,
        u64::MAX,
    ] {
        let tried = kind(Weighted::cost(&&semaphore, many).try_enter());
        let waited = Waiter::new(semaphore.acquire_many(many)).refused();
        let of_a_key = kind(slots.key(&7).try_acquire_many(many));
        assert_eq!([tried, waited, of_a_key], [ErrorKind::ExceedsCapacity; 3]);
    }
    // A pause is no capacity: it waits.
    let paused = Semaphore::new(0);
    drop(Waiter::parked(paused.acquire_many(u64::MAX)));
    assert_eq!(
        kind(paused.try_acquire_many(u64::MAX)),
        ErrorKind::NoPermits
    );
    assert_at_rest(&semaphore, Semaphore::MAX_PERMITS);
    assert_at_rest(&paused, 0);
}

const SIX_A_MINUTE: Quota = Quota::per_minute(6).burst(3);

/// A status in short: the limit, the rest, and the seconds until there is more.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Rate(u64, u64, u64),
    Permits(u64, u64),
    Nothing,
}

fn said<T: Inspect>(throttle: &T, permit: Option<&T::Permit>) -> Vec<Said> {
    let mut all = Vec::new();
    throttle.inspect(permit, &mut |_, status| {
        all.push(match status {
            LimitStatus::Rate { quota, decision } => {
                assert_eq!((quota, decision.limit), (SIX_A_MINUTE, 3));
                let after = decision.retry_after.expect("known");
                Rate(3, decision.remaining, after.as_secs())
            }
            LimitStatus::Concurrency { limit, available } => Permits(limit, available),
            LimitStatus::Unknown => Nothing,
            status => panic!("{status:?}"),
        });
    });
    all
}

/// Counts down with permits and without, until nothing is left.
fn counts_down<T: Inspect + TryThrottle>(throttle: &T) {
    assert_eq!(said(throttle, None), [Rate(3, 3, 0)]);
    let permits = [(); 3].map(|()| throttle.try_enter().ok().unwrap());
    assert_eq!(said(throttle, Some(&permits[0])), [Rate(3, 0, 10)]);
    assert_eq!(said(throttle, None), [Rate(3, 0, 10)]);
}

#[test]
fn inspect_a_rate_says_what_is_left_and_when_there_is_more() {
    let limiter = || Arc::new(RateLimiter::new(SIX_A_MINUTE).clock(Clock::manual()));
    counts_down(&limiter());
    counts_down(&&*limiter());
    counts_down(&&limiter());
    counts_down(&Some(limiter()));
    counts_down(&limiter().cost_owned(1));
    let keyed = Keyed::<u8, _>::new(RateLimiter::new(SIX_A_MINUTE).clock(Clock::manual()));
    counts_down(&keyed.key(&7));
    counts_down(&Arc::new(keyed).key_owned(8));
}

/// The waiters of this key have given it a limiter of its own.
#[test]
fn inspect_a_key_with_waiters_says_the_same() {
    let clock = Clock::manual();
    let keyed = Keyed::<u8, _>::new(RateLimiter::new(SIX_A_MINUTE).clock(&clock));
    let key = keyed.key(&7);
    let permits = [(); 3].map(|()| key.try_enter().unwrap());
    let waiting = crate::support::Waiter::parked(key.enter());
    assert_eq!(said(&key, Some(&permits[2])), [Rate(3, 0, 20)]);
    drop(waiting);
    clock.advance(Duration::from_secs(10));
    assert_eq!(said(&key, None), [Rate(3, 1, 0)]);
}

#[test]
fn inspect_permits_says_the_limit_and_what_is_free() {
    let semaphore = Arc::new(Semaphore::new(3));
    let held = semaphore.try_acquire().unwrap();
    assert_eq!(said(&semaphore, None), [Permits(3, 2)]);
    assert_eq!(said(&&*semaphore, Some(&held)), [Permits(3, 2)]);
    // More are held than the limit allows.
    semaphore.set_permits(0);
    assert_eq!(said(&semaphore, None), [Permits(0, 0)]);
    let pool = Pool::new([1, 2]);
    let _item = pool.try_acquire().unwrap();
    assert_eq!(said(&&pool, None), [Permits(2, 1)]);
    let slots = Keyed::<u8, _>::semaphores(4);
    assert_eq!(said(&slots.key(&7), None), [Permits(4, 4)]);
    let permit = slots.key(&7).cost(3).try_enter().unwrap();
    assert_eq!(said(&slots.key(&7), Some(&permit)), [Permits(4, 1)]);
    assert_eq!(said(&slots.key(&7), None), [Permits(4, 1)]);
    #[cfg(feature = "channel")]
    {
        let tokens = tollgate::ChannelSemaphore::new(5);
        let _token = tokens.try_acquire().unwrap();
        assert_eq!(said(&&tokens, None), [Permits(5, 4)]);
    }
}

#[test]
fn inspect_all_says_every_part_in_order_nested_ones_flattened() {
    let (clock, slots) = (Clock::manual(), Semaphore::new(8));
    let limiter = RateLimiter::new(SIX_A_MINUTE).clock(&clock);
    let bucket = LeakyBucket::new(Quota::per_second(1), 1).clock(&clock);
    let nothing: Option<&Semaphore> = None;
    let throttle = all((all((&slots, Gate::new())), nothing, &limiter, slots.cost(2)));
    let permit = throttle.try_enter().unwrap();
    let expected = [
        Permits(8, 5),
        Nothing,
        Nothing,
        Rate(3, 2, 0),
        Permits(8, 5),
    ];
    assert_eq!(said(&throttle, Some(&permit)), expected);
    drop(permit);
    assert_eq!(said(&throttle, None)[0], Permits(8, 8));
    let missing = Some(throttle).filter(|_| false);
    assert_eq!(
        said(&missing, None),
        [Nothing, Nothing, Nothing, Nothing, Nothing]
    );
    let boxed = BoxThrottle::new(Arc::new(Semaphore::new(1)));
    assert_eq!(said(&all((boxed,)), None), [Nothing]);
    let class = FairQueue::new(all((Arc::new(Semaphore::new(3)), Gate::new()))).class("a");
    let permit = class.try_enter().unwrap();
    assert_eq!(said(&class, Some(&permit)), [Permits(3, 2), Nothing]);
    drop(permit);
    assert_eq!(said(&class, None), [Permits(3, 3), Nothing]);
    let mut rates = 0;
    (&bucket).inspect(None, &mut |_, status| {
        rates += usize::from(matches!(status, LimitStatus::Rate { .. }));
    });
    assert_eq!(rates, 1);
}
