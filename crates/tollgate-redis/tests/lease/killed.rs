//! A process that holds a lease and is killed.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use tollgate_redis::Store;

use super::look::{KEY, members, semaphore};
use crate::support::runtime;
use crate::support::server::Server;

/// Where the child finds the server.
const ADDRESS: &str = "TOLLGATE_TEST_SERVER";

const TTL: Duration = Duration::from_millis(1_500);

/// What the child does, which is this test run once more. Without an address it does nothing.
#[test]
fn child_holds_a_lease() {
    let Ok(address) = std::env::var(ADDRESS) else {
        return;
    };
    runtime().block_on(async {
        let semaphore = semaphore(&Store::new(&address).unwrap(), 1).ttl(TTL);
        let lease = semaphore.acquire().await.unwrap();
        println!("\nfencing {}", lease.fencing());
        std::future::pending::<()>().await;
    });
}

#[test]
fn lease_of_a_killed_process_is_free_after_its_ttl() {
    let server = Server::start();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["lease::killed::child_holds_a_lease", "--exact"])
        .arg("--nocapture")
        .env(ADDRESS, server.address())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let fencing: u64 = lines
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("fencing ")?.parse().ok())
        .expect("the child holds a lease");
    runtime().block_on(async {
        let semaphore = semaphore(&server.store(), 1).ttl(TTL);
        semaphore.try_acquire().await.unwrap_err();
        assert_eq!(members(&server, KEY), 1);
        // By a signal that cannot be caught.
        child.kill().unwrap();
        child.wait().unwrap();
        let lease = semaphore.acquire().await.unwrap();
        assert!(lease.fencing() > fencing);
        assert_eq!(members(&server, KEY), 1);
    });
}
