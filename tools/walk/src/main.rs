//! Executes one operation, once, inside a function that callgrind observes for `cargo xtask walk`.
//!
//! Each operation is executed once before, so that work done only by the first one is not part of a walk.

use std::convert::Infallible;
use std::future::Ready;
use std::hint::black_box;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::{Request, Response};
use tollgate::fair::FairQueue;
use tollgate::{Clock, Pool, Quota, RateLimiter, Semaphore};
use tollgate_tower::ThrottleLayer;
use tower::{Layer, Service, service_fn};

fn main() {
    let name = std::env::args().nth(1).unwrap_or_default();
    match name.as_str() {
        "semaphore" => semaphore(),
        "rate" => rate(),
        "fair" => fair(),
        "fair-pool" => fair_pool(),
        "fair-rate" => fair_rate(),
        "http" => http(),
        "tokio" => tokio_semaphore(),
        "leaky-bucket" => leaky_bucket(),
        _ => panic!("no operation of the name {name:?}"),
    }
}

/// Runs the walk: it is everything called from here.
#[inline(never)]
fn walk<R>(operation: impl FnOnce() -> R) -> R {
    black_box(operation())
}

fn twice(mut operation: impl FnMut()) {
    operation();
    walk(operation);
}

/// Joins the queue, and is granted the wait when `release` is called.
fn hand_off<F: Future>(wait: F, release: impl FnOnce()) -> F::Output {
    let mut wait = pin!(wait);
    let mut context = Context::from_waker(Waker::noop());
    assert!(wait.as_mut().poll(&mut context).is_pending(), "it waits");
    release();
    finish(wait)
}

fn finish<F: Future>(wait: F) -> F::Output {
    match pin!(wait).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it was released"),
    }
}

fn semaphore() {
    let semaphore = Semaphore::new(1);
    let mut held = semaphore.try_acquire().ok();
    twice(|| held = hand_off(semaphore.acquire(), || drop(held.take())).ok());
}

fn rate() {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::per_second(100)).clock(clock.clone());
    limiter.try_acquire().expect("the burst is 1");
    twice(|| {
        let charge = hand_off(limiter.acquire(), || {
            clock.advance(Duration::from_millis(10));
        });
        charge.expect("it is open");
    });
}

fn fair() {
    let class = FairQueue::new(Arc::new(Semaphore::new(1))).class(7);
    let mut held = class.try_acquire().ok();
    twice(|| held = hand_off(class.acquire(), || drop(held.take())).ok());
}

fn fair_pool() {
    let class = FairQueue::new(Arc::new(Pool::new([()]))).class(7);
    let mut held = class.try_acquire().ok();
    twice(|| held = hand_off(class.acquire(), || drop(held.take())).ok());
}

fn fair_rate() {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::per_second(100)).clock(clock.clone());
    let class = FairQueue::new(Arc::new(limiter)).class(7);
    drop(class.try_acquire().expect("the burst is 1"));
    twice(|| {
        let charge = hand_off(class.acquire(), || {
            clock.advance(Duration::from_millis(10));
        });
        drop(charge.expect("it is open"));
    });
}

fn http() {
    let service = service_fn(
        |_: Request<()>| -> Ready<Result<Response<String>, Infallible>> {
            std::future::ready(Ok(Response::new(String::new())))
        },
    );
    let mut service = ThrottleLayer::new(Arc::new(Semaphore::new(1))).layer(service);
    twice(|| {
        let ready = service.poll_ready(&mut Context::from_waker(Waker::noop()));
        assert!(ready.is_ready(), "the service always is");
        let answer = finish(service.call(Request::new(())));
        drop(answer.expect("the service never fails"));
    });
}

fn tokio_semaphore() {
    let semaphore = tokio::sync::Semaphore::new(1);
    let mut held = semaphore.try_acquire().ok();
    twice(|| held = hand_off(semaphore.acquire(), || drop(held.take())).ok());
}

fn leaky_bucket() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime needs nothing");
    let interval = Duration::from_millis(10);
    runtime.block_on(async {
        let limiter = leaky_bucket::RateLimiter::builder()
            .initial(0)
            .max(1)
            .interval(interval)
            .build();
        limiter.acquire_one().await;
        let mut wait = pin!(walk(|| limiter.acquire_one()));
        let mut context = Context::from_waker(Waker::noop());
        assert!(walk(|| wait.as_mut().poll(&mut context)).is_pending());
        tokio::time::advance(interval).await;
        walk(|| finish(wait));
    });
}
