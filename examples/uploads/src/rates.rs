//! The limits per second, beside the one of how many at once.
//!
//! A request enters the slots first and then the rates: whoever waits for a slot has been charged
//! nothing. While it waits for the rates it keeps its slot, so that at most as many wait for them
//! as there are slots, and those that are late to arrive are no more than that either.

use tollgate::{Cost, MissedTickBehavior, Oversize, Quota, RateLimiter};

use crate::bandwidth::Bandwidth;

/// What is allowed per second. What is missing is not limited.
#[derive(Debug)]
pub struct Rates {
    requests: Option<RateLimiter>,
    bytes: Option<RateLimiter>,
}

impl Rates {
    /// So many requests, and so many bytes of files.
    pub fn new(requests: Option<Quota>, bytes: Option<&Bandwidth>) -> Rates {
        // Nothing is made up for after a late timer, so that the server never has more to do than
        // was said.
        let strict = |quota| RateLimiter::new(quota).missed_tick(MissedTickBehavior::Delay);
        Rates {
            requests: requests.map(strict),
            // A part may be larger than what may go at once: it goes when nothing is owed, and the
            // next one once it has been paid off.
            bytes: bytes.map(|bytes| strict(bytes.quota()).oversize(Oversize::Overdraft)),
        }
    }

    /// The limit that each request is charged one of.
    pub fn requests(&self) -> Option<&RateLimiter> {
        self.requests.as_ref()
    }

    /// The limit of bytes, for a request with so many.
    pub fn bytes(&self, count: u64) -> Option<Cost<&RateLimiter>> {
        self.bytes.as_ref().map(|bytes| bytes.cost(count))
    }
}
