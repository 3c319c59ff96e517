//! Rejections as errors, around services of any kind.

use std::sync::Arc;

use tollgate::{AcquireError, ErrorKind, Keyed, Semaphore};
use tollgate_tower::ThrottleLayer;
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::support::{Waiter, assert_at_rest};

/// Halves even numbers.
async fn half(number: u64) -> Result<u64, String> {
    match number % 2 {
        0 => Ok(number / 2),
        _ => Err(format!("{number} is odd")),
    }
}

#[test]
fn errors_fit_any_service() {
    let slots = Arc::new(Semaphore::new(1));
    let layer = ThrottleLayer::new(Arc::clone(&slots)).refusing().errors();
    let service = layer.layer(service_fn(half));
    let ask = |number| Waiter::new(service.clone().oneshot(number)).output();
    assert_eq!(ask(14).unwrap(), 7);
    assert_eq!(ask(13).unwrap_err().to_string(), "13 is odd");
    let held = slots.try_acquire().unwrap();
    let refused = ask(14).unwrap_err().downcast::<AcquireError>().unwrap();
    assert_eq!(refused.kind(), ErrorKind::NoPermits);
    drop(held);
    assert_at_rest(&slots, 1);
}

#[test]
fn errors_hold_the_permit_until_the_answer_is_there() {
    let slots = Arc::new(Semaphore::new(1));
    let never = service_fn(|(): ()| std::future::pending::<Result<(), String>>());
    let mut service = ThrottleLayer::new(Arc::clone(&slots)).errors().layer(never);
    let mut first = Waiter::new(service.call(()));
    let mut second = Waiter::new(service.call(()));
    assert!(first.is_pending() && second.is_pending());
    assert_eq!(
        (slots.available_permits(), slots.snapshot().waiting),
        (0, 1)
    );
    drop((first, second));
    assert_at_rest(&slots, 1);
}

#[test]
fn errors_by_request_limit_each_key() {
    let slots = Arc::new(Keyed::<u64, _>::semaphores(1));
    let layer = ThrottleLayer::by_request({
        let slots = Arc::clone(&slots);
        move |number: &u64| Arc::clone(&slots).key_owned(*number)
    })
    .refusing();
    let service = layer.errors().layer(service_fn(half));
    let held = slots.key(&8).try_acquire().unwrap();
    let ask = |number| Waiter::new(service.clone().oneshot(number)).output();
    assert!(ask(8).is_err_and(|error| error.is::<AcquireError>()));
    assert_eq!(ask(6).unwrap(), 3);
    drop(held);
    assert_eq!(ask(8).unwrap(), 4);
}
