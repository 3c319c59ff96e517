//! Tests waiters whose turns the server reserves. Stores stand for processes; the ticks of the server decide, in the
//! replies, so no test depends on the speed of the machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tokio::task::JoinSet;
use tollgate::{ErrorKind, Quota};
use tollgate_redis::{Charge, LimitSet, RateLimiter, Store, StoreError};

use crate::support::server::Server;
use crate::support::{ask, failure, on_server, runtime, slow, until};

/// A unit in this time, one at once.
fn limiter(server: &Server, every: Duration) -> RateLimiter {
    RateLimiter::new(&server.store(), "k", Quota::new(1, every))
}

const GAP: Duration = Duration::from_secs(2);

/// Returns the time until the server would admit the next call.
async fn next(limiter: &RateLimiter) -> Duration {
    limiter.peek(1).await.unwrap().retry_after.unwrap()
}

/// Waits until this number of turns is reserved.
async fn has_turns(look: &RateLimiter, turns: u32) {
    until(async || next(look).await > GAP * turns).await;
}

pub(crate) fn micros(time: SystemTime) -> u64 {
    let time = time.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    u64::try_from(time.as_micros()).unwrap()
}

/// Checks that what was admitted in any time is at most the burst and what the rate pays off, which is one in `gap`
/// microseconds.
pub(crate) fn assert_within(burst: u64, gap: u64, charges: &mut [(u64, u64)]) {
    charges.sort_unstable();
    let (mut debt, mut at) = (0_u64, 0);
    for (tick, cost) in charges {
        debt = debt.saturating_sub(*tick - at) + *cost * gap;
        at = *tick;
        assert!(debt <= burst * gap, "{debt} at {tick}");
    }
}

/// Runs a fleet until this number of calls is admitted. Returns the ticks and the costs, and the number of requests.
async fn fleet(
    server: &Server,
    quota: Quota,
    leaves: bool,
    admissions: usize,
) -> (Vec<(u64, u64)>, u64) {
    let stores: Vec<Store> = (0..16).map(|_| server.store()).collect();
    let (sender, mut receiver) = tokio::sync::mpsc::channel::<Charge>(1);
    let mut callers = JoinSet::new();
    for (seed, store) in stores.iter().enumerate() {
        let limiter = RateLimiter::new(store, "k", quota);
        for _ in 0..4 {
            let (limiter, sender) = (limiter.clone(), sender.clone());
            let mut rng = fastrand::Rng::with_seed(seed as u64);
            callers.spawn(async move {
                loop {
                    let cost = rng.u64(1..=quota.max_burst());
                    let time = if leaves { rng.u64(0..300) } else { 60_000 };
                    let time = Duration::from_millis(time);
                    let waits = async { limiter.acquire_many(cost).await };
                    if let Ok(charge) = tokio::time::timeout(time, waits).await
                        && sender.send(charge.unwrap()).await.is_err()
                    {
                        return;
                    }
                }
            });
        }
    }
    let mut charges = Vec::new();
    while charges.len() < admissions {
        let charge = receiver.recv().await.unwrap();
        charges.push((micros(charge.at()), charge.cost()));
    }
    (charges, stores.iter().map(Store::calls).sum())
}

#[test]
fn acquire_by_a_fleet_has_one_request_for_each_and_no_two_at_one_tick() {
    on_server(async |server| {
        let quota = Quota::per_second(100);
        let (mut charges, calls) = fleet(server, quota, false, 200).await;
        assert_within(1, 10_000, &mut charges);
        // Each process has two more in the beginning. A stall of the machine takes two more each.
        assert!(calls <= 16 * 2 + 200 * 3, "{calls}");
    });
}

#[test]
fn acquire_by_a_fleet_whose_callers_leave_stays_within_the_bound() {
    on_server(async |server| {
        let quota = Quota::per_second(200).burst(4);
        let (mut charges, _) = fleet(server, quota, true, 150).await;
        assert_within(4, 5_000, &mut charges);
    });
}

#[test]
fn acquire_that_leaves_passes_its_turn_to_the_next_waiter() {
    on_server(async |server| {
        let (limiter, look) = (limiter(server, GAP), limiter(server, GAP));
        let first = limiter.acquire().await.unwrap();
        let leaves = tokio::spawn(limiter.acquire());
        has_turns(&look, 1).await;
        let waits = tokio::spawn(limiter.acquire());
        until(async || limiter.waiting() == 2).await;
        leaves.abort();
        let charge = waits.await.unwrap().unwrap();
        assert_eq!(charge.at(), first.at() + GAP);
    });
}

#[test]
fn acquire_that_leaves_alone_gives_its_turn_back() {
    on_server(async |server| {
        let (limiter, look) = (limiter(server, GAP), limiter(server, GAP));
        let first = limiter.acquire().await.unwrap();
        let leaves = tokio::spawn(limiter.acquire());
        has_turns(&look, 1).await;
        // It counts as used.
        let decision = look.peek(1).await.unwrap();
        assert_eq!(decision.remaining, 0);
        let refused = look.try_acquire().await.unwrap_err();
        assert!(refused.retry_after().unwrap() > GAP);
        leaves.abort();
        until(async || limiter.waiting() == 0).await;
        limiter.shutdown().await;
        assert_eq!(look.acquire().await.unwrap().at(), first.at() + GAP);
    });
}

/// The turns behind it keep their ticks.
#[test]
fn acquire_that_leaves_in_the_middle_of_a_fleet_leaves_its_tick_to_another_process() {
    on_server(async |server| {
        let all = [(); 4].map(|()| limiter(server, GAP));
        let [one, two, three, look] = &all;
        let first = one.acquire().await.unwrap();
        let leaves = tokio::spawn(one.acquire());
        has_turns(look, 1).await;
        let second = tokio::spawn(two.acquire());
        has_turns(look, 2).await;
        leaves.abort();
        until(async || one.waiting() == 0).await;
        one.shutdown().await;
        let third = three.acquire().await.unwrap();
        assert_eq!(third.at(), first.at() + GAP);
        assert_eq!(second.await.unwrap().unwrap().at(), first.at() + GAP * 2);
    });
}

#[test]
fn acquire_with_a_timeout_that_is_too_short_charges_nothing() {
    on_server(async |server| {
        let (limiter, look) = (limiter(server, GAP), limiter(server, GAP));
        limiter.acquire().await.unwrap();
        let waits = tokio::spawn(limiter.acquire());
        has_turns(&look, 1).await;
        for _ in 0..20 {
            let refused = limiter.acquire().timeout(GAP / 4).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::TimedOut);
        }
        assert!(next(&look).await <= GAP * 2);
        waits.abort();
    });
}

/// A turn is a charge that has been made.
#[test]
fn acquire_without_a_server_uses_the_turns_that_are_reserved() {
    on_server(async |server| {
        let limiter = limiter(server, GAP);
        let first = limiter.acquire().await.unwrap();
        let waits = tokio::spawn(limiter.acquire());
        // A reply that comes late gives no turn.
        until(async || limiter.statistics().turns == 1).await;
        server.kill();
        let charge = waits.await.unwrap().unwrap();
        assert_eq!(charge.at(), first.at() + GAP);
        let _typed = failure(&limiter.try_acquire().await.unwrap_err());
    });
}

#[test]
fn close_with_turns_gives_all_of_them_back() {
    on_server(async |server| {
        let (limiter, look) = (limiter(server, GAP), limiter(server, GAP));
        limiter.acquire().await.unwrap();
        let mut waiters = JoinSet::new();
        for _ in 0..4 {
            waiters.spawn(limiter.acquire());
        }
        has_turns(&look, 1).await;
        limiter.shutdown().await;
        while let Some(refused) = waiters.join_next().await {
            assert_eq!(refused.unwrap().unwrap_err().kind(), ErrorKind::Closed);
        }
        assert!(next(&look).await <= GAP);
        assert_eq!((limiter.waiting(), limiter.unrefunded()), (0, 0));
    });
}

#[test]
fn set_quota_with_turns_reserves_again() {
    on_server(async |server| {
        let every = Duration::from_secs(4);
        let (limiter, look) = (limiter(server, every), limiter(server, every));
        let first = limiter.acquire().await.unwrap();
        let waits = tokio::spawn(limiter.acquire());
        until(async || next(&look).await > every).await;
        limiter.set_quota(Quota::per_second(100).burst(50));
        let charge = waits.await.unwrap().unwrap();
        assert!(charge.at() < first.at() + every);
    });
}

/// A process whose turn is more than five seconds away notices within that time that the line is gone.
#[test]
fn acquire_with_a_far_turn_of_a_limit_that_was_lost_reserves_again() {
    on_server(async |server| {
        let (limiter, look) = (limiter(server, GAP), limiter(server, GAP));
        let first = look.acquire().await.unwrap();
        let reserved = look.reserve(Duration::MAX).await.unwrap();
        let _others = (reserved, look.reserve_many(1, Duration::MAX).await.unwrap());
        let _another = look.reserve(Duration::MAX).await.unwrap();
        let waits = tokio::spawn(limiter.acquire());
        has_turns(&look, 4).await;
        let () = ask(server, &["DEL", "k"]);
        let charge = waits.await.unwrap().unwrap();
        assert!(charge.at() < first.at() + GAP * 4);
    });
}

#[test]
fn acquire_beyond_max_waiters_that_have_turns_is_refused() {
    on_server(async |server| {
        let limiter = limiter(server, GAP).max_waiters(2);
        limiter.acquire().await.unwrap();
        let mut waiters = JoinSet::new();
        for _ in 0..2 {
            waiters.spawn(limiter.acquire());
        }
        until(async || limiter.waiting() == 2).await;
        has_turns(&limiter, 1).await;
        let refused = limiter.acquire().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::QueueFull);
    });
}

/// A set that only asks would never get anything.
#[test]
fn acquire_of_a_set_on_a_limit_with_turns_is_admitted() {
    on_server(async |server| {
        let quota = Quota::per_second(100);
        let admitted = Arc::new(AtomicU64::new(0));
        let mut others = JoinSet::new();
        for _ in 0..16 {
            let limiter = RateLimiter::new(&server.store(), "all", quota);
            let admitted = Arc::clone(&admitted);
            others.spawn(async move {
                loop {
                    limiter.acquire().await.unwrap();
                    admitted.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let store = server.store();
        let look = RateLimiter::new(&server.store(), "all", quota);
        until(async || next(&look).await > Duration::from_millis(50)).await;
        let tenant = slow(10);
        let limits = LimitSet::new(&store)
            .limit("all", quota)
            .limit("tenant", tenant);
        let before = admitted.load(Ordering::Relaxed);
        for left in (0..5).rev() {
            let charges = limits.acquire().await.unwrap();
            assert_eq!(charges.cost(), 1);
            assert_eq!(limits.peek(1).await.unwrap()[1].remaining, 5 + left);
        }
        let refunded = limits.acquire().await.unwrap();
        limits.refund(refunded).await.unwrap();
        assert_eq!(limits.peek(1).await.unwrap()[1].remaining, 5);
        // Its share is one of 17; it makes two requests that a stall of the machine delays.
        let others = admitted.load(Ordering::Relaxed) - before;
        assert!(others < 6 * 16 * 10, "{others}");
    });
}

/// The turn of a set is given back if its caller leaves.
#[test]
fn acquire_of_a_set_that_leaves_gives_its_turn_back() {
    on_server(async |server| {
        let (limiter, look) = (limiter(server, GAP), limiter(server, GAP));
        let first = limiter.acquire().await.unwrap();
        let waits = tokio::spawn(limiter.acquire());
        has_turns(&look, 1).await;
        let limits = LimitSet::new(&server.store())
            .limit("k", Quota::new(1, GAP))
            .limit("tenant", slow(10));
        let leaves = tokio::spawn({
            let limits = limits.clone();
            async move { limits.acquire().await }
        });
        has_turns(&look, 2).await;
        leaves.abort();
        until(async || next(&look).await <= GAP * 2).await;
        assert_eq!(look.acquire().await.unwrap().at(), first.at() + GAP * 2);
        assert_eq!(limits.peek(1).await.unwrap()[1].remaining, 10);
        waits.await.unwrap().unwrap();
    });
}

#[test]
fn acquire_with_a_turn_ends_with_the_runtime() {
    let server = Server::start();
    let gone = runtime();
    let (_look, wait) = gone.block_on(async {
        let (limiter, look) = (limiter(&server, GAP), limiter(&server, GAP));
        limiter.acquire().await.unwrap();
        let wait = tokio::task::spawn_blocking(move || limiter.acquire().wait());
        has_turns(&look, 1).await;
        (look, wait)
    });
    gone.shutdown_background();
    let refused = runtime().block_on(wait).unwrap().unwrap_err();
    assert_eq!(failure(&refused), StoreError::NoRuntime);
}
