//! What a clock keeps: no more timers than there are queues and timeouts, however often those change.
//!
//! Counted in bytes that the process holds.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use stats_alloc::Region;
use tollgate::{Clock, CondvarSemaphore, ErrorKind, Quota, RateLimiter};

use crate::support::{Waiter, kind};
use crate::{COUNTED, alone};

const SECOND: Duration = Duration::from_secs(1);

const TIMES: usize = 20_000;

/// If only a waker and a tick were kept each time, it would be more than this.
const LITTLE: isize = 16 * TIMES as isize;

/// How much more is held afterwards, at the least of some times.
fn held_after(run: impl Fn()) -> isize {
    let _alone = alone();
    let held = (0..3).map(|_| {
        let region = Region::new(COUNTED);
        for _ in 0..TIMES {
            run();
        }
        let change = region.change();
        change.bytes_allocated as isize - change.bytes_deallocated as isize
    });
    held.min().expect("there are some")
}

fn clocks() -> [Clock; 2] {
    [Clock::system(), Clock::from(Clock::manual())]
}

fn limiter(clock: &Clock) -> Arc<RateLimiter> {
    let limiter = Arc::new(RateLimiter::new(Quota::per_day(1).burst(2)).clock(clock));
    limiter.try_acquire_many(2).unwrap();
    limiter
}

#[test]
fn what_is_counted_is_what_is_held() {
    let held = Mutex::new(Vec::new());
    assert!(held_after(|| held.lock().unwrap().push(Box::new([0_u64; 4]))) > LITTLE);
}

/// What is done again and again to a limiter whose burst of 2 is taken, on each clock.
#[test]
fn waits_that_come_and_go_leave_no_timer() {
    type Act = fn(&Clock, &Arc<RateLimiter>);
    let rows: [(&str, Act); 4] = [
        ("a wait, and one that is due earlier", |_, limiter| {
            drop(Waiter::parked(limiter.acquire_many(2)));
            drop(Waiter::parked(limiter.acquire()));
        }),
        ("a timeout", |_, limiter| {
            let timeout = limiter.acquire().timeout(86_400 * 2 * SECOND);
            drop(Waiter::parked(timeout));
        }),
        ("another quota", |_, limiter| {
            for quota in [Quota::per_day(2), Quota::per_day(1)] {
                limiter.set_quota(quota.burst(2));
            }
        }),
        ("a limiter that is dropped while one waits", |clock, _| {
            let limiter = limiter(clock);
            let reservation = limiter.reserve().unwrap();
            let waiter = Waiter::parked(Arc::clone(&limiter).acquire_owned());
            drop(limiter);
            drop((waiter, reservation));
        }),
    ];
    for (name, act) in rows {
        for clock in clocks() {
            let limiter = limiter(&clock);
            let waiter = Waiter::parked(limiter.acquire());
            let held = held_after(|| act(&clock, &limiter));
            assert!(held < LITTLE, "{name}: {clock:?} holds {held}");
            drop(waiter);
        }
    }
}

#[cfg(feature = "tokio")]
#[test]
fn waits_on_the_time_of_tokio_leave_nothing_once_the_runtime_has_run() {
    let runtime = crate::support::paused_runtime();
    let one = runtime.block_on(async { limiter(&Clock::tokio()) });
    let held = held_after(|| {
        runtime.block_on(async {
            drop(Waiter::parked(one.acquire_many(2)));
            drop(Waiter::parked(one.acquire()));
            let other = limiter(&Clock::tokio());
            let reservation = other.reserve().unwrap();
            drop(other);
            drop(reservation);
            tokio::task::yield_now().await;
        });
    });
    assert!(held < LITTLE, "{held}");
}

/// A token registers each wait that it can end.
#[cfg(feature = "tokio")]
#[test]
fn blocked_waits_that_are_over_leave_nothing_in_their_tokens() {
    let semaphore = CondvarSemaphore::new(1);
    let _held = semaphore.try_acquire().unwrap();
    let token = tokio_util::sync::CancellationToken::new();
    let held = held_after(|| {
        let request = semaphore.acquire().timeout(Duration::from_nanos(1));
        let refused = request.cancel_on(&token).cancel_on(&token).wait();
        assert_eq!(kind(refused), ErrorKind::TimedOut);
    });
    assert!(held < LITTLE, "holds {held}");
}
