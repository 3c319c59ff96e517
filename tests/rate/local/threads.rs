//! Handles in real threads, audited.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use tollgate::{Clock, MissedTickBehavior, Quota, RateLimiter};

use crate::support::random::on_threads;

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
