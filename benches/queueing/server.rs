//! The server behind the limit: a number of workers with a queue of their own, or processor sharing
//! that wastes work when it is overcommitted.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use crate::jobs::{Nanos, SECOND};
use crate::scenario::{Discipline, Phase};

/// A request in the server, and when it ends in the server's own time.
struct Running<T> {
    end: f64,
    order: u64,
    call: T,
}

impl<T> Ord for Running<T> {
    /// The greatest is the one that ends first.
    fn cmp(&self, other: &Self) -> Ordering {
        let by_end = other.end.total_cmp(&self.end);
        by_end.then(other.order.cmp(&self.order))
    }
}

impl<T> PartialOrd for Running<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Running<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Running<T> {}

/// A server with calls of type `T`.
///
/// Its own time, in which calls end, is real time for workers. For processor sharing it is the
/// work that each call has been given, so calls of different beginnings keep their order.
pub(crate) struct Server<T> {
    discipline: Discipline,
    workers: usize,
    service: f64,
    running: BinaryHeap<Running<T>>,
    /// Calls for which no worker is free, with their work.
    waiting: VecDeque<(T, f64)>,
    /// For processor sharing: the work that each call has been given until `at`.
    given: f64,
    at: Nanos,
    entered: u64,
}

impl<T> Server<T> {
    pub(crate) fn new(discipline: Discipline, phase: &Phase) -> Self {
        Self {
            discipline,
            workers: phase.workers,
            service: phase.service,
            running: BinaryHeap::new(),
            waiting: VecDeque::new(),
            given: 0.0,
            at: 0,
            entered: 0,
        }
    }

    /// Changes what the server is able to do. Calls that a worker has begun end as they would have.
    pub(crate) fn change(&mut self, now: Nanos, phase: &Phase) {
        self.advance(now);
        self.workers = phase.workers;
        self.service = phase.service;
        self.start(now);
    }

    pub(crate) fn enter(&mut self, now: Nanos, call: T, work: f64) {
        match self.discipline {
            Discipline::Workers => {
                self.waiting.push_back((call, work));
                self.start(now);
            }
            Discipline::Sharing { .. } => {
                self.advance(now);
                self.run(self.given + work * self.service, call);
            }
        }
    }

    /// Returns when the next call ends.
    pub(crate) fn next_end(&self) -> Option<Nanos> {
        let end = self.running.peek()?.end;
        Some(match self.discipline {
            Discipline::Workers => end as Nanos,
            Discipline::Sharing { .. } => {
                let seconds = (end - self.given).max(0.0) / self.rate();
                self.at + (seconds * SECOND as f64).ceil() as Nanos
            }
        })
    }

    /// Ends the call that is the next to end.
    pub(crate) fn end(&mut self, now: Nanos) -> Option<T> {
        self.advance(now);
        let ended = self.running.pop()?;
        self.start(now);
        Some(ended.call)
    }

    /// Gives calls to workers that are free.
    fn start(&mut self, now: Nanos) {
        while self.running.len() < self.workers {
            let Some((call, work)) = self.waiting.pop_front() else {
                return;
            };
            self.run(now as f64 + work * self.service * SECOND as f64, call);
        }
    }

    fn run(&mut self, end: f64, call: T) {
        self.entered += 1;
        let order = self.entered;
        self.running.push(Running { end, order, call });
    }

    fn advance(&mut self, now: Nanos) {
        if let Discipline::Sharing { .. } = self.discipline {
            let seconds = (now - self.at) as f64 / SECOND as f64;
            self.given += seconds * self.rate();
        }
        self.at = now;
    }

    /// Returns the speed of each call by processor sharing.
    fn rate(&self) -> f64 {
        let Discipline::Sharing { kappa } = self.discipline else {
            return 1.0;
        };
        let (n, c) = (self.running.len() as f64, self.workers as f64);
        (c / n).min(1.0) / (1.0 + kappa * (n - c).max(0.0) / c)
    }
}
