//! The limits of the requests: how many at once, how many per second, and how many bytes.
//!
//! A request enters the slots first and then the rates: a request that waits for a slot has been
//! charged nothing. While it waits for the rates it keeps its slot, so that at most as many wait for them
//! as there are slots, and those that are late to arrive are no more than that either.

use std::sync::Arc;

use tollgate::adaptive::AdaptiveRate;
use tollgate::{BoxThrottle, MissedTickBehavior, Oversize, RateLimiter};

use crate::args::Args;
use crate::pauses::LONGEST_PAUSE;

/// The rate to begin with when it is to be found: high enough for the main job to find 200 per second
/// in time.
pub(crate) const START: f64 = 50.0;

/// The limits. What is missing is not limited.
#[derive(Clone)]
pub(crate) struct Limits {
    /// How many at once.
    pub(crate) slots: BoxThrottle,
    /// How many per time.
    pub(crate) requests: Option<Arc<RateLimiter>>,
    /// How many bytes they send.
    pub(crate) bytes: Option<Arc<RateLimiter>>,
    /// How many per second the server takes, which is found out.
    pub(crate) adaptive: Option<Arc<AdaptiveRate>>,
}

impl Limits {
    /// Those that the arguments say, beside the slots.
    pub(crate) fn new(slots: BoxThrottle, args: &Args) -> Limits {
        // Nothing is made up for after a late timer, so that the server never has more to do than
        // was said.
        let strict = |quota| RateLimiter::new(quota).missed_tick(MissedTickBehavior::Delay);
        // A part may be larger than what may go at once: it goes when nothing is owed, and the
        // next one once it has been paid off.
        let bytes = |quota| strict(quota).oversize(Oversize::Overdraft);
        let bandwidth = args.bandwidth.as_ref().map(|bytes| bytes.quota());
        let adaptive = || {
            let rate = AdaptiveRate::new().initial_rate(START);
            Arc::new(rate.max_pause(LONGEST_PAUSE))
        };
        Limits {
            slots,
            requests: args.rate.map(|quota| Arc::new(strict(quota))),
            bytes: bandwidth.map(|quota| Arc::new(bytes(quota))),
            adaptive: args.adaptive.then(adaptive),
        }
    }
}
