//! Flag, then throttle, over several processes' worth of stores.

use std::time::Duration;

use tollgate::ErrorKind;
use tollgate_redis::{Detector, StoreError};

use super::verbs::slow;
use crate::support::runtime;
use crate::support::server::Server;

#[test]
fn who_is_over_by_what_all_bring_is_shut_out_and_others_are_not() {
    let mut server = Server::start();
    runtime().block_on(async {
        let detector =
            || Detector::new(&server.store(), "abuse", slow(100)).penalty(Duration::from_secs(60));
        let (one, other) = (detector(), detector());
        for _ in 0..60 {
            one.record("mallory");
            other.record("mallory");
            one.record("alice");
        }
        one.check("mallory").unwrap();
        assert_eq!(one.pass().await, Ok(0));
        assert_eq!(other.pass().await, Ok(1));
        assert_eq!(other.flagged(), ["mallory"]);
        let refused = other.check("mallory").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Limited);
        assert!(refused.retry_after().unwrap() > Duration::from_secs(59));
        other.check("alice").unwrap();

        // The first one hears of it with its next call.
        one.check("mallory").unwrap();
        one.record("mallory");
        assert_eq!(one.pass().await, Ok(1));
        one.check("mallory").unwrap_err();

        // What cannot be brought is kept.
        server.kill();
        one.record_many("bob", 200);
        while one.pass().await != Err(StoreError::Unavailable) {
            one.record_many("bob", 200);
        }
        one.check("bob").unwrap();
        server.restart();
        while one.pass().await.is_err() {}
        one.check("bob").unwrap_err();
    });
}

#[test]
fn many_callers_take_few_calls() {
    let server = Server::start();
    runtime().block_on(async {
        let store = server.store();
        let detector = Detector::new(&store, "abuse", slow(10));
        for caller in 0..1000 {
            detector.record_many(&caller.to_string(), 5 + 10 * u64::from(caller % 100 == 0));
        }
        assert_eq!(detector.pass().await, Ok(10));
        assert_eq!(detector.flagged().len(), 10);
        assert_eq!(store.calls(), 4);
    });
}
