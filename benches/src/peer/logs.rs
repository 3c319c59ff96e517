//! Logs of the last charges, and the other rules of ours.
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

/// Ours by another rule than the default.
macro_rules! by_rule {
    ($($(#[$doc:meta])* $name:ident: $algorithm:expr, $title:literal;)*) => {$(
        $(#[$doc])*
        pub struct $name(RateLimiter);

        impl Limiter for $name {
            const NAME: &'static str = $title;

            fn with_rate(rate: Rate) -> Self {
                let quota = Quota::new(u64::from(rate.count), rate.period);
                Self(RateLimiter::new(quota).algorithm($algorithm))
            }
        }

        impl TryLimiter for $name {
            #[inline(always)]
            fn try_take(&self) -> impl Answer + '_ {
                self.0.try_acquire()
            }
        }
    )*};
}

by_rule! {
    /// The exact log.
    OurLog: Algorithm::SlidingLog, "tollgate, sliding log";
    /// The window by estimate.
    OurSlidingWindow: Algorithm::SlidingWindow, "tollgate, sliding window";
    /// The fixed window.
    OurFixedWindow: Algorithm::FixedWindow, "tollgate, fixed window";
    /// The bucket.
    OurTokenBucket: Algorithm::TokenBucket, "tollgate, token bucket";
    /// The parts of a period.
    OurSubInterval: Algorithm::SubInterval { parts: 8 }, "tollgate, sub-interval/8";
}
