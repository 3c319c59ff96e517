//! How rates go wrong by arithmetic and by timers.

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

#[cfg(feature = "tokio")]
use tollgate::MissedTickBehavior;
use tollgate::{Clock, ErrorKind, ManualClock, Quota, RateLimiter};

use crate::support::{Waiter, kind};

/// As many as go at once, one by one.
fn at_once(limiter: &RateLimiter) -> u64 {
    (0..).take_while(|_| limiter.try_acquire().is_ok()).count() as u64
}

fn limiter(quota: Quota) -> (ManualClock, RateLimiter) {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(quota).clock(&clock);
    (clock, limiter)
}

/// A stale `now` inside the CAS loop over-admits.
///
/// Seen in throttle-net TN-001: 77,000 were granted in two seconds at 1,000 a second.
#[test]
fn stale_now_inside_the_cas_loop() {
    // So little comes back that all threads together get the burst, and what time has given by the
    // ticks of the charges themselves.
    let limiter = RateLimiter::new(Quota::per_second(1000).burst(100));
    let ticks = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    if let Ok(charge) = limiter.try_acquire() {
                        ticks.lock().unwrap().push(charge.at().as_nanos());
                    }
                }
            });
        }
    });
    let mut ticks = ticks.into_inner().unwrap();
    ticks.sort_unstable();
    assert!(ticks.len() >= 100);
    // From each to the one that comes a hundred later, a millisecond for each beyond the burst.
    for (first, last) in ticks.iter().zip(ticks.iter().skip(100)) {
        assert!(last - first + 1 >= 1_000_000, "a burst and one more");
    }
    let (first, last) = (ticks[0], ticks[ticks.len() - 1]);
    assert!(ticks.len() as u64 <= 100 + (last - first + 1) / 1_000_000);
}

/// One extra cell after a long idle; idle overfill; off-by-one burst.
///
/// Seen in governor#251, leaky-bucket#30.
#[test]
fn extra_cell_after_a_long_idle_and_off_by_one_burst() {
    for burst in [1, 2, 10] {
        for idle in [
            Duration::ZERO,
            Duration::from_nanos(burst * 1_000_000_000 - 1),
            Duration::from_secs(burst),
            Duration::from_nanos(burst * 1_000_000_000 + 1),
            Duration::from_secs(3600),
            Duration::from_secs(8 * 365 * 24 * 60 * 60),
        ] {
            let (clock, limiter) = limiter(Quota::per_second(1).burst(burst));
            clock.advance(idle);
            assert_eq!(at_once(&limiter), burst, "before anything was spent");
            clock.advance(idle);
            let back = idle.as_secs().min(burst);
            assert_eq!(limiter.snapshot().available, back);
            assert_eq!(at_once(&limiter), back, "{idle:?}");
        }
    }
}

/// Ten at once after ten were there, though one was spent: the arrival time is clamped to now less the
/// tolerance.
///
/// Seen in throttlecrab: burst 10, 1/s, one hit, 8 s idle, and 17 were admitted at once.
#[test]
fn burst_after_idling_is_not_added_to_what_was_left() {
    let (clock, limiter) = limiter(Quota::per_second(1).burst(10));
    limiter.try_acquire().unwrap();
    clock.advance(Duration::from_secs(8));
    assert_eq!(at_once(&limiter), 10);
    // And of what was all spent, as much as eight seconds give.
    clock.advance(Duration::from_secs(8));
    assert_eq!(at_once(&limiter), 8);
}

/// Overflow and panic at extreme quotas; an interval rounded to 0 ns.
///
/// Seen in governor, commonwarexyz/monorepo#2487.
#[test]
fn overflow_at_extreme_quotas_and_an_interval_rounded_to_zero() {
    const YEARS: Duration = Duration::from_nanos(1 << 58);
    // The slowest, the fastest, the largest bursts.
    let endless = Duration::from_nanos(u64::MAX);
    for quota in [
        Quota::new(1, YEARS),
        Quota::new(1, Duration::from_nanos(1)),
        Quota::new(1, Duration::from_nanos(1)).burst(1 << 58),
        Quota::new(u64::MAX, endless).burst(1 << 58),
        Quota::new(u64::MAX - 1, endless).burst((1 << 58) - 1),
        Quota::new(1 << 63, endless),
        Quota::new(64, endless),
    ] {
        let (clock, limiter) = limiter(quota);
        let burst = quota.max_burst();
        limiter.try_acquire_many(burst).unwrap();
        assert_eq!(limiter.snapshot().available, 0, "{quota}");
        for cost in [burst + 1, u64::MAX] {
            let refused = limiter.try_acquire_many(cost);
            assert_eq!(kind(refused), ErrorKind::ExceedsCapacity);
        }
        let refused = limiter.try_acquire_many(burst).unwrap_err();
        let after = refused.retry_after().unwrap();
        // What is due after the last tick of all never comes.
        if after < YEARS {
            clock.advance(after - Duration::from_nanos(1));
            assert!(limiter.try_acquire_many(burst).is_err(), "{quota}");
            clock.advance(Duration::from_nanos(1));
            limiter.try_acquire_many(burst).unwrap();
        }
        limiter.charge(u64::MAX);
        clock.advance(endless / 2);
        assert!(limiter.try_acquire().is_err());
    }
    // Seven in ten nanoseconds are not one each nanosecond, nor each two.
    let (clock, limiter) = limiter(Quota::per_second(700_000_000).burst(2));
    let mut admitted = at_once(&limiter);
    for _ in 0..10_000 {
        clock.advance(Duration::from_nanos(1));
        admitted += at_once(&limiter);
    }
    assert_eq!(admitted, 2 + 7000);
}

/// Timers of 1 ms cap the rate.
///
/// Seen in tokio-rs/tokio#4474.
#[cfg(feature = "tokio")]
#[tokio::test(start_paused = true)]
async fn timers_of_a_millisecond_cap_the_rate() {
    let limiter = RateLimiter::new(Quota::per_second(100_000)).clock(Clock::tokio());
    limiter.try_acquire().unwrap();
    let start = tokio::time::Instant::now();
    let waiters: Vec<_> = (0..5000).map(|_| limiter.acquire()).collect();
    let charges = futures::future::join_all(waiters).await;
    // One in ten microseconds, and not one in a millisecond.
    assert_eq!(start.elapsed(), Duration::from_millis(50));
    let ticks: Vec<_> = charges
        .into_iter()
        .map(|charge| charge.unwrap().at())
        .collect();
    for pair in ticks.windows(2) {
        let apart = pair[1].saturating_since(pair[0]);
        assert_eq!(apart, Duration::from_micros(10));
    }
}

/// A burst after a missed tick.
///
/// Seen in twilight-rs/twilight#388.
#[cfg(feature = "tokio")]
#[tokio::test(start_paused = true)]
async fn burst_after_a_missed_tick() {
    // A thousand are overdue after ten seconds in which no timer was looked at.
    for (missed, gone) in [
        (Some(MissedTickBehavior::Delay), 1),
        (None, 1 + 1),
        (Some(MissedTickBehavior::Burst { max: 7 }), 7 + 1),
    ] {
        let limiter = RateLimiter::new(Quota::per_second(100)).clock(Clock::tokio());
        let limiter = match missed {
            Some(missed) => limiter.missed_tick(missed),
            None => limiter,
        };
        limiter.try_acquire().unwrap();
        let waiters: Vec<_> = (0..2000)
            .map(|_| Waiter::parked(limiter.acquire()))
            .collect();
        tokio::time::advance(Duration::from_secs(10)).await;
        tokio::task::yield_now().await;
        assert_eq!(
            waiters.len() - limiter.snapshot().waiting,
            gone,
            "{missed:?}"
        );
    }
}

/// A thundering herd on identical retry-after.
///
/// Seen in sidekiq/sidekiq#5315.
#[test]
fn herd_on_identical_retry_after() {
    const JITTER: Duration = Duration::from_secs(1);
    let limiter = RateLimiter::new(Quota::per_second(10))
        .jitter(JITTER)
        .clock(Clock::manual());
    limiter.try_acquire().unwrap();
    let least = Duration::from_millis(100);
    let mut delays: Vec<_> = (0..100)
        .map(|_| limiter.try_acquire().unwrap_err().retry_after().unwrap())
        .collect();
    assert!(
        delays
            .iter()
            .all(|after| (least..=least + JITTER).contains(after))
    );
    delays.sort_unstable();
    delays.dedup();
    // Of a billion nanoseconds a hundred pick the same one hardly ever.
    assert!(delays.len() > 90, "{} different times", delays.len());
    // Those who wait are a queue, and no herd: one goes at a time, without jitter.
    let (clock, limiter) = (Clock::manual(), Quota::per_second(10));
    let limiter = RateLimiter::new(limiter).jitter(JITTER).clock(&clock);
    limiter.try_acquire().unwrap();
    let waiters: Vec<_> = (0..10).map(|_| Waiter::parked(limiter.acquire())).collect();
    for gone in 1..=10 {
        clock.advance(least);
        assert_eq!(waiters.len() - limiter.snapshot().waiting, gone);
    }
}
