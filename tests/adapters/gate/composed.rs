//! A gate as a throttle: in front of others, erased, with a cost, in a stream.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{Clock, ErrorKind, Gate, Semaphore, Throttle, TryThrottle, all};

use crate::support::{Waiter, kind};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn it_is_a_throttle_by_value_and_by_reference() {
    fn try_it<T: TryThrottle<Permit = ()>>(throttle: &T) -> Result<(), ErrorKind> {
        throttle.try_enter().map_err(|error| error.kind())
    }
    let clock = Clock::manual();
    let gate = Gate::new().clock(&clock);
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
fn in_front_of_others_it_keeps_from_taking_anything() {
    let clock = Clock::manual();
    let (gate, slots) = (Gate::new().clock(&clock), Semaphore::new(1));
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
    let ((), _slot) = waiting.granted();
    assert_eq!(slots.available_permits(), 0);
}

#[test]
fn behind_others_it_gives_back_what_they_had_taken() {
    let (gate, slots) = (Gate::new().clock(Clock::manual()), Semaphore::new(1));
    gate.block_for(MINUTE);
    assert_eq!(
        kind(all((&slots, &gate)).try_acquire()),
        ErrorKind::RateLimited
    );
    let waiting = Waiter::parked(all((&slots, &gate)).acquire());
    assert_eq!(slots.available_permits(), 0);
    drop(waiting);
    assert_eq!((slots.available_permits(), gate.waiting()), (1, 0));
}

#[test]
fn it_can_be_a_field_of_a_type_that_is_not_known() {
    let clock = Clock::manual();
    let gate = Gate::new().clock(&clock);
    let boxed = gate.clone().boxed();
    drop(Waiter::new(boxed.acquire()).granted());
    gate.block_for(MINUTE);
    let mut waiting = Waiter::parked(boxed.acquire());
    clock.advance(MINUTE);
    drop(waiting.granted());
}
