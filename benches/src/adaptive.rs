//! Adaptive limits whose limit stays, on ready paths, ours and others'.

use std::future::Future;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use congestion_limiter::limiter::{DefaultLimiter, Limiter, Outcome};
use congestion_limiter::limits::Vegas;
use futures::executor::block_on;
use tollgate::AcquireError;
use tollgate::adaptive::{
    AdaptivePermit, AdaptiveSemaphore, Controller, Feedback, SampleWindow, Target,
};
use tollgate_tower::ThrottleLayer;
use tower::{Layer, Service, ServiceExt};
use tower_resilience_adaptive::{AdaptiveLimiterLayer, Aimd};

use crate::peer::{Answer, Peer, TryPeer};
use crate::ready::LIMIT;
use crate::service::Immediate;

/// A limit that stays, whatever the samples.
struct Fixed(Target);

impl Controller for Fixed {
    fn initial(&self) -> Target {
        self.0
    }

    fn update(&mut self, _: &SampleWindow) -> Target {
        self.0
    }
}

fn fixed(limit: usize, samples: u32) -> AdaptiveSemaphore {
    let limit = limit as f64;
    AdaptiveSemaphore::new(Fixed(Target { limit, samples }))
}

/// An adaptive semaphore, all of whose window's calls have begun.
pub struct Unmeasured(AdaptiveSemaphore);

/// An adaptive semaphore that measures every call, in windows of 64.
pub struct Measured(AdaptiveSemaphore);

macro_rules! peer {
    ($peer:ident, $name:literal, |$permits:ident| $make:expr) => {
        impl TryPeer for $peer {
            const NAME: &'static str = $name;

            fn with_permits($permits: usize) -> Self {
                Self($make)
            }

            #[inline]
            fn try_acquire(&self) -> impl Answer + '_ {
                self.0.try_acquire()
            }
        }

        impl Peer for $peer {
            type Held<'a> = Result<AdaptivePermit<&'a AdaptiveSemaphore>, AcquireError>;

            #[inline]
            fn acquire(&self) -> impl Future<Output = Self::Held<'_>> + Send {
                self.0.acquire()
            }
        }
    };
}

peer!(Unmeasured, "tollgate, not measured", |permits| {
    let semaphore = fixed(permits + 2, 1);
    // The two calls of the window never end.
    std::mem::forget([semaphore.try_acquire(), semaphore.try_acquire()]);
    semaphore
});

peer!(Measured, "tollgate, measured", |permits| fixed(permits, 64));

/// congestion-limiter's Vegas: every call is a sample.
pub fn congestion_limiter() -> impl FnMut(u64) + 'static {
    let limiter = DefaultLimiter::new(Vegas::new(LIMIT, LIMIT..=LIMIT));
    move |times| {
        block_on(async {
            for _ in 0..times {
                let token = black_box(&limiter).try_acquire().await;
                let token = black_box(token).expect("a permit is free");
                limiter.release(token, Some(Outcome::Success)).await;
            }
        });
    }
}

/// Calls a service that answers at once.
fn calls<S: Service<(), Response = ()> + 'static>(mut service: S) -> impl FnMut(u64) + 'static {
    move |times| {
        block_on(async {
            for _ in 0..times {
                let ready = black_box(&mut service).ready().await;
                let ready = ready.ok().expect("it never fails");
                assert!(black_box(ready.call(()).await).is_ok());
            }
        });
    }
}

/// Our layer with a classifier, measured.
pub fn layer() -> impl FnMut(u64) + 'static {
    let limit = Arc::new(fixed(LIMIT, 64));
    let layer = ThrottleLayer::new(limit).classify(|_: Result<&(), _>| Feedback::Success);
    calls(layer.layer(Immediate))
}

/// The layer of tower-resilience-adaptive.
pub fn tower_resilience() -> impl FnMut(u64) + 'static {
    let aimd = Aimd::builder()
        .initial_limit(LIMIT)
        .min_limit(LIMIT)
        .max_limit(LIMIT)
        .latency_threshold(Duration::from_secs(1))
        .build();
    calls(AdaptiveLimiterLayer::new(aimd.expect("it is valid")).layer(Immediate))
}
