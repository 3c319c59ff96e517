//! [`Feedback`]: what an adaptive limit learns from a call.

use std::time::Duration;

/// How a call has ended, as far as an adaptive limit is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Feedback {
    /// The call succeeded, or failed for a reason of its own after as much work as any other.
    Success,
    /// The call failed because the other side is overloaded: a timeout, 429, 503.
    Overloaded {
        /// For how long the other side asked to be left alone, if it did. Only a rate limit heeds it.
        retry_after: Option<Duration>,
    },
    /// The call is not counted.
    Ignored,
}

impl Feedback {
    /// An overload after which the other side asked for no time to wait.
    pub const OVERLOADED: Self = Self::Overloaded { retry_after: None };
}
