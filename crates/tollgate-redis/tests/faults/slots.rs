//! Limits in several slots of a cluster: one call decides about one slot, so they are had one after
//! the other, and go back when a later one refuses.

use std::time::Duration;

use tollgate::{ErrorKind, Throttle, all};
use tollgate_redis::{LimitSet, RateLimiter, Semaphore};

use super::help::{PATIENT, slow};
use crate::support::cluster::Cluster;
use crate::support::{runtime, until};

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

        // The last one has nothing, and will not for hours. Meanwhile the others are charged.
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
    // Nothing is called.
    let store = tollgate_redis::Store::cluster(["redis://127.0.0.1:1/"]).unwrap();
    let _limits = LimitSet::new(&store)
        .limit("{acme}:user", slow(5))
        .limit("{other}:user", slow(5));
}
