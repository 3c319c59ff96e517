//! [`Bandwidth`]: a limit of bytes whose sizes are known before they move.
//!
//! 1. One body at a time is charged. Others wait for their turn in the order in which they came, so that
//!    bodies that are larger than the burst follow each other, and do not all finish at the end. The limiter
//!    alone cannot do that: what is charged at once delays those who already wait for it. Others that use
//!    the limiter, such as a connector that is not a clone, do not take part in the turn.
//! 2. A body takes up to a burst, is charged at once for all but its last burst, and waits for that. So
//!    it has a few charges, however small the burst is, and the last wait tells a timeout how long it is.
//! 3. What was charged is rolled back on drop, unless it is [kept](Charged::keep).

use std::sync::Arc;

use tollgate::throttle::Weighted;
use tollgate::{AcquireError, Charge, ErrorKind, RateLimiter, Semaphore, Throttle};

use crate::limits::Entered;

/// A limiter of bytes. Clones share the turn.
#[derive(Clone, Debug)]
pub(crate) struct Bandwidth {
    pub(crate) limiter: Arc<RateLimiter>,
    turn: Arc<Semaphore>,
}

/// What was charged for a body whose turn it is.
pub(crate) struct Charged<'a> {
    charges: Vec<Entered<'a, Arc<RateLimiter>>>,
    _turn: Entered<'a, Arc<Semaphore>>,
}

impl Bandwidth {
    pub(crate) fn new(limiter: Arc<RateLimiter>) -> Self {
        Self {
            limiter,
            turn: Arc::new(Semaphore::new(1)),
        }
    }

    /// Charges for so many bytes if that needs no wait.
    pub(crate) fn charge_at_once(&self, bytes: u64) -> Option<Charged<'_>> {
        let turn = Entered::at_once(&self.turn)?;
        let charge = self.limiter.enter_many_at_once(bytes)?;
        Some(Charged {
            charges: vec![Entered::new(&self.limiter, charge)],
            _turn: turn,
        })
    }

    /// Waits until this many bytes may move.
    pub(crate) async fn charge(&self, bytes: u64) -> Result<Charged<'_>, AcquireError> {
        let turn = Entered::wait(&self.turn, 1, |turn, _| turn.enter()).await?;
        let (mut charges, mut left) = (Vec::new(), bytes);
        while left > 0 {
            let step = left.min(self.limiter.max_units());
            match Entered::wait(&self.limiter, step, Weighted::enter_many).await {
                Ok(charge) => charges.push(charge),
                // The quota was changed meanwhile: the next step is smaller.
                Err(error)
                    if error.kind() == ErrorKind::ExceedsCapacity
                        && self.limiter.max_units() < step =>
                {
                    continue;
                }
                Err(error) => return Err(error),
            }
            left -= step;
            let ahead = left.saturating_sub(self.limiter.max_units());
            if ahead > 0 {
                let charge = self.limiter.charge(ahead);
                charges.push(Entered::new(&self.limiter, charge));
                left -= ahead;
            }
        }
        Ok(Charged {
            charges,
            _turn: turn,
        })
    }
}

impl Charged<'_> {
    /// Keeps the charges, and ends the turn.
    pub(crate) fn keep(self) -> Vec<Charge> {
        self.charges.into_iter().map(Entered::keep).collect()
    }
}
