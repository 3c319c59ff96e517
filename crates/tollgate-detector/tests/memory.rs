//! Tests the memory of a detector: at most the documented bound, for any number of callers, and
//! none for gates without handles.
//!
//! This file has a single test, because it counts the allocations of the whole process.

use std::alloc::System;
use std::time::Duration;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tollgate::{Clock, Quota};
use tollgate_detector::Detector;

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const SECOND: Duration = Duration::from_secs(1);

/// Returns the growth of the allocated memory since the region began.
fn held(region: &Region<'_, System>) -> isize {
    let change = region.change();
    change.bytes_allocated as isize - change.bytes_deallocated as isize
}

/// Returns the minimum of several counts, because other activity of the process can only add to a
/// count.
fn least<N: Ord>(count: impl Fn() -> N) -> N {
    let counts = (0..5).map(|_| count());
    counts.min().expect("there are five")
}

fn allocations(run: impl FnOnce()) -> usize {
    let region = Region::new(COUNTED);
    run();
    let change = region.change();
    change.allocations + change.reallocations
}

/// Returns the documented bound for a key of this size.
fn bound(capacity: usize, buffer: usize, key: usize) -> isize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let tables = processors.min(64).next_power_of_two();
    let key = key.next_multiple_of(8);
    (4 * capacity * (key + 52) + (tables + 1) * buffer * (key + 32) + 4096) as isize
}

/// Records this number of different callers, and makes passes in between.
fn crowd<K>(detector: &Detector<K>, advance: impl Fn(), key: impl Fn(u64) -> K, callers: u64)
where
    K: Clone + std::hash::Hash + Eq + Send + Sync + 'static,
{
    for caller in 0..callers {
        detector.record(&key(caller));
        if caller % 1_000 == 999 {
            advance();
            detector.pass();
        }
    }
}

fn its_memory_is_what_it_says() {
    for (capacity, buffer) in [
        (1, 1),
        (100, 7),
        (1024, 1024),
        (1_025, 1_025),
        (3_000, 5_000),
    ] {
        let clock = Clock::manual();
        let detector = || {
            let detector = Detector::new(Quota::per_minute(1_000_000)).clock(&clock);
            detector.capacity(capacity).buffer(buffer)
        };
        let fresh = least(|| {
            let region = Region::new(COUNTED);
            let detector = detector();
            detector.pass();
            let fresh = held(&region);
            drop(detector);
            fresh
        });
        assert!(fresh <= bound(capacity, buffer, 8), "{fresh}");
        let used = detector();
        used.pass();
        let more = least(|| {
            let region = Region::new(COUNTED);
            crowd(&used, || clock.advance(SECOND), |caller| caller, 10_000);
            held(&region)
        });
        assert_eq!(more, 0);
    }
}

fn so_it_is_with_keys_of_other_sizes() {
    fn of<K>(key: K) -> isize
    where
        K: Clone + std::hash::Hash + Eq + Send + Sync + 'static,
    {
        least(|| {
            let region = Region::new(COUNTED);
            let detector = Detector::new(Quota::per_minute(1)).clock(Clock::manual());
            detector.record(&key);
            held(&region)
        })
    }
    assert!(of([0_u8; 3]) <= bound(1024, 1024, 3));
    let address = std::net::IpAddr::from([0_u16; 8]);
    assert!(of(address) <= bound(1024, 1024, size_of_val(&address)));
}

fn once_warm_nothing_is_allocated() {
    let clock = Clock::manual();
    let detector = Detector::new(Quota::per_minute(1_000_000));
    let detector = detector.capacity(50).buffer(100).clock(&clock);
    detector.pass();
    let gate = detector.gate(&7);
    let calls = || {
        crowd(&detector, || clock.advance(SECOND), |caller| caller, 20_000);
        gate.check().unwrap();
        detector.check(&8).unwrap();
    };
    calls();
    assert_eq!(least(|| allocations(calls)), 0);
    gate.block_for(SECOND);
    let refused = || {
        assert!(gate.check().is_err() && detector.check(&7).is_err());
        assert!(detector.check(&8).is_ok());
        gate.block_for(2 * SECOND);
    };
    assert_eq!(least(|| allocations(refused)), 0);
}

/// The only heap memory of text keys is the texts of those that have a counter or a place in a
/// buffer.
fn keys_that_were_given_up_are_dropped() {
    let clock = Clock::manual();
    let detector = Detector::new(Quota::per_minute(1_000_000));
    let detector = detector.capacity(50).buffer(100).clock(&clock);
    let name = |caller| format!("caller {caller:020}");
    // Fills all counters.
    crowd(&detector, || clock.advance(SECOND), name, 100_000);
    let more = least(|| {
        let region = Region::new(COUNTED);
        crowd(&detector, || clock.advance(SECOND), name, 10_000);
        held(&region)
    });
    assert_eq!(more, 0);
}

fn gates_that_nobody_has_leave_nothing() {
    let clock = Clock::manual();
    let detector = Detector::new(Quota::per_minute(10)).clock(&clock);
    detector.pass();
    let round = |keys: std::ops::Range<u64>| {
        let gates: Vec<_> = keys.map(|key| detector.gate(&key)).collect();
        gates
            .iter()
            .step_by(10)
            .for_each(|gate| gate.block_for(SECOND));
        drop(gates);
        clock.advance(SECOND);
        detector.pass();
    };
    round(0..100);
    let more = least(|| {
        let region = Region::new(COUNTED);
        for start in 0..50 {
            round(start * 100..start * 100 + 100);
        }
        held(&region)
    });
    assert_eq!(more, 0);
    // Memory that many callers needed is freed.
    let more = least(|| {
        let region = Region::new(COUNTED);
        round(0..30_000);
        round(0..1);
        held(&region)
    });
    assert!(more < 20_000, "{more}");
}

fn a_gate_is_as_large_as_it_says() {
    const GATES: u64 = 10_000;
    let detector = Detector::new(Quota::per_minute(10)).clock(Clock::manual());
    detector.pass();
    let each = least(|| {
        let mut gates = Vec::with_capacity(GATES as usize);
        let region = Region::new(COUNTED);
        gates.extend((0..GATES).map(|key| detector.gate(&key)));
        held(&region) / GATES as isize
    });
    assert!(each <= 200, "{each}");
}

#[test]
fn a_detector_keeps_what_it_says_and_no_more() {
    its_memory_is_what_it_says();
    so_it_is_with_keys_of_other_sizes();
    once_warm_nothing_is_allocated();
    keys_that_were_given_up_are_dropped();
    gates_that_nobody_has_leave_nothing();
    a_gate_is_as_large_as_it_says();
}
