//! `Clock::tokio()` in more than one runtime, and in none.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Barrier, LazyLock, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use futures::future::join_all;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, sleep, timeout};
use tollgate::rate::{Charge, LocalLimiter, QuotaChange};
use tollgate::{AcquireError, Clock, ErrorKind, Keyed, Quota, RateLimiter};

use crate::support::{Waiter, kind, paused_runtime};
use crate::{SECOND, acquire_times, assert_apart, ends, millis, until, until_queued};

type Users = Keyed<u32, RateLimiter>;

const DAY: Duration = Duration::from_secs(86_400);
const YEAR: Duration = Duration::from_secs(365 * 86_400);

fn limiter(quota: Quota) -> Arc<RateLimiter> {
    Arc::new(RateLimiter::new(quota).clock(Clock::tokio()))
}

/// Returns the number of calls that are admitted at once.
fn at_once(limiter: &RateLimiter) -> usize {
    (0..100)
        .take_while(|_| limiter.try_acquire().is_ok())
        .count()
}

/// A limiter in a static remembered every runtime, then only the last one.
#[test]
fn acquire_in_another_runtime_has_a_state_of_its_own() {
    let limiter = limiter(Quota::per_day(1).burst(7));
    let runtimes = [paused_runtime(), paused_runtime(), paused_runtime()];
    let at_once_in = |runtime: &Runtime| runtime.block_on(async { at_once(&limiter) });
    // No time has passed in any of them, and none when they are used again.
    for free in [7, 0] {
        assert_eq!(runtimes.each_ref().map(at_once_in), [free; 3]);
        // The outside of all runtimes counts as one more.
        assert_eq!(at_once(&limiter), free);
    }
}

#[test]
fn pause_for_holds_in_its_runtime() {
    let limiter = limiter(Quota::per_day(1).burst(7));
    let paused = paused_runtime();
    let end = paused.block_on(async {
        limiter.pause_for(YEAR);
        assert_eq!(at_once(&limiter), 0);
        limiter.paused_until()
    });
    assert_eq!(paused_runtime().block_on(async { at_once(&limiter) }), 7);
    assert_eq!(limiter.paused_until(), None);
    assert!(end.is_some() && paused.block_on(async { limiter.paused_until() }) == end);
}

const HOUR: Duration = Duration::from_secs(3600);

/// Runs a test in a hundred runtimes, each on a thread of its own, just as `cargo test` runs the tests
/// of a program: ten at once, which wait for each other at the barrier.
fn in_a_hundred_runtimes<F: Future<Output = ()> + 'static>(test: fn(Arc<Barrier>) -> F) {
    let turns = Arc::new(Barrier::new(10));
    let tests = move || {
        for _ in 0..10 {
            paused_runtime().block_on(test(Arc::clone(&turns)));
        }
    };
    ends(move || {
        let threads = [(); 10].map(|()| thread::spawn(tests.clone()));
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

/// The tests of a program share a limiter in a static in this way. No test sees the effects of
/// another one, however they take turns.
#[test]
fn static_limiter_in_a_hundred_runtimes_at_once_is_that_of_each_alone() {
    static LIMITER: LazyLock<RateLimiter> =
        LazyLock::new(|| RateLimiter::new(Quota::per_hour(1).burst(2)).clock(Clock::tokio()));
    in_a_hundred_runtimes(|turns| async move {
        let begun = Instant::now();
        turns.wait();
        assert_eq!(at_once(&LIMITER), 2);
        turns.wait();
        assert_eq!(LIMITER.try_acquire().unwrap_err().retry_after(), Some(HOUR));
        let waits = join_all((0..3).map(|_| LIMITER.acquire()));
        until_queued(&LIMITER, 0).await;
        let turns = async {
            until_queued(&LIMITER, 3).await;
            turns.wait();
        };
        let (charges, ()) = tokio::join!(waits, turns);
        assert!(charges.iter().all(Result::is_ok));
        assert_eq!(begun.elapsed(), 3 * HOUR);
        assert!(LIMITER.acquire().timeout(HOUR / 2).await.is_err());
        assert_eq!(begun.elapsed(), 3 * HOUR);
        // It ends while a caller waits.
        drop(tokio::spawn(LIMITER.acquire()));
        until_queued(&LIMITER, 1).await;
    });
}

/// The keys of a static restarted whenever another runtime used any of them.
#[test]
fn static_keys_in_a_hundred_runtimes_at_once_are_those_of_each_alone() {
    static USERS: LazyLock<Users> = LazyLock::new(|| {
        Users::new(RateLimiter::new(Quota::per_hour(1).burst(2)).clock(Clock::tokio()))
    });
    in_a_hundred_runtimes(|turns| async move {
        let begun = Instant::now();
        for key in [1, 2] {
            let user = USERS.key(&key);
            turns.wait();
            user.try_acquire_many(2).unwrap();
            turns.wait();
            assert_eq!((user.snapshot().available, user.snapshot().waiting), (0, 0));
            assert_eq!(user.try_acquire().unwrap_err().retry_after(), Some(HOUR));
        }
        let user = USERS.key(&1);
        let waits = join_all((0..3).map(|_| user.acquire()));
        let turns = async {
            until(|| user.snapshot().waiting == 3).await;
            turns.wait();
        };
        let (charges, ()) = tokio::join!(waits, turns);
        assert_eq!(begun.elapsed(), 3 * HOUR);
        assert_eq!(user.snapshot().available, 0);
        // Two were paid off, and the third is now.
        assert_eq!(USERS.key(&2).snapshot().available, 2);
        let last = charges.into_iter().last().unwrap().unwrap();
        user.refund(last);
        assert_eq!((user.snapshot().available, user.snapshot().in_use), (1, 1));
        user.try_acquire().unwrap();
        assert!(user.acquire().timeout(HOUR / 2).await.is_err());
        assert_eq!(begun.elapsed(), 3 * HOUR);
        // It ends while a caller waits.
        drop(tokio::spawn(USERS.key(&1).acquire()));
        until(|| user.snapshot().waiting == 1).await;
    });
}

/// Every verb checks the runtime, not only the tries.
#[test]
fn each_verb_that_comes_first_in_a_runtime_starts_fresh() {
    type Verb = fn(&RateLimiter) -> bool;
    let verbs: [Verb; 5] = [
        |limiter| limiter.snapshot().available == 2,
        |limiter| limiter.peek().retry_after == Some(Duration::ZERO),
        |limiter| limiter.reserve().unwrap().delay().is_zero(),
        |limiter| Waiter::new(limiter.acquire()).poll().is_ready(),
        |limiter| {
            limiter.set_quota(limiter.quota());
            limiter.snapshot().available == 2
        },
    ];
    for verb in verbs {
        let limiter = limiter(Quota::per_day(1).burst(2));
        assert_eq!(paused_runtime().block_on(async { at_once(&limiter) }), 2);
        assert!(paused_runtime().block_on(async { verb(&limiter) }));
    }
}

/// Only the time of the runtime in which it joined admits it, wherever it is polled.
#[test]
fn waiter_that_is_polled_in_another_runtime_waits_in_its_own() {
    let limiter = limiter(Quota::per_day(1));
    let (own, other) = (paused_runtime(), paused_runtime());
    let (mut granted, mut waiter) = own.block_on(async {
        assert_eq!(at_once(&limiter), 1);
        let granted = Waiter::parked(limiter.acquire());
        sleep(DAY).await;
        sleep(DAY / 2).await;
        let waiter = Waiter::parked(limiter.acquire());
        assert_eq!(limiter.snapshot().waiting, 1);
        (granted, waiter)
    });
    other.block_on(async {
        assert_eq!((at_once(&limiter), limiter.snapshot().waiting), (1, 0));
        // A grant can be received anywhere.
        granted.granted();
        sleep(YEAR).await;
        assert!(waiter.is_pending());
        assert_eq!((at_once(&limiter), limiter.snapshot().waiting), (1, 0));
    });
    own.block_on(async {
        assert_eq!(limiter.snapshot().waiting, 1);
        sleep(DAY / 2).await;
    });
    other.block_on(async {
        assert_eq!(at_once(&limiter), 0);
        waiter.granted();
    });
}

/// No other call finds the state in which it was granted.
#[test]
fn waiter_that_was_granted_in_a_runtime_that_has_ended_takes_its_charge_elsewhere() {
    let limiter = limiter(Quota::per_second(1));
    let gone = paused_runtime();
    let (mut taken, dropped) = gone.block_on(async {
        assert_eq!(at_once(&limiter), 1);
        let waiters = [(); 2].map(|()| Waiter::parked(limiter.acquire()));
        sleep(2 * SECOND).await;
        waiters.into()
    });
    drop(gone);
    paused_runtime().block_on(async {
        assert_eq!(at_once(&limiter), 1);
        taken.granted();
        drop(dropped);
        assert_eq!((at_once(&limiter), limiter.snapshot().waiting), (0, 0));
    });
}

/// Their timer is gone with the runtime, and nobody polls them before they are woken. The limiter
/// is open, so they may ask again where they are.
#[test]
fn waiters_of_a_runtime_that_ends_are_woken_and_told() {
    for is_met_before in [false, true] {
        ends(move || {
            let limiter = limiter(Quota::per_day(1).burst(3));
            let gone = paused_runtime();
            let mut waiters = gone.block_on(async {
                assert_eq!(at_once(&limiter), 3);
                [(); 3].map(|()| Waiter::parked(limiter.acquire()))
            });
            drop(gone);
            until_woken(&waiters);
            if is_met_before {
                // Its first use drops the obsolete parts of the runtime that is gone.
                let free = paused_runtime().block_on(async { limiter.snapshot().available });
                assert_eq!(free, 3);
            }
            paused_runtime().block_on(async {
                for waiter in &mut waiters {
                    assert_eq!(waiter.refused(), ErrorKind::RuntimeEnded);
                }
                assert!(!limiter.is_closed());
                let refused = AcquireError::new(ErrorKind::RuntimeEnded).retry_after();
                assert_eq!((refused, at_once(&limiter)), (Some(Duration::ZERO), 3));
            });
        });
    }
}

/// The time of the other runtime may be days ahead or behind.
#[test]
fn timeout_of_a_waiter_that_is_polled_in_another_runtime_keeps_what_is_left() {
    for (ahead, behind) in [(0, 2), (2, 0)] {
        let limiter = limiter(Quota::per_day(1));
        let (own, other) = (paused_runtime(), paused_runtime());
        let mut waiter = own.block_on(async {
            sleep(ahead * DAY).await;
            limiter.charge(20);
            Waiter::parked(limiter.acquire().timeout(30 * DAY))
        });
        other.block_on(async {
            sleep(behind * DAY).await;
            assert!(waiter.is_pending());
            sleep(29 * DAY).await;
            assert!(waiter.is_pending());
            sleep(2 * DAY).await;
            assert_eq!(waiter.refused(), ErrorKind::TimedOut);
        });
    }
}

/// Its timeout is on the time of the runtime that has ended, and does not win.
#[test]
fn timeout_in_a_runtime_that_ends_is_not_what_the_waiter_is_told() {
    ends(|| {
        let limiter = limiter(Quota::per_day(1));
        let gone = paused_runtime();
        let mut waiter = gone.block_on(async {
            assert_eq!(at_once(&limiter), 1);
            Waiter::parked(limiter.acquire().timeout(2 * DAY))
        });
        drop(gone);
        while waiter.wakes() == 0 {
            thread::yield_now();
        }
        assert_eq!(waiter.refused(), ErrorKind::RuntimeEnded);
    });
}

/// Waits until each was woken, once and no more.
fn until_woken<F: Future>(waiters: &[Waiter<F>]) {
    while waiters.iter().any(|waiter| waiter.wakes() == 0) {
        thread::yield_now();
    }
    assert!(waiters.iter().all(|waiter| waiter.wakes() == 1));
}

/// A refusal is no reason to move.
#[test]
fn close_reaches_the_waiters_of_every_runtime() {
    let limiter = limiter(Quota::per_day(1));
    let waiter_in = |runtime: &Runtime| {
        runtime.block_on(async {
            at_once(&limiter);
            Waiter::parked(limiter.acquire())
        })
    };
    let runtimes = [paused_runtime(), paused_runtime()];
    let mut waiters = runtimes.each_ref().map(waiter_in);
    let gone = paused_runtime();
    let mut stays = waiter_in(&gone);
    limiter.close();
    // Its state goes when the next runtime is used.
    drop(gone);
    let refused_in = |runtime: &Runtime| runtime.block_on(async { kind(limiter.try_acquire()) });
    assert_eq!(refused_in(&paused_runtime()), ErrorKind::Closed);
    assert_eq!((stays.wakes(), stays.refused()), (1, ErrorKind::Closed));
    for (waiter, runtime) in waiters.iter_mut().zip(&runtimes).rev() {
        assert_eq!((waiter.wakes(), waiter.refused()), (1, ErrorKind::Closed));
        assert_eq!(refused_in(runtime), ErrorKind::Closed);
    }
}

#[test]
fn set_quota_reaches_every_runtime_at_its_own_time() {
    let limiter = limiter(Quota::per_day(1));
    let spend_and_sleep = |runtime: &Runtime, time| {
        runtime.block_on(async {
            at_once(&limiter);
            sleep(time).await;
        });
    };
    let left_in = |runtime: &Runtime| {
        runtime.block_on(async { limiter.try_acquire().unwrap_err().retry_after() })
    };
    let [one, other, met_later] = [(); 3].map(|()| paused_runtime());
    spend_and_sleep(&one, Duration::ZERO);
    spend_and_sleep(&other, DAY / 2);
    limiter.set_quota(Quota::new(1, 2 * DAY));
    spend_and_sleep(&met_later, Duration::ZERO);
    // Half of it is paid off in one of them.
    let left = [&one, &other, &met_later].map(left_in);
    assert_eq!(left, [Some(2 * DAY), Some(DAY), Some(2 * DAY)]);
}

/// The end of one runtime does not affect the waiters of another.
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
                first.block_on(async { at_once(&visitor) });
                let own = first.spawn(Arc::clone(&visitor).acquire_owned());
                first.block_on(until_queued(&visitor, 1));
                drop(first);
                own.is_finished()
            });
            assert!(gone.join().unwrap());
        };
        let begun = Instant::now();
        let (ended, ()) = tokio::join!(timeout(YEAR, waits), gone);
        for charge in ended.expect("nobody is stranded") {
            charge.unwrap();
        }
        assert_eq!(begun.elapsed(), millis(300));
    });
}

/// There are no waiters left, but a timer was armed in the runtime that is gone.
#[test]
fn acquire_after_a_runtime_is_gone_is_woken_by_a_timer_of_its_own() {
    let limiter = limiter(Quota::per_second(1000));
    let before = paused_runtime();
    before.block_on(async { limiter.snapshot().available });
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

/// This holds on a plain thread, even after a runtime is gone, and in an executor of another kind.
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

/// The tasks run on many workers, and a blocking task on a driven runtime.
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

/// Only the joining call panics; otherwise the next waiter's timer would panic in the drop of the
/// first.
#[test]
fn runtime_without_a_timer_fails_only_what_waits() {
    let limiter = limiter(Quota::per_hour(1));
    let runtime = Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        // There is nothing to wait for.
        limiter.acquire().await.unwrap();
        let mut first = Waiter::new(limiter.acquire());
        assert!(catch_unwind(AssertUnwindSafe(|| first.poll())).is_err());
        let second = Waiter::parked(limiter.acquire());
        drop(first);
        assert_eq!(limiter.snapshot().waiting, 1);
        drop(second);
        assert_eq!(limiter.snapshot().waiting, 0);
        assert!(limiter.try_acquire().is_err());
    });
    paused_runtime().block_on(async {
        let ended = timeout(YEAR, acquire_times(&limiter, 3)).await;
        assert_eq!(ended.expect("it is not stranded").len(), 3);
    });
}

/// All its tasks are outside from then on, and its waiters stay where they are.
#[test]
fn waiter_in_the_context_of_a_runtime_that_has_ended_keeps_its_place() {
    let limiter = limiter(Quota::per_day(1));
    let gone = paused_runtime();
    let handle = gone.handle().clone();
    drop(gone);
    let _context = handle.enter();
    assert_eq!(at_once(&limiter), 1);
    let mut waiter = Waiter::parked(limiter.acquire());
    let behind = limiter.reserve().unwrap();
    assert!(waiter.is_pending());
    assert_eq!(limiter.snapshot().waiting, 2);
    assert!(behind.delay() > Duration::from_secs(86_400));
}

/// Nobody drives the runtime whose timer would continue after the first thousand.
#[test]
fn release_of_the_waiters_of_a_runtime_that_is_not_driven_reaches_them_all() {
    let releases: [fn(&RateLimiter); 2] = [RateLimiter::close, |limiter| {
        limiter.set_quota(Quota::UNLIMITED);
    }];
    for release in releases {
        ends(move || {
            let limiter = limiter(Quota::per_day(1));
            let idle = paused_runtime();
            let waiters: Vec<_> = idle.block_on(async {
                at_once(&limiter);
                let waiters = (0..3000).map(|_| Waiter::parked(limiter.acquire()));
                waiters.collect()
            });
            release(&limiter);
            until_woken(&waiters);
        });
    }
}

fn with_two_unused(limiter: &Arc<RateLimiter>) -> LocalLimiter {
    let mut local = limiter.local(3);
    local.try_acquire().unwrap();
    local
}

/// A guard may be dropped anywhere, and its charge belongs to the runtime in which it was made.
#[test]
fn refund_in_another_runtime_or_outside_gives_back_in_that_of_the_charge() {
    type GivesBack = fn(&Arc<RateLimiter>) -> Box<dyn FnOnce() + '_>;
    let all: [GivesBack; 5] = [
        |limiter| {
            let charge = limiter.try_acquire_many(2).unwrap();
            Box::new(|| limiter.refund(charge))
        },
        |limiter| {
            let charge = limiter.try_acquire_many(2).unwrap();
            Box::new(|| limiter.settle(charge, 0))
        },
        |limiter| {
            let reservation = limiter.reserve_many(2).unwrap();
            Box::new(|| drop(reservation))
        },
        |limiter| {
            let mut local = with_two_unused(limiter);
            Box::new(move || local.return_unused())
        },
        |limiter| {
            let local = with_two_unused(limiter);
            Box::new(|| drop(local))
        },
    ];
    for gives_back in all {
        let (one, other) = (paused_runtime(), paused_runtime());
        for elsewhere in [None, Some(&other)] {
            let limiter = limiter(Quota::per_day(1).burst(5));
            let free_in =
                |runtime: &Runtime| runtime.block_on(async { limiter.snapshot().available });
            limiter.charge(5);
            let other_free = elsewhere.map(|runtime| {
                runtime.block_on(async { limiter.charge(5) });
                free_in(runtime)
            });
            let (before, back) = one.block_on(async {
                let before = gives_back(&limiter);
                (limiter.snapshot().available, before)
            });
            match elsewhere {
                None => back(),
                Some(runtime) => runtime.block_on(async { back() }),
            }
            assert_eq!(free_in(&one), before + 2);
            assert_eq!(
                (limiter.snapshot().available, elsewhere.map(free_in)),
                (0, other_free)
            );
        }
    }
}

/// Reports its wake, and holds up the waking thread.
struct HoldsUp(mpsc::Sender<()>, Mutex<mpsc::Receiver<()>>);

impl Wake for HoldsUp {
    fn wake(self: Arc<Self>) {
        self.0.send(()).unwrap();
        self.1.lock().unwrap().recv().unwrap();
    }
}

fn holds_up() -> (Waker, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let ((woken, is_woken), (go_on, goes_on)) = (mpsc::channel(), mpsc::channel());
    let waker = Arc::new(HoldsUp(woken, Mutex::new(goes_on)));
    (waker.into(), is_woken, go_on)
}

/// Each is held up after it has changed the first runtime, before the second. Both then change the
/// second to the quota of the later one.
#[test]
fn set_quota_with_of_two_at_once_holds_everywhere_as_the_later_one() {
    for first_goes_first in [true, false] {
        ends(move || {
            let limiter = limiter(Quota::per_day(1).burst(10));
            let (one, other) = (paused_runtime(), paused_runtime());
            let (waker, is_granted, go_on) = holds_up();
            let (last_waker, is_refused, last_go_on) = holds_up();
            let mut waits = [limiter.acquire_many(10), limiter.acquire_many(10)].map(Box::pin);
            one.block_on(async {
                limiter.charge(10);
                for (wait, waker) in waits.iter_mut().zip([waker, last_waker]) {
                    let mut context = Context::from_waker(&waker);
                    assert!(wait.as_mut().poll(&mut context).is_pending());
                }
            });
            other.block_on(async { limiter.charge(4) });
            thread::scope(|scope| {
                let change = |burst, how| {
                    let quota = Quota::per_day(1).burst(burst);
                    let limiter = &limiter;
                    scope.spawn(move || limiter.set_quota_with(quota, how))
                };
                let first = change(20, QuotaChange::KeepSpent);
                is_granted.recv().unwrap();
                let later = change(5, QuotaChange::Proportional);
                is_refused.recv().unwrap();
                let mut order = [(first, go_on), (later, last_go_on)];
                if !first_goes_first {
                    order.reverse();
                }
                for (change, go_on) in order {
                    go_on.send(()).unwrap();
                    change.join().unwrap();
                }
            });
            assert_eq!(limiter.quota().max_burst(), 5);
            let left_in = |runtime: &Runtime| runtime.block_on(async { limiter.snapshot() });
            assert_eq!((left_in(&one).limit, left_in(&other).limit), (5, 5));
            // Spent are 4 of 10, so 2 of 5.
            assert_eq!(left_in(&other).available, 3);
        });
    }
}
