//! Reports statistics to the recorder of the crate [`metrics`].
//!
//! Statistics are absolute numbers that a program reads when it wants to, so they are counters that are set, and
//! gauges. Nothing is kept here: the recorder finds each one by its name.

use ::metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

use crate::detector::DetectorStatistics;
use crate::queue::LimitStatistics;
use crate::store::StoreStatistics;

const CALLS: &str = "tollgate_redis_calls_total";
const SUCCEEDED: &str = "tollgate_redis_succeeded_total";
const FAILURES: &str = "tollgate_redis_failures_total";
const LATENCY_BUCKET: &str = "tollgate_redis_latency_seconds_bucket";
const LATENCY_COUNT: &str = "tollgate_redis_latency_seconds_count";
const LATENCY_SUM: &str = "tollgate_redis_latency_seconds_sum";
const BREAKER_OPEN: &str = "tollgate_redis_breaker_open";
const OPENINGS: &str = "tollgate_redis_breaker_openings_total";
const CONNECTIONS: &str = "tollgate_redis_connections_total";
const CONNECTED: &str = "tollgate_redis_connected";

const RECORDED: &str = "tollgate_redis_recorded_total";
const UNRECORDED: &str = "tollgate_redis_unrecorded_total";
const FLAGGED: &str = "tollgate_redis_flagged";

const WAITING: &str = "tollgate_redis_waiting";

/// The name of a counter of a limit, its description, and its value.
type OfLimit = (&'static str, &'static str, fn(&LimitStatistics) -> u64);

const OF_LIMIT: [OfLimit; 10] = [
    (
        "tollgate_redis_admitted_total",
        "calls that were admitted",
        |it| it.admitted,
    ),
    (
        "tollgate_redis_denied_total",
        "calls that were denied",
        |it| it.denied,
    ),
    (
        "tollgate_redis_refused_total",
        "calls that were refused for another reason",
        |it| it.refused,
    ),
    (
        "tollgate_redis_failed_total",
        "calls that failed with the store",
        |it| it.failed,
    ),
    (
        "tollgate_redis_abandoned_total",
        "waits that were dropped before they ended",
        |it| it.abandoned,
    ),
    (
        "tollgate_redis_coalesced_total",
        "calls that shared a request",
        |it| it.coalesced,
    ),
    (
        "tollgate_redis_cached_total",
        "calls that were decided without the server",
        |it| it.cached,
    ),
    (
        "tollgate_redis_fallbacks_total",
        "calls that the fallback decided",
        |it| it.fallbacks,
    ),
    (
        "tollgate_redis_turns_total",
        "turns that were reserved",
        |it| it.turns,
    ),
    (
        "tollgate_redis_unused_turns_total",
        "turns that were not used",
        |it| it.unused_turns,
    ),
];

impl StoreStatistics {
    /// Reports these figures to the recorder of the crate [`metrics`](::metrics), with the label `store`. Needs
    /// the feature `metrics`.
    ///
    /// Call it whenever the metrics are read, or every few seconds:
    ///
    /// | name | type | meaning |
    /// |---|---|---|
    /// | `tollgate_redis_calls_total` | counter | calls of the server |
    /// | `tollgate_redis_succeeded_total` | counter | calls that got a reply other than an error |
    /// | `tollgate_redis_failures_total` | counter | calls that failed; the label `kind` is the [`StoreError`](crate::StoreError) in snake case |
    /// | `tollgate_redis_latency_seconds_bucket`, `.._count` | counter | the histogram of the time of calls; the label `le` is the inclusive bound, as in Prometheus |
    /// | `tollgate_redis_latency_seconds_sum` | gauge | the sum of these times |
    /// | `tollgate_redis_breaker_open`, `tollgate_redis_connected` | gauge | 1 or 0 |
    /// | `tollgate_redis_breaker_openings_total` | counter | openings of the breaker |
    /// | `tollgate_redis_connections_total` | counter | connections that were made |
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::Quota;
    /// use tollgate_redis::{RateLimiter, Store};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = Store::new("redis://127.0.0.1:6379/")?;
    /// let limiter = RateLimiter::new(&store, "requests", Quota::per_second(50));
    ///
    /// store.statistics().record("main");
    /// limiter.statistics().record("requests");
    /// # Ok(())
    /// # }
    /// ```
    #[cfg_attr(docsrs, doc(cfg(feature = "metrics")))]
    pub fn record(&self, store: impl Into<String>) {
        describe_store();
        let store = store.into();
        let count = |name: &'static str, value| {
            counter!(name, "store" => store.clone()).absolute(value);
        };
        let set = |name: &'static str, value| gauge!(name, "store" => store.clone()).set(value);
        count(CALLS, self.calls);
        count(SUCCEEDED, self.succeeded);
        count(OPENINGS, self.openings);
        count(CONNECTIONS, self.connections);
        set(BREAKER_OPEN, f64::from(u8::from(self.is_broken)));
        set(CONNECTED, f64::from(u8::from(self.is_connected)));
        for (error, failures) in self.all_failures() {
            let kind = snake_case(&format!("{error:?}"));
            counter!(FAILURES, "store" => store.clone(), "kind" => kind).absolute(failures);
        }
        let mut within = 0;
        for (bound, times) in self.latency.buckets() {
            within += times;
            let bound = match bound {
                std::time::Duration::MAX => "+Inf".to_owned(),
                _ => bound.as_secs_f64().to_string(),
            };
            counter!(LATENCY_BUCKET, "store" => store.clone(), "le" => bound).absolute(within);
        }
        count(LATENCY_COUNT, self.latency.count());
        set(LATENCY_SUM, self.latency.sum().as_secs_f64());
    }
}

impl LimitStatistics {
    /// Reports these figures to the recorder of the crate [`metrics`](::metrics), with the label `limit`. Needs
    /// the feature `metrics`. The label is the name of a limit, never of a key.
    ///
    /// Call it whenever the metrics are read, or every few seconds. `tollgate_redis_waiting` is a gauge. Each
    /// other figure is a counter named like its field: `tollgate_redis_admitted_total`, `.._denied_total`,
    /// `.._refused_total`, `.._failed_total`, `.._abandoned_total`, `.._coalesced_total`, `.._cached_total`,
    /// `.._fallbacks_total`, `.._turns_total` and `.._unused_turns_total`.
    ///
    /// # Examples
    ///
    /// See [`StoreStatistics::record`].
    #[cfg_attr(docsrs, doc(cfg(feature = "metrics")))]
    pub fn record(&self, limit: impl Into<String>) {
        let limit = limit.into();
        describe_gauge!(WAITING, "the number of waiters");
        gauge!(WAITING, "limit" => limit.clone()).set(self.waiting as f64);
        for (name, meaning, value) in OF_LIMIT {
            describe_counter!(name, meaning);
            counter!(name, "limit" => limit.clone()).absolute(value(self));
        }
    }
}

impl DetectorStatistics {
    /// Reports these figures to the recorder of the crate [`metrics`](::metrics), with the label `limit`: the counters
    /// `tollgate_redis_recorded_total`, `.._unrecorded_total`, `.._denied_total` and `.._failed_total`, and the gauge
    /// `tollgate_redis_flagged`. Needs the feature `metrics`. The label is the name of the detector.
    ///
    /// # Examples
    ///
    /// See [`StoreStatistics::record`].
    #[cfg_attr(docsrs, doc(cfg(feature = "metrics")))]
    pub fn record(&self, limit: impl Into<String>) {
        let limit = limit.into();
        describe_counter!(RECORDED, "the cost of calls that were recorded");
        describe_counter!(UNRECORDED, "the cost of calls of too many callers");
        describe_gauge!(FLAGGED, "the number of callers that are blocked");
        gauge!(FLAGGED, "limit" => limit.clone()).set(self.flagged as f64);
        let [_, (denied, ..), _, (failed, ..), ..] = OF_LIMIT;
        for (name, value) in [
            (RECORDED, self.recorded),
            (UNRECORDED, self.unrecorded),
            (denied, self.denied),
            (failed, self.failed),
        ] {
            counter!(name, "limit" => limit.clone()).absolute(value);
        }
    }
}

fn describe_store() {
    describe_counter!(CALLS, "calls of the server");
    describe_counter!(SUCCEEDED, "calls that got a reply other than an error");
    describe_counter!(FAILURES, "calls that failed");
    describe_counter!(LATENCY_BUCKET, "calls by the time that they took");
    describe_counter!(LATENCY_COUNT, "calls whose time is known");
    describe_gauge!(LATENCY_SUM, Unit::Seconds, "the sum of the times of calls");
    describe_gauge!(BREAKER_OPEN, "whether the breaker is open");
    describe_counter!(OPENINGS, "openings of the breaker");
    describe_counter!(CONNECTIONS, "connections that were made");
    describe_gauge!(CONNECTED, "whether there is a connection");
}

fn snake_case(name: &str) -> String {
    let mut text = String::new();
    for it in name.chars() {
        if it.is_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.extend(it.to_lowercase());
    }
    text
}
