//! Tests processes that are forked from one, as by servers that fork their workers: each is a process of its own.

use std::collections::hash_map::RandomState;
use std::process::Command;
use std::time::Duration;

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

/// The workers, when the test below starts this program once more. By itself it does nothing.
#[test]
fn workers() {
    let Ok(address) = std::env::var(ADDRESS) else {
        return;
    };
    // Before the fork, as in a program that has used a map.
    drop(RandomState::new());
    let _forked = std::os::unix::process::parent_id();
    let held = one_thread().block_on(async {
        let store = Store::new(&address).unwrap().deadline(PATIENT);
        let jobs = Semaphore::new(&store, "jobs", 1).grace(Duration::ZERO);
        // It is not returned.
        jobs.try_acquire().await.map(std::mem::forget)
    });
    let client = redis::Client::open(address).unwrap();
    let mut connection = client.get_connection().unwrap();
    let report = match held.map_err(|error| error.kind()) {
        Ok(()) => "held".to_owned(),
        Err(refused) => format!("{refused:?}"),
    };
    let () = redis::cmd("RPUSH")
        .arg("reports")
        .arg(report)
        .query(&mut connection)
        .unwrap();
    std::process::exit(0);
}

#[test]
fn acquire_by_forked_processes_is_by_two_processes() {
    let server = Server::start();
    runtime().block_on(async {
        let (library, name) = (compile(SHIM), module_path!());
        let workers = name.split_once("::").unwrap().1.to_owned() + "::workers";
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([&workers, "--exact", "--nocapture"])
            .env("LD_PRELOAD", library_in(&library))
            .env(ADDRESS, server.address())
            .spawn()
            .unwrap();
        let reports = || ask::<Vec<String>>(&server, &["LRANGE", "reports", "0", "-1"]);
        until(async || reports().len() == 2).await;
        let mut reports = reports();
        reports.sort_unstable();
        assert_eq!(reports, ["NoPermits", "held"]);
        child.wait().unwrap();
    });
}
