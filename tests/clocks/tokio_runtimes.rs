//! `Clock::tokio()` in more than one runtime, and in none.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use futures::future::join_all;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};
use tollgate::{Charge, Clock, Quota, RateLimiter};

use crate::support::{Waiter, paused_runtime};
use crate::{SECOND, acquire_times, assert_apart, ends, millis, until_queued};

const YEAR: Duration = Duration::from_secs(365 * 86_400);

fn limiter(quota: Quota) -> Arc<RateLimiter> {
    Arc::new(RateLimiter::new(quota).clock(Clock::tokio()))
}

/// How many go at once.
fn at_once(limiter: &RateLimiter) -> usize {
    (0..100)
        .take_while(|_| limiter.try_acquire().is_ok())
        .count()
}

#[test]
fn acquire_in_another_runtime_than_the_last_restarts() {
    let limiter = limiter(Quota::per_day(1).burst(7));
    let runtimes = [paused_runtime(), paused_runtime(), paused_runtime()];
    let twice = |runtime: &Runtime| {
        let at_once = || runtime.block_on(async { at_once(&limiter) });
        (at_once(), at_once())
    };
    for _ in 0..2 {
        // No time has passed in any of them.
        assert_eq!(runtimes.each_ref().map(twice), [(7, 0); 3]);
        // The outside of all runtimes counts as one more.
        assert_eq!((at_once(&limiter), at_once(&limiter)), (7, 0));
    }
}

#[test]
fn pause_for_is_forgotten_in_another_runtime_than_the_last() {
    let limiter = limiter(Quota::per_day(1).burst(7));
    paused_runtime().block_on(async {
        limiter.pause_for(YEAR);
        assert_eq!(at_once(&limiter), 0);
    });
    assert_eq!(paused_runtime().block_on(async { at_once(&limiter) }), 7);
    assert_eq!(limiter.paused_until(), None);
}

/// From outside: a limiter in a static remembered every runtime.
#[test]
fn static_limiter_alternating_between_two_runtimes_restarts_each_time() {
    static LIMITER: LazyLock<RateLimiter> =
        LazyLock::new(|| RateLimiter::new(Quota::per_day(1).burst(3)).clock(Clock::tokio()));
    // Asked for, not taken: it has been used nowhere yet.
    assert_eq!(LIMITER.quota().max_burst(), 3);
    let (one, other) = (paused_runtime(), paused_runtime());
    for _ in 0..5 {
        for runtime in [&one, &other] {
            assert_eq!(runtime.block_on(async { at_once(&LIMITER) }), 3);
            assert_eq!(runtime.block_on(async { at_once(&LIMITER) }), 0);
        }
    }
}

/// Every verb meets the runtime, not only the tries.
#[test]
fn each_verb_that_comes_first_in_a_runtime_starts_fresh() {
    type Verb = fn(&Arc<RateLimiter>) -> usize;
    let verbs: [Verb; 6] = [
        |limiter| usize::try_from(limiter.available()).unwrap(),
        |limiter| usize::from(limiter.peek().retry_after.is_zero()) * 2,
        |limiter| usize::from(limiter.reserve().unwrap().delay().is_zero()) * 2,
        |limiter| Waiter::new(limiter.acquire()).poll().two_if_ready(),
        |limiter| usize::try_from(limiter.snapshot().available).unwrap(),
        |limiter| {
            limiter.set_quota(limiter.quota());
            usize::try_from(limiter.available()).unwrap()
        },
    ];
    for verb in verbs {
        let limiter = limiter(Quota::per_day(1).burst(2));
        assert_eq!(paused_runtime().block_on(async { at_once(&limiter) }), 2);
        assert_eq!(paused_runtime().block_on(async { verb(&limiter) }), 2);
    }
}

/// Whether it was let in at once.
trait AtOnce {
    fn two_if_ready(self) -> usize;
}

impl<T> AtOnce for std::task::Poll<T> {
    fn two_if_ready(self) -> usize {
        usize::from(self.is_ready()) * 2
    }
}

#[test]
fn restart_grants_those_that_wait() {
    let limiter = limiter(Quota::per_day(1));
    let (first, second) = (paused_runtime(), paused_runtime());
    let mut waiters = first.block_on(async {
        assert_eq!(at_once(&limiter), 1);
        [(); 2].map(|()| Waiter::parked(Arc::clone(&limiter).acquire_owned()))
    });
    second.block_on(async { assert_eq!(at_once(&limiter), 0) });
    assert_eq!(waiters.each_ref().map(Waiter::wakes), [1, 0]);
    waiters[0].granted();
    let [_, waiter] = &mut waiters;
    second.block_on(async {
        let wait = std::future::poll_fn(|context| waiter.poll_with(context.waker()));
        timeout(YEAR, wait)
            .await
            .expect("it is not stranded")
            .unwrap();
    });
}

/// The timer of the queue is of a runtime that nobody drives any more.
#[test]
fn waiters_are_woken_by_a_timer_of_the_runtime_that_was_met_last() {
    let day = Duration::from_secs(86_400);
    let limiter = limiter(Quota::per_day(1));
    let (left, driven) = (paused_runtime(), paused_runtime());
    let mut waiters = left.block_on(async {
        assert_eq!(at_once(&limiter), 1);
        [(); 3].map(|()| Waiter::parked(Arc::clone(&limiter).acquire_owned()))
    });
    driven.block_on(async {
        let wakes = |waiters: &[Waiter<_>; 3]| waiters.each_ref().map(Waiter::wakes);
        // Later than any timer of the other runtime is, so that none of that could be left.
        sleep(SECOND).await;
        assert_eq!(limiter.available(), 0);
        assert_eq!(wakes(&waiters), [1, 0, 0]);
        // Nothing looks at the queue from here on but the timer.
        sleep(day - SECOND).await;
        assert_eq!(wakes(&waiters), [1, 0, 0]);
        sleep(2 * SECOND).await;
        assert_eq!(wakes(&waiters), [1, 1, 0]);
        sleep(day).await;
        assert_eq!(wakes(&waiters), [1, 1, 1]);
    });
    for waiter in &mut waiters {
        waiter.granted();
    }
    drop(left);
}

/// A runtime restarts the limiter and so holds the timer of the waiters of another one, and is then
/// dropped with a waiter of its own.
#[test]
fn runtime_that_is_dropped_takes_nobody_of_another_with_it() {
    let limiter = limiter(Quota::per_second(10));
    let (first, second) = (paused_runtime(), paused_runtime());
    let visitor = Arc::clone(&limiter);
    second.block_on(async {
        at_once(&limiter);
        let waits = join_all((0..3).map(|_| limiter.acquire()));
        let gone = async {
            until_queued(&limiter, 3).await;
            let gone = thread::spawn(move || {
                // One waiter goes with the restart, and another one comes.
                let own = first.spawn(Arc::clone(&visitor).acquire_owned());
                first.block_on(until_queued(&visitor, 3));
                drop(first);
                own.is_finished()
            });
            assert!(gone.join().unwrap());
        };
        let (ended, ()) = tokio::join!(timeout(YEAR, waits), gone);
        for charge in ended.expect("nobody is stranded") {
            charge.unwrap();
        }
    });
}

#[test]
fn runtime_that_was_only_met_takes_nobody_with_it() {
    let limiter = limiter(Quota::per_second(10));
    let home = paused_runtime();
    home.block_on(async {
        at_once(&limiter);
        let mut waiters = [(); 3].map(|()| Waiter::parked(Arc::clone(&limiter).acquire_owned()));
        let visitor = Arc::clone(&limiter);
        // It starts fresh there, so one of them goes, and the timer for the next is armed there.
        thread::spawn(move || paused_runtime().block_on(async { visitor.available() }))
            .join()
            .unwrap();
        assert_eq!(limiter.waiting(), 2);
        for waiter in &mut waiters {
            let wait = std::future::poll_fn(|context| waiter.poll_with(context.waker()));
            timeout(YEAR, wait)
                .await
                .expect("it is not stranded")
                .unwrap();
        }
    });
}

/// Nobody waits any more, but a timer was armed in the runtime that is gone.
#[test]
fn acquire_after_a_runtime_is_gone_is_woken_by_a_timer_of_its_own() {
    let limiter = limiter(Quota::per_second(1000));
    let before = paused_runtime();
    before.block_on(async { limiter.available() });
    // Outside of all runtimes time is not paused: only the first is sure.
    limiter.try_acquire().unwrap();
    let gone = paused_runtime();
    gone.block_on(async {
        limiter.charge(2);
        drop(Waiter::parked(limiter.acquire()));
    });
    drop(gone);
    before.block_on(async {
        limiter.charge(10);
        let ended = timeout(YEAR, limiter.acquire()).await;
        ended.expect("it is not stranded").unwrap();
    });
}

/// On a plain thread, also after a runtime is gone, and in an executor of another kind.
#[test]
fn acquire_outside_of_a_runtime_goes_by_the_time_of_the_machine() {
    type Waits = fn(&RateLimiter) -> Vec<Charge>;
    let on_a_thread: Waits = |limiter| {
        let waits = (0..5).map(|_| limiter.acquire().wait().unwrap());
        waits.collect()
    };
    let in_an_executor: Waits = |limiter| crate::block_on(acquire_times(limiter, 5));
    for (waits, after_a_runtime) in [
        (on_a_thread, false),
        (on_a_thread, true),
        (in_an_executor, false),
    ] {
        let limiter = limiter(Quota::per_second(1000));
        let charges = ends(move || {
            if after_a_runtime {
                at_once(&limiter);
                paused_runtime().block_on(async {
                    at_once(&limiter);
                    drop(Waiter::parked(limiter.acquire()));
                });
            }
            waits(&limiter)
        });
        assert_apart(charges, millis(1));
    }
}

/// Tasks of many workers, and a blocking task of a runtime that is driven.
#[test]
fn acquire_in_a_runtime_of_many_workers_goes_at_the_rate() {
    let charges = ends(|| {
        let limiter = limiter(Quota::per_second(2000));
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut tasks = tokio::task::JoinSet::new();
            for _ in 0..4 {
                let limiter = Arc::clone(&limiter);
                tasks.spawn(async move { acquire_times(&limiter, 5).await });
            }
            for _ in 0..3 {
                let wait = Arc::clone(&limiter).acquire_owned();
                tasks.spawn_blocking(move || vec![wait.wait().unwrap()]);
            }
            crate::flat(tasks.join_all().await)
        })
    });
    assert_eq!(charges.len(), 23);
    assert_apart(charges, SECOND / 2000);
}

#[test]
fn runtime_without_a_timer_fails_only_what_waits() {
    let limiter = limiter(Quota::per_hour(1));
    let runtime = Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        // There is nothing to wait for.
        limiter.acquire().await.unwrap();
        let mut waiter = Waiter::new(limiter.acquire());
        assert!(catch_unwind(AssertUnwindSafe(|| waiter.poll())).is_err());
        drop(waiter);
        assert_eq!(limiter.waiting(), 0);
        assert!(limiter.try_acquire().is_err());
    });
    paused_runtime().block_on(async {
        let ended = timeout(YEAR, acquire_times(&limiter, 3)).await;
        assert_eq!(ended.expect("it is not stranded").len(), 3);
    });
}
