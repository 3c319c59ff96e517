//! A fair queue in front of a limiter on `Clock::tokio()`, in more than one runtime.

use std::sync::{Arc, LazyLock, Mutex};
use std::thread;
use std::time::Duration;

use futures::future::join_all;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, sleep};
use tollgate::fair::{Class, FairQueue, Queueable};
use tollgate::throttle::BoxThrottle;
use tollgate::{Clock, ErrorKind, Keyed, Quota, RateLimiter, Semaphore, all};
use tollgate_adaptive::{AdaptiveRate, Shared};

use crate::ends;
use crate::support::{Waiter, in_destructors, paused_runtime};

type Queue = FairQueue<Arc<RateLimiter>, u32>;

const HOUR: Duration = Duration::from_secs(3600);

fn queue(quota: Quota) -> Queue {
    FairQueue::new(Arc::new(RateLimiter::new(quota).clock(Clock::tokio())))
}

/// Calls `run` in each of so many runtimes, each on a thread of its own.
fn on_threads(count: u32, run: impl Fn(u32) + Clone + Send + 'static) {
    ends(move || {
        let threads: Vec<_> = (0..count)
            .map(|number| {
                let run = run.clone();
                thread::spawn(move || run(number))
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

/// The tests of a program share a queue in a static in this way. Each is admitted by its own time,
/// whoever was before it in the queue, and though the runtimes of others end meanwhile.
#[test]
fn static_queue_in_a_hundred_runtimes_at_once_goes_by_the_time_of_each() {
    static QUEUE: LazyLock<Queue> = LazyLock::new(|| queue(Quota::per_hour(1).burst(2)));
    on_threads(10, |number| {
        for _ in 0..10 {
            paused_runtime().block_on(async {
                let (begun, class) = (Instant::now(), QUEUE.class(number % 3));
                let charges = join_all((0..5).map(|_| class.acquire())).await;
                // Two were there, and three took an hour each.
                assert_eq!(begun.elapsed(), 3 * HOUR);
                let ticks = charges.iter().map(|charge| charge.as_ref().unwrap().at());
                let (last, now) = (ticks.max().unwrap(), Clock::tokio().now());
                assert_eq!(last, now);
                // It ends while a caller waits.
                drop(tokio::spawn(QUEUE.class(number).acquire()));
                sleep(HOUR / 4).await;
            });
        }
    });
}

/// Real time passes at the same pace for all, but each has the whole quota.
#[test]
fn static_queue_in_runtimes_without_paused_time_admits_everybody() {
    static QUEUE: LazyLock<Queue> = LazyLock::new(|| queue(Quota::per_second(500).burst(2)));
    on_threads(6, |number| {
        for workers in 1..=2 {
            let runtime = Builder::new_multi_thread()
                .worker_threads(workers)
                .enable_time()
                .build()
                .unwrap();
            runtime.block_on(async {
                let class = QUEUE.class(number % 3);
                let mut tasks = tokio::task::JoinSet::new();
                for _ in 0..8 {
                    tasks.spawn(class.acquire());
                }
                assert!(tasks.join_all().await.iter().all(Result::is_ok));
                drop(tokio::spawn(QUEUE.class(number).acquire()));
            });
        }
    });
}

fn free_in(queue: &Queue, runtime: &Runtime) -> u64 {
    runtime.block_on(async { queue.throttle().snapshot().available })
}

/// While the first runtime lives, waiters of others are behind its entrant, with their timeouts. No
/// state pays for a waiter of another runtime.
#[test]
fn waiter_behind_one_of_a_runtime_that_is_not_driven_is_admitted_when_that_leaves() {
    let queue = queue(Quota::per_hour(1).burst(2));
    let (idle, driven) = (paused_runtime(), paused_runtime());
    let first = idle.block_on(async {
        let permits = [queue.class(1).try_acquire(), queue.class(1).try_acquire()];
        assert!(permits.iter().all(Result::is_ok));
        Waiter::parked(queue.class(1).acquire())
    });
    driven.block_on(async {
        let begun = Instant::now();
        let refused = queue.class(2).acquire().timeout(HOUR / 2).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(begun.elapsed(), HOUR / 2);
        let mut second = Waiter::parked(queue.class(2).acquire());
        sleep(3 * HOUR).await;
        assert!(second.is_pending());
        drop(first);
        drop(second.granted());
    });
    assert_eq!((free_in(&queue, &idle), free_in(&queue, &driven)), (0, 1));
}

/// A future that was polled and set aside delays nobody, while its runtime is driven.
#[test]
fn waiter_that_is_set_aside_in_another_runtime_lets_the_others_go_on() {
    let queue = queue(Quota::per_hour(1));
    let (one, other) = (paused_runtime(), paused_runtime());
    let spend_and_wait = |runtime: &Runtime| {
        runtime.block_on(async {
            drop(queue.throttle().try_acquire());
            Waiter::parked(queue.class(1).acquire())
        })
    };
    let mut first = spend_and_wait(&one);
    let aside = spend_and_wait(&other);
    let mut last = one.block_on(async { Waiter::parked(queue.class(1).acquire()) });
    one.block_on(async {
        sleep(2 * HOUR).await;
        drop(first.granted());
    });
    other.block_on(async { sleep(2 * HOUR).await });
    one.block_on(async {
        sleep(2 * HOUR).await;
        drop(last.granted());
    });
    drop(aside);
}

/// The permit of an entrant is handed to no waiter of another runtime, whoever goes next by then.
#[test]
fn permit_of_one_runtime_goes_to_no_waiter_of_another() {
    let queue = queue(Quota::per_hour(1)).classes(|key| Class::new().priority(*key as u8));
    let (one, other) = (paused_runtime(), paused_runtime());
    let mut low = one.block_on(async {
        drop(queue.class(0).try_acquire());
        Waiter::parked(queue.class(0).acquire())
    });
    let mut high = other.block_on(async {
        drop(queue.throttle().try_acquire());
        Waiter::parked(queue.class(1).acquire())
    });
    // The high one goes next, and its runtime stands still.
    one.block_on(async {
        sleep(2 * HOUR).await;
        assert!(low.is_pending());
    });
    other.block_on(async {
        assert!(high.is_pending());
        sleep(2 * HOUR).await;
        drop(high.granted());
    });
    one.block_on(async {
        drop(low.granted());
    });
    assert_eq!((free_in(&queue, &one), free_in(&queue, &other)), (0, 1));
}

/// Nobody is told that a runtime has ended: the throttle is open, and the next poll enters where it
/// is made.
#[test]
fn waiters_behind_an_entrant_whose_runtime_ends_enter_where_they_are_polled() {
    ends(|| {
        let queue = queue(Quota::per_hour(1).burst(2));
        let gone = paused_runtime();
        let mut waiters = gone.block_on(async {
            drop([queue.class(1).try_acquire(), queue.class(1).try_acquire()]);
            [(); 2].map(|()| Waiter::parked(queue.class(1).acquire()))
        });
        let other = paused_runtime();
        let mut last = other.block_on(async { Waiter::parked(queue.class(1).acquire()) });
        drop(gone);
        while waiters[0].wakes() == 0 {
            thread::yield_now();
        }
        assert_eq!((waiters[1].wakes(), last.wakes()), (0, 0));
        other.block_on(async {
            for waiter in &mut waiters {
                drop(waiter.granted());
            }
            assert!(last.is_pending());
            sleep(2 * HOUR).await;
            drop(last.granted());
        });
    });
}

/// At the end of a thread no runtime can be entered, so the next waiter enters when it is polled. It was
/// tried again and again.
#[test]
fn waiter_that_leaves_in_a_destructor_of_a_thread_wakes_the_next_one() {
    ends(|| {
        let runtime = paused_runtime();
        let waiters = [(); 3].map(|()| {
            let queue = queue(Quota::per_hour(1).burst(2));
            runtime.block_on(async {
                drop([queue.class(1).try_acquire(), queue.class(1).try_acquire()]);
                let leaves = Waiter::parked(queue.class(1).acquire_many(2));
                (leaves, Waiter::parked(queue.class(1).acquire()))
            })
        });
        let (leave, mut next): (Vec<_>, Vec<_>) = waiters.into_iter().unzip();
        let leave = Mutex::new(leave);
        let left = in_destructors(move || leave.lock().unwrap().pop().is_some());
        assert_eq!(left.collect::<Vec<_>>(), [true; 3]);
        runtime.block_on(async {
            assert!(next.iter_mut().all(Waiter::is_pending));
            sleep(2 * HOUR).await;
            for mut waiter in next {
                drop(waiter.granted());
            }
        });
    });
}

/// The time of the other runtime is days ahead, and none of them has passed for the waiter.
#[test]
fn timeout_of_a_waiter_whose_runtime_has_ended_keeps_what_is_left() {
    ends(|| {
        let queue = queue(Quota::per_hour(1));
        let (gone, other) = (paused_runtime(), paused_runtime());
        let mut waiter = gone.block_on(async {
            drop(queue.class(1).try_acquire());
            Waiter::parked(queue.class(1).acquire().timeout(24 * HOUR))
        });
        drop(gone);
        other.block_on(async {
            sleep(48 * HOUR).await;
            drop(queue.throttle().try_acquire());
            assert!(waiter.is_pending());
            sleep(2 * HOUR).await;
            drop(waiter.granted());
        });
    });
}

/// The entrant waits for the first part of a composition, and code outside of all runtimes makes
/// room there: the second part is still entered in the runtime of the waiter.
#[test]
fn permit_that_is_dropped_elsewhere_lets_the_waiter_enter_the_next_part_where_it_is() {
    let limiter = Arc::new(RateLimiter::new(Quota::per_hour(1)).clock(Clock::tokio()));
    let slots = Arc::new(Semaphore::new(1));
    let both = all((Arc::clone(&slots), Arc::clone(&limiter)));
    let queue = FairQueue::<_, u32>::new(both);
    ends(move || {
        for _ in 0..20 {
            let slot = Arc::clone(&slots).try_acquire_owned().unwrap();
            let runtime = paused_runtime();
            runtime.block_on(async {
                let begun = Instant::now();
                drop(limiter.try_acquire());
                let releases = thread::spawn(move || drop(slot));
                drop(queue.class(1).acquire().await.unwrap());
                releases.join().unwrap();
                assert_eq!(begun.elapsed(), HOUR);
            });
        }
    });
}

/// Asserts that callers in many runtimes are admitted at one an hour by the time of each.
fn assert_goes_by_the_time_of_each<T: Queueable>(queue: FairQueue<T, u32>) {
    on_threads(4, move |number| {
        for _ in 0..5 {
            paused_runtime().block_on(async {
                let (begun, class) = (Instant::now(), queue.class(number));
                let permits = join_all((0..3).map(|_| class.acquire())).await;
                assert!(permits.iter().all(Result::is_ok));
                assert_eq!(begun.elapsed(), 2 * HOUR);
            });
        }
    });
}

/// The waiter of the inner queue is the entrant of the outer one.
#[test]
fn queue_of_a_queue_enters_in_the_runtime_of_each_waiter() {
    let inner = queue(Quota::per_hour(1));
    assert_goes_by_the_time_of_each(FairQueue::new(inner.class(0)));
}

/// The same for a rate that adapts.
#[test]
fn queue_of_an_adaptive_rate_enters_in_the_runtime_of_each_waiter() {
    let rate = AdaptiveRate::new().initial_rate(1.0).clock(Clock::tokio());
    let queue = FairQueue::<_, u32>::new(Shared::from(rate));
    on_threads(4, move |number| {
        for _ in 0..5 {
            paused_runtime().block_on(async {
                let (begun, class) = (Instant::now(), queue.class(number));
                let waits = (0..20).map(|_| class.acquire());
                for permit in join_all(waits).await {
                    permit.unwrap().into_inner().ignore();
                }
                assert!(begun.elapsed() > Duration::from_secs(1));
            });
        }
    });
}

/// The same for a key of a map.
#[test]
fn queue_of_a_key_enters_in_the_runtime_of_each_waiter() {
    let users = Keyed::new(RateLimiter::new(Quota::per_hour(1)).clock(Clock::tokio()));
    let users: Arc<Keyed<u32, RateLimiter>> = Arc::new(users);
    assert_goes_by_the_time_of_each(FairQueue::new(users.key_owned(7)));
}

/// The same through a composition and an erased throttle, in front of which wakes are passed on to
/// the next waiter.
#[test]
fn queue_of_a_composition_enters_in_the_runtime_of_each_waiter() {
    let limiter = Arc::new(RateLimiter::new(Quota::per_hour(1)).clock(Clock::tokio()));
    let slots = Arc::new(Semaphore::new(100));
    let both = BoxThrottle::new(all((slots, Some(limiter))));
    assert_goes_by_the_time_of_each(FairQueue::new(both));
}
