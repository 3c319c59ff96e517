//! [`Store::check`]: checks that the configuration of a server keeps limits intact.

use std::collections::HashMap;
use std::fmt;

use redis::{Value, cmd};

use super::Store;
use crate::error::StoreError;

/// A reason why limits on a store may admit too many calls, or cannot decide.
///
/// Limits work in all of these cases, except for [`Replica`](Self::Replica). [`Store::check`]
/// returns them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Warning {
    /// The server evicts keys when its memory is full: it has a `maxmemory`, and a
    /// `maxmemory-policy` other than `noeviction`. The charges of an evicted key are forgotten, and
    /// the next burst is admitted at once. The keys of limits expire, so policies that evict only
    /// such keys evict them first.
    Eviction,
    /// The server stores nothing on a disk, neither snapshots nor a log. After a restart each limit
    /// has its whole burst.
    NotPersistent,
    /// The server has replicas, which receive charges with a delay. When a replica takes over,
    /// charges that it has not received yet are admitted once more.
    Replicated,
    /// The server is itself a replica, and accepts no writes, so limits on it cannot decide.
    Replica,
    /// The server hides its configuration from this client: `INFO` or `CONFIG` is forbidden.
    Hidden,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Eviction => "it evicts keys when its memory is full, so charges can be lost",
            Self::NotPersistent => "it does not persist its data, so each limit has its whole burst after a restart",
            Self::Replicated => "after a failover, calls are admitted again whose charges the replica has not received",
            Self::Replica => "it is a replica and accepts no writes",
            Self::Hidden => "it hides its configuration, so it cannot be checked",
        })
    }
}

impl Store {
    /// Checks whether the server, or every node of the cluster, is configured so that limits hold.
    /// Call it once when a process starts, and log the warnings. Makes three calls, each within the
    /// [deadline](Store::deadline). The warnings are sorted, without duplicates.
    ///
    /// # Cancel safety
    ///
    /// The call changes nothing on the server, so dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// The failure of the store. A server that does not permit the commands is not an error, but
    /// [`Hidden`](Warning::Hidden).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use tollgate_redis::{Store, Warning};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = Store::new("redis://127.0.0.1/")?;
    /// for warning in store.check().await? {
    ///     eprintln!("limits on this server: {warning}");
    /// }
    /// assert!(!store.check().await?.contains(&Warning::Eviction));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn check(&self) -> Result<Vec<Warning>, StoreError> {
        // A client that the server does not admit at all gets an error, not a warning. This is the
        // first command of every script, so a client without this right has no limits here.
        self.request(cmd("TIME"), None, None, true).await?;
        let query = self.query("INFO", &[]).await?;
        let saves = self.query("CONFIG", &["GET", "save"]).await?;
        let mut warnings = Vec::new();
        if query.is_none() || saves.is_none() {
            warnings.push(Warning::Hidden);
        }
        // The reply has, for each node, the name of the setting, and its value if it has one.
        let is_set = |word: &String| !word.is_empty() && word != "save";
        let snapshots = saves.map(|words| words.iter().any(is_set));
        let query = query.unwrap_or_default();
        for info in query.iter().filter(|info| info.contains("redis_version:")) {
            warnings.extend(judge(&facts(info), snapshots, self.is_cluster()));
        }
        warnings.sort_unstable();
        warnings.dedup();
        Ok(warnings)
    }

    /// Returns all texts of the server's answer to a command, or `None` if this client is not
    /// permitted to send it.
    async fn query(&self, verb: &str, words: &[&str]) -> Result<Option<Vec<String>>, StoreError> {
        let mut command = cmd(verb);
        command.arg(words);
        match self.request(command, None, None, true).await {
            Ok(value) => Ok(Some(texts(&value))),
            // A disabled command has no name that the server knows.
            Err(StoreError::Forbidden | StoreError::Unknown) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Returns the warnings about a node with these facts.
fn judge(
    facts: &HashMap<&str, &str>,
    snapshots: Option<bool>,
    is_cluster: bool,
) -> impl Iterator<Item = Warning> {
    let is = |name, value: &str| facts.get(name) == Some(&value);
    let is_not = |name, value: &str| facts.get(name).is_some_and(|it| *it != value);
    let evicts = is_not("maxmemory", "0") && is_not("maxmemory_policy", "noeviction");
    let has_log = is_not("aof_enabled", "0");
    // A cluster is checked as a whole, and limits never write to its replicas.
    let is_replica = !is_cluster && is("role", "slave");
    let warnings = [
        (evicts, Warning::Eviction),
        (!has_log && snapshots == Some(false), Warning::NotPersistent),
        (is_not("connected_slaves", "0"), Warning::Replicated),
        (is_replica, Warning::Replica),
    ];
    let warnings = warnings.into_iter().filter(|(is_given, _)| *is_given);
    warnings.map(|(_, warning)| warning)
}

/// Parses the lines of `name:value` of an answer to `INFO`.
fn facts(info: &str) -> HashMap<&str, &str> {
    info.lines()
        .filter_map(|line| line.trim_end().split_once(':'))
        .collect()
}

/// Collects all texts in an answer, which for a cluster has one part for each node.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::BulkString(bytes) => vec![String::from_utf8_lossy(bytes).into_owned()],
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => vec![text.clone()],
        Value::Array(values) | Value::Set(values) => values.iter().flat_map(texts).collect(),
        // The keys of a map are addresses, or names of settings.
        Value::Map(pairs) => pairs.iter().flat_map(|(_, value)| texts(value)).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judge_of_the_facts_of_a_node_returns_its_warnings() {
        use Warning::*;
        let memory = |most, policy| format!("maxmemory:{most}\r\nmaxmemory_policy:{policy}\r\n");
        let log = |enabled| format!("# Persistence\r\naof_enabled:{enabled}\r\n");
        let role = |role, replicas| format!("role:{role}\r\nconnected_slaves:{replicas}\r\n");
        let cases: [(String, Option<bool>, bool, &[Warning]); 11] = [
            (memory(0, "allkeys-lru"), None, false, &[]),
            (memory(1, "noeviction"), None, false, &[]),
            (memory(1, "allkeys-lru"), None, false, &[Eviction]),
            (memory(1, "volatile-ttl"), None, false, &[Eviction]),
            (log(0), None, false, &[]),
            (log(0), Some(false), false, &[NotPersistent]),
            (log(1), Some(false), false, &[]),
            (log(0), Some(true), false, &[]),
            (role("master", 2), None, false, &[Replicated]),
            (role("slave", 0), None, false, &[Replica]),
            (role("slave", 0), None, true, &[]),
        ];
        for (info, snapshots, is_cluster, warnings) in cases {
            let judged: Vec<_> = judge(&facts(&info), snapshots, is_cluster).collect();
            assert_eq!(judged, warnings, "{info}");
        }
    }
}
