//! What a server is warned of.

use tollgate_redis::{Store, StoreError, Warning};

use super::help::{PATIENT, until};
use crate::support::server::Server;
use crate::support::{ask, on_server, runtime};

#[test]
fn check_of_a_server_without_persistence_warns() {
    on_server(async |server| {
        let store = server.store();
        assert_eq!(store.check().await, Ok(vec![Warning::NotPersistent]));
        let () = ask(server, &["CONFIG", "SET", "save", "3600 1"]);
        assert_eq!(store.check().await, Ok(Vec::new()));
        let () = ask(server, &["CONFIG", "SET", "save", ""]);
        let () = ask(server, &["CONFIG", "SET", "appendonly", "yes"]);
        assert_eq!(store.check().await, Ok(Vec::new()));
    });
}

#[test]
fn check_of_replicated_servers_warns() {
    let (primary, replica) = (
        Server::with(&["--repl-diskless-sync-delay", "0"]),
        Server::start(),
    );
    runtime().block_on(async {
        let port = primary.port().to_string();
        let () = ask(&replica, &["REPLICAOF", "127.0.0.1", &port]);
        let store = primary.store();
        until(async || store.check().await.unwrap().contains(&Warning::Replicated)).await;
        let store = replica.store();
        let warnings = store.check().await.unwrap();
        assert_eq!(warnings, [Warning::NotPersistent, Warning::Replica]);
    });
}

#[test]
fn check_without_rights_warns() {
    let server = Server::with(&["--maxmemory", "100mb", "--maxmemory-policy", "volatile-ttl"]);
    runtime().block_on(async {
        let limited = |name: &str| {
            let address = format!("redis://{name}:secret@127.0.0.1:{}/", server.port());
            Store::new(&address).unwrap().deadline(PATIENT)
        };
        for (name, forbidden) in [("half", "-config"), ("none", "-info")] {
            let user = [
                "ACL", "SETUSER", name, "on", ">secret", "~*", "+@all", "-config",
            ];
            let () = ask(&server, &user);
            let () = ask(&server, &["ACL", "SETUSER", name, forbidden, "-ping"]);
        }
        // What is said without it counts.
        let warnings = limited("half").check().await.unwrap();
        assert_eq!(warnings, [Warning::Eviction, Warning::Hidden]);
        let warnings = limited("none").check().await.unwrap();
        assert_eq!(warnings, [Warning::Hidden]);
        let stranger = limited("stranger").check().await;
        assert_eq!(stranger, Err(StoreError::Forbidden));
    });
}

#[cfg(feature = "cluster")]
#[test]
fn check_of_a_cluster_asks_every_node() {
    let cluster = crate::support::cluster::Cluster::start();
    runtime().block_on(async {
        let store = cluster.store().deadline(PATIENT);
        assert_eq!(store.check().await, Ok(vec![Warning::NotPersistent]));
        let node = &cluster.nodes[1];
        let () = ask(node, &["CONFIG", "SET", "maxmemory-policy", "allkeys-lfu"]);
        let () = ask(node, &["CONFIG", "SET", "maxmemory", "100mb"]);
        let warnings = store.check().await.unwrap();
        assert_eq!(warnings, [Warning::Eviction, Warning::NotPersistent]);
    });
}
