//! Adaptive limits with a constant limit, on ready paths, ours and others'; and observed limits.

use std::future::Future;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use congestion_limiter::limiter::{DefaultLimiter, Limiter, Outcome};
use congestion_limiter::limits::Vegas;
use futures::executor::block_on;
use tollgate::throttle::Feedback;
use tollgate::{Quota, RateLimiter, Semaphore};
use tollgate_adaptive::{AdaptiveRate, AdaptiveSemaphore, Controller, SampleWindow, Target};
use tollgate_observe::{Holders, Observed, Observer};
use tollgate_tower::ThrottleLayer;
use tower::{Layer, Service, ServiceExt};
use tower_resilience_adaptive::{AdaptiveLimiterLayer, Aimd};

use crate::harness::{Row, Shared, alone, awaited, together};
use crate::peer::{Answer, Immediate, Ours, Peer, TryPeer, peers};
use crate::semaphore::{LIMIT, acquire, try_acquire};
use crate::throttles::leak;
use crate::{repeat, repeat_async, rows};

/// Repeats the operation, with a new limiter whenever the burst of the last one is used up.
macro_rules! renewed {
    ($make:ident, |$it:ident| $once:expr) => {
        || {
            |mut times: u64| {
                while times > 0 {
                    let now = times.min(BURST);
                    let limiter = $make();
                    block_on(async {
                        for _ in 0..now {
                            let $it = black_box(&limiter);
                            $once;
                        }
                    });
                    times -= now;
                }
            }
        }
    };
}

/// Limits that measure or observe calls, beside plain limits and others' adaptive limits.
pub fn rows() -> Vec<Row> {
    rows! {
        alone "adaptive: try + drop" [try_acquire: Unmeasured, Ours: 1.25, Measured];
        alone "adaptive: acquire ready + drop" [acquire: Unmeasured, Ours: 1.25, Measured];
        alone "adaptive, measured: acquire ready + end" [acquire: Measured]
            {"congestion-limiter" => congestion_limiter};
        alone "adaptive, measured: a call through the layer"
            {"ThrottleLayer" => layer, "tower-resilience-adaptive" => tower_resilience};
        alone "adaptive rate: decision allowed + drop"
            {"AdaptiveRate" => renewed!(adaptive_rate, |rate| assert!(black_box(rate.try_acquire()).is_ok())),
             "RateLimiter" => renewed!(rate_limiter, |rate| assert!(black_box(rate.try_acquire()).is_ok()))};
        alone "adaptive rate: acquire ready + drop"
            {"AdaptiveRate" => renewed!(adaptive_rate, |rate| drop(black_box(rate.acquire().await))),
             "RateLimiter" => renewed!(rate_limiter, |rate| drop(black_box(rate.acquire().await)))};
        alone "observed by nobody: try + drop"
            {"Observed, ()" => || observed_try(()), "tollgate": 1.15 => try_acquire::<Ours>};
        alone "observed by nobody: acquire ready + drop"
            {"Observed, ()" => || observed(()), "tollgate": 1.15 => acquire::<Ours>};
        alone "observed by Holders: try + drop"
            {"Observed, &Holders" => || observed_try(holders()), "tollgate" => try_acquire::<Ours>};
        alone "observed by Holders: acquire ready + drop"
            {"Observed, &Holders" => || observed(holders()), "tollgate" => acquire::<Ours>,
             "Holders" => || observed(holders().clone())};
        together "adaptive, two threads: try" [try_acquire: Unmeasured, Ours: 1.3];
        together "adaptive, two threads: acquire" [acquire: Unmeasured, Ours: 1.3, Measured];
    }
}

/// A controller whose limit is constant, whatever the samples.
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

/// An adaptive semaphore whose current window is full: all of its calls have begun.
pub struct Unmeasured(AdaptiveSemaphore);

/// An adaptive semaphore that measures every call, in windows of 64.
pub struct Measured(AdaptiveSemaphore);

peers! {
    "tollgate, not measured", Unmeasured {
        new(permits) {
            let semaphore = fixed(permits + 2, 1);
            // The two calls of the window never end.
            std::mem::forget([semaphore.try_acquire(), semaphore.try_acquire()]);
            Self(semaphore)
        };
        try(it) it.0.try_acquire();
        acquire(it) it.0.acquire();
    }
    "tollgate, measured", Measured {
        new(permits) Self(fixed(permits, 64));
        try(it) it.0.try_acquire();
        acquire(it) it.0.acquire();
    }
}

/// congestion-limiter's Vegas: every call is a sample.
fn congestion_limiter() -> impl FnMut(u64) + 'static {
    let limiter = DefaultLimiter::new(Vegas::new(LIMIT, LIMIT..=LIMIT));
    awaited(async move || {
        let token = black_box(&limiter).try_acquire().await;
        let token = black_box(token).expect("a permit is free");
        limiter.release(token, Some(Outcome::Success)).await;
    })
}

/// Calls a service that answers at once.
fn calls<S: Service<(), Response = ()> + 'static>(mut service: S) -> impl FnMut(u64) + 'static {
    awaited(async move || {
        let ready = black_box(&mut service).ready().await;
        let ready = ready.ok().expect("it never fails");
        assert!(black_box(ready.call(()).await).is_ok());
    })
}

/// Our layer with a classifier, measured.
fn layer() -> impl FnMut(u64) + 'static {
    let limit = Arc::new(fixed(LIMIT, 64));
    let layer = ThrottleLayer::new(tollgate_adaptive::Shared(limit))
        .classify(|_: Result<&(), _>| Feedback::Success);
    calls(layer.layer(Immediate))
}

/// The layer of tower-resilience-adaptive.
fn tower_resilience() -> impl FnMut(u64) + 'static {
    let aimd = Aimd::builder()
        .initial_limit(LIMIT)
        .min_limit(LIMIT)
        .max_limit(LIMIT)
        .latency_threshold(Duration::from_secs(1))
        .build();
    calls(AdaptiveLimiterLayer::new(aimd.expect("it is valid")).layer(Immediate))
}

/// The burst of an adaptive rate, and of the plain rate limiter that it is compared with.
///
/// Neither is exhausted: both are replaced after as many calls. It is the largest burst of an adaptive rate.
const BURST: u64 = 250_000;

fn adaptive_rate() -> AdaptiveRate {
    AdaptiveRate::new().limits(1e6..=1e6).burst(BURST)
}

fn rate_limiter() -> RateLimiter {
    RateLimiter::new(Quota::per_second(1_000_000).burst(BURST))
}

/// Measures the cost of an observed semaphore, tried.
fn observed_try<O: Observer + Clone + Send + Sync + 'static>(observer: O) -> Shared {
    let observed = Observed::new(leak(Semaphore::new(LIMIT)), observer);
    repeat!(observed, |observed| {
        let permit = observed.try_acquire();
        assert!(black_box(permit).is_ok(), "a permit is free");
    })
}

/// Measures its cost, awaited.
fn observed<O: Observer + Clone + Send + Sync + 'static>(observer: O) -> Shared {
    let observed = Observed::new(leak(Semaphore::new(LIMIT)), observer);
    repeat_async!(observed, |observed| drop(black_box(
        observed.acquire().await
    )))
}

/// A list of holders that lives as long as the program, so that a handle is a reference.
fn holders() -> &'static Holders {
    leak(Holders::new("bench"))
}
