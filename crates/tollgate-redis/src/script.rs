//! Scripts: what the server runs, by its digest, so that the text travels once.
//!
//! A script is called by `EVALSHA`. A server that does not know it is sent the text by `EVAL`, on
//! the same connection: one more trip, to the same node, and no other.

use std::sync::LazyLock;

use redis::{Arg, Cmd, FromRedisValue, RedisError, ServerErrorKind, Value};

/// A script that is made of parts.
pub(crate) struct Script {
    text: String,
    digest: String,
}

macro_rules! scripts {
    ($($(#[$doc:meta])* $name:ident = $($file:literal)+;)*) => {
        $(
            $(#[$doc])*
            pub(crate) static $name: LazyLock<Script> =
                LazyLock::new(|| Script::new(concat!($(include_str!($file), "\n"),+)));
        )*
    };
}

scripts! {
    /// One limit that keeps a debt.
    DEBT = "lua/quick.lua" "lua/prelude.lua" "lua/debt.lua" "lua/one.lua";
    /// One sliding window.
    WINDOW = "lua/prelude.lua" "lua/window.lua" "lua/one.lua";
    /// One sliding log.
    LOG = "lua/prelude.lua" "lua/log.lua" "lua/one.lua";
    /// One semaphore.
    LEASE = "lua/prelude.lua" "lua/lease.lua";
}

/// Several limits, of any rules.
pub(crate) static SEVERAL: LazyLock<Script> = LazyLock::new(|| {
    let rules = [
        ("debt", include_str!("lua/debt.lua")),
        ("window", include_str!("lua/window.lua")),
        ("log", include_str!("lua/log.lua")),
    ];
    let rules = rules.map(|(name, text)| format!("do\n{text}\nrules.{name} = open\nend\n"));
    let (prelude, end) = (
        include_str!("lua/prelude.lua"),
        include_str!("lua/several.lua"),
    );
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
        for argument in &arguments.0 {
            match argument {
                Argument::Word(word) => command.arg(word),
                Argument::Number(number) => command.arg(number),
                Argument::Text(text) => command.arg(text),
            };
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
pub(crate) struct Arguments(Vec<Argument>);

#[derive(Clone, Debug)]
enum Argument {
    Word(&'static str),
    Number(u64),
    Text(String),
}

impl Arguments {
    pub(crate) fn new(word: &'static str) -> Self {
        Self(vec![Argument::Word(word)])
    }

    pub(crate) fn number(mut self, number: u64) -> Self {
        self.0.push(Argument::Number(number));
        self
    }

    pub(crate) fn numbers(mut self, numbers: impl IntoIterator<Item = u64>) -> Self {
        self.0.extend(numbers.into_iter().map(Argument::Number));
        self
    }

    pub(crate) fn text(mut self, text: impl Into<String>) -> Self {
        self.0.push(Argument::Text(text.into()));
        self
    }

    pub(crate) fn word(mut self, word: &'static str) -> Self {
        self.0.push(Argument::Word(word));
        self
    }
}

/// What a script answers: whole numbers, and perhaps texts.
pub(crate) fn numbers(value: &Value) -> Option<Vec<u64>> {
    let numbers = Vec::<i64>::from_redis_value_ref(value).ok()?;
    Some(
        numbers
            .into_iter()
            .map(|number| number.max(0) as u64)
            .collect(),
    )
}
