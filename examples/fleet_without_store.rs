//! A fleet shares a limit without a store: each node has an equal share of the quota.

use std::time::Duration;
use tollgate::{Clock, Quota, RateLimiter};

fn main() {
    let whole = Quota::per_second(50).burst(8);
    let clock = Clock::manual();
    let fleet = [(); 4].map(|()| RateLimiter::new(whole.split(4)).clock(&clock));

    // Each node admits as many calls as it can, in each millisecond of ten seconds.
    let mut let_go = Vec::new();
    for millisecond in 0..10_000_u64 {
        for node in &fleet {
            while node.try_acquire().is_ok() {
                let_go.push(millisecond);
            }
        }
        clock.advance(Duration::from_millis(1));
    }

    // No window has more calls than the whole quota allows, nor much fewer while all nodes are busy.
    for (index, from) in let_go.iter().enumerate() {
        for (count, to) in (1..).zip(&let_go[index..]) {
            assert!(count * 1000 <= 8000 + (to - from) * 50);
        }
    }
    println!("{} of {} in ten seconds", let_go.len(), 8 + 500);
}
