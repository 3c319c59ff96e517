//! The rate that finds itself: what permits say, pauses, growth, and what is left behind.

mod found;
mod permits;
mod random;

use std::time::Duration;

use tollgate::adaptive::AdaptiveRate;
use tollgate::{Clock, ManualClock};

/// A rate on a clock that is moved by hand, which begins at so many per second.
fn starting_at(rate: f64) -> (ManualClock, AdaptiveRate) {
    let clock = Clock::manual();
    let rate = AdaptiveRate::new().initial_rate(rate).clock(&clock);
    (clock, rate)
}

/// Succeeds as often as the rate allows, for so long.
fn succeed_for(clock: &ManualClock, rate: &AdaptiveRate, duration: Duration) {
    let end = clock.now().saturating_add(duration);
    while clock.now() < end {
        if let Err(error) = rate.try_acquire().map(drop) {
            clock.advance(error.retry_after().unwrap());
        }
    }
}
