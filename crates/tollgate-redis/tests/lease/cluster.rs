//! Semaphores on a cluster, of one node that has all slots.

use std::time::Duration;

use tollgate_redis::{Semaphore, Store};

use super::look::until;
use crate::support::runtime;
use crate::support::server::Server;

#[test]
fn acquire_in_a_cluster_uses_one_slot() {
    let server = Server::with(&["--cluster-enabled", "yes"]);
    let mut connection = server.connection();
    let _: () = redis::cmd("CLUSTER")
        .arg(&["ADDSLOTSRANGE", "0", "16383"])
        .query(&mut connection)
        .unwrap();
    runtime().block_on(async {
        until(async || {
            let state: redis::RedisResult<String> =
                redis::cmd("CLUSTER").arg("INFO").query(&mut connection);
            state.is_ok_and(|state| state.contains("cluster_state:ok"))
        })
        .await;
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
        let keys: usize = redis::cmd("DBSIZE").query(&mut connection).unwrap();
        assert_eq!(keys, 2 + 3);
    });
}
