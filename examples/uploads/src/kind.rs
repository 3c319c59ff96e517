//! The throttles to choose from: their names, and how many permits each can have.
//!
//! [`app::run`](crate::app::run) makes them. They have one trait in common and nothing else, so
//! which one it is makes no difference to the code that uploads.

use std::fmt;

use clap::ValueEnum;
use serde::Serialize;
use tollgate::Semaphore;

/// What decides when a request may go on. The comments on the variants are shown by `--help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum ThrottleKind {
    /// `tollgate::Semaphore`, strictly first-in first-out
    Semaphore,
    /// `tollgate::Pool`, a channel of idle slots; at most 65536
    Pool,
    /// `tollgate::ChannelSemaphore`, a channel of busy slots; at most 65536
    Channel,
    /// `tokio::sync::Semaphore`
    Tokio,
    /// `async_lock::Semaphore`
    AsyncLock,
    /// `tollgate::CondvarSemaphore`, in which threads wait for the requests; at most 1024
    Condvar,
    /// `tollgate_redis::Semaphore`, on the server that `--redis` says
    #[value(skip)]
    Redis,
}

impl ThrottleKind {
    /// The most permits that it can have here.
    pub fn max_permits(self) -> usize {
        match self {
            // The second has no limit of its own.
            ThrottleKind::Semaphore | ThrottleKind::AsyncLock => Semaphore::MAX_PERMITS,
            ThrottleKind::Tokio => tokio::sync::Semaphore::MAX_PERMITS,
            // They can have more, but allocate a place for each at the start.
            ThrottleKind::Pool | ThrottleKind::Channel => 65_536,
            // There is a thread for each.
            ThrottleKind::Condvar => 1_024,
            // Each is a line on the server.
            ThrottleKind::Redis => 65_536,
        }
    }
}

/// The name, as on the command line.
impl fmt::Display for ThrottleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_possible_value() {
            Some(value) => f.pad(value.get_name()),
            // It is chosen by an address.
            None => f.pad("redis"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_the_same_on_the_command_line_and_in_the_report() {
        let mut names = Vec::new();
        for kind in ThrottleKind::value_variants() {
            assert_eq!(serde_json::json!(kind), kind.to_string());
            names.push(kind.to_string());
        }
        let expected = [
            "semaphore",
            "pool",
            "channel",
            "tokio",
            "async-lock",
            "condvar",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn help_tells_the_bounds_that_are_not_out_of_reach() {
        for kind in ThrottleKind::value_variants() {
            let bound = kind.max_permits();
            let value = kind.to_possible_value().unwrap();
            let help = value.get_help().unwrap().to_string();
            let told = help.ends_with(&format!("at most {bound}"));
            assert_eq!(told, bound < usize::MAX >> 8, "{help}");
        }
    }
}
