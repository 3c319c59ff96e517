//! Shutting, reopening, and what a check says.

use std::time::Duration;

use tollgate::{Clock, ErrorKind, Gate, Semaphore, all};

use super::{MINUTE, NANO, open};

#[test]
fn a_new_gate_is_open() {
    let gate = Gate::new();
    assert!(gate.is_open() && Gate::default().is_open());
    assert_eq!(gate.check(), Ok(()));
    assert_eq!(gate.blocked_until(), None);
}

#[test]
fn it_reopens_at_the_exact_tick() {
    let (gate, clock) = open();
    gate.block_for(MINUTE);
    for left in [MINUTE, MINUTE - NANO, NANO] {
        let until = clock
            .now()
            .saturating_add(gate.check().unwrap_err().retry_after().unwrap());
        assert_eq!(gate.blocked_until(), Some(until));
        let now = until.saturating_since(clock.now());
        clock.advance(now - left);
        let refused = gate.check().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::RateLimited);
        assert_eq!(refused.retry_after(), Some(left));
        assert!(!gate.is_open());
    }
    clock.advance(NANO);
    assert_eq!(gate.check(), Ok(()));
    assert!(gate.is_open());
    // Also for who only looks, by whichever clone.
    let handle = gate.clone();
    handle.block_for(MINUTE);
    assert!(gate.check().is_err());
    clock.advance(MINUTE);
    assert_eq!((gate.blocked_until(), handle.is_open()), (None, true));
}

#[test]
fn the_longest_is_what_counts() {
    let (gate, clock) = open();
    gate.block_for(2 * MINUTE);
    gate.block_for(MINUTE);
    assert_eq!(gate.check().unwrap_err().retry_after(), Some(2 * MINUTE));
    gate.block_for(3 * MINUTE);
    assert_eq!(gate.check().unwrap_err().retry_after(), Some(3 * MINUTE));
    clock.advance(3 * MINUTE - NANO);
    assert!(gate.check().is_err());
    clock.advance(NANO);
    assert!(gate.check().is_ok());
}

#[test]
fn for_no_time_it_is_not_shut() {
    let (gate, _clock) = open();
    gate.block_for(Duration::ZERO);
    assert!(gate.is_open());
    let at_the_epoch = Gate::new().clock(Clock::manual());
    at_the_epoch.block_for(Duration::ZERO);
    assert!(at_the_epoch.is_open());
    at_the_epoch.block_for(NANO);
    assert!(!at_the_epoch.is_open());
}

#[test]
fn for_ever_is_until_it_is_opened() {
    let (gate, clock) = open();
    gate.block_for(Duration::MAX);
    clock.advance(Duration::from_secs(500 * 365 * 24 * 3600));
    let refused = gate.check().unwrap_err();
    assert_eq!(refused.retry_after(), Some(Duration::MAX));
    clock.advance(Duration::MAX);
    assert!(!gate.is_open());
    gate.open();
    assert_eq!(gate.check(), Ok(()));
}

/// The text says what refuses the call, and a number only if there is one.
#[test]
fn to_string_of_a_refusal_names_the_gate() {
    let (gate, _clock) = open();
    let texts = || {
        let refused = gate.check().unwrap_err();
        let waits = gate.acquire().timeout(NANO).wait().unwrap_err();
        (refused.to_string(), waits.to_string())
    };
    gate.block_for(MINUTE);
    let (refused, waits) = texts();
    assert_eq!(refused, "the gate is blocked, try again in 60s");
    assert_eq!(
        waits,
        "the gate is blocked for longer than the timeout: 60s"
    );
    gate.block_for(Duration::MAX);
    let (refused, waits) = texts();
    assert_eq!(refused, "the gate is blocked");
    assert_eq!(waits, "the gate is blocked for longer than the timeout");
    let semaphore = Semaphore::new(1);
    let refused = all((&semaphore, gate.clone())).try_acquire().unwrap_err();
    assert_eq!(refused.to_string(), "the gate is blocked (part 1)");
}

#[test]
fn opening_takes_back_what_is_left() {
    let (gate, _clock) = open();
    gate.block_for(2 * MINUTE);
    gate.open();
    assert!(gate.is_open());
    gate.open();
    gate.block_for(MINUTE);
    assert_eq!(gate.check().unwrap_err().retry_after(), Some(MINUTE));
}

#[test]
fn a_gate_lives_by_the_time_of_the_machine() {
    let gate = Gate::new().clock(Clock::system());
    gate.block_for(Duration::from_nanos(1));
    while !gate.is_open() {}
    gate.block_for(MINUTE);
    let left = gate.check().unwrap_err().retry_after().unwrap();
    assert!(left <= MINUTE);
}

#[test]
fn debugging_one_says_whether_it_is_open() {
    let (gate, _clock) = open();
    assert_eq!(format!("{gate:?}"), "Gate { open: true, waiting: 0, .. }");
    gate.block_for(MINUTE);
    assert_eq!(format!("{gate:?}"), "Gate { open: false, waiting: 0, .. }");
    let acquire = format!("{:?}", gate.acquire());
    assert_eq!(acquire, "Acquire { waits: false, .. }");
}
