//! Tests a server whose password is changed while clients use it.

#[cfg(feature = "credentials")]
use std::sync::atomic::{AtomicUsize, Ordering};
#[cfg(feature = "credentials")]
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[cfg(feature = "credentials")]
use tollgate_redis::Credentials;
use tollgate_redis::{Fallback, RateLimiter, Source, Store, StoreError};

use super::help::{PATIENT, failure, slow, until};
use crate::support::server::Server;
use crate::support::{ask, runtime};

/// Returns the number of connections that a server has ever accepted.
fn accepted(server: &Server) -> u64 {
    let info: String = ask(server, &["INFO", "stats"]);
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("total_connections_received:"));
    line.unwrap().parse().unwrap()
}

fn user(server: &Server, password: &str) {
    let () = ask(
        server,
        &[
            "ACL",
            "SETUSER",
            "app",
            "reset",
            "on",
            &format!(">{password}"),
            "~*",
            "+@all",
        ],
    );
}

/// Ends all connections of the user.
fn hang_up(server: &Server) {
    let _ended: u64 = ask(server, &["CLIENT", "KILL", "USER", "app"]);
}

fn store(server: &Server) -> Store {
    let address = server.address().replace("//", "//app:secret@");
    Store::new(&address).unwrap().deadline(PATIENT)
}

#[test]
fn acquire_after_a_change_of_the_password_connects_as_often_as_the_breaker_probes() {
    let server = Server::start();
    user(&server, "secret");
    runtime().block_on(async {
        let pause = Duration::from_millis(100);
        let stores = [(); 4].map(|()| store(&server).breaker(5, pause, pause));
        let limiters = stores
            .each_ref()
            .map(|store| RateLimiter::new(store, "k", slow(1000)).fallback(Fallback::FailOpen));
        for limiter in &limiters {
            assert_eq!(limiter.acquire().await.unwrap().source(), Source::Store);
        }
        user(&server, "another");
        let (before, begun) = (accepted(&server), Instant::now());
        hang_up(&server);
        let mut calls = 0;
        // Each store reaches its breaker, and probes several times.
        until(async || {
            for limiter in &limiters {
                assert_eq!(limiter.acquire().await.unwrap().source(), Source::Fallback);
                calls += 1;
            }
            stores.iter().all(Store::is_broken) && begun.elapsed() > 10 * pause
        })
        .await;
        let after = accepted(&server);
        let probes = begun.elapsed().as_millis() / pause.as_millis() + 1;
        // `accepted` connects once itself, and so does each change.
        let most = 4 * (5 + u64::try_from(probes).unwrap()) + 2;
        assert!(
            after - before <= most,
            "{} connections in {calls} calls",
            after - before
        );
        for store in &stores {
            let text = store.last_failure().unwrap();
            assert!(text.contains("WRONGPASS"), "{text}");
        }

        user(&server, "secret");
        for limiter in &limiters {
            until(async || limiter.acquire().await.unwrap().source() == Source::Store).await;
        }
        assert!(!stores.iter().any(Store::is_broken));
    });
}

#[test]
fn acquire_with_a_password_of_the_server_that_has_changed_is_unauthenticated() {
    let server = Server::start();
    runtime().block_on(async {
        let hour = Duration::from_secs(3_600);
        let store = server.store().breaker(2, hour, hour);
        let limiter = RateLimiter::new(&store, "k", slow(10));
        limiter.acquire().await.unwrap();
        let mut admin = server.connection();
        let change = |admin: &mut redis::Connection, words: &[&str]| {
            let mut command = redis::cmd(words[0]);
            let _: redis::Value = command.arg(&words[1..]).query(admin).unwrap();
        };
        change(&mut admin, &["CONFIG", "SET", "requirepass", "another"]);
        change(
            &mut admin,
            &["CLIENT", "KILL", "SKIPME", "yes", "TYPE", "normal"],
        );
        // The first call may be sent on the connection that has just ended.
        let mut errors = Vec::new();
        while !store.is_broken() {
            errors.push(failure(&limiter.try_acquire().await.unwrap_err()));
        }
        assert_eq!(
            errors.last(),
            Some(&StoreError::Unauthenticated),
            "{errors:?}"
        );
        let error = failure(&limiter.try_acquire().await.unwrap_err());
        assert_eq!(error, StoreError::BreakerOpen);
    });
}

#[test]
fn acquire_without_the_right_for_the_database_is_unauthenticated() {
    let server = Server::start();
    user(&server, "secret");
    let () = ask(&server, &["ACL", "SETUSER", "app", "-select"]);
    runtime().block_on(async {
        let limiter = |store: Store| RateLimiter::new(&store.deadline(PATIENT), "k", slow(10));
        limiter(store(&server)).acquire().await.unwrap();
        let address = server.address().replace("//", "//app:secret@");
        let store = Store::new(&format!("{address}3")).unwrap();
        let error = limiter(store).try_acquire().await.unwrap_err();
        assert_eq!(failure(&error), StoreError::Unauthenticated);
    });
}

/// Answers with this password, and counts how often it was asked.
#[cfg(feature = "credentials")]
fn login(
    password: &Arc<Mutex<String>>,
    valid_for: Option<Duration>,
) -> (
    impl Fn() -> std::future::Ready<Result<Credentials, std::io::Error>> + Send + Sync + 'static,
    Arc<AtomicUsize>,
) {
    let (password, asked) = (Arc::clone(password), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&asked);
    let ask = move || {
        count.fetch_add(1, Ordering::Relaxed);
        let credentials = Credentials::new("app", password.lock().unwrap().clone());
        std::future::ready(Ok(match valid_for {
            Some(time) => credentials.valid_for(time),
            None => credentials,
        }))
    };
    (ask, asked)
}

#[cfg(feature = "credentials")]
#[test]
fn connection_that_is_lost_after_a_change_of_the_password_is_made_with_the_new_one() {
    let server = Server::start();
    user(&server, "first");
    let password = Arc::new(Mutex::new("first".to_owned()));
    let (ask, asked) = login(&password, None);
    runtime().block_on(async {
        let store = Store::new(&server.address()).unwrap().deadline(PATIENT);
        let store = store.with_credentials(ask);
        let limiter = RateLimiter::new(&store, "k", slow(1000));
        limiter.acquire().await.unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), 1);

        user(&server, "second");
        *password.lock().unwrap() = "second".to_owned();
        hang_up(&server);
        until(async || limiter.acquire().await.is_ok()).await;
        assert!(asked.load(Ordering::Relaxed) >= 2);
    });
}

#[cfg(feature = "credentials")]
#[test]
fn connection_whose_token_ends_authenticates_again_while_calls_go_on() {
    let server = Server::start();
    user(&server, "first");
    let password = Arc::new(Mutex::new("first".to_owned()));
    let (ask, asked) = login(&password, Some(Duration::from_millis(1)));
    runtime().block_on(async {
        let store = Store::new(&server.address()).unwrap().deadline(PATIENT);
        let store = store.with_credentials(ask);
        let limiter = RateLimiter::new(&store, "k", slow(1_000_000));
        limiter.acquire().await.unwrap();
        let auths = async || {
            let info: String = crate::support::ask(&server, &["INFO", "commandstats"]);
            let line = info.lines().find(|line| line.starts_with("cmdstat_auth:"));
            let calls = line.and_then(|line| line.split(['=', ',']).nth(1)?.parse::<u64>().ok());
            calls.unwrap_or(0)
        };
        // The library authenticates once when it has connected, and then with each renewal.
        until(async || {
            limiter.acquire().await.unwrap();
            auths().await >= 3
        })
        .await;
        assert!(asked.load(Ordering::Relaxed) >= 3);
        assert_eq!(store.statistics().connections, 1);
    });
}

#[cfg(feature = "credentials")]
#[test]
fn credentials_that_cannot_be_had_are_an_outage_with_a_reason() {
    let server = Server::start();
    runtime().block_on(async {
        let store = Store::new(&server.address()).unwrap().deadline(PATIENT);
        let store = store.with_credentials(async || Err::<Credentials, _>("the vault is sealed"));
        let limiter = RateLimiter::new(&store, "k", slow(1000)).fallback(Fallback::FailOpen);
        assert_eq!(limiter.acquire().await.unwrap().source(), Source::Fallback);
        let text = store.last_failure().unwrap();
        assert!(text.contains("the vault is sealed"), "{text}");
    });
}

#[cfg(all(feature = "credentials", feature = "cluster"))]
#[test]
fn nodes_of_a_cluster_get_the_credentials() {
    let cluster = crate::support::cluster::Cluster::start();
    let password = Arc::new(Mutex::new("first".to_owned()));
    for node in &cluster.nodes {
        user(node, "first");
    }
    let (ask, asked) = login(&password, None);
    runtime().block_on(async {
        let store = cluster.store().deadline(PATIENT).with_credentials(ask);
        for key in ["a", "b", "c", "d"] {
            let limiter = RateLimiter::new(&store, key, slow(1000));
            limiter.acquire().await.unwrap();
        }
        // Three nodes, and one question.
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    });
}
