//! What a gate promises, on a clock that is moved by hand. Sequences of calls are rows of `scenarios.rs`.

mod composed;
mod scenarios;
mod threads;

use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use tollgate::{Clock, ErrorKind, Gate, ManualClock, Semaphore, Throttle, Waiting, all};

use crate::support::foreign::{calls_when_woken, panics_when_woken};
use crate::support::{Counter, Waiter};

const MINUTE: Duration = Duration::from_secs(60);
const NANO: Duration = Duration::from_nanos(1);

/// A gate that is open, a minute after the beginning of its clock.
fn open() -> (Gate, ManualClock) {
    let clock = Clock::manual();
    clock.advance(MINUTE);
    (Gate::new().clock(&clock), clock)
}

/// A gate that is shut for a minute.
fn shut() -> (Gate, ManualClock) {
    let (gate, clock) = open();
    gate.block_for(MINUTE);
    (gate, clock)
}

#[test]
fn a_new_gate_is_open() {
    let gate = Gate::new();
    assert!(gate.is_open() && Gate::default().is_open());
    assert_eq!(gate.check(), Ok(()));
    assert_eq!(gate.blocked_until(), None);
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

#[test]
fn a_waiter_that_gives_up_leaves_nothing_behind() {
    let (gate, clock) = shut();
    let counter = Arc::new(Counter::default());
    let waker = Waker::from(Arc::clone(&counter));
    let mut waiting = Waiter::new(gate.acquire());
    assert!(waiting.poll_with(&waker).is_pending());
    drop(waiting);
    assert_eq!(gate.snapshot().waiting, 0);
    clock.advance(MINUTE);
    drop(waker);
    assert_eq!((counter.count(), Arc::strong_count(&counter)), (0, 1));
    let mut never_polled = Waiter::new(gate.acquire());
    gate.block_for(MINUTE);
    assert!(never_polled.is_pending());
    clock.advance(MINUTE);
    drop(never_polled);
    assert_eq!(gate.snapshot().waiting, 0);
}

#[test]
fn the_last_waker_is_woken() {
    let (gate, clock) = shut();
    let mut waiting = Waiter::parked(gate.acquire());
    let counter = Arc::new(Counter::default());
    let waker = Waker::from(Arc::clone(&counter));
    assert!(waiting.poll_with(&waker).is_pending());
    assert!(waiting.poll_with(&waker).is_pending());
    clock.advance(MINUTE);
    assert_eq!((waiting.wakes(), counter.count()), (0, 1));
    waiting.granted();
}

#[test]
fn an_owned_wait_needs_no_other_handle() {
    let (gate, clock) = shut();
    let mut waiting = Waiter::parked(gate.acquire_owned());
    drop(gate);
    clock.advance(MINUTE);
    assert_eq!(waiting.wakes(), 1);
    waiting.granted();
}

/// Has something done at the tick at which a gate reopens, before that is noticed: by the alarm of
/// another one, which was set first.
fn just_before(clock: &ManualClock, gate: &Gate, what: impl Fn(&Gate) + Send + Sync + 'static) {
    let (other, gate) = (Gate::new().clock(clock), gate.clone());
    other.block_for(MINUTE);
    let mut waiting = Waiter::new(other.acquire_owned());
    let waker = calls_when_woken(move || what(&gate));
    assert!(waiting.poll_with(&waker).is_pending());
    std::mem::forget(waiting);
}

#[test]
fn a_check_that_opens_it_leaves_nobody_waiting() {
    let (gate, clock) = shut();
    just_before(&clock, &gate, |gate| gate.check().unwrap());
    let mut waiting = Waiter::parked(gate.acquire());
    clock.advance(MINUTE);
    assert_eq!(waiting.wakes(), 1);
    waiting.granted();
}

#[test]
fn shut_again_before_anybody_was_released_they_go_on_waiting() {
    let (gate, clock) = shut();
    just_before(&clock, &gate, |gate| {
        gate.check().unwrap();
        gate.block_for(MINUTE);
    });
    let mut waiting = Waiter::parked(gate.acquire());
    clock.advance(MINUTE);
    assert!(waiting.is_pending());
    clock.advance(MINUTE - NANO);
    assert_eq!(waiting.wakes(), 0);
    clock.advance(NANO);
    assert_eq!(waiting.wakes(), 1);
    waiting.granted();
}

#[test]
fn a_waiter_that_is_polled_before_the_timer_is_released_with_all_others() {
    let (gate, clock) = shut();
    let waiting = Arc::new(Mutex::new(Vec::new()));
    just_before(&clock, &gate, {
        let waiting = Arc::clone(&waiting);
        move |_| {
            let mut waiting = waiting.lock().unwrap();
            let waiting: &mut Vec<Waiter<Waiting<<Gate as Throttle>::Enter>>> = &mut waiting;
            waiting[1].granted();
            assert_eq!(waiting[0].wakes(), 1);
        }
    });
    let parked = (0..2).map(|_| Waiter::parked(gate.acquire_owned()));
    waiting.lock().unwrap().extend(parked);
    clock.advance(MINUTE);
    waiting.lock().unwrap()[0].granted();
}

#[test]
fn a_waker_that_panics_keeps_nobody_else_waiting() {
    let (gate, clock) = shut();
    let mut first = Waiter::new(gate.acquire());
    assert!(first.poll_with(&panics_when_woken()).is_pending());
    let mut second = Waiter::parked(gate.acquire());
    clock.advance(MINUTE);
    assert_eq!(second.wakes(), 1);
    first.granted();
    second.granted();
}

#[test]
fn on_the_time_of_the_machine_the_timer_of_the_process_releases() {
    let gate = Gate::new().clock(Clock::system());
    gate.block_for(Duration::from_millis(3));
    let reopens = gate.blocked_until().unwrap();
    assert_eq!(gate.acquire().wait(), Ok(()));
    assert!(Clock::system().now() >= reopens);
}

#[cfg(feature = "tokio")]
mod with_tokio {
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::support::{kind, paused_runtime};

    #[test]
    fn a_token_ends_a_wait_and_wins_over_an_open_gate() {
        let (gate, _clock) = shut();
        let token = CancellationToken::new();
        let mut waiting = Waiter::parked(gate.acquire().cancel_on(&token));
        let mut owned = Waiter::parked(gate.acquire_owned().cancel_on(token.clone()));
        token.cancel();
        assert_eq!(waiting.refused(), ErrorKind::Cancelled);
        assert_eq!(owned.refused(), ErrorKind::Cancelled);
        assert_eq!(gate.snapshot().waiting, 0);
        gate.open();
        assert_eq!(gate.acquire().timeout(Duration::ZERO).wait(), Ok(()));
        let refused = gate.acquire().cancel_on(&token).wait();
        assert_eq!(kind(refused), ErrorKind::Cancelled);
    }

    #[test]
    fn on_the_time_of_tokio_it_reopens_with_it() {
        paused_runtime().block_on(async {
            let gate = Gate::new().clock(Clock::tokio());
            let start = tokio::time::Instant::now();
            gate.block_for(MINUTE);
            let handle = gate.clone();
            let waiting = tokio::spawn(async move { handle.acquire().await });
            assert_eq!(waiting.await.unwrap(), Ok(()));
            assert_eq!(start.elapsed(), MINUTE);
            assert!(gate.check().is_ok());
        });
    }

    #[cfg(feature = "test-util")]
    #[test]
    fn in_a_test_it_follows_the_time_of_the_runtime() {
        paused_runtime().block_on(async {
            let gate = Gate::new();
            gate.block_for(MINUTE);
            tokio::time::advance(MINUTE).await;
            assert!(gate.check().is_ok());
        });
    }
}
