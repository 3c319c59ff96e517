//! [`Feedback`]: the outcome of a call, as reported to an adaptive limit.

use std::time::Duration;

/// The outcome of a call, as reported to an adaptive limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Feedback {
    /// The call succeeded, or failed for another reason than overload after as much work as any other call.
    Success,
    /// The call failed because the server is overloaded: a timeout, 429, 503.
    Overloaded {
        /// The retry delay that the server asked for, if any. Only a rate limit uses it.
        retry_after: Option<Duration>,
    },
    /// The call is not counted.
    Ignored,
}

impl Feedback {
    /// An overload without a retry delay from the server.
    pub const OVERLOADED: Self = Self::Overloaded { retry_after: None };
}
