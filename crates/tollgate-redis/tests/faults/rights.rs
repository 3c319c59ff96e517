//! Tests rights: those that the README names suffice, each is needed, and a missing one is a typed error.

use std::time::Duration;

use tollgate::{AcquireError, Algorithm, Quota};
use tollgate_redis::{Detector, LimitSet, RateLimiter, Semaphore, Store, StoreError, Warning};

#[cfg(feature = "cluster")]
use super::help::DEADLINE;
use super::help::{PATIENT, failure, slow};
use crate::support::clock_shim::Clock;
use crate::support::server::{Server, Setup};
use crate::support::{algorithms, ask, runtime};

/// The lines of the README that give a user its rights.
fn rights() -> Vec<&'static str> {
    let readme = include_str!("../../README.md");
    let (_, rest) = readme.split_once("ACL SETUSER app on >secret").unwrap();
    let (rights, _) = rest.split_once("```").unwrap();
    rights
        .split_whitespace()
        .filter(|word| !["\\", "resetchannels"].contains(word))
        .collect()
}

fn set_user(server: &Server, rights: &[&str]) {
    let () = ask(server, &["ACL", "SETUSER", "app", "reset", "on", ">secret"]);
    // A user of Redis 6.2 has the right for all channels.
    let () = ask(server, &["ACL", "SETUSER", "app", "resetchannels"]);
    for right in rights {
        let () = ask(server, &["ACL", "SETUSER", "app", right.trim_matches('\'')]);
    }
}

/// Creates a store with the rights of the user.
fn store(server: &Server) -> Store {
    let address = server.address().replace("//", "//app:secret@");
    Store::new(&address).unwrap().deadline(PATIENT)
}

fn failed(error: AcquireError) -> StoreError {
    failure(&error)
}

/// Makes every kind of call to a server; its clock is set back by a minute in between.
async fn every_verb(store: &Store, clock: &Clock) -> Result<(), StoreError> {
    clock.set(0);
    for algorithm in algorithms() {
        let limiter = RateLimiter::new(store, format!("app:{algorithm}"), slow(60));
        let limiter = limiter.algorithm(algorithm);
        limiter.try_acquire_many(2).await.map_err(failed)?;
        let first = limiter.try_acquire().await.map_err(failed)?;
        limiter.try_acquire_up_to(2).await.map_err(failed)?;
        let later = limiter.reserve(Duration::ZERO).await.map_err(failed)?;
        let later = later.ready().await.map_err(failed)?;
        limiter.settle(later, 0).await?;
        limiter.refund(first).await?;
        limiter.peek(1).await?;
        // A full refund leaves no key.
        let limiter = RateLimiter::new(store, format!("app:{algorithm}/all"), slow(60));
        let limiter = limiter.algorithm(algorithm);
        let all = limiter.charge(1).await?;
        limiter.refund(all).await?;
    }

    // The second call waits for a turn.
    let waits = RateLimiter::new(store, "app:waits", Quota::per_second(100)).fail_waiting();
    waits.acquire().await.map_err(failed)?;
    waits.acquire().await.map_err(failed)?;

    let set = LimitSet::new(store).limit("app:gcra", slow(60)).limit_by(
        Algorithm::SlidingLog,
        "app:sliding-log",
        slow(60),
    );
    let set = set.fail_waiting();
    let outcome = set.try_acquire().await?;
    set.refund(outcome.into_charges().unwrap()).await?;
    set.acquire().await.map_err(failed)?;
    set.peek(1).await?;

    let detector = Detector::new(store, "app:abuse", slow(60));
    detector.record("192.0.2.7");
    detector.pass().await?;

    let exports = Semaphore::new(store, "app:exports", 2).grace(Duration::ZERO);
    let lease = exports.try_acquire().await.map_err(failed)?;
    exports.available().await?;
    let other = exports.try_acquire().await.map_err(failed)?;
    other.release().await?;

    clock.set(-60);
    let log = RateLimiter::new(store, "app:sliding-log", slow(60));
    log.algorithm(Algorithm::SlidingLog).peek(1).await?;
    exports.available().await?;
    lease.release().await
}

/// Requests a lease a second time, as a call does whose reply was lost, and then stands in line behind two others, and
/// looks, and leaves.
fn wait_in_line(server: &Server) -> redis::RedisResult<()> {
    let address = server.address().replace("//", "//app:secret@");
    let mut connection = redis::Client::open(address)?.get_connection()?;
    let lease = concat!(
        include_str!("../../src/lua/clock.lua"),
        "\n",
        include_str!("../../src/lua/prelude.lua"),
        include_str!("../../src/lua/line.lua"),
        include_str!("../../src/lua/lease.lua")
    );
    let mut acquire = |id: &str, ticket: u64, stays: u64| -> redis::RedisResult<Vec<u64>> {
        let keys = ["leases", "fences", "tickets", "ends", "state"];
        let keys = keys.map(|part| format!("{{app:twice}}/semaphore/{part}"));
        let mut call = redis::cmd("EVAL");
        call.arg(lease).arg(7).arg(&keys).arg("tollgate:born");
        call.arg("{app:twice}/semaphore/waits");
        // One permit, for an hour, at once, whenever the call is executed.
        call.arg("acquire")
            .arg(&[1, 3_600_000_000, 0, 1_000_000, u64::MAX, 3_600_000_000]);
        // No number was seen before, and nobody is told.
        call.arg(0).arg("").arg(id).arg(&[1, ticket, stays]);
        call.query(&mut connection)
    };
    for _ in 0..2 {
        let granted = acquire("id", 0, 0)?;
        assert_eq!(granted[2..], [0, 0, 0, 0, granted[6], 0], "{granted:?}");
    }
    for id in ["other.1", "other.2"] {
        acquire(id, 0, 1)?;
    }
    let ticket = acquire("own.1", 0, 1)?[7];
    let ahead = acquire("own.1", ticket, 1)?[5];
    assert_eq!(ahead, 2);
    acquire("own.1", ticket, 0)?;
    Ok(())
}

#[test]
fn every_verb_needs_the_rights_of_the_readme_and_no_more() {
    let clock = Clock::new();
    let server = Server::start_with(Setup {
        environment: clock.environment(),
        ..Setup::default()
    });
    let rights = rights();
    let patterns = rights.iter().filter(|right| right.starts_with("'~"));
    let commands = rights.iter().filter(|right| right.starts_with('+'));
    assert_eq!((patterns.count(), commands.count() + 4), (3, rights.len()));

    set_user(&server, &rights);
    runtime().block_on(async {
        every_verb(&store(&server), &clock).await.unwrap();
        wait_in_line(&server).unwrap();
        let warnings = store(&server).check().await;
        assert_eq!(warnings, Ok(vec![Warning::NotPersistent]));
    });

    // Versions differ in their texts.
    let said = ["permissions", "can't run", "can't access"];
    for (index, missing) in rights.iter().enumerate() {
        let mut rest = rights.clone();
        rest.remove(index);
        set_user(&server, &rest);
        let () = ask(&server, &["FLUSHALL"]);
        let () = ask(&server, &["SCRIPT", "FLUSH"]);
        runtime().block_on(async {
            let store = store(&server);
            match *missing {
                "+info" | "+config|get" => {
                    every_verb(&store, &clock).await.unwrap();
                    let warnings = store.check().await.unwrap();
                    assert!(warnings.contains(&Warning::Hidden), "{missing}");
                }
                // Only a line needs them.
                "+hmget" | "+hset" | "+hdel" | "+zmscore" | "+zcount" => {
                    let text = wait_in_line(&server).unwrap_err().to_string();
                    assert!(said.iter().any(|it| text.contains(it)), "{text}");
                }
                // Waiters are not told, and look.
                "'&tollgate:*'" | "+subscribe" | "+publish" => {
                    every_verb(&store, &clock).await.unwrap();
                }
                _ => {
                    let failed = every_verb(&store, &clock).await;
                    assert_eq!(failed, Err(StoreError::Forbidden), "{missing}");
                    let text = store.last_failure().unwrap();
                    assert!(said.iter().any(|it| text.contains(it)), "{text}");
                }
            }
        });
    }
}

#[cfg(feature = "cluster")]
#[test]
fn acquire_in_a_cluster_needs_the_further_rights_of_the_readme() {
    let cluster = crate::support::cluster::Cluster::start();
    let further = include_str!("../../README.md");
    let (_, further) = further.split_once("In a cluster add `").unwrap();
    let (further, _) = further.split_once('`').unwrap();
    let further: Vec<_> = further.split_whitespace().collect();
    let addresses = cluster.nodes.iter().map(Server::address);
    let addresses: Vec<_> = addresses
        .map(|it| it.replace("//", "//app:secret@"))
        .collect();
    let mut keys = (0..).map(|number| format!("app:{number}"));
    for missing in [None, Some(0), Some(1), Some(2)] {
        let mut rights = rights();
        let given = further.iter().enumerate();
        rights.extend(
            given
                .filter(|(it, _)| Some(*it) != missing)
                .map(|(_, it)| *it),
        );
        for node in &cluster.nodes {
            set_user(node, &rights);
        }
        // Without the slots no call works, without `ASKING` no slot can move, and without the sentinel no
        // semaphore works.
        let [charges, leases] = match missing {
            None => [true, true],
            Some(0) => [false, false],
            Some(1) => [false, true],
            Some(_) => [true, false],
        };
        runtime().block_on(async {
            let store = |works| {
                let store = Store::cluster(addresses.iter().map(String::as_str)).unwrap();
                store.deadline(if works { PATIENT } else { DEADLINE })
            };
            let without = missing.map(|it| further[it]);
            let exports = Semaphore::new(&store(leases), "app:exports", 1);
            let lease = exports.grace(Duration::ZERO).try_acquire().await;
            assert_eq!(lease.is_ok(), leases, "without {without:?}");
            if let Ok(lease) = lease {
                lease.release().await.unwrap();
            }
            // A new key of a moving slot is on the target node.
            let key = keys.next().unwrap();
            let (slot, from) = (cluster.slot(&key), cluster.owner(&key));
            cluster.begin(slot, from, (from + 1) % 3);
            let limiter = RateLimiter::new(&store(charges), key, slow(5));
            assert_eq!(
                limiter.try_acquire().await.is_ok(),
                charges,
                "without {without:?}"
            );
        });
    }
}
