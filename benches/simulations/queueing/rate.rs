//! An adaptive rate, before a server whose rate changes: the real [`AdaptiveRate`] on a manual
//! clock.
//!
//! 1. Clients ask for more than the server accepts, all the time: each makes its next request as soon
//!    as its limiter admits it.
//! 2. A request takes half of the round trip to the server, and half of it back, each up to 10 % more or
//!    less at random, so requests overtake each other.
//! 3. The server is a rate limiter that charges nothing for a refusal. Its rate is `1`, `1/2`, `2` and
//!    `1` times that of the scenario, for 60 seconds each and up to 10 more at first, so that the
//!    change falls at any time since the last cut. Other scenarios have other phases, each up to 10
//!    seconds longer; in an outage, the server refuses everything.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use oorandom::Rand64;
use simulations::events::Events;
use simulations::spread::Spread;
use tollgate::{Algorithm, Quota, RateLimiter};
use tollgate_adaptive::{AdaptiveRate, RatePermit};

use crate::judge::Row;
use crate::parallel;

/// The time that the client has after a change to use the rate.
const TO_FIND: f64 = 15.0;

/// A time in which the server does not change.
#[derive(Clone, Copy)]
struct Phase {
    /// Its rate relative to that of the scenario; 0 is an outage.
    rate: f64,
    /// In seconds.
    length: f64,
    /// The greatest random extension of the phase.
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

const AS_USUAL: Phase = phase(1.0, 60.0, 10.0);
const OUTAGE: &[Phase] = &[AS_USUAL, phase(0.0, 30.0, 10.0), AS_USUAL];
const A_TENTH: &[Phase] = &[AS_USUAL, phase(0.1, 60.0, 10.0), AS_USUAL];

/// The hint of the server when it refuses.
#[derive(Clone, Copy)]
enum RetryAfter {
    Nothing,
    /// This many seconds in an outage, and otherwise nothing.
    InOutage(u64),
    /// Exactly when it accepts again.
    Exact,
    /// In whole seconds, as HTTP has it.
    Seconds,
    /// This many seconds, always.
    Always(u64),
}

/// A server, and its clients.
#[derive(Clone, Copy)]
struct Scenario {
    name: &'static str,
    /// Per second.
    rate: f64,
    /// The burst in seconds of its rate, and at least four requests; 0 is one request.
    burst: f64,
    /// In seconds.
    round_trip: f64,
    /// The jitter of one way, relative to half of the round trip.
    jitter: f64,
    retry_after: RetryAfter,
    clients: usize,
    phases: &'static [Phase],
    /// Whether the server has fixed windows of a minute, in place of a bucket.
    windows: bool,
    /// The seconds within which the client has to find the rate after its [`RISE`].
    to_find: f64,
    /// The target for the goodput, in percent.
    goodput: f64,
    /// The target for the refused fraction; without a target, the table shows that of each phase.
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
    windows: false,
    to_find: TO_FIND,
    goodput: 95.0,
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

/// The same with one change. Rows that miss do not decide:
///
/// - At 20 per second, one refusal in seven seconds, the price of finding four times the rate in 15
///   seconds, is more than 0.5 %.
/// - Half a second away, a server that becomes half as fast refuses 0.28 % until the first refusal is
///   back, whatever the client does.
/// - A burst of a second hides for a long time that the client is too fast.
/// - Requests that are sent evenly do not arrive evenly. A server without a burst refuses some at
///   any rate.
/// - A pause of one second in seven costs a seventh of the rate.
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

/// An event at a tick.
enum Event {
    /// A client may be admitted.
    Ask(usize),
    Arrive(usize, RatePermit<Arc<AdaptiveRate>>),
    /// With the refusal's `Retry-After`.
    Answer(RatePermit<Arc<AdaptiveRate>>, Option<Option<Duration>>),
    /// A phase begins.
    Phase(usize),
}

/// The counts of accepted and refused requests.
#[derive(Clone, Copy, Default)]
struct Count {
    accepted: u64,
    refused: u64,
}

impl Count {
    /// Returns the refused fraction.
    fn part(self) -> f64 {
        self.refused as f64 / (self.refused + self.accepted) as f64
    }
}

/// A run of a scenario, and its results.
struct Run {
    scenario: Scenario,
    server: RateLimiter,
    clients: Vec<Arc<AdaptiveRate>>,
    random: Rand64,
    events: Events<Event>,
    /// When each phase begins and the last one ends, in seconds.
    changes: Vec<f64>,
    phase: usize,
    /// The times at which the server accepted in the last second.
    recent: VecDeque<f64>,
    /// For each phase: its whole length, and the part from [`TO_FIND`] after its beginning on.
    counts: Vec<[Count; 2]>,
    /// The accepted requests of each client, from the second phase on.
    by_client: Vec<u64>,
    /// The seconds until the server was used to 90 % for a second: from the beginning, and after the
    /// [`RISE`].
    found: [f64; 2],
}

impl Run {
    fn new(scenario: Scenario, seed: u64) -> Self {
        let events = Events::default();
        let mut random = Rand64::new(u128::from(seed));
        let client = |_| Arc::new(AdaptiveRate::new().clock(events.clock()));
        let mut changes = vec![0.0];
        for phase in scenario.phases {
            let mut length = phase.length;
            if phase.longer > 0.0 {
                length += phase.longer * random.rand_float();
            }
            changes.push(changes[changes.len() - 1] + length);
        }
        let mut run = Self {
            scenario,
            server: server(&scenario).clock(events.clock()),
            clients: (0..scenario.clients).map(client).collect(),
            random,
            events,
            changes,
            phase: 0,
            recent: VecDeque::new(),
            counts: vec![Default::default(); scenario.phases.len()],
            by_client: vec![0; scenario.clients],
            found: [f64::INFINITY; 2],
        };
        run.run();
        run
    }

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

    fn happens(&mut self, event: Event) {
        match event {
            Event::Phase(phase) => {
                self.phase = phase;
                if self.rate() > 0.0 && !self.scenario.windows {
                    let quota = quota(self.rate(), self.scenario.burst);
                    self.server.set_quota(quota);
                }
            }
            Event::Ask(client) => {
                let wait = loop {
                    match Arc::clone(&self.clients[client]).try_acquire_owned() {
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
                self.count(client, refusal.is_none());
                let says = refusal.map(|after| match self.scenario.retry_after {
                    RetryAfter::InOutage(seconds) if self.rate() == 0.0 => {
                        Some(Duration::from_secs(seconds))
                    }
                    RetryAfter::Nothing | RetryAfter::InOutage(_) => None,
                    RetryAfter::Always(seconds) => Some(Duration::from_secs(seconds)),
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

    fn count(&mut self, client: usize, is_accepted: bool) {
        let (now, rate, since) = (self.now(), self.rate(), self.changes[self.phase]);
        let is_settled = now >= since + TO_FIND;
        for count in &mut self.counts[self.phase][..=usize::from(is_settled)] {
            count.accepted += u64::from(is_accepted);
            count.refused += u64::from(!is_accepted);
        }
        if !is_accepted {
            return;
        }
        if self.phase > 0 {
            self.by_client[client] += 1;
        }
        self.recent.push_back(now);
        while self.recent.front().is_some_and(|at| *at < now - 1.0) {
            self.recent.pop_front();
        }
        let found = match self.phase {
            0 => &mut self.found[0],
            RISE => &mut self.found[1],
            _ => return,
        };
        if found.is_infinite() && self.recent.len() as f64 >= 0.9 * rate {
            *found = now - since;
        }
    }

    /// Returns the rate and the length of each phase.
    fn phases(&self) -> impl Iterator<Item = (f64, f64)> {
        let rates = self
            .scenario
            .phases
            .iter()
            .map(|it| self.scenario.rate * it.rate);
        rates.zip(self.changes.windows(2).map(|pair| pair[1] - pair[0]))
    }

    /// Returns the accepted rate of each phase that has settled, relative to the server's rate;
    /// nothing in an outage.
    fn goodput(&self) -> Vec<f64> {
        let phases = self
            .phases()
            .zip(&self.counts)
            .filter(|((rate, _), _)| *rate > 0.0);
        let part = |((rate, length), [_, settled]): (_, &[Count; 2])| {
            settled.accepted as f64 / rate / (length - TO_FIND)
        };
        phases.map(part).collect()
    }

    /// Returns the same over the whole run.
    fn whole(&self) -> f64 {
        let offered: f64 = self.phases().map(|(rate, length)| rate * length).sum();
        self.sum(0).accepted as f64 / offered
    }

    /// Returns the counts of all phases together: of their whole length, or of the settled parts.
    fn sum(&self, which: usize) -> Count {
        let counts = self.counts.iter().map(|counts| counts[which]);
        counts.fold(Count::default(), |sum, one| Count {
            accepted: sum.accepted + one.accepted,
            refused: sum.refused + one.refused,
        })
    }

    /// Returns the share of each client, in percent, in ascending order.
    fn shares(&self) -> String {
        let all = self.by_client.iter().sum::<u64>() as f64;
        let parts = self
            .by_client
            .iter()
            .map(|it| format!("{:2.0}", 100.0 * (*it as f64 / all)));
        let mut parts: Vec<_> = parts.collect();
        parts.sort();
        parts.join(":")
    }
}

fn server(scenario: &Scenario) -> RateLimiter {
    if scenario.windows {
        let count = (60.0 * scenario.rate) as u64;
        return RateLimiter::new(Quota::per_minute(count)).algorithm(Algorithm::FixedWindow);
    }
    RateLimiter::new(quota(scenario.rate, scenario.burst))
}

fn quota(rate: f64, burst: f64) -> Quota {
    let burst = match burst {
        0.0 => 1,
        burst => ((rate * burst) as u64).max(4),
    };
    Quota::new(1, Duration::from_secs_f64(1.0 / rate)).burst(burst)
}

fn row(scenario: &Scenario, seeds: &[u64]) -> Row {
    type Figure<'a> = &'a dyn Fn(&Run) -> f64;
    let runs: Vec<_> = seeds
        .iter()
        .map(|seed| Run::new(*scenario, *seed))
        .collect();
    let median = |figure: Figure<'_>| Spread::of(runs.iter().map(figure)).median;
    let most = |figure: Figure<'_>| Spread::of(runs.iter().map(figure)).max;
    let percent = |figure: Figure<'_>| 100.0 * median(figure);
    let list = |length, decimals, figure: &dyn Fn(&Run, usize) -> f64| {
        let figures = (0..length).map(|phase| median(&|it| figure(it, phase)));
        let figures = figures.map(|it| format!("{it:.decimals$}"));
        figures.collect::<Vec<_>>().join(" ")
    };
    let settled_phases = runs[0].goodput().len();
    let goodput = |phase| percent(&|it: &Run| it.goodput()[phase]);
    let [refused, settled] = [0, 1].map(|which| percent(&|it| it.sum(which).part()));
    let [first, found] = [0, 1].map(|which| median(&|it| it.found[which]));
    let to_find = scenario.to_find;
    let passed = (0..settled_phases).all(|phase| goodput(phase) >= scenario.goodput)
        && scenario.refused.is_none_or(|most| refused <= 100.0 * most)
        && found <= to_find;
    let parts = list(settled_phases, 1, &|it, phase| 100.0 * it.goodput()[phase]);
    let whole = percent(&Run::whole);
    // The worst seed, as in the rows of concurrency limits.
    let least = |it: &Run| it.goodput().into_iter().fold(f64::INFINITY, f64::min);
    let least = 100.0 * Spread::of(runs.iter().map(least)).min;
    let latest = most(&|it| it.found[1]);
    let of_refused = match scenario.refused {
        Some(wanted) => {
            let (wanted, worst) = (100.0 * wanted, 100.0 * most(&|it| it.sum(0).part()));
            format!("{refused:.2} % (≤ {wanted}, {worst:.2}), {settled:.2} % settled")
        }
        None => {
            let phases = scenario.phases.len();
            let parts = list(phases, 2, &|it, phase| 100.0 * it.counts[phase][0].part());
            let counts = list(phases, 0, &|it, phase| it.counts[phase][0].refused as f64);
            format!("{parts} %, {counts} in number")
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
        let shares: Vec<_> = runs.iter().map(Run::shares).collect();
        figures += &format!("  shares {}", shares.join(", "));
    }
    Row {
        scenario: scenario.name.to_owned(),
        controller: "AdaptiveRate".to_owned(),
        figures,
        passed,
        tenths: Vec::new(),
        decides: scenario.decides,
        is_world: false,
    }
}

/// A server that does not change, or does once. The client has forty minutes to find the rate; two hours count, which begin
/// 15 seconds after the change.
const STEADY: Scenario = Scenario {
    phases: &then(1.0),
    goodput: 90.0,
    refused: Some(0.02),
    ..USUAL
};

const fn then(rate: f64) -> [Phase; 2] {
    [
        phase(1.0, 2_400.0, 0.0),
        phase(rate, 7_200.0 + TO_FIND, 0.0),
    ]
}

/// The same at less than one in five seconds, where two hours have few calls.
const SLOWEST: Scenario = Scenario {
    rate: 0.1,
    goodput: 80.0,
    refused: Some(0.05),
    ..STEADY
};

/// The same with fixed windows of a minute, whose end a refusal names.
const WINDOWS: Scenario = Scenario {
    retry_after: RetryAfter::Seconds,
    windows: true,
    ..STEADY
};

/// Two rows do not decide. Before a server without a burst, any rate is refused; and after 300/s, a client of six a minute tries
/// at the former rate until it has forgotten it.
#[rustfmt::skip]
const STEADY_SCENARIOS: &[Scenario] = &[
    Scenario { name: "rate 100/s, Retry-After 1 s", rate: 100.0, retry_after: RetryAfter::Always(1), ..STEADY },
    Scenario { name: "rate 100/s, Retry-After 5 s", rate: 100.0, retry_after: RetryAfter::Always(5), ..STEADY },
    Scenario { name: "rate 100/s, Retry-After 30 s", rate: 100.0, retry_after: RetryAfter::Always(30), ..STEADY },
    Scenario { name: "rate 5/s, Retry-After 1 s", rate: 5.0, retry_after: RetryAfter::Always(1), ..STEADY },
    Scenario { name: "rate 5/s, Retry-After 30 s", rate: 5.0, retry_after: RetryAfter::Always(30), ..STEADY },
    Scenario { name: "rate 1/s, Retry-After 5 s", rate: 1.0, retry_after: RetryAfter::Always(5), ..STEADY },
    Scenario { name: "rate 6/min, Retry-After 10 s", retry_after: RetryAfter::Always(10), ..SLOWEST },
    Scenario { name: "rate 6/min, Retry-After 60 s", retry_after: RetryAfter::Always(60), ..SLOWEST },
    Scenario { name: "rate 1/min, Retry-After 60 s", rate: 1.0 / 60.0, retry_after: RetryAfter::Always(60), ..SLOWEST },
    Scenario { name: "rate 5/s, no Retry-After", rate: 5.0, ..STEADY },
    Scenario { name: "rate 1/s, no Retry-After", rate: 1.0, ..STEADY },
    Scenario { name: "rate 6/min, no Retry-After", ..SLOWEST },
    Scenario { name: "rate 100/s, then 50/s, Retry-After 5 s", rate: 100.0, phases: &then(0.5), retry_after: RetryAfter::Always(5), ..STEADY },
    Scenario { name: "rate 100/s, then 10/s, Retry-After 5 s", rate: 100.0, phases: &then(0.1), retry_after: RetryAfter::Always(5), ..STEADY },
    Scenario { name: "rate 100/s, then 200/s, Retry-After 5 s", rate: 100.0, phases: &then(2.0), retry_after: RetryAfter::Always(5), ..STEADY },
    Scenario { name: "rate 2/s, 3 s away, Retry-After 5 s", rate: 2.0, round_trip: 3.0, retry_after: RetryAfter::Always(5), ..STEADY },
    Scenario { name: "rate 100/s, no bursts, Retry-After 5 s", rate: 100.0, burst: 0.0, retry_after: RetryAfter::Always(5), decides: false, ..STEADY },
    Scenario { name: "rate 1/s, 10 clients", rate: 1.0, clients: 10, ..SLOWEST },
    Scenario { name: "rate 6/min, then 60/min", phases: &then(10.0), ..SLOWEST },
    Scenario { name: "rate 300/s, then 1/s", rate: 300.0, phases: &then(1.0 / 300.0), ..STEADY },
    Scenario { name: "rate 300/s, then 6/min", rate: 300.0, phases: &then(0.1 / 300.0), decides: false, ..SLOWEST },
    Scenario { name: "rate 6/min, windows", retry_after: RetryAfter::Seconds, windows: true, ..SLOWEST },
    Scenario { name: "rate 60/min, windows", rate: 1.0, ..WINDOWS },
    Scenario { name: "rate 600/min, windows", rate: 10.0, ..WINDOWS },
];

fn steady_row(scenario: &Scenario, seeds: &[u64]) -> Row {
    let runs: Vec<_> = seeds
        .iter()
        .map(|seed| Run::new(*scenario, *seed))
        .collect();
    let goodput = Spread::of(runs.iter().map(|it| 100.0 * it.goodput()[1]));
    let refused = Spread::of(runs.iter().map(|it| 100.0 * it.counts[1][1].part()));
    let least = scenario.goodput;
    let most = 100.0 * scenario.refused.unwrap_or(1.0);
    Row {
        scenario: scenario.name.to_owned(),
        controller: "AdaptiveRate".to_owned(),
        figures: format!(
            "{:.1} % (≥ {least}, worst tenth {:.1})  refused {:.2} % (≤ {most}, worst tenth {:.2})",
            goodput.median, goodput.p10, refused.median, refused.p90,
        ),
        passed: goodput.p10 >= least && refused.p90 <= most,
        decides: scenario.decides,
        tenths: Vec::new(),
        is_world: false,
    }
}

/// Returns the rows of the scenarios whose names contain one of these parts, separated by |.
pub(crate) fn rows(seeds: &[u64], parts: &str) -> Vec<Row> {
    let is_named = |name: &str| parts.split('|').any(|part| name.contains(part));
    let matching = |of: &'static [Scenario]| {
        let scenarios = of.iter().filter(|it| is_named(it.name));
        scenarios.collect::<Vec<_>>()
    };
    let mut rows = parallel(&matching(SCENARIOS), |scenario| row(scenario, seeds));
    rows.extend(parallel(&matching(STEADY_SCENARIOS), |scenario| {
        steady_row(scenario, seeds)
    }));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_another_seed_pass_and_are_the_same_again() {
        let [row, again] = [(); 2].map(|()| row(&USUAL, &[11]));
        assert!(row.passed, "{row}");
        assert_eq!(row.to_string(), again.to_string());
    }
}
