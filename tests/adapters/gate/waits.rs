//! Waiting until a gate opens.

use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use tollgate::{Gate, ManualClock, Throttle, Waiting};

use super::{MINUTE, NANO, shut};
use crate::support::foreign::{calls_when_woken, panics_when_woken};
use crate::support::{Counter, Waiter};

#[test]
fn all_are_released_at_the_tick() {
    let (gate, clock) = shut();
    let mut waiting: Vec<_> = (0..40).map(|_| Waiter::parked(gate.acquire())).collect();
    assert_eq!(gate.snapshot().waiting, 40);
    clock.advance(MINUTE - NANO);
    assert!(
        waiting
            .iter_mut()
            .all(|waiter| waiter.wakes() == 0 && waiter.is_pending())
    );
    clock.advance(NANO);
    assert_eq!(gate.snapshot().waiting, 0);
    for mut waiter in waiting {
        assert_eq!(waiter.wakes(), 1);
        waiter.granted();
    }
}

#[test]
fn opening_releases_everybody_although_it_is_shut_for_ever() {
    let (gate, clock) = shut();
    gate.block_for(Duration::MAX);
    let mut waiting: Vec<_> = (0..20).map(|_| Waiter::parked(gate.acquire())).collect();
    clock.advance(Duration::MAX);
    assert!(waiting.iter_mut().all(Waiter::is_pending));
    gate.open();
    for mut waiter in waiting {
        assert_eq!(waiter.wakes(), 1);
        waiter.granted();
    }
}

#[test]
fn a_waiter_waits_longer_when_it_is_shut_for_longer() {
    let (gate, clock) = shut();
    let mut waiting = Waiter::parked(gate.acquire());
    clock.advance(MINUTE - NANO);
    gate.block_for(MINUTE);
    clock.advance(MINUTE - NANO);
    assert!(waiting.is_pending());
    assert_eq!(waiting.wakes(), 0);
    clock.advance(NANO);
    assert_eq!(waiting.wakes(), 1);
    waiting.granted();
}

#[test]
fn a_released_waiter_goes_through_although_it_is_shut_again() {
    let (gate, clock) = shut();
    let mut waiting = Waiter::parked(gate.acquire());
    clock.advance(MINUTE);
    gate.block_for(MINUTE);
    waiting.granted();
    assert!(gate.check().is_err());
}

#[test]
fn a_waiter_that_comes_later_waits_until_the_same_tick() {
    let (gate, clock) = shut();
    let first = Waiter::parked(gate.acquire());
    clock.advance(MINUTE / 2);
    let mut second = Waiter::parked(gate.acquire_owned());
    drop(first);
    clock.advance(MINUTE / 2);
    second.granted();
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
