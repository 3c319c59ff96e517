//! Options of a limiter.

use std::sync::Arc;
use std::time::Duration;

use crate::algorithm::{Algorithm, Origin};
use crate::error::AcquireError;
use crate::time::{Clock, Home, Tick, wait_for};

/// The behavior when the timer that releases waiters is late. It always is a little late.
///
/// It makes no difference to calls that do not wait. If you choose none of these, the timer of the
/// system clock waits up to 2 ms to release several waiters at once, if the burst is 32 or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MissedTickBehavior {
    /// Charges waiters when they are released. They are never closer together than the quota
    /// allows, but each delay of the timer is lost. So the rate stays somewhat below the quota, and
    /// the loss grows with the rate.
    Delay,
    /// Charges waiters when they were due, so the rate holds over time. After a late tick, overdue
    /// waiters are released at once: measured by the times of release, any interval may admit `max`
    /// more than the quota allows. Measured by the ticks at which they are
    /// [charged](super::Charge::at), no interval admits more.
    Burst {
        /// The overdue cost that is released at once; anything beyond it is lost.
        max: u64,
    },
}

/// The behavior for a call that asks for more than the burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Oversize {
    /// Refuses it immediately, with [`ExceedsCapacity`](crate::ErrorKind::ExceedsCapacity).
    #[default]
    Refuse,
    /// Admits it alone, when the backlog is empty and so the whole burst is available. The call
    /// overdraws the burst: no other call is admitted until time has paid off the excess.
    Overdraft,
}

/// All options except the quota.
#[derive(Clone)]
pub(crate) struct Config {
    pub(crate) clock: Clock,
    pub(crate) algorithm: Algorithm,
    pub(super) oversize: Oversize,
    /// The number of tokens for which the limiter makes up if the timer is late. `None` is the default,
    /// which the rule chooses.
    pub(super) makes_up: Option<u64>,
    pub(crate) max_waiters: usize,
    /// The most nanoseconds of a random delay.
    pub(super) jitter: u64,
    /// The nanoseconds after which a hold ends by itself.
    pub(super) max_hold: u64,
    /// Set for a limiter among many: their windows all begin at multiples of their length since this tick, even
    /// after the length changes.
    pub(crate) origin: Origin,
}

impl Config {
    /// Returns the same on [the clock of one runtime](Clock::bound).
    pub(super) fn bound(&self, home: Option<Arc<Home>>) -> Self {
        Self {
            clock: self.clock.bound(home),
            ..self.clone()
        }
    }

    /// Returns whether a cost above the burst is refused.
    pub(crate) fn refuses_oversize(&self) -> bool {
        matches!(self.oversize, Oversize::Refuse)
    }

    /// Returns the maximum cost of one call of a limiter with this capacity.
    pub(crate) fn most(&self, capacity: u64) -> u64 {
        match self.oversize {
            Oversize::Refuse => capacity,
            Oversize::Overdraft => u64::MAX,
        }
    }

    /// Returns the error of a call that is refused until `due`.
    pub(crate) fn limited(&self, due: Tick, now: Tick) -> AcquireError {
        match self.jitter {
            0 => AcquireError::limited_until(due, now),
            _ => AcquireError::limited(self.jittered(wait_for(due, now))),
        }
    }

    /// Adds the random delay, if one was set.
    pub(crate) fn jittered(&self, after: Duration) -> Duration {
        match self.jitter {
            0 => after,
            jitter => {
                let delay = (jitter as f64 * fraction()) as u64;
                after.saturating_add(Duration::from_nanos(delay.min(jitter)))
            }
        }
    }
}

/// Returns the nanoseconds of a duration, and the most that there can be for a longer one.
pub(super) const fn nanos_of(duration: Duration) -> u64 {
    let nanos = duration.as_nanos();
    if nanos < u64::MAX as u128 {
        nanos as u64
    } else {
        u64::MAX
    }
}

/// Returns a random number from 0 to 1.
#[cold]
fn fraction() -> f64 {
    use std::hash::{BuildHasher, RandomState};
    let random = RandomState::new().hash_one(0);
    (random >> 11) as f64 / (1_u64 << 53) as f64
}
