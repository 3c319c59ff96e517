//! A backend that works slower the more calls it has, behind four limits.
//!
//! A call holds its permit until the backend has answered, so what the observer of a limit measures
//! is the latency of the backend. Calls for which there is no permit are refused.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;
use tokio::time::sleep;
use tollgate::adaptive::{AdaptiveSemaphore, Gradient};
use tollgate::{Clock, Semaphore, TryThrottle};
use tollgate_observe::Observed;

use crate::latencies::Latencies;
use crate::pace::pace;
use crate::settings::{Setting, Settings};

const FIXED: [(&str, &str, usize); 3] = [
    ("fixed-5", "fixed 5", 5),
    ("fixed-20", "fixed 20", 20),
    ("fixed-100", "fixed 100", 100),
];

/// An answer that comes later is of no use.
pub(super) const DEADLINE: Duration = Duration::from_millis(250);

/// The window of the 99th percentile.
pub(super) const WINDOW: Duration = Duration::from_secs(4);

/// With so many calls beyond its workers for each worker, a call takes twice as long.
const SLOWDOWN_AT: f64 = 4.0;

pub(crate) struct Panel {
    settings: Arc<Settings>,
    fixed: [Lane<Arc<Semaphore>>; 3],
    adaptive: Lane<Arc<AdaptiveSemaphore>>,
}

/// A limit, and the backend behind it.
struct Lane<T> {
    limit: Observed<T, Arc<Latencies>>,
    backend: Arc<Backend>,
}

struct Backend {
    settings: Arc<Settings>,
    workers: Semaphore,
    in_flight: AtomicU64,
}

#[derive(Serialize)]
pub(crate) struct Snapshot {
    /// The permits of the workers' semaphores.
    workers: usize,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    id: &'static str,
    label: &'static str,
    limit: u64,
    in_use: u64,
    goodput: u64,
    /// Of the latencies of the last four seconds, if there are any of calls that came since a slider
    /// of the panel was moved.
    p99_ms: Option<f64>,
}

impl Backend {
    /// Answers after a wait for a worker and the work, which varies by half.
    async fn call(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        let worker = self
            .workers
            .acquire()
            .await
            .expect("the workers are never closed");
        sleep(self.service_time()).await;
        drop(worker);
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    fn service_time(&self) -> Duration {
        let workers = self.workers.permits() as f64;
        let excess = (self.in_flight.load(Ordering::Relaxed) as f64 - workers).max(0.0);
        let slowdown = 1.0 + (excess / workers / SLOWDOWN_AT).powi(2);
        let service = Duration::from_millis(self.settings.get(Setting::BackendService));
        service.mul_f64(slowdown * (0.5 + fastrand::f64()))
    }
}

impl<T: TryThrottle<Permit: Send + 'static> + 'static> Lane<T> {
    fn new(limit: T, settings: &Arc<Settings>, clock: &Clock) -> Self {
        let backend = Backend {
            settings: Arc::clone(settings),
            workers: Semaphore::new(workers(settings)),
            in_flight: AtomicU64::new(0),
        };
        Self {
            limit: Observed::new(limit, Arc::default()).clock(clock),
            backend: Arc::new(backend),
        }
    }

    fn call(&self) {
        if let Ok(permit) = self.limit.try_acquire() {
            let backend = Arc::clone(&self.backend);
            tokio::spawn(async move {
                backend.call().await;
                drop(permit);
            });
        }
    }

    fn apply(&self) {
        let Backend {
            settings, workers, ..
        } = &*self.backend;
        workers.set_permits(self::workers(settings));
        self.limit.observer().restart();
    }

    fn row(&self, id: &'static str, label: &'static str, permits: tollgate::Snapshot) -> Row {
        let latencies = self.limit.observer();
        Row {
            id,
            label,
            limit: permits.limit,
            in_use: permits.in_use,
            goodput: latencies.last_second(DEADLINE),
            p99_ms: latencies.p99_ms(WINDOW),
        }
    }
}

impl Panel {
    pub(crate) fn new(settings: Arc<Settings>, clock: Clock) -> Self {
        let fixed = FIXED
            .map(|(_, _, limit)| Lane::new(Arc::new(Semaphore::new(limit)), &settings, &clock));
        let adaptive = AdaptiveSemaphore::new(Gradient::default()).clock(clock.clone());
        let adaptive = Lane::new(Arc::new(adaptive), &settings, &clock);
        Self {
            settings,
            fixed,
            adaptive,
        }
    }

    /// Makes the calls, each to all four, until it is dropped.
    pub(crate) async fn load(self: Arc<Self>) -> Infallible {
        let rate = || self.settings.get(Setting::BackendCalls);
        pace(rate, || {
            self.fixed.iter().for_each(Lane::call);
            self.adaptive.call();
        })
        .await
    }

    /// Tells the backends how many workers there are, and begins the percentiles again.
    pub(crate) fn apply(&self) {
        self.fixed.iter().for_each(Lane::apply);
        self.adaptive.apply();
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let fixed = FIXED.into_iter().zip(&self.fixed);
        let fixed = fixed
            .map(|((id, label, _), lane)| lane.row(id, label, lane.limit.throttle().snapshot()));
        let permits = self.adaptive.limit.throttle().snapshot().permits;
        let adaptive = self.adaptive.row("adaptive", "adaptive", permits);
        Snapshot {
            workers: self.adaptive.backend.workers.permits(),
            rows: fixed.chain([adaptive]).collect(),
        }
    }
}

fn workers(settings: &Settings) -> usize {
    settings.get(Setting::BackendWorkers) as usize
}
