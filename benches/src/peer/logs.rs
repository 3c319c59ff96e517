//! Logs of the last charges.
//!
//! A crate with an exact sliding log is not known to us, so ours is compared with what one writes
//! oneself: the ring of the article on throttling requests in Java, under a mutex.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use quanta::{Clock, Instant};
use tollgate::{Algorithm, Quota, RateLimiter};

use super::{Answer, Limiter, Rate, TryLimiter};

/// A ring of times under a mutex. Its clock is read under the lock, so that times rise in it.
pub struct MutexRing {
    clock: Clock,
    period: Duration,
    ring: Mutex<Ring>,
}

struct Ring {
    times: Box<[Option<Instant>]>,
    /// The oldest.
    next: usize,
}

impl MutexRing {
    #[inline(always)]
    fn try_start(&self) -> Result<(), Duration> {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let (now, next) = (self.clock.now(), ring.next);
        if let Some(time) = ring.times[next] {
            let age = now.duration_since(time);
            if age < self.period {
                return Err(self.period - age);
            }
        }
        ring.times[next] = Some(now);
        ring.next = if next + 1 == ring.times.len() {
            0
        } else {
            next + 1
        };
        Ok(())
    }
}

impl Limiter for MutexRing {
    const NAME: &'static str = "mutex ring";

    fn with_rate(rate: Rate) -> Self {
        Self {
            clock: Clock::new(),
            period: rate.period,
            ring: Mutex::new(Ring {
                times: vec![None; rate.count as usize].into(),
                next: 0,
            }),
        }
    }
}

impl TryLimiter for MutexRing {
    #[inline(always)]
    fn try_take(&self) -> impl Answer + '_ {
        self.try_start()
    }
}

/// Ours.
pub struct OurLog(RateLimiter);

impl Limiter for OurLog {
    const NAME: &'static str = "tollgate, sliding log";

    fn with_rate(rate: Rate) -> Self {
        let quota = Quota::new(u64::from(rate.count), rate.period);
        Self(RateLimiter::new(quota).algorithm(Algorithm::SlidingLog))
    }
}

impl TryLimiter for OurLog {
    #[inline(always)]
    fn try_take(&self) -> impl Answer + '_ {
        self.0.try_acquire()
    }
}
