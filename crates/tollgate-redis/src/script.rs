//! The scripts that the server runs, the calls of them, and the numbers in their replies.
//!
//! A script is called by its digest, with `EVALSHA`. If the server does not know the script, the
//! text is sent with `EVAL` on the same connection: that is one more round trip, to the same node.

use std::sync::LazyLock;
use std::time::Duration;

use redis::{Arg, Cmd, FromRedisValue, RedisResult, ServerErrorKind, Value};

use crate::error::StoreError;

/// The exclusive bound of debts and of all arguments of a script.
pub(crate) const MOST: u64 = 1 << 52;

/// Positions of debts wrap after this many tokens.
pub(crate) const POSITIONS: u64 = 1 << 46;

pub(crate) struct Script {
    text: String,
    digest: String,
}

macro_rules! script {
    ($($file:literal)+) => {
        LazyLock::new(|| Script::new(&with_included(concat!($(include_str!($file), "\n"),+))))
    };
}

/// One limit by GCRA.
pub(crate) static DEBT: LazyLock<Script> = script!(
    "lua/clock.lua" "lua/head.lua" "lua/debt_functions.lua"
    "lua/prelude.lua" "lua/limits.lua" "lua/debt.lua" "lua/turns.lua" "lua/one.lua"
);
/// One limit whose debt is paid off in steps.
pub(crate) static STEPS: LazyLock<Script> = script!(
    "lua/clock.lua" "lua/debt_functions.lua"
    "lua/prelude.lua" "lua/limits.lua" "lua/debt.lua" "lua/steps.lua" "lua/one.lua"
);
/// One sliding window.
pub(crate) static WINDOW: LazyLock<Script> =
    script!("lua/clock.lua" "lua/prelude.lua" "lua/limits.lua" "lua/window.lua" "lua/one.lua");
/// One sliding log.
pub(crate) static LOG: LazyLock<Script> =
    script!("lua/clock.lua" "lua/prelude.lua" "lua/limits.lua" "lua/log.lua" "lua/one.lua");
/// The callers of a detector.
pub(crate) static CALLERS: LazyLock<Script> = script!(
    "lua/clock.lua" "lua/debt_functions.lua" "lua/prelude.lua" "lua/limits.lua" "lua/debt.lua"
    "lua/callers.lua"
);
/// One semaphore.
pub(crate) static LEASE: LazyLock<Script> =
    script!("lua/clock.lua" "lua/prelude.lua" "lua/line.lua" "lua/lease.lua");

/// Several semaphores.
pub(crate) static LEASES: LazyLock<Script> = LazyLock::new(|| {
    Script::new(&with_included(
        &[
            include_str!("lua/clock.lua"),
            include_str!("lua/prelude.lua"),
            "local function semaphore(KEYS, ARGV)\n",
            include_str!("lua/line.lua"),
            include_str!("lua/lease.lua"),
            "end\n",
            include_str!("lua/several_leases.lua"),
        ]
        .concat(),
    ))
});

/// Several limits, with any rules.
pub(crate) static LIMIT_SET: LazyLock<Script> = LazyLock::new(|| {
    let rule = |name, text| format!("{text}\nrules.{name} = open\n");
    let parts = [
        include_str!("lua/clock.lua"),
        include_str!("lua/debt_functions.lua"),
        include_str!("lua/several_head.lua"),
        include_str!("lua/prelude.lua"),
        include_str!("lua/limits.lua"),
        "local rules = {}\ndo\n",
        &rule("debt", include_str!("lua/debt.lua")),
        &rule("steps", include_str!("lua/steps.lua")),
        "end do\n",
        &rule("window", include_str!("lua/window.lua")),
        "end do\n",
        &rule("log", include_str!("lua/log.lua")),
        "end\n",
        include_str!("lua/several.lua"),
    ];
    Script::new(&with_included(&parts.concat()))
});

/// The texts that others include: statements, where a function would take the server as long as they do.
const INCLUDED: [(&str, &str); 3] = [
    (
        "-- include read_debt.lua",
        include_str!("lua/read_debt.lua"),
    ),
    (
        "-- include even_debt.lua",
        include_str!("lua/even_debt.lua"),
    ),
    (
        "-- include write_debt.lua",
        include_str!("lua/write_debt.lua"),
    ),
];

fn with_included(text: &str) -> String {
    let included = INCLUDED.iter();
    included.fold(text.to_owned(), |text, (line, of)| text.replace(line, of))
}

impl Script {
    pub(crate) fn new(text: &str) -> Self {
        let digest = redis::Script::new(text).get_hash().to_owned();
        Self {
            text: text.to_owned(),
            digest,
        }
    }

    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns a call with these keys. The arguments come after them.
    pub(crate) fn by_digest(&self, keys: &[&str]) -> Cmd {
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.digest).arg(keys.len()).arg(keys);
        command
    }

    /// Returns the same call with the text, for a server that does not know the script.
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

    /// Returns whether the server does not know the script that was called by its digest.
    pub(crate) fn is_unknown(answer: &RedisResult<Value>) -> bool {
        let unknown = redis::ErrorKind::Server(ServerErrorKind::NoScript);
        answer.as_ref().is_err_and(|error| error.kind() == unknown)
    }
}

/// Reads the whole numbers that a script replies.
pub(crate) fn numbers(value: &Value) -> Result<Vec<u64>, StoreError> {
    let numbers = Vec::<i64>::from_redis_value_ref(value).map_err(|_| StoreError::Unknown)?;
    Ok(whole(&numbers))
}

/// Returns the numbers, and 0 for negative ones.
pub(crate) fn whole(numbers: &[i64]) -> Vec<u64> {
    let numbers = numbers.iter().map(|number| (*number).max(0) as u64);
    numbers.collect()
}

/// Returns a time as an argument of a script, in whole microseconds.
pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(MOST).min(MOST)
}

// The slot of a key in a cluster, by the specification of Redis clusters.

/// The number of slots of a cluster.
pub(crate) const SLOTS: u16 = 16_384;

/// Returns the part of a key in braces, which decides its slot if there is one.
pub(crate) fn tag(key: &str) -> Option<&str> {
    let (_, rest) = key.split_once('{')?;
    let (tag, _) = rest.split_once('}')?;
    (!tag.is_empty()).then_some(tag)
}

pub(crate) fn slot(key: &str) -> u16 {
    checksum(tag(key).unwrap_or(key).as_bytes()) % SLOTS
}

/// Computes CRC-16/XMODEM.
fn checksum(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum, byte| {
        (0..8).fold(sum ^ (u16::from(*byte) << 8), |sum, _| {
            if sum & 0x8000 == 0 {
                sum << 1
            } else {
                (sum << 1) ^ 0x1021
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_of_each_key_is_that_of_the_specification() {
        assert_eq!(checksum(b"123456789"), 0x31c3);
        for key in ["foo", "{foo}:bar", "x{foo}{bar}"] {
            assert_eq!(slot(key), 12_182, "{key}");
        }
        for key in ["{}foo", "foo{", "{foo"] {
            assert_ne!(slot(key), 12_182, "{key}");
        }
        assert_eq!(tag("foo{{bar}}zap"), Some("{bar"));
        assert_eq!(tag("foo{}{bar}"), None);
    }
}
