//! A provider of language models that counts requests and tokens, written in the most obvious way.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode};
use tollgate_http::server_limits::Unit;

use crate::world::{Prompt, World};

/// The length of a window, and the time in which an empty bucket refills.
const MINUTE: f64 = 60.0;

/// Where the windows begin: not at the start of the client.
const OFFSET: f64 = 17.3;

/// How a provider counts over time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Counts {
    /// A bucket with room for the limit of a minute, which refills evenly.
    Bucket,
    /// Windows of a minute, all of the same start.
    Window,
}

/// What a provider counts for a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Charge {
    /// One, on arrival.
    Once,
    /// The maximum of `max_tokens` and an estimate of the prompt by its length, on arrival, for good.
    Maximum,
    /// The prompt and `max_tokens`, on arrival, for good.
    AtMost,
    /// The same, corrected to the usage when the call ends.
    Corrected,
    /// The usage, when the call ends.
    UsedAtEnd,
    /// The usage, as of the arrival.
    UsedAtArrival,
    /// The prompt, on arrival.
    Input,
    /// The answer, when the call ends.
    Output,
}

impl Charge {
    /// The charge on arrival, and the correction at the end.
    fn of(self, prompt: &Prompt) -> (f64, f64) {
        let used = if prompt.fails { 0 } else { prompt.used() };
        let (arrival, end) = match self {
            Self::Once => (1, 0),
            Self::Maximum => (prompt.estimate(), 0),
            Self::AtMost => (prompt.at_most(), 0),
            Self::Corrected => (prompt.at_most(), used as i64 - prompt.at_most() as i64),
            Self::UsedAtEnd => (0, used as i64),
            Self::UsedAtArrival => (used, 0),
            Self::Input => (prompt.tokens, 0),
            Self::Output => (0, prompt.answer as i64),
        };
        (arrival as f64, end as f64)
    }
}

/// One limit of a provider.
pub(crate) struct Meter {
    pub(crate) unit: Unit,
    charge: Charge,
    counts: Counts,
    limit: f64,
    level: f64,
    at: f64,
    /// What has been counted for the client.
    pub(crate) counted: f64,
    /// What was sent by the client and is not counted yet.
    expected: f64,
}

impl Meter {
    fn window(&self, now: f64) -> f64 {
        ((now + OFFSET) / MINUTE).floor()
    }

    fn pass(&mut self, now: f64) {
        match self.counts {
            Counts::Bucket => {
                let paid = self.limit * (now - self.at) / MINUTE;
                self.level = (self.level - paid).max(0.0);
            }
            Counts::Window if self.window(now) > self.window(self.at) => self.level = 0.0,
            Counts::Window => {}
        }
        self.at = now;
    }

    /// Returns whether a call has room. One that is charged later needs any room.
    fn fits(&self, cost: f64) -> bool {
        self.level + cost.max(1.0) <= self.limit + 1e-6
    }

    /// Adds a charge, or what is given back of one that was made at a time. A past window does not change.
    fn add(&mut self, units: f64, made: f64, now: f64) -> f64 {
        self.pass(now);
        if units < 0.0 && self.counts == Counts::Window && self.window(made) < self.window(now) {
            return 0.0;
        }
        self.level = (self.level + units).max(0.0);
        units
    }

    /// The time until there is room for a cost, or until all of the limit is available.
    fn until(&self, room: f64, now: f64) -> f64 {
        match self.counts {
            Counts::Bucket => ((self.level + room - self.limit) * MINUTE / self.limit).max(0.0),
            Counts::Window => (self.window(now) + 1.0) * MINUTE - OFFSET - now,
        }
    }
}

/// A provider with its limits.
pub(crate) struct Provider {
    world: World,
    pub(crate) meters: Vec<Meter>,
}

impl Provider {
    pub(crate) fn new(world: &World) -> Self {
        let meter = |(unit, charge, limit): (Unit, Charge, u64)| Meter {
            unit,
            charge,
            counts: world.counts,
            limit: limit as f64,
            level: 0.0,
            at: 0.0,
            counted: 0.0,
            expected: 0.0,
        };
        Self {
            world: *world,
            meters: world.limits().into_iter().map(meter).collect(),
        }
    }

    /// Returns the part of its limits that a prompt takes, of the limit of which it takes the most.
    pub(crate) fn part(&self, prompts: &[Prompt]) -> f64 {
        let part = |meter: &Meter| {
            let costs = prompts.iter().map(|prompt| meter.charge.of(prompt));
            let sum: f64 = costs.map(|(arrival, end)| arrival + end).sum();
            sum / prompts.len() as f64 / meter.limit
        };
        self.meters.iter().map(part).fold(0.0, f64::max)
    }

    /// Returns the seconds until a client that knows this state, and what its calls will use, sends the call.
    pub(crate) fn wait(&mut self, prompt: &Prompt, now: f64) -> f64 {
        let waits = self.meters.iter_mut().map(|meter| {
            meter.pass(now);
            let (arrival, end) = meter.charge.of(prompt);
            let room = arrival + end.max(0.0) + meter.expected;
            if meter.fits(room) {
                0.0
            } else {
                meter.until(room, now).max(0.001)
            }
        });
        waits.fold(0.0, f64::max)
    }

    /// The client sends a call.
    pub(crate) fn expect(&mut self, prompt: &Prompt) {
        for meter in &mut self.meters {
            let (arrival, end) = meter.charge.of(prompt);
            meter.expected += arrival + end.max(0.0);
        }
    }

    /// A call of the client arrives. Returns the head of the response, or of the refusal.
    pub(crate) fn arrive(&mut self, prompt: &Prompt, now: f64) -> (StatusCode, HeaderMap) {
        let mut fits = true;
        for meter in &mut self.meters {
            meter.pass(now);
            fits &= meter.fits(meter.charge.of(prompt).0);
        }
        let mut wait = 0.0_f64;
        for meter in &mut self.meters {
            let (arrival, end) = meter.charge.of(prompt);
            meter.expected -= arrival;
            if fits {
                meter.level += arrival;
                meter.counted += arrival;
            } else {
                meter.expected -= end.max(0.0);
                if !meter.fits(arrival) {
                    wait = wait.max(meter.until(arrival.max(1.0), now));
                }
            }
        }
        let status = match () {
            () if !fits => StatusCode::TOO_MANY_REQUESTS,
            () if prompt.fails => StatusCode::INTERNAL_SERVER_ERROR,
            () => StatusCode::OK,
        };
        let mut headers = HeaderMap::new();
        if self.world.fields {
            self.report(&mut headers, now);
            if !fits {
                headers.insert("retry-after", HeaderValue::from(wait.ceil() as u64));
            }
        }
        (status, headers)
    }

    fn report(&self, headers: &mut HeaderMap, now: f64) {
        for meter in &self.meters {
            let remaining = (meter.limit - meter.level).max(0.0) as u64;
            let reset = meter.until(meter.limit, now);
            let fields = if self.world.is_split() {
                let unit = match meter.unit {
                    Unit::InputTokens => "input-tokens",
                    Unit::OutputTokens => "output-tokens",
                    _ => "requests",
                };
                let prefix = format!("anthropic-ratelimit-{unit}");
                [
                    (format!("{prefix}-limit"), meter.limit.to_string()),
                    (format!("{prefix}-remaining"), remaining.to_string()),
                    (format!("{prefix}-reset"), date(now + reset)),
                ]
            } else {
                let unit = match meter.unit {
                    Unit::Requests => "requests",
                    _ => "tokens",
                };
                [
                    (format!("x-ratelimit-limit-{unit}"), meter.limit.to_string()),
                    (
                        format!("x-ratelimit-remaining-{unit}"),
                        remaining.to_string(),
                    ),
                    (format!("x-ratelimit-reset-{unit}"), format!("{reset:.3}s")),
                ]
            };
            for (name, value) in fields {
                let name: http::HeaderName = name.parse().expect("a name");
                headers.insert(name, value.parse().expect("a value"));
            }
        }
    }

    /// A call of another user arrives, which is counted with or without room.
    pub(crate) fn arrive_of_other(&mut self, prompt: &Prompt, now: f64) {
        for meter in &mut self.meters {
            meter.pass(now);
            meter.level += meter.charge.of(prompt).0;
        }
    }

    /// A call that arrived at that time ends, or fails.
    pub(crate) fn end(&mut self, prompt: &Prompt, arrived: f64, now: f64, is_client: bool) {
        for meter in &mut self.meters {
            let (arrival, end) = meter.charge.of(prompt);
            let correction = match (prompt.fails, self.world.counts_failed) {
                (true, true) => 0.0,
                (true, false) => -arrival,
                (false, _) => end,
            };
            let corrected = meter.add(correction, arrived, now);
            if is_client {
                meter.counted += corrected;
                meter.expected -= end.max(0.0);
            }
        }
    }
}

/// When the simulation begins, in seconds since 1970: at the beginning of 2030.
const START: u64 = 1_893_456_000;

/// Returns the wall clock at a time of the simulation.
pub(crate) fn wall_clock(now: f64) -> std::time::SystemTime {
    std::time::UNIX_EPOCH + Duration::from_secs(START) + Duration::from_secs_f64(now)
}

fn date(at: f64) -> String {
    let seconds = at.ceil() as u64;
    let (minutes, seconds) = (seconds / 60, seconds % 60);
    format!("2030-01-01T00:{minutes:02}:{seconds:02}Z")
}
