//! Together with others: what was charged is given back when a later part does not let in.

use std::sync::Arc;

use tollgate::{ErrorKind, Semaphore, Throttle, all};

use super::scene::{
    FIFTY, TEN, assert_available, assert_due, assert_limited, at, limiter, ms, spent,
};
use crate::support::{Waiter, assert_at_rest};

#[test]
fn all_parts_are_charged_when_all_let_in() {
    let (_clock, requests) = limiter(TEN);
    let (_, bytes) = limiter(FIFTY);
    let slots = Semaphore::new(2);
    let parts = all((&slots, &requests, bytes.cost(30)));
    let (slot, request, volume) = Waiter::new(parts.acquire()).granted();
    assert_eq!((request.cost(), volume.cost()), (1, 30));
    assert_eq!((requests.available(), bytes.available()), (0, 20));
    // A charge is for good; a permit comes back.
    drop((slot, request, volume));
    assert_eq!((requests.available(), bytes.available()), (0, 20));
    assert_at_rest(&slots, 2);
}

#[test]
fn a_try_that_is_refused_by_a_later_part_gives_back_what_was_charged() {
    let (_clock, requests) = limiter(TEN);
    let (_, bytes) = spent(FIFTY);
    let slots = Semaphore::new(2);
    let parts = all((&slots, &requests, bytes.cost(30)));
    let error = parts.try_acquire().unwrap_err();
    assert_eq!(
        (error.kind(), error.part()),
        (ErrorKind::RateLimited, Some(2))
    );
    assert_eq!(error.retry_after(), Some(ms(300)));
    assert_available(&requests, 1);
    assert_at_rest(&slots, 2);
}

#[test]
fn a_wait_that_is_refused_by_a_later_part_gives_back_what_was_charged() {
    let (_clock, requests) = limiter(TEN);
    let (_, bytes) = limiter(FIFTY);
    let slots = Semaphore::new(2);
    let parts = all((&slots, &requests, bytes.cost(51)));
    let error = Waiter::new(parts.acquire()).output().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ExceedsCapacity);
    assert_eq!(error.part(), Some(2));
    assert_available(&requests, 1);
    assert_available(&bytes, 50);
    assert_at_rest(&slots, 2);
}

#[test]
fn a_wait_that_is_dropped_gives_back_what_is_left_of_the_charge() {
    let (clock, requests) = limiter(FIFTY);
    let bytes = tollgate::RateLimiter::new(FIFTY).clock(&clock);
    bytes.charge(60);
    let slots = Semaphore::new(2);
    let parts = all((&slots, requests.cost(20), bytes.cost(1)));
    let waiting = Waiter::parked(parts.acquire());
    assert_eq!((requests.available(), bytes.waiting()), (30, 1));
    clock.advance(ms(40));
    drop(waiting);
    assert_available(&requests, 50);
    assert_eq!(bytes.waiting(), 0);
    assert_at_rest(&slots, 2);
}

#[test]
fn a_wait_for_a_later_part_that_closes_hurries_those_who_wait_for_an_earlier_one() {
    let (clock, requests) = limiter(TEN);
    let slots = Semaphore::new(0);
    let parts = all((&requests, &slots));
    let mut composed = Waiter::parked(parts.acquire());
    let mut alone = Waiter::parked(requests.acquire());
    clock.advance(ms(40));
    slots.close();
    assert_eq!(composed.refused(), ErrorKind::Closed);
    assert_eq!(at(&alone.granted()), ms(40));
}

#[test]
fn a_wait_that_is_granted_in_line_goes_on_to_the_next_part() {
    let (clock, requests) = spent(TEN);
    let bytes = tollgate::RateLimiter::new(FIFTY).clock(&clock);
    bytes.try_acquire_many(50).unwrap();
    let parts = all((&requests, bytes.cost(30)));
    let mut waiting = Waiter::parked(parts.acquire());
    assert_eq!(bytes.waiting(), 0);
    clock.advance(ms(100));
    assert!(waiting.is_pending());
    assert_eq!(bytes.waiting(), 1);
    clock.advance(ms(200));
    let (request, volume) = waiting.granted();
    assert_eq!((at(&request), at(&volume)), (ms(100), ms(300)));
}

#[cfg(feature = "tokio")]
#[test]
fn a_wait_that_is_cancelled_gives_back_what_was_charged() {
    let token = tokio_util::sync::CancellationToken::new();
    let (_clock, requests) = limiter(TEN);
    let slots = Semaphore::new(0);
    let parts = all((&requests, &slots));
    let mut waiting = Waiter::parked(parts.acquire().cancel_on(&token));
    assert_eq!(requests.available(), 0);
    token.cancel();
    assert_eq!(waiting.refused(), ErrorKind::Cancelled);
    drop(waiting);
    assert_available(&requests, 1);
}

#[cfg(feature = "tokio")]
#[test]
fn a_waiter_that_is_cancelled_moves_up_those_behind_it() {
    let token = tokio_util::sync::CancellationToken::new();
    let (clock, limiter) = spent(TEN);
    let mut waiting = Waiter::parked(limiter.acquire().cancel_on(&token));
    let mut next = Waiter::parked(limiter.acquire());
    clock.advance(ms(30));
    token.cancel();
    assert_eq!(waiting.refused(), ErrorKind::Cancelled);
    assert_due(&clock, &mut next, ms(70));
    // A token that is cancelled already takes nothing.
    clock.advance(ms(100));
    let refused = Waiter::new(limiter.acquire().cancel_on(&token)).refused();
    assert_eq!(refused, ErrorKind::Cancelled);
    assert_available(&limiter, 1);
}

#[test]
fn a_handle_with_a_cost_may_move_into_a_task() {
    let (clock, limiter) = spent(FIFTY);
    let limiter = Arc::new(limiter);
    let bytes = Arc::clone(&limiter).cost_owned(20);
    assert_eq!(bytes.cost(), 20);
    let mut waiting = Waiter::parked(bytes.acquire());
    assert_due(&clock, &mut waiting, ms(200));
    assert_eq!(
        bytes.try_acquire().unwrap_err().retry_after(),
        Some(ms(200))
    );
    clock.advance(ms(200));
    let charge = bytes.try_acquire().unwrap();
    assert_eq!(charge.cost(), 20);
    bytes.rollback(charge);
    assert_eq!(limiter.available(), 20);
}

#[test]
fn one_of_an_erased_type_refunds_too() {
    let (_clock, requests) = limiter(TEN);
    let requests = Arc::new(requests);
    let erased = Arc::clone(&requests).boxed();
    let closed = Semaphore::new(1);
    closed.close();
    let parts = all((erased.clone(), &closed));
    assert_eq!(Waiter::new(parts.acquire()).refused(), ErrorKind::Closed);
    assert_available(&requests, 1);
    drop(Waiter::new(erased.acquire()).granted());
    assert_limited(&requests, 1, ms(100));
}

#[test]
fn one_that_may_be_missing() {
    let (clock, requests) = spent(TEN);
    let parts = all((Some(&requests), None::<&Semaphore>));
    let mut waiting = Waiter::parked(parts.acquire());
    clock.advance(ms(100));
    let (request, nothing) = waiting.granted();
    assert_eq!(request.map(|charge| at(&charge)), Some(ms(100)));
    assert!(nothing.is_none());
    let without = all((None::<&tollgate::RateLimiter>, None::<&Semaphore>));
    Waiter::new(without.acquire()).granted();
}

#[test]
fn futures_that_do_not_borrow_share_the_line() {
    let (clock, limiter) = spent(FIFTY);
    let limiter = Arc::new(limiter);
    let mut owned = Waiter::parked(Arc::clone(&limiter).acquire_many_owned(10));
    let mut borrowed = Waiter::parked(limiter.acquire_many(5));
    let mut one = Waiter::parked(Arc::clone(&limiter).acquire_owned());
    assert_due(&clock, &mut owned, ms(100));
    assert_due(&clock, &mut borrowed, ms(50));
    assert_due(&clock, &mut one, ms(10));
}

#[test]
fn a_shared_limiter_of_three_scopes_charges_each() {
    let (_clock, everyone) = limiter(FIFTY);
    let (_, team) = limiter(FIFTY.burst(20));
    let (_, user) = limiter(TEN);
    let parts = all((&user, &team, &everyone));
    Waiter::new(parts.acquire()).granted();
    assert_eq!(parts.try_acquire().unwrap_err().part(), Some(0));
    let left = [&user, &team, &everyone].map(|limiter| limiter.available());
    assert_eq!(left, [0, 19, 49]);
}

#[cfg(feature = "stream")]
#[test]
fn a_stream_is_started_at_the_rate() {
    use futures::stream;
    use std::cell::RefCell;
    use tollgate::stream::LimitStreamExt;

    let (clock, limiter) = limiter(TEN.burst(2));
    let started = RefCell::new(Vec::new());
    let each = stream::iter(0..5).for_each_limited(&limiter, |_| async {
        started.borrow_mut().push(clock.now().as_nanos());
    });
    let mut each = Waiter::parked(each);
    let mut steps = 0;
    while each.is_pending() {
        clock.advance(ms(50));
        steps += 1;
        assert!(steps < 100, "it does not go on");
    }
    let expected = [0, 0, 100, 200, 300].map(|millis| millis * 1_000_000);
    assert_eq!(*started.borrow(), expected);
}
