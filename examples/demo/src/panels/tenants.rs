//! Four tenants share slots: once first-in first-out, once through a fair queue. One of them sends
//! more.

use std::array;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;
use tokio::time::sleep;
use tollgate::fair::FairQueue;
use tollgate::{Clock, Semaphore, Throttle};
use tollgate_observe::{Observed, Observer, Place};

use crate::meter::{Latencies, Meter, pace};
use crate::settings::{Setting, Settings};

const TENANTS: [(&str, &str); 4] = [
    ("noisy", "Noisy"),
    ("quiet-1", "Quiet 1"),
    ("quiet-2", "Quiet 2"),
    ("quiet-3", "Quiet 3"),
];
const NOISY: usize = 0;

/// The calls of a quiet tenant per second.
pub(super) const QUIET_RATE: u64 = 15;

/// The time that a call holds its slot.
pub(super) const WORK: Duration = Duration::from_millis(40);

/// The time that a call waits for a slot before it gives up.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// The window of the 99th percentile: a quiet tenant makes 120 calls within it.
pub(super) const WINDOW: Duration = Duration::from_secs(8);

pub(crate) struct Panel {
    settings: Arc<Settings>,
    fifo: Arc<Semaphore>,
    fair: FairQueue<Arc<Semaphore>, usize>,
    of_fifo: [Arc<Tenant>; 4],
    of_fair: [Arc<Tenant>; 4],
    clock: Clock,
}

/// The results of a tenant in one of the two.
struct Tenant {
    /// The number of its waiting calls, counted by the load, because a semaphore does not know the
    /// tenants of its waiters.
    waiting: AtomicU64,
    admitted: Meter,
    gave_up: Meter,
    waits: Latencies,
}

impl Tenant {
    fn new(clock: &Clock) -> Arc<Self> {
        Arc::new(Self {
            waiting: AtomicU64::new(0),
            admitted: Meter::new(clock),
            gave_up: Meter::new(clock),
            waits: Latencies::default(),
        })
    }
}

impl Observer for Tenant {
    type Held = ();

    fn admitted(&self, _: Place, waited: Option<Duration>) {
        self.admitted.count();
        self.waits.record(waited.unwrap_or_default());
    }

    fn abandoned(&self, _: Place, waited: Duration) {
        self.gave_up.count();
        self.waits.record(waited);
    }
}

#[derive(Serialize)]
pub(crate) struct Snapshot {
    /// The permits of each semaphore.
    slots: usize,
    fifo: Vec<Row>,
    fair: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    id: &'static str,
    label: &'static str,
    /// The number of its waiting calls: for the fair queue, the number in the tenant's class; for
    /// the semaphore, the count of the load.
    waiting: u64,
    per_second: usize,
    /// The number of calls that gave up after waiting for a second.
    gave_up_per_second: usize,
    /// Over the waits of the last eight seconds, if there are any of calls that came since a slider
    /// of the panel was moved. Calls that gave up count too.
    p99_ms: Option<f64>,
}

impl Panel {
    pub(crate) fn new(settings: Arc<Settings>, clock: Clock) -> Self {
        let slots = || Arc::new(Semaphore::new(slots(&settings)));
        let (fifo, behind_fair) = (slots(), slots());
        Self {
            fifo,
            fair: FairQueue::new(behind_fair).clock(clock.clone()),
            of_fifo: array::from_fn(|_| Tenant::new(&clock)),
            of_fair: array::from_fn(|_| Tenant::new(&clock)),
            settings,
            clock,
        }
    }

    /// Makes the calls of all tenants, until it is dropped.
    pub(crate) async fn load(self: Arc<Self>) -> Infallible {
        let (never, ..) = tokio::join!(
            self.tenant(0),
            self.tenant(1),
            self.tenant(2),
            self.tenant(3)
        );
        never
    }

    /// Makes the calls of a tenant, each to both.
    async fn tenant(&self, number: usize) -> Infallible {
        let rate = || match number {
            NOISY => QUIET_RATE * self.settings.get(Setting::TenantsNoise),
            _ => QUIET_RATE,
        };
        let class = self.fair.class(number);
        pace(rate, || {
            self.call(&self.fifo, &self.of_fifo[number]);
            self.call(&class, &self.of_fair[number]);
        })
        .await
    }

    fn call<T>(&self, slots: &T, tenant: &Arc<Tenant>)
    where
        T: Throttle<Permit: Send, Enter: Send> + Clone + Send + Sync + 'static,
    {
        let tenant = Arc::clone(tenant);
        tenant.waiting.fetch_add(1, Ordering::Relaxed);
        let observed = Observed::new(slots.clone(), tenant.clone());
        let waits = observed.clock(&self.clock).acquire().timeout(PATIENCE);
        tokio::spawn(async move {
            let slot = waits.await;
            tenant.waiting.fetch_sub(1, Ordering::Relaxed);
            if let Ok(slot) = slot {
                sleep(WORK).await;
                drop(slot);
            }
        });
    }

    /// Sets the number of slots of the semaphores, and restarts the percentiles.
    pub(crate) fn apply(&self) {
        for semaphore in [&self.fifo, self.fair.throttle()] {
            semaphore.set_permits(slots(&self.settings));
        }
        for tenant in self.of_fifo.iter().chain(&self.of_fair) {
            tenant.waits.restart();
        }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let classes = self.fair.snapshot();
        let waiting_in_class = |number| {
            // Classes without waiters and permits are not listed.
            let class = classes.iter().find(|class| class.key == number);
            class.map_or(0, |class| class.waiting as u64)
        };
        let waiting_in_line = |number: usize| self.of_fifo[number].waiting.load(Ordering::Relaxed);
        Snapshot {
            slots: self.fifo.permits(),
            fifo: rows(&self.of_fifo, waiting_in_line),
            fair: rows(&self.of_fair, waiting_in_class),
        }
    }
}

fn rows(tenants: &[Arc<Tenant>; 4], waiting: impl Fn(usize) -> u64) -> Vec<Row> {
    let row = |(number, ((id, label), tenant)): (usize, (_, &Arc<Tenant>))| Row {
        id,
        label,
        waiting: waiting(number),
        per_second: tenant.admitted.per_second(),
        gave_up_per_second: tenant.gave_up.per_second(),
        p99_ms: tenant.waits.p99_ms(WINDOW),
    };
    let tenants = TENANTS.into_iter().zip(tenants);
    tenants.enumerate().map(row).collect()
}

fn slots(settings: &Settings) -> usize {
    settings.get(Setting::TenantsSlots) as usize
}
