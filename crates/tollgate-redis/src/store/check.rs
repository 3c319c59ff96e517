//! [`Store::check`]: whether a server is set up so that limits on it hold what they say.

use std::collections::HashMap;

use redis::{Cmd, Value, cmd};

use super::Store;
use super::call::{Call, Request};
use crate::error::StoreError;

/// Why limits on a store may admit more than they say, or not decide.
///
/// None of these keeps a limit from working, but for [`Replica`](Self::Replica).
/// [`Store::check`] says which there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Warning {
    /// The server throws keys away when its memory is full: it has a `maxmemory`, and a
    /// `maxmemory-policy` other than `noeviction`. What was charged to such a key is forgotten, and
    /// the next burst is admitted at once. The keys of limits all expire, so the policies that
    /// take only those take them first.
    Eviction,
    /// The server keeps nothing on a disk, neither snapshots nor a log. When it is restarted each
    /// limit begins anew, with a whole burst.
    NotPersistent,
    /// The server has replicas, which get what is charged a moment later. When one of them takes
    /// over, what it did not get yet is admitted once more.
    Replicated,
    /// The server is a replica itself, and takes no writes: limits cannot decide on it.
    Replica,
    /// The server does not say all of this to this client: its `INFO` or `CONFIG` is forbidden.
    Hidden,
}

impl Store {
    /// Whether the server, or any node of the cluster, is set up so that limits hold what they say.
    /// To be asked once, when a process starts, for its log. Makes three calls, each within the
    /// [deadline](Store::deadline); the warnings come sorted, each once.
    ///
    /// # Cancel safety
    ///
    /// It changes nothing on the server, and can be dropped.
    ///
    /// # Errors
    ///
    /// How the store failed. That the server does not tell is no error, but
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
    ///     eprintln!("the limits on this server: {warning:?}");
    /// }
    /// assert!(!store.check().await?.contains(&Warning::Eviction));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn check(&self) -> Result<Vec<Warning>, StoreError> {
        // A client that is not let in at all is no reason for a warning.
        self.command(cmd("PING")).await?;
        let mut warnings = Vec::new();
        let mut told = Vec::new();
        match self.told("INFO", &[]).await? {
            Some(value) => texts(&value, &mut told),
            None => warnings.push(Warning::Hidden),
        }
        let snapshots = match self.told("CONFIG", &["GET", "save"]).await? {
            Some(value) => {
                let mut words = Vec::new();
                texts(&value, &mut words);
                // Of each node the name of the setting, and what it is, if it is anything.
                Some(words.iter().any(|word| !word.is_empty() && word != "save"))
            }
            None => {
                warnings.push(Warning::Hidden);
                None
            }
        };
        for info in told.iter().filter(|info| info.contains("redis_version:")) {
            judge(&facts(info), snapshots, self.is_cluster(), &mut warnings);
        }
        warnings.sort_unstable();
        warnings.dedup();
        Ok(warnings)
    }

    /// Of no key.
    fn command(&self, command: Cmd) -> Call {
        self.request(Request::Command(command), self.shared.link.whole())
    }

    /// What the server says to a command, or none if it does not let this client ask.
    async fn told(&self, verb: &str, words: &[&str]) -> Result<Option<Value>, StoreError> {
        let mut command = cmd(verb);
        command.arg(words);
        match self.command(command).await {
            Ok(value) => Ok(Some(value)),
            // A command that is disabled has no name that the server knows.
            Err(StoreError::Forbidden | StoreError::Script) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn judge(
    facts: &HashMap<&str, &str>,
    snapshots: Option<bool>,
    is_cluster: bool,
    warnings: &mut Vec<Warning>,
) {
    let fact = |name| facts.get(name).copied();
    let is_limited = fact("maxmemory").is_some_and(|most| most != "0");
    if is_limited && fact("maxmemory_policy").is_some_and(|policy| policy != "noeviction") {
        warnings.push(Warning::Eviction);
    }
    let has_log = fact("aof_enabled").is_some_and(|enabled| enabled != "0");
    if !has_log && snapshots == Some(false) {
        warnings.push(Warning::NotPersistent);
    }
    if fact("connected_slaves").is_some_and(|replicas| replicas != "0") {
        warnings.push(Warning::Replicated);
    }
    // A cluster is asked as a whole, and nobody writes to its replicas.
    if !is_cluster && fact("role") == Some("slave") {
        warnings.push(Warning::Replica);
    }
}

/// The lines of `name:value` of an answer to `INFO`.
fn facts(info: &str) -> HashMap<&str, &str> {
    info.lines()
        .filter_map(|line| line.trim_end().split_once(':'))
        .collect()
}

/// All texts in an answer: of a cluster it is one for each node.
fn texts(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::BulkString(bytes) => into.push(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => into.push(text.clone()),
        Value::Array(values) | Value::Set(values) => {
            values.iter().for_each(|value| texts(value, into));
        }
        // The keys of a map are addresses, or names of settings.
        Value::Map(pairs) => pairs.iter().for_each(|(_, value)| texts(value, into)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(info: &str, snapshots: Option<bool>, is_cluster: bool) -> Vec<Warning> {
        let mut warnings = Vec::new();
        judge(&facts(info), snapshots, is_cluster, &mut warnings);
        warnings
    }

    #[test]
    fn only_a_server_that_may_throw_keys_away_is_warned_of() {
        let info = |most: u64, policy: &str| {
            format!("# Memory\r\nmaxmemory:{most}\r\nmaxmemory_policy:{policy}\r\n")
        };
        assert_eq!(judged(&info(0, "allkeys-lru"), None, false), []);
        assert_eq!(judged(&info(1, "noeviction"), None, false), []);
        for policy in ["allkeys-lru", "volatile-ttl"] {
            let warnings = judged(&info(1, policy), None, false);
            assert_eq!(warnings, [Warning::Eviction], "{policy}");
        }
    }

    #[test]
    fn what_a_restart_or_a_failover_loses_is_warned_of() {
        let unknown = judged("aof_enabled:0\r\n", None, false);
        assert_eq!(unknown, []);
        let without = judged("aof_enabled:0\r\n", Some(false), false);
        assert_eq!(without, [Warning::NotPersistent]);
        assert_eq!(judged("aof_enabled:1\r\n", Some(false), false), []);
        assert_eq!(judged("aof_enabled:0\r\n", Some(true), false), []);
        let replicated = judged("role:master\r\nconnected_slaves:2\r\n", None, false);
        assert_eq!(replicated, [Warning::Replicated]);
        let replica = "role:slave\r\nconnected_slaves:0\r\n";
        assert_eq!(judged(replica, None, false), [Warning::Replica]);
        assert_eq!(judged(replica, None, true), []);
    }
}
