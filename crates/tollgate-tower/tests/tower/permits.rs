//! Tests that the permit is held to the end of the body, and no longer.

use std::panic::{AssertUnwindSafe, catch_unwind};

use hyper::body::{Body, SizeHint};
use tollgate::Semaphore;
use tollgate_tower::ThrottleLayer;
use tower::Layer;

use super::setup::{ManualService, Page, Read, Reader, Setup, call, text};
use crate::support::assert_at_rest;
use crate::support::scripted::{Lingers, Log, Script};

const GIVEN_BACK: [&str; 2] = ["drop body", "drop t0"];

fn nothing(log: &Log) -> bool {
    log.take().is_empty()
}

#[test]
fn it_is_held_while_there_is_something_to_read() {
    let mut setup = Setup::new();
    let pages = [Page::Text("1"), Page::NotYet, Page::Text("2"), Page::NotYet];
    let mut body = setup.body(setup.inner.pages(pages));
    let read: Vec<_> = (0..4).map(|_| body.read()).collect();
    assert_eq!(read, [text("1"), Read::NotYet, text("2"), Read::NotYet]);
    assert!(nothing(&setup.log) && !body.0.is_end_stream());
    assert_eq!(body.read(), Read::End);
    // The permit is returned although the body still exists.
    assert_eq!(setup.log.take(), GIVEN_BACK);
    assert_eq!(body.read(), Read::End);
    assert!(body.0.is_end_stream());
    assert_eq!(body.0.size_hint().exact(), Some(0));
    drop(body);
    assert!(nothing(&setup.log));
}

/// Lists the pages of a body, whether it knows its end, and the reads while the permit is held and
/// with the frame that returns it.
#[test]
fn it_is_given_back_with_the_last_frame_that_is_read() {
    let table = [
        // The body does not know what follows trailers, or text.
        (
            vec![Page::Text("1"), Page::Trailers],
            false,
            vec![text("1"), Read::Trailers],
            Read::End,
        ),
        // A server reads no more than the promised length.
        (
            vec![Page::Text("1"), Page::Text("2")],
            true,
            vec![text("1")],
            text("2"),
        ),
        // A body that fails has ended.
        (
            vec![Page::Text("1"), Page::Fails, Page::Text("2")],
            false,
            vec![text("1")],
            Read::Failed,
        ),
    ];
    for (pages, knows_its_end, held, last) in table {
        let mut setup = Setup::new();
        let mut body = setup.inner.pages(pages);
        body.knows_its_end = knows_its_end;
        let mut body = setup.body(body);
        for expected in held {
            assert_eq!(body.read(), expected);
            assert!(nothing(&setup.log) && !body.0.is_end_stream());
        }
        assert_eq!(body.read(), last);
        assert_eq!(setup.log.take(), GIVEN_BACK);
        assert!(body.0.is_end_stream());
        assert_eq!(body.read(), Read::End);
    }
}

#[test]
fn it_is_given_back_when_the_body_is_dropped() {
    let mut setup = Setup::new();
    for read in 0..2 {
        let pages = [Page::Text("1"), Page::Text("2")];
        let mut body = setup.body(setup.inner.pages(pages));
        for _ in 0..read {
            body.read();
        }
        assert!(nothing(&setup.log));
        drop(body);
        let log = [String::from("drop body"), format!("drop t{read}")];
        assert_eq!(setup.log.take(), log);
    }
}

#[test]
fn it_is_given_back_at_once_if_there_is_nothing_to_read() {
    let mut setup = Setup::new();
    let mut pages = setup.inner.pages([]);
    pages.knows_its_end = true;
    // An answer to `HEAD` has the size hint of the body that a `GET` would return.
    pages.size = SizeHint::with_exact(12);
    let mut request = setup.called("a");
    setup.log.take();
    setup.inner.answer(Ok(axum::http::Response::new(pages)));
    let answer = request.output().unwrap();
    assert_eq!(setup.log.take(), ["drop work a", "drop body", "drop t0"]);
    assert!(answer.body().is_end_stream());
    assert_eq!(answer.body().size_hint().exact(), Some(12));
}

#[test]
fn it_looks_like_the_body_inside() {
    let mut setup = Setup::new();
    let mut pages = setup.inner.pages([Page::Text("1"), Page::Text("2")]);
    pages.size.set_lower(2);
    pages.size.set_upper(7);
    let mut body = setup.body(pages);
    assert_eq!(body.0.size_hint().lower(), 2);
    assert_eq!(body.0.size_hint().upper(), Some(7));
    assert!(!body.0.is_end_stream());
    assert_eq!((body.read(), body.read()), (text("1"), text("2")));
    // The body does not know yet that this was all.
    assert!(!body.0.is_end_stream());
}

#[test]
fn what_is_said_beside_the_body_goes_through() {
    let mut setup = Setup::new();
    let mut request = setup.called("a");
    let answer = axum::http::Response::builder()
        .status(418)
        .header("x-kind", "teapot")
        .body(setup.inner.pages([]));
    setup.inner.answer(Ok(answer.unwrap()));
    let answer = request.output().unwrap();
    assert_eq!(answer.status(), 418);
    assert_eq!(answer.headers()["x-kind"], "teapot");
    assert!(answer.extensions().is_empty());
}

// Drops the future of an answer at each stage, or completes it. Everything taken is returned,
// the work first and then the permit.

#[test]
fn while_it_waits_it_leaves_the_queue() {
    let mut setup = Setup::new();
    setup.throttle.now(Script::Wait);
    let request = setup.called("a");
    setup.log.take();
    drop(request);
    assert_eq!(setup.log.take(), ["leave t"]);
}

#[test]
fn while_it_is_answered_the_work_is_dropped_before_the_permit() {
    let mut setup = Setup::new();
    let request = setup.called("a");
    assert_eq!(setup.log.take(), ["enter t", "in t0", "call a"]);
    drop(request);
    assert_eq!(setup.log.take(), ["drop work a", "drop t0"]);
}

#[test]
fn the_wait_is_dropped_as_soon_as_it_is_over() {
    let log = Log::default();
    let inner = ManualService::new(&log);
    let call = |throttle| call(&mut ThrottleLayer::new(throttle).layer(inner.clone()), "a");
    let mut admitted = call(Lingers::admits(&log));
    assert!(admitted.is_pending());
    assert_eq!(log.take(), ["over", "call a"]);
    let mut refused = call(Lingers::refuses(&log));
    assert!(refused.output().is_ok());
    // The wait is dropped although the future still exists.
    assert_eq!(log.take(), ["over"]);
}

#[test]
fn when_it_was_answered_the_permit_is_in_the_answer() {
    let mut setup = Setup::new();
    let mut request = setup.called("a");
    setup.inner.send([Page::Text("1")]);
    let answer = request.output();
    // The work is dropped although the future still exists.
    let log = ["enter t", "in t0", "call a", "drop work a"];
    assert_eq!(setup.log.take(), log);
    drop(request);
    assert!(setup.log.take().is_empty());
    drop(answer);
    assert_eq!(setup.log.take(), ["drop body", "drop t0"]);
}

#[test]
fn an_error_of_the_service_goes_through_and_gives_the_permit_back() {
    let mut setup = Setup::new();
    let mut request = setup.called("a");
    setup.log.take();
    setup.inner.answer(Err("no answer"));
    assert_eq!(request.output().err(), Some("no answer"));
    // The permit is returned although the future still exists.
    assert_eq!(setup.log.take(), ["drop work a", "drop t0"]);
}

#[test]
fn each_end_of_a_request_admits_the_next() {
    let slots = Semaphore::new(1);
    let mut setup = Setup::behind(&slots);
    let first = setup.called("a");
    let second = setup.called("b");
    let mut third = setup.called("c");
    let fourth = setup.called("d");
    let mut fifth = setup.called("e");
    assert_eq!(
        (setup.log.take(), slots.snapshot().waiting),
        (vec!["call a".into()], 4)
    );
    // The second request is dropped while it is in the queue.
    drop(second);
    assert_eq!(third.wakes(), 0);
    // The first request is dropped while it is being answered.
    drop(first);
    assert_eq!(third.wakes(), 1);
    assert!(third.is_pending());
    assert_eq!(setup.log.take(), ["drop work a", "call c"]);
    // The request is admitted, and dropped before it noticed.
    setup
        .inner
        .answer(Err("nobody reads it: the request is gone"));
    setup.inner.answer(Err("no answer"));
    assert!(third.output().is_err());
    assert_eq!(fourth.wakes(), 1);
    drop(fourth);
    assert_eq!(fifth.wakes(), 1);
    assert!(fifth.is_pending());
    setup.inner.send([Page::Text("1"), Page::Text("2")]);
    let answer = fifth.output().unwrap();
    drop(fifth);
    assert_eq!(slots.available_permits(), 0);
    // The body has been read halfway.
    let mut body = Reader(Box::pin(answer.into_body()));
    assert_eq!(body.read(), text("1"));
    assert_eq!(slots.available_permits(), 0);
    drop(body);
    assert_at_rest(&slots, 1);
}

/// A future that waits for its slot can be polled by one task and then by another.
#[test]
fn the_waker_that_came_last_is_woken() {
    use std::sync::Arc;
    use std::task::Waker;

    use crate::support::Counter;

    let slots = Semaphore::new(0);
    let mut setup = Setup::behind(&slots);
    let mut request = setup.called("a");
    let last = Arc::new(Counter::default());
    let waker = Waker::from(Arc::clone(&last));
    assert!(request.poll_with(&waker).is_pending());
    slots.set_permits(1);
    assert_eq!((request.wakes(), last.count()), (0, 1));
}

// Tests panics of the service, of a body and of the throttle: the permit is returned, and no other
// request loses its place before the panic propagates.

/// Runs a closure that panics on purpose.
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

/// An executor drops the task after a panic like this.
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
    // The service continues to work.
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
