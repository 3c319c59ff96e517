//! A permit that is released some time after the work has ended.

use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use tollgate::semaphore::Resting;
use tollgate::semaphore::{OwnedPermit, ReleaseAfter};
use tollgate::time::ManualClock;
use tollgate::{
    Clock, ErrorKind, Keyed, Quota, RateLimiter, Semaphore, Throttle, TryThrottle, all,
};

use crate::support::{Waiter, ends, kind};

const TWO_SECONDS: Duration = Duration::from_secs(2);
const NANO: Duration = Duration::from_nanos(1);

/// Returns a clock, and a semaphore of one permit, which is taken.
fn taken() -> (ManualClock, Arc<Semaphore>, ReleaseAfter<OwnedPermit>) {
    let (clock, semaphore) = (Clock::manual(), Arc::new(Semaphore::new(1)));
    let permit = Arc::clone(&semaphore).try_acquire_owned().unwrap();
    let permit = permit.release_after(TWO_SECONDS).clock(&clock);
    (clock, semaphore, permit)
}

/// Asserts that the permit is released in two seconds, and not a nanosecond earlier.
#[track_caller]
fn assert_released_in_two_seconds(clock: &ManualClock, semaphore: &Semaphore) {
    clock.advance(TWO_SECONDS - NANO);
    assert_eq!(semaphore.available_permits(), 0);
    clock.advance(NANO);
    assert_eq!(semaphore.available_permits(), 1);
}

#[test]
fn drop_after_the_work_holds_the_permit_for_the_duration() {
    let (clock, semaphore, permit) = taken();
    clock.advance(10 * TWO_SECONDS);
    assert_eq!((semaphore.available_permits(), permit.count()), (0, 1));
    drop(permit);
    assert_released_in_two_seconds(&clock, &semaphore);
}

#[test]
fn release_after_as_a_statement_counts_from_now() {
    let clock = Clock::manual();
    let semaphore: &'static Semaphore = Box::leak(Box::new(Semaphore::new(1)));
    let permit = semaphore.try_acquire().unwrap();
    permit.release_after(TWO_SECONDS).clock(&clock);
    assert_released_in_two_seconds(&clock, semaphore);
}

#[test]
fn drop_by_a_panic_or_of_a_future_holds_the_permit_for_the_duration() {
    let (clock, semaphore, permit) = taken();
    let panicked = catch_unwind(move || {
        let _permit = permit;
        std::panic::panic_any("in the work");
    });
    assert!(panicked.is_err());
    assert_released_in_two_seconds(&clock, &semaphore);

    let (clock, semaphore, permit) = taken();
    let work = Waiter::parked(async move {
        let _permit = permit;
        std::future::pending::<()>().await;
    });
    drop(work);
    assert_released_in_two_seconds(&clock, &semaphore);
}

#[test]
fn drop_with_waiters_admits_the_first_after_the_duration() {
    let (clock, semaphore, permit) = taken();
    let (mut first, mut second) = (
        Waiter::parked(semaphore.acquire()),
        Waiter::parked(semaphore.acquire()),
    );
    drop(permit);
    clock.advance(TWO_SECONDS - NANO);
    assert!(first.is_pending());
    clock.advance(NANO);
    assert_eq!((first.wakes(), second.wakes()), (1, 0));
    drop(first.granted());
    assert!(second.granted().count() == 1);
}

#[test]
fn close_and_wait_idle_count_the_permit_as_held() {
    let (clock, semaphore, permit) = taken();
    drop(permit);
    semaphore.close();
    let mut idle = Waiter::parked(semaphore.wait_idle());
    assert_eq!(kind(semaphore.try_acquire()), ErrorKind::Closed);
    assert_eq!(semaphore.snapshot().in_use, 1);
    clock.advance(TWO_SECONDS - NANO);
    assert!(idle.is_pending());
    clock.advance(NANO);
    idle.output();
}

#[test]
fn drop_of_the_semaphore_frees_it_when_the_permit_is_released() {
    let (clock, semaphore, permit) = taken();
    let observer = Arc::downgrade(&semaphore);
    drop((semaphore, permit));
    clock.advance(TWO_SECONDS - NANO);
    assert!(observer.upgrade().is_some());
    clock.advance(NANO);
    assert!(observer.upgrade().is_none());
}

#[test]
fn drop_of_the_clock_releases_the_permit() {
    let (clock, semaphore, permit) = taken();
    drop(permit);
    assert_eq!(semaphore.available_permits(), 0);
    drop(clock);
    assert_eq!(semaphore.available_permits(), 1);
}

#[test]
fn drop_with_a_duration_of_zero_releases_at_once_and_with_the_longest_never() {
    let (clock, semaphore) = (Clock::manual(), Arc::new(Semaphore::new(2)));
    for (duration, available) in [(Duration::ZERO, 2), (Duration::MAX, 1)] {
        let permit = Arc::clone(&semaphore).try_acquire_owned().unwrap();
        drop(permit.release_after(duration).clock(&clock));
        clock.advance(Duration::MAX);
        assert_eq!(semaphore.available_permits(), available);
    }
}

#[test]
fn new_of_a_composition_releases_all_of_it() {
    let (clock, total) = (Clock::manual(), Arc::new(Semaphore::new(64)));
    let hosts = Keyed::<u64, _>::semaphores(1);
    let both = all((hosts.key(&7), Arc::clone(&total)));
    drop(ReleaseAfter::new(both.try_acquire().unwrap(), TWO_SECONDS).clock(&clock));
    clock.advance(TWO_SECONDS - NANO);
    assert_eq!(hosts.key(&7).snapshot().in_use, 1);
    assert_eq!(total.available_permits(), 63);
    clock.advance(NANO);
    assert_eq!(hosts.key(&7).snapshot().in_use, 0);
    assert_eq!(total.available_permits(), 64);
}

#[test]
fn key_of_a_released_permit_makes_room_for_another() {
    let clock = Clock::manual();
    let hosts = Keyed::<u64, _>::semaphores(1).max_keys(1);
    let permit = hosts.key(&1).try_acquire().unwrap();
    drop(permit.release_after(TWO_SECONDS).clock(&clock));
    hosts.shrink();
    clock.advance(TWO_SECONDS - NANO);
    assert_eq!(kind(hosts.key(&2).try_acquire()), ErrorKind::TooManyKeys);
    clock.advance(NANO);
    assert!(hosts.key(&2).try_acquire().is_ok());
    hosts.shrink();
    assert!(hosts.is_empty());
}

/// Panics when it is dropped, and reports it first.
struct Panics(std::sync::mpsc::Sender<()>);

impl Drop for Panics {
    fn drop(&mut self) {
        self.0.send(()).unwrap();
        std::panic::panic_any("a guard that panics");
    }
}

#[test]
fn drop_of_a_guard_that_panics_is_contained() {
    let (sender, dropped) = channel();
    let clock = Clock::manual();
    for duration in [Duration::ZERO, TWO_SECONDS] {
        drop(ReleaseAfter::new(Panics(sender.clone()), duration).clock(&clock));
        clock.advance(duration);
        dropped.try_recv().unwrap();
    }
    // The clock that is dropped releases it.
    drop(ReleaseAfter::new(Panics(sender.clone()), TWO_SECONDS).clock(&clock));
    drop(clock);
    dropped.try_recv().unwrap();
    // On the timer thread, which continues.
    for _ in 0..2 {
        drop(ReleaseAfter::new(Panics(sender.clone()), NANO).clock(Clock::system()));
        dropped.recv().unwrap();
    }
}

#[test]
fn drop_on_the_system_clock_releases_after_the_duration() {
    const SHORT: Duration = Duration::from_millis(2);
    let semaphore = Arc::new(Semaphore::new(1));
    let permit = Arc::clone(&semaphore).try_acquire_owned().unwrap();
    let dropped = Clock::system().now();
    drop(permit.release_after(SHORT).clock(Clock::system()));
    ends(move || drop(semaphore.acquire().wait()));
    assert!(Clock::system().now().saturating_since(dropped) >= SHORT);
}

#[test]
fn set_duration_changes_how_long_the_permit_is_held() {
    let (clock, semaphore, mut permit) = taken();
    permit.set_duration(2 * TWO_SECONDS);
    drop(permit);
    clock.advance(TWO_SECONDS);
    assert_released_in_two_seconds(&clock, &semaphore);
}

/// Returns a clock, a semaphore of one permit, and the semaphore as a throttle of slow hosts.
fn rests() -> (ManualClock, Arc<Semaphore>, Resting<Arc<Semaphore>>) {
    let (clock, semaphore) = (Clock::manual(), Arc::new(Semaphore::new(1)));
    let rests = Resting::new(Arc::clone(&semaphore), TWO_SECONDS).clock(&clock);
    (clock, semaphore, rests)
}

#[test]
fn throttle_holds_each_permit_for_the_duration_however_it_was_entered() {
    let (clock, semaphore, rests) = rests();
    type Way = fn(&Resting<Arc<Semaphore>>) -> ReleaseAfter<OwnedPermit>;
    let ways: [Way; 3] = [
        |rests| rests.enter().wait().unwrap(),
        |rests| rests.enter_now().unwrap(),
        |rests| rests.try_enter().unwrap(),
    ];
    for way in ways {
        let permit = way(&rests);
        assert!(rests.enter_now().is_none() && rests.try_enter().is_err());
        let mut next = Waiter::parked(rests.enter());
        drop(permit);
        clock.advance(TWO_SECONDS - NANO);
        assert!(next.is_pending());
        clock.advance(NANO);
        rests.rollback(next.granted());
        assert_eq!(semaphore.available_permits(), 1);
    }
}

/// A composition that a later part refuses has not begun its work.
#[test]
fn throttle_in_a_composition_that_is_refused_keeps_no_permit() {
    let (_, semaphore, rests) = rests();
    let full = Arc::new(Semaphore::new(0).max_waiters(0));
    let both = all((rests, full));
    assert_eq!(kind(both.enter().wait()), ErrorKind::QueueFull);
    assert_eq!(kind(both.try_acquire()), ErrorKind::NoPermits);
    assert_eq!(semaphore.available_permits(), 1);
}

#[test]
fn throttle_of_a_rate_refunds_a_charge_that_is_rolled_back() {
    let clock = Clock::manual();
    let rate = RateLimiter::new(Quota::per_second(10).burst(10)).clock(&clock);
    let rate = Arc::new(rate);
    let rests = Resting::new(Arc::clone(&rate), TWO_SECONDS).clock(&clock);
    let permit = rests.try_enter().unwrap();
    rests.rollback(permit);
    assert_eq!(rate.snapshot().available, 10);
}

#[cfg(feature = "tokio")]
mod on_tokios_time {
    use tokio::runtime::Builder;
    use tokio::time::Instant;

    use super::*;
    use crate::support::paused_runtime;

    fn permit_of(semaphore: &Arc<Semaphore>) -> ReleaseAfter<OwnedPermit> {
        let permit = Arc::clone(semaphore).try_acquire_owned().unwrap();
        permit.release_after(TWO_SECONDS).clock(Clock::tokio())
    }

    #[test]
    fn drop_in_paused_time_releases_after_the_duration() {
        paused_runtime().block_on(async {
            let (start, semaphore) = (Instant::now(), Arc::new(Semaphore::new(1)));
            drop(permit_of(&semaphore));
            drop(semaphore.acquire().await.unwrap());
            assert_eq!(start.elapsed(), TWO_SECONDS);
        });
    }

    #[test]
    fn drop_before_the_runtime_ends_releases_at_its_end() {
        let (runtime, semaphore) = (paused_runtime(), Arc::new(Semaphore::new(2)));
        let context = runtime.enter();
        drop(permit_of(&semaphore));
        drop(context);
        // Dropped with the task, at the end of the runtime.
        let permit = permit_of(&semaphore);
        runtime.spawn(async move {
            let _permit = permit;
            std::future::pending::<()>().await;
        });
        assert_eq!(semaphore.available_permits(), 0);
        drop(runtime);
        ends(move || drop(semaphore.acquire_many(2).wait().unwrap()));
    }

    #[test]
    fn drop_in_a_runtime_without_a_timer_releases_by_the_system_clock() {
        const SHORT: Duration = Duration::from_millis(2);
        let semaphore = Arc::new(Semaphore::new(1));
        let permit = Arc::clone(&semaphore).try_acquire_owned().unwrap();
        let permit = permit.release_after(SHORT).clock(Clock::tokio());
        let dropped = Clock::system().now();
        let runtime = Builder::new_current_thread().build().unwrap();
        runtime.block_on(async { drop(permit) });
        ends(move || drop(semaphore.acquire().wait().unwrap()));
        assert!(Clock::system().now().saturating_since(dropped) >= SHORT);
    }

    #[test]
    fn drop_at_the_end_of_a_thread_panics_nowhere() {
        use std::cell::RefCell;
        thread_local! {
            static HELD: RefCell<Option<ReleaseAfter<OwnedPermit>>> = const { RefCell::new(None) };
        }
        let semaphore = Arc::new(Semaphore::new(1));
        let permit = Arc::clone(&semaphore).try_acquire_owned().unwrap();
        let permit = permit.release_after(NANO).clock(Clock::tokio());
        let thread = std::thread::spawn(move || {
            HELD.with(|held| *held.borrow_mut() = Some(permit));
            // Its thread-locals are dropped before that of the permit.
            Builder::new_current_thread()
                .build()
                .unwrap()
                .block_on(async {});
        });
        thread.join().unwrap();
        ends(move || drop(semaphore.acquire().wait().unwrap()));
    }
}
