//! Panics of the service, of a body and of the throttle: the permit comes back, and before the panic is
//! handed on nobody else's place is lost.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tollgate::Semaphore;
use tollgate_tower::ThrottleLayer;

use super::service::Page;
use super::setup::{Read, Setup};
use crate::support::assert_at_rest;
use crate::support::scripted::Script;

/// Runs what panics on purpose.
#[track_caller]
fn panics<R>(run: impl FnOnce() -> R) {
    assert!(catch_unwind(AssertUnwindSafe(run)).is_err(), "no panic");
}

#[test]
fn a_service_that_panics_when_it_is_called_gives_the_permit_back_at_once() {
    let mut setup = Setup::new();
    let mut request = setup.request("panic in call");
    panics(|| request.poll());
    let log = ["enter t", "in t0", "call panic in call", "drop t0"];
    assert_eq!(setup.log.take(), log);
    drop(request);
    assert!(setup.log.take().is_empty());
}

/// As a task does, which is dropped by the executor.
#[test]
fn work_that_panics_gives_the_permit_back_when_it_is_dropped() {
    let slots = Semaphore::new(1);
    let mut setup = Setup::behind(&slots);
    let mut request = setup.request("panic in work");
    let mut next = {
        panics(|| request.poll());
        setup.called("b")
    };
    drop(request);
    assert_eq!(next.wakes(), 1);
    assert!(next.is_pending());
    setup
        .inner
        .answer(Err("nobody reads it: the request is gone"));
    setup.inner.send([]);
    drop(next.output());
    assert_at_rest(&slots, 1);
}

#[test]
fn a_body_that_panics_gives_the_permit_back_when_it_is_dropped() {
    let mut setup = Setup::new();
    let pages = setup.inner.pages([Page::Panics]);
    let mut body = setup.body(pages);
    panics(move || body.read());
    assert_eq!(setup.log.take(), ["drop body", "drop t0"]);
}

#[test]
fn a_throttle_that_panics_takes_nothing_along() {
    let mut setup = Setup::new();
    setup.throttle.now(Script::PanicWhenAsked);
    panics(|| setup.request("a"));
    setup.throttle.now(Script::PanicWhenPolled);
    let mut request = setup.request("b");
    panics(|| request.poll());
    drop(request);
    assert_eq!(setup.log.take(), ["enter t", "enter t", "leave t"]);
    // The service goes on.
    setup.throttle.now(Script::Admit);
    let mut pages = setup.body(setup.inner.pages([]));
    assert_eq!(pages.read(), Read::End);

    let mut refusing = Setup::with(|throttle| ThrottleLayer::new(throttle).refusing());
    refusing.throttle.now(Script::PanicWhenAsked);
    panics(|| refusing.request("c"));
    assert_eq!(refusing.log.take(), ["try t"]);
    refusing.throttle.now(Script::Admit);
    panics(|| refusing.request("panic in call"));
    let log = ["try t", "in t0", "call panic in call", "drop t0"];
    assert_eq!(refusing.log.take(), log);
}

#[test]
fn one_that_is_over_is_not_polled_again() {
    for answer in [Script::Admit, Script::Refuse(tollgate::ErrorKind::Closed)] {
        let mut setup = Setup::new();
        setup.throttle.now(answer);
        let mut request = setup.request("a");
        if request.is_pending() {
            setup.inner.send([]);
            drop(request.output());
        }
        panics(|| request.poll());
    }
}
