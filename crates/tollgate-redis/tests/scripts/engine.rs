//! A script on a real server, whose time is a key that the test sets.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use redis::Connection;

use crate::support::server::Server;

/// Which script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Debt,
    Window,
    Log,
}

/// What a script answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) done: u64,
    pub(crate) wait: u64,
    pub(crate) free: u64,
    pub(crate) reset: u64,
    pub(crate) ticket: [u64; 2],
}

/// What it is told of a limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub(crate) kind: Kind,
    pub(crate) count: u64,
    /// In microseconds.
    pub(crate) period: u64,
    pub(crate) burst: u64,
    pub(crate) step: bool,
}

pub(crate) struct Engine {
    connection: MutexGuard<'static, Connection>,
    text: [String; 3],
    now: u64,
}

/// One server for all cases, which are run one after the other.
fn connection() -> MutexGuard<'static, Connection> {
    static CONNECTION: OnceLock<(Mutex<Connection>, Mutex<Server>)> = OnceLock::new();
    let (connection, _) = CONNECTION.get_or_init(|| {
        let server = Server::start();
        (Mutex::new(server.connection()), Mutex::new(server))
    });
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}

/// By the clock of the test, nor does the server drop a key by its own.
const CHANGES: [(&str, &str); 3] = [
    (
        "local time = redis.call('TIME')\nlocal now = time[1] * 1000000 + time[2]",
        "local now = tonumber(redis.call('GET', 'clock'))",
    ),
    (
        "redis.call('SET', key, value, 'PX', millis(micros))",
        "redis.call('SET', key, value) redis.call('SET', 'kept', millis(micros))",
    ),
    (
        "redis.call('PEXPIRE', key, millis(reset))",
        "redis.call('SET', 'kept', millis(reset))",
    ),
];

/// A script as it is, but for the changes.
fn text(rule: &str) -> String {
    let prelude = include_str!("../../src/lua/prelude.lua");
    let end = include_str!("../../src/lua/one.lua");
    let mut text = format!("{prelude}\n{rule}\n{end}");
    for (old, new) in CHANGES {
        let expected = usize::from(!old.contains("PEXPIRE") || rule.contains("PEXPIRE"));
        assert_eq!(text.matches(old).count(), expected, "{old}");
        text = text.replace(old, new);
    }
    text
}

impl Engine {
    pub(crate) fn new(now: u64) -> Self {
        let mut connection = connection();
        let _: () = redis::cmd("FLUSHALL").query(&mut *connection).unwrap();
        let text = [
            text(include_str!("../../src/lua/debt.lua")),
            text(include_str!("../../src/lua/window.lua")),
            text(include_str!("../../src/lua/log.lua")),
        ];
        let mut this = Self {
            connection,
            text,
            now,
        };
        this.set(now);
        this
    }

    pub(crate) fn set(&mut self, now: u64) {
        self.now = now;
        let _: () = redis::cmd("SET")
            .arg("clock")
            .arg(now)
            .query(&mut *self.connection)
            .unwrap();
    }

    pub(crate) fn call(&mut self, told: Told, what: &str, arguments: &[u64]) -> Answer {
        let [done, now, wait, free, reset, position, made]: [u64; 7] = redis::cmd("EVAL")
            .arg(&self.text[told.kind as usize])
            .arg(1)
            .arg("k")
            .arg(what)
            .arg(told.count)
            .arg(told.period)
            .arg(told.burst)
            .arg(u64::from(told.step))
            .arg(arguments)
            .query(&mut *self.connection)
            .unwrap();
        assert_eq!(now, self.now);
        Answer {
            done,
            wait,
            free,
            reset,
            ticket: [position, made],
        }
    }

    /// For how many milliseconds the key would be kept after the last write; none if it is not
    /// there.
    pub(crate) fn time_to_live(&mut self) -> Option<u64> {
        let exists: bool = redis::cmd("EXISTS")
            .arg("k")
            .query(&mut *self.connection)
            .unwrap();
        let kept: Option<u64> = redis::cmd("GET")
            .arg("kept")
            .query(&mut *self.connection)
            .unwrap();
        kept.filter(|_| exists)
    }
}
