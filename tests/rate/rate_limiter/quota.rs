//! Another quota while a line waits: everybody is due by the new one at once, and nobody is
//! stranded.

use std::task::Poll;
use std::time::Duration;

use tollgate::{ErrorKind, Quota, QuotaChange, RateLimiter};

use super::scene::{
    FIFTY, TEN, TICK, assert_due, assert_limited, at, charged, limiter, line, ms, spent,
};
use crate::support::random::Random;
use crate::support::{Waiter, kind};

const HOURLY: Quota = Quota::per_hour(1);
const FAST: Quota = Quota::per_second(1000);

#[test]
fn a_faster_quota_has_the_line_go_earlier() {
    let (clock, limiter) = spent(HOURLY);
    let mut waiters = line(&limiter, &[1; 3]);
    clock.advance(Duration::from_secs(900));
    limiter.set_quota(FAST);
    // Three quarters of one are owed still.
    let start = Duration::from_secs(900) + Duration::from_micros(750);
    assert_eq!(
        limiter.peek_many(1).retry_after,
        Duration::from_micros(3750)
    );
    clock.advance(ms(10));
    let expected = [start, start + ms(1), start + ms(2)];
    assert_eq!(charged(&mut waiters), expected);
}

#[test]
fn a_slower_quota_has_the_line_go_later() {
    let (clock, limiter) = spent(FAST);
    let mut waiters = line(&limiter, &[1; 2]);
    clock.advance(Duration::from_micros(500));
    limiter.set_quota(TEN);
    assert_limited(&limiter, 1, ms(250));
    assert_due(&clock, &mut waiters[0], ms(50));
    assert_due(&clock, &mut waiters[1], ms(100));
}

#[test]
fn a_larger_burst_has_those_go_at_once_for_whom_there_is_enough() {
    let (clock, limiter) = spent(TEN);
    let mut waiters = line(&limiter, &[1; 5]);
    clock.advance(ms(20));
    limiter.set_quota_with(TEN.burst(4), QuotaChange::KeepSpent);
    // Of four eight tenths of one are owed.
    assert!(waiters[..3].iter().all(|waiter| waiter.wakes() == 1));
    assert_eq!(charged(&mut waiters[..3]), [ms(20); 3]);
    assert_due(&clock, &mut waiters[3], ms(80));
    assert_due(&clock, &mut waiters[4], ms(100));
}

#[test]
fn a_waiter_that_became_impossible_is_refused_and_those_behind_it_go_on() {
    let (clock, limiter) = spent(FIFTY);
    let mut waiters = line(&limiter, &[40, 5, 30, 5]);
    limiter.set_quota_with(Quota::per_second(100).burst(10), QuotaChange::KeepSpent);
    // Ten are owed still, and none but the tens can be had.
    assert_eq!(waiters[0].wakes(), 1);
    let error = waiters[0].output().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ExceedsCapacity);
    assert_eq!(error.capacity(), Some(10));
    assert_due(&clock, &mut waiters[1], ms(50));
    // The next one was not at the head before.
    assert_eq!(waiters[2].wakes(), 1);
    assert_eq!(waiters[2].refused(), ErrorKind::ExceedsCapacity);
    assert_due(&clock, &mut waiters[3], ms(50));
    assert_limited(&limiter, 1, ms(10));
}

#[test]
fn a_waiter_in_the_middle_that_becomes_possible_again_is_granted() {
    let (clock, limiter) = spent(FIFTY);
    let mut waiters = line(&limiter, &[5, 40]);
    limiter.set_quota_with(Quota::per_second(100).burst(10), QuotaChange::KeepSpent);
    limiter.set_quota_with(FIFTY, QuotaChange::KeepSpent);
    // Of the fifty the ten are owed.
    waiters[0].granted();
    assert_due(&clock, &mut waiters[1], ms(50));
}

#[test]
fn a_line_of_waiters_that_became_impossible_is_refused_at_once() {
    let (_clock, limiter) = spent(FIFTY);
    let mut waiters = line(&limiter, &[20; 100]);
    limiter.set_quota(TEN);
    assert_eq!(limiter.waiting(), 0);
    for waiter in &mut waiters {
        assert_eq!(waiter.wakes(), 1);
        assert_eq!(waiter.refused(), ErrorKind::ExceedsCapacity);
    }
}

#[test]
fn a_waiter_that_was_refused_and_leaves_without_noticing_gives_nothing_back() {
    let (_clock, limiter) = spent(FIFTY);
    let impossible = Waiter::parked(limiter.acquire_many(20));
    limiter.set_quota(TEN);
    assert_eq!(impossible.wakes(), 1);
    let before = limiter.peek();
    drop(impossible);
    assert_eq!(limiter.peek(), before);
    assert_limited(&limiter, 1, ms(100));
}

#[test]
fn a_reservation_that_became_impossible_is_refused_when_it_is_awaited() {
    let (_clock, limiter) = spent(FIFTY);
    let reservation = limiter.reserve_many(20).unwrap();
    limiter.set_quota(TEN);
    let refused = Waiter::new(reservation).refused();
    assert_eq!(refused, ErrorKind::ExceedsCapacity);
}

#[test]
fn one_that_was_granted_before_keeps_its_charge() {
    let (clock, limiter) = spent(TEN);
    let mut waiter = Waiter::parked(limiter.acquire());
    clock.advance(ms(100));
    limiter.set_quota(HOURLY);
    let charge = waiter.granted();
    assert_eq!((charge.cost(), at(&charge)), (1, ms(100)));
}

#[test]
fn no_newcomer_passes_the_line_when_the_quota_changes() {
    let (_clock, limiter) = spent(TEN);
    let mut waiter = Waiter::parked(limiter.acquire_many(1));
    limiter.set_quota_with(TEN, QuotaChange::KeepSpent);
    assert_eq!(kind(limiter.try_acquire()), ErrorKind::RateLimited);
    limiter.set_quota_with(TEN.burst(2), QuotaChange::KeepSpent);
    assert_eq!(waiter.wakes(), 1);
    assert_limited(&limiter, 1, ms(100));
    waiter.granted();
}

#[test]
fn the_quota_is_what_was_set() {
    let (_clock, limiter) = limiter(TEN);
    for quota in [FIFTY, HOURLY, FAST, TEN] {
        limiter.set_quota(quota);
        assert_eq!(limiter.quota(), quota);
        let decision = limiter.peek();
        assert_eq!(decision.limit, quota.max_burst());
    }
    let text = format!("{limiter:?}");
    assert!(
        text.contains("10/s") && text.contains("waiting: 0"),
        "{text}"
    );
}

#[test]
fn the_same_quota_again_changes_nothing() {
    for carry in [QuotaChange::Proportional, QuotaChange::KeepSpent] {
        let (clock, limiter) = spent(FIFTY);
        let mut waiters = line(&limiter, &[3, 4, 50]);
        clock.advance(ms(13));
        let before = limiter.peek_many(7);
        for _ in 0..100 {
            limiter.set_quota_with(FIFTY, carry);
        }
        assert_eq!(limiter.peek_many(7), before, "{carry:?}");
        clock.advance(ms(1000));
        assert_eq!(charged(&mut waiters), [ms(30), ms(70), ms(570)]);
    }
}

/// Those who wait are counted while the quota goes from one an hour to a thousand a second and
/// back.
fn up_and_down(limiter: &RateLimiter, carry: QuotaChange, advance: impl Fn(Duration)) {
    let mut random = Random::new(5);
    let mut waiters: Vec<_> = line(limiter, &[1; 1000]);
    let mut granted = 0;
    for round in 0..400 {
        let quota = if round % 2 == 0 { FAST } else { HOURLY };
        limiter.set_quota_with(quota, carry);
        advance(Duration::from_micros(u64::from(random.below(5000))));
        waiters.retain_mut(|waiter| match waiter.poll() {
            Poll::Ready(charge) => {
                granted += usize::from(charge.is_ok());
                false
            }
            Poll::Pending => true,
        });
        assert_eq!(granted + limiter.waiting(), 1000);
    }
    assert!(granted > 0, "nobody in so long a time");
    limiter.set_quota_with(FAST, carry);
    // A debt of one hour is one of 1 ms by now.
    advance(ms(1001));
    for waiter in &mut waiters {
        waiter.granted();
    }
}

#[test]
fn up_and_down_strands_nobody() {
    for carry in [QuotaChange::Proportional, QuotaChange::KeepSpent] {
        let (clock, limiter) = spent(HOURLY);
        up_and_down(&limiter, carry, |duration| clock.advance(duration));
        assert_eq!(limiter.waiting(), 0);
        clock.advance(Duration::from_secs(3600));
        assert_eq!(limiter.try_acquire().unwrap().at(), clock.now());
    }
}

#[test]
fn the_alarm_of_an_earlier_quota_does_no_harm() {
    let (clock, limiter) = spent(FAST);
    let mut waiter = Waiter::parked(limiter.acquire());
    limiter.set_quota(HOURLY);
    // The alarm for 1 ms goes off, finds nobody due, and is set anew.
    assert_due(&clock, &mut waiter, Duration::from_secs(3600));
    limiter.set_quota(FAST);
    let mut waiter = Waiter::parked(limiter.acquire());
    clock.advance(ms(1) - TICK);
    assert!(waiter.is_pending());
    clock.advance(TICK);
    waiter.granted();
}

/// From outside: a quota whose token is no whole number of nanoseconds gave a fraction of one with
/// each change, 5,999 tokens in 24,000 changes.
#[test]
fn set_quota_again_and_again_mints_nothing() {
    let quotas = [
        Quota::per_second(700_000_000).burst(1000),
        Quota::per_second(300_000_000).burst(1000),
        Quota::per_second(999_999_999).burst(1000),
    ];
    for how in [QuotaChange::Proportional, QuotaChange::KeepSpent] {
        let clock = tollgate::Clock::manual();
        clock.advance(Duration::from_secs(1));
        let limiter = RateLimiter::new(quotas[0]).clock(&clock);
        // A debt that no time pays off here.
        limiter.charge(1_000_000);
        let owed = |limiter: &RateLimiter| limiter.snapshot().in_use;
        let mut least = owed(&limiter);
        for change in 0..24_000_usize {
            limiter.set_quota_with(quotas[change % 3], how);
            let next = owed(&limiter);
            assert!(next >= least, "{how:?}, change {change}");
            least = next;
        }
    }
}

/// The same while time passes by single nanoseconds: what is paid off is at most the fastest rate.
#[test]
fn set_quota_beside_passing_nanoseconds_pays_off_no_more_than_the_rate() {
    let (fast, slow) = (
        Quota::per_second(700_000_000).burst(10),
        Quota::per_second(699_999_999).burst(10),
    );
    let clock = tollgate::Clock::manual();
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
