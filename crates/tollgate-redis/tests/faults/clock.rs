//! Clocks that are wrong: the server's, which steps, and a client's, which nobody asks.

use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use tollgate::{Algorithm, ErrorKind, Quota};
use tollgate_redis::{RateLimiter, Semaphore, Store};

use super::help::{PATIENT, charged, ends};
use crate::support::clock_shim::Clock;
use crate::support::server::{Server, Setup};
use crate::support::{algorithms, runtime};

/// A server of a clock of its own.
fn server() -> (Server, Clock) {
    let clock = Clock::new();
    let setup = Setup {
        environment: clock.environment(),
        ..Setup::default()
    };
    (Server::start_with(setup), clock)
}

/// What one limit holds at most, and how: one period is two windows of sub-intervals.
fn limiter(store: &Store, algorithm: Algorithm, window: Duration) -> RateLimiter {
    let quota = match algorithm {
        Algorithm::SubInterval { .. } => Quota::new(15, window * 2),
        Algorithm::Gcra | Algorithm::TokenBucket => Quota::new(5, window).burst(5),
        _ => Quota::new(5, window),
    };
    RateLimiter::new(store, format!("{algorithm}"), quota).algorithm(algorithm)
}

/// Gives back a token in half a minute.
const LONG: Duration = Duration::from_secs(150);

/// Sets the server's clock to the middle of one of those, and says by how many seconds.
fn to_the_middle(clock: &Clock) -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let offset = 75 - (now.unwrap().as_secs() % 150) as i64;
    clock.set(offset);
    offset
}

/// How many come in now, asked for one by one. A limiter of its own knows of no denial.
async fn come_in(store: &Store, algorithm: Algorithm, window: Duration) -> u64 {
    let limiter = limiter(store, algorithm, window);
    let mut admitted = 0;
    loop {
        match limiter.try_acquire().await {
            Ok(charge) => admitted += charge.cost(),
            Err(refused) => {
                assert_eq!(
                    refused.kind(),
                    ErrorKind::RateLimited,
                    "{algorithm}: {refused}"
                );
                return admitted;
            }
        }
    }
}

/// By each algorithm: so many come in at so many seconds from the middle, one after the other.
fn come_in_at<const N: usize>(steps: impl Fn(Algorithm) -> [(i64, u64); N]) {
    let (server, clock) = server();
    runtime().block_on(async {
        let store = server.store();
        let middle = to_the_middle(&clock);
        for algorithm in algorithms() {
            for (seconds, admitted) in steps(algorithm) {
                clock.set(middle + seconds);
                let came = come_in(&store, algorithm, LONG).await;
                assert_eq!(came, admitted, "{algorithm}, at {seconds} s");
            }
        }
    });
}

#[test]
fn acquire_after_the_clock_stepped_back_mints_nothing() {
    come_in_at(|_| [(0, 5), (-30, 0), (-30, 0), (-600, 0), (-100_000, 0)]);
}

#[test]
fn acquire_after_the_clock_stepped_back_over_a_boundary_mints_nothing() {
    // A window ends 75 seconds after its middle, and a token of GCRA takes 30.
    come_in_at(|algorithm| {
        let next = match algorithm {
            Algorithm::Gcra => 2,
            Algorithm::TokenBucket | Algorithm::FixedWindow | Algorithm::SubInterval { .. } => 5,
            _ => 0,
        };
        let [after, before] = [78, 70];
        [(0, 5), (after, next), (before, 0), (after, 0), (before, 0)]
    });
}

#[test]
fn acquire_after_the_clock_stepped_back_does_not_stall() {
    let window = Duration::from_millis(200);
    for full in [true, false] {
        let (server, clock) = server();
        runtime().block_on(async {
            let store = server.store();
            for (number, algorithm) in (0..).zip(algorithms()) {
                // Each steps back from where the one before had stepped to.
                let offset = -30 * number;
                clock.set(offset);
                let before = limiter(&store, algorithm, window);
                let first = if full { 5 } else { 4 };
                before.charge(first).await.unwrap();
                clock.set(offset - 30);
                let start = Instant::now();
                let after = limiter(&store, algorithm, window);
                for _ in 0..5 {
                    ends(after.acquire()).await.unwrap();
                }
                // One who asked before it is not longer in line either.
                ends(before.acquire()).await.unwrap();
                assert!(start.elapsed() < Duration::from_secs(20), "{algorithm}");
            }
        });
    }
}

#[test]
fn acquire_after_the_clock_stepped_forward_admits_one_burst_at_most() {
    come_in_at(|algorithm| {
        let worth = u64::from(algorithm == Algorithm::Gcra);
        // And back again: what was charged then is not forgotten.
        [(0, 5), (30, worth), (1_000_000, 5), (0, 0)]
    });
}

/// A call that is too late by the server's clock is refused, and the clock may have changed instead.
#[test]
fn acquire_of_a_lease_after_the_clock_stepped_is_admitted() {
    let (server, clock) = server();
    runtime().block_on(async {
        let store = server.store();
        let leases = Semaphore::new(&store, "jobs", 2).grace(Duration::ZERO);
        for seconds in [0, 1_000, 5, -100_000, 100_000, 0] {
            clock.set(seconds);
            let calls = store.calls();
            let lease = leases.try_acquire_many(2).await.unwrap();
            // One more tells the time.
            assert!(store.calls() - calls <= 2, "at {seconds} s");
            lease.release().await.unwrap();
            let again = leases.try_acquire_many(2).await.unwrap();
            again.release().await.unwrap();
        }
    });
}

/// Where a process is told to be a client of a server, instead of a test of its own.
const ROLE: &str = "TOLLGATE_TEST_CLIENT_OF";

/// What a client of a key sees.
async fn decisions(store: &Store, name: &str) -> Vec<String> {
    let mut seen = Vec::new();
    for algorithm in algorithms() {
        let quota = limiter(store, algorithm, LONG).quota();
        let key = format!("{name}:{algorithm}");
        let limiter = RateLimiter::new(store, key, quota).algorithm(algorithm);
        for cost in [2, 2, 2, 1, 1] {
            let answer = limiter.try_acquire_many(cost).await;
            let answer = answer.map(|charge| charge.decision().remaining);
            seen.push(format!("{answer:?}", answer = answer.map_err(|e| e.kind())));
        }
        seen.push(charged(&limiter).await.to_string());
        let charge = limiter.charge(1).await.unwrap();
        limiter.refund(charge).await.unwrap();
        seen.push(charged(&limiter).await.to_string());
    }
    seen
}

#[test]
fn acquire_by_clients_with_skewed_clocks_decides_alike() {
    if let Ok(address) = std::env::var(ROLE) {
        runtime().block_on(async {
            let store = Store::new(&address).unwrap().deadline(PATIENT);
            let name = std::process::id().to_string();
            for line in decisions(&store, &name).await {
                println!("saw {line}");
            }
        });
        return;
    }
    let (server, clock) = server();
    to_the_middle(&clock);
    let expected = runtime().block_on(async {
        let store = server.store();
        decisions(&store, "here").await
    });
    let days = 24 * 60 * 60;
    for skew in [-10 * days, -30, 30, 10 * days] {
        let clock = Clock::new();
        clock.set(skew);
        let client = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "faults::clock::acquire_by_clients_with_skewed_clocks_decides_alike",
            ])
            .arg("--nocapture")
            .env(ROLE, server.address())
            .envs(clock.environment())
            .output()
            .unwrap();
        let output = String::from_utf8(client.stdout).unwrap();
        let saw: Vec<_> = output
            .lines()
            .filter_map(|line| line.split_once("saw ").map(|(_, saw)| saw.to_owned()))
            .collect();
        assert!(client.status.success(), "{output}");
        assert_eq!(saw, expected, "by a clock that is {skew} s ahead");
    }
}
