//! A script on a real server, with a clock that is a key that the test sets.

use std::sync::MutexGuard;

use redis::Connection;

use crate::support::server::shared_connection;

/// The kind of script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Debt,
    Window,
    Log,
}

/// The reply of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) done: u64,
    pub(crate) wait: u64,
    pub(crate) free: u64,
    pub(crate) reset: u64,
    pub(crate) ticket: [u64; 2],
}

/// The decision about a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) wait: u64,
    /// `None` if it would be due too late.
    pub(crate) ticket: Option<[u64; 2]>,
}

/// The arguments of a script about a limit.
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
    /// The rule that keeps a debt, in steps.
    steps: String,
    /// The rule that keeps a debt, without the head.
    whole: String,
    callers: String,
    /// Several limits, with and without the head.
    several: [String; 2],
    now: u64,
}

/// What stands in front of each script: the clock of the test decides, and the server expires no key by its own clock.
const CLOCK_OF_TEST: &str = include_str!("../../src/memory/clock.lua");
const CLOCK: &str = include_str!("../../src/lua/clock.lua");
const HEAD: &str = include_str!("../../src/lua/head.lua");
const FUNCTIONS: &str = include_str!("../../src/lua/debt_functions.lua");
const PRELUDE: &str = concat!(
    include_str!("../../src/lua/prelude.lua"),
    include_str!("../../src/lua/limits.lua")
);
const DEBT: &str = include_str!("../../src/lua/debt.lua");
const STEPS: &str = include_str!("../../src/lua/steps.lua");
const TURNS: &str = include_str!("../../src/lua/turns.lua");
const WINDOW: &str = include_str!("../../src/lua/window.lua");
const LOG: &str = include_str!("../../src/lua/log.lua");
const ONE: &str = include_str!("../../src/lua/one.lua");
const CALLERS: &str = include_str!("../../src/lua/callers.lua");
const SEVERAL_HEAD: &str = include_str!("../../src/lua/several_head.lua");
const SEVERAL: &str = include_str!("../../src/lua/several.lua");

/// The texts that others include.
const INCLUDED: [(&str, &str); 3] = [
    (
        "-- include read_debt.lua",
        include_str!("../../src/lua/read_debt.lua"),
    ),
    (
        "-- include even_debt.lua",
        include_str!("../../src/lua/even_debt.lua"),
    ),
    (
        "-- include write_debt.lua",
        include_str!("../../src/lua/write_debt.lua"),
    ),
];

/// Returns the script of these files.
fn text(files: &[&str]) -> String {
    let included = INCLUDED.iter();
    included.fold(files.join("\n"), |text, (line, of)| text.replace(line, of))
}

/// Returns the script of these files, with the clock of the test.
fn changed(files: &[&str]) -> String {
    CLOCK_OF_TEST.to_owned() + &text(files)
}

/// Returns the files of the script of several limits, with this head.
fn files_of_several(head: &'static str) -> [&'static str; 14] {
    [
        CLOCK,
        FUNCTIONS,
        head,
        PRELUDE,
        "local rules = {} do",
        DEBT,
        "rules.debt = open",
        STEPS,
        "rules.steps = open end do",
        WINDOW,
        "rules.window = open end do",
        LOG,
        "rules.log = open end",
        SEVERAL,
    ]
}

/// Returns the script of several limits.
pub(crate) fn several() -> String {
    text(&files_of_several(SEVERAL_HEAD))
}

/// Returns the full reply of a script that has charged all of `done` calls, derived from the value that it wrote.
fn from_written(told: Told, done: usize, written: &str) -> Vec<i64> {
    let numbers = written.strip_prefix("d:").unwrap().split(':');
    let numbers: Vec<u64> = numbers.map(|number| number.parse().unwrap()).collect();
    let [now, owed, unit, position, made, _, ..] = numbers[..] else {
        panic!("{written}");
    };
    assert_eq!(unit, told.period);
    let free = (told.burst * unit).saturating_sub(owed) / unit;
    let reset = owed.div_ceil(told.count);
    [done as u64, now, 0, free, reset, position, made]
        .map(|it| it as i64)
        .to_vec()
}

impl Engine {
    pub(crate) fn new(now: u64) -> Self {
        let mut connection = shared_connection();
        let _: () = redis::cmd("FLUSHALL").query(&mut *connection).unwrap();
        let mut this = Self {
            connection,
            text: [
                changed(&[CLOCK, HEAD, FUNCTIONS, PRELUDE, DEBT, TURNS, ONE]),
                changed(&[CLOCK, PRELUDE, WINDOW, ONE]),
                changed(&[CLOCK, PRELUDE, LOG, ONE]),
            ],
            steps: changed(&[CLOCK, FUNCTIONS, PRELUDE, DEBT, STEPS, ONE]),
            whole: changed(&[CLOCK, FUNCTIONS, PRELUDE, DEBT, TURNS, ONE]),
            callers: changed(&[CLOCK, FUNCTIONS, PRELUDE, DEBT, CALLERS]),
            several: [SEVERAL_HEAD, ""].map(|head| changed(&files_of_several(head))),
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
        let is_stepped = told.step && told.kind == Kind::Debt;
        let text = if is_stepped {
            &self.steps
        } else {
            &self.text[told.kind as usize]
        };
        self.run(&text.clone(), "k", told, what, arguments)
    }

    /// Calls for turns of these costs, each with the time within which it is due, for a process that holds `held` turns and
    /// may hold `room` units more. Returns the number of processes that hold turns, and each decision.
    pub(crate) fn turns(
        &mut self,
        told: Told,
        process: [u64; 3],
        asks: &[[u64; 2]],
    ) -> (u64, Vec<Turn>) {
        let text = self.text[told.kind as usize].clone();
        self.turns_of(&text, "k", told, process, asks)
    }

    /// Does the same by the whole rule, with another key.
    pub(crate) fn turns_whole(
        &mut self,
        told: Told,
        process: [u64; 3],
        asks: &[[u64; 2]],
    ) -> (u64, Vec<Turn>) {
        let text = self.whole.clone();
        self.turns_of(&text, "whole", told, process, asks)
    }

    fn turns_of(
        &mut self,
        text: &str,
        key: &str,
        told: Told,
        process: [u64; 3],
        asks: &[[u64; 2]],
    ) -> (u64, Vec<Turn>) {
        let asks = asks.iter().flat_map(|[n, within]| [*n, *within, 1]);
        let mut arguments: Vec<u64> = process.into_iter().chain(asks).collect();
        // The last number of repetitions may be missing, for 1.
        arguments.pop();
        let numbers = self.numbers(text, key, told, "turns", &arguments);
        let (turns, []) = numbers[8..].as_chunks() else {
            panic!("{numbers:?}");
        };
        assert_eq!(turns.len() as i64, numbers[0]);
        let turns = turns.iter().map(|&[wait, position]| Turn {
            wait: wait as u64,
            ticket: (position >= 0).then_some([position as u64, numbers[6] as u64]),
        });
        (numbers[7] as u64, turns.collect())
    }

    /// Takes these numbers of several limits, each under a key of its own. Returns the replies of the script, and of the
    /// script without the head, which has other keys.
    pub(crate) fn take_several(&mut self, takes: &[(Told, u64)]) -> [Vec<i64>; 2] {
        let mut replies = [Vec::new(), Vec::new()];
        for (index, name) in ["k", "whole"].into_iter().enumerate() {
            let mut call = redis::cmd("EVAL");
            call.arg(&self.several[index]).arg(takes.len());
            for place in 0..takes.len() {
                call.arg(format!("{name} {place}"));
            }
            call.arg("take");
            for (told, n) in takes {
                call.arg(if told.step { "steps" } else { "debt" }).arg(&[
                    told.count,
                    told.period,
                    told.burst,
                    *n,
                ]);
            }
            replies[index] = call.query(&mut *self.connection).unwrap();
        }
        replies
    }

    /// Calls the whole rule that keeps a debt, with another key.
    pub(crate) fn call_whole(&mut self, told: Told, what: &str, arguments: &[u64]) -> Answer {
        let text = self.whole.clone();
        self.run(&text, "whole", told, what, arguments)
    }

    /// Charges the same number to callers of a detector, of which one has the key of the limit. Returns the time until that one
    /// is within its burst again.
    pub(crate) fn charge_caller(&mut self, told: Told, n: u64) -> u64 {
        let waits: Vec<u64> = redis::cmd("EVAL")
            .arg(&self.callers)
            .arg(&[3])
            .arg(&["other", "k", "third"])
            .arg(&[told.count, told.period, told.burst, n, n, n])
            .query(&mut *self.connection)
            .unwrap();
        let [_, wait, _] = waits[..] else {
            panic!("{waits:?}");
        };
        wait
    }

    fn run(&mut self, text: &str, key: &str, told: Told, what: &str, arguments: &[u64]) -> Answer {
        let numbers = self.numbers(text, key, told, what, arguments);
        let numbers: Vec<u64> = numbers.iter().map(|it| (*it).try_into().unwrap()).collect();
        let [done, _, wait, free, reset, position, made] = numbers[..] else {
            panic!("{numbers:?}");
        };
        Answer {
            done,
            wait,
            free,
            reset,
            ticket: [position, made],
        }
    }

    fn numbers(
        &mut self,
        text: &str,
        key: &str,
        told: Told,
        what: &str,
        arguments: &[u64],
    ) -> Vec<i64> {
        // Combines equal costs into pairs of a cost and a number; the last ones may be missing, for 1.
        let (asked, runs) = (arguments.len(), arguments.chunk_by(|one, next| one == next));
        let mut arguments: Vec<u64> = match what {
            "take" => runs.flat_map(|run| [run[0], run.len() as u64]).collect(),
            _ => arguments.to_vec(),
        };
        arguments.pop_if(|last| what == "take" && *last == 1);
        arguments.pop_if(|last| what == "take" && asked == 1 && *last == 1);
        let has_turns = told.kind == Kind::Debt && !told.step;
        let turns = &format!("{key} turns");
        let keys = match what {
            "turns" | "reserve" | "give" if has_turns => &[key, turns][..],
            _ => &[key],
        };
        let answer: redis::Value = redis::cmd("EVAL")
            .arg(text)
            .arg(keys.len())
            .arg(keys)
            .arg(what)
            .arg(told.count)
            .arg(told.period)
            .arg(told.burst)
            .arg(arguments)
            .query(&mut *self.connection)
            .unwrap();
        let numbers: Vec<i64> = match &answer {
            redis::Value::BulkString(written) => {
                from_written(told, asked, std::str::from_utf8(written).unwrap())
            }
            answer => redis::from_redis_value_ref(answer).unwrap(),
        };
        assert_eq!(numbers[1], self.now as i64);
        numbers
    }

    /// Deletes the key of the limit.
    pub(crate) fn delete(&mut self) {
        let () = redis::cmd("DEL")
            .arg("k")
            .query(&mut *self.connection)
            .unwrap();
    }

    /// Returns how often the server ran a command during a call.
    pub(crate) fn runs_of(&mut self, command: &str, call: impl FnOnce(&mut Self)) -> u64 {
        let reset = redis::cmd("CONFIG").arg("RESETSTAT").to_owned();
        let () = reset.query(&mut *self.connection).unwrap();
        call(self);
        let stats: String = redis::cmd("INFO")
            .arg("commandstats")
            .query(&mut *self.connection)
            .unwrap();
        let prefix = format!("cmdstat_{command}:calls=");
        let calls = stats.lines().find_map(|line| line.strip_prefix(&prefix));
        calls.map_or(0, |it| it.split(',').next().unwrap().parse().unwrap())
    }

    /// Returns the microsecond in which a key ends.
    fn end_of(&mut self, key: &str) -> u64 {
        let mut get = redis::cmd("GET");
        get.arg(format!("end of {key}"));
        get.query(&mut *self.connection).unwrap()
    }

    /// Returns the milliseconds for which the key is kept; `None` if there is no key.
    pub(crate) fn time_to_live(&mut self) -> Option<u64> {
        let exists: bool = redis::cmd("EXISTS")
            .arg("k")
            .query(&mut *self.connection)
            .unwrap();
        exists.then(|| (self.end_of("k") - self.now) / 1000)
    }

    /// Returns the microseconds in which the key of the limit and the list of its turns end.
    pub(crate) fn ends(&mut self) -> [u64; 2] {
        ["k", "k turns"].map(|key| self.end_of(key))
    }
}
