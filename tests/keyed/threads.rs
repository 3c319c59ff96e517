//! Several threads at once: the promise holds for each key, by the ticks of the charges.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tollgate::{ErrorKind, Keyed, Quota, WhenFull};

use crate::support::audit::Allowance;
use crate::support::random::on_threads;

const THREADS: u64 = 4;

type Charged = Mutex<HashMap<u32, Vec<(u64, u64)>>>;

fn audit(quota: Quota, charged: Charged) {
    for (key, charged) in charged.into_inner().unwrap() {
        assert_eq!(Allowance::of(quota).audit(&charged), Ok(()), "{key}");
    }
}

#[test]
fn tries_keep_the_promise_for_every_key() {
    for (when_full, max_keys) in [(WhenFull::Reject, 100), (WhenFull::Reject, 20)] {
        let quota = Quota::per_second(1000).burst(5);
        let users = Keyed::<u32, _>::rate_limiters(quota)
            .max_keys(max_keys)
            .when_full(when_full);
        let charged = Charged::default();
        on_threads(THREADS, |random| {
            for _ in 0..20_000 {
                let key = random.below(60);
                if let Ok(charge) = users.key(&key).try_acquire() {
                    let mut charged = charged.lock().unwrap();
                    charged
                        .entry(key)
                        .or_default()
                        .push((charge.at().as_nanos(), 1));
                }
            }
        });
        assert!(users.len() <= max_keys);
        audit(quota, charged);
    }
}

#[test]
fn waits_keep_the_promise_for_every_key_and_all_get_through() {
    let quota = Quota::per_second(20_000).burst(2);
    let users = Keyed::<u32, _>::rate_limiters(quota).max_keys(10);
    let charged = Charged::default();
    on_threads(THREADS, |random| {
        for _ in 0..500 {
            let key = random.below(5);
            let user = users.key(&key);
            if random.below(4) == 0 {
                drop(
                    user.acquire_many(2)
                        .timeout(Duration::from_micros(20))
                        .wait()
                        .map(|charge| {
                            user.refund(charge);
                        }),
                );
            } else {
                let charge = user.acquire().wait().unwrap();
                let mut charged = charged.lock().unwrap();
                charged
                    .entry(key)
                    .or_default()
                    .push((charge.at().as_nanos(), 1));
            }
        }
    });
    audit(quota, charged);
}

#[test]
fn permits_are_never_exceeded_for_any_key() {
    let users = Arc::new(Keyed::<u32, _>::semaphores(2).max_keys(6));
    let out: Vec<AtomicUsize> = (0..20).map(|_| AtomicUsize::new(0)).collect();
    on_threads(THREADS, |random| {
        for _ in 0..5_000 {
            let key = random.below(20);
            let entered = if random.below(2) == 0 {
                users.key(&key).try_acquire()
            } else {
                users.key(&key).acquire().wait()
            };
            match entered {
                Ok(permit) => {
                    assert!(out[key as usize].fetch_add(1, Ordering::SeqCst) < 2);
                    thread::yield_now();
                    out[key as usize].fetch_sub(1, Ordering::SeqCst);
                    drop(permit);
                }
                Err(error) => assert!(matches!(
                    error.kind(),
                    ErrorKind::NoPermits | ErrorKind::TooManyKeys
                )),
            }
        }
    });
    users.shrink();
    assert!(users.is_empty());
}

#[test]
fn verbs_of_all_keys_may_run_beside_calls_of_one() {
    let quota = Quota::per_second(1_000_000).burst(3);
    let users = Keyed::<u32, _>::rate_limiters(quota)
        .max_keys(50)
        .when_full(WhenFull::Evict);
    on_threads(THREADS, |random| {
        for _ in 0..3_000 {
            let key = random.below(100);
            match random.below(20) {
                0 => users.shrink(),
                1 => users.retain(|key| key % 3 > 0),
                2 => users.set_quota(quota.burst(u64::from(1 + random.below(5)))),
                3 => drop(users.key(&key).reserve()),
                4 => drop(users.key(&key).acquire().wait()),
                _ => drop(users.key(&key).try_acquire()),
            }
        }
    });
    assert!(users.len() <= 50);
    users.retain(|_| false);
    assert_eq!(users.len(), 0);
}
