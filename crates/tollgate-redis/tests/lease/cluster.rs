//! Semaphores on a cluster, of one node that has all slots.

use std::time::Duration;

use tollgate_redis::{Semaphore, Store};

use super::look::until;
use crate::support::server::Server;
use crate::support::{ask, runtime};

#[test]
fn acquire_in_a_cluster_uses_one_slot() {
    let server = Server::with(&["--cluster-enabled", "yes"]);
    let () = ask(&server, &["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    runtime().block_on(async {
        let state = || ask::<String>(&server, &["CLUSTER", "INFO"]);
        until(async || state().contains("cluster_state:ok")).await;
        let address = server.address();
        let store = Store::cluster([address.as_str()]).unwrap();
        for key in ["jobs", "{tenant}:jobs", "{tenant}:others"] {
            let semaphore = Semaphore::new(&store, key, 2).grace(Duration::ZERO);
            until(async || semaphore.available().await.is_ok()).await;
            let lease = semaphore.acquire_many(2).await.unwrap();
            assert_eq!(semaphore.available().await, Ok(0));
            lease.release().await.unwrap();
            assert_eq!(semaphore.available().await, Ok(2));
        }
        // The sentinels of two slots, and for each key what the fencing numbers go on from.
        assert_eq!(ask::<usize>(&server, &["DBSIZE"]), 2 + 3);
    });
}
