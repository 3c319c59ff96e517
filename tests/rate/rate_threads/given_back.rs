//! Threads that give up, and that give back.

use std::sync::Barrier;
use std::time::Duration;

use tollgate::{ErrorKind, Quota, RateLimiter};

use crate::support::Waiter;
use crate::support::audit::Allowance;
use crate::support::random::on_threads;

/// By what was kept, however many were given back in between, early, late and in any order.
#[test]
fn refunds_never_let_too_many_in() {
    for quota in [
        Quota::per_second(1_000_000).burst(30),
        Quota::per_second(20_000).burst(8),
        Quota::per_hour(1).burst(40),
    ] {
        let limiter = RateLimiter::new(quota);
        let charged = on_threads(4, |random| {
            let (mut charged, mut held) = (Vec::new(), Vec::new());
            for _ in 0..10_000 {
                if let Ok(charge) = limiter.try_acquire_many(u64::from(1 + random.below(3))) {
                    held.push(charge);
                }
                if held.len() > random.below(6) as usize {
                    let charge = held.swap_remove(random.below(held.len() as u32) as usize);
                    if random.below(2) == 0 {
                        limiter.refund(charge);
                    } else {
                        charged.push((charge.at().as_nanos(), charge.cost()));
                    }
                }
            }
            let kept = held
                .iter()
                .map(|charge| (charge.at().as_nanos(), charge.cost()));
            charged.extend(kept);
            charged
        })
        .concat();
        assert_eq!(Allowance::of(quota).audit(&charged), Ok(()), "{quota}");
    }
}

/// Waits, tries, refunds and cancelled waits together. At the end the line is empty, and moves on.
#[test]
fn who_gives_up_or_gives_back_strands_nobody() {
    let quota = Quota::per_second(50_000).burst(6);
    let limiter = RateLimiter::new(quota);
    let charged = on_threads(4, |random| {
        let mut charged = Vec::new();
        for _ in 0..800 {
            let cost = u64::from(1 + random.below(6));
            let result = match random.below(4) {
                0 => limiter.try_acquire_many(cost),
                1 => {
                    // Given up, in line or granted already.
                    drop(Waiter::new(limiter.acquire_many(cost)).poll());
                    continue;
                }
                2 => {
                    let short = Duration::from_micros(u64::from(random.below(200)));
                    limiter.acquire_many(cost).timeout(short).wait()
                }
                _ => limiter.acquire_many(cost).wait(),
            };
            match result {
                Ok(charge) if random.below(3) == 0 => limiter.refund(charge),
                Ok(charge) => charged.push((charge.at().as_nanos(), cost)),
                Err(error) => assert!(matches!(
                    error.kind(),
                    ErrorKind::RateLimited | ErrorKind::TimedOut
                )),
            }
        }
        charged
    })
    .concat();
    assert_eq!(limiter.waiting(), 0);
    assert_eq!(Allowance::of(quota).audit(&charged), Ok(()));
    let charge = limiter.acquire_many(6).wait().unwrap();
    assert_eq!(charge.cost(), 6);
}

/// With nothing paid off in between, all that is given back is there again: of as many as are told apart.
#[test]
fn nothing_is_lost_when_all_is_given_back() {
    for _ in 0..50 {
        let limiter = RateLimiter::new(Quota::per_hour(1).burst(1000));
        let taken = Barrier::new(4);
        on_threads(4, |random| {
            let mut held: Vec<_> = (0..15)
                .map(|_| limiter.try_acquire_many(1 + u64::from(random.below(5))))
                .collect();
            taken.wait();
            while !held.is_empty() {
                let charge = held.swap_remove(random.below(held.len() as u32) as usize);
                limiter.refund(charge.expect("at most 300 of 1000"));
            }
        });
        assert_eq!(limiter.available(), 1000);
    }
}
