//! System time: it depends on no runtime, and so not on the driver of one.

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use futures::executor::LocalPool;
use futures::future::join_all;
use futures::task::LocalSpawnExt;
use tokio::runtime::{Builder, Runtime};
use tollgate::rate::Charge;
use tollgate::time::Tick;
use tollgate::{Clock, ErrorKind, Gate, Keyed, LeakyBucket, Quota, RateLimiter};

use crate::support::foreign::{panics_when_woken, throws_a_bomb_when_woken};
use crate::support::{Waiter, kind, paused_runtime};
use crate::{SECOND, acquire_times, assert_apart, block_on, ends, flat, millis, until_queued};

const FAST: Quota = Quota::per_second(1000);
const NEVER: Quota = Quota::per_day(1);

/// Returns a runtime without a timer of its own.
fn runtime() -> Runtime {
    Builder::new_current_thread().build().unwrap()
}

/// Returns a limiter like one in a static, first used outside of any runtime.
fn begun(quota: Quota) -> &'static RateLimiter {
    let limiter = Box::leak(Box::new(RateLimiter::new(quota).clock(Clock::system())));
    assert_eq!(limiter.snapshot().available, 1);
    limiter
}

/// Returns a limiter whose next token is due only after a change of the quota, and then soon.
fn never() -> &'static RateLimiter {
    let limiter = begun(NEVER);
    limiter.try_acquire().unwrap();
    limiter
}

/// Any threads and runtimes share one limiter in a static and go at its rate.
#[test]
fn limiter_in_a_static_is_shared_by_everything_that_waits() {
    type Waits = fn(&'static RateLimiter) -> Vec<Charge>;
    let rows: [(&str, Waits, usize); 5] = [
        ("runtimes one after another", one_after_another, 12),
        ("runtimes at once", at_once, 18),
        ("plain threads", plain_threads, 20),
        ("an executor without a timer", without_a_timer, 9),
        ("tasks of smol", tasks_of_smol, 20),
    ];
    for (name, waits, count) in rows {
        let limiter = begun(FAST);
        let charges = ends(move || waits(limiter));
        assert_eq!(charges.len(), count, "{name}");
        assert_apart(charges, millis(1));
    }
}

fn one_after_another(limiter: &'static RateLimiter) -> Vec<Charge> {
    flat((0..4).map(|_| runtime().block_on(acquire_times(limiter, 3))))
}

fn at_once(limiter: &'static RateLimiter) -> Vec<Charge> {
    let threads = [(); 3].map(|()| {
        thread::spawn(|| {
            let each = join_all((0..3).map(|_| acquire_times(limiter, 2)));
            flat(runtime().block_on(each))
        })
    });
    flat(threads.map(|thread| thread.join().unwrap()))
}

fn plain_threads(limiter: &'static RateLimiter) -> Vec<Charge> {
    let wait = |_| limiter.acquire().wait().unwrap();
    let waits = move || (0..5).map(wait).collect::<Vec<Charge>>();
    let threads = [(); 4].map(|()| thread::spawn(waits));
    let each = threads.map(|thread| thread.join().unwrap());
    // Each thread sees its own charges in order.
    for charges in &each {
        assert!(charges.is_sorted_by_key(Charge::at));
    }
    flat(each)
}

fn without_a_timer(limiter: &'static RateLimiter) -> Vec<Charge> {
    let done = Arc::new(Mutex::new(Vec::new()));
    let mut pool = LocalPool::new();
    for _ in 0..3 {
        let done = Arc::clone(&done);
        let task = async move {
            let charges = acquire_times(limiter, 3).await;
            done.lock().unwrap().extend(charges);
        };
        pool.spawner().spawn_local(task).unwrap();
    }
    pool.run();
    std::mem::take(&mut *done.lock().unwrap())
}

fn tasks_of_smol(limiter: &'static RateLimiter) -> Vec<Charge> {
    let tasks = [(); 4].map(|()| smol::spawn(acquire_times(limiter, 5)));
    flat(smol::block_on(join_all(tasks)))
}

#[test]
fn acquire_of_a_key_a_leaky_bucket_and_a_gate_under_smol_ends() {
    static USERS: Keyed<u8, RateLimiter> = Keyed::rate_limiters(FAST);
    ends(|| {
        let task = smol::spawn(async {
            USERS.key(&7).acquire().await?;
            USERS.key(&7).acquire().await
        });
        smol::block_on(async {
            task.await.unwrap();
            let bucket = LeakyBucket::new(FAST, 10);
            let (first, second) = futures::join!(bucket.acquire(), bucket.acquire());
            assert!(first.is_ok() && second.is_ok());
            let gate = Gate::new();
            gate.block_for(millis(2));
            gate.acquire().await.unwrap();
        });
    });
}

/// smol's own timer wins, and the dropped wait leaves nothing behind.
#[test]
fn acquire_that_loses_against_a_timer_of_smol_takes_nothing() {
    let limiter = never();
    ends(|| {
        let timer = async {
            smol::Timer::after(millis(1)).await;
            None
        };
        let acquire = async { Some(limiter.acquire().await) };
        assert!(smol::block_on(smol::future::or(acquire, timer)).is_none());
        assert_eq!(limiter.snapshot().waiting, 0);
    });
}

#[test]
fn runtime_that_is_dropped_takes_only_its_own_tasks_out_of_the_queue() {
    let limiter = never();
    ends(|| {
        let gone = runtime();
        let tasks = [(); 3].map(|()| gone.spawn(limiter.acquire()));
        gone.block_on(until_queued(limiter, 3));
        let behind = thread::spawn(|| runtime().block_on(limiter.acquire()));
        block_on(until_queued(limiter, 4));
        drop(gone);
        assert!(tasks.iter().all(|task| task.is_finished()));
        assert_eq!(limiter.snapshot().waiting, 1);
        limiter.set_quota(FAST);
        behind.join().unwrap().unwrap();
    });
}

#[test]
fn runtime_that_is_dropped_after_the_queue_began_to_move_strands_nobody() {
    let limiter = never();
    ends(|| {
        let gone = runtime();
        for _ in 0..20 {
            gone.spawn(limiter.acquire());
        }
        gone.block_on(until_queued(limiter, 20));
        let behind = thread::spawn(|| limiter.acquire().wait());
        block_on(until_queued(limiter, 21));
        limiter.set_quota(FAST);
        drop(gone);
        behind.join().unwrap().unwrap();
    });
}

/// Its task is the head of the queue, and is not polled.
#[test]
fn runtime_that_is_never_driven_again_strands_nobody() {
    let limiter = never();
    ends(|| {
        let asleep = runtime();
        let task = asleep.spawn(limiter.acquire());
        asleep.block_on(until_queued(limiter, 1));
        let behind = thread::spawn(|| runtime().block_on(acquire_times(limiter, 3)));
        block_on(until_queued(limiter, 2));
        limiter.set_quota(FAST);
        let charges = behind.join().unwrap();
        // Its turn had come before theirs, although it has not been polled yet.
        assert!(!task.is_finished());
        let its = asleep.block_on(task).unwrap().unwrap();
        assert!(charges.iter().all(|charge| charge.at() > its.at()));
    });
}

#[test]
fn paused_time_of_a_runtime_does_not_concern_it() {
    ends(|| {
        paused_runtime().block_on(async {
            let limiter = RateLimiter::new(FAST).clock(Clock::system());
            let begun = tokio::time::Instant::now();
            assert_apart(acquire_times(&limiter, 4).await, millis(1));
            assert_eq!(begun.elapsed(), Duration::ZERO);
            let slow = RateLimiter::new(NEVER).clock(Clock::system());
            slow.try_acquire().unwrap();
            tokio::time::advance(86_400 * SECOND).await;
            assert_eq!(kind(slow.try_acquire()), ErrorKind::RateLimited);
        });
    });
}

/// This holds for the waker of a waiter, and for that of a timeout, which has a timer of its own: the
/// wait would fit, so it waits, and then it is due soon.
#[test]
fn waker_that_panics_ends_no_timer() {
    ends(|| {
        let wakers = [panics_when_woken(), throws_a_bomb_when_woken()];
        for (waker, timeout) in wakers.into_iter().zip([2 * 86_400 * SECOND, Duration::MAX]) {
            let limiter = RateLimiter::new(NEVER).clock(Clock::system());
            let other = RateLimiter::new(FAST).clock(Clock::system());
            limiter.try_acquire().unwrap();
            let mut bad = Waiter::parked_with(limiter.acquire(), &waker);
            let mut timed = Waiter::parked_with(limiter.acquire().timeout(timeout), &waker);
            // Queued before it is due, however slow the machine is.
            limiter.set_quota(FAST);
            limiter.acquire().wait().unwrap();
            let charges = (0..3).map(|_| other.acquire().wait().unwrap()).collect();
            assert_apart(charges, millis(1));
            bad.granted();
            timed.granted();
            limiter.acquire().wait().unwrap();
        }
    });
}

#[test]
fn timeout_of_a_blocked_thread_ends() {
    ends(|| {
        let limiter = RateLimiter::new(NEVER).clock(Clock::system());
        limiter.try_acquire().unwrap();
        let refused = limiter.acquire().timeout(SECOND).wait();
        assert_eq!(kind(refused), ErrorKind::TimedOut);
        // It would fit when it begins, and then another caller takes everything.
        let limiter = Arc::new(RateLimiter::new(Quota::per_second(20)).clock(Clock::system()));
        limiter.try_acquire().unwrap();
        let wait = Arc::clone(&limiter).acquire_owned();
        let waiting = thread::spawn(move || wait.timeout(millis(50)).wait());
        while limiter.snapshot().waiting == 0 && !waiting.is_finished() {
            thread::yield_now();
        }
        limiter.charge(86_400 * 20);
        // Unless the machine stalled before.
        match waiting.join().unwrap() {
            Ok(charge) => assert_eq!(charge.cost(), 1),
            Err(error) => assert_eq!(error.kind(), ErrorKind::TimedOut),
        }
    });
}

/// The most by which two threads may disagree.
const MICROSECOND: Duration = Duration::from_micros(1);

#[test]
fn now_goes_back_from_one_thread_to_another_by_a_microsecond_at_most() {
    let latest = Mutex::new(Tick::default());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let clock = Clock::system();
                for _ in 0..20_000 {
                    let mut latest = latest.lock().unwrap();
                    let now = clock.now();
                    let back = latest.saturating_since(now);
                    assert!(back <= MICROSECOND, "{now:?} after {latest:?}");
                    *latest = now.max(*latest);
                }
            });
        }
    });
    assert!(*latest.lock().unwrap() > Tick::default());
}

#[test]
fn now_is_the_same_in_all_of_the_process() {
    let before = Clock::system().now();
    let limiter = RateLimiter::new(FAST).clock(Clock::system());
    let at = thread::spawn(move || limiter.try_acquire().unwrap().at())
        .join()
        .unwrap();
    let after = Clock::system().now();
    assert!(before.saturating_since(at) <= MICROSECOND);
    assert!(at.saturating_since(after) <= MICROSECOND);
}

/// Runs in a process whose threads would need more memory than there are addresses.
#[cfg(target_os = "linux")]
#[test]
fn a_timer_thread_that_cannot_be_started_is_reported_to_each_caller() {
    const NAME: &str = "system::a_timer_thread_that_cannot_be_started_is_reported_to_each_caller";
    const CHILD: &str = "TOLLGATE_WITHOUT_THREADS";
    if env::var_os(CHILD).is_some() {
        return without_threads();
    }
    let mut child = Command::new(env::current_exe().unwrap());
    child.args(["--exact", NAME, "--test-threads=1"]);
    child
        .env(CHILD, "1")
        .env("RUST_MIN_STACK", (1_u64 << 47).to_string());
    let output = child.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let ran = String::from_utf8_lossy(&output.stdout);
    assert!(ran.contains("1 passed"), "{output:?}");
}

#[cfg(target_os = "linux")]
fn without_threads() {
    let limiter = RateLimiter::new(NEVER).clock(Clock::system());
    limiter.try_acquire().unwrap();
    for _ in 0..3 {
        let waits = catch_unwind(AssertUnwindSafe(|| limiter.acquire().wait()));
        let payload = waits.unwrap_err();
        let message = payload.downcast_ref::<String>().unwrap();
        assert!(
            message.starts_with("cannot start the timer thread"),
            "{message}"
        );
        assert_eq!(limiter.snapshot().waiting, 0);
        assert_eq!(kind(limiter.try_acquire()), ErrorKind::RateLimited);
    }
}
