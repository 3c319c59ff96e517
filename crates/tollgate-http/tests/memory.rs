//! The memory of pauses, against the figures of the documentation. One test, because the allocator counts for all
//! threads.

use std::fmt::Write;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use tollgate_http::{NextStep, Pauses};

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[test]
fn pauses_take_no_more_than_was_said() {
    let pauses = Pauses::new();
    let mut headers = HeaderMap::new();
    headers.insert("content-type", "text/html".parse().unwrap());
    let call = || {
        let mut call = pauses.call("https://example.com:443");
        assert!(call.send());
        let next = call.answered(StatusCode::OK, &headers, true);
        assert_eq!(next, NextStep::Return);
    };
    // The first call may initialize state of the process.
    call();
    let region = Region::new(COUNTED);
    for _ in 0..100 {
        call();
    }
    assert_eq!(region.change().allocations, 0, "while nothing is paused");

    let region = Region::new(COUNTED);
    let (mut name, mut names) = (String::with_capacity(64), 0);
    for number in 0..100_000 {
        name.clear();
        write!(name, "https://{number:05}.example.com:443").unwrap();
        names += name.len();
        pauses.pause(&name, Duration::from_secs(3600));
    }
    let change = region.change();
    let kept = change.bytes_allocated - change.bytes_deallocated;
    let each = (kept - names) as f64 / 100_000.0;
    println!("{each} bytes an origin beside its name");
    assert!(each <= 64.0, "{each}");
    assert_eq!(pauses.snapshot().paused, 100_000);
}
