//! The promises of a gate, on a manual clock, alone and as a part of others. Sequences of calls are rows of
//! `scenarios.rs`.

mod before;
mod scenarios;

use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use tollgate::throttle::BoxThrottle;
use tollgate::time::{ManualClock, Tick};
use tollgate::wait::Waiting;
use tollgate::{
    AcquireError, Clock, ErrorKind, Gate, Keyed, Quota, RateLimiter, Semaphore, Throttle, all,
};
use tollgate_observe::Observed;

use crate::support::foreign::{calls_when_woken, panics_when_woken};
use crate::support::{Counter, Waiter};

const MINUTE: Duration = Duration::from_secs(60);
const NANO: Duration = Duration::from_nanos(1);

/// Returns an open gate, a minute after the start of its clock.
fn open() -> (Gate, ManualClock) {
    let clock = Clock::manual();
    clock.advance(MINUTE);
    (Gate::new().clock(&clock), clock)
}

/// Returns a gate that is shut for a minute.
fn shut() -> (Gate, ManualClock) {
    let (gate, clock) = open();
    gate.block_for(MINUTE);
    (gate, clock)
}

#[test]
fn new_is_open_also_after_it_was_blocked_for_no_time() {
    let gate = Gate::default();
    assert!(gate.is_open() && Gate::new().is_open());
    assert_eq!(gate.blocked_until(), None);
    let at_the_epoch = Gate::new().clock(Clock::manual());
    at_the_epoch.block_for(Duration::ZERO);
    assert!(at_the_epoch.is_open());
    at_the_epoch.block_for(NANO);
    assert!(!at_the_epoch.is_open());
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

/// Calls a function at the tick at which a gate reopens, before the gate notices: through the alarm
/// of another gate, which was set first.
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

#[test]
fn acquire_of_all_with_a_blocked_gate_takes_nothing_behind_it_and_gives_back_what_is_before() {
    let ((gate, clock), slots) = (shut(), Semaphore::new(1));
    let both = all((&gate, &slots));
    let refused = both.try_acquire().unwrap_err();
    assert_eq!(
        (refused.kind(), refused.part()),
        (ErrorKind::RateLimited, Some(0))
    );
    assert_eq!(refused.retry_after(), Some(MINUTE));
    let mut waiting = Waiter::parked(both.acquire());
    assert_eq!(slots.available_permits(), 1);
    clock.advance(MINUTE);
    let ((), slot) = waiting.granted();
    assert_eq!(slots.available_permits(), 0);
    drop(slot);

    gate.block_for(MINUTE);
    let behind = all((&slots, BoxThrottle::new(gate.clone())));
    let waiting = Waiter::parked(behind.acquire());
    assert_eq!((slots.available_permits(), gate.snapshot().waiting), (0, 1));
    drop(waiting);
    assert_eq!((slots.available_permits(), gate.snapshot().waiting), (1, 0));
}

/// One per 100 ms, and a burst of five.
const QUOTA: Quota = Quota::per_second(10).burst(5);

fn limiter(clock: &ManualClock) -> RateLimiter {
    RateLimiter::new(QUOTA).clock(clock)
}

/// Blocks the gate for a minute, and returns the ticks at which seven callers are charged, in
/// milliseconds since the gate opened.
fn charged<T: Throttle>(
    gate: &Gate,
    clock: &ManualClock,
    throttle: &T,
    at: impl Fn(T::Permit) -> Tick,
) -> Vec<u128> {
    gate.block_for(MINUTE);
    let mut waiters: Vec<_> = (0..7).map(|_| Waiter::parked(throttle.enter())).collect();
    clock.advance(MINUTE);
    let opened = clock.now();
    let mut charged = Vec::new();
    while !waiters.is_empty() {
        waiters.retain_mut(|waiter| {
            let Poll::Ready(permit) = waiter.poll() else {
                return true;
            };
            let at = at(permit.unwrap_or_else(|error: AcquireError| panic!("{error}")));
            charged.push(at.saturating_since(opened).as_millis());
            false
        });
        clock.advance(Duration::from_millis(1));
    }
    charged
}

const BURST_AT_ONCE: [u128; 7] = [0, 0, 0, 0, 0, 100, 200];
const ONE_BY_ONE: [u128; 7] = [0, 100, 200, 300, 400, 500, 600];

#[test]
fn all_behind_a_gate_in_any_shape_admits_the_burst_at_once() {
    fn check<T: Throttle>(
        (gate, clock): &(Gate, ManualClock),
        shape: T,
        at: impl Fn(T::Permit) -> Tick,
    ) {
        // The second time too, with the burst that was earned meanwhile.
        for _ in 0..2 {
            assert_eq!(charged(gate, clock, &shape, &at), BURST_AT_ONCE);
        }
        clock.advance(MINUTE);
    }
    let opens = open();
    let (gate, clock) = (&opens.0, &opens.1);
    let (slots, rate) = (Semaphore::new(100), Arc::new(limiter(clock)));
    check(&opens, all((gate, &rate)), |it| it.1.at());
    check(&opens, all((&slots, gate, &slots, &rate)), |it| it.3.at());
    check(&opens, all((gate, all((&slots, rate.cost(1))))), |it| {
        it.1.1.at()
    });
    check(&opens, all((all((gate, &slots)), &rate)), |it| it.1.at());
    let optional = all((BoxThrottle::new(gate.clone()), Some(&rate)));
    check(&opens, optional, |it| it.1.unwrap().at());
    let observed = Observed::new(Arc::clone(&rate), ());
    check(&opens, all((gate, &observed)), |it| it.1.at());
    let users = Keyed::<u8, _>::new(RateLimiter::new(QUOTA).clock(clock));
    check(&opens, all((gate, users.key(&7))), |it| it.1.at());
}

#[test]
fn all_behind_a_gate_with_a_paused_limiter_admits_one_by_one() {
    let (gate, clock) = open();
    let rate = limiter(&clock);
    let both = all((&gate, &rate));
    for _ in 0..2 {
        rate.pause_for(MINUTE);
        let charged = charged(&gate, &clock, &both, |both| both.1.at());
        assert_eq!(charged, ONE_BY_ONE);
        clock.advance(MINUTE);
        assert_eq!(rate.snapshot().available, rate.snapshot().limit);
    }
}

/// It passed the gate before the block, so only the pause can stop it.
#[test]
fn all_behind_a_gate_with_a_paused_limiter_stops_its_waiters() {
    let (gate, clock) = open();
    let rate = limiter(&clock);
    let both = all((&gate, &rate));
    rate.try_acquire_many(5).unwrap();
    let mut before = Waiter::parked(both.acquire());
    gate.block_for(MINUTE);
    rate.pause_for(MINUTE);
    let paused_at = clock.now();
    let mut behind = Waiter::parked(both.acquire());
    clock.advance(MINUTE);
    let ((), charge) = before.granted();
    assert_eq!(charge.at().saturating_since(paused_at), MINUTE);
    assert!(behind.is_pending());
    clock.advance(Duration::from_millis(100));
    behind.granted();
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
