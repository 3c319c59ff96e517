//! The time of the machine under smol: waiters are woken by the timer thread of the library, and
//! the timers and tasks of smol end its waits like any other.

use std::time::Duration;

use smol::future::or;
use smol::{Timer, block_on};
use tollgate::{ErrorKind, Gate, Keyed, LeakyBucket, Quota, RateLimiter, Semaphore};

use crate::support::kind;
use crate::{acquire_times, assert_apart, ends, flat, millis};

const FAST: Quota = Quota::per_second(1000);

#[test]
fn acquire_in_tasks_of_smol_keeps_the_rate() {
    static LIMITER: RateLimiter = RateLimiter::new(FAST);
    let charges = ends(|| {
        let tasks: Vec<_> = (0..4)
            .map(|_| smol::spawn(acquire_times(&LIMITER, 5)))
            .collect();
        block_on(async {
            let mut charges = Vec::new();
            for task in tasks {
                charges.push(task.await);
            }
            charges
        })
    });
    assert_apart(flat(charges), millis(1));
}

#[test]
fn acquire_of_a_key_in_a_task_of_smol_ends() {
    static USERS: Keyed<u8, RateLimiter> = Keyed::rate_limiters(FAST);
    ends(|| {
        let task = smol::spawn(async {
            USERS.key(&7).acquire().await?;
            USERS.key(&7).acquire().await
        });
        block_on(task).unwrap();
    });
}

#[test]
fn acquire_of_a_leaky_bucket_and_a_gate_under_smol_ends() {
    ends(|| {
        block_on(async {
            let bucket = LeakyBucket::new(FAST, 10);
            let (first, second) = smol::future::zip(bucket.acquire(), bucket.acquire()).await;
            assert!(first.is_ok() && second.is_ok());
            let gate = Gate::new();
            gate.block_for(millis(2));
            gate.acquire().await.unwrap();
        });
    });
}

#[test]
fn timeout_under_smol_ends_a_wait() {
    ends(|| {
        block_on(async {
            let nobody = Semaphore::new(0);
            let late = nobody.acquire().timeout(millis(1)).await;
            assert_eq!(kind(late), ErrorKind::TimedOut);
            assert_eq!(nobody.snapshot().waiting, 0);
        });
    });
}

/// smol's own timer wins, and the wait that is dropped leaves nothing behind.
#[test]
fn acquire_that_loses_against_a_timer_of_smol_takes_nothing() {
    ends(|| {
        block_on(async {
            let limiter = RateLimiter::new(Quota::per_day(1));
            limiter.try_acquire().unwrap();
            let timer = async {
                Timer::after(Duration::from_millis(1)).await;
                None
            };
            let acquire = async { Some(limiter.acquire().await) };
            assert!(or(acquire, timer).await.is_none());
            assert_eq!(limiter.snapshot().waiting, 0);
        });
    });
}
