//! The simulation: clients whose requests arrive regardless of the answers, each with a queue and a
//! limit of its own, and the one server behind them. Pure and discrete: only the requests and the
//! limiters decide what happens.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use oorandom::Rand64;
use tollgate::Clock;
use tollgate::time::ManualClock;
use tollgate_adaptive::{AdaptivePermit, AdaptiveSemaphore};

use crate::jobs::{Job, Nanos, SECOND};
use crate::scenarios::{Balance, Line, Retry, SPAN, Said, Scenario};
use crate::server::Server;

/// The permit of a call. A fixed limit needs none.
type Permit = Option<AdaptivePermit<Arc<AdaptiveSemaphore>>>;

/// The limit in front of the server: a real [`AdaptiveSemaphore`] on the clock of the simulation, or a fixed one.
pub(crate) struct Limiter {
    adaptive: Option<Arc<AdaptiveSemaphore>>,
    /// The present limit, which changes only when a call ends.
    limit: usize,
    in_flight: usize,
}

impl Limiter {
    pub(crate) fn fixed(limit: usize) -> Self {
        Self {
            adaptive: None,
            limit,
            in_flight: 0,
        }
    }

    pub(crate) fn adaptive(semaphore: AdaptiveSemaphore, clock: &ManualClock) -> Self {
        let limit = semaphore.snapshot().permits.limit as usize;
        let adaptive = Some(Arc::new(semaphore.clock(clock)));
        Self {
            adaptive,
            ..Self::fixed(limit)
        }
    }

    /// Begins a call, for which there must be room.
    fn begin(&mut self) -> Permit {
        self.in_flight += 1;
        let permit = Arc::clone(self.adaptive.as_ref()?).try_acquire_owned();
        Some(permit.expect("there is room"))
    }

    fn end(&mut self, permit: Permit, said: Said) {
        self.in_flight -= 1;
        match (permit, said) {
            (Some(permit), Said::Overloaded) => permit.overloaded(),
            (Some(permit), Said::Ignore) => permit.ignore(),
            (permit, _) => drop(permit),
        }
        if let Some(adaptive) = &self.adaptive {
            self.limit = adaptive.snapshot().permits.limit as usize;
        }
    }
}

/// The trace of a run.
#[derive(Clone)]
pub(crate) struct Trace {
    /// The good answers in each span.
    pub(crate) answers: Vec<u32>,
    /// The refused calls in each span.
    pub(crate) refused: Vec<u32>,
    /// The good answers to each client in each phase.
    pub(crate) shares: Vec<Vec<u32>>,
    /// The sum of the limits at the end of each span.
    pub(crate) limits: Vec<usize>,
    /// The end and the length, in seconds, of each call's time in service.
    pub(crate) calls: Vec<(Nanos, f64)>,
    /// The same for their sum.
    pub(crate) highest_limit: usize,
}

impl Trace {
    /// Returns the calls that ended in a time range.
    pub(crate) fn calls_in(&self, time: &Range<Nanos>) -> &[(Nanos, f64)] {
        let at = |time| self.calls.partition_point(|(end, _)| *end < time);
        &self.calls[at(time.start)..at(time.end)]
    }
}

/// A request in the server.
struct Call {
    job: Job,
    began: Nanos,
    permit: Permit,
}

/// A queue, and the limit behind it.
struct Client {
    line: Waiting,
    limiter: Limiter,
}

/// Runs a scenario. `make` makes the limiter of each client, on the shared clock. With `every_call` the
/// trace includes the calls.
pub(crate) fn run(
    scenario: &Scenario,
    jobs: &[Job],
    make: impl Fn(usize, &ManualClock) -> Limiter,
    every_call: bool,
) -> Trace {
    // Clients share a clock, unless their clocks differ.
    let clocks: Vec<_> = if scenario.apart > 0.0 {
        let last = scenario.clients.len() as f64 - 1.0;
        let apart = |number| Duration::from_secs_f64(scenario.apart * number as f64 / last);
        let clock = |number| {
            let clock = Clock::manual();
            clock.advance(apart(number));
            clock
        };
        (0..scenario.clients.len()).map(clock).collect()
    } else {
        vec![Clock::manual()]
    };
    let client = |number: usize| {
        let limiter = make(number, &clocks[number % clocks.len()]);
        let (order, jobs) = (scenario.line, VecDeque::new());
        let line = Waiting { order, jobs };
        Client { line, limiter }
    };
    let clients: Vec<_> = (0..scenario.clients.len()).map(client).collect();
    let limit = clients.iter().map(|client| client.limiter.limit).sum();
    // Nobody reads the clock of fixed limits.
    let is_timed = clients.iter().any(|it| it.limiter.adaptive.is_some());
    let spans = scenario.spans();
    let end = spans.last().expect("a scenario has a phase").1.end;
    let count = end.div_ceil(SPAN) as usize;
    let mut system = System {
        clients,
        limit,
        servers: {
            let phase = spans[0].0;
            let others = phase.others.into_iter().filter(|workers| *workers > 0);
            let workers = [phase.workers].into_iter().chain(others);
            let server = |workers| Server::new(scenario.server, workers, phase);
            workers.map(server).collect()
        },
        chosen: Rand64::new(scenario.clients.len() as u128),
        entered: 0,
        under_way: VecDeque::new(),
        again: BTreeMap::new(),
        scenario,
        abandons: VecDeque::new(),
        trace: Trace {
            answers: vec![0; count],
            refused: vec![0; count],
            shares: vec![vec![0; scenario.clients.len()]],
            limits: Vec::with_capacity(count),
            calls: Vec::new(),
            highest_limit: limit,
        },
        every_call,
    };
    let mut last = 0;
    let mut arrivals = jobs.iter().peekable();
    let mut changes = spans.iter().skip(1).peekable();
    loop {
        let ends = system.next_end().map_or(Nanos::MAX, |end| end.0);
        let returns = system.under_way.front().map_or(Nanos::MAX, |it| it.0);
        let again = system
            .again
            .first_key_value()
            .map_or(Nanos::MAX, |it| it.0.0);
        let arrives = arrivals.peek().map_or(Nanos::MAX, |job| job.at);
        let changes_at = changes.peek().map_or(end, |(_, span)| span.start);
        let abandons = system.abandons.front().map_or(Nanos::MAX, |call| call.0);
        let now = ends.min(arrives).min(changes_at).min(abandons);
        let now = now.min(returns).min(again);
        while (system.trace.limits.len() as Nanos + 1) * SPAN <= now {
            system.trace.limits.push(system.limit);
        }
        if is_timed {
            let shown = now - now % scenario.resolution;
            for clock in &clocks {
                clock.advance(Duration::from_nanos(shown - last));
            }
            last = shown;
        }
        if now == changes_at {
            let Some((phase, _)) = changes.next() else {
                return system.trace;
            };
            let workers = [phase.workers, phase.others[0], phase.others[1]];
            for (server, workers) in system.servers.iter_mut().zip(workers) {
                server.change(now, workers, phase);
            }
            if !phase.continues {
                system.trace.shares.push(vec![0; scenario.clients.len()]);
            }
        } else if now == returns {
            system.returned(now);
        } else if now == ends {
            system.end(now);
        } else if now == abandons {
            system.abandon(now);
        } else if now == again {
            if let Some((_, job)) = system.again.pop_first() {
                system.arrive(now, job);
            }
        } else if let Some(job) = arrivals.next() {
            system.arrive(now, *job);
        }
    }
}

struct System<'a> {
    scenario: &'a Scenario,
    clients: Vec<Client>,
    /// The sum of the limits.
    limit: usize,
    /// Those of the phase, in its order.
    servers: Vec<Server<Call>>,
    chosen: Rand64,
    entered: usize,
    /// The answers that are under way, and when they arrive.
    under_way: VecDeque<(Nanos, Call, bool)>,
    /// The requests that are made again, in the order of their times.
    again: BTreeMap<(Nanos, u64), Job>,
    /// When callers abandon their calls, and the servers and numbers of these calls, in this order.
    abandons: VecDeque<(Nanos, usize, u64)>,
    trace: Trace,
    every_call: bool,
}

impl System<'_> {
    /// Returns when the next call ends, and its server.
    fn next_end(&self) -> Option<(Nanos, usize)> {
        let servers = self.servers.iter().enumerate();
        servers
            .filter_map(|(number, server)| Some((server.next_end()?, number)))
            .min()
    }

    /// Returns the server for a call.
    fn choose(&mut self) -> usize {
        let count = self.servers.len();
        if count == 1 {
            return 0;
        }
        self.entered += 1;
        match self.scenario.balance {
            Balance::RoundRobin => self.entered % count,
            Balance::Random => self.chosen.rand_range(0..count as u64) as usize,
            Balance::LeastOpen => {
                // Servers with equally many calls take turns.
                let order = (0..count).map(|n| (n + self.entered) % count);
                order.min_by_key(|n| self.servers[*n].open()).unwrap_or(0)
            }
        }
    }

    fn arrive(&mut self, now: Nanos, job: Job) {
        self.clients[job.client].line.push(job);
        self.admit(now, job.client);
    }

    fn admit(&mut self, now: Nanos, client: usize) {
        loop {
            let chosen = self.choose();
            let client = &mut self.clients[client];
            if client.limiter.in_flight >= client.limiter.limit {
                return;
            }
            let Some(job) = client.line.pop(now) else {
                return;
            };
            let permit = client.limiter.begin();
            let began = now;
            let call = Call { job, began, permit };
            let number = self.servers[chosen].enter(now, call, job.work);
            if self.scenario.abandoned.is_some() {
                let timeout = match self.scenario.timeout {
                    0.0 => job.deadline - job.at,
                    seconds => (seconds * SECOND as f64) as Nanos,
                };
                self.abandons.push_back((now + timeout, chosen, number));
            }
        }
    }

    fn end(&mut self, now: Nanos) {
        let Some((_, server)) = self.next_end() else {
            return;
        };
        let Some((call, is_refused)) = self.servers[server].end(now) else {
            return;
        };
        let network = (self.scenario.network * SECOND as f64) as Nanos;
        self.under_way.push_back((now + network, call, is_refused));
    }

    /// Brings an answer to its caller.
    fn returned(&mut self, now: Nanos) {
        let Some((_, call, is_refused)) = self.under_way.pop_front() else {
            return;
        };
        let Call { job, began, permit } = call;
        let span = (now / SPAN) as usize;
        if is_refused {
            self.trace.refused[span] += 1;
            return self.release(now, job.client, permit, self.scenario.refused);
        }
        if now <= job.deadline {
            self.trace.answers[span] += 1;
            let shares = self.trace.shares.last_mut();
            shares.expect("a phase has begun")[job.client] += 1;
        }
        if self.every_call {
            let seconds = (now - began) as f64 / SECOND as f64;
            self.trace.calls.push((now, seconds));
        }
        self.release(now, job.client, permit, Said::Nothing);
    }

    fn abandon(&mut self, now: Nanos) {
        let Some((_, server, number)) = self.abandons.pop_front() else {
            return;
        };
        let Some(call) = self.servers[server].remove(now, number) else {
            return;
        };
        let said = self.scenario.abandoned.unwrap_or(Said::Ignore);
        let again = match self.scenario.retry {
            Retry::AtOnce => Some(now),
            // As random as its work.
            Retry::Spread => Some(now + call.job.work.to_bits() % SECOND),
            Retry::Never => None,
        };
        if let Some(at) = again.filter(|_| call.job.tries < 3) {
            self.entered += 1;
            self.again
                .insert((at, self.entered as u64), call.job.again(at));
        }
        self.release(now, call.job.client, call.permit, said);
    }

    fn release(&mut self, now: Nanos, number: usize, permit: Permit, said: Said) {
        let client = &mut self.clients[number];
        self.limit -= client.limiter.limit;
        client.limiter.end(permit, said);
        self.limit += client.limiter.limit;
        self.trace.highest_limit = self.trace.highest_limit.max(self.limit);
        self.admit(now, number);
    }
}

/// The queue in front of the limit, in which clients give up.
struct Waiting {
    order: Line,
    jobs: VecDeque<Job>,
}

impl Waiting {
    fn push(&mut self, job: Job) {
        // The oldest is in front: requests that have given up leave, so the queue is bounded.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenarios::{equal, named};

    const MILLISECOND: Nanos = SECOND / 1_000;

    /// Returns the ends and the times in service of two simultaneous requests of these clients, before one
    /// worker that takes 10 ms, with a limit of 1 for each client.
    fn two_calls(clients: [usize; 2]) -> Vec<(Nanos, f64)> {
        let mut scenario = named("M/M/10");
        scenario.clients = equal(2);
        scenario.phases[0].workers = 1;
        let job = |client| Job {
            at: MILLISECOND,
            client,
            deadline: SECOND,
            gives_up: SECOND,
            work: 1.0,
            alone: 0.01,
            tries: 0,
        };
        let trace = run(&scenario, &clients.map(job), |_, _| Limiter::fixed(1), true);
        let answers = |client| clients.iter().filter(|each| **each == client).count() as u32;
        assert_eq!(trace.shares, [[answers(0), answers(1)]]);
        trace.calls
    }

    #[test]
    fn clients_have_limits_of_their_own_and_one_server() {
        let [first, second] = [11, 21].map(|end| end * MILLISECOND);
        // The second waits in the server.
        assert_eq!(two_calls([0, 1]), [(first, 0.01), (second, 0.02)]);
        // The second waits in front of the limit.
        assert_eq!(two_calls([0, 0]), [(first, 0.01), (second, 0.01)]);
    }
}
