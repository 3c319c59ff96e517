//! [`Charged`]: what was charged for bytes whose number is known before they move, or once they have.
//!
//! 1. A body waits for its first bytes, up to a burst, in the queue of the limiter. In the poll in which
//!    it gets them it is charged the rest, which may overdraw the limiter, and continues. So a body that is
//!    larger than the burst goes when a burst is available, and those behind it wait until it is paid off.
//! 2. A place in that queue needs no poll to be served, and nothing else is held in the wait. So a
//!    request that nobody polls holds up no other.
//! 3. What was charged is rolled back on drop, the last first, unless it is [kept](Charged::keep).
//! 4. Bytes that have [moved](Moved) before their wait are charged, however the wait ends.

use std::sync::Arc;

use tollgate::throttle::{RollbackGuard, Weighted};
use tollgate::{AcquireError, Charge, ErrorKind, RateLimiter, Throttle};

/// What was charged for a body.
pub(crate) struct Charged<'a> {
    rest: Option<RollbackGuard<&'a Arc<RateLimiter>>>,
    first: RollbackGuard<&'a Arc<RateLimiter>>,
}

impl<'a> Charged<'a> {
    /// Charges for so many bytes if that needs no wait.
    pub(crate) fn at_once(limiter: &'a Arc<RateLimiter>, bytes: u64) -> Option<Self> {
        let first = bytes.min(limiter.max_units());
        let charge = Weighted::cost(limiter, first).enter_now()?;
        Some(Self::with_rest(limiter, charge, bytes - first))
    }

    /// Waits until so many bytes may move.
    pub(crate) async fn wait(
        limiter: &'a Arc<RateLimiter>,
        bytes: u64,
    ) -> Result<Self, AcquireError> {
        let mut first = bytes.min(limiter.max_units());
        loop {
            // Out of its `Waiting`, so that the limiter sees a timeout around this.
            match limiter.cost(first).enter().into_inner().await {
                // The quota was lowered meanwhile, and perhaps raised again. This ends, because each
                // round asks for less than the one before.
                Err(error) if error.kind() == ErrorKind::ExceedsCapacity => {
                    let most = limiter.max_units();
                    let capacity = error.capacity().unwrap_or(most).min(most).max(1);
                    if capacity >= first {
                        return Err(error);
                    }
                    first = capacity;
                }
                entered => return Ok(Self::with_rest(limiter, entered?, bytes - first)),
            }
        }
    }

    fn with_rest(limiter: &'a Arc<RateLimiter>, first: Charge, rest: u64) -> Self {
        let first = RollbackGuard::new(limiter, first);
        let rest = (rest > 0).then(|| RollbackGuard::new(limiter, limiter.charge(rest)));
        Self { rest, first }
    }

    /// Returns the charges, which are kept, the last first.
    pub(crate) fn keep(self) -> Kept {
        [
            self.rest.map(RollbackGuard::disarm),
            Some(self.first.disarm()),
        ]
    }
}

/// Bytes that have moved. They are charged on drop, unless a wait was charged for them.
pub(crate) struct Moved<'a> {
    limiter: Option<&'a RateLimiter>,
    bytes: u64,
}

impl<'a> Moved<'a> {
    pub(crate) fn new(limiter: &'a RateLimiter, bytes: u64) -> Self {
        let limiter = Some(limiter);
        Self { limiter, bytes }
    }

    /// Keeps what a wait was charged for them.
    pub(crate) fn keep(mut self, charged: Charged<'_>) {
        charged.keep();
        self.limiter = None;
    }
}

impl Drop for Moved<'_> {
    fn drop(&mut self) {
        if let Some(limiter) = self.limiter {
            let _ = limiter.charge(self.bytes);
        }
    }
}

/// The charges of a request that was sent, the last first.
pub(crate) type Kept = [Option<Charge>; 2];
