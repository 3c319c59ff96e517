//! Simulates fleets on the script of leases, with a clock that the test sets: after any faults, nobody waits
//! without end.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::model::{CURRENT, KEYS, START, script};
use crate::support::cases;
use crate::support::server::Server;

/// In microseconds.
const TICK: i64 = 10_000;
const HOLD: i64 = 2 * TICK;
const LOOK: i64 = 100 * TICK;
const POLL: i64 = 3 * TICK;
const PATIENCE: i64 = 50_000;

const PERMITS: i64 = 2;

/// The ticks in which there are faults, and the ticks after them in which everybody has to be served.
const FAULTY: i64 = 150;
const CALM: i64 = 300;

#[derive(Clone, Debug)]
enum Fault {
    /// Does nothing for so many ticks; messages wait for it.
    Freeze(i64),
    /// Gets no messages for so many ticks, although they are sent.
    LoseMessages(i64),
    /// Ends, with its connection and its leases.
    Die,
    /// Of all processes, on the server.
    LoseTickets,
}

#[derive(Default)]
struct Process {
    /// The ids, costs, and numbers of the tickets.
    waiting: Vec<(String, i64, i64)>,
    /// The ids, costs, and ends.
    held: Vec<(String, i64, i64)>,
    told: BTreeSet<String>,
    look: i64,
    soon: Option<i64>,
    /// Until then it polls, and names no channel.
    deaf: i64,
    frozen: i64,
    loses: i64,
    inbox: Vec<String>,
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
    fn call(&mut self, what: &str, rest: &[String]) -> Vec<i64> {
        let mut command = redis::cmd("EVAL");
        command.arg(self.text).arg(KEYS.len()).arg(&KEYS).arg(what);
        let numbers = [PERMITS, 1_000_000_000, 0, PATIENCE, self.now];
        command.arg(&numbers).arg(rest);
        let reply: Vec<i64> = command.query(self.connection).unwrap();
        let mut pipeline = redis::pipe();
        pipeline.cmd("LRANGE").arg(&["told", "0", "-1"]);
        pipeline.cmd("DEL").arg("told").ignore();
        pipeline.cmd("ZCARD").arg(KEYS[0]);
        let (told, held): (Vec<String>, i64) = pipeline.query(self.connection).unwrap();
        assert!(held <= PERMITS);
        for message in told {
            let (name, rest) = message.split_once(' ').unwrap();
            let process = &mut self.processes[name[1..].parse::<usize>().unwrap()];
            if process.loses <= self.now {
                process.inbox.push(rest.to_owned());
            }
        }
        reply
    }

    fn join(&mut self, process: usize) {
        self.ids += 1;
        let n = 1 + i64::from(self.ids.is_multiple_of(5));
        let id = format!("p{process}.{}", self.ids);
        self.processes[process].waiting.push((id, n, 0));
    }

    fn release(&mut self, process: usize, is_all: bool) {
        let now = self.now;
        let held = &mut self.processes[process].held;
        let over: Vec<_> = held.extract_if(.., |one| is_all || one.2 <= now).collect();
        for (id, n, _) in over {
            self.call("release", &[id, n.to_string()]);
        }
    }

    /// Lets a process do what it does in this tick. Without faults, those that were served do not return.
    fn act(&mut self, index: usize, returns: bool) {
        self.release(index, false);
        let now = self.now;
        let process = &mut self.processes[index];
        for message in std::mem::take(&mut process.inbox) {
            process.deaf = 0;
            match message.split_once(' ').unwrap() {
                ("claim", name) => drop(process.told.insert(name.to_owned())),
                ("soon", time) => process.soon = Some(now + time.parse::<i64>().unwrap()),
                _ => process.soon = None,
            }
        }
        let is_look = process.look <= now || process.soon.is_some_and(|soon| soon <= now);
        if is_look {
            process.soon = None;
        }
        let told = std::mem::take(&mut process.told);
        let asked = process.waiting.iter().filter(|(id, n, ticket)| {
            is_look || *ticket == 0 || told.contains(&format!("{id}:{n}"))
        });
        let asked: Vec<_> = asked.cloned().collect();
        if asked.is_empty() {
            return;
        }
        let polls = process.looks || process.deaf > now;
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
        let reply = self.call("acquire", &rest);
        let process = &mut self.processes[index];
        if !polls && reply[4] > 0 {
            process.deaf = now + LOOK;
        }
        let polls = polls || process.deaf > now;
        let pause = if polls { POLL } else { LOOK };
        process.look = if is_look {
            now + pause
        } else {
            process.look.min(now + pause)
        };
        let mut served = 0;
        for (place, (id, n, _)) in asked.into_iter().enumerate() {
            let (fencing, ticket) = (reply[5 + 2 * place], reply[6 + 2 * place]);
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
            Fault::LoseMessages(ticks) => self.processes[index].loses = now + ticks * TICK,
            Fault::Die => {
                self.release(index, true);
                self.processes[index].is_dead = true;
                let channel = format!("c{index}");
                let () = redis::cmd("SADD")
                    .arg(&["deaf", &channel])
                    .query(self.connection)
                    .unwrap();
            }
            Fault::LoseTickets => {
                let () = redis::cmd("DEL")
                    .arg(&["q", "w"])
                    .query(self.connection)
                    .unwrap();
            }
        }
    }

    fn run(&mut self, faults: &[(i64, usize, Fault)]) {
        for tick in 0..FAULTY + CALM {
            self.now = START + tick * TICK;
            let clock = ["clock".to_owned(), self.now.to_string()];
            let () = redis::cmd("SET")
                .arg(&clock)
                .query(self.connection)
                .unwrap();
            for (_, index, fault) in faults.iter().filter(|fault| fault.0 == tick) {
                self.fail(index % self.processes.len(), fault);
            }
            for index in 0..self.processes.len() {
                if tick == FAULTY {
                    (self.processes[index].frozen, self.processes[index].loses) = (0, 0);
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
        3 => (1..100_i64).prop_map(Fault::LoseMessages),
        1 => Just(Fault::Die),
        1 => Just(Fault::LoseTickets),
    ];
    proptest::collection::vec((0..FAULTY, 0..6_usize, fault), 0..12)
}

#[test]
fn acquire_in_fleets_with_faults_serves_everybody_afterwards() {
    let server = Server::start();
    let (text, connection) = (script(CURRENT), server.connection());
    let connection = std::cell::RefCell::new(connection);
    let sizes = (2..6_usize, 1..4_usize, 0..3_usize);
    TestRunner::new(cases(60))
        .run(&(sizes, faults()), |((size, waiters, looking), faults)| {
            let connection = &mut *connection.borrow_mut();
            let () = redis::cmd("FLUSHALL").query(connection).unwrap();
            let new = |index| Process {
                looks: index < looking,
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
