//! What a map of many keys takes, against what its documentation says.

use std::alloc::System;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use stats_alloc::Region;
use tollgate::{AtCap, Clock, Keyed, Quota, RateLimiter};

use crate::{COUNTED, alone};

const CAP: usize = 100_000;

/// How much more is held than when the region began. Less, perhaps: a test that has just ended
/// gives back what it held.
fn held(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change
        .bytes_allocated
        .saturating_sub(change.bytes_deallocated)
}

/// As the documentation of `Keyed` has it: places of a key and its word, and what is said of a
/// shard.
fn stated(keys: usize, size: usize) -> f64 {
    let threads = std::thread::available_parallelism().map_or(4, usize::from);
    let most = (4 * threads).clamp(16, 1024).next_power_of_two();
    let shards = most.min(1 << (keys / 64).max(1).ilog2());
    let each = keys as f64 / shards as f64;
    let places = (each + 5.0 * each.sqrt() + 4.0) / 0.95;
    let bucket = ((7 * size + 16).next_multiple_of(64) as f64) / 7.0;
    shards as f64 * (places * bucket + 1000.0)
}

fn users(max_keys: usize, at_cap: AtCap) -> Keyed<u64, RateLimiter> {
    Keyed::<u64, RateLimiter>::new(Quota::per_hour(10).burst(10))
        .max_keys(max_keys)
        .at_cap(at_cap)
        .clock(Clock::manual())
}

/// Holds the bytes for a key that is not counted: the first use may set up things for the process.
fn warm() {
    let _ = users(1, AtCap::Refuse).key(&1).try_acquire();
}

#[test]
fn keys_without_bound_take_no_more_than_was_said() {
    let _alone = alone();
    warm();
    for at_cap in [AtCap::Evict, AtCap::Fold, AtCap::Refuse] {
        let region = Region::new(COUNTED);
        let users = users(CAP, at_cap);
        // Two threads, for the time that it takes.
        let distinct: u64 = match at_cap {
            // As users have it; the other features make no difference, and it takes its time.
            AtCap::Evict if cfg!(all(feature = "tokio", not(feature = "test-util"))) => 10_000_000,
            AtCap::Evict => 1_000_000,
            _ => 400_000,
        };
        thread::scope(|scope| {
            for half in [0..distinct / 2, distinct / 2..distinct] {
                let users = &users;
                scope.spawn(move || {
                    for key in half {
                        let _ = users.key(&key).try_acquire();
                    }
                });
            }
        });
        let folded = if at_cap == AtCap::Fold { CAP } else { 0 };
        let bound = stated(CAP, 16) + folded as f64;
        let held = held(&region);
        assert!((held as f64) < 1.1 * bound, "{at_cap:?}: {held} of {bound}");
        assert_eq!(users.len(), CAP);
    }
    few_keys_take_less_and_shrink_gives_back();
    nothing_is_left_of_lines();
    nothing_is_allocated_for_keys_that_are_there();
}

fn few_keys_take_less_and_shrink_gives_back() {
    let clock = Clock::manual();
    let region = Region::new(COUNTED);
    let users = Keyed::<u64, RateLimiter>::new(Quota::per_second(1)).clock(&clock);
    for key in 0..10 {
        users.key(&key).try_acquire().unwrap();
    }
    let few = held(&region);
    assert!((few as f64) < 0.1 * stated(CAP, 16), "{few}");
    clock.advance(Duration::from_secs(1));
    users.shrink();
    let none = held(&region);
    assert!((none as f64) < 0.02 * stated(CAP, 16), "{none}");
}

/// Lines of many keys, one after the other, leave as much as those of few.
fn nothing_is_left_of_lines() {
    let clock = Clock::manual();
    let users = Keyed::<u64, RateLimiter>::new(Quota::per_second(1))
        .max_keys(1000)
        .clock(&clock);
    let users = Arc::new(users);
    let wait = |from: u64| {
        for key in from..from + 2000 {
            let user = users.key(&key);
            user.try_acquire().unwrap();
            std::mem::forget(user.reserve().unwrap());
            clock.advance(Duration::from_secs(3));
        }
    };
    wait(0);
    let region = Region::new(COUNTED);
    wait(10_000);
    wait(20_000);
    let change = region.change();
    let more = change.bytes_allocated as isize - change.bytes_deallocated as isize;
    assert!(more < 64 * 1024, "{more}");
}

fn nothing_is_allocated_for_keys_that_are_there() {
    let clock = Clock::manual();
    let users = Keyed::<String, RateLimiter>::new(Quota::per_hour(1).burst(2))
        .max_keys(1)
        .clock(&clock);
    users.key("ann").try_acquire().unwrap();
    let allocated = || {
        let region = Region::new(COUNTED);
        clock.advance(Duration::from_secs(3600));
        users.key("ann").try_acquire().unwrap();
        users.key("ann").try_acquire().map(drop).unwrap_or_default();
        assert!(users.key("ann").try_acquire().is_err());
        assert!(users.key("bob").try_acquire().is_err());
        users.key("bob").peek();
        let change = region.change();
        change.allocations + change.reallocations
    };
    assert_eq!((0..10).map(|_| allocated()).min(), Some(0));
}
