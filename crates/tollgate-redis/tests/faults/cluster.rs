//! A cluster of three nodes: slots that move under load, and nodes that are gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tollgate::Algorithm;
use tollgate_redis::{RateLimiter, StoreError};

use super::help::{DEADLINE, PATIENT, charged, crowd, ends, failure, recovers, slow, until};
use crate::support::cluster::Cluster;
use crate::support::runtime;

#[test]
fn acquire_while_a_slot_moves_succeeds_and_charges_once() {
    let cluster = Cluster::start();
    runtime().block_on(async {
        let store = cluster.store().deadline(PATIENT);
        let quota = slow(10_000);
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
            // Keys that are nowhere yet are made where the slot goes to: everybody is redirected.
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
                let _typed = failure(&ends(limiters[2].acquire()).await.unwrap_err());
            }
            let mut broken = 0;
            for round in 0.. {
                assert!(round < 100, "its breaker does not open");
                for limiter in &limiters[..2] {
                    let charge = ends(limiter.acquire()).await;
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
                cluster.nodes[2].go_on();
            } else {
                // What a node is in the cluster is on its disk, and what it held is lost.
                cluster.nodes[2].restart();
            }
            recovers(&limiters[2]).await;
            until(async || limiters[2].acquire().await.is_ok()).await;
        }
    });
}
