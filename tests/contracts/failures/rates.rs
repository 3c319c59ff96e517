//! Failures of rates in arithmetic, in timers, in compositions, and in adaptation.

use std::sync::Arc;
use std::time::Duration;

use tollgate::rate::Oversize;
use tollgate::time::ManualClock;
use tollgate::{Clock, ErrorKind, Quota, RateLimiter, Semaphore, all};
use tollgate_adaptive::AdaptiveRate;

use crate::support::audit::{Allowance, Entry};
use crate::support::random::on_threads;
use crate::support::{Waiter, assert_at_rest, kind};

const MS: Duration = Duration::from_millis(1);

/// Returns the number of single calls that are admitted at once.
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
    // The refill is so small that all threads together get the burst, plus the refill until the
    // ticks of the charges.
    let quota = Quota::per_second(1000).burst(100);
    let limiter = RateLimiter::new(quota);
    let charged: Vec<Vec<Entry>> = on_threads(4, |_| {
        let charges = (0..20_000).filter_map(|_| limiter.try_acquire().ok());
        charges.map(|charge| (charge.at().as_nanos(), 1)).collect()
    });
    let charged = charged.concat();
    assert!(charged.len() >= 100);
    assert_eq!(Allowance::of(quota).audit(&charged), Ok(()));
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
    // And after all was spent, eight seconds' worth.
    clock.advance(Duration::from_secs(8));
    assert_eq!(at_once(&limiter), 8);
}

/// Overflow and panic at extreme quotas; an interval rounded to 0 ns.
///
/// Seen in governor, commonwarexyz/monorepo#2487.
#[test]
fn overflow_at_extreme_quotas_and_an_interval_rounded_to_zero() {
    const YEARS: Duration = Duration::from_nanos(1 << 58);
    // The slowest and the fastest quotas, and the largest bursts.
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
        // A call that is due after the last tick never comes.
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
    // Seven in ten nanoseconds differ from one each nanosecond, and from one each two.
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

/// A thundering herd on identical retry-after.
///
/// Seen in sidekiq/sidekiq#5315.
#[test]
fn herd_on_identical_retry_after() {
    const JITTER: Duration = Duration::from_secs(1);
    let limiter = RateLimiter::new(Quota::per_second(10)).jitter(JITTER);
    let limiter = limiter.clock(Clock::manual());
    limiter.try_acquire().unwrap();
    let range = 100 * MS..=100 * MS + JITTER;
    let mut delays: Vec<_> = (0..100)
        .map(|_| limiter.try_acquire().unwrap_err().retry_after().unwrap())
        .collect();
    assert!(delays.iter().all(|after| range.contains(after)));
    delays.sort_unstable();
    delays.dedup();
    // A hundred picks out of a billion nanoseconds hardly ever collide.
    assert!(delays.len() > 90, "{} different times", delays.len());
}

/// A request larger than the limit blocks for ever, or passes unlimited.
///
/// Seen in amazon-mq/rabbitmq-stream-s3#208, rclone.
#[test]
fn request_larger_than_the_burst() {
    let (clock, limiter) = limiter(Quota::per_second(10).burst(5));
    let refused = [
        Waiter::new(limiter.acquire_many(6)).refused(),
        kind(limiter.try_acquire_many(6)),
        kind(limiter.reserve_many(6)),
    ];
    assert_eq!(refused, [ErrorKind::ExceedsCapacity; 3]);
    assert_eq!(limiter.snapshot().available, 5, "it was charged nothing");
    // Or it is let in alone, and paid off before the next caller.
    let limiter = RateLimiter::new(Quota::per_second(10).burst(5))
        .oversize(Oversize::Overdraft)
        .clock(&clock);
    limiter.try_acquire().unwrap();
    let mut large = Waiter::parked(limiter.acquire_many(20));
    let mut behind = Waiter::parked(limiter.acquire());
    clock.advance(99 * MS);
    assert!(large.is_pending());
    clock.advance(1 * MS);
    large.granted();
    clock.advance(1599 * MS);
    assert!(behind.is_pending());
    clock.advance(1 * MS);
    behind.granted();
}

/// A chain leaks what it took before the refusal.
///
/// Seen in BaseIntelligence/bounty-challenge#4191, and with tokens in dotnet/runtime#113314.
#[test]
fn chain_of_rates_leaks_what_it_took() {
    let clock = Clock::manual();
    let rate = |burst| Arc::new(RateLimiter::new(Quota::per_second(1).burst(burst)).clock(&clock));
    let (slots, wide, narrow) = (Arc::new(Semaphore::new(5)), rate(10), rate(1));
    let chain = all((Arc::clone(&slots), Arc::clone(&wide), Arc::clone(&narrow)));
    drop(chain.try_acquire().unwrap());
    assert_eq!(
        (wide.snapshot().available, narrow.snapshot().available),
        (9, 0)
    );
    for _ in 0..100 {
        let refused = chain.try_acquire().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::RateLimited);
        assert_eq!(refused.part(), Some(2));
        assert_eq!(wide.snapshot().available, 9);
    }
    // The same for callers that wait and give up, before and after their charge.
    for _ in 0..100 {
        drop(Waiter::parked(chain.acquire()));
        assert_eq!(
            (wide.snapshot().available, narrow.snapshot().waiting),
            (9, 0)
        );
    }
    let waiter = Waiter::parked(chain.acquire());
    clock.advance(Duration::from_secs(1));
    assert_eq!(waiter.wakes(), 1);
    drop(waiter);
    assert_eq!(
        (wide.snapshot().available, narrow.snapshot().available),
        (10, 1)
    );
    narrow.close();
    assert_eq!(kind(chain.try_acquire()), ErrorKind::Closed);
    assert_eq!(wide.snapshot().available, 10);
    assert_at_rest(&slots, 5);
}

/// A reservation that is cancelled does not give back everything.
///
/// Seen in golang/go#56924, #69419.
#[test]
fn reservation_cancelled_gives_back_only_a_part() {
    let (_, limiter) = limiter(Quota::per_second(10).burst(5));
    let first = limiter.reserve_many(3).unwrap();
    let second = limiter.reserve_many(2).unwrap();
    let third = limiter.reserve_many(4).unwrap();
    let fourth = limiter.reserve_many(1).unwrap();
    assert_eq!(third.delay(), 400 * MS);
    assert_eq!(fourth.delay(), 500 * MS);
    // The first though others have reserved since, one in the middle of the queue, then the rest.
    drop(first);
    assert_eq!((third.delay(), fourth.delay()), (100 * MS, 200 * MS));
    drop(third);
    assert_eq!(fourth.delay(), Duration::ZERO);
    drop(second);
    assert_eq!(limiter.snapshot().available, 4);
    drop(fourth);
    assert_eq!(limiter.snapshot().available, 5);
}

fn starting_at(rate: f64) -> (ManualClock, AdaptiveRate) {
    let clock = Clock::manual();
    let rate = AdaptiveRate::new()
        .initial_rate(rate)
        .burst(100)
        .clock(&clock);
    (clock, rate)
}

/// The rate grows with the time since the last refusal, used or not, and a client that was idle for
/// an hour begins with a flood.
///
/// Seen in botocore's adaptive retry mode, which bounds it by twice the measured rate.
#[test]
fn idle_time_raises_the_rate() {
    let (clock, rate) = starting_at(1_000.0);
    rate.try_acquire().unwrap().throttled(None);
    for _ in 0..10 {
        clock.advance(Duration::from_secs(3_600));
        drop(rate.try_acquire().unwrap());
    }
    assert_eq!(rate.rate(), 850.0);
}

/// Sent requests count as accepted, so the rate stays above that of a server that has become slower.
///
/// Seen in botocore's adaptive retry mode, whose measured rate includes refused requests.
#[test]
fn refused_requests_count_as_accepted() {
    let (clock, rate) = starting_at(1_000.0);
    rate.try_acquire().unwrap().throttled(None);
    // Only every fourth succeeds.
    for n in 0..400 {
        clock.advance(MS);
        let Ok(permit) = rate.try_acquire() else {
            continue;
        };
        match n % 4 {
            0 => drop(permit),
            _ => permit.throttled(None),
        }
    }
    assert!(rate.rate() < 300.0, "{}", rate.rate());
}
