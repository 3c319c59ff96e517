//! What the tests of leases share: semaphores, and a look at what the server holds.

use std::time::Duration;

use tollgate_redis::{Semaphore, Store};

use crate::support::ask;
use crate::support::server::Server;
pub(super) use crate::support::{PATIENT, until};

/// Of the leases.
pub(super) const KEY: &str = "{jobs}/semaphore/leases";

/// On a server that need not be told from one that lost its data, and that is asked often. What is
/// not given back stays for longer than a test.
pub(super) fn semaphore(store: &Store, permits: usize) -> Semaphore {
    Semaphore::new(store, "jobs", permits)
        .ttl(Duration::from_secs(3_600))
        .grace(Duration::ZERO)
        .poll(Duration::from_millis(1))
}

/// Makes the data of the server so old that nothing can have been lost lately.
pub(super) fn is_old(server: &Server) {
    ask(server, &["SET", "tollgate:born", "1"])
}

/// Waits until so many are free.
pub(super) async fn until_free(semaphore: &Semaphore, free: usize) {
    until(async || semaphore.available().await.is_ok_and(|now| now == free)).await;
}

/// How many members a sorted set has.
pub(super) fn members(server: &Server, key: &str) -> usize {
    ask(server, &["ZCARD", key])
}

pub(super) fn tickets(server: &Server) -> usize {
    members(server, "{jobs}/semaphore/tickets")
}

/// The microsecond in which a lease expires.
pub(super) fn score(server: &Server, id: &str) -> Option<f64> {
    ask(server, &["ZSCORE", KEY, id])
}
