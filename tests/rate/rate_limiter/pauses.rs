//! Pauses: nothing is admitted before the end, and then one by one, in the order of the queue.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{
    Algorithm, Clock, ErrorKind, LeakyBucket, Oversize, Quota, QuotaChange, RateLimiter,
};

use crate::setup::{FIFTY, TEN, TICK, at, limiter, ms, queue, spent};
use crate::support::Waiter;

const SECOND: Duration = Duration::from_secs(1);

/// Returns when seven waiters are charged, in milliseconds since they joined, 5 s after the epoch.
fn charged(algorithm: Algorithm, pause: Duration) -> Vec<u128> {
    let clock = Clock::manual();
    clock.advance(5 * SECOND);
    let limiter = RateLimiter::new(TEN.burst(10))
        .algorithm(algorithm)
        .clock(&clock);
    limiter.pause_for(pause);
    let mut waiters = queue(&limiter, &[1; 7]);
    (0..3000).for_each(|_| clock.advance(ms(1)));
    let at = waiters.iter_mut().map(|waiter| at(&waiter.granted()));
    at.map(|at| (at - 5 * SECOND).as_millis()).collect()
}

#[test]
fn pause_for_under_each_algorithm_is_followed_by_one_call() {
    for &algorithm in Algorithm::all() {
        let expected = match algorithm {
            Algorithm::Gcra | Algorithm::SlidingLog => [250, 350, 450, 550, 650, 750, 850],
            // In this window everything else is spent; in the next it fades.
            Algorithm::SlidingWindow => [250, 1100, 1200, 1300, 1400, 1500, 1600],
            // The next batch comes at once, as always.
            _ if algorithm.keeps_a_word() => {
                let batch = algorithm.batch(TEN.burst(10));
                let (count, period) = (batch.count() as usize, batch.period().as_millis());
                let later = (1..).map(|number| number * period).filter(|at| *at > 250);
                let each = later.flat_map(|at| std::iter::repeat_n(at, count));
                let mut expected = [250; 7];
                expected[1..]
                    .iter_mut()
                    .zip(each)
                    .for_each(|(at, due)| *at = due);
                expected
            }
            other => panic!("{other}: add what it admits after a pause"),
        };
        assert_eq!(charged(algorithm, ms(250)), expected, "{algorithm}");
    }
}

#[test]
fn pause_for_ends_at_the_exact_tick_under_each_algorithm() {
    for &algorithm in Algorithm::all() {
        // A token is no whole number of nanoseconds.
        let quota = Quota::per_second(7).burst(7);
        let clock = Clock::manual();
        let limiter = RateLimiter::new(quota).algorithm(algorithm).clock(&clock);
        limiter.try_acquire().unwrap();
        let pause = ms(3333) + TICK;
        limiter.pause_for(pause);
        for _ in 0..2 {
            let refused = limiter.try_acquire().unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::RateLimited);
            let left = limiter
                .paused_until()
                .unwrap()
                .saturating_since(clock.now());
            assert_eq!(refused.retry_after(), Some(left), "{algorithm}");
            assert_eq!(limiter.peek().retry_after, left);
            assert_eq!(limiter.snapshot().available, 0);
            clock.advance(left - TICK);
        }
        clock.advance(TICK);
        assert_eq!(limiter.paused_until(), None);
        limiter.try_acquire().unwrap();
        assert!(limiter.try_acquire().is_err(), "{algorithm}");
        // What was earned since is there.
        clock.advance(60 * SECOND);
        let burst = limiter.snapshot().limit;
        limiter.try_acquire_many(burst).unwrap();
    }
}

/// The slots of charges that are ahead look free.
#[test]
fn pause_for_under_a_log_keeps_what_was_forced() {
    let (clock, limiter) = limiter(Quota::per_second(4));
    let limiter = limiter.algorithm(Algorithm::SlidingLog);
    clock.advance(200 * SECOND);
    limiter.try_acquire_many(3).unwrap();
    clock.advance(ms(992));
    limiter.charge(1000);
    let before = limiter.peek().retry_after;
    assert_eq!(before, 250 * SECOND);
    limiter.pause_for(ms(95));
    assert_eq!(limiter.peek().retry_after, before);
}

/// There are no ticks before the epoch, and a limit by the hour must not stop for an hour.
#[test]
fn pause_for_under_a_log_younger_than_its_period_spends_nothing() {
    let (clock, limiter) = limiter(Quota::per_hour(10));
    let limiter = limiter.algorithm(Algorithm::SlidingLog);
    clock.advance(SECOND);
    limiter.try_acquire().unwrap();
    limiter.pause_for(59 * SECOND);
    assert_eq!(limiter.peek().retry_after, 59 * SECOND);
    clock.advance(59 * SECOND - TICK);
    limiter.try_acquire().unwrap_err();
    clock.advance(TICK);
    limiter.try_acquire_many(9).unwrap();
    assert_eq!(limiter.peek().retry_after, 3541 * SECOND);
}

#[test]
fn pause_for_holds_waiters_in_their_order() {
    let (clock, limiter) = spent(FIFTY);
    let mut waiters = queue(&limiter, &[1, 3, 1]);
    limiter.pause_for(SECOND);
    let mut last = Waiter::parked(limiter.acquire());
    let reserved = limiter.reserve().unwrap();
    assert_eq!(reserved.delay(), SECOND + ms(60));
    clock.advance(SECOND - TICK);
    assert!(waiters.iter_mut().all(Waiter::is_pending));
    clock.advance(TICK);
    (0..6).for_each(|_| clock.advance(ms(10)));
    let at = waiters.iter_mut().map(|waiter| at(&waiter.granted()));
    assert_eq!(at.collect::<Vec<_>>(), [1000, 1030, 1040].map(ms));
    last.granted();
    assert_eq!(reserved.delay(), Duration::ZERO);
}

#[test]
fn pause_for_beyond_a_timeout_refuses_at_once() {
    let (_clock, limiter) = limiter(TEN);
    limiter.pause_for(SECOND);
    let refused = limiter.acquire().timeout(SECOND - TICK).wait().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TimedOut);
    assert_eq!(refused.retry_after(), Some(SECOND));
    assert_eq!(limiter.snapshot().waiting, 0);
    Waiter::new(limiter.acquire_many(0)).granted();
    let full = RateLimiter::new(TEN).clock(Clock::manual()).max_waiters(0);
    full.pause_for(SECOND);
    let refused = full.acquire().wait().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::QueueFull);
    assert_eq!(refused.retry_after(), Some(SECOND));
}

#[test]
fn pause_for_keeps_the_longest() {
    let (clock, limiter) = limiter(TEN.burst(3));
    limiter.pause_for(Duration::ZERO);
    clock.advance(SECOND);
    limiter.pause_for(Duration::ZERO);
    assert_eq!(
        (limiter.paused_until(), limiter.snapshot().available),
        (None, 3)
    );
    let end = clock.now().saturating_add(SECOND);
    limiter.pause_for(SECOND);
    limiter.pause_for(ms(999));
    assert_eq!(limiter.paused_until(), Some(end));
    limiter.pause_for(SECOND + ms(5));
    let refused = limiter.try_acquire().unwrap_err();
    assert_eq!(refused.retry_after(), Some(SECOND + ms(5)));
    let text = refused.to_string();
    assert_eq!(text, "the limiter is paused, try again in 1.005s");
    assert_eq!(limiter.peek().reset_after, SECOND + ms(205));
    let snapshot = limiter.snapshot();
    assert_eq!((snapshot.in_use, snapshot.available), (3, 0));
}

#[test]
fn pause_for_ever_never_ends() {
    let (clock, limiter) = limiter(TEN);
    limiter.pause_for(Duration::MAX);
    let mut waiter = Waiter::parked(limiter.acquire());
    clock.advance(Duration::from_secs(20 * 365 * 24 * 3600));
    assert!(waiter.is_pending());
    let refused = limiter.try_acquire().unwrap_err();
    assert_eq!(refused.retry_after(), Some(Duration::MAX));
    assert_eq!(refused.to_string(), "the limiter is paused");
    limiter.close();
    assert_eq!(waiter.refused(), ErrorKind::Closed);
}

/// A charge from before cannot be refunded, but one that was forced meanwhile can.
#[test]
fn refund_during_a_pause_makes_nothing_due_earlier() {
    let (clock, limiter) = limiter(TEN.burst(5));
    let before = limiter.try_acquire_many(5).unwrap();
    limiter.pause_for(ms(100));
    limiter.refund(before);
    assert_eq!(limiter.peek().retry_after, ms(100));
    let forced = limiter.charge(2);
    assert_eq!(limiter.peek().retry_after, ms(300));
    limiter.refund(forced);
    assert_eq!(limiter.peek().retry_after, ms(100));
    clock.advance(ms(100));
    limiter.try_acquire().unwrap();
    assert_eq!(limiter.peek().retry_after, ms(100));
}

#[test]
fn refund_of_a_charge_that_was_forced_in_a_pause_under_each_algorithm_gives_it_back() {
    for &algorithm in Algorithm::all() {
        let clock = Clock::manual();
        clock.advance(60 * SECOND);
        let limiter = RateLimiter::new(TEN.burst(10))
            .algorithm(algorithm)
            .clock(&clock);
        limiter.pause_for(60 * SECOND);
        let forced = limiter.charge(30);
        assert!(limiter.peek().retry_after > 60 * SECOND, "{algorithm}");
        limiter.refund(forced);
        assert_eq!(limiter.peek().retry_after, 60 * SECOND, "{algorithm}");
    }
}

#[test]
fn set_quota_during_a_pause_keeps_its_end_and_what_was_forced() {
    // What is forced beyond a burst of 9 is scaled in proportion to the bursts, and rounded up.
    for (how, forced) in [(QuotaChange::Proportional, 1), (QuotaChange::KeepSpent, 3)] {
        for (quota, later) in [
            (Quota::per_second(100).burst(9), 10),
            (Quota::per_second(1), 1000),
        ] {
            let (clock, limiter) = limiter(TEN.burst(5));
            limiter.pause_for(SECOND);
            let mut waiter = Waiter::parked(limiter.acquire());
            limiter.set_quota_with(quota, how);
            assert_eq!(limiter.peek().retry_after, SECOND + ms(later));
            clock.advance(SECOND);
            assert_eq!(at(&waiter.granted()), SECOND);

            limiter.pause_for(SECOND);
            limiter.charge(3);
            limiter.set_quota_with(TEN, how);
            let forced = if quota.max_burst() == 1 { 3 } else { forced };
            assert_eq!(limiter.peek().retry_after, SECOND + ms(100 * forced));
        }
    }
}

/// The same limiter without a pause owes the same after the change.
#[test]
fn set_quota_during_a_pause_scales_what_was_forced_like_any_backlog() {
    for (how, seconds) in [
        (QuotaChange::Proportional, 101),
        (QuotaChange::KeepSpent, 1001),
    ] {
        for pause in [Duration::ZERO, TICK] {
            let (clock, limiter) = limiter(TEN.burst(10));
            limiter.charge(1010);
            limiter.pause_for(pause);
            limiter.set_quota_with(Quota::per_second(1), how);
            clock.advance(pause);
            assert_eq!(limiter.peek().retry_after.as_secs(), seconds);
        }
    }
}

/// Calls that were admitted count for a period, whether or not there was a pause and a change.
#[test]
fn set_quota_during_a_pause_keeps_the_charges_of_a_log() {
    for (old, new) in [
        (TEN, Quota::per_second(11)),
        // Of a log younger than its period.
        (Quota::per_hour(10), Quota::per_hour(11)),
    ] {
        for how in [QuotaChange::Proportional, QuotaChange::KeepSpent] {
            let (clock, limiter) = limiter(old);
            let limiter = limiter.algorithm(Algorithm::SlidingLog);
            clock.advance(10 * SECOND);
            limiter.try_acquire_many(10).unwrap();
            clock.advance(ms(10));
            limiter.pause_for(ms(50));
            limiter.set_quota_with(new, how);
            clock.advance(ms(50));
            // The eleventh is free only if what was spent is kept as it is.
            let free = limiter.try_acquire().is_ok();
            assert_eq!(free, how == QuotaChange::KeepSpent);
            assert_eq!(limiter.peek().retry_after, new.period() - ms(60));
        }
    }
}

#[test]
fn pause_for_holds_an_overdraft_and_a_leaky_bucket() {
    let clock = Clock::manual();
    let overdraft = RateLimiter::new(TEN.burst(2)).oversize(Oversize::Overdraft);
    let overdraft = overdraft.clock(&clock);
    overdraft.pause_for(SECOND);
    let refused = overdraft.try_acquire_many(5).unwrap_err();
    assert_eq!(refused.retry_after(), Some(SECOND + ms(100)));
    let bucket = LeakyBucket::new(TEN, 5).clock(&clock);
    bucket.pause_for(SECOND);
    bucket.pause_for(2 * SECOND);
    let refused = bucket.try_acquire().unwrap_err();
    assert_eq!(refused.retry_after(), Some(2 * SECOND));
}

/// The most obvious limiter: it earns a nanosecond each nanosecond, and a token is `INTERVAL`.
struct Naive {
    earned: u64,
    now: u64,
    paused_until: u64,
}

const INTERVAL: u64 = 100;
const BURST: u64 = 4;

impl Naive {
    fn advance(&mut self, nanos: u64) {
        for _ in 0..nanos {
            self.now += 1;
            self.earned = (self.earned + 1).min(BURST * INTERVAL);
            if self.now == self.paused_until {
                self.earned = self.earned.min(INTERVAL);
            }
        }
    }

    /// Charges, or returns how long it takes.
    fn take(&mut self, cost: u64) -> Option<u64> {
        let pause = self.paused_until.saturating_sub(self.now);
        let earned = match pause {
            0 => self.earned,
            _ => (self.earned + pause).min(INTERVAL),
        };
        let lacking = (cost * INTERVAL).saturating_sub(earned);
        if pause + lacking > 0 {
            return Some(pause + lacking);
        }
        self.earned -= cost * INTERVAL;
        None
    }
}

proptest! {
    #[test]
    fn pause_for_agrees_with_a_naive_limiter(
        steps in prop::collection::vec((0..4_u64, 0..600_u64), 1..60),
    ) {
        let quota = Quota::new(1, Duration::from_nanos(INTERVAL)).burst(BURST);
        let (clock, limiter) = limiter(quota);
        let (earned, now, paused_until) = (BURST * INTERVAL, 0, 0);
        let mut naive = Naive { earned, now, paused_until };
        for (step, number) in steps {
            match step {
                0 => {
                    clock.advance(Duration::from_nanos(number));
                    naive.advance(number);
                }
                1 => {
                    limiter.pause_for(Duration::from_nanos(number));
                    if number > 0 {
                        naive.paused_until = naive.paused_until.max(naive.now + number);
                    }
                }
                _ => {
                    let cost = 1 + number % BURST;
                    let refused = limiter.try_acquire_many(cost).err();
                    let after = refused.map(|refused| refused.retry_after().unwrap());
                    prop_assert_eq!(after, naive.take(cost).map(Duration::from_nanos));
                }
            }
        }
    }
    /// The same limiter without the pause has what there is at the end.
    #[test]
    fn pause_for_under_each_algorithm_leaves_at_most_one_token_of_what_there_is(
        algorithm in prop::sample::select(Algorithm::all()),
        count in 5..11_u64,
        steps in prop::collection::vec((0..3_u64, 0..3000_u64), 0..8),
        pause in 1..4000_u64,
    ) {
        let clock = Clock::manual();
        clock.advance(60 * SECOND);
        let quota = Quota::per_second(count).burst(count);
        let [paused, other] =
            [(); 2].map(|()| RateLimiter::new(quota).algorithm(algorithm).clock(&clock));
        for (step, number) in steps {
            let cost = 1 + number % 3;
            match step {
                0 => clock.advance(ms(number)),
                1 => {
                    let admitted = paused.try_acquire_many(cost).is_ok();
                    prop_assert_eq!(admitted, other.try_acquire_many(cost).is_ok());
                }
                _ => {
                    paused.charge(cost);
                    other.charge(cost);
                }
            }
        }
        paused.pause_for(ms(pause));
        clock.advance(ms(pause));
        prop_assert_eq!(paused.snapshot().available, other.snapshot().available.min(1));
        prop_assert_eq!(paused.peek().retry_after, other.peek().retry_after);
    }
}
