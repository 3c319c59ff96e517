//! The clients' demand: when their requests arrive, and how much work each request is. All runs of
//! a scenario with one seed have the same requests.

use std::ops::Range;

use oorandom::Rand64;

use crate::scenarios::{Client, Law, Scenario};

/// A nanosecond of simulated time.
pub(crate) type Nanos = u64;

pub(crate) const SECOND: Nanos = 1_000_000_000;

/// A request of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) at: Nanos,
    pub(crate) client: usize,
    /// An answer after this time is worthless.
    pub(crate) deadline: Nanos,
    /// When a client gives up that still waits in front of the limit.
    pub(crate) gives_up: Nanos,
    /// In units of the mean service time.
    pub(crate) work: f64,
    /// The seconds that it takes if the server does nothing else.
    pub(crate) alone: f64,
    /// How many times it was made before.
    pub(crate) tries: u8,
}

impl Job {
    /// Returns the same request, made at another time.
    pub(crate) fn again(self, at: Nanos) -> Self {
        let later = at - self.at;
        Self {
            at,
            deadline: self.deadline + later,
            gives_up: self.gives_up + later,
            tries: self.tries + 1,
            ..self
        }
    }
}

/// An answer is good within this many mean service times of arrival.
pub(crate) const PATIENCE: f64 = 20.0;

/// Draws the requests of a scenario: a Poisson process in each phase, split among the clients by
/// share. The requests of an absent client are left out.
pub(crate) fn jobs(scenario: &Scenario, seed: u64) -> Vec<Job> {
    let mut random = Random(Rand64::new(u128::from(seed)));
    let mut jobs = Vec::new();
    for (number, (phase, span)) in scenario.spans().into_iter().enumerate() {
        let mut at = span.start as f64;
        loop {
            at += random.exponential() * SECOND as f64 / phase.arrivals;
            if at >= span.end as f64 {
                break;
            }
            let at = at as Nanos;
            let after = |services: f64| at + (services * phase.service * SECOND as f64) as Nanos;
            let client = random.client(&scenario.clients);
            let work = random.work(phase.law.unwrap_or(scenario.law));
            let job = Job {
                at,
                client,
                deadline: after(PATIENCE + scenario.network / phase.service),
                gives_up: after(scenario.patience),
                work,
                alone: work * phase.service + scenario.network,
                tries: 0,
            };
            let client = scenario.clients[job.client];
            let starts = (client.starts * SECOND as f64) as Nanos;
            if at >= starts && client.away != Some(number) {
                jobs.push(job);
            }
        }
    }
    jobs
}

/// Returns the 99th percentile of the time in service, in seconds, of the requests that arrive in a
/// phase, if each had the server to itself.
pub(crate) fn p99_alone(jobs: &[Job], span: &Range<Nanos>) -> f64 {
    let in_phase = jobs.iter().filter(|job| span.contains(&job.at));
    let mut alone: Vec<_> = in_phase.map(|job| job.alone).collect();
    p99(&mut alone)
}

/// Returns the 99th percentile, by the nearest rank, and NaN if there are no values.
pub(crate) fn p99(values: &mut [f64]) -> f64 {
    let rank = (values.len() * 99).div_ceil(100);
    match rank.checked_sub(1) {
        Some(rank) => *values.select_nth_unstable_by(rank, f64::total_cmp).1,
        None => f64::NAN,
    }
}

struct Random(Rand64);

impl Random {
    /// Draws a variate with mean 1.
    fn exponential(&mut self) -> f64 {
        -(1.0 - self.0.rand_float()).ln()
    }

    /// Uses the method of Box and Muller.
    fn normal(&mut self) -> f64 {
        let radius = (2.0 * self.exponential()).sqrt();
        radius * (std::f64::consts::TAU * self.0.rand_float()).cos()
    }

    /// Chooses a client by the shares.
    fn client(&mut self, clients: &[Client]) -> usize {
        let [rest @ .., _] = clients else { return 0 };
        if rest.is_empty() {
            return 0;
        }
        let mut left = self.0.rand_float();
        let is_it = |client: &Client| {
            left -= client.share;
            left < 0.0
        };
        rest.iter().position(is_it).unwrap_or(rest.len())
    }

    /// Draws a variate with mean 1.
    fn work(&mut self, law: Law) -> f64 {
        match law {
            Law::Exponential => self.exponential(),
            Law::Deterministic => 1.0,
            Law::Lognormal { cv } => {
                let variance = (1.0 + cv * cv).ln();
                (variance.sqrt() * self.normal() - variance / 2.0).exp()
            }
            Law::Bimodal { short, long } => {
                // The mean is 1: short·(1 − p) + long·p.
                let is_long = self.0.rand_float() < (1.0 - short) / (long - short);
                if is_long { long } else { short }
            }
            Law::Cache { slow, ratio } => {
                let value = if self.0.rand_float() < slow {
                    ratio
                } else {
                    1.0
                };
                let varied = value * (0.8 + 0.4 * self.0.rand_float());
                varied / (1.0 - slow + slow * ratio)
            }
            Law::Pareto { shape } => {
                (1.0 - 1.0 / shape) * (1.0 - self.0.rand_float()).powf(-1.0 / shape)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenarios::{equal, named};

    #[test]
    fn clients_have_their_shares_from_when_they_start_but_not_while_they_are_away() {
        let mut scenario = named("c 10→5→20→10");
        scenario.clients = equal(2);
        scenario.clients[0].share = 0.25;
        scenario.clients[1].share = 0.75;
        scenario.clients[1].starts = 5.0;
        scenario.clients[1].away = Some(2);
        let jobs = jobs(&scenario, 1);
        let count = |client, seconds: Range<Nanos>| {
            let time = seconds.start * SECOND..seconds.end * SECOND;
            let is_counted = |job: &&Job| job.client == client && time.contains(&job.at);
            jobs.iter().filter(is_counted).count() as f64
        };
        assert_eq!(count(1, 0..5), 0.0);
        assert_eq!(count(1, 40..60), 0.0);
        for (client, seconds) in [(0, 0..20), (0, 40..60), (1, 20..40), (1, 60..80)] {
            let expected = 1_500.0 * scenario.clients[client].share;
            let rate = count(client, seconds) / 20.0;
            assert!((rate / expected - 1.0).abs() < 0.05, "{client}: {rate}");
        }
    }
}
