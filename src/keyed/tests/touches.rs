//! No call looks at more entries than was said, however many keys there are and have been.

use std::time::Duration;

use super::super::touched::{MOST, take_touched};
use crate::{AtCap, Clock, Keyed, Quota, RateLimiter, Semaphore};

/// Numbers that look as if drawn by lot.
fn lots(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

fn at_most(calls: &mut u64) {
    let touched = take_touched();
    assert!(touched <= MOST, "{touched} after {calls} calls");
    *calls += 1;
}

#[test]
fn no_call_on_a_rate_touches_more_than_eight_entries() {
    let mut calls = 0;
    for at_cap in [AtCap::Refuse, AtCap::Fold, AtCap::Evict] {
        for own in [false, true] {
            let clock = Clock::manual();
            let mut users = Keyed::<u64, RateLimiter>::new(Quota::per_second(2).burst(3))
                .max_keys(3000)
                .at_cap(at_cap)
                .clock(&clock);
            if own {
                users = users.quotas(|key| Quota::per_second(1 + *key % 3).burst(3));
            }
            let mut lot = lots(calls + 7);
            let mut waiting = Vec::new();
            take_touched();
            for round in 0..100_000_u64 {
                let key = lot() % if round % 4 == 0 { 1_000_000 } else { 2000 };
                let user = users.key(&key);
                let charge = user.try_acquire_many(1 + lot() % 3);
                at_most(&mut calls);
                match lot() % 8 {
                    0 => drop(user.acquire_many(3).timeout(Duration::ZERO).wait()),
                    1 => drop(user.charge(lot() % 9)),
                    2 => drop(user.peek()),
                    3 => waiting.push(user.reserve()),
                    4 => clock.advance(Duration::from_micros(lot() % 100_000)),
                    5 => waiting.clear(),
                    _ => charge.into_iter().for_each(|charge| user.refund(charge)),
                }
                at_most(&mut calls);
            }
            assert!(users.len() > 2500, "{}", users.len());
        }
    }
    assert_eq!(calls, 1_200_000);
}

#[test]
fn no_call_on_a_semaphore_touches_more_than_eight_entries() {
    let mut calls = 0;
    let users = Keyed::<u64, Semaphore>::new(1).max_keys(2000);
    let mut lot = lots(11);
    let mut held = Vec::new();
    take_touched();
    for _ in 0..1_000_000 {
        let key = lot() % 5000;
        if let Ok(permit) = users.key(&key).try_acquire() {
            held.push(permit);
        }
        at_most(&mut calls);
        if held.len() > 2500 || lot().is_multiple_of(3) {
            let at = lot() as usize % (held.len() + 1);
            if at < held.len() {
                drop(held.swap_remove(at));
            }
        }
    }
    assert_eq!(users.len(), 2000);
    assert_eq!(calls, 1_000_000);
}
