//! What a gate promises, on a clock that is moved by hand. Sequences of calls are rows of `scenarios.rs`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::thread;
use std::time::Duration;

use tollgate::{Clock, Gate, ManualClock, Throttle, Waiting};

use crate::support::foreign::{calls_when_woken, panics_when_woken};
use crate::support::{Counter, Waiter};

mod composed;
mod scenarios;

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
    use tollgate::ErrorKind;

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

const SECOND: Duration = Duration::from_secs(1);

/// Checks race with a new closing: the thread that has shut it finds it shut until its time is over.
#[test]
fn block_for_holds_although_others_check() {
    let clock = Clock::manual();
    let gate = Gate::new().clock(&clock);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let _ = gate.check();
                }
            });
        }
        for turn in 0..5_000 {
            gate.block_for(SECOND);
            assert_eq!(gate.check().unwrap_err().retry_after(), Some(SECOND));
            clock.advance(SECOND);
            // Nobody has to have looked for it to be open; and it may be shut at once.
            if turn % 2 == 0 {
                assert!(gate.check().is_ok());
            }
        }
        over.store(true, Ordering::Relaxed);
    });
}

/// Each wait ends, be it by the time, by hand, or as it finds the gate open.
#[test]
fn every_wait_ends() {
    let gate = Gate::new().clock(Clock::system());
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..300 {
                        gate.acquire().wait().unwrap();
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let mut turn = 0;
            while !over.load(Ordering::Relaxed) {
                turn += 1;
                match turn % 4 {
                    0 => gate.block_for(Duration::MAX),
                    1 | 3 => gate.open(),
                    _ => gate.block_for(Duration::from_micros(20)),
                }
                thread::yield_now();
            }
            gate.open();
        });
        for waiter in waiting {
            waiter.join().unwrap();
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(gate.snapshot().waiting, 0);
}
