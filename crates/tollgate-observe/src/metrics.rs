//! [`Metrics`]: counters, histograms and gauges of the [`metrics`] facade.
//!
//! The handles are created once, with the recorder that is installed at that time. Those of the gauges are
//! created when the gauges are first set, because a gauge exists from its creation on, and has no value
//! before. An entry looks nothing up and allocates nothing; the cost of an increment depends on the recorder.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ::metrics::{
    Counter, Gauge, Histogram, SharedString, Unit, counter, describe_counter, describe_gauge,
    describe_histogram, gauge, histogram,
};

use super::{Decision, Observer, Place};
use tollgate::time::Tick;
use tollgate::{AcquireError, Clock, ErrorKind, Snapshot};

/// An [`Observer`] that reports to the recorder of the crate [`metrics`](::metrics), for example
/// that of `metrics-exporter-prometheus`.
///
/// Every name has the label `limit`, the name that is given to [`new`](Self::new):
///
/// | name | type | meaning |
/// |---|---|---|
/// | `tollgate_admitted_total` | counter | entries that were admitted |
/// | `tollgate_refused_total` | counter | entries that were refused; the label `kind` is the [`ErrorKind`] in snake case |
/// | `tollgate_abandoned_total` | counter | waits that were dropped before they ended, for example by a [timeout or a token](super::Observed#timeouts-and-tokens) |
/// | `tollgate_wait_seconds` | histogram | duration of waits, however they ended, without entries that did not wait |
/// | `tollgate_held_seconds` | histogram | hold time of permits, without those that were rolled back |
/// | `tollgate_limit`, `tollgate_in_use`, `tollgate_waiting` | gauge | the last [`Snapshot`] that was [recorded](Self::record) |
///
/// With [`ObservedController::new(controller, metrics)`](super::ObservedController), an adaptive limit sets these
/// at the end of each window; the last column has the name of the same figure in Envoy's adaptive concurrency
/// filter:
///
/// | name | type | meaning | Envoy |
/// |---|---|---|---|
/// | `tollgate_concurrency_limit` | gauge | the limit that the controller asks for | `concurrency_limit` |
/// | `tollgate_min_rtt_seconds` | gauge | the baseline: the latency without a queue | `min_rtt_msecs` |
/// | `tollgate_sample_rtt_seconds` | gauge | the latency of the last window | `sample_rtt_msecs` |
/// | `tollgate_min_rtt_calculation_active` | gauge | 1 while the limit is low to measure, otherwise 0 | `min_rtt_calculation_active` |
/// | `tollgate_decisions_total` | counter | decisions; the label `reason` is the [`Reason`](tollgate::adaptive::Reason) in snake case | |
/// | `tollgate_overloaded_total` | counter | measured calls that were refused, or failed because of overload | |
///
/// Envoy's `rq_blocked` is `tollgate_refused_total`.
///
/// The label is the name of a limit, never of a key: the keys of a [`Keyed`](tollgate::Keyed) share
/// one `Metrics`, because a monitoring system cannot store a series for each of them.
///
/// **Install the recorder first**: a `Metrics` that was created before reports nothing. A clone is
/// another handle of the same metrics.
///
/// # Cost
///
/// An entry and its release read the clock once each, to measure how long the permit is held.
///
/// # Examples
///
/// ```
/// use tollgate::Semaphore;
/// use tollgate_observe::{Metrics, Observed};
///
/// let uploads = Semaphore::new(8);
/// let metrics = Metrics::new("uploads");
/// let observed = Observed::new(&uploads, &metrics);
/// let permit = observed.try_acquire()?;
///
/// // When the metrics are read, or every few seconds.
/// metrics.record(uploads.snapshot());
/// # Ok::<_, tollgate::AcquireError>(())
/// ```
#[derive(Clone)]
pub struct Metrics(Arc<Handles>);

struct Handles {
    clock: Clock,
    name: SharedString,
    admitted: Counter,
    /// In the order of [`KINDS`].
    refused: [Counter; KINDS.len()],
    abandoned: Counter,
    wait: Histogram,
    held: Histogram,
    limit: OnceLock<Gauge>,
    in_use: OnceLock<Gauge>,
    waiting: OnceLock<Gauge>,
}

/// Every kind, in the order of its declaration, and its label.
const KINDS: [(ErrorKind, &str); 10] = [
    (ErrorKind::Closed, "closed"),
    (ErrorKind::Cancelled, "cancelled"),
    (ErrorKind::TimedOut, "timed_out"),
    (ErrorKind::QueueFull, "queue_full"),
    (ErrorKind::TooManyKeys, "too_many_keys"),
    (ErrorKind::NoPermits, "no_permits"),
    (ErrorKind::RateLimited, "rate_limited"),
    (ErrorKind::ExceedsCapacity, "exceeds_capacity"),
    (ErrorKind::Store, "store"),
    (ErrorKind::RuntimeEnded, "runtime_ended"),
];

impl Metrics {
    /// Creates the metrics of a limit, on [`Clock::default`].
    ///
    /// The counters and histograms exist from then on, with the value 0, so that a rate is known from
    /// the first entry. The gauges exist from the first [`record`](Self::record) on.
    pub fn new(limit: impl Into<String>) -> Self {
        Self::with(limit.into().into(), Clock::default())
    }

    /// Creates metrics with the same name, which measure the hold time of permits on this clock.
    #[must_use]
    pub fn clock(self, clock: impl Into<Clock>) -> Self {
        Self::with(self.0.name.clone(), clock.into())
    }

    fn with(name: SharedString, clock: Clock) -> Self {
        describe();
        let limit = || name.clone();
        Self(Arc::new(Handles {
            clock,
            admitted: counter!(ADMITTED, "limit" => limit()),
            refused: KINDS.map(|(_, kind)| counter!(REFUSED, "limit" => limit(), "kind" => kind)),
            abandoned: counter!(ABANDONED, "limit" => limit()),
            wait: histogram!(WAIT, "limit" => limit()),
            held: histogram!(HELD, "limit" => limit()),
            limit: OnceLock::new(),
            in_use: OnceLock::new(),
            waiting: OnceLock::new(),
            name,
        }))
    }

    /// Sets the gauges. They are not set automatically, because a limit does not know when its state is read.
    /// A [`Keyed`](tollgate::Keyed) has no snapshot of all its keys: if there is a limit for all keys
    /// together, record its snapshot.
    ///
    /// A [`Gate`](tollgate::Gate) has the limit `u64::MAX`, which means no limit, so `tollgate_limit` is not
    /// set.
    ///
    /// # Examples
    ///
    /// See [the type](Self#examples).
    pub fn record(&self, snapshot: Snapshot) {
        let handles = &*self.0;
        let set = |gauge: &OnceLock<Gauge>, name: &'static str, value: f64| {
            let create = || gauge!(name, "limit" => handles.name.clone());
            gauge.get_or_init(create).set(value);
        };
        if snapshot.limit < u64::MAX {
            set(&handles.limit, LIMIT, snapshot.limit as f64);
        }
        set(&handles.in_use, IN_USE, snapshot.in_use as f64);
        set(&handles.waiting, WAITING, snapshot.waiting as f64);
    }
}

const ADMITTED: &str = "tollgate_admitted_total";
const REFUSED: &str = "tollgate_refused_total";
const ABANDONED: &str = "tollgate_abandoned_total";
const WAIT: &str = "tollgate_wait_seconds";
const HELD: &str = "tollgate_held_seconds";
const LIMIT: &str = "tollgate_limit";
const IN_USE: &str = "tollgate_in_use";
const WAITING: &str = "tollgate_waiting";
const CONCURRENCY_LIMIT: &str = "tollgate_concurrency_limit";
const MIN_RTT: &str = "tollgate_min_rtt_seconds";
const SAMPLE_RTT: &str = "tollgate_sample_rtt_seconds";
const MIN_RTT_ACTIVE: &str = "tollgate_min_rtt_calculation_active";
const DECISIONS: &str = "tollgate_decisions_total";
const OVERLOADED: &str = "tollgate_overloaded_total";

fn describe() {
    describe_counter!(ADMITTED, "entries that were admitted");
    describe_counter!(REFUSED, "entries that were refused");
    describe_counter!(ABANDONED, "waits that were dropped before they ended");
    describe_histogram!(WAIT, Unit::Seconds, "the wait time of entries");
    describe_histogram!(HELD, Unit::Seconds, "the hold time of permits");
    describe_gauge!(LIMIT, "the maximum that can be in use at once");
    describe_gauge!(IN_USE, "the number of permits or units in use");
    describe_gauge!(WAITING, "the number of waiters");
    describe_gauge!(CONCURRENCY_LIMIT, "the limit that the controller asks for");
    describe_gauge!(MIN_RTT, Unit::Seconds, "the latency without a queue");
    describe_gauge!(SAMPLE_RTT, Unit::Seconds, "the latency of the last window");
    describe_gauge!(MIN_RTT_ACTIVE, "whether the limit is low to measure");
    describe_counter!(DECISIONS, "the decisions of the controller");
    describe_counter!(OVERLOADED, "calls that failed because of overload");
}

impl Observer for Metrics {
    type Held = Tick;

    fn admitted(&self, _: Place, waited: Option<Duration>) -> Tick {
        self.0.admitted.increment(1);
        if let Some(waited) = waited {
            self.0.wait.record(waited);
        }
        self.0.clock.now()
    }

    fn refused(&self, _: Place, error: &AcquireError, waited: Option<Duration>) {
        let index = KINDS.iter().position(|(kind, _)| *kind == error.kind());
        if let Some(refused) = index.and_then(|index| self.0.refused.get(index)) {
            refused.increment(1);
        }
        if let Some(waited) = waited {
            self.0.wait.record(waited);
        }
    }

    fn abandoned(&self, _: Place, waited: Duration) {
        self.0.abandoned.increment(1);
        self.0.wait.record(waited);
    }

    fn released(&self, since: Tick) {
        let held = self.0.clock.now().saturating_since(since);
        self.0.held.record(held);
    }

    /// Looks the handles up, because decisions are rare.
    fn decided(&self, decision: &Decision) {
        let limit = || self.0.name.clone();
        let explanation = decision.explanation;
        let latencies = [
            (MIN_RTT, explanation.baseline),
            (SAMPLE_RTT, explanation.latency),
        ];
        for (name, latency) in latencies {
            if let Some(latency) = latency {
                gauge!(name, "limit" => limit()).set(latency);
            }
        }
        gauge!(CONCURRENCY_LIMIT, "limit" => limit()).set(decision.limit);
        let is_probe = explanation.reason.is_probe();
        gauge!(MIN_RTT_ACTIVE, "limit" => limit()).set(f64::from(u8::from(is_probe)));
        let reason = explanation.reason.as_str();
        counter!(DECISIONS, "limit" => limit(), "reason" => reason).increment(1);
        let overloaded = counter!(OVERLOADED, "limit" => limit());
        overloaded.increment(u64::from(decision.overloaded));
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Metrics").field(&self.0.name).finish()
    }
}
