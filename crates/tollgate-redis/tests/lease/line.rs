//! Simulates fleets on the script of leases, with a clock that the test sets: after any faults, nobody waits
//! without end. The processes follow the protocol of `src/lease`.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::model::{CURRENT, DAY, KEYS, START, script};
use crate::support::cases;
use crate::support::server::Server;

/// In microseconds.
const TICK: i64 = 10_000;
const HOLD: i64 = 2 * TICK;
const LOOK: i64 = 100 * TICK;
/// The time between two looks for each ticket before the first one, and the longest. It is far longer than that of the
/// crate, in place of as many more tickets.
const LOOK_FOR_EACH: i64 = 20 * TICK;
const LONGEST_LOOK: i64 = 500 * TICK;
const ALL: i64 = 2_000 * TICK;
const POLL: i64 = 3 * TICK;
const PATIENCE: i64 = 50_000;

/// The permits of each process; those of others may differ.
const WORLDS: [[i64; 6]; 3] = [[2; 6], [50; 6], [1, 2, 3, 1, 2, 3]];

/// The ticks in which there are faults, and the ticks after them in which everybody has to be served: two looks at all
/// tickets.
const FAULTY: i64 = 150;
const CALM: i64 = 4_000;

#[derive(Clone, Debug)]
enum Fault {
    /// Does nothing for so many ticks; messages wait for it.
    Freeze(i64),
    /// All processes do nothing for so many ticks.
    FreezeAll(i64),
    /// Gets no messages for so many ticks, although they are sent.
    LoseMessages(i64),
    /// Gets each message twice for so many ticks, and again after as many.
    RepeatMessages(i64),
    /// Gets each message that is sent in the next second so many ticks later.
    DelayMessages(i64),
    /// Ends, with its connection and its leases.
    Die,
    /// The server loses these keys.
    Lose(&'static [&'static str]),
}

#[derive(Default)]
struct Process {
    /// The ids, costs, and numbers of the tickets.
    waiting: Vec<(String, i64, i64)>,
    /// The ids, costs, and ends.
    held: Vec<(String, i64, i64)>,
    told: BTreeSet<String>,
    look: i64,
    /// When all tickets have to be named again.
    all: i64,
    soon: Option<i64>,
    /// Until then it polls, and names no channel.
    deaf: i64,
    frozen: i64,
    loses: i64,
    repeats: i64,
    repeat: i64,
    delays: i64,
    delay: i64,
    permits: i64,
    /// The messages, with the time at which each arrives.
    inbox: Vec<(i64, String)>,
    is_dead: bool,
    /// It has no channel.
    looks: bool,
    leases: usize,
}

struct Fleet<'a> {
    connection: &'a mut redis::Connection,
    text: &'a str,
    now: i64,
    processes: Vec<Process>,
    ids: usize,
}

impl Fleet<'_> {
    fn call(&mut self, process: usize, what: &str, rest: &[String]) -> Vec<i64> {
        let permits = self.processes[process].permits;
        let mut command = redis::cmd("EVAL");
        command.arg(self.text).arg(KEYS.len()).arg(&KEYS).arg(what);
        let numbers = [permits, 1_000_000_000, 0, PATIENCE, self.now, DAY];
        command.arg(&numbers).arg(rest);
        let mut pipeline = redis::pipe();
        pipeline.cmd("SET").arg("clock").arg(self.now).ignore();
        pipeline.add_command(command);
        pipeline.cmd("LRANGE").arg(&["told", "0", "-1"]);
        pipeline.cmd("DEL").arg("told").ignore();
        pipeline.cmd("ZCARD").arg(KEYS[0]);
        let (reply, told, held): (Vec<i64>, Vec<String>, i64) =
            pipeline.query(self.connection).unwrap();
        let most = self.processes.iter().map(|process| process.permits).max();
        assert!(Some(held) <= most);
        for message in told {
            let (name, rest) = message.split_once(' ').unwrap();
            let process = &mut self.processes[name[1..].parse::<usize>().unwrap()];
            if process.loses > self.now {
                continue;
            }
            let late = i64::from(process.delays > self.now) * process.delay;
            process.inbox.push((self.now + late, rest.to_owned()));
            if process.repeats > self.now {
                let again = [self.now + late, self.now + late + process.repeat];
                process.inbox.extend(again.map(|at| (at, rest.to_owned())));
            }
        }
        reply
    }

    fn join(&mut self, process: usize) {
        self.ids += 1;
        let n = if self.ids.is_multiple_of(5) {
            self.processes[process].permits
        } else {
            1
        };
        let id = format!("p{process}.{}", self.ids);
        self.processes[process].waiting.push((id, n, 0));
    }

    fn release(&mut self, process: usize, is_all: bool) {
        let now = self.now;
        let held = &mut self.processes[process].held;
        let over: Vec<_> = held.extract_if(.., |one| is_all || one.2 <= now).collect();
        for (id, n, _) in over {
            self.call(process, "release", &[id, n.to_string()]);
        }
    }

    /// Lets a process do what it does in this tick. Without faults, those that were served do not return.
    fn act(&mut self, index: usize, returns: bool) {
        self.release(index, false);
        let now = self.now;
        let process = &mut self.processes[index];
        let arrived: Vec<_> = process
            .inbox
            .extract_if(.., |message| message.0 <= now)
            .collect();
        for (_, message) in arrived {
            process.deaf = 0;
            match message.split_once(' ').unwrap() {
                ("claim", name) => {
                    let mut waiting = process.waiting.iter();
                    if waiting.any(|one| format!("{}:{}", one.0, one.1) == name) {
                        process.told.insert(name.to_owned());
                        process.soon = None;
                    }
                }
                (_, time) => process.soon = Some(now + time.parse::<i64>().unwrap()),
            }
        }
        let is_look = process.look <= now || process.soon.is_some_and(|soon| soon <= now);
        if is_look {
            process.soon = None;
        }
        let polls = process.looks || process.deaf > now;
        let names_all = is_look && (polls || process.all <= now);
        let told = std::mem::take(&mut process.told);
        let mut asked = Vec::new();
        for (place, one) in process.waiting.iter().enumerate() {
            let is_told = told.contains(&format!("{}:{}", one.0, one.1));
            if names_all || (is_look && place == 0) || one.2 == 0 || is_told {
                asked.push(one.clone());
            }
        }
        if asked.is_empty() {
            return;
        }
        if names_all {
            process.all = now + ALL;
        }
        let channel = if polls {
            String::new()
        } else {
            format!("c{index}")
        };
        let mut rest = vec!["0".to_owned(), channel];
        for (id, n, ticket) in &asked {
            let numbers = [*n, *ticket, 1].map(|number| number.to_string());
            rest.push(id.clone());
            rest.extend(numbers);
        }
        let reply = self.call(index, "acquire", &rest);
        let process = &mut self.processes[index];
        if !polls && reply[4] > 0 {
            process.deaf = now + LOOK;
        }
        let polls = polls || process.deaf > now;
        let pause = if reply[4] > 0 && !names_all {
            process.all = now;
            0
        } else if polls {
            POLL
        } else {
            LOOK.max(LONGEST_LOOK.min(LOOK_FOR_EACH * reply[5]))
        };
        if reply[2] > 0 {
            let soon = now + reply[2];
            process.soon = Some(process.soon.map_or(soon, |before| before.min(soon)));
        }
        process.look = if is_look {
            now + pause
        } else {
            process.look.min(now + pause)
        };
        let mut served = 0;
        for (place, (id, n, _)) in asked.into_iter().enumerate() {
            let (fencing, ticket) = (reply[6 + 2 * place], reply[7 + 2 * place]);
            let at = process.waiting.iter().position(|one| one.0 == id).unwrap();
            process.waiting[at].2 = ticket;
            if fencing > 0 {
                process.waiting.remove(at);
                process.held.push((id, n, now + HOLD));
                served += 1;
            }
        }
        process.leases += served;
        for _ in 0..served {
            if returns {
                self.join(index);
            }
        }
    }

    fn fail(&mut self, index: usize, fault: &Fault) {
        let now = self.now;
        match fault {
            Fault::Freeze(ticks) => self.processes[index].frozen = now + ticks * TICK,
            Fault::FreezeAll(ticks) => {
                for process in &mut self.processes {
                    process.frozen = now + ticks * TICK;
                }
            }
            Fault::LoseMessages(ticks) => self.processes[index].loses = now + ticks * TICK,
            Fault::RepeatMessages(ticks) => {
                let process = &mut self.processes[index];
                (process.repeats, process.repeat) = (now + ticks * TICK, ticks * TICK);
            }
            Fault::DelayMessages(ticks) => {
                let process = &mut self.processes[index];
                (process.delays, process.delay) = (now + LOOK, ticks * TICK);
            }
            Fault::Die => {
                self.release(index, true);
                self.processes[index].is_dead = true;
                let channel = format!("c{index}");
                let () = redis::cmd("SADD")
                    .arg(&["deaf", &channel])
                    .query(self.connection)
                    .unwrap();
            }
            Fault::Lose(keys) => {
                let () = redis::cmd("DEL").arg(keys).query(self.connection).unwrap();
            }
        }
    }

    fn run(&mut self, faults: &[(i64, usize, Fault)]) {
        for tick in 0..FAULTY + CALM {
            self.now = START + tick * TICK;
            for (_, index, fault) in faults.iter().filter(|fault| fault.0 == tick) {
                self.fail(index % self.processes.len(), fault);
            }
            for index in 0..self.processes.len() {
                if tick == FAULTY {
                    let process = &mut self.processes[index];
                    (process.frozen, process.loses) = (0, 0);
                    (process.repeats, process.delays) = (0, 0);
                }
                let process = &self.processes[index];
                if !process.is_dead && process.frozen <= self.now {
                    self.act(index, tick < FAULTY);
                }
            }
        }
    }
}

fn faults() -> impl Strategy<Value = Vec<(i64, usize, Fault)>> {
    let fault = prop_oneof![
        3 => (1..100_i64).prop_map(Fault::Freeze),
        1 => (1..100_i64).prop_map(Fault::FreezeAll),
        3 => (1..100_i64).prop_map(Fault::LoseMessages),
        2 => (1..100_i64).prop_map(Fault::RepeatMessages),
        2 => (1..100_i64).prop_map(Fault::DelayMessages),
        1 => Just(Fault::Die),
        1 => Just(Fault::Lose(&["q", "w"])),
        1 => Just(Fault::Lose(&["q"])),
        1 => Just(Fault::Lose(&["w"])),
    ];
    proptest::collection::vec((0..FAULTY, 0..6_usize, fault), 0..12)
}

#[test]
fn acquire_in_fleets_with_faults_serves_everybody_afterwards() {
    let server = Server::start();
    let (text, connection) = (script(CURRENT), server.connection());
    let connection = std::cell::RefCell::new(connection);
    let sizes = (2..6_usize, 1..4_usize, 0..3_usize, 0..WORLDS.len());
    TestRunner::new(cases(60))
        .run(&(sizes, faults()), |(sizes, faults)| {
            let (size, waiters, looking, world) = sizes;
            let connection = &mut *connection.borrow_mut();
            let () = redis::cmd("FLUSHALL").query(connection).unwrap();
            let new = |index| Process {
                looks: index < looking,
                permits: WORLDS[world][index],
                ..Process::default()
            };
            let mut fleet = Fleet {
                connection,
                text: &text,
                now: START,
                processes: (0..size).map(new).collect(),
                ids: 0,
            };
            for index in 0..size * waiters {
                fleet.join(index % size);
            }
            fleet.run(&faults);
            for (index, process) in fleet.processes.iter().enumerate() {
                assert!(process.is_dead || process.waiting.is_empty(), "{index}");
                assert!(process.is_dead || process.leases >= waiters, "{index}");
            }
            Ok(())
        })
        .unwrap();
}
