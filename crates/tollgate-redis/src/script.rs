//! Scripts that the server runs, their arguments, and their replies.
//!
//! A script is called by its digest, with `EVALSHA`. A server that does not know the script gets the
//! text, with `EVAL`, on the same connection: that is one more trip, to the same node.

use std::fmt::{Display, Write};
use std::sync::LazyLock;

use redis::{Arg, Cmd, FromRedisValue, RedisError, ServerErrorKind, Value};

use crate::error::StoreError;

pub(crate) struct Script {
    text: String,
    digest: String,
}

macro_rules! script {
    ($($file:literal)+) => {
        LazyLock::new(|| Script::new(concat!($(include_str!($file), "\n"),+)))
    };
}

/// One limit that keeps a debt.
pub(crate) static DEBT: LazyLock<Script> =
    script!("lua/quick.lua" "lua/prelude.lua" "lua/debt.lua" "lua/one.lua");
/// One sliding window.
pub(crate) static WINDOW: LazyLock<Script> =
    script!("lua/prelude.lua" "lua/window.lua" "lua/one.lua");
/// One sliding log.
pub(crate) static LOG: LazyLock<Script> = script!("lua/prelude.lua" "lua/log.lua" "lua/one.lua");
/// One semaphore.
pub(crate) static LEASE: LazyLock<Script> = script!("lua/prelude.lua" "lua/lease.lua");

/// Several limits, by any rules.
pub(crate) static LIMIT_SET: LazyLock<Script> = LazyLock::new(|| {
    let rules = [
        ("debt", include_str!("lua/debt.lua")),
        ("window", include_str!("lua/window.lua")),
        ("log", include_str!("lua/log.lua")),
    ];
    let rules = rules.map(|(name, text)| format!("do\n{text}\nrules.{name} = open\nend\n"));
    let prelude = include_str!("lua/prelude.lua");
    let end = include_str!("lua/several.lua");
    Script::new(&format!(
        "{prelude}\nlocal rules = {{}}\n{}{end}",
        rules.concat()
    ))
});

impl Script {
    pub(crate) fn new(text: &str) -> Self {
        let digest = redis::Script::new(text).get_hash().to_owned();
        Self {
            text: text.to_owned(),
            digest,
        }
    }

    pub(crate) fn by_digest(&self, keys: &[&str], arguments: &Arguments) -> Cmd {
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.digest).arg(keys.len()).arg(keys);
        for argument in arguments.iter() {
            command.arg(argument);
        }
        command
    }

    /// The same call for a server that does not know the script.
    pub(crate) fn by_text(&self, by_digest: &Cmd) -> Cmd {
        let mut command = redis::cmd("EVAL");
        command.arg(&self.text);
        // After the verb and the digest.
        for argument in by_digest.args_iter().skip(2) {
            if let Arg::Simple(argument) = argument {
                command.arg(argument);
            }
        }
        command
    }

    pub(crate) fn is_unknown(error: &RedisError) -> bool {
        error.kind() == redis::ErrorKind::Server(ServerErrorKind::NoScript)
    }
}

/// What a script is called with, beside its keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arguments {
    /// All of them, one after the other.
    text: String,
    ends: Vec<usize>,
}

impl Arguments {
    pub(crate) fn new(what: &'static str) -> Self {
        Self::default().text(what)
    }

    pub(crate) fn text(mut self, text: impl Display) -> Self {
        // A string takes everything.
        let _ = write!(self.text, "{text}");
        self.ends.push(self.text.len());
        self
    }

    pub(crate) fn number(self, number: u64) -> Self {
        self.text(number)
    }

    pub(crate) fn numbers(self, numbers: impl IntoIterator<Item = u64>) -> Self {
        numbers.into_iter().fold(self, Self::number)
    }

    fn iter(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts
            .zip(&self.ends)
            .map(|(start, end)| &self.text[*start..*end])
    }
}

/// The whole numbers that a script replies.
pub(crate) fn numbers(value: &Value) -> Result<Vec<u64>, StoreError> {
    let numbers = Vec::<i64>::from_redis_value_ref(value).map_err(|_| StoreError::Script)?;
    let numbers = numbers.into_iter().map(|number| number.max(0) as u64);
    Ok(numbers.collect())
}

/// The reply about several limits.
pub(crate) struct EachReply {
    /// 1 if all could be charged.
    pub(crate) done: u64,
    /// Microseconds of the server's clock.
    pub(crate) now: u64,
    /// Of each limit: its wait, what is free, until when it is reset, and its ticket.
    pub(crate) each: Vec<[u64; 5]>,
}

impl EachReply {
    pub(crate) fn read(value: &Value) -> Result<Self, StoreError> {
        let numbers = numbers(value)?;
        let [done, now, each @ ..] = &numbers[..] else {
            return Err(StoreError::Script);
        };
        let (each, []) = each.as_chunks::<5>() else {
            return Err(StoreError::Script);
        };
        Ok(Self {
            done: *done,
            now: *now,
            each: each.to_vec(),
        })
    }
}
