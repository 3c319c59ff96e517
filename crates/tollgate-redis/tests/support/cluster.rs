//! A cluster of three nodes on loopback, without replicas at first.

use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};

use tollgate_redis::Store;

use super::ask;
use super::server::{Server, Setup};

pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Server>,
}

impl Cluster {
    pub(crate) fn start() -> Self {
        let nodes: Vec<_> = (0..3).map(|_| node()).collect();
        let addresses = nodes
            .iter()
            .map(|node| format!("127.0.0.1:{}", node.port()));
        let created = Command::new("redis-cli")
            .args(["--cluster", "create"])
            .args(addresses)
            .args(["--cluster-replicas", "0", "--cluster-yes"])
            .output()
            .unwrap();
        assert!(
            created.status.success(),
            "{}",
            String::from_utf8_lossy(&created.stdout)
        );
        let cluster = Self { nodes };
        cluster.settle();
        cluster
    }

    /// Waits until every node reports a healthy cluster of all nodes.
    fn settle(&self) {
        let known = format!("cluster_known_nodes:{}\r", self.nodes.len());
        wait(|| {
            self.nodes.iter().all(|node| {
                let info: String = ask(node, &["CLUSTER", "INFO"]);
                info.contains("cluster_state:ok") && info.contains(&known)
            })
        });
    }

    /// Adds a replica of a node, and waits until every node knows it. Returns its number.
    pub(crate) fn add_replica(&mut self, of: usize) -> usize {
        let replica = node();
        let port = self.nodes[of].port().to_string();
        let _: String = ask(&replica, &["CLUSTER", "MEET", "127.0.0.1", &port]);
        self.nodes.push(replica);
        self.settle();
        let number = self.nodes.len() - 1;
        let primary = self.name(of);
        let _: String = ask(&self.nodes[number], &["CLUSTER", "REPLICATE", &primary]);
        wait(|| {
            let nodes = self.nodes.iter();
            let lists =
                nodes.map(|node| ask::<Vec<String>>(node, &["CLUSTER", "REPLICAS", &primary]));
            lists.into_iter().all(|list| list.len() == 1)
        });
        number
    }

    /// Waits until a replica has everything that its primary has.
    pub(crate) fn replicate(&self, replica: usize, primary: usize) {
        let replication = |node: usize, field: &str| {
            let text: String = ask(&self.nodes[node], &["INFO", "replication"]);
            let mut lines = text.lines().filter_map(|line| line.split_once(':'));
            lines.find_map(|(name, value)| (name == field).then(|| value.to_owned()))
        };
        wait(|| replication(replica, "master_link_status").as_deref() == Some("up"));
        let sent = replication(primary, "master_repl_offset").unwrap();
        let sent: u64 = sent.parse().unwrap();
        wait(|| {
            let received = replication(replica, "slave_repl_offset");
            received.is_some_and(|it| it.parse().is_ok_and(|it: u64| it >= sent))
        });
    }

    /// Lets a replica take over the slots of its primary, without the vote of any other node.
    pub(crate) fn take_over(&self, replica: usize) {
        let _: String = ask(&self.nodes[replica], &["CLUSTER", "FAILOVER", "TAKEOVER"]);
    }

    /// Creates a store on the cluster. Call it inside a runtime.
    pub(crate) fn store(&self) -> Store {
        let addresses: Vec<_> = self.nodes.iter().map(Server::address).collect();
        Store::cluster(addresses.iter().map(String::as_str)).unwrap()
    }

    pub(crate) fn slot(&self, key: &str) -> u16 {
        ask(&self.nodes[0], &["CLUSTER", "KEYSLOT", key])
    }

    /// Returns the node that serves a key.
    pub(crate) fn owner(&self, key: &str) -> usize {
        let answers = |node: &Server| {
            let answer: redis::RedisResult<redis::Value> =
                redis::cmd("EXISTS").arg(key).query(&mut node.connection());
            answer.is_ok()
        };
        let owner = self.nodes.iter().position(answers);
        owner.unwrap_or_else(|| panic!("no node answers for {key}"))
    }

    /// Returns a key of a node.
    pub(crate) fn key_of(&self, node: usize) -> String {
        let mut keys = (0..).map(|number| format!("k{number}"));
        keys.find(|key| self.owner(key) == node)
            .expect("there are enough")
    }

    pub(crate) fn name(&self, node: usize) -> String {
        ask(&self.nodes[node], &["CLUSTER", "MYID"])
    }

    /// Begins to move a slot from one node to another: neither serves all of it meanwhile.
    pub(crate) fn begin(&self, slot: u16, from: usize, to: usize) {
        let slot = slot.to_string();
        let (source, target) = (self.name(from), self.name(to));
        let importing = ["CLUSTER", "SETSLOT", &slot, "IMPORTING", &source];
        let _: String = ask(&self.nodes[to], &importing);
        let migrating = ["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target];
        let _: String = ask(&self.nodes[from], &migrating);
    }

    /// Returns the keys of a node with this prefix.
    pub(crate) fn keys_like(&self, node: usize, start: &str) -> Vec<String> {
        ask(&self.nodes[node], &["KEYS", &format!("{start}*")])
    }

    pub(crate) fn migrate(&self, keys: &[String], from: usize, to: usize) {
        if keys.is_empty() {
            return;
        }
        let port = self.nodes[to].port().to_string();
        let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
        words.extend(keys.iter().map(String::as_str));
        let _: String = ask(&self.nodes[from], &words);
    }

    pub(crate) fn finish(&self, slot: u16, to: usize) {
        let (slot, target) = (slot.to_string(), self.name(to));
        let said = ["CLUSTER", "SETSLOT", &slot, "NODE", &target];
        let _: String = ask(&self.nodes[to], &said);
        for node in &self.nodes {
            let _: String = ask(node, &said);
        }
    }
}

/// Polls a condition until it is true; the test fails after half a minute.
fn wait(is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(30), "no cluster");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn node() -> Server {
    let arguments = [
        "--cluster-enabled",
        "yes",
        "--cluster-require-full-coverage",
        "no",
    ];
    let setup = Setup {
        arguments: arguments.iter().map(ToString::to_string).collect(),
        ..Setup::default()
    };
    for _ in 0..50 {
        if let Some(server) = Server::start_on(port(), setup.clone()) {
            return server;
        }
    }
    panic!("redis-server does not start as a node of a cluster");
}

/// Returns a free port. Nodes talk to each other on the port 10,000 above, so both have to be free.
/// They are below the ports that the system assigns.
fn port() -> u16 {
    loop {
        let port = fastrand::u16(11_000..22_000);
        let free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
        if free(port) && free(port + 10_000) {
            return port;
        }
    }
}
