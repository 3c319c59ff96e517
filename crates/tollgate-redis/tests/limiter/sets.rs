//! Tests callers that wait for a set of limits. Stores stand for processes.

use std::pin::Pin;
use std::time::{Duration, SystemTime};

use tokio::task::JoinSet;
use tollgate::{AcquireError, Algorithm, ErrorKind, Quota};
use tollgate_redis::{Charges, LimitSet, RateLimiter, Store};

use super::turns::{assert_within, micros};
use crate::scripts::engine::several;
use crate::support::server::Server;
use crate::support::{PATIENT, ask, on_server, slow, until, waits};

type Waiter = Pin<Box<dyn Future<Output = Result<Charges, AcquireError>> + Send>>;

fn waiter(set: &LimitSet, n: u64) -> Waiter {
    let set = set.clone();
    Box::pin(async move { set.acquire_many(n).await })
}

/// Returns waiters with these costs. The call of the first one is in flight, and the others are behind it.
async fn queued(server: &Server, store: &Store, set: &LimitSet, costs: &[u64]) -> Vec<Waiter> {
    let calls = store.calls();
    server.stop();
    let mut waiters: Vec<_> = costs.iter().map(|n| waiter(set, *n)).collect();
    for (waiter, joined) in waiters.iter_mut().zip(1..) {
        assert!(waits(waiter).await);
        until(async || store.calls() == calls + 1 && set.waiting() == joined).await;
    }
    server.go_on();
    waiters
}

fn sets_of(store: &Store, burst: u64) -> LimitSet {
    LimitSet::new(store)
        .limit("a", slow(burst))
        .limit_by(Algorithm::SlidingLog, "b", slow(burst))
}

async fn remaining(set: &LimitSet) -> Vec<u64> {
    let decisions = set.peek(0).await.unwrap();
    decisions
        .iter()
        .map(|decision| decision.remaining)
        .collect()
}

#[test]
fn acquire_by_many_callers_of_a_set_shares_requests() {
    on_server(async |server| {
        let store = server.store().deadline(PATIENT);
        let set = sets_of(&store, 1000);
        set.peek(0).await.unwrap();
        let calls = store.calls();
        let waiters = queued(server, &store, &set, &[1; 200]).await;
        for waiter in waiters {
            assert_eq!(waiter.await.unwrap().cost(), 1);
        }
        // Of two limits, 128 callers fit into a call.
        assert_eq!(store.calls(), calls + 3);
        assert_eq!(remaining(&set).await, [800, 800]);
    });
}

#[test]
fn acquire_by_callers_of_a_set_admits_a_prefix_and_refunds_each_exactly() {
    on_server(async |server| {
        let store = server.store().deadline(PATIENT);
        let set = sets_of(&store, 10);
        set.peek(0).await.unwrap();
        let mut waiters = queued(server, &store, &set, &[1, 2, 3, 5, 1]).await;
        let last = waiters.split_off(3);
        let mut charges = Vec::new();
        for waiter in waiters {
            charges.push(waiter.await.unwrap());
        }
        // One unit would fit, but the caller in front of it came earlier.
        until(async || set.waiting() == 2).await;
        assert_eq!(remaining(&set).await, [4, 4]);
        // By another process: nobody of this one waits in front of it.
        let other = sets_of(&server.store(), 10);
        for one in charges.drain(1..2) {
            other.refund(one).await.unwrap();
        }
        let mut costs = Vec::new();
        for waiter in last {
            costs.push(waiter.await.unwrap().cost());
        }
        assert_eq!(costs, [5, 1]);
        assert_eq!(remaining(&set).await, [0, 0]);
        for one in charges {
            set.refund(one).await.unwrap();
        }
        assert_eq!(remaining(&set).await, [4, 4]);
    });
}

#[test]
fn acquire_beyond_max_waiters_of_a_set_is_refused() {
    on_server(async |server| {
        let store = server.store().deadline(PATIENT);
        let set = sets_of(&store, 2).max_waiters(2);
        set.acquire_many(2).await.unwrap();
        let mut waiters: Vec<_> = (0..2).map(|_| waiter(&set, 1)).collect();
        for waiter in &mut waiters {
            assert!(waits(waiter).await);
        }
        until(async || {
            let refused = set.acquire().timeout(Duration::from_millis(100)).await;
            refused.unwrap_err().kind() == ErrorKind::QueueFull
        })
        .await;
        assert_eq!(set.waiting(), 2);
        set.shutdown().await;
        for waiter in waiters {
            assert_eq!(waiter.await.unwrap_err().kind(), ErrorKind::Closed);
        }
        assert_eq!(set.acquire().await.unwrap_err().kind(), ErrorKind::Closed);
    });
}

/// The ticks of a limit of a set, in microseconds, with their costs.
fn ticks(all: &[Charges], index: usize) -> Vec<(u64, u64)> {
    let tick = |charges: &Charges| charges.at(index).map(micros);
    all.iter().map(|it| (tick(it).unwrap(), 1)).collect()
}

/// Runs these callers of each set until so many calls are admitted.
async fn run(sets: &[LimitSet], callers: usize, admissions: usize) -> Vec<Charges> {
    let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
    let mut tasks = JoinSet::new();
    for set in sets {
        for _ in 0..callers {
            let (set, sender) = (set.clone(), sender.clone());
            tasks.spawn(
                async move { while sender.send(set.acquire().await.unwrap()).await.is_ok() {} },
            );
        }
    }
    let mut all = Vec::new();
    while all.len() < admissions {
        all.push(receiver.recv().await.unwrap());
    }
    all
}

#[test]
fn acquire_by_a_fleet_of_sets_has_few_requests_and_no_two_at_one_tick() {
    on_server(async |server| {
        let stores: Vec<Store> = (0..16).map(|_| server.store()).collect();
        let sets = stores.iter().enumerate().map(|(index, store)| {
            let set = LimitSet::new(store).limit("all", Quota::per_second(100));
            set.limit(format!("tenant{index}"), slow(1000))
        });
        let sets: Vec<_> = sets.collect();
        let all = run(&sets, 4, 200).await;
        assert_within(1, 10_000, &mut ticks(&all, 0));
        // A turn is a request or less, and the charge of the other limit is another. Each process has some more
        // in the beginning. A stall of the machine takes some more each.
        let calls: u64 = stores.iter().map(Store::calls).sum();
        assert!(calls <= 16 * 4 + 200 * 4, "{calls}");
    });
}

/// Its callers need a turn of each, at about the same time.
#[test]
fn acquire_of_a_set_of_two_limits_with_lines_is_admitted() {
    on_server(async |server| {
        let quota = Quota::per_second(100);
        let mut others = JoinSet::new();
        for name in ["a", "b"] {
            for _ in 0..8 {
                let limiter = RateLimiter::new(&server.store(), name, quota);
                others.spawn(async move {
                    loop {
                        limiter.acquire().await.unwrap();
                    }
                });
            }
        }
        let look = LimitSet::new(&server.store())
            .limit("a", quota)
            .limit("b", quota);
        until(async || {
            let waits = look.peek(1).await.unwrap();
            let least = waits.iter().filter_map(|one| one.retry_after).min();
            least.unwrap() > Duration::from_millis(30)
        })
        .await;
        let set = LimitSet::new(&server.store())
            .limit("a", quota)
            .limit("b", quota);
        let all = run(&[set], 2, 10).await;
        for index in [0, 1] {
            assert_within(1, 10_000, &mut ticks(&all, index));
        }
    });
}

#[test]
fn acquire_of_a_set_of_other_algorithms_retries_once_for_all_callers() {
    on_server(async |server| {
        let store = server.store().deadline(PATIENT);
        let window = Quota::new(5, Duration::from_millis(200)).burst(5);
        let set = LimitSet::new(&store)
            .limit_by(Algorithm::FixedWindow, "a", window)
            .limit("b", Quota::per_second(1_000_000).burst(1000));
        let all = run(&[set], 20, 40).await;
        let windows = all.iter().map(|it| micros(it.at(0).unwrap()) / 200_000);
        let mut each = std::collections::BTreeMap::<u64, u64>::new();
        for window in windows {
            *each.entry(window).or_default() += 1;
        }
        assert!(each.values().all(|count| *count <= 5), "{each:?}");
        // One call for each window, and some that were a little early or late.
        assert!(store.calls() <= 20 + 40, "{}", store.calls());
    });
}

#[test]
fn acquire_of_a_set_with_a_timeout_that_is_too_short_charges_nothing() {
    on_server(async |server| {
        let gap = Duration::from_secs(2);
        let set = LimitSet::new(&server.store().deadline(PATIENT))
            .limit("a", Quota::new(1, gap))
            .limit("b", slow(10));
        set.acquire().await.unwrap();
        let begin = SystemTime::now();
        let refused = set.acquire().timeout(gap / 4).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TimedOut);
        let after = set.peek(1).await.unwrap();
        let due = after[0].retry_after.unwrap();
        assert!(due <= gap, "{due:?} after {:?}", begin.elapsed());
        assert_eq!(after[1].remaining, 9);
    });
}

/// A call of many callers decides as one call after the other.
#[test]
fn take_of_many_calls_is_the_same_as_one_after_the_other() {
    let script = several();
    on_server(async |server| {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..100 {
            let () = ask(server, &["FLUSHALL"]);
            let mut left = [20, 25, 30];
            for _ in 0..4 {
                let calls: Vec<[u64; 3]> = (0..rng.usize(1..8))
                    .map(|_| std::array::from_fn(|_| rng.u64(0..9)))
                    .collect();
                let mut expected = 0;
                for costs in &calls {
                    if costs.iter().zip(&left).any(|(n, left)| n > left) {
                        break;
                    }
                    for (left, n) in left.iter_mut().zip(costs) {
                        *left -= n;
                    }
                    expected += 1;
                }
                let mut command = redis::cmd("EVAL");
                command
                    .arg(&script)
                    .arg(3)
                    .arg(&["a", "b", "c"])
                    .arg("take");
                let hour = 3_600_000_000_u64;
                for (index, (name, burst)) in [("debt", 20), ("window", 25), ("log", 30)]
                    .iter()
                    .enumerate()
                {
                    let count = if *name == "debt" { 1 } else { *burst };
                    command.arg(name).arg(&[count, hour * 24 * 365, *burst]);
                    command.arg(calls.iter().map(|costs| costs[index]).collect::<Vec<_>>());
                }
                let reply: Vec<i64> = command.query(&mut server.connection()).unwrap();
                let free = reply[2..].chunks(5).map(|each| each[1] as u64);
                assert_eq!(
                    (reply[0], free.collect()),
                    (expected, left.to_vec()),
                    "{calls:?}"
                );
            }
        }
    });
}
