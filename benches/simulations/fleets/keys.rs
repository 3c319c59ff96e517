//! A fleet whose requests are for many keys, and do not wait.

use std::collections::HashMap;

use oorandom::Rand64;
use simulations::events::Events;

use super::server::{CALL, Micros};
use super::world::SECOND;

/// The keys: the one of rank `k` has a share of `1 / k`.
const KEYS: f64 = 1e6;
/// The limit of each: 10 a second, with a burst of 10.
const INTERVAL: Micros = SECOND / 10;
const BURST: Micros = 10 * INTERVAL;
/// The requests of the whole fleet in a second, and for how long.
pub(crate) const REQUESTS: u64 = 20_000;
const SECONDS: u64 = 10;

/// What a process knows of a key.
#[derive(Default)]
struct Known {
    /// The requests that wait for the next call, while one is under way.
    queued: Option<u64>,
    denied_until: Micros,
}

/// The results, as parts of the requests, and the calls in a second.
pub(crate) struct Outcome {
    pub(crate) calls: f64,
    pub(crate) coalesced: f64,
    pub(crate) known: f64,
    pub(crate) denied: f64,
    pub(crate) busy: f64,
}

/// A process and a key.
type Of = (u64, u64);

enum Event {
    Request,
    /// A call for some requests arrives, which was sent at that time.
    Arrive(Of, Micros, u64),
    /// The reply, with the time until the key admits a request again.
    Reply(Of, Micros, Micros),
}

/// Runs a fleet of processes, between 1 and 50 ms away, that get the requests at random.
pub(crate) fn run(processes: u64, seed: u64) -> Outcome {
    let mut random = Rand64::new(seed.into());
    let distances = (0..processes).map(|_| random.rand_range(500..25_001));
    let distances = distances.collect::<Vec<Micros>>();
    let mut limits = HashMap::<u64, (Micros, Micros)>::new();
    let mut known = HashMap::<Of, Known>::new();
    // A tick is a microsecond.
    let mut events = Events::default();
    let (mut requests, mut calls, mut coalesced, mut cached, mut denied) = (0, 0, 0, 0, 0);
    events.at(0, Event::Request);
    while let Some(event) = events.next_before(SECONDS * SECOND) {
        let now = events.now();
        match event {
            Event::Request => {
                let of = (
                    random.rand_range(0..processes),
                    KEYS.powf(random.rand_float()) as u64,
                );
                let gap = -(1.0 - random.rand_float()).ln() * SECOND as f64 / REQUESTS as f64;
                events.at(now + gap.ceil() as u64, Event::Request);
                requests += 1;
                let known = known.entry(of).or_default();
                match &mut known.queued {
                    _ if known.denied_until > now => (cached, denied) = (cached + 1, denied + 1),
                    Some(queued) => (*queued, coalesced) = (*queued + 1, coalesced + 1),
                    None => {
                        known.queued = Some(0);
                        events.at(now + distances[of.0 as usize], Event::Arrive(of, now, 1));
                    }
                }
            }
            Event::Arrive(of, sent, count) => {
                calls += 1;
                let (debt, last) = limits.entry(of.1).or_default();
                *debt = debt.saturating_sub(now - *last);
                *last = now;
                let admitted = count.min((BURST - *debt) / INTERVAL);
                *debt += admitted * INTERVAL;
                denied += count - admitted;
                let wait = (*debt + INTERVAL).saturating_sub(BURST);
                let wait = if admitted < count { wait } else { 0 };
                let arrives = now + CALL + distances[of.0 as usize];
                events.at(arrives, Event::Reply(of, sent, wait));
            }
            Event::Reply(of, sent, wait) => {
                let known = known.entry(of).or_default();
                // Believed from the moment when the call was sent.
                known.denied_until = sent + wait.min(SECOND);
                known.queued = known.queued.filter(|queued| *queued > 0).map(|queued| {
                    let arrives = now + distances[of.0 as usize];
                    events.at(arrives, Event::Arrive(of, now, queued));
                    0
                });
            }
        }
    }
    let part = |count: u64| count as f64 / requests as f64;
    Outcome {
        calls: calls as f64 / SECONDS as f64,
        coalesced: part(coalesced),
        known: part(cached),
        denied: part(denied),
        busy: (calls * CALL) as f64 / (SECONDS * SECOND) as f64,
    }
}
