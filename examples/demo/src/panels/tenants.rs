//! Four tenants share slots: once first-in first-out, once by a fair queue. One of them sends more.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::time::sleep;
use tollgate::fair::FairQueue;
use tollgate::observe::Observed;
use tollgate::{Clock, Semaphore, Throttle};

use crate::meter::Meter;
use crate::pace::pace;
use crate::settings::{Setting, Settings};
use crate::tally::Tally;

const TENANTS: [(&str, &str); 4] = [
    ("noisy", "Noisy"),
    ("quiet-1", "Quiet 1"),
    ("quiet-2", "Quiet 2"),
    ("quiet-3", "Quiet 3"),
];
const NOISY: usize = 0;

/// How many calls a quiet tenant makes per second.
pub(super) const QUIET_RATE: u64 = 15;

/// How long a call holds its slot.
pub(super) const WORK: Duration = Duration::from_millis(40);

/// How long a call waits for a slot before it gives up.
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

/// What a tenant got from one of the two.
#[derive(Default)]
struct Tenant {
    calls: Meter,
    tally: Arc<Tally>,
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
    waiting: u64,
    per_second: usize,
    /// How many calls waited as long as they can.
    gave_up_per_second: usize,
    /// Of the waits of the last eight seconds, if there are any.
    p99_ms: Option<f64>,
}

impl Panel {
    pub(crate) fn new(settings: Arc<Settings>, clock: Clock) -> Self {
        let slots = || Arc::new(Semaphore::new(slots(&settings)));
        let (fifo, behind_fair) = (slots(), slots());
        Self {
            fifo,
            fair: FairQueue::new(behind_fair).clock(clock.clone()),
            of_fifo: Default::default(),
            of_fair: Default::default(),
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

    fn call<T>(&self, slots: &T, tenant: &Tenant)
    where
        T: Throttle<Permit: Send, Enter: Send> + Clone + Send + Sync + 'static,
    {
        tenant.calls.count();
        let observed = Observed::new(slots.clone(), Arc::clone(&tenant.tally));
        let waits = observed.clock(&self.clock).acquire().timeout(PATIENCE);
        tokio::spawn(async move {
            if let Ok(slot) = waits.await {
                sleep(WORK).await;
                drop(slot);
            }
        });
    }

    /// Tells the semaphores that the number of slots has changed.
    pub(crate) fn apply(&self) {
        for semaphore in [&self.fifo, self.fair.throttle()] {
            semaphore.set_permits(slots(&self.settings));
        }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let row = |((id, label), tenant): ((&'static str, _), &Arc<Tenant>)| Row {
            id,
            label,
            waiting: tenant.calls.total().saturating_sub(tenant.tally.decided()),
            per_second: tenant.tally.admitted.per_second(),
            gave_up_per_second: tenant.tally.abandoned.per_second(),
            p99_ms: tenant.tally.waits.p99_ms(WINDOW),
        };
        let rows = |tenants: &[_; 4]| TENANTS.into_iter().zip(tenants).map(row).collect();
        Snapshot {
            slots: self.fifo.permits(),
            fifo: rows(&self.of_fifo),
            fair: rows(&self.of_fair),
        }
    }
}

fn slots(settings: &Settings) -> usize {
    settings.get(Setting::TenantsSlots) as usize
}
