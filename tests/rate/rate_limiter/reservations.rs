//! Reservations: places in the queue that are looked at, awaited or given up.

use std::task::{Context, Waker};
use std::time::Duration;

use crate::setup::{FIFTY, TEN, at, limiter, ms, queue, spent};
use crate::support::Waiter;
use crate::support::random::Random;

#[test]
fn delay_only_shrinks_while_others_come_and_go() {
    let (clock, limiter) = spent(FIFTY);
    let mut random = Random::new(3);
    let mut others = queue(&limiter, &[7; 20]);
    let reservation = limiter.reserve_many(30).unwrap();
    let mut last = reservation.delay();
    assert_eq!(last, ms(10 * (7 * 20 + 30)));
    while !last.is_zero() {
        match random.below(3) {
            0 if !others.is_empty() => {
                let which = random.below(others.len() as u32) as usize;
                drop(others.swap_remove(which));
            }
            1 => others.push(Waiter::parked(limiter.acquire_many(7))),
            _ => clock.advance(ms(9)),
        }
        let next = reservation.delay();
        assert!(next <= last, "{next:?} after {last:?}");
        last = next;
    }
    assert!(Waiter::new(reservation).output().is_ok());
}

/// The first is charged at once, the second in the queue; each at its turn, whenever it is looked at.
#[test]
fn reservation_looked_at_late_was_charged_at_its_turn() {
    let (clock, limiter) = limiter(TEN);
    let [now, later, dropped] = [(); 3].map(|()| limiter.reserve().unwrap());
    assert_eq!(
        [&now, &later, &dropped].map(|it| it.delay()),
        [ms(0), ms(100), ms(200)]
    );
    drop(dropped);
    clock.advance(ms(1000));
    let charges = [now.wait().unwrap(), later.wait().unwrap()];
    assert_eq!(charges.each_ref().map(at), [ms(0), ms(100)]);
}

/// From outside: it said 575 years.
#[test]
fn delay_of_one_that_is_never_due_is_the_longest_duration() {
    let (_clock, limiter) = limiter(TEN);
    limiter.charge(u64::MAX);
    let reservation = limiter.reserve().unwrap();
    assert_eq!(reservation.delay(), Duration::MAX);
    let refused = limiter.try_acquire().unwrap_err();
    assert_eq!(refused.retry_after(), Some(Duration::MAX));
    assert_eq!(limiter.peek().retry_after, Duration::MAX);
}

/// From outside: the error did not say.
#[test]
fn reservation_that_does_not_fit_a_timeout_says_how_long_it_would_take() {
    let (_clock, limiter) = spent(TEN);
    let reservation = limiter.reserve().unwrap();
    let refused = reservation.timeout(ms(99)).wait().unwrap_err();
    assert_eq!(refused.kind(), tollgate::ErrorKind::TimedOut);
    assert_eq!(refused.retry_after(), Some(ms(100)));
    assert_eq!(limiter.snapshot().waiting, 0);
}

#[test]
fn debug_says_whether_it_waits() {
    let (clock, limiter) = spent(TEN);
    let mut reservation = Box::pin(limiter.reserve().unwrap());
    assert!(format!("{reservation:?}").contains("waiting: true"));
    clock.advance(ms(100));
    let mut context = Context::from_waker(Waker::noop());
    assert!(reservation.as_mut().poll(&mut context).is_ready());
    assert!(format!("{reservation:?}").contains("waiting: false"));
}
