//! Whoever leaves moves everybody behind up at once, wherever it stood.

use std::time::Duration;

use super::scene::{
    FIFTY, TEN, TICK, assert_available, assert_due, assert_limited, at, charged, limiter, line, ms,
    now, spent,
};
use crate::support::Waiter;
use crate::support::random::Random;

#[test]
fn each_place_in_line_when_it_is_left_moves_up_those_behind_it() {
    for left in 0..6 {
        // Also in the midst of the time between two ticks.
        for when in [0, 1, 50, 99] {
            let (clock, limiter) = spent(TEN);
            let mut waiters = line(&limiter, &[1; 6]);
            clock.advance(ms(when));
            drop(waiters.remove(left));
            clock.advance(ms(500));
            let expected: Vec<_> = (1..=5).map(|n| ms(100 * n)).collect();
            assert_eq!(charged(&mut waiters), expected, "{left} left at {when} ms");
        }
    }
}

#[test]
fn those_behind_move_up_by_what_was_asked_for() {
    let costs = [5, 1, 30, 2, 50, 7];
    for left in 0..costs.len() {
        let (clock, limiter) = spent(FIFTY);
        let mut waiters = line(&limiter, &costs);
        clock.advance(ms(3));
        drop(waiters.remove(left));
        clock.advance(ms(2000));
        let mut asked = 0;
        let mut due = Vec::new();
        for (place, cost) in costs.iter().enumerate() {
            if place != left {
                asked += cost;
                due.push(ms(10 * asked));
            }
        }
        assert_eq!(charged(&mut waiters), due, "{left} left");
    }
}

#[test]
fn a_large_head_that_leaves_lets_those_go_for_whom_there_is_enough() {
    let (clock, limiter) = limiter(FIFTY);
    limiter.try_acquire_many(30).unwrap();
    let fifty = Waiter::parked(limiter.acquire_many(50));
    let mut others = line(&limiter, &[5, 10, 6, 1]);
    clock.advance(ms(7));
    drop(fifty);
    let wakes: Vec<_> = others.iter().map(Waiter::wakes).collect();
    assert_eq!(wakes, [1, 1, 0, 0]);
    assert_eq!(charged(&mut others[..2]), [ms(7); 2]);
    assert_due(&clock, &mut others[2], ms(3));
    assert_due(&clock, &mut others[3], ms(10));
}

#[test]
fn one_that_was_granted_and_leaves_without_its_charge_moves_up_those_behind() {
    let (clock, limiter) = spent(TEN);
    let granted = Waiter::parked(limiter.acquire());
    let mut next = Waiter::parked(limiter.acquire());
    let mut last = Waiter::parked(limiter.acquire());
    clock.advance(ms(130));
    assert_eq!((granted.wakes(), next.wakes()), (1, 0));
    drop(granted);
    // Of its 100 ms 30 have passed, and 70 are given back.
    assert_eq!((next.wakes(), at(&next.granted())), (1, ms(130)));
    assert_due(&clock, &mut last, ms(100));
}

#[test]
fn one_that_was_granted_and_leaves_when_its_charge_is_paid_off_gives_nothing_back() {
    let (clock, limiter) = spent(TEN);
    let granted = Waiter::parked(limiter.acquire());
    clock.advance(ms(200));
    let stands = limiter.peek();
    assert_eq!(stands.remaining, 1);
    drop(granted);
    assert_eq!(limiter.peek(), stands);
    assert_available(&limiter, 1);
}

#[test]
fn of_ten_thousand_the_last_goes_at_the_next_tick_when_the_others_leave() {
    let forward = |_: &mut Random, _: usize| 0;
    let backward = |_: &mut Random, len: usize| len - 1;
    let anyhow = |random: &mut Random, len: usize| random.below(len as u32) as usize;
    for pick in [forward, backward, anyhow] {
        let (clock, limiter) = spent(TEN);
        let mut waiters = line(&limiter, &[1; 10_000]);
        let mut last = waiters.pop().unwrap();
        let mut random = Random::new(1);
        while !waiters.is_empty() {
            let which = pick(&mut random, waiters.len());
            drop(waiters.swap_remove(which));
        }
        assert_eq!(limiter.waiting(), 1);
        assert_due(&clock, &mut last, ms(100));
    }
}

#[test]
fn of_ten_thousand_the_last_goes_at_once_when_the_others_leave_after_a_tick() {
    let (clock, limiter) = spent(TEN);
    let mut waiters = line(&limiter, &[1; 10_000]);
    let mut last = waiters.pop().unwrap();
    clock.advance(ms(150));
    // The first one has been granted, and gives back what is left of it.
    drop(waiters);
    assert_eq!((last.wakes(), at(&last.granted())), (1, ms(150)));
}

#[test]
fn an_emptied_line_leaves_no_trace() {
    let (clock, limiter) = spent(TEN);
    let before = limiter.peek();
    let waiters = line(&limiter, &[1; 100]);
    assert_limited(&limiter, 1, ms(100 * 101));
    drop(waiters);
    assert_eq!((limiter.peek(), limiter.waiting()), (before, 0));
    clock.advance(ms(100) - TICK);
    assert_limited(&limiter, 1, TICK);
    clock.advance(TICK);
    limiter.try_acquire().unwrap();
}

#[test]
fn a_line_that_was_emptied_may_be_joined_again() {
    let (clock, limiter) = spent(TEN);
    drop(line(&limiter, &[1; 3]));
    clock.advance(ms(30));
    let mut again = Waiter::parked(limiter.acquire());
    assert_due(&clock, &mut again, ms(70));
    // Also when the alarm of those who left goes off meanwhile.
    drop(line(&limiter, &[1; 3]));
    clock.advance(ms(300));
    limiter.try_acquire().unwrap();
    let mut again = Waiter::parked(limiter.acquire());
    assert_due(&clock, &mut again, ms(100));
}

/// A crowd that comes and goes: everybody who stays is granted in order, as soon as time allows.
#[test]
fn a_crowd_that_comes_and_goes_is_granted_at_the_full_rate() {
    let (clock, limiter) = spent(TEN);
    let mut random = Random::new(42);
    let mut waiters: Vec<_> = line(&limiter, &[1; 50]);
    let mut granted = Vec::new();
    while granted.len() < 200 {
        clock.advance(ms(100));
        let before = granted.len();
        waiters.retain_mut(|waiter| match waiter.poll() {
            std::task::Poll::Ready(charge) => {
                granted.push(at(&charge.unwrap()));
                false
            }
            std::task::Poll::Pending => true,
        });
        assert_eq!(granted.len(), before + 1);
        assert_eq!(granted.last(), Some(&now(&clock)));
        waiters.push(Waiter::parked(limiter.acquire()));
        for _ in 0..5 {
            waiters.push(Waiter::parked(limiter.acquire()));
            let which = random.below(waiters.len() as u32) as usize;
            drop(waiters.remove(which));
        }
    }
    let spacing: Vec<Duration> = granted.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(spacing, [ms(100); 199]);
}
