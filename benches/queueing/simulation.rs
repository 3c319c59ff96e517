//! The simulation: clients whose requests arrive whatever becomes of them, a line in front of the
//! limit, and the server behind it. Pure and discrete: nothing but the requests and the limiter
//! decides what happens.

use std::collections::VecDeque;

use crate::jobs::{Job, Nanos, SECOND};
use crate::limiter::{Limiter, Permit, Said};
use crate::scenario::{Abandoned, Line, Scenario};
use crate::server::Server;

/// What happened in a run.
#[derive(Clone)]
pub(crate) struct Trace {
    /// The length of a span.
    pub(crate) span: Nanos,
    /// The good answers in each span.
    pub(crate) answers: Vec<u32>,
    /// The refused calls in each span.
    pub(crate) refused: Vec<u32>,
    /// The limit at the end of each span.
    pub(crate) limits: Vec<usize>,
    /// The end and the length, in seconds, of each call's time in service.
    pub(crate) calls: Vec<(Nanos, f64)>,
    pub(crate) highest_limit: usize,
}

/// A request in the server.
struct Call {
    job: Job,
    began: Nanos,
    permit: Permit,
}

/// Runs a scenario. With `every_call` the trace has the calls.
pub(crate) fn run(scenario: &Scenario, jobs: &[Job], limiter: Limiter, every_call: bool) -> Trace {
    let spans = scenario.spans();
    let end = spans.last().expect("a scenario has a phase").1.end;
    let count = end.div_ceil(scenario.span()) as usize;
    let mut system = System {
        line: Waiting::new(scenario.line),
        server: Server::new(scenario.server, spans[0].0),
        abandoned: scenario.abandoned,
        abandons: VecDeque::new(),
        trace: Trace {
            span: scenario.span(),
            answers: vec![0; count],
            refused: vec![0; count],
            limits: Vec::with_capacity(count),
            calls: Vec::new(),
            highest_limit: limiter.limit(),
        },
        limiter,
        every_call,
    };
    let mut arrivals = jobs.iter().peekable();
    let mut changes = spans.iter().skip(1).peekable();
    loop {
        let ends = system.server.next_end().unwrap_or(Nanos::MAX);
        let arrives = arrivals.peek().map_or(Nanos::MAX, |job| job.at);
        let changes_at = changes.peek().map_or(end, |(_, span)| span.start);
        let abandons = system.abandons.front().map_or(Nanos::MAX, |call| call.0);
        let now = ends.min(arrives).min(changes_at).min(abandons);
        while (system.trace.limits.len() as Nanos + 1) * scenario.span() <= now {
            system.trace.limits.push(system.limiter.limit());
        }
        if now == changes_at {
            match changes.next() {
                Some((phase, _)) => system.server.change(now, phase),
                None => return system.trace,
            }
        } else if now == ends {
            system.end(now);
        } else if now == abandons {
            system.abandon(now);
        } else if let Some(job) = arrivals.next() {
            system.line.push(*job);
        }
        system.admit(now);
    }
}

struct System {
    line: Waiting,
    limiter: Limiter,
    server: Server<Call>,
    abandoned: Option<Abandoned>,
    /// When callers abandon their calls, and the numbers of these, in this order.
    abandons: VecDeque<(Nanos, u64)>,
    trace: Trace,
    every_call: bool,
}

impl System {
    fn admit(&mut self, now: Nanos) {
        while self.limiter.has_room() {
            let Some(job) = self.line.pop(now) else {
                return;
            };
            let permit = self.limiter.begin(now);
            let began = now;
            let call = Call { job, began, permit };
            let number = self.server.enter(now, call, job.work);
            if self.abandoned.is_some() {
                let at = now + (job.deadline - job.at);
                self.abandons.push_back((at, number));
            }
        }
    }

    fn end(&mut self, now: Nanos) {
        let Some((Call { job, began, permit }, is_refused)) = self.server.end(now) else {
            return;
        };
        let span = (now / self.trace.span) as usize;
        if is_refused {
            self.trace.refused[span] += 1;
            return self.release(now, permit, Said::Overloaded);
        }
        if now <= job.deadline {
            self.trace.answers[span] += 1;
        }
        if self.every_call {
            let seconds = (now - began) as f64 / SECOND as f64;
            self.trace.calls.push((now, seconds));
        }
        self.release(now, permit, Said::Nothing);
    }

    fn abandon(&mut self, now: Nanos) {
        let Some((_, number)) = self.abandons.pop_front() else {
            return;
        };
        let Some(call) = self.server.remove(now, number) else {
            return;
        };
        let said = match self.abandoned {
            Some(Abandoned::Overloaded) => Said::Overloaded,
            _ => Said::Ignore,
        };
        self.release(now, call.permit, said);
    }

    fn release(&mut self, now: Nanos, permit: Permit, said: Said) {
        self.limiter.end(now, permit, said);
        let highest = &mut self.trace.highest_limit;
        *highest = self.limiter.limit().max(*highest);
    }
}

/// The line in front of the limit, in which clients give up.
struct Waiting {
    order: Line,
    jobs: VecDeque<Job>,
}

impl Waiting {
    fn new(order: Line) -> Self {
        Self {
            order,
            jobs: VecDeque::new(),
        }
    }

    fn push(&mut self, job: Job) {
        // The oldest in front: those that have given up go, so the line is bounded.
        while self.jobs.front().is_some_and(|old| old.gives_up <= job.at) {
            self.jobs.pop_front();
        }
        self.jobs.push_back(job);
    }

    fn pop(&mut self, now: Nanos) -> Option<Job> {
        loop {
            let job = match self.order {
                Line::NewestFirst => self.jobs.pop_back(),
                Line::OldestFirst => self.jobs.pop_front(),
            }?;
            if now < job.gives_up {
                return Some(job);
            }
        }
    }
}
