//! What is said about the limits behind a throttle.

use std::sync::Arc;
use std::time::Duration;

use tollgate::throttle::{Inspect, LimitStatus};
use tollgate::{
    BoxThrottle, Clock, Gate, Keyed, LeakyBucket, Pool, Quota, RateLimiter, Semaphore, Throttle,
    TryThrottle, all,
};

const QUOTA: Quota = Quota::per_minute(6).burst(3);

/// A status in short: the limit, what is left, and in how many seconds there is more.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Rate(u64, u64, u64),
    Permits(u64, u64),
    Nothing,
}

use Said::{Nothing, Permits, Rate};

fn said<T: Inspect>(throttle: &T, permit: Option<&T::Permit>) -> Vec<Said> {
    let mut all = Vec::new();
    throttle.inspect(permit, &mut |_, status| {
        all.push(match status {
            LimitStatus::Rate { quota, decision } => {
                assert_eq!((quota, decision.limit), (QUOTA, 3));
                Rate(3, decision.remaining, decision.retry_after.as_secs())
            }
            LimitStatus::Concurrency { limit, available } => Permits(limit, available),
            LimitStatus::Unknown => Nothing,
            status => panic!("{status:?}"),
        });
    });
    all
}

/// With permits, and without one, until nothing is left.
fn counts_down<T: Inspect + TryThrottle>(throttle: &T) {
    assert_eq!(said(throttle, None), [Rate(3, 3, 0)]);
    let permits = [(); 3].map(|()| throttle.try_enter().ok().unwrap());
    assert_eq!(said(throttle, Some(&permits[0])), [Rate(3, 0, 10)]);
    assert_eq!(said(throttle, None), [Rate(3, 0, 10)]);
}

#[test]
fn inspect_a_rate_says_what_is_left_and_when_there_is_more() {
    let limiter = || Arc::new(RateLimiter::new(QUOTA).clock(Clock::manual()));
    counts_down(&limiter());
    counts_down(&&*limiter());
    counts_down(&&limiter());
    counts_down(&Some(limiter()));
    counts_down(&limiter().cost_owned(1));
    let keyed = Keyed::<u8, _>::new(RateLimiter::new(QUOTA).clock(Clock::manual()));
    counts_down(&keyed.key(&7));
    counts_down(&Arc::new(keyed).key_owned(8));
}

/// A key whose waiters have given it a limiter of its own.
#[test]
fn inspect_a_key_with_waiters_says_the_same() {
    let clock = Clock::manual();
    let keyed = Keyed::<u8, _>::new(RateLimiter::new(QUOTA).clock(&clock));
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
    // More are held than there may be.
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
    let limiter = RateLimiter::new(QUOTA).clock(&clock);
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
    let mut rates = 0;
    (&bucket).inspect(None, &mut |_, status| {
        rates += usize::from(matches!(status, LimitStatus::Rate { .. }));
    });
    assert_eq!(rates, 1);
}
