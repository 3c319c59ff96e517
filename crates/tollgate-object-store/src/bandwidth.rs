//! [`Charged`]: what was charged for bytes whose number is known before they move.
//!
//! 1. A body waits for its first bytes, up to a burst, in the queue of the limiter. In the poll in which
//!    it gets them it is charged the rest, which may overdraw the limiter, and goes on. So a body that is
//!    larger than the burst goes when a burst is available, and those behind it wait until it is paid off.
//! 2. A place in that queue needs no poll to be served, and nothing else is held in the wait. So a
//!    request that nobody polls holds up no other.
//! 3. What was charged is rolled back on drop, the last first, unless it is [kept](Charged::keep).

use std::sync::Arc;

use tollgate::throttle::Weighted;
use tollgate::{AcquireError, Charge, ErrorKind, RateLimiter};

use crate::limits::Entered;

/// What was charged for a body.
pub(crate) struct Charged<'a> {
    rest: Option<Entered<'a, Arc<RateLimiter>>>,
    first: Entered<'a, Arc<RateLimiter>>,
}

impl<'a> Charged<'a> {
    /// Charges for so many bytes if that needs no wait.
    pub(crate) fn at_once(limiter: &'a Arc<RateLimiter>, bytes: u64) -> Option<Self> {
        let first = bytes.min(limiter.max_units());
        let charge = limiter.enter_many_at_once(first)?;
        let entered = Entered::new(limiter, charge);
        Some(Self::with_rest(limiter, entered, bytes - first))
    }

    /// Waits until so many bytes may move.
    pub(crate) async fn wait(
        limiter: &'a Arc<RateLimiter>,
        bytes: u64,
    ) -> Result<Self, AcquireError> {
        loop {
            let first = bytes.min(limiter.max_units());
            match Entered::wait(limiter, first, Weighted::enter_many).await {
                // The quota was changed meanwhile: the first bytes are fewer.
                Err(error)
                    if error.kind() == ErrorKind::ExceedsCapacity
                        && limiter.max_units() < first => {}
                entered => return Ok(Self::with_rest(limiter, entered?, bytes - first)),
            }
        }
    }

    fn with_rest(
        limiter: &'a Arc<RateLimiter>,
        first: Entered<'a, Arc<RateLimiter>>,
        rest: u64,
    ) -> Self {
        let rest = (rest > 0).then(|| Entered::new(limiter, limiter.charge(rest)));
        Self { rest, first }
    }

    /// Returns the charges, which are kept, the last first.
    pub(crate) fn keep(self) -> Kept {
        [self.rest.map(Entered::keep), Some(self.first.keep())]
    }
}

/// The charges of a request that was sent, the last first.
pub(crate) type Kept = [Option<Charge>; 2];
