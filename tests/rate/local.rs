//! Local handles of a limiter. What they take ahead, let through and give back is in the tables and compared
//! with the model in `rate_model`; here are threads, and what a handle is beside that.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tollgate::{Clock, ErrorKind, LocalLimiter, MissedTickBehavior, Quota, RateLimiter};

use crate::setup::{FIFTY, limiter, ms, spent};
use crate::support::random::on_threads;
use crate::support::{Waiter, kind};

/// A handle that is dropped, also by a panic, gives the rest back; one that is leaked leaves it to
/// time. The waiters get it.
#[test]
fn handle_that_goes_gives_the_rest_back() {
    type Go = fn(LocalLimiter);
    let rows: [(&str, Go, usize); 3] = [
        ("dropped", |local| drop(local), 1),
        (
            "panicked",
            |local| {
                let panicked = catch_unwind(AssertUnwindSafe(move || {
                    assert_eq!(local.buffered(), 0, "on purpose");
                }));
                assert!(panicked.is_err());
            },
            1,
        ),
        ("leaked", |local| std::mem::forget(local), 0),
    ];
    for (name, go, wakes) in rows {
        let (clock, limiter) = limiter(FIFTY);
        let mut local = limiter.local(50);
        local.try_acquire_many(20).unwrap();
        let mut waiter = Waiter::parked(limiter.acquire_many(30));
        go(local);
        assert_eq!(waiter.wakes(), wakes, "{name}");
        clock.advance(ms(300));
        waiter.granted();
    }
}

#[test]
fn handle_outlives_its_limiter_and_may_be_of_a_static() {
    static SHARED: RateLimiter = RateLimiter::new(Quota::per_hour(1).burst(10));
    let mut local = SHARED.local(4);
    local.try_acquire().unwrap();
    assert!(SHARED.try_acquire_many(7).is_err());
    assert_eq!(
        format!("{local:?}"),
        "LocalLimiter { buffered: 3, batch: 4, .. }"
    );
    let (_clock, limiter) = limiter(Quota::per_second(1).burst(3));
    let mut local = limiter.local(2);
    drop(limiter);
    (0..3).for_each(|_| local.try_acquire().unwrap());
    assert!(local.try_acquire().is_err());
}

/// A limiter that starts fresh in the second runtime gets nothing back of what was buffered before.
#[cfg(feature = "tokio")]
#[test]
fn return_unused_in_another_runtime_gives_nothing_back() {
    use crate::support::paused_runtime;
    use tollgate::Clock;

    let limiter = RateLimiter::new(Quota::per_hour(1).burst(10)).clock(Clock::tokio());
    let (first, second) = (paused_runtime(), paused_runtime());
    let mut local = limiter.local(4);
    first.block_on(async { local.try_acquire().unwrap() });
    second.block_on(async {
        (0..4).for_each(|_| local.try_acquire().unwrap());
        assert_eq!(limiter.snapshot().available, 6);
        local.return_unused();
        assert_eq!(limiter.snapshot().available, 9);
    });
    first.block_on(async { local.try_acquire().unwrap() });
    second.block_on(async { local.return_unused() });
}

/// A handle with seven buffered, of a limiter whose rest is taken; three are missing for ten.
fn buffered_seven() -> (tollgate::ManualClock, RateLimiter, LocalLimiter) {
    let (clock, limiter) = limiter(FIFTY);
    let mut local = limiter.local(8);
    local.try_acquire().unwrap();
    limiter.try_acquire_many(42).unwrap();
    (clock, limiter, local)
}

/// On the clock by which calls are decided without the lock, a call after one that was refused asks for
/// itself alone, and then for the rest of a batch.
#[test]
fn try_acquire_after_a_refusal_takes_what_there_is_of_a_batch() {
    for (left, buffered) in [(1, 0), (5, 4), (50, 7)] {
        let limiter = RateLimiter::new(Quota::per_hour(1).burst(50)).clock(Clock::system());
        let charge = limiter.try_acquire_many(50).unwrap();
        let mut local = limiter.local(8);
        for _ in 0..2 {
            let refused = local.try_acquire().unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::RateLimited);
            assert!(refused.retry_after() > Some(Duration::from_secs(3500)));
        }
        assert!(local.try_acquire_many(51).is_err());
        limiter.settle(charge, 50 - left);
        local.try_acquire().unwrap();
        assert_eq!(local.buffered(), buffered);
        let available = limiter.snapshot().available;
        assert_eq!(available, left - 1 - buffered);
        local.return_unused();
        assert_eq!(limiter.snapshot().available, left - 1);
    }
}

#[test]
fn close_ends_a_wait_and_leaves_what_is_buffered() {
    let (_clock, limiter, mut local) = buffered_seven();
    let mut waiter = Waiter::parked(local.acquire_many(10));
    limiter.close();
    assert_eq!(waiter.wakes(), 1);
    assert_eq!(waiter.refused(), ErrorKind::Closed);
    drop(waiter);
    assert_eq!(kind(local.try_acquire_many(8)), ErrorKind::Closed);
    local.try_acquire_many(6).unwrap();
    Waiter::new(local.acquire()).granted();
    assert_eq!(kind(local.try_acquire()), ErrorKind::Closed);
    for cost in [0, 1] {
        let refused = Waiter::new(local.acquire_many(cost)).refused();
        assert_eq!(refused, ErrorKind::Closed);
    }
}

#[test]
fn acquire_with_a_timeout_that_will_not_fit_is_refused_at_once() {
    let (clock, limiter) = spent(FIFTY);
    let mut local = limiter.local(32);
    let tick = Duration::from_nanos(1);
    let waiting = local.acquire_many(3).timeout(ms(30) - tick);
    let error = Waiter::new(waiting).output().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert_eq!(error.retry_after(), Some(ms(30)));
    let mut waiter = Waiter::parked(local.acquire_many(3).timeout(ms(30)));
    clock.advance(ms(30));
    waiter.granted();
}

/// Time stands still, so that what is let through is exactly what there is: nothing is lost between a
/// handle that gives back and another that takes, and nothing is let through twice.
#[test]
fn all_that_there_is_and_no_more_is_let_through() {
    for _ in 0..20 {
        let burst = 10_000;
        let limiter = RateLimiter::new(Quota::per_hour(1).burst(burst)).clock(Clock::manual());
        let (start, number) = (Barrier::new(4), AtomicUsize::new(0));
        let through = on_threads(4, |random| {
            let batch = [1, 7, 32, 500][number.fetch_add(1, Ordering::SeqCst)];
            let mut local = limiter.local(batch);
            start.wait();
            let mut through = 0;
            for _ in 0..4_000 {
                let cost = u64::from(1 + random.below(2));
                if local.try_acquire_many(cost).is_ok() {
                    through += cost;
                }
                if random.below(50) == 0 {
                    local.return_unused();
                }
            }
            through
        });
        assert_eq!(
            through.iter().sum::<u64>() + limiter.snapshot().available,
            burst
        );
    }
}

/// On the clock of the system. Each call is let through somewhere between a tick just before it and
/// one just after it; so those that lie in a window with both are surely in it.
#[test]
fn in_any_window_there_is_no_more_than_the_bound() {
    const BATCH: u64 = 32;
    const THREADS: u64 = 3;
    let quota = Quota::per_second(200_000).burst(100);
    // A waiter is charged when it goes.
    let limiter = RateLimiter::new(quota).missed_tick(MissedTickBehavior::Delay);
    let clock = Clock::system();
    let mut through = on_threads(THREADS, |random| {
        let mut local = limiter.local(BATCH);
        let mut through = Vec::new();
        while through.len() < 2_000 {
            let before = clock.now().as_nanos();
            let cost = u64::from(1 + random.below(3));
            let admitted = match random.below(20) {
                0 => local.acquire_many(cost).wait(),
                _ => local.try_acquire_many(cost),
            };
            if admitted.is_ok() {
                through.push((before, clock.now().as_nanos(), cost));
            }
        }
        through
    })
    .concat();
    // The clocks of two threads may disagree by some microseconds.
    let slack = 10_000;
    through.sort_unstable();
    for (first, (from, _, _)) in through.iter().enumerate().step_by(7) {
        let mut windows: Vec<_> = through[first..]
            .iter()
            .map(|(_, end, cost)| (*end, *cost))
            .collect();
        windows.sort_unstable();
        let mut sum = 0;
        for (until, cost) in windows {
            sum += cost;
            let window = u128::from(until - from + slack);
            let paid = u128::from(quota.count()) * window / quota.period().as_nanos();
            let most = quota.max_burst() + THREADS * BATCH;
            assert!(
                u128::from(sum) <= u128::from(most) + paid,
                "{sum} from {from} to {until}"
            );
        }
    }
}
