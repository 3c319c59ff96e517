//! Tests the warnings about a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tollgate::{Algorithm, Quota};
use tollgate_redis::{Fallback, RateLimiter, Source, Store, StoreError, Warning};

use super::help::{DEADLINE, PATIENT, charged, crowd, failure, limiter, recovers, slow, until};
use crate::support::server::Server;
use crate::support::{algorithms, ask, on_server, runtime};

#[test]
fn check_of_a_server_without_persistence_warns() {
    on_server(async |server| {
        let store = server.store();
        assert_eq!(store.check().await, Ok(vec![Warning::NotPersistent]));
        let () = ask(server, &["CONFIG", "SET", "save", "3600 1"]);
        assert_eq!(store.check().await, Ok(Vec::new()));
        let () = ask(server, &["CONFIG", "SET", "save", ""]);
        let () = ask(server, &["CONFIG", "SET", "appendonly", "yes"]);
        assert_eq!(store.check().await, Ok(Vec::new()));
    });
}

#[test]
fn check_of_replicated_servers_warns() {
    let (primary, replica) = (
        Server::with(&["--repl-diskless-sync-delay", "0"]),
        Server::start(),
    );
    runtime().block_on(async {
        let port = primary.port().to_string();
        let () = ask(&replica, &["REPLICAOF", "127.0.0.1", &port]);
        let store = primary.store();
        until(async || store.check().await.unwrap().contains(&Warning::Replicated)).await;
        let store = replica.store();
        let warnings = store.check().await.unwrap();
        assert_eq!(warnings, [Warning::NotPersistent, Warning::Replica]);
    });
}

#[test]
fn check_without_rights_warns() {
    let server = Server::with(&["--maxmemory", "100mb", "--maxmemory-policy", "volatile-ttl"]);
    runtime().block_on(async {
        let limited = |name: &str| {
            let address = format!("redis://{name}:secret@127.0.0.1:{}/", server.port());
            Store::new(&address).unwrap().deadline(PATIENT)
        };
        for (name, forbidden) in [("half", "-config"), ("none", "-info")] {
            let user = [
                "ACL", "SETUSER", name, "on", ">secret", "~*", "+@all", "-config",
            ];
            let () = ask(&server, &user);
            let () = ask(&server, &["ACL", "SETUSER", name, forbidden, "-ping"]);
        }
        // The warnings that need no hidden facts are still returned.
        let warnings = limited("half").check().await.unwrap();
        assert_eq!(warnings, [Warning::Eviction, Warning::Hidden]);
        let warnings = limited("none").check().await.unwrap();
        assert_eq!(warnings, [Warning::Hidden]);
        let stranger = limited("stranger").check().await;
        assert_eq!(stranger, Err(StoreError::Unauthenticated));
    });
}

#[cfg(feature = "cluster")]
#[test]
fn check_of_a_cluster_asks_every_node() {
    let cluster = crate::support::cluster::Cluster::start();
    runtime().block_on(async {
        let store = cluster.store().deadline(PATIENT);
        assert_eq!(store.check().await, Ok(vec![Warning::NotPersistent]));
        let node = &cluster.nodes[1];
        let () = ask(node, &["CONFIG", "SET", "maxmemory-policy", "allkeys-lfu"]);
        let () = ask(node, &["CONFIG", "SET", "maxmemory", "100mb"]);
        let warnings = store.check().await.unwrap();
        assert_eq!(warnings, [Warning::Eviction, Warning::NotPersistent]);
    });
}

// A server that accepts only two clients, and one that supports fewer commands.

#[test]
fn acquire_by_ten_thousand_tasks_needs_one_client() {
    let server = Server::with(&["--maxclients", "2"]);
    runtime().block_on(async {
        let store = server.store();
        // A unit is paid off in five minutes, so none while the test runs.
        let year = Duration::from_secs(365 * 86_400);
        let quota = Quota::new(100_000, year).burst(100_000);
        let limiter = RateLimiter::new(&store, "k", quota);
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..10_000 {
            let limiter = limiter.clone();
            tasks.spawn(async move { limiter.acquire().await.unwrap() });
        }
        while let Some(charge) = tasks.join_next().await {
            charge.unwrap();
        }
        assert_eq!(charged(&limiter).await, 10_000);
    });
}

#[test]
fn acquire_beyond_maxclients_is_a_typed_error() {
    let server = Server::with(&["--maxclients", "2"]);
    runtime().block_on(async {
        let others = (server.connection(), server.connection());
        let store = server.store();
        let limiter = RateLimiter::new(&store, "k", slow(100_000));
        let refused = limiter.try_acquire().await.unwrap_err();
        assert_eq!(failure(&refused), StoreError::TooManyClients);
        let tally = crowd(&limiter, 10_000).await;
        assert_eq!(tally.errors.len(), 10_000);
        for error in tally.errors {
            let expected = [StoreError::TooManyClients, StoreError::BreakerOpen];
            assert!(expected.contains(&error), "{error:?}");
        }
        let text = store.last_failure().unwrap();
        assert!(text.contains("max number of clients reached"), "{text}");
        drop(others);
        recovers(&limiter).await;
        limiter.charge(1).await.unwrap();
        assert_eq!(charged(&limiter).await, 1);
    });
}

/// Simulates a proxy that supports only the second version of the protocol.
#[test]
fn acquire_without_hello_is_admitted() {
    let server = Server::with(&["--rename-command", "HELLO", ""]);
    runtime().block_on(async {
        let limiter = RateLimiter::new(&server.store(), "k", slow(100));
        limiter.acquire().await.unwrap();
        assert_eq!(charged(&limiter).await, 1);
    });
}

// A key with a value that a limit does not write.

#[test]
fn acquire_of_a_key_of_another_type_is_a_typed_error() {
    on_server(async |server| {
        let store = server.store();
        let algorithms = [
            Algorithm::Gcra,
            Algorithm::FixedWindow,
            Algorithm::SlidingWindow,
            Algorithm::SlidingLog,
        ];
        for words in [["LPUSH", "k", "1"], ["SET", "k", "something"]] {
            let () = ask(server, &["DEL", "k"]);
            let () = ask(server, &words);
            for algorithm in algorithms {
                // The fallback does not decide about mistakes.
                let limiter = RateLimiter::new(&store, "k", slow(5))
                    .algorithm(algorithm)
                    .fallback(Fallback::FailOpen);
                let refused = limiter.try_acquire().await.unwrap_err();
                assert_eq!(failure(&refused), StoreError::WrongType, "{algorithm}");
                assert_eq!(limiter.peek(1).await, Err(StoreError::WrongType));
            }
            assert!(ask::<bool>(server, &["EXISTS", "k"]));
        }
        assert!(!store.is_broken());
    });
}

#[test]
fn acquire_of_a_number_that_no_script_writes_is_a_typed_error() {
    // Lengths from the first one beyond 2^53 on.
    let lengths = [16, 17, 18, 19, 20, 400];
    on_server(async |server| {
        let store = server.store();
        for algorithm in algorithms() {
            let limiter = RateLimiter::new(&store, "k", slow(6)).algorithm(algorithm);
            let () = ask(server, &["DEL", "k"]);
            limiter.acquire().await.unwrap();
            let is_log = algorithm == Algorithm::SlidingLog;
            let read = || {
                if is_log {
                    return ask::<Vec<String>>(server, &["ZRANGE", "k", "-1", "-1"]).remove(0);
                }
                ask(server, &["GET", "k"])
            };
            let value: String = read();
            let numbers = value.split(':').enumerate();
            let numbers = numbers.filter(|(_, it)| it.parse::<u64>().is_ok());
            for (index, length) in numbers.flat_map(|(at, _)| lengths.map(|it| (at, it))) {
                let huge = "9".repeat(length);
                let mut numbers: Vec<_> = value.split(':').collect();
                numbers[index] = &huge;
                let corrupt = numbers.join(":");
                let () = ask(server, &["DEL", "k"]);
                if is_log {
                    ask::<()>(server, &["ZADD", "k", "+inf", &corrupt]);
                } else {
                    ask::<()>(server, &["SET", "k", &corrupt]);
                }
                // The script for the common case, and the script for all others.
                for n in [1, 2] {
                    let refused = limiter.try_acquire_many(n).await;
                    let refused = refused.map_err(|error| failure(&error));
                    assert_eq!(refused.unwrap_err(), StoreError::WrongType, "{corrupt}");
                }
                assert_eq!(limiter.peek(1).await, Err(StoreError::WrongType));
                assert_eq!(read(), corrupt, "it stays as it is");
            }
        }
    });
}

// A server that has no memory left, or evicts keys.

fn set(server: &Server, name: &str, value: &str) {
    ask::<()>(server, &["CONFIG", "SET", name, value]);
}

/// Writes until the server accepts no more, or has evicted so much that it received twice its
/// capacity.
fn fill(server: &Server) {
    let mut connection = server.connection();
    for number in 0..400 {
        let set: redis::RedisResult<()> = redis::cmd("SET")
            .arg(format!("filler{number}"))
            .arg("x".repeat(10_000))
            .query(&mut connection);
        if set.is_err() {
            return;
        }
    }
}

#[test]
fn acquire_without_memory_is_a_typed_error_and_falls_back() {
    let server = Server::with(&["--maxmemory", "3mb", "--maxmemory-policy", "noeviction"]);
    runtime().block_on(async {
        let store = server.store();
        let closed = RateLimiter::new(&store, "closed", slow(10));
        let open = RateLimiter::new(&store, "open", slow(10)).fallback(Fallback::FailOpen);
        let local =
            RateLimiter::new(&store, "local", slow(10)).fallback(Fallback::Local { share: 5 });
        recovers(&closed).await;
        fill(&server);
        set(&server, "maxmemory", "1mb");
        let error = closed.try_acquire().await.unwrap_err();
        assert_eq!(failure(&error), StoreError::OutOfMemory);
        for _ in 0..20 {
            assert_eq!(open.acquire().await.unwrap().source(), Source::Fallback);
        }
        for _ in 0..2 {
            assert_eq!(local.acquire().await.unwrap().source(), Source::Fallback);
        }
        local.try_acquire().await.unwrap_err();
        assert!(!store.is_broken(), "the server answers");
        // Reading needs no memory.
        assert_eq!(charged(&closed).await, 0);

        set(&server, "maxmemory", "0");
        // As soon as a probe of each limit is answered.
        for limiter in [closed, open, local] {
            until(async || {
                let charge = tokio::time::timeout(PATIENT, limiter.acquire()).await;
                charge.unwrap().is_ok_and(|it| it.source() == Source::Store)
            })
            .await;
        }
    });
}

#[test]
fn acquire_on_an_evicting_server_forgets_and_check_warns() {
    let server = Server::with(&["--maxmemory", "3mb", "--maxmemory-policy", "allkeys-lru"]);
    runtime().block_on(async {
        let store = server.store();
        let limiter = RateLimiter::new(&store, "k", slow(10));
        limiter.acquire_many(10).await.unwrap();
        fill(&server);
        set(&server, "maxmemory", "1mb");
        assert_eq!(charged(&limiter).await, 0, "it is forgotten");
        assert!(store.check().await.unwrap().contains(&Warning::Eviction));
        set(&server, "maxmemory-policy", "noeviction");
        assert!(!store.check().await.unwrap().contains(&Warning::Eviction));
    });
}

// A server that forgets its scripts.

#[test]
fn acquire_while_scripts_are_flushed_succeeds_and_charges_once() {
    let server = Server::start();
    let (over, flushed) = (Arc::new(AtomicBool::new(false)), server.connection());
    let flusher = std::thread::spawn({
        let (over, mut connection) = (Arc::clone(&over), flushed);
        move || {
            let mut times = 0;
            while !over.load(Ordering::Relaxed) {
                let _: () = redis::cmd("SCRIPT")
                    .arg("FLUSH")
                    .query(&mut connection)
                    .unwrap();
                times += 1;
            }
            times
        }
    });
    runtime().block_on(async {
        let store = server.store();
        let debt = RateLimiter::new(&store, "debt", slow(1000));
        let alone = RateLimiter::new(&store, "alone", slow(1000)).coalesce(false);
        let window =
            RateLimiter::new(&store, "window", slow(1000)).algorithm(Algorithm::SlidingWindow);
        let log = RateLimiter::new(&store, "log", slow(1000)).algorithm(Algorithm::SlidingLog);
        let limiters = [debt, alone, window, log];
        let mut tasks = Vec::new();
        for limiter in &limiters {
            for _ in 0..4 {
                let limiter = limiter.clone();
                tasks.push(tokio::spawn(async move {
                    for _ in 0..50 {
                        limiter.acquire().await.unwrap();
                    }
                }));
            }
        }
        for task in tasks {
            task.await.unwrap();
        }
        for limiter in &limiters {
            assert_eq!(charged(limiter).await, 200, "{}", limiter.key());
        }
    });
    over.store(true, Ordering::Relaxed);
    assert!(flusher.join().unwrap() > 0);
}

// A stopped server.

#[test]
fn acquire_on_a_stopped_server_ends_and_leaves_no_waiters() {
    on_server(async |server| {
        let store = server.store().deadline(DEADLINE);
        let limiter = limiter(&store, 100_000).await;
        server.stop();
        for _ in 0..3 {
            let tally = crowd(&limiter, 3000).await;
            assert_eq!(tally.errors.len(), 3000);
            assert_eq!(limiter.waiting(), 0);
        }
        server.go_on();
        recovers(&limiter).await;
        until(async || limiter.try_acquire().await.is_ok()).await;
    });
}

#[test]
fn acquire_that_a_stopped_server_executes_later_was_perhaps_charged() {
    on_server(async |server| {
        let store = server.store().deadline(DEADLINE);
        let limiter = RateLimiter::new(&store, "k", slow(1000)).coalesce(false);
        recovers(&limiter).await;
        server.stop();
        let tally = crowd(&limiter, 50).await;
        let perhaps = tally.perhaps_charged();
        assert_eq!(tally.admitted(), 0);
        assert!(perhaps > 0, "{:?}", tally.errors);
        server.go_on();
        let direct = RateLimiter::new(&server.store(), "k", slow(1000));
        until(async || charged(&direct).await > 0).await;
        recovers(&limiter).await;
        assert!(charged(&direct).await <= perhaps);
    });
}
