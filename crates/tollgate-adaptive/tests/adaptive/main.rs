//! Adaptive limits, on manual clocks.

mod adaptive_rate;
mod adaptive_semaphore;
#[path = "../../../../tests/support/mod.rs"]
mod support;

use std::time::Duration;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
