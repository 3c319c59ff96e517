//! A gate as a throttle: by value and by reference, before others and behind them.

use std::sync::Arc;

use tollgate::{BoxThrottle, ErrorKind, Semaphore, Throttle, TryThrottle, all};

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
