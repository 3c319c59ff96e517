//! The memory of waits, in bytes that the process holds: a clock keeps no more timers than there are queues and
//! timeouts, however often those change; and one call of a fair queue allocates and frees a bounded amount, however
//! many callers wait.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use stats_alloc::Region;
use tollgate::fair::{ClassHandle, FairPermit, FairQueue};
use tollgate::wait::Waiting;
use tollgate::{Clock, Quota, RateLimiter, Semaphore, Throttle};
#[cfg(feature = "tokio")]
use tollgate::{CondvarSemaphore, ErrorKind};

use crate::support::Waiter;
use crate::support::random::Random;
use crate::{COUNTED, alone, held};

const SECOND: Duration = Duration::from_secs(1);

const TIMES: usize = 20_000;

/// Keeping only a waker and a tick each time would exceed this.
const LITTLE: isize = 16 * TIMES as isize;

/// Returns the growth of the memory, as the least of up to three runs. It stops at the first run that holds little,
/// because the least can only fall.
fn held_after(run: impl Fn()) -> isize {
    let _alone = alone();
    let mut least = isize::MAX;
    for _ in 0..3 {
        let region = Region::new(COUNTED);
        for _ in 0..TIMES {
            run();
        }
        let change = region.change();
        least = least.min(change.bytes_allocated as isize - change.bytes_deallocated as isize);
        if least < LITTLE {
            break;
        }
    }
    least
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

/// Repeats operations on a limiter whose burst of 2 is taken, on each clock.
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
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::TimedOut);
    });
    assert!(held < LITTLE, "holds {held}");
}

const WAITERS: usize = 100_000;
/// The bytes that one call may allocate and free; all waiters have some megabytes.
const AT_MOST: usize = 1 << 20;

type Queue = FairQueue<Arc<Semaphore>, usize>;
type Wait = Waiting<<ClassHandle<Arc<Semaphore>, usize> as Throttle>::Enter>;
type Permit = FairPermit<Arc<Semaphore>, usize>;

/// Runs one call, and checks how many bytes it allocates and frees.
#[track_caller]
fn one_call<T>(run: impl FnOnce() -> T) -> T {
    let region = Region::new(COUNTED);
    let result = run();
    let change = region.change();
    let moved = change.bytes_allocated + change.bytes_deallocated;
    assert!(moved <= AT_MOST, "{moved} bytes in one call");
    result
}

/// Fills the queue; the semaphore has no permit left.
fn fill(queue: &Queue) -> Vec<Waiter<Wait>> {
    let mut waits: Vec<_> = (0..WAITERS)
        .map(|index| Waiter::new(queue.class(index % 3).acquire()))
        .collect();
    for wait in &mut waits {
        assert!(one_call(|| wait.is_pending()));
    }
    waits
}

fn queue() -> (Queue, Permit) {
    let queue = FairQueue::new(Arc::new(Semaphore::new(1)));
    let permit = queue.class(0).try_acquire().unwrap();
    (queue, permit)
}

#[test]
fn drop_of_each_of_many_permits_moves_and_frees_few_waiters() {
    let _alone = alone();
    let (queue, mut permit) = queue();
    let mut waits = fill(&queue);
    // The classes take turns, in the order of arrival.
    for wait in &mut waits {
        one_call(|| drop(permit));
        permit = one_call(|| wait.granted());
    }
}

#[test]
fn drop_of_each_of_many_waiters_moves_and_frees_few_others() {
    let _alone = alone();
    let (queue, _permit) = queue();
    let mut waits = fill(&queue);
    let mut random = Random::new(7);
    while !waits.is_empty() {
        let index = random.below(waits.len() as u32) as usize;
        let wait = waits.swap_remove(index);
        one_call(|| drop(wait));
    }
    assert_eq!(queue.waiting(), 0);
}

#[test]
fn drop_of_the_last_waiter_frees_memory_time_after_time() {
    let _alone = alone();
    let region = Region::new(COUNTED);
    let (queue, _permit) = queue();
    drop(fill(&queue));
    for _ in 0..100 {
        one_call(|| drop(Waiter::parked(queue.class(0).acquire())));
    }
    assert!(held(&region) <= 256 << 10, "{} bytes", held(&region));
}

/// One waits all the time, so the slots are never all free.
#[test]
fn acquire_after_others_have_left_uses_their_slots_again() {
    let _alone = alone();
    let (queue, permit) = queue();
    let _stays = Waiter::parked(queue.class(0).acquire());
    let region = Region::new(COUNTED);
    for _ in 0..WAITERS {
        drop(Waiter::parked(queue.class(0).acquire()));
    }
    assert!(held(&region) <= 64 << 10, "{} bytes", held(&region));
    drop(permit);
}

/// The documentation of `FairQueue` states these figures.
#[test]
fn acquire_of_a_fair_queue_takes_few_bytes_a_waiter() {
    const WAITERS: usize = 10_000;
    let _alone = alone();
    for classes in [1, 100] {
        let queue = FairQueue::new(Arc::new(Semaphore::new(1)));
        let handles: Vec<_> = (0..classes).map(|key| queue.class(key)).collect();
        let _permit = handles[0].try_acquire().unwrap();
        let waits = (0..WAITERS).map(|at| Waiter::new(handles[at % classes].acquire()));
        let mut waits: Vec<_> = waits.collect();
        let region = Region::new(COUNTED);
        assert!(waits.iter_mut().all(Waiter::is_pending));
        let change = region.change();
        let bytes = held(&region) as f64 / WAITERS as f64;
        let allocations = (change.allocations + change.reallocations) as f64 / WAITERS as f64;
        println!("a waiter of {classes} classes: {bytes:.1} bytes, {allocations:.2} allocations");
        assert!(
            bytes < 85.0 && allocations < 0.2,
            "{bytes} bytes, {allocations} allocations"
        );
    }
}
