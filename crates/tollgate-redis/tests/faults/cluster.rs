//! Tests a cluster of three nodes: slots that move under load, and nodes that fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tollgate::{Algorithm, ErrorKind, Quota, Throttle, all};
use tollgate_redis::{LimitSet, RateLimiter, Semaphore, Store, StoreError};

use super::help::{DEADLINE, PATIENT, charged, crowd, ends, failure, recovers, slow, until};
use crate::limiter::turns::{assert_within, micros};
use crate::support::cluster::Cluster;
use crate::support::server::Server;
use crate::support::{ask, runtime};

#[test]
fn acquire_while_a_slot_moves_succeeds_and_charges_once() {
    let cluster = Cluster::start();
    runtime().block_on(async {
        let store = cluster.store().deadline(PATIENT);
        // A unit is paid off in 43 s, after the test on a slow machine, too.
        let quota = Quota::new(10_000, Duration::from_secs(5 * 86_400)).burst(10_000);
        let limiters = [
            RateLimiter::new(&store, "{t}:debt", quota),
            RateLimiter::new(&store, "{t}:window", quota).algorithm(Algorithm::SlidingWindow),
            RateLimiter::new(&store, "{t}:log", quota).algorithm(Algorithm::SlidingLog),
            RateLimiter::new(&store, "{t}:alone", quota).coalesce(false),
        ];
        let keys = limiters.each_ref().map(RateLimiter::key);
        for limiter in &limiters {
            recovers(limiter).await;
        }
        let over = Arc::new(AtomicBool::new(false));
        let load = limiters.each_ref().map(|limiter| {
            let (limiter, over) = (limiter.clone(), Arc::clone(&over));
            tokio::spawn(async move {
                let mut admitted = 0;
                while !over.load(Ordering::Relaxed) && admitted < 10_000 {
                    let both = tokio::join!(limiter.acquire(), limiter.acquire());
                    both.0.unwrap();
                    both.1.unwrap();
                    admitted += 2;
                }
                admitted
            })
        });
        let slot = cluster.slot(keys[0]);
        for round in 0..3 {
            let from = cluster.owner(keys[0]);
            let to = (from + 1) % 3;
            cluster.begin(slot, from, to);
            // Keys that do not exist yet are created on the new node of the slot: every call is
            // redirected.
            let mut tasks = tokio::task::JoinSet::new();
            for number in 0..50 {
                let key = format!("{{t}}:{round}:{number}");
                let fresh = RateLimiter::new(&store, key, slow(3));
                tasks.spawn(async move {
                    fresh.acquire().await.unwrap();
                    fresh.acquire_many(2).await.unwrap();
                    fresh
                });
            }
            let fresh = tasks.join_all().await;
            for key in keys {
                cluster.migrate(&cluster.keys_like(from, key), from, to);
                fresh[0].try_acquire().await.unwrap_err();
            }
            cluster.migrate(&cluster.keys_like(from, "{t}"), from, to);
            cluster.finish(slot, to);
            for fresh in fresh {
                assert_eq!(charged(&fresh).await, 3);
            }
        }
        over.store(true, Ordering::Relaxed);
        for (task, limiter) in load.into_iter().zip(&limiters) {
            let admitted = task.await.unwrap();
            assert_eq!(charged(limiter).await, admitted, "{}", limiter.key());
            assert!(admitted > 0);
        }
    });
}

#[test]
fn acquire_of_a_log_in_a_cluster_needs_no_tag() {
    let cluster = Cluster::start();
    runtime().block_on(async {
        let store = cluster.store().deadline(PATIENT);
        for key in ["plain", "a}b{c}", "{}x", "{t}:{u}"] {
            let limiter = RateLimiter::new(&store, key, slow(5)).algorithm(Algorithm::SlidingLog);
            limiter.acquire_many(3).await.unwrap();
            assert_eq!(charged(&limiter).await, 3);
        }
    });
}

/// The second call waits, for a turn that has a key of its own in the same slot.
#[test]
fn acquire_that_waits_in_a_cluster_needs_no_tag() {
    let cluster = Cluster::start();
    runtime().block_on(async {
        let store = cluster.store().deadline(PATIENT);
        for key in ["plain", "a}b{c}", "{}x", "{t}:{u}", "{t}"] {
            let limiter = RateLimiter::new(&store, key, Quota::per_second(100));
            let first = limiter.acquire().await.unwrap();
            let second = limiter.acquire().await.unwrap();
            assert!(second.at() >= first.at() + Duration::from_millis(10));
        }
    });
}

/// The slot has the key of the limit on one node, and the key of its turns nowhere.
#[test]
fn acquire_that_waits_while_a_slot_moves_succeeds() {
    let cluster = Cluster::start();
    runtime().block_on(async {
        let store = cluster.store().deadline(DEADLINE);
        let limiter = RateLimiter::new(&store, "k", Quota::per_second(100));
        until(async || limiter.try_acquire().await.is_ok()).await;
        let (slot, from) = (cluster.slot("k"), cluster.owner("k"));
        let to = (from + 1) % 3;
        cluster.begin(slot, from, to);
        let mut last = limiter.acquire().await.unwrap();
        for round in 0..20 {
            if round == 10 {
                cluster.migrate(&cluster.keys_like(from, "k"), from, to);
            }
            let next = limiter.acquire().await.unwrap();
            assert!(next.at() >= last.at() + Duration::from_millis(10));
            last = next;
        }
        cluster.finish(slot, to);
        limiter.acquire().await.unwrap();
    });
}

/// Each limiter has a call of its own in flight.
#[test]
fn acquire_by_256_limiters_while_a_slot_moves_stays_within_the_bound() {
    let cluster = Cluster::start();
    runtime().block_on(async {
        let quota = Quota::per_second(500);
        let stores: Vec<_> = (0..8).map(|_| cluster.store().deadline(PATIENT)).collect();
        let look = RateLimiter::new(&stores[0], "{t}:k", quota);
        recovers(&look).await;
        let over = Arc::new(AtomicBool::new(false));
        let mut callers = tokio::task::JoinSet::new();
        for index in 0..256 {
            let limiter = RateLimiter::new(&stores[index % 8], "{t}:k", quota);
            let over = Arc::clone(&over);
            callers.spawn(async move {
                let mut ticks = Vec::new();
                while ticks.len() < 2 || !over.load(Ordering::Relaxed) {
                    ticks.push((micros(limiter.acquire().await.unwrap().at()), 1));
                }
                ticks
            });
        }
        let waits = async || look.peek(0).await.is_ok_and(|it| it.remaining == 0);
        until(waits).await;
        let slot = cluster.slot("{t}:k");
        for _ in 0..3 {
            let from = cluster.owner("{t}:k");
            let to = (from + 1) % 3;
            cluster.begin(slot, from, to);
            // New calls have been redirected by now.
            until(waits).await;
            cluster.migrate(&cluster.keys_like(from, "{t}"), from, to);
            cluster.finish(slot, to);
        }
        over.store(true, Ordering::Relaxed);
        let mut ticks = callers.join_all().await.concat();
        assert_within(1, 2_000, &mut ticks);
    });
}

#[test]
fn acquire_without_a_node_fails_for_its_slots_only() {
    let mut cluster = Cluster::start();
    runtime().block_on(async {
        let keys: Vec<_> = (0..3).map(|node| cluster.key_of(node)).collect();
        let store = cluster.store().deadline(DEADLINE * 5);
        let limiters: Vec<_> = keys
            .iter()
            .map(|key| RateLimiter::new(&store, key.as_str(), slow(100_000)))
            .collect();
        for limiter in &limiters {
            recovers(limiter).await;
        }
        for still in [true, false] {
            if still {
                cluster.nodes[2].stop();
            } else {
                cluster.nodes[2].kill();
            }
            // After some deadlines in a row the connection is suspected, and stays in use.
            for _ in 0..3 {
                let _typed = failure(&ends(limiters[2].try_acquire()).await.unwrap_err());
            }
            let mut broken = 0;
            for round in 0.. {
                assert!(round < 100, "its breaker does not open");
                for limiter in &limiters[..2] {
                    let charge = ends(limiter.try_acquire()).await;
                    charge.unwrap_or_else(|error| panic!("still: {still}, {error:?}"));
                }
                let tally = crowd(&limiters[2], 100).await;
                assert_eq!((tally.admitted(), tally.errors.len()), (0, 100));
                broken += usize::from(tally.errors.contains(&StoreError::BreakerOpen));
                if broken == 10 {
                    break;
                }
            }
            if still {
                // Other connections would have none to the node.
                assert_eq!(store.statistics().connections, 1);
                cluster.nodes[2].go_on();
            } else {
                // The role of a node in the cluster is on its disk, and its data is lost.
                cluster.nodes[2].restart();
            }
            recovers(&limiters[2]).await;
            until(async || limiters[2].try_acquire().await.is_ok()).await;
        }
    });
}

/// The kernel of a machine whose server hangs acknowledges what it receives, so no connection is lost.
#[test]
fn acquire_after_a_node_that_hangs_has_a_successor_succeeds() {
    finds_the_successor(|node| node.stop());
}

#[test]
fn acquire_after_a_node_that_is_gone_has_a_successor_succeeds() {
    finds_the_successor(Server::kill);
}

/// A replica takes over from a node that fails, while calls to the other nodes go on. Calls to its slots
/// succeed again, and a lease there is kept.
fn finds_the_successor(fail: impl FnOnce(&mut Server)) {
    let mut cluster = Cluster::start();
    let replica = cluster.add_replica(0);
    runtime().block_on(async {
        let keys: Vec<_> = (0..3).map(|node| cluster.key_of(node)).collect();
        let store = cluster.store().deadline(DEADLINE * 3);
        let limiter = |node: usize| RateLimiter::new(&store, &*keys[node], slow(1_000_000));
        let limiters = [limiter(0), limiter(1), limiter(2)];
        for limiter in &limiters {
            recovers(limiter).await;
        }
        // A lease on the same node.
        let jobs = Semaphore::new(&store, format!("{{{}}}:jobs", keys[0]), 2);
        let jobs = jobs.grace(Duration::ZERO).ttl(Duration::from_secs(120));
        let lease = jobs.acquire().await.unwrap();
        cluster.replicate(replica, 0);

        let over = Arc::new(AtomicBool::new(false));
        let others = limiters[1..].iter().map(|limiter| {
            let (limiter, over) = (limiter.clone(), Arc::clone(&over));
            tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    ends(limiter.try_acquire()).await.unwrap();
                    // Leaves the processor to the servers.
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            })
        });
        let others: Vec<_> = others.collect();
        fail(&mut cluster.nodes[0]);
        // The breaker is open, and calls to the others go on, before there is a successor.
        until(async || {
            let error = ends(limiters[0].try_acquire()).await.unwrap_err();
            failure(&error) == StoreError::BreakerOpen
        })
        .await;
        cluster.take_over(replica);
        until(async || limiters[0].try_acquire().await.is_ok()).await;
        until(async || jobs.available().await == Ok(1)).await;
        assert!(!lease.is_lost());
        lease.release().await.unwrap();
        let leases = jobs.acquire_many(2).await.unwrap();
        assert_eq!(jobs.available().await, Ok(0));
        leases.release().await.unwrap();
        over.store(true, Ordering::Relaxed);
        for other in others {
            other.await.unwrap();
        }
    });
}

// Limits in several slots of a cluster: one call decides about one slot, so they are charged one
// after the other, and refunded when a later one refuses.

#[test]
fn all_of_limits_in_several_slots_charges_all_or_none() {
    let cluster = Cluster::start();
    runtime().block_on(async {
        let store = cluster.store().deadline(PATIENT);
        let keys: Vec<_> = (0..3).map(|node| cluster.key_of(node)).collect();
        let limiter = |node: usize, burst| RateLimiter::new(&store, &*keys[node], slow(burst));
        let (user, team, everyone) = (limiter(0, 5), limiter(1, 4), limiter(2, 2));
        let free = async || {
            let mut free = Vec::new();
            for limiter in [&user, &team, &everyone] {
                free.push(limiter.peek(0).await.unwrap().remaining);
            }
            free
        };
        let limits = all((user.clone(), team.clone(), everyone.clone()));
        limits.acquire().await.unwrap();
        limits.acquire().await.unwrap();
        assert_eq!(free().await, [3, 2, 0]);

        // The last limit is exhausted for hours. Meanwhile the others are charged.
        let waits = tokio::spawn(limits.enter());
        until(async || everyone.waiting() == 1).await;
        assert_eq!(free().await, [2, 1, 0]);
        waits.abort();
        until(async || free().await == [3, 2, 0]).await;
        assert_eq!(everyone.waiting(), 0);

        let refused = limits.enter().timeout(Duration::from_millis(50)).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::TimedOut);
        until(async || free().await == [3, 2, 0]).await;

        everyone.close();
        let refused = limits.enter().await.unwrap_err();
        assert_eq!(
            (refused.kind(), refused.part()),
            (ErrorKind::Closed, Some(2))
        );
        until(async || free().await == [3, 2, 0]).await;
    });
}

#[test]
fn all_of_a_limit_set_and_a_semaphore_charges_all_or_none() {
    let cluster = Cluster::start();
    runtime().block_on(async {
        let store = cluster.store().deadline(PATIENT);
        let tag = |node: usize| format!("{{{}}}", cluster.key_of(node));
        let limits = LimitSet::new(&store)
            .limit(format!("{}:user", tag(0)), slow(5))
            .limit(format!("{}:all", tag(0)), slow(9));
        let jobs = Semaphore::new(&store, format!("{}:jobs", tag(1)), 1).grace(Duration::ZERO);
        let both = all((limits.clone(), jobs.clone()));
        let (_charges, lease) = both.acquire().await.unwrap();
        let short = Duration::from_millis(50);
        both.enter().timeout(short).await.unwrap_err();
        until(async || {
            let decisions = limits.peek(1).await.unwrap();
            decisions.iter().map(|it| it.remaining).eq([4, 8])
        })
        .await;
        lease.release().await.unwrap();
    });
}

#[test]
#[should_panic = "are not in one slot of a cluster"]
fn limit_set_of_several_slots_panics() {
    let runtime = runtime();
    let _inside = runtime.enter();
    // No call is made.
    let store = tollgate_redis::Store::cluster(["redis://127.0.0.1:1/"]).unwrap();
    let _limits = LimitSet::new(&store)
        .limit("{acme}:user", slow(5))
        .limit("{other}:user", slow(5));
}

// A semaphore, on one node that has all slots.

#[test]
fn acquire_in_a_cluster_uses_one_slot() {
    let server = Server::with(&["--cluster-enabled", "yes"]);
    // Redis 6.2 adds no ranges.
    let slots: Vec<_> = (0..16_384).map(|slot| slot.to_string()).collect();
    let words = ["CLUSTER", "ADDSLOTS"].into_iter();
    let words: Vec<_> = words.chain(slots.iter().map(String::as_str)).collect();
    let () = ask(&server, &words);
    runtime().block_on(async {
        let state = || ask::<String>(&server, &["CLUSTER", "INFO"]);
        until(async || state().contains("cluster_state:ok")).await;
        let address = server.address();
        let store = Store::cluster([address.as_str()])
            .unwrap()
            .deadline(PATIENT);
        for key in ["jobs", "{tenant}:jobs", "{tenant}:others"] {
            let semaphore = Semaphore::new(&store, key, 2).grace(Duration::ZERO);
            until(async || semaphore.available().await.is_ok()).await;
            let lease = semaphore.acquire_many(2).await.unwrap();
            assert_eq!(semaphore.available().await, Ok(0));
            lease.release().await.unwrap();
            assert_eq!(semaphore.available().await, Ok(2));
        }
        // The sentinels of two slots, and for each key the last fencing number.
        assert_eq!(ask::<usize>(&server, &["DBSIZE"]), 2 + 3);
    });
}
