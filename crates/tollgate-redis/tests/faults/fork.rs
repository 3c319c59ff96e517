//! Tests processes that are forked from one, as by servers that fork their workers: each is a process of its own.

use std::collections::hash_map::RandomState;
use std::process::{Child, Command};
use std::time::Duration;

use tempfile::TempDir;
use tollgate_redis::{Semaphore, Store};

use crate::support::clock_shim::{compile, library_in};
use crate::support::server::Server;
use crate::support::{PATIENT, ask, one_thread, runtime, until};

/// Forks when the process asks for its parent, and returns the process that was forked, or 0 in it. No other code of
/// the test asks for it.
const SHIM: &str = "
#include <unistd.h>
pid_t getppid(void) { return fork(); }
";

/// The environment variable with the address of the server.
const ADDRESS: &str = "TOLLGATE_TEST_FORK";

/// Returns the address of the server in each of two processes, when a test below starts this program once more. By itself
/// the program does not fork.
fn forked() -> Option<String> {
    let address = std::env::var(ADDRESS).ok()?;
    // Before the fork, as in a program that has used a map.
    drop(RandomState::new());
    let _forked = std::os::unix::process::parent_id();
    Some(address)
}

fn jobs(store: &Store) -> Semaphore {
    Semaphore::new(store, "jobs", 1).grace(Duration::ZERO)
}

/// Ends a process that was forked.
fn report(address: String, text: &str) -> ! {
    let client = redis::Client::open(address).unwrap();
    let mut connection = client.get_connection().unwrap();
    let mut push = redis::cmd("RPUSH");
    let () = push
        .arg("reports")
        .arg(text)
        .query(&mut connection)
        .unwrap();
    std::process::exit(0);
}

/// Starts this program with a test that forks, and returns the library that it needs.
fn start(test: &str, server: &Server) -> (Child, TempDir) {
    let (library, name) = (compile(SHIM), module_path!());
    let test = format!("{}::{test}", name.split_once("::").unwrap().1);
    let child = Command::new(std::env::current_exe().unwrap())
        .args([&test, "--exact", "--nocapture"])
        .env("LD_PRELOAD", library_in(&library))
        .env(ADDRESS, server.address())
        .spawn()
        .unwrap();
    (child, library)
}

/// Returns the reports of both processes.
async fn reports(server: &Server) -> Vec<String> {
    let reports = || ask::<Vec<String>>(server, &["LRANGE", "reports", "0", "-1"]);
    until(async || reports().len() == 2).await;
    let mut reports = reports();
    reports.sort_unstable();
    reports
}

#[test]
fn workers() {
    let Some(address) = forked() else {
        return;
    };
    let held = one_thread().block_on(async {
        let store = Store::new(&address).unwrap().deadline(PATIENT);
        // It is not returned.
        jobs(&store).try_acquire().await.map(std::mem::forget)
    });
    match held.map_err(|error| error.kind()) {
        Ok(()) => report(address, "held"),
        Err(refused) => report(address, &format!("{refused:?}")),
    }
}

#[test]
fn acquire_by_forked_processes_is_by_two_processes() {
    let server = Server::start();
    runtime().block_on(async {
        let (mut child, _library) = start("workers", &server);
        assert_eq!(reports(&server).await, ["NoPermits", "held"]);
        child.wait().unwrap();
    });
}

#[test]
fn waiters() {
    let Some(address) = forked() else {
        return;
    };
    one_thread().block_on(async {
        let store = Store::new(&address).unwrap().deadline(PATIENT);
        let lease = jobs(&store).acquire().await.unwrap();
        lease.release().await.unwrap();
    });
    report(address, "served");
}

#[test]
fn acquire_by_forked_processes_waits_in_two_channels() {
    let server = Server::start();
    runtime().block_on(async {
        let store = server.store().deadline(PATIENT);
        let lease = jobs(&store).acquire().await.unwrap();
        let (mut child, _library) = start("waiters", &server);
        let tickets = || ask::<usize>(&server, &["ZCARD", "{jobs}/semaphore/tickets"]);
        until(async || tickets() == 2).await;
        let channels = || ask::<Vec<String>>(&server, &["PUBSUB", "CHANNELS"]);
        until(async || channels().len() == 2).await;
        for channel in channels() {
            let (_, listeners): (String, u64) = ask(&server, &["PUBSUB", "NUMSUB", &channel]);
            assert_eq!(listeners, 1, "{channel}");
        }
        lease.release().await.unwrap();
        assert_eq!(reports(&server).await, ["served", "served"]);
        child.wait().unwrap();
    });
}
