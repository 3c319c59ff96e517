//! Tests the exact reports of an observed throttle: each entry once, and the end of its permit.

mod decisions;
#[cfg(feature = "metrics")]
mod guide;
mod holders;
#[cfg(feature = "metrics")]
mod metrics;
mod shadow;
#[path = "../../../../tests/support/mod.rs"]
mod support;
#[cfg(feature = "tracing")]
mod traced;

use std::panic::Location;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate::throttle::{BoxThrottle, Inspect, LimitStatus, Weighted};
use tollgate::{
    AcquireError, Clock, ErrorKind, Gate, Pool, Quota, RateLimiter, Semaphore, Throttle,
    TryThrottle, all,
};
use tollgate_observe::{Observed, Observer, Place};

use crate::support::foreign::panic_message;
use crate::support::{Waiter, assert_at_rest, kind, poll_once};

const SECOND: Duration = Duration::from_secs(1);

/// A report; permits are numbered in the order of their admission.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Report {
    Admitted(Option<Duration>),
    Refused(ErrorKind, Option<Duration>),
    Abandoned(Duration),
    Released(usize),
    Undone(usize),
}

use Report::{Abandoned, Admitted, Refused, Released, Undone};

/// Keeps all reports, and the places of their calls.
#[derive(Default)]
struct Log {
    reports: Mutex<Vec<Report>>,
    places: Mutex<Vec<Place>>,
}

impl Log {
    fn push(&self, report: Report, place: Option<Place>) {
        self.reports.lock().unwrap().push(report);
        self.places.lock().unwrap().extend(place);
    }

    /// Returns the reports since the last call.
    fn take(&self) -> Vec<Report> {
        std::mem::take(&mut self.reports.lock().unwrap())
    }

    /// Returns the lines of all places, relative to this line. All places are in this file.
    #[track_caller]
    fn lines(&self, here: u32) -> Vec<u32> {
        let places = self.places.lock().unwrap();
        let in_this_file = places.iter().all(|place| place.file() == file!());
        assert!(in_this_file, "{places:?}");
        places.iter().map(|place| place.line() - here).collect()
    }
}

impl Observer for Log {
    type Held = usize;

    fn admitted(&self, place: Place, waited: Option<Duration>) -> usize {
        self.push(Admitted(waited), Some(place));
        self.places.lock().unwrap().len()
    }

    fn refused(&self, place: Place, error: &AcquireError, waited: Option<Duration>) {
        self.push(Refused(error.kind(), waited), Some(place));
    }

    fn abandoned(&self, place: Place, waited: Duration) {
        self.push(Abandoned(waited), Some(place));
    }

    fn released(&self, held: usize) {
        self.push(Released(held), None);
    }

    fn undone(&self, held: usize) {
        self.push(Undone(held), None);
    }
}

#[test]
fn acquire_that_is_ready_did_not_wait() {
    let (semaphore, log) = (Semaphore::new(2), Log::default());
    let observed = Observed::new(&semaphore, &log);
    let one = Waiter::new(observed.acquire()).granted();
    let two = observed.try_acquire().unwrap();
    assert_eq!(two.count(), 1);
    assert_eq!(kind(observed.try_acquire()), ErrorKind::NoPermits);
    assert_eq!(
        log.take(),
        [
            Admitted(None),
            Admitted(None),
            Refused(ErrorKind::NoPermits, None)
        ]
    );
    drop(one);
    observed.rollback(two);
    assert_eq!(log.take(), [Released(1), Undone(2)]);
    assert_at_rest(&semaphore, 2);
}

#[test]
fn acquire_that_waits_reports_how_long() {
    let (clock, log) = (Clock::manual(), Log::default());
    let semaphore = Semaphore::new(1);
    let observed = Observed::new(&semaphore, &log).clock(&clock);
    let held = observed.try_acquire().unwrap();
    let mut admitted = Waiter::new(observed.acquire());
    clock.advance(SECOND);
    // The wait begins with the first poll, and a pending poll changes nothing.
    assert!(admitted.is_pending());
    clock.advance(SECOND);
    let mut refused = Waiter::parked(observed.acquire());
    assert!(admitted.is_pending());
    let abandoned = Waiter::parked(observed.acquire());
    clock.advance(SECOND);
    drop(abandoned);
    log.take();
    drop(held);
    drop(admitted.granted());
    semaphore.close();
    // Served, and polled later.
    clock.advance(SECOND);
    drop(refused.granted());
    assert_eq!(kind(observed.try_acquire()), ErrorKind::Closed);
    assert_eq!(
        log.take(),
        [
            Released(1),
            Admitted(Some(2 * SECOND)),
            Released(3),
            Admitted(Some(2 * SECOND)),
            Released(4),
            Refused(ErrorKind::Closed, None)
        ]
    );
}

#[test]
fn acquire_dropped_is_abandoned_once_it_has_waited() {
    let (clock, log) = (Clock::manual(), Log::default());
    let semaphore = Arc::new(Semaphore::new(0));
    let observed = Observed::new(semaphore, &log).clock(&clock);
    drop(observed.acquire());
    assert_eq!(log.take(), []);
    let waiter = Waiter::parked(observed.acquire());
    clock.advance(SECOND);
    drop(waiter);
    assert_eq!(log.take(), [Abandoned(SECOND)]);
    // The waiter is granted a permit and not polled again, so the permit returns unseen.
    let waiter = Waiter::parked(observed.acquire());
    observed.throttle().set_permits(1);
    drop(waiter);
    assert_eq!(log.take(), [Abandoned(Duration::ZERO)]);
    assert_at_rest(observed.throttle(), 1);
}

#[test]
fn acquire_closed_while_it_waits_is_refused() {
    let (clock, log) = (Clock::manual(), Log::default());
    let semaphore = Semaphore::new(0);
    let observed = Observed::new(&semaphore, &log).clock(&clock);
    let mut waiter = Waiter::parked(observed.acquire());
    clock.advance(SECOND);
    semaphore.close();
    assert_eq!(waiter.refused(), ErrorKind::Closed);
    drop(waiter);
    assert_eq!(log.take(), [Refused(ErrorKind::Closed, Some(SECOND))]);
}

#[test]
fn timeout_around_an_entry_reaches_the_throttle_and_is_reported() {
    let (clock, log) = (Clock::manual(), Log::default());
    let limiter = RateLimiter::new(Quota::per_second(1)).clock(&clock);
    let observed = Observed::new(&limiter, &log).clock(&clock);
    drop(observed.try_acquire().unwrap());
    log.take();
    // The throttle knows that the wait would not fit.
    let mut refused = Waiter::new(observed.acquire().timeout(SECOND / 2));
    assert_eq!(refused.refused(), ErrorKind::TimedOut);
    assert_eq!(log.take(), [Refused(ErrorKind::TimedOut, None)]);

    let gate = Gate::new().clock(&clock);
    gate.block_for(SECOND);
    let observed = Observed::new(gate.clone(), &log).clock(&clock);
    let mut ended = Waiter::parked(observed.acquire().timeout(SECOND));
    gate.block_for(2 * SECOND);
    clock.advance(SECOND);
    assert_eq!(ended.refused(), ErrorKind::TimedOut);
    assert_eq!(log.take(), [Abandoned(SECOND)]);
}

#[test]
fn rollback_undoes_both_the_entry_and_the_charge() {
    let log = Log::default();
    let limiter = RateLimiter::new(Quota::per_hour(1)).clock(Clock::manual());
    let closed = Semaphore::new(0);
    let both = all((Observed::new(&limiter, (&log, ())), &closed));
    assert_eq!(kind(both.try_acquire()), ErrorKind::NoPermits);
    assert_eq!(limiter.snapshot().available, 1);
    let mut waiter = Waiter::parked(both.acquire());
    assert_eq!(limiter.snapshot().available, 0);
    closed.close();
    assert_eq!(waiter.refused(), ErrorKind::Closed);
    assert_eq!(limiter.snapshot().available, 1);
    assert_eq!(
        log.take(),
        [Admitted(None), Undone(1), Admitted(None), Undone(2)]
    );
}

#[test]
fn units_and_status_are_those_of_the_throttle() {
    let log = Log::default();
    let limiter = RateLimiter::new(Quota::per_hour(1).burst(8)).clock(Clock::manual());
    let observed = Observed::new(&limiter, &log);
    assert_eq!(observed.max_units(), 8);
    let charge = observed.cost(5).try_enter().unwrap();
    let mut left = Vec::new();
    observed.inspect(Some(&charge), &mut |_, status| match status {
        LimitStatus::Rate { decision, .. } => left.push(decision.remaining),
        other => panic!("{other:?}"),
    });
    assert_eq!(left, [3]);
    observed.settle(charge, 2);
    assert_eq!(limiter.snapshot().available, 6);
    let charge = poll_once(&mut observed.cost(6).enter()).map(Result::unwrap);
    assert!(charge.is_ready());
    let reports = [Admitted(None), Released(1), Admitted(None)];
    assert_eq!(log.take(), reports);
    assert_eq!(log.places.lock().unwrap()[0].file(), file!());
}

#[test]
fn into_inner_of_a_permit_releases_it() {
    let log = Log::default();
    let pool = Pool::new([1, 2]);
    let observed = Observed::new(&pool, &log);
    let mut item = observed.try_acquire().unwrap();
    **item += 6;
    let item = item.into_inner();
    assert_eq!(log.take(), [Admitted(None), Released(1)]);
    assert_eq!(*item, 7);
}

#[test]
fn place_is_that_of_the_call() {
    let log = Log::default();
    let semaphore = Arc::new(Semaphore::new(100));
    let observed = Arc::new(Observed::new(semaphore, &log));
    let here = Location::caller().line();
    drop(poll_once(&mut observed.acquire()));
    drop(observed.try_acquire());
    let mut entry = observed.acquire();
    // The line of the call, not that of the poll.
    drop(poll_once(&mut entry));
    assert_eq!(log.lines(here), [1, 2, 3]);
}

#[test]
fn place_of_an_entry_through_a_trait_is_that_of_the_creation() {
    let log = Arc::new(Log::default());
    let limiter = Arc::new(RateLimiter::new(Quota::per_hour(1).burst(100)).clock(Clock::manual()));
    let here = Location::caller().line();
    let observed = Observed::new(limiter, Arc::clone(&log));
    drop(poll_once(&mut observed.enter()));
    drop(observed.try_enter());
    drop(poll_once(&mut (&&observed).enter()));
    drop(poll_once(&mut observed.cost(2).enter()));
    drop(observed.cost(2).try_enter());
    let both = all((observed.clone(), Gate::new()));
    drop(poll_once(&mut both.acquire()));
    drop(both.try_acquire());
    drop(poll_once(&mut Some(observed.clone()).enter()));
    drop(poll_once(&mut BoxThrottle::new(observed).enter()));
    assert_eq!(log.lines(here), [1; 9]);
}

#[tokio::test]
async fn place_of_an_entry_in_a_layer_is_the_line_that_put_the_throttle_there() {
    use tollgate_tower::ThrottleLayer;
    use tower::{Layer, ServiceExt, service_fn};

    let log = Arc::new(Log::default());
    let slots = Arc::new(Semaphore::new(1));
    let here = Location::caller().line();
    let waiting = ThrottleLayer::new(Observed::new(Arc::clone(&slots), Arc::clone(&log)));
    let refusing = ThrottleLayer::new(Observed::new(slots, Arc::clone(&log))).refusing();
    let page = service_fn(async |_: http::Request<()>| {
        Ok::<_, std::convert::Infallible>(http::Response::new(axum::body::Body::empty()))
    });
    drop(waiting.layer(page).oneshot(http::Request::new(())).await);
    drop(refusing.layer(page).oneshot(http::Request::new(())).await);
    assert_eq!(log.lines(here), [1, 2]);
}

#[test]
fn observers_in_a_tuple_get_every_report() {
    let logs: [Log; 4] = Default::default();
    let [a, b, c, d] = &logs;
    let semaphore = Semaphore::new(1);
    let observed = Observed::new(&semaphore, (a, b, (Arc::new(()), c, d)));
    let held = observed.try_acquire().unwrap();
    drop(Waiter::parked(observed.acquire()));
    assert_eq!(kind(observed.try_acquire()), ErrorKind::NoPermits);
    drop(held);
    observed.rollback(observed.try_acquire().unwrap());
    let first = logs[0].take();
    assert_eq!(first.len(), 6);
    for log in &logs[1..] {
        let reports = log.take();
        let counted = reports.iter().zip(&first).filter(|(one, other)| {
            // The durations of abandoned waits differ between the two.
            one == other || matches!((one, other), (Abandoned(_), Abandoned(_)))
        });
        assert_eq!((counted.count(), reports.len()), (6, 6));
    }
}

/// An observer that panics in the named method.
#[derive(Clone, Copy)]
struct Panics(&'static str);

impl Panics {
    fn at(self, report: &str) {
        assert!(self.0 != report, "an observer that panics on purpose");
    }
}

impl Observer for Panics {
    type Held = ();

    fn admitted(&self, _: Place, _: Option<Duration>) {
        self.at("admitted");
    }

    fn refused(&self, _: Place, _: &AcquireError, _: Option<Duration>) {
        self.at("refused");
    }

    fn abandoned(&self, _: Place, _: Duration) {
        self.at("abandoned");
    }

    fn released(&self, (): ()) {
        self.at("released");
    }

    fn undone(&self, (): ()) {
        self.at("undone");
    }
}

#[test]
fn observer_that_panics_loses_no_permit() {
    let semaphore = Semaphore::new(1);
    for report in ["admitted", "refused", "abandoned", "released", "undone"] {
        let observed = Observed::new(&semaphore, Panics(report));
        let held = panic_message(|| observed.try_acquire().unwrap());
        assert_eq!(held.is_some(), report == "admitted");
        let held = semaphore.try_acquire().unwrap();
        let refused = panic_message(|| drop(observed.try_acquire()));
        assert_eq!(refused.is_some(), report == "refused");
        drop(Waiter::parked(observed.acquire()));
        drop(held);
        if report != "admitted" {
            observed.rollback(observed.try_acquire().unwrap());
        }
        assert_at_rest(&semaphore, 1);
    }
}

/// Acquires and drops, acquires and rolls back, and abandons a wait.
fn end_in_every_way<O: Observer + Clone>(observer: O) {
    let semaphore = Semaphore::new(1);
    let observed = Observed::new(&semaphore, observer).clock(Clock::manual());
    panic_message(|| drop(observed.try_acquire()));
    panic_message(|| observed.rollback(observed.try_acquire().unwrap()));
    let held = semaphore.try_acquire().unwrap();
    drop(Waiter::parked(observed.acquire()));
    drop(held);
    assert_at_rest(&semaphore, 1);
}

#[test]
fn observer_that_panics_in_a_tuple_leaves_no_holder_with_the_others() {
    let abandoned = Abandoned(Duration::ZERO);
    let every_end = [
        Admitted(None),
        Released(1),
        Admitted(None),
        Undone(2),
        abandoned,
    ];
    for report in ["abandoned", "released", "undone"] {
        let [first, last]: [Log; 2] = Default::default();
        end_in_every_way((&first, Panics(report), &last));
        assert_eq!(first.take(), every_end, "{report}");
        assert_eq!(last.take(), every_end, "{report}");
    }
    let [first, second, last]: [Log; 3] = Default::default();
    end_in_every_way(((&first, &second), (), Panics("admitted"), &last));
    // The permit that was about to be rolled back was dropped.
    let released = [
        Admitted(None),
        Released(1),
        Admitted(None),
        Released(2),
        abandoned,
    ];
    assert_eq!([first.take(), second.take()], [released; 2]);
    assert_eq!(last.take(), [abandoned]);
}
