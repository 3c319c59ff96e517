//! A gate as a throttle: by value and by reference, before others and behind them.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tollgate::{
    AcquireError, BoxThrottle, ErrorKind, Gate, Keyed, ManualClock, Quota, RateLimiter, Semaphore,
    Throttle, Tick, TryThrottle, all,
};
use tollgate_observe::Observed;

use super::{MINUTE, open};
use crate::support::Waiter;

#[test]
fn it_is_a_throttle_by_value_and_by_reference() {
    fn try_it<T: TryThrottle<Permit = ()>>(throttle: &T) -> Result<(), ErrorKind> {
        throttle.try_enter().map_err(|error| error.kind())
    }
    let (gate, clock) = open();
    assert_eq!(try_it(&gate), Ok(()));
    assert_eq!(try_it(&&gate), Ok(()));
    assert_eq!(try_it(&Arc::new(gate.clone())), Ok(()));
    Waiter::new(gate.enter()).granted();
    gate.block_for(MINUTE);
    assert_eq!(try_it(&gate), Err(ErrorKind::RateLimited));
    let mut waiting = Waiter::parked(Throttle::enter(&&gate));
    clock.advance(MINUTE);
    waiting.granted();
}

#[test]
fn before_others_it_keeps_from_taking_anything() {
    let ((gate, clock), slots) = (open(), Semaphore::new(1));
    let both = all((&gate, &slots));
    let ((), slot) = both.try_acquire().unwrap();
    drop(slot);

    gate.block_for(MINUTE);
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

    // Behind others it gives back what they had taken.
    gate.block_for(MINUTE);
    let behind = all((&slots, BoxThrottle::new(gate.clone())));
    let waiting = Waiter::parked(behind.acquire());
    assert_eq!((slots.available_permits(), gate.snapshot().waiting), (0, 1));
    drop(waiting);
    assert_eq!((slots.available_permits(), gate.snapshot().waiting), (1, 0));
}

/// One each 100 ms, and five at once.
const QUOTA: Quota = Quota::per_second(10).burst(5);

fn limiter(clock: &ManualClock) -> RateLimiter {
    RateLimiter::new(QUOTA).clock(clock)
}

/// Blocks the gate for a minute, and returns when seven callers are charged, in milliseconds since
/// it opened.
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
fn all_behind_a_gate_that_opens_admits_the_burst_at_once() {
    let (gate, clock) = open();
    let rate = limiter(&clock);
    let both = all((&gate, &rate));
    // Also the second time, with the burst that was earned meanwhile.
    for _ in 0..2 {
        let charged = charged(&gate, &clock, &both, |both| both.1.at());
        assert_eq!(charged, BURST_AT_ONCE);
    }
}

#[test]
fn all_behind_a_gate_in_any_shape_admits_the_burst_at_once() {
    fn check<T: Throttle>(
        (gate, clock): &(Gate, ManualClock),
        shape: T,
        at: impl Fn(T::Permit) -> Tick,
    ) {
        assert_eq!(charged(gate, clock, &shape, at), BURST_AT_ONCE);
        clock.advance(MINUTE);
    }
    let opens = open();
    let (gate, clock) = (&opens.0, &opens.1);
    let (slots, rate) = (Semaphore::new(100), Arc::new(limiter(clock)));
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

/// It passed the gate before that was blocked, so only the pause can stop it.
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
