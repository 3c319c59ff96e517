//! The server behind the limit: a number of workers with or without a queue of their own, or
//! processor sharing that wastes work when it is overcommitted.

use std::collections::VecDeque;

use crate::jobs::{Nanos, SECOND};
use crate::scenarios::{Discipline, Phase};

/// The time to refuse a call, in mean service times.
const REFUSAL: f64 = 0.1;

/// A server with calls of type `T`.
///
/// The server's own time, in which calls end, is real time for workers. For processor sharing it is
/// the work that each call has received, so calls with different beginnings keep their order.
pub(crate) struct Server<T> {
    discipline: Discipline,
    workers: usize,
    /// Whether it refuses all calls.
    fails: bool,
    service: f64,
    /// In order of their ends in the server's own time, and of their numbers: the calls, and whether they are refused.
    running: VecDeque<(f64, u64, T, bool)>,
    /// The number of calls that are not refused.
    working: usize,
    /// Calls without a free worker, with their numbers and their work.
    waiting: VecDeque<(u64, T, f64)>,
    /// For processor sharing: the work that each call has received until `at`.
    given: f64,
    at: Nanos,
    entered: u64,
}

impl<T> Server<T> {
    pub(crate) fn new(discipline: Discipline, workers: usize, phase: &Phase) -> Self {
        Self {
            discipline,
            workers,
            fails: phase.fails,
            service: phase.service,
            running: VecDeque::new(),
            working: 0,
            waiting: VecDeque::new(),
            given: 0.0,
            at: 0,
            entered: 0,
        }
    }

    /// Changes the server's capacity. Calls that a worker has begun end as planned, unless no
    /// worker is left.
    pub(crate) fn change(&mut self, now: Nanos, workers: usize, phase: &Phase) {
        self.advance(now);
        self.workers = workers;
        self.fails = phase.fails;
        self.service = phase.service;
        self.start(now);
    }

    /// Begins a call, and returns its number.
    pub(crate) fn enter(&mut self, now: Nanos, call: T, work: f64) -> u64 {
        self.entered += 1;
        let number = self.entered;
        match self.discipline {
            _ if self.refuses() => {
                let end = self.end_of(now, REFUSAL);
                self.run(end, number, call, true);
            }
            Discipline::Workers | Discipline::Refusing { .. } => {
                self.waiting.push_back((number, call, work));
                self.start(now);
            }
            Discipline::Sharing { .. } => {
                self.advance(now);
                self.run(self.given + work * self.service, number, call, false);
            }
        }
        number
    }

    fn refuses(&self) -> bool {
        let is_full = match self.discipline {
            Discipline::Refusing { queue } => self.open() >= self.workers + queue,
            _ => false,
        };
        self.fails || is_full
    }

    /// Returns the number of calls that are not refused.
    pub(crate) fn open(&self) -> usize {
        self.working + self.waiting.len()
    }

    /// Removes a call that its caller abandons, unless it has ended.
    pub(crate) fn remove(&mut self, now: Nanos, number: u64) -> Option<T> {
        if let Some(index) = self.waiting.iter().position(|call| call.0 == number) {
            return self.waiting.remove(index).map(|(_, call, _)| call);
        }
        let index = self.running.iter().position(|it| it.1 == number)?;
        self.take(now, index).map(|(call, _)| call)
    }

    /// Returns when the next call ends.
    pub(crate) fn next_end(&self) -> Option<Nanos> {
        if self.workers == 0 {
            return None;
        }
        let end = self.running.front()?.0;
        Some(match self.discipline {
            Discipline::Workers | Discipline::Refusing { .. } => (end as Nanos).max(self.at),
            Discipline::Sharing { .. } => {
                let seconds = (end - self.given).max(0.0) / self.rate();
                self.at + (seconds * SECOND as f64).ceil() as Nanos
            }
        })
    }

    /// Ends the next call, and returns whether it was refused.
    pub(crate) fn end(&mut self, now: Nanos) -> Option<(T, bool)> {
        self.take(now, 0)
    }

    /// Takes a call from its worker, and returns whether it was refused.
    fn take(&mut self, now: Nanos, index: usize) -> Option<(T, bool)> {
        self.advance(now);
        let (.., call, is_refused) = self.running.remove(index)?;
        self.working -= usize::from(!is_refused);
        self.start(now);
        Some((call, is_refused))
    }

    /// Gives calls to free workers.
    fn start(&mut self, now: Nanos) {
        while self.working < self.workers {
            let Some((number, call, work)) = self.waiting.pop_front() else {
                return;
            };
            self.run(self.end_of(now, work), number, call, false);
        }
    }

    fn end_of(&self, now: Nanos, work: f64) -> f64 {
        now as f64 + work * self.service * SECOND as f64
    }

    fn run(&mut self, end: f64, number: u64, call: T, is_refused: bool) {
        self.working += usize::from(!is_refused);
        let is_before = |it: &(f64, u64, T, bool)| (it.0, it.1) < (end, number);
        let index = self.running.partition_point(is_before);
        self.running.insert(index, (end, number, call, is_refused));
    }

    fn advance(&mut self, now: Nanos) {
        if let Discipline::Sharing { .. } = self.discipline {
            let seconds = (now - self.at) as f64 / SECOND as f64;
            self.given += seconds * self.rate();
        }
        self.at = now;
    }

    /// Returns the speed of each call under processor sharing.
    fn rate(&self) -> f64 {
        let Discipline::Sharing { kappa } = self.discipline else {
            return 1.0;
        };
        let (n, c) = (self.running.len() as f64, self.workers as f64);
        (c / n).min(1.0) / (1.0 + kappa * (n - c).max(0.0) / c)
    }
}
