//! Rates behind a gate that opens: the callers that waited for it follow one by one.

use std::sync::Arc;
use std::time::Duration;

use tollgate::observe::Observed;
use tollgate::{
    Algorithm, Charge, Gate, Keyed, LeakyBucket, ManualClock, Quota, RateLimiter, Semaphore,
    Throttle, Tick, all,
};

use super::{MINUTE, NANO, open};
use crate::support::Waiter;

/// One each 100 ms.
fn ten(burst: u64, clock: &ManualClock) -> RateLimiter {
    RateLimiter::new(Quota::per_second(10).burst(burst)).clock(clock)
}

/// Blocks the gate for a minute, and returns when seven callers are charged, since it opened.
fn charged<T: Throttle>(
    gate: &Gate,
    clock: &ManualClock,
    throttle: &T,
    at: impl Fn(&T::Permit) -> Tick,
) -> Vec<u128>
where
    T::Permit: std::fmt::Debug,
{
    gate.block_for(MINUTE);
    let mut waiters: Vec<_> = (0..7).map(|_| Waiter::parked(throttle.enter())).collect();
    clock.advance(MINUTE);
    let opened = clock.now();
    let mut charged = Vec::new();
    for _ in 0..1000 {
        waiters.retain_mut(|waiter| {
            let std::task::Poll::Ready(permit) = waiter.poll() else {
                return true;
            };
            let after = at(&permit.unwrap()).saturating_since(opened);
            charged.push(after.as_millis());
            false
        });
        clock.advance(Duration::from_millis(1));
    }
    charged
}

const ONE_BY_ONE: [u128; 7] = [0, 100, 200, 300, 400, 500, 600];

#[test]
fn all_behind_a_gate_that_opens_admits_one_by_one() {
    for burst in [1, 2, 7, 1000] {
        let (gate, clock) = open();
        let rate = ten(burst, &clock);
        let both = all((&gate, &rate));
        // Also the second time, with the burst that was earned meanwhile.
        for _ in 0..2 {
            assert_eq!(
                charged(&gate, &clock, &both, |both| both.1.at()),
                ONE_BY_ONE
            );
            clock.advance(2 * MINUTE);
            assert_eq!(rate.available(), rate.snapshot().limit);
        }
    }
}

#[test]
fn all_of_any_shape_behind_a_gate_admits_one_by_one() {
    let (gate, clock) = open();
    let (slots, rate) = (Semaphore::new(100), Arc::new(ten(20, &clock)));
    let shape = all((&slots, gate.clone(), &slots, &rate));
    assert_eq!(charged(&gate, &clock, &shape, |all| all.3.at()), ONE_BY_ONE);
    clock.advance(MINUTE);
    let shape = all((&gate, all((&slots, rate.cost(1)))));
    assert_eq!(
        charged(&gate, &clock, &shape, |all| all.1.1.at()),
        ONE_BY_ONE
    );
    clock.advance(MINUTE);
    let shape = all((Some(&gate), Some(Arc::clone(&rate))));
    let charge = |all: &(Option<()>, Option<Charge>)| all.1.as_ref().unwrap().at();
    assert_eq!(charged(&gate, &clock, &shape, charge), ONE_BY_ONE);
    clock.advance(MINUTE);
    let erased = all((&gate, Arc::clone(&rate).boxed()));
    gate.block_for(MINUTE);
    let mut waiters = [(); 3].map(|()| Waiter::parked(erased.acquire()));
    clock.advance(MINUTE);
    let admitted = waiters
        .iter_mut()
        .filter_map(|it| (!it.is_pending()).then_some(()));
    assert_eq!(admitted.count(), 1);
    drop(waiters);
    clock.advance(MINUTE);
    let observed = all((
        Observed::new(gate.clone(), ()),
        Observed::new(Arc::clone(&rate), ()),
    ));
    assert_eq!(
        charged(&gate, &clock, &observed, |all| all.1.at()),
        ONE_BY_ONE
    );
    let users = Keyed::<u8, _>::rate_limiters(Quota::per_second(10).burst(20)).clock(&clock);
    let shape = all((&gate, users.key(&7)));
    assert_eq!(charged(&gate, &clock, &shape, |all| all.1.at()), ONE_BY_ONE);
    assert_eq!(users.key(&8).available(), 20);
    let bucket = LeakyBucket::new(Quota::per_second(10), 10).clock(&clock);
    let shape = all((&gate, &bucket));
    assert_eq!(charged(&gate, &clock, &shape, |all| all.1.at()), ONE_BY_ONE);
}

#[test]
fn all_behind_a_gate_under_a_log_admits_one_by_one() {
    let (gate, clock) = open();
    let log = ten(1, &clock).algorithm(Algorithm::SlidingLog);
    log.try_acquire_many(3).unwrap();
    let both = all((&gate, &log));
    assert_eq!(
        charged(&gate, &clock, &both, |both| both.1.at()),
        ONE_BY_ONE
    );
}

/// A caller that did not wait for the gate has the burst, and one that leaves the gate spends none.
#[test]
fn all_behind_an_open_gate_keeps_the_burst() {
    let (gate, clock) = open();
    let rate = ten(3, &clock);
    let both = all((&gate, &rate));
    gate.block_for(MINUTE);
    drop(Waiter::parked(both.acquire()));
    clock.advance(MINUTE - NANO);
    let mut left = Waiter::parked(both.acquire());
    clock.advance(NANO);
    for _ in 0..3 {
        both.try_acquire().unwrap();
    }
    assert!(left.is_pending());
}
