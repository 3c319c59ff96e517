//! Another quota: what each way of changing it leaves, and that no number of changes gives anything.

use std::time::Duration;

use tollgate::{Clock, ErrorKind, Oversize, Quota, QuotaChange, RateLimiter};

use crate::setup::{TICK, assert_available, assert_limited, at, limiter, ms, queue, secs, spent};
use crate::support::{Waiter, kind};

const WAYS: [QuotaChange; 2] = [QuotaChange::Proportional, QuotaChange::KeepSpent];
const TENTH: Quota = Quota::per_second(100).burst(10);

/// Of ten some are spent and some forced, then the burst is another: what is left of it, and when a
/// call may come again.
#[test]
fn set_quota_with_leaves_what_each_way_says() {
    let [proportional, keep_spent] = WAYS;
    for (how, spent, forced, burst, left, retry_after) in [
        (proportional, 0, 0, 20, 20, 0),
        (proportional, 4, 0, 20, 12, 0),
        (proportional, 4, 0, 5, 3, 0),
        (proportional, 10, 0, 20, 0, 10),
        (proportional, 10, 3, 20, 0, 70),
        (keep_spent, 0, 0, 5, 5, 0),
        (keep_spent, 4, 0, 20, 16, 0),
        (keep_spent, 4, 0, 5, 1, 0),
        (keep_spent, 8, 0, 5, 0, 10),
        (keep_spent, 10, 3, 20, 7, 0),
        (keep_spent, 10, 3, 5, 0, 40),
    ] {
        let (_clock, limiter) = limiter(TENTH);
        limiter.try_acquire_many(spent).unwrap();
        limiter.charge(forced);
        limiter.set_quota_with(TENTH.burst(burst), how);
        let row = format!("{how:?}: {spent} and {forced}, then {burst}");
        assert_eq!(limiter.snapshot().available, left, "{row}");
        assert_eq!(limiter.peek().retry_after, ms(retry_after), "{row}");
        if left > 0 {
            assert_available(&limiter, left);
        }
    }
}

/// The rate by itself changes nothing that is left, and what is owed takes the time of the new rate.
#[test]
fn set_quota_with_another_rate_counts_the_same_tokens() {
    for how in WAYS {
        let (clock, limiter) = limiter(TENTH);
        limiter.try_acquire_many(4).unwrap();
        for quota in [Quota::per_second(1000), Quota::per_hour(36)] {
            limiter.set_quota_with(quota.burst(10), how);
            assert_eq!(limiter.snapshot().available, 6, "{how:?} {quota}");
            assert_eq!(limiter.quota(), quota.burst(10));
        }
        assert_eq!(limiter.peek().reset_after, Duration::from_secs(400));
        clock.advance(Duration::from_secs(50));
        limiter.set_quota_with(TENTH, how);
        assert_eq!(limiter.peek().reset_after, ms(35), "{how:?}");
    }
}

/// A quota goes from one an hour to a thousand a second and back, and a thousand wait.
#[test]
fn set_quota_up_and_down_strands_nobody() {
    for how in WAYS {
        let (clock, limiter) = spent(Quota::per_hour(1));
        let mut waiters = queue(&limiter, &[1; 1000]);
        let mut random = crate::support::random::Random::new(5);
        let fast = Quota::per_second(1000);
        for round in 0..400 {
            let quota = if round % 2 == 0 {
                fast
            } else {
                Quota::per_hour(1)
            };
            limiter.set_quota_with(quota, how);
            clock.advance(Duration::from_micros(u64::from(random.below(5000))));
            let woken = waiters.iter().filter(|waiter| waiter.wakes() == 1);
            assert_eq!(woken.count() + limiter.snapshot().waiting, 1000);
        }
        assert!(
            limiter.snapshot().waiting < 1000,
            "nobody in so long a time"
        );
        limiter.set_quota_with(fast, how);
        // A debt of one hour is one of 1 ms by now.
        clock.advance(ms(1001));
        assert_eq!(crate::setup::charged(&mut waiters).len(), 1000);
        clock.advance(Duration::from_secs(3600));
        assert_eq!(limiter.try_acquire().unwrap().at(), clock.now());
    }
}

/// From outside: a quota whose token is no whole number of nanoseconds gave a fraction of one with
/// each change, 5,999 tokens in 24,000 changes.
#[test]
fn set_quota_again_and_again_mints_nothing() {
    let quotas =
        [700_000_000, 300_000_000, 999_999_999].map(|count| Quota::per_second(count).burst(1000));
    for how in WAYS {
        let clock = Clock::manual();
        clock.advance(Duration::from_secs(1));
        let limiter = RateLimiter::new(quotas[0]).clock(&clock);
        // A debt that no time pays off here.
        limiter.charge(1_000_000);
        let mut least = limiter.snapshot().in_use;
        for change in 0..24_000_usize {
            limiter.set_quota_with(quotas[change % 3], how);
            let next = limiter.snapshot().in_use;
            assert!(next >= least, "{how:?}, change {change}");
            least = next;
        }
    }
}

/// The same while time passes by single nanoseconds: what is paid off is at most the fastest rate.
#[test]
fn set_quota_beside_passing_nanoseconds_pays_off_no_more_than_the_rate() {
    let [fast, slow] = [700_000_000, 699_999_999].map(|count| Quota::per_second(count).burst(10));
    let clock = Clock::manual();
    clock.advance(Duration::from_secs(1));
    let limiter = RateLimiter::new(fast).clock(&clock);
    let owed = 100_000;
    limiter.charge(owed);
    for nano in 1..=24_000_u64 {
        clock.advance(TICK);
        limiter.set_quota(if nano % 2 == 0 { fast } else { slow });
        let paid = owed.saturating_sub(limiter.snapshot().in_use);
        assert!(paid <= nano * 7 / 10, "{paid} after {nano} ns");
    }
}

/// A hundred gigabits are 12.5 bytes per nanosecond.
#[test]
fn quota_of_many_per_nanosecond_is_exact() {
    let clock = Clock::manual();
    let quota = Quota::bytes_per_second(12_500_000_000);
    let limiter = RateLimiter::new(quota).clock(&clock);
    limiter.try_acquire_many(1_000_000_000).unwrap();
    let refused = limiter.try_acquire_many(125_000_000).unwrap_err();
    assert_eq!(refused.retry_after(), Some(Duration::from_millis(10)));
    for (nanos, available) in [(1, 12), (1, 25), (1, 37), (997, 12_500)] {
        clock.advance(nanos * TICK);
        assert_eq!(limiter.snapshot().available, available);
    }
    // To slower and faster quotas and back: what was spent stays spent in proportion.
    limiter.set_quota(Quota::bytes_per_second(16_000_000_000));
    assert_eq!(limiter.snapshot().available, 16_000);
    limiter.set_quota(Quota::bytes_per_second(1_000_000));
    assert_eq!(limiter.snapshot().available, 1);
    clock.advance(ms(1));
    assert_eq!(limiter.snapshot().available, 1_001);
}

/// Of each nanosecond, as many waiters are charged as fit.
#[test]
fn acquire_at_many_per_nanosecond_keeps_the_exact_rate() {
    for (count, period) in [(5, 2), (3, 1), (16, 1), (31, 2)] {
        let clock = Clock::manual();
        let limiter = RateLimiter::new(Quota::new(count, period * TICK)).clock(&clock);
        limiter.try_acquire().unwrap();
        let queue = queue(&limiter, &[1; 500]);
        for nanos in 1..=30_u64 {
            clock.advance(TICK);
            let gone = queue.len() - limiter.snapshot().waiting;
            let fit = nanos * count / u64::from(period);
            assert_eq!(gone as u64, fit.min(500), "{count} in {period} ns");
        }
    }
}

/// Where the units end, nothing is paid off: neither for calls nor for those who wait.
#[test]
fn acquire_at_the_last_unit_waits_for_ever() {
    let clock = Clock::manual();
    let quota = Quota::new(16, TICK).burst(100);
    let limiter = RateLimiter::new(quota).clock(&clock);
    // The last unit is 2^60 - 1 - 2^56.
    let last = Duration::from_nanos((1_u64 << 60) / 16 - (1 << 52));
    clock.advance(last - 10 * TICK);
    limiter.try_acquire_many(100).unwrap();
    clock.advance(3 * TICK);
    assert_eq!(limiter.snapshot().available, 48);
    limiter.try_acquire_many(48).unwrap();
    // There are 7 times 16 units left, but for the very last.
    let mut waiter = Waiter::parked(limiter.acquire_many(100));
    let mut later = Waiter::parked(limiter.acquire_many(12));
    assert_eq!(kind(limiter.try_acquire()), ErrorKind::RateLimited);
    clock.advance(Duration::from_secs(1 << 30));
    assert_eq!(waiter.granted().cost(), 100);
    assert!(later.is_pending());
    assert_eq!(limiter.snapshot().available, 11);
    assert_eq!(limiter.peek().retry_after, Duration::MAX);
}

/// Ten gigabits are 1.25 bytes per nanosecond.
#[test]
fn quota_of_more_than_one_per_nanosecond_is_exact() {
    let clock = Clock::manual();
    let quota = Quota::bytes_per_second(1_250_000_000);
    let limiter = RateLimiter::new(quota).clock(&clock);
    limiter.try_acquire_many(100_000_000).unwrap();
    let refused = limiter.try_acquire_many(12_500_000).unwrap_err();
    assert_eq!(refused.retry_after(), Some(Duration::from_millis(10)));
    clock.advance(Duration::from_nanos(3));
    assert_eq!(limiter.snapshot().available, 3);
    clock.advance(Duration::from_nanos(1));
    assert_eq!(limiter.snapshot().available, 5);

    let mut waiter = Waiter::parked(limiter.acquire_many(10));
    clock.advance(Duration::from_nanos(3));
    assert!(waiter.is_pending());
    clock.advance(Duration::from_nanos(1));
    assert_eq!(waiter.granted().cost(), 10);
    clock.advance(Duration::from_secs(60));
    assert_eq!(limiter.snapshot().available, 100_000_000);
}

/// Seen from outside: a call behind a waiter that could only be refused was told 11 s in place of 2.
#[test]
fn set_quota_below_the_cost_of_a_waiter_leaves_the_times_of_others_exact() {
    let (clock, limiter) = spent(Quota::per_second(1).burst(10));
    let mut waiters = queue(&limiter, &[1, 9]);
    let reserved = [1, 8, 1].map(|cost| limiter.reserve_many(cost).unwrap());
    let delays = |of: [u64; 3]| {
        assert_eq!(reserved.each_ref().map(|it| it.delay()), of.map(secs));
    };
    delays([11, 19, 20]);
    limiter.set_quota_with(Quota::per_second(1).burst(5), QuotaChange::KeepSpent);
    // The fourth is refused as soon as the third has gone.
    delays([2, 2, 3]);
    assert_limited(&limiter, 1, secs(4));
    let mut last = Waiter::parked(limiter.acquire().timeout(secs(4)));
    // Who asked for too much is not refused if the burst is raised again before its turn.
    limiter.set_quota(Quota::per_second(1).burst(9));
    delays([11, 19, 20]);
    assert_limited(&limiter, 1, secs(22));
    limiter.set_quota_with(Quota::per_second(1).burst(5), QuotaChange::KeepSpent);
    clock.advance(secs(1));
    waiters[0].granted();
    assert_eq!(waiters[1].refused(), ErrorKind::ExceedsCapacity);
    delays([1, 1, 2]);
    assert_limited(&limiter, 1, secs(4));
    clock.advance(secs(3));
    assert_eq!(at(&last.granted()), secs(4));
    assert_limited(&limiter, 1, secs(1));
    assert_eq!(reserved.map(|it| it.wait().is_ok()), [true, false, true]);
}

/// One that may ask for more than the burst is never refused, and counts whatever the burst is.
#[test]
fn set_quota_below_the_cost_of_a_waiter_that_may_overdraw_counts_it() {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::per_second(1).burst(10))
        .oversize(Oversize::Overdraft)
        .clock(&clock);
    limiter.try_acquire_many(10).unwrap();
    let _waiters = queue(&limiter, &[1, 9]);
    limiter.set_quota_with(Quota::per_second(1).burst(5), QuotaChange::KeepSpent);
    assert_limited(&limiter, 1, secs(11));
}
