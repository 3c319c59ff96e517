//! Compares the script of leases, and that of the first version, with the [model](super::model), on random steps, with a
//! clock that the test sets.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::model::{
    COSTS, CURRENT, DAY, KEYS, LIFE, MINUTE, Model, OLD, PROCESSES, START, TTL, process, script,
};
use crate::support::cases;
use crate::support::server::Server;

/// The first version of the script: a request sends no number that it has seen, its tickets expire, nobody is
/// told, and a renewal is of one lease. Both versions run in one fleet while it is updated.
const FIRST: &str = include_str!("version_1.lua");

#[derive(Clone, Debug)]
enum Step {
    Pass(i64),
    SetClockBack(i64),
    SetPermits(i64),
    /// The callers, and whether each waits.
    Acquire(Vec<(usize, bool)>),
    /// Renews, and changes nothing else.
    Renew(Vec<usize>),
    Assert(Vec<usize>),
    Release(Vec<usize>),
    Look,
    /// Whether messages to a process arrive.
    SetDeaf(usize, bool),
    /// The caller that acquires and renews, and the time by which it is too late.
    Late(usize, i64),
    LoseAll,
    /// Loses all data except the sentinel.
    LoseState,
}

fn step() -> impl Strategy<Value = Step> {
    let one = 0..COSTS.len();
    let time = prop_oneof![6 => 0..300_000_i64, 4 => 0..TTL / 50, 2 => 0..LIFE * 3 / 2, 1 => 0..TTL * 3 / 2];
    let callers = proptest::collection::btree_set(one.clone(), 1..4);
    let asked = proptest::collection::btree_map(one.clone(), prop::bool::weighted(0.7), 1..4);
    prop_oneof![
        6 => time.clone().prop_map(Step::Pass),
        1 => time.prop_map(Step::SetClockBack),
        1 => (0..5_i64).prop_map(Step::SetPermits),
        9 => asked.prop_map(|asked| Step::Acquire(asked.into_iter().collect())),
        4 => callers.clone().prop_map(|all| Step::Renew(all.into_iter().collect())),
        4 => callers.prop_map(|all| Step::Assert(all.into_iter().collect())),
        4 => proptest::collection::vec(one.clone(), 1..3).prop_map(Step::Release),
        1 => Just(Step::Look),
        2 => (0..PROCESSES.len(), prop::bool::ANY).prop_map(|(who, deaf)| Step::SetDeaf(who, deaf)),
        2 => (one.clone(), 1..TTL).prop_map(|(who, by)| Step::Late(who, by)),
        1 => Just(Step::LoseAll),
        1 => Just(Step::LoseState),
    ]
}

/// The server, as the client of a test sees it.
struct Real {
    connection: redis::Connection,
    current: String,
    first: String,
    /// The next calls are those of the first version.
    is_first: bool,
    /// The time in which the process of the next call claims.
    patience: i64,
}

impl Real {
    fn run(&mut self, command: &str, arguments: &[&str]) {
        let mut command = redis::cmd(command);
        let () = command.arg(arguments).query(&mut self.connection).unwrap();
    }

    fn set_clock(&mut self, now: i64) {
        self.run("SET", &["clock", &now.to_string()]);
    }

    fn call(&mut self, model: &Model, what: &str, rest: &[String]) -> Vec<i64> {
        self.call_by(model, model.now, what, rest)
    }

    /// Makes a call that must be executed by `last`.
    fn call_by(&mut self, model: &Model, last: i64, what: &str, rest: &[String]) -> Vec<i64> {
        let mut command = redis::cmd("EVAL");
        // The life of a ticket in the first version, and the time to claim one.
        let (script, keys, time) = if self.is_first {
            (&self.first, &KEYS[..6], LIFE)
        } else {
            (&self.current, &KEYS[..], self.patience)
        };
        command.arg(script).arg(keys.len()).arg(keys);
        command.arg(what).arg(model.permits).arg(TTL);
        command.arg(model.grace).arg(time).arg(last);
        if !self.is_first {
            command.arg(DAY);
        }
        command.arg(rest);
        command.query(&mut self.connection).unwrap()
    }

    /// Returns the messages since the last time.
    fn told(&mut self) -> Vec<String> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("LRANGE").arg(&["told", "0", "-1"]);
        pipeline.cmd("DEL").arg("told").ignore();
        let (told,) = pipeline.query(&mut self.connection).unwrap();
        told
    }
}

/// Runs one case. Each caller knows its ticket and its last fencing number. The callers are one process, which
/// sends the highest number that it has seen, or processes that have seen none; the first `old` are of the first
/// version.
struct Case<'a> {
    real: &'a mut Real,
    model: Model,
    is_one: bool,
    tickets: [i64; COSTS.len()],
    fencing: [i64; COSTS.len()],
    went_back: bool,
    greatest: i64,
    seen: i64,
}

impl Case<'_> {
    fn step(&mut self, step: &Step) {
        self.real.is_first = false;
        self.model.seen = self.seen;
        match step {
            Step::Pass(time) => self.model.now += time,
            Step::SetClockBack(time) => {
                self.model.now -= time;
                self.went_back = true;
            }
            Step::SetPermits(permits) => self.model.permits = *permits,
            Step::SetDeaf(process, is_deaf) => {
                let (channel, _) = PROCESSES[*process];
                self.model.deaf[*process] = *is_deaf;
                self.real
                    .run(if *is_deaf { "SADD" } else { "SREM" }, &["deaf", channel]);
            }
            Step::LoseAll => {
                let keys = KEYS;
                self.real.run("DEL", &keys);
                self.model.lose();
                self.model.born = None;
            }
            Step::LoseState => {
                let keys = ["k", "f", "q", "e", "s", "w"];
                self.real.run("DEL", &keys);
                self.model.lose();
            }
            Step::Look => {
                assert_eq!(self.real.call(&self.model, "look", &[]), self.model.look());
            }
            Step::Late(who, by) => self.late(*who, *by),
            Step::Renew(all) | Step::Assert(all) if all[0] < self.model.old => {
                self.real.is_first = true;
                let who = all[0];
                let numbers = [COSTS[who], self.fencing[who]].map(|number| number.to_string());
                let rest: Vec<_> = [self.model.name(who)].into_iter().chain(numbers).collect();
                let reply = self.real.call(&self.model, "renew", &rest);
                assert_eq!(reply, self.model.assert(&[who], &self.fencing));
            }
            Step::Renew(all) => {
                let highest = all.iter().map(|who| self.fencing[*who]).max().unwrap_or(0);
                let mut rest = vec![highest.to_string()];
                for who in all {
                    let name = self.model.name(*who);
                    rest.push(name.clone());
                    rest.extend((1..COSTS[*who]).map(|index| format!("{name}:{index}")));
                }
                let reply = self.real.call(&self.model, "renew", &rest);
                assert_eq!(reply, self.model.renew(all, &self.fencing));
            }
            Step::Assert(all) => {
                let mut rest = Vec::new();
                for who in all {
                    rest.push(self.model.name(*who));
                    let numbers = [COSTS[*who], self.fencing[*who]];
                    rest.extend(numbers.map(|number| number.to_string()));
                }
                let reply = self.real.call(&self.model, "assert", &rest);
                assert_eq!(reply, self.model.assert(all, &self.fencing));
            }
            Step::Release(all) => {
                let old = self.model.old;
                for is_first in [true, false] {
                    let all = all.iter().copied().filter(|who| (*who < old) == is_first);
                    let all: Vec<_> = all.collect();
                    if !all.is_empty() {
                        self.release(&all, is_first);
                    }
                }
            }
            Step::Acquire(asked) => {
                let groups = [None, Some(0), Some(1), Some(2)];
                for group in groups {
                    let is_in = |who: usize| match group {
                        None => who < self.model.old,
                        Some(own) => who >= self.model.old && process(who) == own,
                    };
                    let asked = asked.iter().filter(|(who, _)| is_in(*who));
                    let asked: Vec<_> = asked
                        .map(|(who, stays)| (*who, self.tickets[*who], *stays))
                        .collect();
                    if !asked.is_empty() {
                        self.acquire(&asked, group);
                    }
                }
            }
        }
        self.real.set_clock(self.model.now);
        let members: i64 = redis::cmd("ZCARD")
            .arg(KEYS[0])
            .query(&mut self.real.connection)
            .unwrap();
        assert_eq!(members, self.model.held());
        assert_eq!(self.real.told(), std::mem::take(&mut self.model.messages));
    }

    /// The call has no effect, as later steps check.
    fn late(&mut self, who: usize, by: i64) {
        let [id, n] = [self.model.name(who), COSTS[who].to_string()];
        let fencing = self.fencing[who].to_string();
        for what in ["acquire", "renew", "assert"] {
            let [zero, one] = ["0", "1"].map(str::to_owned);
            let rest = match what {
                "acquire" => {
                    let channel = PROCESSES[process(who)].0.to_owned();
                    vec![zero.clone(), channel, id.clone(), n.clone(), zero, one]
                }
                "renew" => vec![fencing.clone(), id.clone()],
                _ => vec![id.clone(), n.clone(), fencing.clone()],
            };
            let last = self.model.now - by;
            let reply = self.real.call_by(&self.model, last, what, &rest);
            assert_eq!(reply, [self.model.now]);
        }
    }

    fn release(&mut self, all: &[usize], is_first: bool) {
        self.real.is_first = is_first;
        let each = |who: &usize| [self.model.name(*who), COSTS[*who].to_string()];
        let rest: Vec<_> = all.iter().flat_map(each).collect();
        let reply = self.real.call(&self.model, "release", &rest);
        assert_eq!(reply, self.model.release(all));
        all.iter().for_each(|who| self.tickets[*who] = 0);
    }

    /// Acquires for callers of one process, or of the first version.
    fn acquire(&mut self, asked: &[(usize, i64, bool)], process: Option<usize>) {
        let is_first = process.is_none();
        self.real.is_first = is_first;
        self.model.seen = if is_first { 0 } else { self.seen };
        let each = asked.iter().flat_map(|(who, ticket, stays)| {
            let numbers = [COSTS[*who], *ticket, i64::from(*stays)];
            let numbers = numbers.map(|number| number.to_string());
            [self.model.name(*who)].into_iter().chain(numbers)
        });
        let mut rest = Vec::new();
        if let Some(process) = process {
            let (channel, patience) = PROCESSES[process];
            self.real.patience = patience;
            rest = vec![self.seen.to_string(), channel.to_owned()];
        }
        rest.extend(each);
        let before: Vec<_> = asked.iter().map(|(who, ..)| self.fencing[*who]).collect();
        let held = self.model.held();
        let reply = self.real.call(&self.model, "acquire", &rest);
        assert_eq!(reply, self.model.acquire(asked, is_first));
        let places = if is_first { 3 } else { 6 };
        for (index, (who, ..)) in asked.iter().enumerate() {
            let (granted, ticket) = (reply[places + 2 * index], reply[places + 1 + 2 * index]);
            self.tickets[*who] = ticket;
            if granted == 0 || granted == before[index] {
                continue;
            }
            self.fencing[*who] = granted;
            // Never more permits are held than exist, except those that were held before.
            assert!(self.model.held() <= self.model.permits.max(held));
            assert!(granted > self.greatest || self.went_back && (is_first || !self.is_one));
        }
        self.greatest = self.fencing.iter().copied().fold(self.greatest, i64::max);
        if self.is_one {
            let highest = self.greatest.max(self.seen);
            self.seen = self.tickets.iter().copied().fold(highest, i64::max);
        }
    }
}

#[test]
fn acquire_of_the_first_version_behind_a_killed_waiter_is_granted_after_a_minute() {
    let server = Server::start();
    let mut real = Real {
        connection: server.connection(),
        current: script(CURRENT),
        first: script(FIRST),
        is_first: false,
        patience: 50_000,
    };
    let mut model = Model::new(1, 0, 0);
    let words = |text: &str| -> Vec<_> { text.split(' ').map(str::to_owned).collect() };
    real.set_clock(model.now);
    real.is_first = true;
    let held = real.call(&model, "acquire", &words("held 1 0 1"));
    assert_eq!(held[3..], [START, 0]);
    real.is_first = false;
    let killed = real.call(&model, "acquire", &words("0 c0 p0.1 1 0 1"));
    assert_eq!(killed[6..], [0, START + 1]);
    real.is_first = true;
    real.call(&model, "release", &words("held 1"));
    let behind = real.call(&model, "acquire", &words("next 1 0 1"));
    assert_eq!(behind[3..], [0, START + 2]);
    let ticket = words(&format!("next 1 {} 1", START + 2));
    for (now, is_granted) in [(START + MINUTE - 1, false), (START + MINUTE, true)] {
        model.now = now;
        real.set_clock(now);
        let reply = real.call(&model, "acquire", &ticket);
        assert_eq!(reply[3] > 0, is_granted);
    }
}

#[test]
fn scripts_of_both_versions_on_random_steps_do_as_the_model() {
    let server = Server::start();
    let real = std::cell::RefCell::new(Real {
        connection: server.connection(),
        current: script(CURRENT),
        first: script(FIRST),
        is_first: false,
        patience: 0,
    });
    let grace = prop_oneof![Just(0), Just(TTL), 0..TTL * 2];
    // In half of the cases there is only the current version.
    let old = prop_oneof![Just(0), Just(OLD)];
    let steps = proptest::collection::vec(step(), 1..60);
    TestRunner::new(cases(300))
        .run(
            &(grace, prop::bool::ANY, old, steps),
            |(grace, is_one, old, steps)| {
                let real = &mut *real.borrow_mut();
                real.run("FLUSHALL", &[]);
                real.set_clock(START);
                let mut case = Case {
                    real,
                    model: Model::new(3, grace, old),
                    is_one,
                    tickets: [0; COSTS.len()],
                    fencing: [0; COSTS.len()],
                    went_back: false,
                    greatest: 0,
                    seen: 0,
                };
                steps.iter().for_each(|step| case.step(step));
                Ok(())
            },
        )
        .unwrap();
}
