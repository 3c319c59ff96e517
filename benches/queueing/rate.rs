//! A rate that finds itself, before a server whose rate changes: the real
//! [`AdaptiveRate`] on a manual clock.
//!
//! 1. Clients ask for more than the server accepts, all the time: each makes its next request as soon
//!    as its limiter admits it.
//! 2. A request takes half of the round trip to the server, and half of it back, each up to 10 % more or
//!    less at random, so requests overtake each other.
//! 3. The server is a rate limiter, which charges nothing for what it refuses. Its rate is `1`, `1/2`,
//!    `2` and `1` times that of the scenario, for 60 seconds each and at first up to 10 more, so that a
//!    change comes at any time since the last cut. Other scenarios have other phases, each of which is
//!    up to 10 seconds longer; in an outage, the server refuses everything.

use std::collections::VecDeque;
use std::thread;
use std::time::Duration;

use oorandom::Rand64;
use tollgate::adaptive::{AdaptiveRate, RatePermit};
use tollgate::{Quota, RateLimiter};
use tollgate_bench::events::Events;
use tollgate_bench::harness::Spread;

use crate::table::Row;

/// How long after a change the client has to use the rate.
const TO_FIND: f64 = 15.0;

/// A time in which the server does not change.
#[derive(Clone, Copy)]
struct Phase {
    /// Its rate in relation to that of the scenario; 0 is an outage.
    rate: f64,
    /// In seconds.
    length: f64,
    /// How much longer the phase is at random, at most.
    longer: f64,
}

const fn phase(rate: f64, length: f64, longer: f64) -> Phase {
    Phase {
        rate,
        length,
        longer,
    }
}

/// The rate rises at the beginning of the third phase of each scenario.
const RISE: usize = 2;

/// The phases of the specification.
const HALF_AND_FOUR_TIMES: &[Phase] = &[
    phase(1.0, 60.0, 10.0),
    phase(0.5, 60.0, 0.0),
    phase(2.0, 60.0, 0.0),
    phase(1.0, 60.0, 0.0),
];

const OUTAGE: &[Phase] = &[
    phase(1.0, 60.0, 10.0),
    phase(0.0, 30.0, 10.0),
    phase(1.0, 60.0, 10.0),
];

const A_TENTH: &[Phase] = &[
    phase(1.0, 60.0, 10.0),
    phase(0.1, 60.0, 10.0),
    phase(1.0, 60.0, 10.0),
];

/// What the server says when it refuses.
#[derive(Clone, Copy)]
enum RetryAfter {
    Nothing,
    /// So many seconds in an outage, and otherwise nothing.
    InOutage(u64),
    /// Exactly when it accepts again.
    Exact,
    /// In whole seconds, as HTTP has it.
    Seconds,
}

/// A server, and who asks it.
#[derive(Clone, Copy)]
struct Scenario {
    name: &'static str,
    /// Per second.
    rate: f64,
    /// The seconds of its rate that the server accepts at once, and at least four requests; 0 is one
    /// request.
    burst: f64,
    /// In seconds.
    round_trip: f64,
    /// How much longer or shorter a way takes, in relation to half of the round trip.
    jitter: f64,
    retry_after: RetryAfter,
    clients: usize,
    phases: &'static [Phase],
    /// The seconds in which the rate has to be found after its [`RISE`].
    to_find: f64,
    /// The refused part that is wanted; where there is none, that of each phase is shown.
    refused: Option<f64>,
    decides: bool,
}

/// The scenario of the specification.
const USUAL: Scenario = Scenario {
    name: "rate 500, 250, 1000, 500/s",
    rate: 500.0,
    burst: 0.1,
    round_trip: 0.1,
    jitter: 0.1,
    retry_after: RetryAfter::Nothing,
    clients: 1,
    phases: HALF_AND_FOUR_TIMES,
    to_find: TO_FIND,
    refused: Some(0.005),
    decides: true,
};

/// A server that is down for half a minute.
const DOWN: Scenario = Scenario {
    name: "rate, outage",
    phases: OUTAGE,
    to_find: 5.0,
    refused: None,
    ..USUAL
};

/// A server that has a tenth of its rate for a minute.
const SLOW: Scenario = Scenario {
    name: "rate 300, 30, 300/s",
    rate: 300.0,
    phases: A_TENTH,
    to_find: 6.0,
    ..DOWN
};

/// The same with one thing changed. Those that are missed decide nothing:
///
/// - At 20 per second, one refusal in seven seconds, which finding four times the rate in 15 seconds
///   takes, is more than 0.5 %.
/// - Half a second away, a server that becomes half as fast refuses 0.28 % until the first refusal is
///   back, whatever the client does.
/// - A burst of a second hides for long that the client is too fast.
/// - What is sent evenly does not arrive evenly. A server without a burst refuses it at any rate.
/// - A second of pause in seven seconds is a seventh of the rate.
#[rustfmt::skip]
const SCENARIOS: &[Scenario] = &[
    USUAL,
    Scenario { name: "rate ×10", rate: 5_000.0, ..USUAL },
    Scenario { name: "rate ÷25", rate: 20.0, decides: false, ..USUAL },
    Scenario { name: "rate, 10 ms away", round_trip: 0.01, ..USUAL },
    Scenario { name: "rate, 500 ms away", round_trip: 0.5, decides: false, ..USUAL },
    Scenario { name: "rate, bursts of 1 s", burst: 1.0, decides: false, ..USUAL },
    Scenario { name: "rate, bursts of 20 ms", burst: 0.02, ..USUAL },
    Scenario { name: "rate, no bursts", burst: 0.0, decides: false, ..USUAL },
    Scenario { name: "rate, no bursts, no jitter", burst: 0.0, jitter: 0.0, decides: false, ..USUAL },
    Scenario { name: "rate, exact Retry-After", retry_after: RetryAfter::Exact, ..USUAL },
    Scenario { name: "rate, Retry-After in seconds", retry_after: RetryAfter::Seconds, decides: false, ..USUAL },
    Scenario { name: "rate, 3 clients", clients: 3, ..USUAL },
    DOWN,
    Scenario { name: "rate, outage, Retry-After 5 s", retry_after: RetryAfter::InOutage(5), to_find: 8.0, ..DOWN },
    SLOW,
];

/// What came of a scenario.
#[derive(Clone, Debug, Default)]
struct Outcome {
    /// What the server accepted in each phase, from [`TO_FIND`] after its beginning on, in relation to
    /// its rate; nothing in an outage.
    goodput: Vec<f64>,
    /// The same over all the time.
    whole: f64,
    /// The refused part of all requests, and of those that [`goodput`](Self::goodput) is of.
    refused: [f64; 2],
    /// How many requests were refused in each phase, and which part of its requests they are.
    refused_in: Vec<(f64, f64)>,
    /// The seconds until the server was used to 90 % for a second: from the beginning, and after the
    /// [`RISE`].
    found: [f64; 2],
    /// The part of each client, from the second phase on.
    shares: Vec<f64>,
}

/// Something that happens at a tick.
enum Event<'a> {
    /// A client is perhaps admitted.
    Ask(usize),
    Arrive(usize, RatePermit<&'a AdaptiveRate>),
    /// With the `Retry-After` of a refusal.
    Answer(RatePermit<&'a AdaptiveRate>, Option<Option<Duration>>),
    /// A phase begins.
    Phase(usize),
}

struct Simulation<'a> {
    scenario: Scenario,
    server: RateLimiter,
    clients: &'a [AdaptiveRate],
    random: Rand64,
    events: Events<Event<'a>>,
    /// When each phase begins and the last one ends, in seconds.
    changes: Vec<f64>,
    phase: usize,
    /// The times at which the server accepted, of the last second.
    recent: VecDeque<f64>,
    /// By phase, as the three that follow.
    accepted: Vec<u64>,
    settled: Vec<u64>,
    refused: Vec<u64>,
    settled_refused: Vec<u64>,
    by_client: Vec<u64>,
    found: [Option<f64>; 2],
}

impl<'a> Simulation<'a> {
    fn now(&self) -> f64 {
        self.events.now() as f64 / 1e9
    }

    /// Returns half of a round trip.
    fn way(&mut self) -> Duration {
        let around = 1.0 + self.scenario.jitter * (2.0 * self.random.rand_float() - 1.0);
        Duration::from_secs_f64(self.scenario.round_trip / 2.0 * around)
    }

    /// Returns the server's rate.
    fn rate(&self) -> f64 {
        self.scenario.rate * self.scenario.phases[self.phase].rate
    }

    fn run(&mut self) {
        let phases = self.scenario.phases.len();
        let end = self.changes[phases];
        for phase in 0..phases {
            let at = Duration::from_secs_f64(self.changes[phase]);
            self.events.after(at, Event::Phase(phase));
        }
        for client in 0..self.clients.len() {
            let begins = Duration::from_secs_f64(0.1 * self.random.rand_float());
            self.events.after(begins, Event::Ask(client));
        }
        while let Some(event) = self.events.next_before(u64::MAX)
            && self.now() < end
        {
            self.happens(event);
        }
    }

    fn happens(&mut self, event: Event<'a>) {
        match event {
            Event::Phase(phase) => {
                self.phase = phase;
                if self.rate() > 0.0 {
                    self.server
                        .set_quota(quota(self.rate(), self.scenario.burst));
                }
            }
            Event::Ask(client) => {
                let clients = self.clients;
                let wait = loop {
                    match clients[client].try_acquire() {
                        Ok(permit) => {
                            let way = self.way();
                            self.events.after(way, Event::Arrive(client, permit));
                        }
                        Err(error) => break error.retry_after().expect("it is open"),
                    }
                };
                self.events.after(wait, Event::Ask(client));
            }
            Event::Arrive(client, permit) => {
                let refusal = match self.rate() {
                    0.0 => Some(Duration::ZERO),
                    _ => self
                        .server
                        .try_acquire()
                        .err()
                        .and_then(|it| it.retry_after()),
                };
                match refusal {
                    None => self.accept(client),
                    Some(_) => self.refuse(),
                }
                let says = refusal.map(|after| match self.scenario.retry_after {
                    RetryAfter::InOutage(seconds) if self.rate() == 0.0 => {
                        Some(Duration::from_secs(seconds))
                    }
                    RetryAfter::Nothing | RetryAfter::InOutage(_) => None,
                    RetryAfter::Exact => Some(after),
                    RetryAfter::Seconds => {
                        Some(Duration::from_secs_f64(after.as_secs_f64().ceil()))
                    }
                });
                let way = self.way();
                self.events.after(way, Event::Answer(permit, says));
            }
            Event::Answer(permit, None) => drop(permit),
            Event::Answer(permit, Some(retry_after)) => permit.throttled(retry_after),
        }
    }

    fn is_settled(&self) -> bool {
        self.now() >= self.changes[self.phase] + TO_FIND
    }

    fn refuse(&mut self) {
        self.refused[self.phase] += 1;
        self.settled_refused[self.phase] += u64::from(self.is_settled());
    }

    fn accept(&mut self, client: usize) {
        let (now, rate, since) = (self.now(), self.rate(), self.changes[self.phase]);
        self.accepted[self.phase] += 1;
        self.settled[self.phase] += u64::from(self.is_settled());
        if self.phase > 0 {
            self.by_client[client] += 1;
        }
        self.recent.push_back(now);
        while self.recent.front().is_some_and(|at| *at < now - 1.0) {
            self.recent.pop_front();
        }
        let which = match self.phase {
            0 => 0,
            RISE => 1,
            _ => return,
        };
        if self.found[which].is_none() && self.recent.len() as f64 >= 0.9 * rate {
            self.found[which] = Some(now - since);
        }
    }

    fn outcome(&self) -> Outcome {
        let phases = || self.scenario.phases.iter().enumerate();
        let length = |phase| self.changes[phase + 1] - self.changes[phase];
        let rate = |phase: &Phase| self.scenario.rate * phase.rate;
        let goodput = phases()
            .filter(|(_, it)| it.rate > 0.0)
            .map(|(n, it)| self.settled[n] as f64 / rate(it) / (length(n) - TO_FIND));
        let offered: f64 = phases().map(|(n, it)| rate(it) * length(n)).sum();
        let part = |refused: u64, accepted: u64| refused as f64 / (refused + accepted) as f64;
        let sum = |counts: &[u64]| counts.iter().sum::<u64>();
        let (accepted, settled) = (sum(&self.accepted), sum(&self.settled));
        let in_phases = self.refused.iter().zip(&self.accepted);
        let shared = self.by_client.iter().sum::<u64>() as f64;
        Outcome {
            goodput: goodput.collect(),
            whole: accepted as f64 / offered,
            refused: [
                part(sum(&self.refused), accepted),
                part(sum(&self.settled_refused), settled),
            ],
            refused_in: in_phases
                .map(|(refused, accepted)| (*refused as f64, part(*refused, *accepted)))
                .collect(),
            found: self.found.map(|found| found.unwrap_or(f64::INFINITY)),
            shares: self.by_client.iter().map(|n| *n as f64 / shared).collect(),
        }
    }
}

fn quota(rate: f64, burst: f64) -> Quota {
    let burst = match burst {
        0.0 => 1,
        burst => ((rate * burst) as u64).max(4),
    };
    Quota::per_second(rate as u64).burst(burst)
}

fn run(scenario: Scenario, seed: u64) -> Outcome {
    let events = Events::default();
    let mut random = Rand64::new(u128::from(seed));
    let clients: Vec<_> = (0..scenario.clients)
        .map(|_| AdaptiveRate::new().clock(events.clock()))
        .collect();
    let mut changes = vec![0.0];
    for phase in scenario.phases {
        let mut length = phase.length;
        if phase.longer > 0.0 {
            length += phase.longer * random.rand_float();
        }
        changes.push(changes[changes.len() - 1] + length);
    }
    let phases = scenario.phases.len();
    let mut simulation = Simulation {
        scenario,
        server: RateLimiter::new(quota(scenario.rate, scenario.burst)).clock(events.clock()),
        clients: &clients,
        random,
        events,
        changes,
        phase: 0,
        recent: VecDeque::new(),
        accepted: vec![0; phases],
        settled: vec![0; phases],
        refused: vec![0; phases],
        settled_refused: vec![0; phases],
        by_client: vec![0; scenario.clients],
        found: [None; 2],
    };
    simulation.run();
    simulation.outcome()
}

fn row(scenario: Scenario, seeds: &[u64]) -> Row {
    let outcomes: Vec<_> = seeds.iter().map(|seed| run(scenario, *seed)).collect();
    let median = |figure: &dyn Fn(&Outcome) -> f64| Spread::of(outcomes.iter().map(figure)).median;
    let of_phases = |length, figure: &dyn Fn(&Outcome, usize) -> f64| {
        let figures = (0..length).map(|phase| 100.0 * median(&|it| figure(it, phase)));
        figures.collect::<Vec<_>>()
    };
    let goodput = of_phases(outcomes[0].goodput.len(), &|it, phase| it.goodput[phase]);
    let whole = 100.0 * median(&|it| it.whole);
    let [refused, settled] = [0, 1].map(|which| 100.0 * median(&|it| it.refused[which]));
    let [first, found] = [0, 1].map(|which| median(&|it| it.found[which]));
    let to_find = scenario.to_find;
    let passed = goodput.iter().all(|part| *part >= 95.0)
        && scenario.refused.is_none_or(|most| refused <= 100.0 * most)
        && found <= to_find;
    let list = |figures: &[f64], decimals| {
        let figures = figures.iter().map(|it| format!("{it:.decimals$}"));
        figures.collect::<Vec<_>>().join(" ")
    };
    let parts = list(&goodput, 1);
    // The worst seed, as in the rows of concurrency limits.
    let all = |figure: &dyn Fn(&Outcome) -> f64| outcomes.iter().map(figure).collect::<Vec<_>>();
    let most = |figure: &dyn Fn(&Outcome) -> f64| all(figure).into_iter().fold(0.0, f64::max);
    let of_outcome = |it: &Outcome| it.goodput.iter().copied().fold(f64::INFINITY, f64::min);
    let least = 100.0 * all(&of_outcome).into_iter().fold(f64::INFINITY, f64::min);
    let [most_refused, latest] = [100.0 * most(&|it| it.refused[0]), most(&|it| it.found[1])];
    let of_refused = match scenario.refused {
        Some(wanted) => {
            let wanted = 100.0 * wanted;
            format!("{refused:.2} % (≤ {wanted}, {most_refused:.2}), {settled:.2} % settled")
        }
        None => {
            let phases = scenario.phases.len();
            let parts = of_phases(phases, &|it, phase| it.refused_in[phase].1);
            let counts = of_phases(phases, &|it, phase| it.refused_in[phase].0 / 100.0);
            format!("{} %, {} in number", list(&parts, 2), list(&counts, 0))
        }
    };
    let rise = scenario.phases[RISE].rate / scenario.phases[RISE - 1].rate;
    let rise = if rise.is_finite() {
        format!("{rise} ×")
    } else {
        "again".into()
    };
    let mut figures = format!(
        "{parts} % (≥ 95, {least:.1}), {whole:.1} % of all  refused {of_refused}  found {first:.1} s, {rise} {found:.1} s (≤ {to_find}, {latest:.1})"
    );
    if scenario.clients > 1 {
        let shares = outcomes.iter().map(|it| {
            let mut percent: Vec<_> = it
                .shares
                .iter()
                .map(|part| format!("{:2.0}", 100.0 * part))
                .collect();
            percent.sort();
            percent.join(":")
        });
        figures += &format!("  shares {}", shares.collect::<Vec<_>>().join(", "));
    }
    Row {
        scenario: scenario.name.to_owned(),
        controller: "AdaptiveRate".to_owned(),
        figures,
        passed,
        decides: scenario.decides,
    }
}

/// Returns the rows of the scenarios with such a name.
pub(crate) fn rows(seeds: &[u64], part: &str) -> Vec<Row> {
    let scenarios = SCENARIOS.iter().filter(|it| it.name.contains(part));
    thread::scope(|scope| {
        let rows = scenarios.map(|scenario| scope.spawn(move || row(*scenario, seeds)));
        let rows: Vec<_> = rows.collect();
        let rows = rows
            .into_iter()
            .map(|row| row.join().expect("no row panics"));
        rows.collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_another_seed_pass_and_are_the_same_again() {
        let [row, again] = [(); 2].map(|()| row(USUAL, &[11]));
        assert!(row.passed, "{row}");
        assert_eq!(row.to_string(), again.to_string());
    }
}
