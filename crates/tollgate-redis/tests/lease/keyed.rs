//! Tests the semaphores of many keys; two stores stand for two processes.

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use tokio_util::sync::CancellationToken;
use tollgate::fair::FairQueue;
use tollgate::{ErrorKind, Throttle, all};
use tollgate_redis::{Keyed, Lease, RateLimiter, Semaphore, Store, StoreError};

use super::verbs::{is_old, members, until, until_free};
#[cfg(feature = "cluster")]
use crate::support::cluster::Cluster;
use crate::support::server::Server;
use crate::support::{ask, failure, on_server, runtime, slow};

/// Leases that are not returned last longer than a test.
const LONG: Duration = Duration::from_secs(3_600);

/// One permit for each key, without a grace time.
fn imports(store: &Store, ttl: Duration) -> Keyed<Semaphore> {
    let one = Semaphore::new(store, "imports", 1);
    Keyed::new(one.ttl(ttl).grace(Duration::ZERO), 100_000)
}

fn names(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("t{number}"))
}

/// Acquires a lease of each key, all at once.
async fn acquire_all(of: &Keyed<Semaphore>, count: usize) -> Vec<Lease> {
    let each = names(count).map(|key| of.key(&key).acquire());
    try_join_all(each).await.unwrap()
}

/// Returns the number of lines of waiters.
fn lines(server: &Server) -> usize {
    ask::<Vec<String>>(server, &["KEYS", "*/semaphore/tickets"]).len()
}

fn tasks() -> usize {
    tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks()
}

// Worlds of many keys.

#[test]
fn acquire_of_many_held_keys_waits_in_few_tasks_and_requests() {
    const MANY: usize = 2_000;
    on_server(async |server| {
        let stores = [(); 2].map(|()| server.store());
        let [holder, other] = stores.each_ref().map(|store| imports(store, LONG));
        let held = acquire_all(&holder, MANY).await;
        assert_eq!(holder.len(), MANY);
        let calls = stores[0].calls();
        assert!(calls < MANY as u64 / 4, "{calls} requests for as many keys");
        let before = tasks();
        let mut waiting = Box::pin(acquire_all(&other, MANY));
        tokio::select! {
            _ = &mut waiting => panic!("all keys are held"),
            // Two for the lease, and three for the ticket.
            () = until(async || ask::<usize>(server, &["DBSIZE"]) == 1 + 5 * MANY) => {}
        }
        // The drivers, the connection, and requests under way.
        let tasks = tasks();
        assert!(tasks < before + 50, "{tasks} tasks");
        assert!(stores[1].calls() < MANY as u64 / 2);
        drop(held);
        let held = waiting.await;
        let numbers: HashSet<_> = held.iter().map(Lease::id).collect();
        assert_eq!(numbers.len(), MANY);
        assert!(held.iter().all(|lease| !lease.is_lost()));
    });
}

#[test]
fn acquire_of_cold_keys_passes_a_hot_one() {
    on_server(async |server| {
        let stores = [(); 2].map(|()| server.store());
        let all = stores.each_ref().map(|store| imports(store, LONG));
        let hot = all[0].key("hot").acquire().await.unwrap();
        let waiting: Vec<_> = (0..200)
            .map(|number| {
                let hot = all[number % 2].key("hot");
                tokio::spawn(async move { hot.acquire().await.unwrap().fencing() })
            })
            .collect();
        until(async || members(server, "{imports/hot}/semaphore/tickets") == 128).await;
        for of in &all {
            let cold = acquire_all(of, 1_000).await;
            assert!(waiting.iter().all(|one| !one.is_finished()));
            for lease in cold {
                lease.release().await.unwrap();
            }
        }
        drop(hot);
        let numbers = join_all(waiting).await.into_iter().map(Result::unwrap);
        let last = numbers.max().unwrap();
        let lease = all[0].key("hot").acquire().await.unwrap();
        assert!(lease.fencing() > last);
    });
}

#[test]
fn key_used_once_leaves_nothing_in_the_process_and_on_the_server() {
    on_server(async |server| {
        is_old(server);
        let keyed = imports(&server.store(), Duration::from_secs(2));
        for keys in names(5_000).collect::<Vec<_>>().chunks(500) {
            let each = keys.iter().map(|key| keyed.key(key).acquire());
            let leases = try_join_all(each).await.unwrap();
            join_all(leases.into_iter().map(Lease::release)).await;
        }
        // Also one that was waited for.
        let lease = keyed.key("t0").acquire().await.unwrap();
        let next = tokio::spawn(keyed.key("t0").acquire());
        until(async || lines(server) == 1).await;
        drop(lease);
        next.await.unwrap().unwrap().release().await.unwrap();
        // Each look-up forgets two.
        let is_forgotten = async || {
            names(2_500).for_each(|_| drop(keyed.key("other")));
            keyed.len() <= 2
        };
        until(is_forgotten).await;
        until(async || ask::<usize>(server, &["DBSIZE"]) == 1).await;
    });
}

const ADDRESS: &str = "TOLLGATE_KEYS_SERVER";
const KILLED: usize = 500;
const KILLED_TTL: Duration = Duration::from_secs(3);

/// A child process of the next test.
#[test]
fn child_holds_many_keys() {
    let Ok(address) = std::env::var(ADDRESS) else {
        return;
    };
    runtime().block_on(async {
        let store = Store::new(&address).unwrap().deadline(KILLED_TTL / 3);
        let held = acquire_all(&imports(&store, KILLED_TTL), KILLED).await;
        println!("\nholds {}", held.len());
        std::future::pending::<()>().await;
    });
}

#[test]
fn acquire_of_the_keys_of_a_killed_process_succeeds_after_its_ttl() {
    let server = Server::start();
    is_old(&server);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["lease::keyed::child_holds_many_keys", "--exact"])
        .arg("--nocapture")
        .env(ADDRESS, server.address())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut lines_of_output = output.map_while(Result::ok);
    assert!(lines_of_output.any(|line| line == format!("holds {KILLED}")));
    runtime().block_on(async {
        let keyed = imports(&server.store(), KILLED_TTL);
        let one = keyed.key("t0");
        until(async || one.available().await == Ok(0)).await;
        let waiting = tokio::spawn(async move { acquire_all(&keyed, KILLED).await });
        until(async || waiting.is_finished() || lines(&server) == KILLED).await;
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(waiting.await.unwrap().len(), KILLED);
    });
}

#[test]
fn leases_and_waiters_of_keys_survive_a_server_that_stops() {
    const MANY: usize = 300;
    on_server(async |server| {
        is_old(server);
        let store = server.store().deadline(Duration::from_millis(300));
        let other = server.store().deadline(Duration::from_millis(300));
        let (holder, other) = (imports(&store, LONG), imports(&other, LONG));
        let held = acquire_all(&holder, MANY).await;
        let mut waiting = Box::pin(acquire_all(&other, MANY));
        tokio::select! {
            _ = &mut waiting => panic!("all keys are held"),
            () = until(async || lines(server) == MANY) => {}
        }
        server.stop();
        // Those that wait keep their places, and who asks for an answer now gets the error.
        let refused = until(async || {
            let refused = other.key("new").try_acquire().await;
            refused.is_err_and(|error| failure(&error) == StoreError::BreakerOpen)
        });
        tokio::select! {
            _ = &mut waiting => panic!("the server does nothing"),
            () = refused => {}
        }
        server.go_on();
        drop(held);
        assert_eq!(waiting.await.len(), MANY);
    });
}

#[test]
fn flushall_leaves_keys_with_their_holders_and_waiters_in_line() {
    const MANY: usize = 300;
    on_server(async |server| {
        is_old(server);
        let ttl = Duration::from_secs(6);
        let [holder, other] = [(); 2].map(|()| {
            let store = server.store().deadline(ttl / 3);
            // Nobody is admitted before the holders have asserted their leases.
            Keyed::new(Semaphore::new(&store, "imports", 1).ttl(ttl), 1_000)
        });
        let held = acquire_all(&holder, MANY).await;
        let mut waiting = Box::pin(acquire_all(&other, MANY));
        tokio::select! {
            _ = &mut waiting => panic!("all keys are held"),
            () = until(async || lines(server) == MANY) => {}
        }
        let () = ask(server, &["FLUSHALL"]);
        let leases = || ask::<Vec<String>>(server, &["KEYS", "*/leases"]).len();
        tokio::select! {
            _ = &mut waiting => panic!("all keys are held"),
            () = until(async || lines(server) == MANY && leases() == MANY) => {}
        }
        let before: Vec<_> = held.iter().map(Lease::fencing).collect();
        assert!(held.iter().all(|lease| !lease.is_lost()));
        drop(held);
        for (next, before) in waiting.await.iter().zip(before) {
            assert!(next.fencing() > before);
        }
    });
}

#[test]
fn renewals_of_many_keys_share_requests() {
    const MANY: usize = 1_000;
    on_server(async |server| {
        is_old(server);
        let store = server.store();
        let keyed = imports(&store, Duration::from_secs(15));
        let held = acquire_all(&keyed, MANY).await;
        let mut scores = redis::pipe();
        for (key, lease) in names(MANY).zip(&held) {
            let key = format!("{{imports/{key}}}/semaphore/leases");
            scores.cmd("ZSCORE").arg(key).arg(lease.id());
        }
        let all = || -> Vec<f64> { scores.query(&mut server.connection()).unwrap() };
        let last = || all().into_iter().fold(0.0, f64::max);
        let (before, first) = (store.calls(), last());
        until(async || all().into_iter().all(|now| now > first)).await;
        // Half of a ttl has 15 steps that are due together, and 91 requests more by their size.
        let halves = 1 + (last() - first) as u64 / 6_750_000;
        let calls = store.calls() - before;
        assert!(calls <= 2 * 106 * halves, "{calls} in {halves} halves");
        assert!(held.iter().all(|lease| !lease.is_lost()));
    });
}

#[cfg(feature = "cluster")]
#[test]
fn acquire_of_keys_in_different_slots_waits_and_is_served() {
    const MANY: usize = 100;
    let cluster = Cluster::start();
    runtime().block_on(async {
        let stores = [(); 2].map(|()| cluster.store().deadline(Duration::from_secs(20)));
        for name in ["imports", "{acme}:imports"] {
            let [holder, other] = stores.each_ref().map(|store| {
                let one = Semaphore::new(store, name, 1);
                Keyed::new(one.ttl(LONG).grace(Duration::ZERO), 1_000)
            });
            let before = stores[0].calls();
            let held = acquire_all(&holder, MANY).await;
            // Requests are shared in one slot only.
            let calls = stores[0].calls() - before;
            assert_eq!(calls < MANY as u64, name.starts_with('{'), "{calls}");
            let slots: HashSet<_> = names(MANY)
                .map(|key| cluster.slot(holder.key(&key).key()))
                .collect();
            assert_eq!(slots.len() == 1, name.starts_with('{'));
            let waiting = tokio::spawn(async move { acquire_all(&other, MANY).await });
            let one = holder.key("t7");
            until(async || one.available().await == Ok(0)).await;
            assert!(!waiting.is_finished());
            drop(held);
            assert_eq!(waiting.await.unwrap().len(), MANY);
        }
    });
}

/// A node hangs for a shorter time than the ttl of most of its leases, which are asserted again, and for a longer
/// time than that of some, which are lost. Leases on the other nodes are renewed meanwhile.
#[cfg(feature = "cluster")]
#[test]
fn leases_of_many_keys_are_kept_while_a_node_that_has_others_hangs() {
    const MANY: usize = 300;
    // Renewed after half of it.
    const TTL: Duration = Duration::from_secs(20);
    let cluster = Cluster::start();
    runtime().block_on(async {
        let store = cluster.store().deadline(Duration::from_secs(2));
        let keyed = imports(&store, TTL);
        let mut held = Vec::new();
        for keys in names(MANY).collect::<Vec<_>>().chunks(100) {
            let each = keys.iter().map(|key| keyed.key(key).acquire());
            held.extend(keys.iter().cloned().zip(try_join_all(each).await.unwrap()));
        }
        let brief = Semaphore::new(&store, "exports", 1).grace(Duration::ZERO);
        let brief = Keyed::new(brief.ttl(TTL / 4), 100);
        let short = try_join_all(names(60).map(|key| {
            let of_key = brief.key(&key);
            async move { of_key.acquire().await.map(|lease| (key, lease)) }
        }));
        let short = short.await.unwrap();
        let on = [0, 1, 2].map(|node| HashSet::<_>::from_iter(cluster.keys_like(node, "")));
        let is_on = |node: usize, keyed: &Keyed<Semaphore>, key: &str| {
            on[node].contains(keyed.key(key).key())
        };
        let short = short.into_iter();
        let short: Vec<_> = short.filter(|(key, _)| is_on(0, &brief, key)).collect();
        let held = held.into_iter();
        let (hung, held): (Vec<_>, Vec<_>) = held.partition(|(key, _)| is_on(0, &keyed, key));
        let held = held.into_iter();
        let (on_second, on_third): (Vec<_>, Vec<_>) =
            held.partition(|(key, _)| is_on(1, &keyed, key));
        for leases in [&hung, &on_second, &on_third] {
            assert!(leases.len() > MANY / 10);
        }
        assert!(!short.is_empty());
        let lost = |all: &[(String, Lease)]| all.iter().filter(|(_, it)| it.is_lost()).count();

        let ends = |node: usize, leases: &[(String, Lease)]| -> Vec<Option<f64>> {
            let mut ends = redis::pipe();
            for (key, lease) in leases {
                let of_key = keyed.key(key);
                ends.cmd("ZSCORE").arg(of_key.key()).arg(lease.id());
            }
            ends.query(&mut cluster.nodes[node].connection()).unwrap()
        };
        let then = [(0, &hung), (1, &on_second), (2, &on_third)].map(|(node, of)| ends(node, of));
        // A lease without an end is no longer there.
        let renewed = |node: usize, leases: &[(String, Lease)]| {
            let now = ends(node, leases).into_iter();
            now.zip(&then[node])
                .filter(|(now, then)| now > *then)
                .count()
        };
        let timeouts = || store.statistics().failures(StoreError::Timeout);
        let before = timeouts();
        cluster.nodes[0].stop();
        // Not all of them: those that are due at once are lost when those that were just renewed are due.
        until(async || {
            timeouts() - before > hung.len() as u64 / 4
                && lost(&short) == short.len()
                && renewed(1, &on_second) > on_second.len() / 4
                && renewed(2, &on_third) > on_third.len() / 4
        })
        .await;
        // Other connections would have none to the node that hangs.
        assert_eq!(store.statistics().connections, 1);
        cluster.nodes[0].go_on();
        until(async || renewed(0, &hung) == hung.len()).await;
        let again = short.iter().map(|(key, _)| brief.key(key).acquire());
        let again = try_join_all(again).await.unwrap();
        assert!(again.iter().all(|lease| !lease.is_lost()));
        for leases in [&hung, &on_second, &on_third] {
            assert_eq!(lost(leases), 0);
        }
    });
}

// What holds for each key.

#[test]
fn acquire_of_a_key_of_another_type_fails_alone() {
    on_server(async |server| {
        let () = ask(server, &["SET", "{imports/t7}/semaphore/leases", "text"]);
        let keyed = imports(&server.store(), LONG);
        // The server's time is known afterwards.
        drop(keyed.key("first").acquire().await.unwrap());
        let each = names(200).map(|key| keyed.key(&key).acquire());
        for (key, answer) in names(200).zip(join_all(each).await) {
            match answer {
                Ok(lease) => assert_eq!(lease.count(), 1),
                Err(error) => {
                    assert_eq!((&*key, failure(&error)), ("t7", StoreError::WrongType));
                }
            }
        }
    });
}

#[test]
fn fencing_of_a_key_that_was_forgotten_rises() {
    on_server(async |server| {
        let keyed = imports(&server.store(), LONG);
        let first = keyed.key("a").acquire().await.unwrap();
        let (id, number) = (first.id().to_owned(), first.fencing());
        first.release().await.unwrap();
        until(async || {
            keyed.key("b");
            keyed.len() <= 2
        })
        .await;
        // The data of that key is lost, and the clock is behind.
        let () = ask(server, &["DEL", "{imports/a}/semaphore/state"]);
        let ahead = ["SET", "{imports/b}/semaphore/state", "0:9000000000000000:1"];
        let () = ask(server, &ahead);
        let far = keyed.key("b").acquire().await.unwrap();
        assert!(far.fencing() > 9_000_000_000_000_000);
        let second = keyed.key("a").acquire().await.unwrap();
        assert!(second.fencing() > number.max(far.fencing()));
        assert_ne!(second.id(), id);
    });
}

#[test]
fn key_in_use_keeps_its_semaphore_and_one_at_rest_its_permits() {
    on_server(async |server| {
        let keyed = imports(&server.store(), LONG);
        let lease = keyed.key("held").acquire().await.unwrap();
        let waits = tokio::spawn(keyed.key("held").acquire());
        until(async || keyed.key("held").waiting() == 1).await;
        assert_eq!(keyed.key_with("three", 3).permits(), 3);
        let is_small = async || {
            keyed.key("other");
            keyed.len() <= 3
        };
        until(is_small).await;
        assert_eq!(keyed.key("held").waiting(), 1, "the same one");
        assert_eq!(
            (keyed.key("three").permits(), keyed.key("b").permits()),
            (3, 1)
        );
        let three = keyed.key("three").acquire_many(3).await.unwrap();
        assert_eq!(
            (three.count(), keyed.key("three").available().await),
            (3, Ok(0))
        );
        drop(lease);
        drop(waits.await.unwrap().unwrap());
        until_free(&keyed.key("held"), 1).await;
        let statistics = keyed.statistics();
        assert_eq!((statistics.admitted, statistics.waiting), (3, 0));
    });
}

#[test]
fn acquire_of_a_key_is_cancelled_times_out_and_composes() {
    on_server(async |server| {
        let keyed = imports(&server.store(), LONG);
        let lease = keyed.key("a").acquire().await.unwrap();
        let token = CancellationToken::new();
        let waiting = tokio::spawn(keyed.key("a").acquire().cancel_on(token.clone()));
        until(async || lines(server) == 1).await;
        token.cancel();
        let refused = waiting.await.unwrap().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Cancelled);
        let soon = keyed.key("a").acquire().timeout(Duration::from_millis(10));
        assert_eq!(soon.await.unwrap_err().kind(), ErrorKind::TimedOut);
        until(async || lines(server) == 0).await;

        // A rate, and one permit of the tenant.
        let limiter = RateLimiter::new(&server.store(), "requests", slow(5));
        let both = all((limiter, keyed.key("b")));
        let (charge, permit) = both.acquire().await.unwrap();
        assert_eq!((charge.cost(), permit.count()), (1, 1));
        let fair = FairQueue::new(keyed.key("a"));
        let waiting = tokio::spawn(async move { fair.class("batch").enter().await });
        until(async || lines(server) == 1).await;
        drop(lease);
        drop(waiting.await.unwrap().unwrap());
    });
}

#[test]
fn close_of_a_key_closes_no_other() {
    on_server(async |server| {
        let keyed = Arc::new(imports(&server.store(), LONG));
        let a = keyed.key("a");
        a.close();
        let refused = keyed.key("a").acquire().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Closed);
        drop(keyed.key("b").acquire().await.unwrap());
    });
}

#[test]
fn acquire_of_many_keys_without_a_runtime_is_an_error() {
    let server = Server::start();
    let gone = runtime();
    let keyed = gone.block_on(async { imports(&server.store(), LONG) });
    let held = gone.block_on(acquire_all(&keyed, 100));
    drop(gone);
    assert!(held.iter().all(|lease| lease.token().is_cancelled()));
    runtime().block_on(async {
        let each = names(100).map(|key| keyed.key(&key).acquire());
        for answer in join_all(each).await {
            assert_eq!(failure(&answer.unwrap_err()), StoreError::NoRuntime);
        }
    });
}
