//! The future of an answer is dropped, at each stage, or comes to an end: what was taken comes back,
//! the work first and the permit then.

use tollgate::Semaphore;
use tollgate_tower::ThrottleLayer;
use tower::Layer;

use super::service::{ManualService, Page};
use super::setup::{Reader, Setup, call, text};
use crate::support::assert_at_rest;
use crate::support::scripted::{Lingers, Log, Script};

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
    // Though the future is still there.
    assert_eq!(log.take(), ["over"]);
}

#[test]
fn when_it_was_answered_the_permit_is_in_the_answer() {
    let mut setup = Setup::new();
    let mut request = setup.called("a");
    setup.inner.send([Page::Text("1")]);
    let answer = request.output();
    // Though the future is still there.
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
    // Though the future is still there.
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
    // Out of the queue.
    drop(second);
    assert_eq!(third.wakes(), 0);
    // While it is answered.
    drop(first);
    assert_eq!(third.wakes(), 1);
    assert!(third.is_pending());
    assert_eq!(setup.log.take(), ["drop work a", "call c"]);
    // Let in, and dropped before it noticed.
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
    // With the body half read.
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
