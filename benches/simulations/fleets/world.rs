//! A fleet whose processes wait for one limit, event by event.

use oorandom::Rand64;
use simulations::events::Events;

use super::process::{Known, Process};
use super::server::{Ask, Micros, Reply, Server};

/// A second.
pub(crate) const SECOND: Micros = 1_000_000;

/// The callers of a process that wait at a time.
const WAITERS: u64 = 200;

/// What happens to the server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failover {
    No,
    /// It is gone for this long; then a replica takes over that lacks the writes of this time.
    Replica {
        gone: Micros,
        lag: Micros,
    },
    /// It is gone for this long, and returns without its data.
    Empty {
        gone: Micros,
    },
}

#[derive(Clone, Copy)]
pub(crate) struct World {
    pub(crate) processes: usize,
    /// Calls in a second.
    pub(crate) rate: u64,
    pub(crate) horizon: Micros,
    /// How long a process waits for a reply.
    pub(crate) deadline: Micros,
    pub(crate) failover: Failover,
}

/// The results of a world.
#[derive(Clone, Default)]
pub(crate) struct Outcome {
    /// The part of the rate that is used.
    pub(crate) used: f64,
    /// The calls of the server in a second.
    pub(crate) calls: f64,
    /// The calls of the server for each admission.
    pub(crate) calls_each: f64,
    /// The part of a core of the server.
    pub(crate) busy: f64,
    /// The time until the first turn of a process that begins to wait in a full line, in seconds: the median and
    /// the most.
    pub(crate) joins: [f64; 2],
    /// Jain's index of the shares.
    pub(crate) jain: f64,
    /// What the worst and the best tenth of the processes get of a fair share.
    pub(crate) tenths: [f64; 2],
    /// After a failover: by how many calls the admissions were above the bound; what was used of the rate from the
    /// failure until ten seconds after the return; the most calls of the server in a tenth of a second after the
    /// return; and how long a call then waited at the server, in seconds.
    pub(crate) above: f64,
    pub(crate) used_after: f64,
    pub(crate) rush: f64,
    pub(crate) queued: f64,
}

enum Event {
    /// A process looks what it has to do.
    Wake(usize),
    Arrive(usize, u64, Ask, Micros),
    Reply(usize, u64, Ask, Reply, Micros),
    Deadline(usize, u64),
    Replicate,
    Fail,
    Return,
}

struct Run {
    world: World,
    known: Known,
    random: Rand64,
    /// A tick is a microsecond.
    events: Events<Event>,
    server: Server,
    is_gone: bool,
    processes: Vec<Process>,
    admissions: Vec<Micros>,
    /// The calls of the server in each tenth of a second.
    bins: Vec<u64>,
    begins: Micros,
}

impl World {
    /// Returns how long the first turns of all processes take, at least five seconds.
    fn warm_up(&self) -> Micros {
        let turn_of_each = self.processes as u64 * SECOND / self.rate;
        5 * SECOND + 3 * turn_of_each
    }

    /// Returns for how long admissions count: each process has ten of them, and there are twenty seconds at least.
    fn counted(&self) -> Micros {
        let turn_of_each = self.processes as u64 * SECOND / self.rate;
        (10 * turn_of_each).max(20 * SECOND)
    }

    pub(crate) fn run(self, seed: u64) -> Outcome {
        let mut random = Rand64::new(seed.into());
        let late = (self.processes / 100).max(1);
        let processes = (0..self.processes).map(|index| {
            // Between 1 and 50 ms away, and back.
            let distance = random.rand_range(500..25_001);
            // Some begin to wait when the line is full.
            let after = if index < late { self.warm_up() } else { 0 };
            let begins = after + random.rand_range(1..SECOND);
            Process::new(distance, begins)
        });
        let processes = processes.collect();
        let mut run = Run {
            world: self,
            known: Known {
                burst: 1,
                within: self.rate * self.horizon / SECOND,
            },
            random,
            events: Events::default(),
            server: Server::new(self.rate, 1, self.processes),
            is_gone: false,
            processes,
            admissions: Vec::new(),
            bins: Vec::new(),
            begins: self.warm_up(),
        };
        run.run();
        run.outcome(late)
    }

    /// Returns when the server fails, and when it returns.
    fn failure(&self) -> Option<(Micros, Micros)> {
        let at = self.warm_up() + 5 * SECOND;
        match self.failover {
            Failover::No => None,
            Failover::Replica { gone, .. } | Failover::Empty { gone } => Some((at, at + gone)),
        }
    }
}

impl Run {
    fn run(&mut self) {
        for index in 0..self.processes.len() {
            self.plan(index, Some(self.processes[index].begins));
        }
        if let Some((fails, returns)) = self.world.failure() {
            if let Failover::Replica { lag, .. } = self.world.failover {
                self.events.at(fails - lag, Event::Replicate);
            }
            self.events.at(fails, Event::Fail);
            self.events.at(returns, Event::Return);
        }
        let end = self.begins + self.world.counted();
        while let Some(event) = self.events.next_before(end) {
            self.happen(event, self.events.now());
        }
    }

    fn happen(&mut self, event: Event, now: Micros) {
        match event {
            Event::Wake(index) => {
                if self.processes[index].planned == now {
                    self.processes[index].planned = 0;
                    self.wake(index, now);
                }
            }
            // A server that is gone does not reply.
            Event::Arrive(..) if self.is_gone => {}
            Event::Arrive(index, number, ask, sent) => {
                let tenth = (now / (SECOND / 10)) as usize;
                if self.bins.len() <= tenth {
                    self.bins.resize(tenth + 1, 0);
                }
                self.bins[tenth] += 1;
                let (reply, done) = self.server.call(index, ask, now);
                let arrives = done + self.processes[index].distance;
                self.events
                    .at(arrives, Event::Reply(index, number, ask, reply, sent));
            }
            Event::Reply(index, number, ask, reply, sent) => {
                let process = &mut self.processes[index];
                if process.asks != Some(number) {
                    return;
                }
                process.asks = None;
                let change = process.learn(ask, &reply, self.known, now - sent, now);
                self.admit(index, change.admitted, now);
                self.wake(index, now);
            }
            Event::Deadline(index, number) => {
                let process = &mut self.processes[index];
                if process.asks == Some(number) {
                    process.asks = None;
                    let pause = self.random.rand_range(50_000..500_001);
                    self.processes[index].fail(now, pause);
                    self.wake(index, now);
                }
            }
            Event::Replicate => self.server.replicate(),
            Event::Fail => self.is_gone = true,
            Event::Return => {
                self.is_gone = false;
                self.server.queued = 0;
                self.server.take_over(now);
            }
        }
    }

    fn admit(&mut self, index: usize, count: u64, now: Micros) {
        if count == 0 {
            return;
        }
        let process = &mut self.processes[index];
        process.first.get_or_insert(now);
        if now >= self.begins {
            process.admitted += count;
        }
        self.admissions.extend((0..count).map(|_| now));
    }

    /// Wakes a process at that time, unless it is woken before.
    fn plan(&mut self, index: usize, time: Option<Micros>) {
        // Timers of a runtime are late by up to a millisecond.
        let time = time.map(|time| time + self.random.rand_range(0..1_000));
        let planned = &mut self.processes[index].planned;
        if let Some(time) = time.filter(|time| *planned == 0 || time < planned) {
            *planned = time;
            self.events.at(time, Event::Wake(index));
        }
    }

    fn wake(&mut self, index: usize, now: Micros) {
        let served = self.processes[index].serve(now);
        self.admit(index, served, now);
        let process = &mut self.processes[index];
        if process.asks.is_none() {
            match process.next(WAITERS, self.known, now) {
                Ok(ask) => {
                    process.last += 1;
                    let (number, distance) = (process.last, process.distance);
                    process.asks = Some(number);
                    self.events
                        .at(now + distance, Event::Arrive(index, number, ask, now));
                    self.events
                        .at(now + self.world.deadline, Event::Deadline(index, number));
                }
                Err(time) => return self.plan(index, time),
            }
        }
        // Turns are used while a call is under way.
        self.plan(index, self.processes[index].due());
    }

    fn outcome(mut self, late: usize) -> Outcome {
        self.admissions.sort_unstable();
        let end = self.begins + self.world.counted();
        let count = |from: Micros, to: Micros| {
            let before = |time| self.admissions.partition_point(|it| *it < time);
            (before(to) - before(from)) as f64
        };
        let seconds = |micros: Micros| micros as f64 / SECOND as f64;
        let rate = self.world.rate as f64;
        let counted = count(self.begins, end);
        let first = (self.begins / (SECOND / 10)) as usize;
        let calls: u64 = self.bins.iter().skip(first).sum();
        let mut joins: Vec<f64> = self.processes[..late]
            .iter()
            .map(|it| seconds(it.first.unwrap_or(end) - it.begins))
            .collect();
        joins.sort_by(f64::total_cmp);
        let others = &self.processes[late..];
        let all: u64 = others.iter().map(|it| it.admitted).sum();
        let fair = all as f64 / others.len() as f64;
        let shares = others.iter().map(|it| it.admitted as f64 / fair);
        let mut shares: Vec<f64> = shares.collect();
        shares.sort_by(f64::total_cmp);
        let tenth = (shares.len() / 10).max(1);
        let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
        let squares: f64 = shares.iter().map(|it| it * it).sum();
        let mut outcome = Outcome {
            used: counted / (rate * seconds(end - self.begins)),
            calls: calls as f64 / seconds(end - self.begins),
            calls_each: calls as f64 / counted,
            busy: seconds(self.server.worked) / seconds(end),
            joins: [joins[joins.len() / 2], joins[joins.len() - 1]],
            jain: shares.iter().sum::<f64>().powi(2) / (shares.len() as f64 * squares),
            tenths: [
                mean(&shares[..tenth]),
                mean(&shares[shares.len() - tenth..]),
            ],
            ..Outcome::default()
        };
        if let Some((fails, returns)) = self.world.failure() {
            let after = (returns + 10 * SECOND).min(end);
            outcome.above = self.above();
            outcome.used_after = count(fails, after) / (rate * seconds(after - fails));
            let from = (returns / (SECOND / 10)) as usize;
            outcome.rush = self.bins.iter().skip(from).copied().max().unwrap_or(0) as f64;
            outcome.queued = seconds(self.server.queued);
        }
        outcome
    }

    /// Returns by how many calls the admissions were at most above the burst and the rate, in any time, beyond
    /// what the ways of replies change.
    fn above(&self) -> f64 {
        let rate = self.world.rate;
        let allowed = SECOND + rate * 25_000;
        let (mut debt, mut at, mut above) = (0, 0, 0);
        for time in &self.admissions {
            debt = u64::saturating_sub(debt, (time - at) * rate) + SECOND;
            at = *time;
            above = above.max(debt.saturating_sub(allowed));
        }
        above as f64 / SECOND as f64
    }
}
