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
    for _ in 0..2000 {
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
fn all_around_a_nested_gate_admits_one_by_one() {
    fn check<G: Throttle>(gate: &Gate, clock: &ManualClock, nested: G)
    where
        G::Permit: std::fmt::Debug,
    {
        let rate = ten(20, clock);
        let shape = all((nested, &rate));
        assert_eq!(charged(gate, clock, &shape, |all| all.1.at()), ONE_BY_ONE);
    }
    let (gate, clock) = open();
    check(&gate, &clock, all((&gate,)));
    check(&gate, &clock, &Arc::new(Some(all((&gate,)))));
    check(&gate, &clock, Observed::new(all((gate.clone(),)), ()));
    check(&gate, &clock, gate.clone().boxed());
    check(&gate, &clock, all((gate.clone(),)).boxed().boxed());
}

/// A part that was not blocked does not make the composition around it spend a burst.
#[test]
fn all_around_a_nested_open_gate_keeps_the_burst() {
    let (gate, clock) = open();
    let (slots, rate) = (Semaphore::new(1), ten(3, &clock));
    let shape = all((all((gate.clone().boxed(), &slots)), &rate));
    let mut held = Waiter::new(shape.acquire()).granted();
    for left in [1, 0] {
        let mut next = Waiter::parked(shape.acquire());
        drop(held);
        held = next.granted();
        assert_eq!(rate.available(), left);
    }
}

#[test]
fn all_behind_a_gate_under_each_algorithm_admits_one_and_then_its_batches() {
    let rows = [
        (Algorithm::Gcra, ONE_BY_ONE),
        (Algorithm::SlidingLog, ONE_BY_ONE),
        (
            Algorithm::SlidingWindow,
            [0, 850, 950, 1050, 1150, 1250, 1350],
        ),
        (Algorithm::TokenBucket, [0, 750, 750, 750, 750, 750, 750]),
        (Algorithm::FixedWindow, [0, 750, 750, 750, 750, 750, 750]),
        (
            Algorithm::SubInterval { parts: 4 },
            [0, 250, 250, 500, 500, 750, 750],
        ),
    ];
    for (algorithm, expected) in rows {
        let (gate, clock) = open();
        clock.advance(Duration::from_millis(250));
        let both = all((gate.clone(), Arc::new(ten(10, &clock).algorithm(algorithm))));
        let charged = charged(&gate, &clock, &both, |both| both.1.at());
        assert_eq!(charged, expected, "{algorithm}");
    }
}

/// Two callers wait for each opening, and give up when they are not admitted at once.
#[test]
fn all_behind_a_gate_that_opens_often_leaves_waiters_their_tokens() {
    let (gate, clock) = open();
    let rate = ten(10, &clock);
    let users = Keyed::<u8, _>::rate_limiters(Quota::per_second(10).burst(10)).clock(&clock);
    let key = users.key(&7);
    rate.try_acquire_many(10).unwrap();
    key.try_acquire_many(10).unwrap();
    let mut head = Waiter::parked(rate.acquire_many(5));
    let mut head_of_key = Waiter::parked(key.acquire_many(5));
    let both = all((&gate, &rate));
    let both_of_key = all((&gate, &key));
    for _ in 0..5 {
        gate.block_for(Duration::from_millis(100));
        let mut callers = [(); 2].map(|()| Waiter::parked(both.acquire()));
        let mut callers_of_key = [(); 2].map(|()| Waiter::parked(both_of_key.acquire()));
        clock.advance(Duration::from_millis(100));
        callers.iter_mut().for_each(|it| assert!(it.is_pending()));
        callers_of_key
            .iter_mut()
            .for_each(|it| assert!(it.is_pending()));
    }
    head.granted();
    head_of_key.granted();
}

/// The opening has spent the burst, and what has come since is for its callers.
#[test]
fn all_behind_a_gate_polled_late_spends_no_more() {
    let (gate, clock) = open();
    let rate = ten(10, &clock);
    let both = all((&gate, &rate));
    gate.block_for(MINUTE);
    let mut callers = [(); 4].map(|()| Waiter::parked(both.acquire()));
    clock.advance(MINUTE);
    for (caller, left) in callers.iter_mut().zip([0, 4, 8, 9]) {
        caller.granted();
        assert_eq!(rate.available(), left);
        clock.advance(Duration::from_millis(500));
    }
}

#[test]
fn all_behind_a_gate_with_one_waiter_keeps_the_burst() {
    let (gate, clock) = open();
    let rate = ten(1000, &clock);
    let both = all((&gate, &rate));
    gate.block_for(NANO);
    let mut caller = Waiter::parked(both.acquire());
    clock.advance(NANO);
    caller.granted();
    assert_eq!(rate.available(), 999);
}

#[test]
fn refund_after_a_gate_opened_gives_back() {
    let rows = [
        // A nanosecond of the charge has been paid off.
        (Algorithm::Gcra, 49),
        (Algorithm::TokenBucket, 50),
        (Algorithm::SlidingWindow, 50),
        // It spaces its callers by other charges, which cannot be told apart.
        (Algorithm::SlidingLog, 0),
    ];
    let quota = Quota::per_minute(60).burst(60);
    for (algorithm, expected) in rows {
        let (gate, clock) = open();
        let rate = RateLimiter::new(quota).algorithm(algorithm).clock(&clock);
        let charge = rate.try_acquire_many(50).unwrap();
        gate.block_for(NANO);
        let both = all((&gate, &rate));
        let mut callers = [(); 2].map(|()| Waiter::parked(both.acquire()));
        clock.advance(NANO);
        callers[0].granted();
        rate.refund(charge);
        assert_eq!(rate.available(), expected, "{algorithm}");
    }
    let (gate, clock) = open();
    let users = Keyed::<u8, _>::rate_limiters(quota).clock(&clock);
    let key = users.key(&7);
    let charge = key.try_acquire_many(50).unwrap();
    gate.block_for(NANO);
    let both = all((&gate, &key));
    let mut callers = [(); 2].map(|()| Waiter::parked(both.acquire()));
    clock.advance(NANO);
    callers[0].granted();
    key.refund(charge);
    assert_eq!(key.available(), 49);
}

#[test]
fn all_behind_a_gate_of_a_key_spends_parts_of_a_token() {
    let (gate, clock) = open();
    let users = Keyed::<u8, _>::rate_limiters(Quota::per_second(10).burst(1000)).clock(&clock);
    let key = users.key(&7);
    key.try_acquire_many(1000).unwrap();
    // 600.1 tokens when it opens.
    clock.advance(Duration::from_millis(10));
    let both = all((&gate, &key));
    assert_eq!(
        charged(&gate, &clock, &both, |both| both.1.at()),
        ONE_BY_ONE
    );
}

/// There are no ticks before the epoch for the charges that would spend the burst.
#[test]
fn all_behind_a_gate_under_a_log_younger_than_its_period_spends_nothing() {
    let (gate, clock) = open();
    let rate = RateLimiter::new(Quota::per_hour(10)).algorithm(Algorithm::SlidingLog);
    let rate = rate.clock(&clock);
    let both = all((&gate, &rate));
    gate.block_for(NANO);
    let mut callers = [(); 2].map(|()| Waiter::parked(both.acquire()));
    clock.advance(NANO);
    for caller in &mut callers {
        caller.granted();
    }
    assert_eq!(rate.available(), 8);
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
