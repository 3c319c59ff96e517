//! [`LimitStatus`]: what a limit allows now, for adapters that report it.

use crate::decision::Decision;
use crate::quota::Quota;
use crate::snapshot::Snapshot;

/// What a limit allows now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitStatus {
    /// A rate limiter.
    Rate {
        /// The quota.
        quota: Quota,
        /// The decision that a call of cost 1 would get now. A limiter across machines cannot know
        /// that, and has the decision that admitted the caller.
        decision: Decision,
    },
    /// A concurrency throttle.
    Concurrency {
        /// The number of permits.
        limit: u64,
        /// The number of free permits.
        available: u64,
    },
    /// Not available, for example for a gate or for `None`.
    Unknown,
}

impl LimitStatus {
    pub(crate) fn concurrency(snapshot: Snapshot) -> Self {
        Self::Concurrency {
            limit: snapshot.limit,
            available: snapshot.available,
        }
    }
}
