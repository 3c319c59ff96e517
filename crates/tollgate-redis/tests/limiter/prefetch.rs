//! Tests prefetched tokens: few calls, and no token is lost or created.

use std::time::Duration;

use tollgate::{Algorithm, ErrorKind, Quota};
use tollgate_redis::{
    Charge, Detector, LimitSet, RateLimiter, Semaphore, Source, Store, StoreError,
};

use crate::support::proxy::{Mode, Proxy};
use crate::support::server::Server;
use crate::support::{failure, on_server, outside, runtime, slow, until, waits};

const HOLD: Duration = Duration::from_secs(60);

#[test]
fn acquire_with_prefetch_takes_one_call_for_each_chunk() {
    on_server(async |server| {
        let store = server.store();
        let limiter = RateLimiter::new(&store, "k", slow(100_000)).prefetch(100, HOLD);
        limiter.acquire().await.unwrap();
        let mut ahead = 0;
        for _ in 0..10_000 {
            let charge = limiter.acquire().await.unwrap();
            ahead += u32::from(charge.source() == Source::TokenCache);
        }
        // Calls for the first chunk and for each later one, and some misses while a call is in
        // flight.
        assert!(ahead > 9_500, "{ahead}");
        assert!(store.calls() < 210, "{}", store.calls());
    });
}

#[test]
fn acquire_by_several_with_prefetch_admits_at_most_the_burst() {
    on_server(async |server| {
        let limiters: Vec<_> = (0..3)
            .map(|_| RateLimiter::new(&server.store(), "k", slow(1000)).prefetch(64, HOLD))
            .collect();
        let tasks: Vec<_> = (0..30)
            .map(|index| {
                let limiter = limiters[index % 3].clone();
                tokio::spawn(async move {
                    let mut admitted = 0;
                    while limiter.try_acquire().await.is_ok() {
                        admitted += 1;
                    }
                    admitted
                })
            })
            .collect();
        let mut admitted = 0;
        for task in tasks {
            admitted += task.await.unwrap();
        }
        assert!(admitted <= 1000, "{admitted}");
        // Unused tokens are returned when the last handle is dropped.
        drop(limiters);
        let look = RateLimiter::new(&server.store(), "k", slow(1000));
        until(async || look.peek(0).await.unwrap().remaining == 1000 - admitted).await;
    });
}

#[test]
fn acquire_dropped_by_waiters_returns_the_excess() {
    on_server(async |server| {
        // No call reaches its deadline while the server is stopped.
        let patient = || server.store().deadline(HOLD);
        let limiter = RateLimiter::new(&patient(), "k", slow(10_000)).prefetch(10, HOLD);
        let look = RateLimiter::new(&patient(), "k", slow(10_000));
        limiter.acquire().await.unwrap();
        until(async || look.peek(0).await.unwrap().remaining == 9_989).await;
        server.stop();
        let mut line: Vec<_> = (0..1000).map(|_| limiter.acquire_many(5)).collect();
        for waiter in &mut line {
            let _ = waits(waiter).await;
        }
        drop(line);
        server.go_on();
        // Only used tokens are charged, whatever was requested for the waiters, and at most a chunk
        // is held.
        until(async || look.peek(0).await.is_ok_and(|it| it.remaining >= 9_979)).await;
    });
}

#[test]
fn prefetch_beyond_the_hold_time_goes_back() {
    on_server(async |server| {
        let (store, hold) = (server.store(), Duration::from_millis(30));
        let limiter = RateLimiter::new(&store, "k", slow(100)).prefetch(10, hold);
        let look = RateLimiter::new(&server.store(), "k", slow(100));
        for used in 1..=3 {
            limiter.acquire().await.unwrap();
            // Three calls: one for the first caller, one that prefetches, and one that returns
            // tokens.
            until(async || store.calls() >= 3 * used).await;
            until(async || look.peek(0).await.unwrap().remaining == 100 - used).await;
        }
    });
}

#[test]
fn refund_of_a_batch_in_use_goes_to_the_cache() {
    on_server(async |server| {
        let store = server.store();
        let limiter = RateLimiter::new(&store, "k", slow(100)).prefetch(10, HOLD);
        let look = RateLimiter::new(&server.store(), "k", slow(100));
        limiter.acquire().await.unwrap();
        until(async || look.peek(0).await.unwrap().remaining == 89).await;
        let calls = store.calls();
        for _ in 0..1000 {
            let charge = limiter.acquire().await.unwrap();
            assert_eq!(charge.source(), Source::TokenCache);
            limiter.refund(charge).await.unwrap();
        }
        assert_eq!(store.calls(), calls);
        limiter.close();
        until(async || look.peek(0).await.unwrap().remaining == 99).await;
        limiter.acquire().await.unwrap_err();
    });
}

#[test]
fn refund_of_a_used_batch_goes_to_the_server() {
    on_server(async |server| {
        // A log refunds exactly, in any order.
        let log = || {
            let limiter = RateLimiter::new(&server.store(), "k", slow(1000));
            limiter.algorithm(Algorithm::SlidingLog)
        };
        let (limiter, look) = (log().prefetch(10, HOLD), log());
        limiter.acquire().await.unwrap();
        let mut charges = Vec::new();
        for used in 2..=50 {
            // One is on its way now and then, and is waited for.
            until(async || 1000 - look.peek(0).await.unwrap().remaining >= used).await;
            charges.push(limiter.acquire().await.unwrap());
        }
        assert!(charges.iter().all(|it| it.source() == Source::TokenCache));
        let held = |remaining: u64| 1000 - remaining - 50;
        until(async || held(look.peek(0).await.unwrap().remaining) >= 3).await;
        let before = look.peek(0).await.unwrap().remaining;
        // The oldest charges are refunded on the server, because their batches are used up.
        for charge in charges.drain(..20) {
            limiter.refund(charge).await.unwrap();
        }
        assert_eq!(look.peek(0).await.unwrap().remaining, before + 20);
        for charge in charges {
            limiter.refund(charge).await.unwrap();
        }
        limiter.shutdown().await;
        assert_eq!(look.peek(0).await.unwrap().remaining, 999);
    });
}

/// Three processes take and refund at random, while answers are lost, quotas change, and limiters are dropped.
#[test]
fn acquire_with_prefetch_under_faults_admits_no_more_than_is_charged() {
    on_server(async |server| {
        let proxy = Proxy::start(server.port()).await;
        let quota = |burst| Quota::new(20_000, Duration::from_secs(365 * 86_400)).burst(burst);
        let limiter = || {
            let (shortest, longest) = (Duration::from_millis(1), Duration::from_millis(10));
            let store = proxy.store().deadline(Duration::from_millis(100));
            let store = store.breaker(2, shortest, longest);
            RateLimiter::new(&store, "k", quota(20_000)).prefetch(20, Duration::from_millis(40))
        };
        let look = RateLimiter::new(&server.store().deadline(HOLD), "k", quota(20_000));
        let charged = async || 20_000 - look.peek(0).await.unwrap().remaining;
        let mut rng = fastrand::Rng::with_seed(23);
        let mut limiters: Vec<_> = (0..3).map(|_| limiter()).collect();
        let mut kept: [Vec<Charge>; 3] = Default::default();
        let (mut dropped, mut ahead) = (0, 0);
        for _ in 0..2_000 {
            let index = rng.usize(0..3);
            let (limiter_now, charges) = (&limiters[index], &mut kept[index]);
            match rng.u32(0..100) {
                0 => proxy.set(Mode::BlackHole),
                1 => proxy.set(Mode::HalfOpen),
                2..=9 => proxy.set(Mode::Pass),
                10 => limiter_now.set_quota(quota(rng.u64(20_000..21_000))),
                11 => {
                    dropped += charges.drain(..).map(|it| it.cost()).sum::<u64>();
                    limiters[index] = limiter();
                }
                12..=30 if !charges.is_empty() => {
                    let charge = charges.swap_remove(rng.usize(..charges.len()));
                    // If that fails, it may be refunded nevertheless.
                    let _ = limiter_now.refund(charge).await;
                }
                _ => {
                    if let Ok(charge) = limiter_now.try_acquire_many(rng.u64(1..5)).await {
                        ahead += u32::from(charge.source() == Source::TokenCache);
                        charges.push(charge);
                    }
                }
            }
            if rng.u32(0..20) == 0 {
                let kept = kept.iter().flatten().map(Charge::cost).sum::<u64>() + dropped;
                assert!(charged().await >= kept, "{kept}");
            }
        }
        proxy.set(Mode::Pass);
        for limiter in &limiters {
            limiter.shutdown().await;
        }
        let kept = kept.iter().flatten().map(Charge::cost).sum::<u64>() + dropped;
        assert!(charged().await >= kept, "{kept}");
        assert!(ahead > 100, "{ahead}");
    });
}

#[test]
fn shutdown_with_prefetch_waits_until_all_is_back() {
    on_server(async |server| {
        let look = RateLimiter::new(&server.store(), "k", slow(1000));
        for round in 1..=20 {
            let limiter = RateLimiter::new(&server.store(), "k", slow(1000)).prefetch(100, HOLD);
            limiter.acquire().await.unwrap();
            limiter.shutdown().await;
            assert_eq!(look.peek(0).await.unwrap().remaining, 1000 - round);
            let refused = limiter.acquire().await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Closed);
        }
    });
}

#[test]
fn try_acquire_with_little_left_asks_the_server() {
    on_server(async |server| {
        let limiter = RateLimiter::new(&server.store(), "k", slow(20)).prefetch(15, HOLD);
        let other = RateLimiter::new(&server.store(), "k", slow(20));
        other.acquire_many(10).await.unwrap();
        for _ in 0..10 {
            let charge = limiter.try_acquire().await.unwrap();
            assert_eq!(charge.source(), Source::Store);
        }
        limiter.try_acquire().await.unwrap_err();
    });
}

#[test]
#[should_panic(expected = "a chunk of 11 is not between 1 and the burst of 10")]
fn prefetch_of_more_than_the_burst_panics() {
    on_server(async |server| {
        let quota = Quota::per_second(10).burst(10);
        let _ = RateLimiter::new(&server.store(), "k", quota).prefetch(11, HOLD);
    });
}

// Calls that are polled outside of the runtime of the store, and after its end.

fn quick() -> Quota {
    Quota::new(1, Duration::from_millis(20))
}

fn store_of(server: &Server, runtime: &tokio::runtime::Runtime) -> Store {
    let _inside = runtime.enter();
    server.store()
}

#[test]
fn calls_outside_of_every_runtime_work() {
    let server = Server::start();
    let runtime = runtime();
    let store = store_of(&server, &runtime);
    assert!(!outside(store.check()).unwrap().is_empty());

    let limiter = RateLimiter::new(&store, "k", slow(5));
    let charge = outside(limiter.charge(2)).unwrap();
    assert_eq!(outside(limiter.peek(0)).unwrap().remaining, 3);
    outside(limiter.refund(charge)).unwrap();
    let reservation = outside(limiter.reserve(Duration::ZERO)).unwrap();
    assert_eq!(outside(limiter.peek(0)).unwrap().remaining, 4);
    drop(reservation);

    let limits = LimitSet::new(&store)
        .limit("a", quick())
        .limit("b", slow(9));
    let first = outside(limits.try_acquire()).unwrap();
    // These calls wait for their turn.
    outside(limits.acquire()).unwrap();
    outside(limits.acquire()).unwrap();
    assert_eq!(outside(limits.peek(1)).unwrap()[1].remaining, 6);
    outside(limits.refund(first.into_charges().unwrap())).unwrap();

    let detector = Detector::new(&store, "abuse", slow(10));
    detector.record_many("mallory", 11);
    assert_eq!(outside(detector.pass()), Ok(1));

    let semaphore = Semaphore::new(&store, "jobs", 2).grace(Duration::ZERO);
    let lease = outside(semaphore.acquire()).unwrap();
    assert_eq!(outside(semaphore.available()), Ok(1));
    outside(lease.release()).unwrap();
    assert_eq!(outside(semaphore.available()), Ok(2));
}

#[test]
fn calls_in_another_runtime_work() {
    let server = Server::start();
    let runtime = runtime();
    let store = store_of(&server, &runtime);
    // A runtime without timers and sockets.
    let other = tokio::runtime::Builder::new_current_thread().build();
    other.unwrap().block_on(async {
        let limits = LimitSet::new(&store).limit("a", quick());
        limits.acquire().await.unwrap();
        limits.acquire().await.unwrap();
        let limiter = RateLimiter::new(&store, "k", slow(5));
        assert_eq!(limiter.peek(0).await.unwrap().remaining, 5);
    });
}

#[test]
fn calls_without_the_runtime_are_errors() {
    let server = Server::start();
    let runtime = runtime();
    let store = store_of(&server, &runtime);
    let limiter = RateLimiter::new(&store, "k", slow(5));
    let limits = LimitSet::new(&store).limit("a", slow(2));
    let detector = Detector::new(&store, "abuse", slow(10));
    let semaphore = Semaphore::new(&store, "jobs", 2).grace(Duration::ZERO);
    let charges = outside(limits.acquire_many(2)).unwrap();
    let lease = outside(semaphore.acquire()).unwrap();

    // Meanwhile a caller waits, for hours according to the server.
    let waits = std::thread::spawn({
        let limits = limits.clone();
        move || outside(limits.acquire())
    });
    while store.calls() < 3 {
        std::thread::yield_now();
    }
    drop(runtime);
    let error = waits.join().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Store);

    let gone = StoreError::NoRuntime;
    assert_eq!(outside(store.check()), Err(gone));
    for _ in 0..2 {
        assert_eq!(failure(&outside(limiter.acquire()).unwrap_err()), gone);
    }
    assert_eq!(outside(limiter.peek(0)).unwrap_err(), gone);
    assert_eq!(outside(limits.peek(1)).unwrap_err(), gone);
    assert_eq!(outside(limits.try_acquire()).unwrap_err(), gone);
    assert_eq!(outside(limits.refund(charges)), Err(gone));
    detector.record("mallory");
    assert_eq!(outside(detector.pass()), Err(gone));
    assert_eq!(outside(semaphore.available()), Err(gone));
    assert!(lease.is_lost() && lease.token().is_cancelled());
    assert_eq!(outside(lease.release()), Err(gone));
    let refused = outside(semaphore.acquire()).unwrap_err();
    assert_eq!((failure(&refused), semaphore.waiting()), (gone, 0));
    assert!(!store.is_broken());
}
