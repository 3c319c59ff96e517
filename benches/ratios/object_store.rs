//! Object stores behind a limit that is never reached, beside object_store's own limit.
//!
//! A request over the loopback interface may take one percent longer behind a limit. Both contenders use
//! one connection. On one thread, the processor time of client and server is counted without their waits
//! for each other, so that the limit is a larger part of it.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use tollgate::Semaphore;
use tollgate_bench::harness::{Contender, Entry, Row};
use tollgate_bench::loopback::Loopback;
use tollgate_bench::object_store;
use tollgate_object_store::ThrottledConnector;

use crate::ready::timed;

pub(crate) const ENTRIES: &[Entry] = &[
    ("object store: an HTTP request", || {
        Row::of(timed(
            "ThrottledConnector",
            object_store::throttled_requests(),
        ))
        .beside(timed("no limit", object_store::bare_requests()))
    }),
    ("object store: put", || {
        Row::of(timed("Throttled", object_store::throttled_puts()))
            .beside(timed("LimitStore", object_store::limit_store_puts()))
            .beside(timed("no limit", object_store::bare_puts()))
    }),
    ("object store: get", || {
        Row::of(timed("Throttled", object_store::throttled_gets()))
            .beside(timed("LimitStore", object_store::limit_store_gets()))
            .beside(timed("no limit", object_store::bare_gets()))
    }),
    ("object store: list of 100", || {
        Row::of(timed("Throttled", object_store::throttled_lists()))
            .beside(timed("LimitStore", object_store::limit_store_lists()))
            .beside(timed("no limit", object_store::bare_lists()))
    }),
    ("object store: get of 1 KiB over loopback", || {
        let (ours, bare) = gets(&Loopback::on_two_threads(1 << 10), elapsed);
        Row::of(ours).at_most(1.01, bare)
    }),
    ("object store: get of 1 MiB over loopback", || {
        let (ours, bare) = gets(&Loopback::on_two_threads(1 << 20), elapsed);
        Row::of(ours).at_most(1.01, bare)
    }),
    (
        "object store: get of 1 KiB, client and server on one thread",
        || {
            let (ours, bare) = gets(&Loopback::on_one_thread(1 << 10), timed);
            Row::of(ours).beside(bare)
        },
    ),
];

/// Requests through `ThrottledConnector`, and without.
fn gets<F>(loopback: &Rc<Loopback>, contender: F) -> (Contender, Contender)
where
    F: Fn(&str, Box<dyn FnMut(u64)>) -> Contender,
{
    let throttle = Arc::new(Semaphore::new(64));
    let throttled = ThrottledConnector::new(loopback.connector(), throttle);
    let ours = Box::new(loopback.gets(throttled));
    let bare = Box::new(loopback.gets(loopback.connector()));
    let ours = contender("ThrottledConnector", ours).stretched(16);
    (ours, contender("no limit", bare).stretched(16))
}

/// The time by the wall clock: that of the server, which has a thread of its own, is a part of it.
fn elapsed(name: &str, mut batch: Box<dyn FnMut(u64)>) -> Contender {
    Contender::batched(name, 1, move |times| {
        let start = Instant::now();
        batch(times);
        start.elapsed()
    })
}
