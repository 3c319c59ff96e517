//! A throttle of one's own, whose permits are not held: dropping one does nothing, and undoing it gives
//! it back.

use std::future::{Ready, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tollgate::{AcquireError, Throttle, TryThrottle, Waiting};

/// So many may be charged, for good.
#[derive(Clone)]
pub(crate) struct Budget(Arc<AtomicUsize>);

/// What was left before it was charged.
#[derive(Debug, PartialEq)]
pub(crate) struct Charged(pub(crate) usize);

impl Budget {
    pub(crate) fn new(amount: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(amount)))
    }

    pub(crate) fn left(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Throttle for Budget {
    type Permit = Charged;
    type Enter = Ready<Result<Charged, AcquireError>>;

    fn enter(&self) -> Waiting<Self::Enter> {
        Waiting::new(ready(self.try_enter()))
    }

    fn rollback(&self, _: Charged) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl TryThrottle for Budget {
    fn try_enter(&self) -> Result<Charged, AcquireError> {
        let less = |left: usize| left.checked_sub(1);
        let charged = self
            .0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        charged
            .map(Charged)
            .map_err(|_| AcquireError::limited(Duration::from_secs(1)))
    }
}
