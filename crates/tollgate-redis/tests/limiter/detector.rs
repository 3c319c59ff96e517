//! Flag, then throttle, over several processes' worth of stores.

use std::time::Duration;

use tollgate::ErrorKind;
use tollgate_redis::{Detector, StoreError};

use crate::support::server::Server;
use crate::support::{PATIENT, on_server, runtime, slow};

#[test]
fn pass_over_the_threshold_of_all_processes_blocks() {
    on_server(async |server| {
        let detector = || {
            Detector::new(&server.store().deadline(PATIENT), "abuse", slow(100))
                .penalty(Duration::from_secs(60))
        };
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
        assert_eq!(refused.kind(), ErrorKind::RateLimited);
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
fn pass_of_many_callers_takes_few_calls() {
    on_server(async |server| {
        let store = server.store().deadline(PATIENT);
        let detector = Detector::new(&store, "abuse", slow(10));
        for caller in 0..1000 {
            detector.record_many(&caller.to_string(), 5 + 10 * u64::from(caller % 100 == 0));
        }
        assert_eq!(detector.pass().await, Ok(10));
        assert_eq!(detector.flagged().len(), 10);
        assert_eq!(store.calls(), 4);
    });
}

#[test]
fn record_beyond_the_bound_is_counted_as_unrecorded() {
    on_server(async |server| {
        let detector =
            Detector::new(&server.store().deadline(PATIENT), "abuse", slow(10)).callers(3);
        for caller in ["a", "b", "c", "d", "e"] {
            detector.record_many(caller, 11);
            // Who is kept is recorded on.
            detector.record("a");
        }
        assert_eq!(detector.unrecorded(), 22);
        assert_eq!(detector.pass().await, Ok(3));
        // Then there is room.
        detector.record_many("d", 11);
        assert_eq!(detector.unrecorded(), 22);

        // What is kept of a pass that failed counts.
        server.kill();
        while detector.pass().await != Err(StoreError::Unavailable) {
            detector.record_many("d", 11);
        }
        detector.record("e");
        detector.record("f");
        detector.record("g");
        assert_eq!(detector.unrecorded(), 23);
        detector.record_many("h", u64::MAX);
        assert_eq!(detector.unrecorded(), u64::MAX);
        server.restart();
        while detector.pass().await.is_err() {}
        detector.check("d").unwrap_err();
        detector.check("e").unwrap();
    });
}

#[test]
fn record_many_of_the_largest_number_saturates() {
    on_server(async |server| {
        let detector = Detector::new(&server.store().deadline(PATIENT), "abuse", slow(10));
        detector.record_many("mallory", u64::MAX);
        detector.record_many("mallory", u64::MAX);
        detector.record("alice");
        assert_eq!(detector.pass().await, Ok(1));
        assert_eq!(detector.flagged(), ["mallory"]);
        assert_eq!(detector.unrecorded(), 0);
    });
}

#[test]
fn pass_dropped_in_flight_keeps_what_it_did_not_send() {
    on_server(async |server| {
        let store = server.store().deadline(PATIENT);
        let detector = Detector::new(&store, "abuse", slow(10));
        for caller in 0..600 {
            detector.record_many(&caller.to_string(), 11);
        }
        server.stop();
        {
            let mut pass = std::pin::pin!(detector.pass());
            // Of three calls the first is on its way.
            let waits = std::future::poll_fn(|context| {
                std::task::Poll::Ready(pass.as_mut().poll(context).is_pending())
            });
            assert!(waits.await);
        }
        server.go_on();
        assert_eq!(detector.pass().await, Ok(600 - 256));
    });
}

#[test]
#[should_panic = "a detector of 0 callers finds nobody"]
fn callers_of_zero_panics() {
    let server = Server::start();
    let runtime = runtime();
    let _inside = runtime.enter();
    let _detector = Detector::new(&server.store().deadline(PATIENT), "abuse", slow(10)).callers(0);
}
