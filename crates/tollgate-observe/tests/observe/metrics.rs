//! Tests the metrics of an observed throttle on a page of Prometheus.

use metrics::with_local_recorder;
use metrics_exporter_prometheus::PrometheusBuilder;
use tollgate::wait::Waiting;
use tollgate::{
    AcquireError, Clock, ErrorKind, Gate, Keyed, Quota, RateLimiter, Semaphore, Throttle,
};
use tollgate_observe::{Metrics, Observed};

use super::SECOND;
use super::decisions::decide;
use crate::support::{Waiter, kind};

/// Runs `run` with its own recorder. Returns the lines of the page that have no quantile.
fn page(run: impl FnOnce()) -> Vec<String> {
    let recorder = PrometheusBuilder::new().build_recorder();
    with_local_recorder(&recorder, run);
    let page = recorder.handle().render();
    let lines = page.lines().filter(|line| !line.contains("quantile"));
    lines.map(str::to_owned).collect()
}

#[track_caller]
fn assert_lines(page: &[String], lines: &[&str]) {
    for line in lines {
        assert!(page.iter().any(|one| one == line), "{line} in {page:#?}");
    }
}

#[test]
fn page_shows_every_end_of_an_entry() {
    let page = page(|| {
        let clock = Clock::manual();
        let semaphore = Semaphore::new(2).max_waiters(2);
        let metrics = Metrics::new("slots").clock(&clock);
        let slots = Observed::new(&semaphore, &metrics).clock(&clock);
        let (one, two) = (slots.try_acquire().unwrap(), slots.try_acquire().unwrap());
        let mut waiter = Waiter::parked(slots.acquire());
        let abandoned = Waiter::parked(slots.acquire());
        assert_eq!(kind(slots.try_acquire()), ErrorKind::NoPermits);
        assert_eq!(Waiter::new(slots.acquire()).refused(), ErrorKind::QueueFull);
        clock.advance(3 * SECOND);
        drop((abandoned, one));
        let three = waiter.granted();
        slots.rollback(two);
        clock.advance(SECOND / 2);
        metrics.record(semaphore.snapshot());
        drop(three);
    });
    assert_lines(
        &page,
        &[
            "# TYPE tollgate_admitted_total counter",
            "tollgate_admitted_total{limit=\"slots\"} 3",
            "tollgate_refused_total{limit=\"slots\",kind=\"no_permits\"} 1",
            "tollgate_refused_total{limit=\"slots\",kind=\"queue_full\"} 1",
            "tollgate_refused_total{limit=\"slots\",kind=\"closed\"} 0",
            "tollgate_abandoned_total{limit=\"slots\"} 1",
            // Two waits of three seconds.
            "tollgate_wait_seconds_sum{limit=\"slots\"} 6",
            "tollgate_wait_seconds_count{limit=\"slots\"} 2",
            // A permit that was rolled back does not count as held.
            "tollgate_held_seconds_sum{limit=\"slots\"} 3.5",
            "tollgate_held_seconds_count{limit=\"slots\"} 2",
            "tollgate_limit{limit=\"slots\"} 2",
            "tollgate_in_use{limit=\"slots\"} 1",
            "tollgate_waiting{limit=\"slots\"} 0",
        ],
    );
}

#[test]
fn keys_share_the_metrics_of_their_map() {
    let page = page(|| {
        let users =
            Keyed::<u64, _>::new(RateLimiter::new(Quota::per_hour(1)).clock(Clock::manual()));
        let metrics = Metrics::new("users");
        for user in [1, 2, 2, 3] {
            drop(Observed::new(users.key(&user), &metrics).try_acquire());
        }
    });
    assert_lines(
        &page,
        &[
            "tollgate_admitted_total{limit=\"users\"} 3",
            "tollgate_refused_total{limit=\"users\",kind=\"rate_limited\"} 1",
        ],
    );
    let named = page.iter().filter(|line| line.contains("{limit=\"users\""));
    // One line for each kind of refusal, and six others: no gauges.
    assert_eq!(named.count(), 16, "{page:#?}");
}

/// Returns whether the page has a line of this gauge.
fn has_gauge(page: &[String], name: &str) -> bool {
    page.iter()
        .any(|line| line.starts_with(&format!("{name}{{")))
}

#[test]
fn gauges_exist_from_the_first_record_on() {
    let gauges = ["tollgate_limit", "tollgate_in_use", "tollgate_waiting"];
    for is_recorded in [false, true] {
        let page = page(|| {
            let (slots, metrics) = (Semaphore::new(2), Metrics::new("slots"));
            drop(Observed::new(&slots, &metrics).try_acquire().unwrap());
            if is_recorded {
                metrics.record(slots.snapshot());
            }
        });
        assert_eq!(
            gauges.map(|gauge| has_gauge(&page, gauge)),
            [is_recorded; 3]
        );
    }
}

#[test]
fn record_of_a_gate_sets_no_limit() {
    let page = page(|| Metrics::new("gate").record(Gate::new().snapshot()));
    assert!(!has_gauge(&page, "tollgate_limit"), "{page:#?}");
    let lines = [
        "tollgate_in_use{limit=\"gate\"} 0",
        "tollgate_waiting{limit=\"gate\"} 0",
    ];
    assert_lines(&page, &lines);
}

/// Refuses every caller, with this kind.
#[derive(Clone, Copy)]
struct Refuses(ErrorKind);

impl Throttle for Refuses {
    type Permit = ();
    type Enter = std::future::Ready<Result<(), AcquireError>>;

    fn enter(&self) -> Waiting<Self::Enter> {
        Waiting::new(std::future::ready(Err(AcquireError::new(self.0))))
    }
}

#[test]
fn every_kind_has_a_label_of_its_own() {
    let kinds = [
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
    for (kind, label) in kinds {
        let page = page(|| {
            let refuses = Observed::new(Refuses(kind), Metrics::new("all"));
            assert_eq!(Waiter::new(refuses.acquire()).refused(), kind);
        });
        let line = format!("tollgate_refused_total{{limit=\"all\",kind=\"{label}\"}} 1");
        assert_lines(&page, &[&line]);
    }
}

#[test]
fn metrics_without_a_recorder_do_nothing() {
    let (slots, metrics) = (Semaphore::new(1), Metrics::new("nobody"));
    metrics.record(slots.snapshot());
    assert_eq!(format!("{metrics:?}"), "Metrics(\"nobody\")");
    drop(Observed::new(&slots, &metrics).try_acquire().unwrap());
}

#[test]
fn decided_sets_the_figures_of_an_adaptive_limit() {
    let page = page(|| drop(decide(Metrics::new("backend"))));
    assert_lines(
        &page,
        &[
            "tollgate_concurrency_limit{limit=\"backend\"} 5",
            "tollgate_min_rtt_seconds{limit=\"backend\"} 1",
            "tollgate_sample_rtt_seconds{limit=\"backend\"} 2",
            "tollgate_min_rtt_calculation_active{limit=\"backend\"} 1",
            "tollgate_decisions_total{limit=\"backend\",reason=\"probe\"} 1",
            "tollgate_overloaded_total{limit=\"backend\"} 1",
        ],
    );
}
