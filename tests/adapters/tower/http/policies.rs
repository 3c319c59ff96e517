//! Whose limit it was decides the status.

use std::sync::Arc;

use tollgate::tower::{Policy, ThrottleLayer};
use tollgate::{Keyed, Quota, RateLimiter, Semaphore, all};

use super::{ask, statuses};

fn closed() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(0))
}

fn open() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(1000))
}

#[test]
fn policies_of_the_server_refuse_with_503() {
    let policies = || [Policy::client("a"), Policy::server("b")];
    let client = ThrottleLayer::refusing(all((closed(), open()))).policies(policies());
    assert_eq!(statuses(&client, &["/"]), [429]);
    let server = ThrottleLayer::refusing(all((open(), closed()))).policies(policies());
    assert_eq!(statuses(&server, &["/"]), [503]);
    // A status of one's own is for clients.
    let teapot = axum::http::StatusCode::IM_A_TEAPOT;
    assert_eq!(statuses(&client.status(teapot), &["/"]), [418]);
    assert_eq!(statuses(&server.status(teapot), &["/"]), [503]);
}

#[test]
fn policies_find_the_part_of_a_nested_composition_that_is_exhausted() {
    let policies = || {
        [
            Policy::client("a"),
            Policy::client("b"),
            Policy::server("c"),
            Policy::client("d"),
        ]
    };
    let table = [
        ([closed(), open(), open(), open()], 429),
        ([open(), closed(), open(), open()], 429),
        ([open(), open(), closed(), open()], 503),
        ([open(), open(), open(), closed()], 429),
    ];
    for ([a, b, c, d], expected) in table {
        let layer = ThrottleLayer::refusing(all((a, all((b, c)), d))).policies(policies());
        assert_eq!(statuses(&layer, &["/"]), [expected]);
    }
}

#[test]
fn policies_of_a_throttle_that_is_not_composed() {
    let slots = ThrottleLayer::refusing(closed()).policies([Policy::server("slots")]);
    assert_eq!(ask(&slots, "/").status(), 503);
    // With a cost above what is left, the limit is not exhausted, but it was the one.
    let keyed = Arc::new(Keyed::<u8, _>::rate_limiters(Quota::per_hour(1).burst(10)));
    let layer = ThrottleLayer::refusing_by(move |_| Arc::clone(&keyed).key_owned(7).cost(6))
        .policies([Policy::server("work")]);
    assert_eq!(statuses(&layer, &["/", "/"]), [200, 503]);
}

#[test]
fn policies_may_be_fewer_than_limits() {
    let rate = Arc::new(RateLimiter::new(Quota::per_hour(1)));
    let layer = ThrottleLayer::refusing(all((open(), rate))).policies([Policy::server("slots")]);
    assert_eq!(statuses(&layer, &["/", "/"]), [200, 429]);
}
