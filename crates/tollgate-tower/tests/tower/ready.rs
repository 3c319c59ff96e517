//! A service that is ready has taken nothing, and the one that is ready is the one that is called.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::http::Response;
use tollgate::Semaphore;
use tollgate_tower::ThrottleLayer;
use tower::{Layer, Service};

use super::service::{ManualService, Pages};
use super::setup::Setup;
use crate::support::scripted::{Log, Script};
use crate::support::{Waiter, assert_at_rest};

/// As issue 454 of tower: there, one that is ready keeps the slot from all others, for as long as it
/// is not called.
#[test]
fn one_that_is_ready_and_never_called_holds_no_permit() {
    let slots = Arc::new(Semaphore::new(1));
    let inner = ManualService::new(&Log::default());
    let layer = ThrottleLayer::new(Arc::clone(&slots));
    let mut idle: Vec<_> = (0..3).map(|_| layer.layer(inner.clone())).collect();
    for service in &mut idle {
        let ready = Waiter::new(poll_fn(|context| service.poll_ready(context))).output();
        assert_eq!(ready, Ok(()));
    }
    assert_at_rest(&slots, 1);

    let mut busy = layer.layer(inner.clone());
    for _ in 0..3 {
        let ready = Waiter::new(poll_fn(|context| busy.poll_ready(context))).output();
        assert_eq!(ready, Ok(()));
        let mut request = Waiter::parked(busy.call("a"));
        assert_eq!(
            (slots.available_permits(), slots.snapshot().waiting),
            (0, 0)
        );
        inner.send([]);
        drop(request.output());
        assert_at_rest(&slots, 1);
    }
}

#[test]
fn a_future_that_was_never_polled_has_asked_nobody_in() {
    let slots = Semaphore::new(1);
    let mut setup = Setup::behind(&slots);
    let unpolled = setup.request("a");
    assert_at_rest(&slots, 1);
    let mut other = setup.called("b");
    assert_eq!(setup.log.take(), ["call b"]);
    setup.inner.send([]);
    drop((other.output(), unpolled));
    assert_at_rest(&slots, 1);

    // One that refuses at once is asked when it is called, and then holds the permit.
    let mut setup = Setup::with(|throttle| ThrottleLayer::new(throttle).refusing());
    let unpolled = setup.request("a");
    assert_eq!(setup.log.take(), ["try t", "in t0", "call a"]);
    drop(unpolled);
    assert_eq!(setup.log.take(), ["drop work a", "drop t0"]);
}

/// The service asserts that it was made ready; its clones were not.
#[test]
fn the_one_that_was_made_ready_is_called_however_long_it_waits() {
    let mut setup = Setup::new();
    setup.throttle.now(Script::Wait);
    let mut requests = ["a", "b", "c"].map(|name| setup.called(name));
    assert_eq!(setup.log.take(), ["enter t"; 3]);
    setup.throttle.now(Script::Admit);
    for request in &mut requests {
        assert_eq!(request.wakes(), 1);
        assert!(request.is_pending());
    }
    let log = ["in t0", "call a", "in t1", "call b", "in t2", "call c"];
    assert_eq!(setup.log.take(), log);
}

/// A service that is not ready, and then failed.
#[derive(Clone)]
struct Broken {
    polls: usize,
}

impl Service<()> for Broken {
    type Response = Response<Pages>;
    type Error = &'static str;
    type Future = std::future::Ready<Result<Response<Pages>, &'static str>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        self.polls += 1;
        match self.polls {
            1 => Poll::Pending,
            _ => Poll::Ready(Err("broken")),
        }
    }

    fn call(&mut self, (): ()) -> Self::Future {
        unreachable!("it is never ready");
    }
}

#[test]
fn it_is_as_ready_as_the_service_inside() {
    let closed = Semaphore::new(0);
    closed.close();
    let mut service = ThrottleLayer::new(&closed).layer(Broken { polls: 0 });
    let mut ready = Waiter::parked(poll_fn(|context| service.poll_ready(context)));
    assert_eq!(ready.output(), Err("broken"));
}
