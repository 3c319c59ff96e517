//! The limit in front of the server: fixed, or a real [`AdaptiveSemaphore`] on a clock that the
//! simulation moves.

use std::sync::Arc;

use tollgate::ManualClock;
use tollgate::adaptive::{AdaptivePermit, AdaptiveSemaphore};

/// The permit of a call. A fixed limit needs none.
pub(crate) type Permit = Option<AdaptivePermit<Arc<AdaptiveSemaphore>>>;

/// What a caller says about the end of its call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Said {
    /// Its time in service is a sample.
    Nothing,
    Overloaded,
    Ignore,
}

pub(crate) enum Limiter {
    Fixed { limit: usize, in_flight: usize },
    Adaptive(Arc<AdaptiveSemaphore>),
}

impl Limiter {
    pub(crate) fn fixed(limit: usize) -> Self {
        Self::Fixed {
            limit,
            in_flight: 0,
        }
    }

    pub(crate) fn adaptive(semaphore: AdaptiveSemaphore, clock: &ManualClock) -> Self {
        Self::Adaptive(Arc::new(semaphore.clock(clock)))
    }

    pub(crate) fn limit(&self) -> usize {
        match self {
            Self::Fixed { limit, .. } => *limit,
            Self::Adaptive(semaphore) => semaphore.snapshot().permits.limit as usize,
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        match self {
            Self::Fixed { limit, in_flight } => in_flight < limit,
            Self::Adaptive(semaphore) => {
                let permits = semaphore.snapshot().permits;
                permits.in_use < permits.limit
            }
        }
    }

    /// Begins a call, for which there is room.
    pub(crate) fn begin(&mut self) -> Permit {
        match self {
            Self::Fixed { in_flight, .. } => {
                *in_flight += 1;
                None
            }
            Self::Adaptive(semaphore) => {
                let permit = Arc::clone(semaphore).try_acquire_owned();
                Some(permit.expect("there is room"))
            }
        }
    }

    pub(crate) fn end(&mut self, permit: Permit, said: Said) {
        if let Self::Fixed { in_flight, .. } = self {
            *in_flight -= 1;
        }
        let Some(permit) = permit else { return };
        match said {
            Said::Nothing => drop(permit),
            Said::Overloaded => permit.overloaded(),
            Said::Ignore => permit.ignore(),
        }
    }
}
