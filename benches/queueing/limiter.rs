//! The limit in front of the server: fixed, or a real [`AdaptiveSemaphore`] on a clock that the
//! simulation moves.

use std::sync::Arc;
use std::time::Duration;

use tollgate::adaptive::{AdaptivePermit, AdaptiveSemaphore};
use tollgate::{Clock, ManualClock};

use crate::jobs::Nanos;

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
    Fixed {
        limit: usize,
        in_flight: usize,
    },
    Adaptive {
        semaphore: Arc<AdaptiveSemaphore>,
        clock: ManualClock,
        now: Nanos,
    },
}

impl Limiter {
    pub(crate) fn fixed(limit: usize) -> Self {
        Self::Fixed {
            limit,
            in_flight: 0,
        }
    }

    pub(crate) fn adaptive(semaphore: AdaptiveSemaphore) -> Self {
        let clock = Clock::manual();
        Self::Adaptive {
            semaphore: Arc::new(semaphore.clock(&clock)),
            clock,
            now: 0,
        }
    }

    pub(crate) fn limit(&self) -> usize {
        match self {
            Self::Fixed { limit, .. } => *limit,
            Self::Adaptive { semaphore, .. } => semaphore.snapshot().permits.limit as usize,
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        match self {
            Self::Fixed { limit, in_flight } => in_flight < limit,
            Self::Adaptive { semaphore, .. } => {
                semaphore.snapshot().permits.in_use < semaphore.snapshot().permits.limit
            }
        }
    }

    /// Begins a call, for which there is room.
    pub(crate) fn begin(&mut self, at: Nanos) -> Permit {
        self.advance(at);
        match self {
            Self::Fixed { in_flight, .. } => {
                *in_flight += 1;
                None
            }
            Self::Adaptive { semaphore, .. } => {
                let permit = Arc::clone(semaphore).try_acquire_owned();
                Some(permit.expect("there is room"))
            }
        }
    }

    pub(crate) fn end(&mut self, at: Nanos, permit: Permit, said: Said) {
        self.advance(at);
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

    fn advance(&mut self, at: Nanos) {
        if let Self::Adaptive { clock, now, .. } = self {
            clock.advance(Duration::from_nanos(at - *now));
            *now = at;
        }
    }
}
