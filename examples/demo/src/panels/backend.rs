//! A backend that slows down with the number of its calls, behind four limits; and one that five
//! clients share, each with an adaptive limit of its own.
//!
//! 1. A call holds its permit until the backend has answered, so the observer of a limit measures the
//!    latency of the backend. Calls without a permit are refused.
//! 2. The number of workers changes automatically until the user moves a slider of the panel.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::{Instant, interval, sleep};
use tollgate::adaptive::{AdaptiveSemaphore, Controller, SampleWindow, Target};
use tollgate::{Clock, Semaphore, TryThrottle};
use tollgate_observe::Observed;

use crate::meter::{Latencies, pace};
use crate::settings::{Setting, Settings};

const FIXED: [(&str, &str, usize); 3] = [
    ("fixed-5", "fixed 5", 5),
    ("fixed-20", "fixed 20", 20),
    ("fixed-100", "fixed 100", 100),
];

/// A later answer is useless.
pub(super) const DEADLINE: Duration = Duration::from_millis(250);

/// The window of the 99th percentile.
pub(super) const WINDOW: Duration = Duration::from_secs(4);

/// With this many excess calls per worker, a call takes twice as long.
const SLOWDOWN_AT: f64 = 4.0;

/// The numbers of workers while they change automatically, each for `STEP`.
pub(super) const CYCLE: [u64; 3] = [10, 4, 30];
pub(super) const STEP: Duration = Duration::from_secs(20);

/// The clients of the shared backend.
const CLIENTS: [(&str, &str); 5] = [
    ("client-1", "client 1"),
    ("client-2", "client 2"),
    ("client-3", "client 3"),
    ("client-4", "client 4"),
    ("client-5", "client 5"),
];

/// The workers of the shared backend for each worker of the slider.
pub(super) const WORKERS_FOR_EACH: usize = 3;

pub(crate) struct Panel {
    settings: Arc<Settings>,
    clock: Clock,
    fixed: [Lane<Arc<Semaphore>>; 3],
    adaptive: Lane<Arc<AdaptiveSemaphore>>,
    fleet: Mutex<Fleet>,
    /// When the automatic changes began, unless a user has moved a slider since.
    cycling_since: Mutex<Option<Instant>>,
}

/// The clients before one backend.
struct Fleet {
    controller: Fleets,
    clients: [Lane<Arc<AdaptiveSemaphore>>; 5],
    /// The client that makes the next call.
    next: usize,
}

/// The controller of each client of the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Fleets {
    /// The default one.
    Default,
    /// [`Naive`].
    Naive,
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
    /// Its own random numbers, independent of other backends.
    random: Mutex<fastrand::Rng>,
    /// This many workers for each worker of the slider.
    workers_for_each: usize,
    /// Whether it slows down with more calls; otherwise, they only wait longer.
    slows: bool,
}

#[derive(Serialize)]
pub(crate) struct Snapshot {
    /// The permits of the workers' semaphores.
    workers: usize,
    /// Whether the workers change automatically.
    cycling: bool,
    rows: Vec<Row>,
    why: Why,
    fleet: FleetSnapshot,
}

/// Why the adaptive limit is what it is.
#[derive(Serialize)]
struct Why {
    reason: &'static str,
    baseline_ms: Option<f64>,
    latency_ms: Option<f64>,
}

#[derive(Serialize)]
struct FleetSnapshot {
    controller: Fleets,
    workers: usize,
    /// The sum of the limits.
    limits: u64,
    goodput: u64,
    /// Answers per second while all workers work.
    capacity: u64,
    p99_ms: Option<f64>,
    /// The longest work: the latency of a call that does not wait for a worker.
    unqueued_ms: f64,
    rows: Vec<Client>,
}

#[derive(Serialize)]
struct Client {
    id: &'static str,
    label: &'static str,
    limit: u64,
    in_use: u64,
}

#[derive(Serialize)]
struct Row {
    id: &'static str,
    label: &'static str,
    limit: u64,
    in_use: u64,
    goodput: u64,
    /// Over the latencies of the last four seconds, if there are any of calls that came since a
    /// slider of the panel was moved.
    p99_ms: Option<f64>,
}

impl Backend {
    fn new(settings: &Arc<Settings>, workers_for_each: usize, slows: bool) -> Arc<Self> {
        let backend = Self {
            settings: Arc::clone(settings),
            workers: Semaphore::new(0),
            in_flight: AtomicU64::new(0),
            random: Mutex::default(),
            workers_for_each,
            slows,
        };
        backend.apply();
        Arc::new(backend)
    }

    /// Sets the number of workers from the slider.
    fn apply(&self) {
        let workers = self.settings.get(Setting::BackendWorkers) as usize;
        self.workers.set_permits(workers * self.workers_for_each);
    }

    /// Answers after a wait for a worker and the work, which varies by half. When the backend is
    /// closed, waiting calls are dropped.
    async fn call(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        if let Ok(_worker) = self.workers.acquire().await {
            sleep(self.service_time()).await;
        }
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    fn service_time(&self) -> Duration {
        let workers = self.workers.permits() as f64;
        let excess = (self.in_flight.load(Ordering::Relaxed) as f64 - workers).max(0.0);
        let slowdown = if self.slows {
            1.0 + (excess / workers / SLOWDOWN_AT).powi(2)
        } else {
            1.0
        };
        let varied = 0.5 + self.random.lock().expect("no panic under it").f64();
        self.service().mul_f64(slowdown * varied)
    }

    /// The mean of the work while the backend is not slow.
    fn service(&self) -> Duration {
        Duration::from_millis(self.settings.get(Setting::BackendService))
    }

    /// Answers per second while all workers work.
    fn capacity(&self) -> f64 {
        self.workers.permits() as f64 / self.service().as_secs_f64()
    }
}

impl<T: TryThrottle<Permit: Send + 'static> + 'static> Lane<T> {
    fn new(limit: T, backend: Arc<Backend>, latencies: Arc<Latencies>, clock: &Clock) -> Self {
        Self {
            limit: Observed::new(limit, latencies).clock(clock),
            backend,
        }
    }

    /// Creates a limit with a backend of its own.
    fn alone(limit: T, settings: &Arc<Settings>, clock: &Clock) -> Self {
        Self::new(
            limit,
            Backend::new(settings, 1, true),
            Arc::default(),
            clock,
        )
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
        self.backend.apply();
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

impl Fleet {
    fn new(controller: Fleets, settings: &Arc<Settings>, clock: &Clock) -> Self {
        let backend = Backend::new(settings, WORKERS_FOR_EACH, false);
        let latencies: Arc<Latencies> = Arc::default();
        let client = |_| {
            let limit = match controller {
                Fleets::Default => AdaptiveSemaphore::default(),
                Fleets::Naive => AdaptiveSemaphore::new(Naive::default()),
            };
            let limit = Arc::new(limit.clock(clock.clone()));
            Lane::new(limit, backend.clone(), latencies.clone(), clock)
        };
        Self {
            controller,
            clients: CLIENTS.map(client),
            next: 0,
        }
    }

    /// Makes a call of each client in turn.
    fn call(&mut self) {
        self.clients[self.next].call();
        self.next = (self.next + 1) % CLIENTS.len();
    }

    fn snapshot(&self) -> FleetSnapshot {
        let rows = CLIENTS.into_iter().zip(&self.clients);
        let rows = rows.map(|((id, label), lane)| {
            let permits = lane.limit.throttle().snapshot().permits;
            Client {
                id,
                label,
                limit: permits.limit,
                in_use: permits.in_use,
            }
        });
        let rows: Vec<_> = rows.collect();
        // All clients share both.
        let Lane { limit, backend } = &self.clients[0];
        FleetSnapshot {
            controller: self.controller,
            workers: backend.workers.permits(),
            limits: rows.iter().map(|row| row.limit).sum(),
            goodput: limit.observer().last_second(DEADLINE),
            capacity: backend.capacity() as u64,
            p99_ms: limit.observer().p99_ms(WINDOW),
            unqueued_ms: 1.5 * backend.service().as_secs_f64() * 1000.0,
            rows,
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        // Its calls may have to wait for minutes.
        self.clients[0].backend.workers.close();
    }
}

impl Panel {
    pub(crate) fn new(settings: Arc<Settings>, clock: Clock) -> Self {
        let fixed = FIXED
            .map(|(_, _, limit)| Lane::alone(Arc::new(Semaphore::new(limit)), &settings, &clock));
        let adaptive = AdaptiveSemaphore::default().clock(clock.clone());
        Self {
            adaptive: Lane::alone(Arc::new(adaptive), &settings, &clock),
            fleet: Mutex::new(Fleet::new(Fleets::Default, &settings, &clock)),
            cycling_since: Mutex::new(Some(Instant::now())),
            settings,
            clock,
            fixed,
        }
    }

    /// Makes the calls, each to all four, and those of the fleet, and changes the workers, until it
    /// is dropped.
    pub(crate) async fn load(self: Arc<Self>) -> Infallible {
        let rate = || self.settings.get(Setting::BackendCalls);
        let calls = pace(rate, || {
            self.fixed.iter().for_each(Lane::call);
            self.adaptive.call();
        });
        // One and a half times the backend's capacity.
        let rate = || (1.5 * self.fleet().clients[0].backend.capacity()) as u64;
        let fleet = pace(rate, || self.fleet().call());
        tokio::select! {
            // In this order, because tests expect the same of each run.
            biased;
            never = calls => never,
            never = fleet => never,
            never = self.cycle() => never,
        }
    }

    /// Changes the workers while no user does.
    async fn cycle(&self) -> Infallible {
        let mut ticker = interval(Duration::from_millis(100));
        loop {
            ticker.tick().await;
            // The lock is held meanwhile, so that a user's value is not overwritten.
            let since = self.cycling_since();
            if let Some(since) = *since {
                let step = since.elapsed().as_millis() / STEP.as_millis();
                let workers = CYCLE[step as usize % CYCLE.len()];
                if self.settings.get(Setting::BackendWorkers) != workers {
                    self.settings.put(Setting::BackendWorkers, workers);
                    self.fixed.iter().for_each(|lane| lane.backend.apply());
                    self.adaptive.backend.apply();
                    self.fleet().clients[0].backend.apply();
                }
            }
        }
    }

    /// Turns the automatic changes of the workers on or off.
    pub(crate) fn set_cycling(&self, cycling: bool) {
        *self.cycling_since() = cycling.then(Instant::now);
    }

    /// Replaces the clients by new ones, and their backend.
    pub(crate) fn restart_fleet(&self, controller: Fleets) {
        *self.fleet() = Fleet::new(controller, &self.settings, &self.clock);
    }

    /// Tells the backends the number of workers, and restarts the percentiles.
    pub(crate) fn apply(&self) {
        self.fixed.iter().for_each(Lane::apply);
        self.adaptive.apply();
        self.fleet().clients[0].apply();
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let fixed = FIXED.into_iter().zip(&self.fixed);
        let fixed = fixed
            .map(|((id, label, _), lane)| lane.row(id, label, lane.limit.throttle().snapshot()));
        let state = self.adaptive.limit.throttle().snapshot();
        let adaptive = self.adaptive.row("adaptive", "adaptive", state.permits);
        let milliseconds = |latency: Option<Duration>| latency.map(|it| it.as_secs_f64() * 1000.0);
        Snapshot {
            workers: self.adaptive.backend.workers.permits(),
            cycling: self.cycling_since().is_some(),
            rows: fixed.chain([adaptive]).collect(),
            why: Why {
                reason: state.explanation.reason.as_str(),
                baseline_ms: milliseconds(state.explanation.baseline),
                latency_ms: milliseconds(state.explanation.latency),
            },
            fleet: self.fleet().snapshot(),
        }
    }

    fn fleet(&self) -> MutexGuard<'_, Fleet> {
        self.fleet.lock().expect("no code panics under the lock")
    }

    fn cycling_since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.cycling_since
            .lock()
            .expect("no code panics under the lock")
    }
}

/// A controller that measures the latency at half of its limit now and then, and takes it for the latency without a
/// queue, however much it has grown.
///
/// For a single client, half of the limit does empty the queue. One of five clients that halves its
/// limit takes a tenth of the queue away: the rest of the queue becomes its baseline, and nothing looks
/// slow any more.
struct Naive {
    baseline: Duration,
    /// The limit to come back to, while the latency at half of it is measured.
    measuring: Option<f64>,
    windows: u32,
}

/// One window in this many measures the baseline.
const EVERY: u32 = 8;
const INITIAL: f64 = 10.0;

impl Default for Naive {
    fn default() -> Self {
        Self {
            baseline: Duration::ZERO,
            measuring: Some(INITIAL),
            windows: 0,
        }
    }
}

fn target(limit: f64) -> Target {
    let samples = (2.0 * limit).max(10.0) as u32;
    Target { limit, samples }
}

impl Controller for Naive {
    fn initial(&self) -> Target {
        target(INITIAL / 2.0)
    }

    fn update(&mut self, window: &SampleWindow) -> Target {
        let latency = window.mean_latency().unwrap_or(self.baseline);
        if let Some(limit) = self.measuring.take() {
            self.baseline = latency;
            return target(limit);
        }
        let gradient = 1.2 * self.baseline.as_secs_f64() / latency.as_secs_f64().max(1e-9);
        let limit = window.limit() * gradient.clamp(0.5, 1.0) + window.limit().sqrt();
        self.windows += 1;
        if self.windows.is_multiple_of(EVERY) {
            self.measuring = Some(limit);
            return target(limit / 2.0);
        }
        target(limit)
    }
}
