//! Remembers where the limit of a server was found.
//!
//! An adaptive rate swings around the limit, so its value at the end says less than what the server
//! had accepted before each refusal that cut the rate.

use std::sync::{Arc, Mutex, PoisonError};

use tollgate::adaptive::AdaptiveRate;

/// The rates that a server accepted before each cut so far.
#[derive(Debug)]
pub(crate) struct Found {
    rate: Arc<AdaptiveRate>,
    cuts: Mutex<(u64, Vec<f64>)>,
}

impl Found {
    pub(crate) fn new(rate: Arc<AdaptiveRate>) -> Found {
        Found {
            rate,
            cuts: Mutex::default(),
        }
    }

    /// Notes the last cut unless that was done. It is called at each refusal, before that makes the rate
    /// smaller: every cut is a refusal, so none is missed.
    pub(crate) fn look(&self) {
        let mut cuts = self.cuts.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, accepted) = &mut *cuts;
        let now = self.rate.snapshot();
        if now.cuts > *known {
            *known = now.cuts;
            accepted.extend(now.accepted);
        }
    }

    /// The median of what was accepted, the upper one of two: soon after a cut it is a little less than
    /// the limit. `None` before the second cut, because the first one comes when the rate doubles.
    pub(crate) fn median(&self) -> Option<f64> {
        self.look();
        let cuts = self.cuts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut accepted = cuts.1.clone();
        accepted.sort_by(f64::total_cmp);
        accepted.get(accepted.len() / 2).copied()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use tollgate::{Clock, Quota, RateLimiter};

    #[test]
    fn median_is_within_5_percent_of_what_the_server_takes() {
        for (limit, burst) in [(200, 4), (500, 10)] {
            let clock = Clock::manual();
            let server = RateLimiter::new(Quota::per_second(limit).burst(burst)).clock(&clock);
            let rate = Arc::new(AdaptiveRate::new().start(50.0).clock(&clock));
            let found = Found::new(Arc::clone(&rate));
            assert_eq!(found.median(), None);
            // For ten seconds, one request after the other.
            for _ in 0..100_000 {
                clock.advance(Duration::from_micros(100));
                let Ok(permit) = rate.try_acquire() else {
                    continue;
                };
                if server.try_acquire().is_err() {
                    found.look();
                    permit.throttled(None);
                }
            }
            let median = found.median().unwrap() / limit as f64;
            assert!((0.95..=1.05).contains(&median), "{median} of {limit}");
        }
    }
}
