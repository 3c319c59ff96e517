//! Runtimes that have no timer, that are blocked by the wait, or that go away.

use std::task::{Context, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tollgate::{ErrorKind, Semaphore, Waiting};

use crate::support::{Waiter, assert_at_rest, kind};

const SHORT: Duration = Duration::from_millis(3);
const LONG: Duration = Duration::from_secs(3600);

fn with_timer() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

fn without_timer() -> Runtime {
    Builder::new_current_thread().build().unwrap()
}

#[test]
fn what_is_ready_needs_no_timer() {
    let semaphore = Semaphore::new(1);
    without_timer().block_on(async {
        drop(semaphore.acquire().timeout(SHORT).await.unwrap());
        semaphore.wait_idle().timeout(SHORT).await.unwrap();
        let refused = semaphore.acquire_many(2).timeout(SHORT).await;
        assert_eq!(kind(refused), ErrorKind::ExceedsCapacity);
        let _held = semaphore.try_acquire().unwrap();
        let refused = semaphore.acquire().timeout(Duration::ZERO).await;
        assert_eq!(kind(refused), ErrorKind::TimedOut);
    });
    assert_at_rest(&semaphore, 1);
}

/// A thread that has entered a runtime without driving it may block.
#[test]
fn a_blocking_wait_inside_a_runtime_uses_a_timer_that_it_does_not_block() {
    let semaphore = Semaphore::new(1);
    let _held = semaphore.try_acquire().unwrap();
    for runtime in [with_timer(), without_timer()] {
        let _inside = runtime.enter();
        let result = semaphore.acquire().timeout(SHORT).wait();
        assert_eq!(kind(result), ErrorKind::TimedOut);
        let result = semaphore.wait_idle().timeout(SHORT).timeout(LONG).wait();
        assert_eq!(kind(result), ErrorKind::TimedOut);
        let token = tokio_util::sync::CancellationToken::new();
        let result = semaphore.acquire().cancel_on(&token).timeout(SHORT).wait();
        assert_eq!(kind(result), ErrorKind::TimedOut);
        let result = semaphore.acquire().timeout(SHORT).cancel_on(&token).wait();
        assert_eq!(kind(result), ErrorKind::TimedOut);
    }
}

#[test]
fn a_wait_may_move_from_one_live_runtime_to_another() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let (first, second) = (with_timer(), with_timer());
    let mut waiter = {
        let _inside = first.enter();
        Waiter::parked(semaphore.acquire().timeout(LONG))
    };
    second.block_on(async {
        assert!(waiter.is_pending());
        drop(held);
        drop(waiter.granted());
    });
    assert_at_rest(&semaphore, 1);
}

/// A runtime that no thread drives has a timer that does not advance.
#[test]
fn a_wait_that_began_in_a_runtime_times_out_when_its_thread_blocks() {
    let runtime = with_timer();
    let _inside = runtime.enter();
    let semaphore = Semaphore::new(0);
    let mut waiting = Box::pin(semaphore.acquire().timeout(SHORT));
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    let result = Waiting::new(waiting).timeout(LONG).wait();
    assert_eq!(kind(result), ErrorKind::TimedOut);
    assert_at_rest(&semaphore, 0);
}
