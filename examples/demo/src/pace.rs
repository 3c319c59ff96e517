//! [`pace`]: makes load at a rate.

use std::convert::Infallible;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

const TICK: Duration = Duration::from_millis(5);

/// After a stall of the process, the load of this time at most is made up for.
const MOST: Duration = Duration::from_millis(100);

/// Calls `make` as often per second as `rate` says, in steps of 5 ms, until it is dropped.
pub(crate) async fn pace(rate: impl Fn() -> u64, mut make: impl FnMut()) -> Infallible {
    let mut ticker = interval(TICK);
    ticker.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let (mut last, mut due) = (Instant::now(), 0.0);
    loop {
        ticker.tick().await;
        let now = Instant::now();
        due += rate() as f64 * (now - last).min(MOST).as_secs_f64();
        last = now;
        while due >= 1.0 {
            due -= 1.0;
            make();
        }
    }
}
