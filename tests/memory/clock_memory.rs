//! What a clock keeps: no more alarms than there are lines and timeouts, however often those change.
//!
//! Counted in bytes that the process holds.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use stats_alloc::Region;
use tollgate::{Clock, Quota, RateLimiter};

use crate::support::Waiter;
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

#[test]
fn one_who_comes_and_goes_leaves_no_alarm() {
    for clock in clocks() {
        let limiter = limiter(&clock);
        let held = held_after(|| {
            drop(Waiter::parked(limiter.acquire_many(2)));
            // Due earlier, so the alarm is moved.
            drop(Waiter::parked(limiter.acquire()));
        });
        assert!(held < LITTLE, "{clock:?} holds {held}");
    }
}

#[test]
fn timeouts_that_come_and_go_leave_no_alarm() {
    for clock in clocks() {
        let limiter = limiter(&clock);
        let held = held_after(|| {
            drop(Waiter::parked(
                limiter.acquire().timeout(86_400 * 2 * SECOND),
            ))
        });
        assert!(held < LITTLE, "{clock:?} holds {held}");
    }
}

#[test]
fn a_quota_that_changes_all_the_time_leaves_one_alarm() {
    for clock in clocks() {
        let limiter = limiter(&clock);
        let waiter = Waiter::parked(limiter.acquire());
        let held = held_after(|| {
            for quota in [Quota::per_day(2), Quota::per_day(1)] {
                limiter.set_quota(quota.burst(2));
            }
        });
        assert!(held < LITTLE, "{clock:?} holds {held}");
        drop(waiter);
    }
}

#[test]
fn limiters_that_are_dropped_while_somebody_is_in_line_leave_nothing() {
    for clock in clocks() {
        let held = held_after(|| {
            let limiter = limiter(&clock);
            let reservation = limiter.reserve().unwrap();
            let waiter = Waiter::parked(Arc::clone(&limiter).acquire_owned());
            drop(limiter);
            drop((waiter, reservation));
        });
        assert!(held < LITTLE, "{clock:?} holds {held}");
    }
}

#[cfg(feature = "tokio")]
#[test]
fn on_the_time_of_tokio_nothing_is_left_once_the_runtime_has_run() {
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
