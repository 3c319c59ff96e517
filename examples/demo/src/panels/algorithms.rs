//! The same calls through each algorithm.
//!
//! Calls come for two seconds of three, and begin and end in the middle of a second, so that a burst
//! straddles a boundary of the fixed window.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;
use tollgate::{Algorithm, Clock, Quota, RateLimiter};

use crate::meter::{Meter, pace};
use crate::settings::{Setting, Settings};

const MS: u64 = 1_000_000;
/// When calls begin: in the middle of a second.
const PHASE: u64 = 500 * MS;
pub(super) const PERIOD: u64 = 3000 * MS;
pub(super) const BUSY: u64 = 2000 * MS;

const SECOND: Duration = Duration::from_secs(1);

/// How many times per second a token bucket is refilled.
const REFILLS: u32 = 10;

pub(crate) struct Panel {
    settings: Arc<Settings>,
    clock: Clock,
    offered: Meter,
    lanes: Vec<Lane>,
}

struct Lane {
    id: String,
    label: String,
    algorithm: Algorithm,
    limiter: RateLimiter,
    admitted: Meter,
    refused: AtomicU64,
}

#[derive(Serialize)]
pub(crate) struct Snapshot {
    offered: usize,
    /// Per second, as the first limiter reports it.
    quota: u64,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    id: String,
    label: String,
    admitted: u64,
    refused: u64,
    per_second: usize,
    /// The most in any second since a slider of the panel was moved.
    most_in_a_second: usize,
}

impl Panel {
    pub(crate) fn new(settings: Arc<Settings>, clock: Clock) -> Self {
        let lane = |&algorithm: &Algorithm| Lane {
            id: id(algorithm),
            label: algorithm.to_string(),
            algorithm,
            limiter: RateLimiter::new(quota(&settings, algorithm))
                .algorithm(algorithm)
                .clock(clock.clone()),
            admitted: Meter::new(&clock),
            refused: AtomicU64::new(0),
        };
        let lanes = Algorithm::all().iter().map(lane).collect();
        Self {
            settings,
            offered: Meter::new(&clock),
            clock,
            lanes,
        }
    }

    /// Makes the calls, until it is dropped.
    pub(crate) async fn load(self: Arc<Self>) -> Infallible {
        pace(|| self.rate(), || self.call()).await
    }

    fn rate(&self) -> u64 {
        let now = self.clock.now().as_nanos();
        let is_busy = (now + PERIOD - PHASE) % PERIOD < BUSY;
        if is_busy {
            self.settings.get(Setting::AlgorithmsCalls)
        } else {
            0
        }
    }

    fn call(&self) {
        self.offered.count();
        for lane in &self.lanes {
            match lane.limiter.try_acquire() {
                Ok(charge) => lane.admitted.count_at(charge.at()),
                Err(_) => {
                    lane.refused.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// Sets the limiters' quota, and restarts the maximum per second.
    pub(crate) fn apply(&self) {
        for lane in &self.lanes {
            lane.limiter
                .set_quota(quota(&self.settings, lane.algorithm));
            lane.admitted.forget_most();
        }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let row = |lane: &Lane| Row {
            id: lane.id.clone(),
            label: lane.label.clone(),
            admitted: lane.admitted.total(),
            refused: lane.refused.load(Ordering::Relaxed),
            per_second: lane.admitted.per_second(),
            most_in_a_second: lane.admitted.most(),
        };
        Snapshot {
            offered: self.offered.per_second(),
            quota: self.lanes[0].limiter.quota().count(),
            rows: self.lanes.iter().map(row).collect(),
        }
    }
}

/// Returns the name of a series of the page.
fn id(algorithm: Algorithm) -> String {
    algorithm.to_string().replace(['-', '/'], "_")
}

/// Returns the quota for an algorithm. Windows and logs have no burst of their own.
fn quota(settings: &Settings, algorithm: Algorithm) -> Quota {
    let count = settings.get(Setting::AlgorithmsQuota);
    let burst = settings.get(Setting::AlgorithmsBurst);
    match algorithm {
        Algorithm::Gcra => Quota::per_second(count).burst(burst),
        Algorithm::TokenBucket => {
            // A batch that does not fit into the bucket is partly lost.
            let batch = (count / u64::from(REFILLS)).max(1);
            let period = SECOND.mul_f64(batch as f64 / count as f64);
            Quota::new(batch, period).burst(burst.max(batch))
        }
        _ => Quota::per_second(count),
    }
}
