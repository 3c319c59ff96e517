//! Tests wrong clocks: that of the server, which is set to another time, and that of a client,
//! which has no effect.

use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use tollgate::{Algorithm, ErrorKind, Quota};
use tollgate_redis::{RateLimiter, Semaphore, Store};

use super::help::{PATIENT, charged, ends};
use crate::support::clock_shim::Clock;
use crate::support::server::{Server, Setup};
use crate::support::{algorithms, ask, runtime};

/// Starts a server with its own clock.
fn server() -> (Server, Clock) {
    let clock = Clock::new();
    let setup = Setup {
        environment: clock.environment(),
        ..Setup::default()
    };
    (Server::start_with(setup), clock)
}

/// Creates the limiter of an algorithm. The period of sub-intervals is two windows.
fn limiter(store: &Store, algorithm: Algorithm, window: Duration) -> RateLimiter {
    let quota = match algorithm {
        Algorithm::SubInterval { .. } => Quota::new(15, window * 2),
        Algorithm::Gcra | Algorithm::TokenBucket => Quota::new(5, window).burst(5),
        _ => Quota::new(5, window),
    };
    RateLimiter::new(store, format!("{algorithm}"), quota).algorithm(algorithm)
}

/// The window in which a token is paid off in half a minute.
const LONG: Duration = Duration::from_secs(150);

/// Sets the server's clock to the middle of such a window, and returns the offset in seconds.
fn to_the_middle(clock: &Clock) -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let offset = 75 - (now.unwrap().as_secs() % 150) as i64;
    clock.set(offset);
    offset
}

/// Returns the number of calls that are admitted now, made one by one. A new limiter has no cached
/// denial.
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

/// Checks, for each algorithm, the number of admitted calls at these seconds from the middle, one
/// after the other.
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
                // Each step goes back from the time that the previous one had set.
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
                // A caller that asked before the step does not wait longer either.
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
        // The clock then goes back again: the charges of that time are not forgotten.
        [(0, 5), (30, worth), (1_000_000, 5), (0, 0)]
    });
}

/// A call that seems too late by the server's clock is refused, although the clock may have been set
/// instead.
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
            // One more call reports the time.
            assert!(store.calls() - calls <= 2, "at {seconds} s");
            lease.release().await.unwrap();
            let again = leases.try_acquire_many(2).await.unwrap();
            again.release().await.unwrap();
        }
    });
}

/// Simulates failovers to a server whose data and clock are behind.
#[test]
fn fencing_after_a_failover_to_a_clock_that_is_behind_rises() {
    let (server, clock) = server();
    runtime().block_on(async {
        let semaphore = |store: Store| {
            let semaphore = Semaphore::new(&store.deadline(PATIENT), "jobs", 1);
            semaphore.grace(Duration::ZERO)
        };
        let (holder, other) = (semaphore(server.store()), semaphore(server.store()));
        let (mut own, mut fell) = ([0, 0], 0);
        for seconds in [0, -30, -3_600, 7, -7] {
            clock.set(seconds);
            let () = ask(&server, &["FLUSHALL"]);
            // What one process has sent holds for the other.
            let mut before = 0;
            for (semaphore, own) in [&holder, &other].into_iter().zip(&mut own) {
                let lease = semaphore.acquire().await.unwrap();
                assert!(lease.fencing() > before.max(*own), "{seconds} s");
                (before, *own) = (lease.fencing(), lease.fencing());
                lease.release().await.unwrap();
            }
            // A process that has got no number gets one of this server alone.
            let () = ask(&server, &["FLUSHALL"]);
            let stranger = semaphore(server.store()).acquire().await.unwrap();
            fell += u32::from(stranger.fencing() < before);
            stranger.release().await.unwrap();
        }
        assert_eq!(fell, 3, "the clock was behind three times");
    });
}

/// The variable that makes a process a client of a server, instead of a test.
const ROLE: &str = "TOLLGATE_TEST_CLIENT_OF";

/// Returns the decisions that a client of a key sees.
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
