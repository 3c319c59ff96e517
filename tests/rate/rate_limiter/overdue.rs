//! A line whose head is due, although the alarm has not gone off yet.
//!
//! As in [`late`](super::late), a waker takes its time. What is done in the midst of it finds the line
//! as a busy thread leaves it.

use std::sync::{Arc, Mutex};
use std::time::Duration;
use tollgate::Waiting;

use tollgate::rate::AcquireOwned;
use tollgate::{Algorithm, Clock, ManualClock, MissedTickBehavior, Quota, RateLimiter};

use super::scene::{TEN, assert_due, assert_limited, at, charged, ms, now};
use crate::support::Waiter;
use crate::support::foreign::calls_when_woken;

/// A limiter that makes up for a second, and of which the whole burst has been taken.
fn spent(quota: Quota) -> (ManualClock, Arc<RateLimiter>) {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(quota)
        .missed_tick(MissedTickBehavior::Burst { max: 10 })
        .clock(&clock);
    limiter.try_acquire_many(quota.max_burst()).unwrap();
    (clock, Arc::new(limiter))
}

fn line(limiter: &Arc<RateLimiter>, costs: &[u64]) -> Vec<Waiter<Waiting<AcquireOwned>>> {
    let costs = costs.iter();
    let join = |cost: &u64| Arc::clone(limiter).acquire_many_owned(*cost);
    costs.map(|cost| Waiter::parked(join(cost))).collect()
}

/// Puts somebody in line who is due at 100 ms and whose waker takes that long, and then does this;
/// only after it the alarm for whoever is next can be set. What was done is in the end.
fn busy<R: Send + 'static>(
    clock: &ManualClock,
    limiter: &Arc<RateLimiter>,
    takes: Duration,
    then: impl FnOnce() -> R + Send + 'static,
) -> impl FnOnce() -> R {
    let (then, done) = (Mutex::new(Some(then)), Arc::new(Mutex::new(None)));
    let waker = calls_when_woken({
        let (clock, done) = (clock.clone(), Arc::clone(&done));
        move || {
            clock.advance(takes);
            let then = then.lock().unwrap().take().expect("it is woken once");
            let result = then();
            *done.lock().unwrap() = Some(result);
        }
    });
    let mut waiter = Waiter::new(Arc::clone(limiter).acquire_owned());
    assert!(waiter.poll_with(&waker).is_pending());
    let clock = clock.clone();
    move || {
        clock.advance(ms(100));
        assert_eq!(at(&waiter.granted()), ms(100));
        assert_eq!(now(&clock), ms(100) + takes);
        let done = done.lock().unwrap().take();
        done.expect("it was woken")
    }
}

#[test]
fn a_try_comes_after_those_who_are_due_and_takes_what_is_left() {
    let (clock, limiter) = spent(TEN.burst(3));
    let comes = Arc::clone(&limiter);
    let busy = busy(&clock, &limiter, ms(400), move || comes.try_acquire());
    let mut waiters = line(&limiter, &[1, 1]);
    // At 500 ms two are charged for 200 and 300, and then two could be had.
    assert_eq!(at(&busy().unwrap()), ms(500));
    assert_eq!(waiters.iter().map(Waiter::wakes).sum::<usize>(), 2);
    assert_eq!(charged(&mut waiters), [ms(200), ms(300)]);
    assert_eq!(limiter.available(), 1);
}

#[test]
fn a_try_that_is_refused_is_told_the_time_after_those_who_are_due() {
    let (clock, limiter) = spent(TEN);
    let comes = Arc::clone(&limiter);
    let busy = busy(&clock, &limiter, ms(230), move || {
        (comes.try_acquire(), comes.waiting())
    });
    let mut waiters = line(&limiter, &[1, 1, 1]);
    // At 330 ms two have gone, and the third is due at 400.
    let (tried, waiting) = busy();
    assert_eq!(tried.unwrap_err().retry_after(), Some(ms(170)));
    assert_eq!(waiting, 1);
    assert_eq!(charged(&mut waiters[..2]), [ms(200), ms(300)]);
    assert_due(&clock, &mut waiters[2], ms(70));
}

#[test]
fn a_look_finds_those_gone_who_are_due() {
    let (clock, limiter) = spent(TEN.burst(3));
    let comes = Arc::clone(&limiter);
    let busy = busy(&clock, &limiter, ms(400), move || comes.peek());
    let mut waiters = line(&limiter, &[1, 1]);
    let peeked = busy();
    assert_eq!((peeked.remaining, peeked.retry_after), (2, ms(0)));
    assert_eq!(peeked.reset_after, ms(100));
    assert_eq!(charged(&mut waiters), [ms(200), ms(300)]);
}

#[test]
fn whoever_comes_to_wait_does_not_wait_behind_those_who_are_due() {
    let (clock, limiter) = spent(TEN.burst(3));
    let comes = Arc::clone(&limiter);
    let busy = busy(&clock, &limiter, ms(400), move || {
        Waiter::new(comes.acquire_owned()).granted()
    });
    let mut waiters = line(&limiter, &[1, 1]);
    assert_eq!(at(&busy()), ms(500));
    assert_eq!(charged(&mut waiters), [ms(200), ms(300)]);
}

/// Nobody is due by its leaving who was not before, so the time is made up for as if the alarm had
/// gone off first.
#[test]
fn a_head_that_leaves_when_it_is_overdue_leaves_its_time_to_the_next() {
    let (clock, limiter) = spent(TEN);
    let head = Arc::new(Mutex::new(None));
    let leaves = Arc::clone(&head);
    let busy = busy(&clock, &limiter, ms(250), move || {
        drop(leaves.lock().unwrap().take());
    });
    *head.lock().unwrap() = line(&limiter, &[1]).pop();
    let mut waiters = line(&limiter, &[1, 1, 1]);
    busy();
    assert_eq!(charged(&mut waiters[..2]), [ms(200), ms(300)]);
    assert_due(&clock, &mut waiters[2], ms(50));
}

/// Nor is anybody by a refund who was before.
#[test]
fn a_refund_when_the_head_is_overdue_leaves_it_charged_when_it_was_due() {
    let algorithm = Algorithm::SlidingLog;
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::new(3, ms(300)))
        .algorithm(algorithm)
        .missed_tick(MissedTickBehavior::Burst { max: 10 })
        .clock(&clock);
    let limiter = Arc::new(limiter);
    limiter.try_acquire().unwrap();
    clock.advance(ms(150));
    limiter.try_acquire().unwrap();
    clock.advance(ms(100));
    let charge = Mutex::new(Some(limiter.try_acquire().unwrap()));
    let waker = calls_when_woken({
        let (clock, limiter) = (clock.clone(), Arc::clone(&limiter));
        move || {
            clock.advance(ms(200));
            limiter.refund(charge.lock().unwrap().take().expect("it is woken once"));
        }
    });
    let mut first = Waiter::new(Arc::clone(&limiter).acquire_owned());
    assert!(first.poll_with(&waker).is_pending());
    let mut next = line(&limiter, &[1]);
    clock.advance(ms(50));
    assert_eq!(at(&first.granted()), ms(300));
    assert_eq!(charged(&mut next), [ms(450)], "{algorithm}");
    assert_eq!(now(&clock), ms(500));
}

/// The headers of an answer go with the tick of the charge, however late it was made.
#[test]
fn whoever_is_charged_for_an_earlier_tick_is_told_how_it_stood_then() {
    let (clock, limiter) = spent(TEN.burst(4));
    let busy = busy(&clock, &limiter, ms(350), || {});
    let mut waiters = line(&limiter, &[1, 2]);
    busy();
    let stood = waiters.iter_mut().map(|waiter| {
        let charge = waiter.granted();
        let decision = limiter.decision(&charge);
        (at(&charge), decision.remaining, decision.reset_after)
    });
    let stood: Vec<_> = stood.collect();
    assert_eq!(stood, [(ms(200), 0, ms(400)), (ms(400), 0, ms(400))]);
    // It is 450 ms, and a half of one has been paid off since.
    assert_limited(&limiter, 1, ms(50));
}
