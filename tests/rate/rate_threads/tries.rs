//! Threads that take what they can get, and threads that wait for it.

use tollgate::{ErrorKind, MissedTickBehavior, Quota, RateLimiter};

use crate::support::audit::Allowance;
use crate::support::random::on_threads;

#[test]
fn tries_keep_the_promise_in_every_interval() {
    for quota in [
        Quota::per_second(1_000_000).burst(100),
        Quota::per_second(700_000_000).burst(5),
        Quota::per_second(333_333).burst(3),
        Quota::per_second(1000).burst(10),
        Quota::per_hour(1).burst(50),
    ] {
        let limiter = RateLimiter::new(quota);
        let most = u32::try_from(quota.max_burst().min(4)).unwrap();
        let charged = on_threads(4, |random| {
            let mut charged = Vec::new();
            for _ in 0..20_000 {
                let cost = u64::from(1 + random.below(most));
                match limiter.try_acquire_many(cost) {
                    Ok(charge) => charged.push((charge.at().as_nanos(), cost)),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::RateLimited),
                }
            }
            charged
        })
        .concat();
        assert_eq!(Allowance::of(quota).audit(&charged), Ok(()), "{quota}");
        // At least the burst was to be had, but for what no longer fitted.
        let total: u64 = charged.iter().map(|(_, cost)| cost).sum();
        assert!(total + u64::from(most) > quota.max_burst(), "{quota}");
    }
}

#[test]
fn the_auditor_finds_one_more_than_was_let_in() {
    let quota = Quota::per_hour(1).burst(50);
    let limiter = RateLimiter::new(quota);
    let mut charged = on_threads(2, |_| {
        let tries = (0..100).filter_map(|_| limiter.try_acquire().ok());
        tries
            .map(|charge| (charge.at().as_nanos(), 1))
            .collect::<Vec<_>>()
    })
    .concat();
    assert_eq!(charged.len(), 50);
    assert_eq!(Allowance::of(quota).audit(&charged), Ok(()));
    // Less than an hour has passed, or this machine is not fit for tests.
    charged.push(charged[7]);
    assert!(Allowance::of(quota).audit(&charged).is_err());
}

#[test]
fn waiting_threads_keep_the_promise_and_all_get_through() {
    for (quota, missed) in [
        (Quota::per_second(100_000), None),
        (Quota::per_second(700_000_000), None),
        (
            Quota::per_second(100_000).burst(7),
            Some(MissedTickBehavior::Delay),
        ),
        (
            Quota::per_second(100_000).burst(3),
            Some(MissedTickBehavior::Burst { max: u64::MAX }),
        ),
    ] {
        let limiter = RateLimiter::new(quota);
        let limiter = match missed {
            Some(missed) => limiter.missed_tick(missed),
            None => limiter,
        };
        let most = u32::try_from(quota.max_burst()).unwrap();
        let charged = on_threads(4, |random| {
            let mut charged = Vec::new();
            let mut last = 0;
            for _ in 0..500 {
                let cost = u64::from(1 + random.below(most));
                let charge = limiter.acquire_many(cost).wait().unwrap();
                let at = charge.at().as_nanos();
                // One thread's charges go forward; but another one may grant, and two may disagree by
                // a microsecond.
                assert!(at + 1_000 >= last, "{at} after {last}");
                last = at;
                charged.push((at, cost));
            }
            charged
        })
        .concat();
        assert_eq!(charged.len(), 4 * 500);
        assert_eq!(limiter.waiting(), 0);
        assert_eq!(Allowance::of(quota).audit(&charged), Ok(()), "{quota}");
    }
}

/// A stream of tries does not keep those who wait from their turn, nor gets in before them.
#[test]
fn tries_beside_waiters_keep_the_promise() {
    let quota = Quota::per_second(200_000).burst(4);
    let limiter = RateLimiter::new(quota);
    let charged = on_threads(4, |random| {
        let mut charged = Vec::new();
        for _ in 0..1500 {
            let cost = u64::from(1 + random.below(4));
            let result = if random.below(4) == 0 {
                limiter.acquire_many(cost).wait()
            } else {
                limiter.try_acquire_many(cost)
            };
            match result {
                Ok(charge) => charged.push((charge.at().as_nanos(), cost)),
                Err(error) => assert_eq!(error.kind(), ErrorKind::RateLimited),
            }
        }
        charged
    })
    .concat();
    assert_eq!(limiter.waiting(), 0);
    assert_eq!(Allowance::of(quota).audit(&charged), Ok(()));
}
