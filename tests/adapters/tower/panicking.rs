//! Panics of the service, of a body and of the throttle: the permit comes back, and before the panic is
//! handed on nobody else's place is lost.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tollgate::Semaphore;
use tollgate::tower::ThrottleLayer;

use super::desk::Page;
use super::office::{Office, Read};
use crate::support::assert_at_rest;
use crate::support::scripted::Script;

/// Runs what panics on purpose.
#[track_caller]
fn panics<R>(run: impl FnOnce() -> R) {
    assert!(catch_unwind(AssertUnwindSafe(run)).is_err(), "no panic");
}

#[test]
fn a_service_that_panics_when_it_is_called_gives_the_permit_back_at_once() {
    let mut office = Office::new();
    let mut request = office.request("panic in call");
    panics(|| request.poll());
    let log = ["enter t", "in t0", "call panic in call", "drop t0"];
    assert_eq!(office.log.take(), log);
    drop(request);
    assert!(office.log.take().is_empty());
}

/// As a task does, which is dropped by the executor.
#[test]
fn work_that_panics_gives_the_permit_back_when_it_is_dropped() {
    let slots = Semaphore::new(1);
    let mut office = Office::behind(&slots);
    let mut request = office.request("panic in work");
    let mut next = {
        panics(|| request.poll());
        office.called("b")
    };
    drop(request);
    assert_eq!(next.wakes(), 1);
    assert!(next.is_pending());
    office
        .desk
        .answer(Err("nobody reads it: the request is gone"));
    office.desk.send([]);
    drop(next.output());
    assert_at_rest(&slots, 1);
}

#[test]
fn a_body_that_panics_gives_the_permit_back_when_it_is_dropped() {
    let mut office = Office::new();
    let pages = office.desk.pages([Page::Panics]);
    let mut body = office.body(pages);
    panics(move || body.read());
    assert_eq!(office.log.take(), ["drop body", "drop t0"]);
}

#[test]
fn a_throttle_that_panics_takes_nothing_along() {
    let mut office = Office::new();
    office.throttle.now(Script::PanicWhenAsked);
    panics(|| office.request("a"));
    office.throttle.now(Script::PanicWhenPolled);
    let mut request = office.request("b");
    panics(|| request.poll());
    drop(request);
    assert_eq!(office.log.take(), ["enter t", "enter t", "leave t"]);
    // The service goes on.
    office.throttle.now(Script::Admit);
    let mut pages = office.body(office.desk.pages([]));
    assert_eq!(pages.read(), Read::End);

    let mut refusing = Office::with(ThrottleLayer::refusing);
    refusing.throttle.now(Script::PanicWhenAsked);
    let mut request = refusing.request("c");
    panics(|| request.poll());
    assert_eq!(refusing.log.take(), ["try t"]);
}

#[test]
fn one_that_is_over_is_not_polled_again() {
    for answer in [Script::Admit, Script::Refuse(tollgate::ErrorKind::Closed)] {
        let mut office = Office::new();
        office.throttle.now(answer);
        let mut request = office.request("a");
        if request.is_pending() {
            office.desk.send([]);
            drop(request.output());
        }
        panics(|| request.poll());
    }
}
