//! How adaptive limits go wrong: by permits that a change of the limit loses or makes, and by calls that
//! they learn the wrong thing from. Which of the rules themselves run away is what the simulator shows.

use std::time::Duration;

use tollgate::adaptive::{AdaptiveSemaphore, Controller, Gradient, SampleWindow, Target};
use tollgate::{Clock, ManualClock};

use crate::support::Waiter;

const MS: Duration = Duration::from_millis(1);

/// Goes through these limits, in windows of one sample, and then stays.
struct Through(&'static [f64], usize);

impl Controller for Through {
    fn initial(&self) -> Target {
        let (limit, samples) = (self.0[0], 1);
        Target { limit, samples }
    }

    fn update(&mut self, window: &SampleWindow) -> Target {
        self.1 += 1;
        let limit = self.0.get(self.1).copied();
        let limit = limit.unwrap_or(window.limit());
        Target { limit, samples: 1 }
    }
}

fn through(limits: &'static [f64]) -> (AdaptiveSemaphore, ManualClock) {
    let clock = Clock::manual();
    let semaphore = AdaptiveSemaphore::new(Through(limits, 0)).clock(&clock);
    (semaphore, clock)
}

/// A shrink below what is held is forgotten when the limit grows again, or is paid by a waiter that
/// was cancelled: more are admitted than the limit.
///
/// Seen in tower-resilience#363 and #365.
#[test]
fn shrink_below_what_is_held_then_growth() {
    let (semaphore, _) = through(&[4.0, 1.0, 2.0]);
    let mut held: Vec<_> = (0..4).map(|_| semaphore.try_acquire().unwrap()).collect();
    // The only measured one.
    drop(held.swap_remove(0));
    assert_eq!(
        (
            semaphore.snapshot().permits.limit,
            semaphore.snapshot().permits.in_use
        ),
        (1, 3)
    );
    drop(Waiter::parked(semaphore.acquire()));
    let mut waiter = Waiter::parked(semaphore.acquire());
    drop(held.pop());
    assert!(waiter.is_pending());
    drop(held.pop());
    assert!(waiter.is_pending());
    drop(held.pop());
    // The first call that began under the limit of 1 ends its window.
    drop(waiter.granted());
    assert_eq!(semaphore.snapshot().permits.limit, 2);
    let both = (
        semaphore.try_acquire().unwrap(),
        semaphore.try_acquire().unwrap(),
    );
    assert!(semaphore.try_acquire().is_err());
    drop(both);
    assert_eq!(semaphore.snapshot().permits.in_use, 0);
}

/// A grant that was dropped before its caller received it counts as a call of no latency at all.
#[test]
fn grant_that_was_never_received_is_no_sample() {
    let (semaphore, clock) = through(&[1.0, 9.0]);
    let held = semaphore.try_acquire().unwrap();
    let granted = Waiter::parked(semaphore.acquire());
    held.ignore();
    assert_eq!(granted.wakes(), 1);
    clock.advance(MS);
    drop(granted);
    assert_eq!(
        (
            semaphore.snapshot().windows,
            semaphore.snapshot().permits.in_use
        ),
        (0, 0)
    );
}

/// One call that hangs, or a permit that is leaked, keeps the limit from ever changing again.
///
/// A window that waits for each of its calls does that; ours has half as many places more.
#[test]
fn leaked_permit_does_not_freeze_the_limit() {
    struct Doubling;
    impl Controller for Doubling {
        fn initial(&self) -> Target {
            let (limit, samples) = (8.0, 64);
            Target { limit, samples }
        }
        fn update(&mut self, window: &SampleWindow) -> Target {
            let (limit, samples) = (window.limit() * 2.0, 64);
            Target { limit, samples }
        }
    }
    let semaphore = AdaptiveSemaphore::new(Doubling).clock(Clock::manual());
    for limit in [8, 16, 32] {
        assert_eq!(semaphore.snapshot().permits.limit, limit);
        (0..4).for_each(|_| std::mem::forget(semaphore.try_acquire()));
        (0..64).for_each(|_| drop(semaphore.try_acquire()));
    }
}

/// A few calls that stay open for hours, such as event streams, fill a window that does not end
/// without them.
#[test]
fn streams_that_stay_open_do_not_freeze_the_limit() {
    let clock = Clock::manual();
    let semaphore = AdaptiveSemaphore::new(Gradient::default()).clock(&clock);
    let _streams: Vec<_> = (0..13).map(|_| semaphore.try_acquire()).collect();
    (0..96).for_each(|_| semaphore.try_acquire().unwrap().overloaded());
    assert_eq!(semaphore.snapshot().permits.limit, 16);
    // And one, in the smallest window.
    let (semaphore, _) = through(&[5.0, 6.0]);
    let _stream = semaphore.try_acquire();
    drop(semaphore.try_acquire());
    assert_eq!(semaphore.snapshot().permits.limit, 6);
}

/// Refusals and cache hits are fast, so that they look like a backend with nothing to do, and the
/// limit grows while the backend fails.
#[test]
fn fast_failures_are_no_latencies() {
    let (semaphore, _) = through(&[5.0, 6.0]);
    semaphore.try_acquire().unwrap().ignore();
    assert_eq!(semaphore.snapshot().window.samples(), 0);
    semaphore.try_acquire().unwrap().overloaded();
    assert_eq!(semaphore.snapshot().windows, 1);
    let (semaphore, _) = through(&[5.0]);
    semaphore.try_acquire().unwrap().overloaded();
    assert_eq!(semaphore.snapshot().window.min_latency(), None);
}
