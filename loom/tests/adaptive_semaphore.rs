//! Models the adaptive semaphore with two or three threads: samples that race the end of a window, calls
//! that begin meanwhile, and `close`.
//!
//! Every model ends with [`assert_at_rest`]: no permit is held, the limit is one that the controller
//! requested, and each window that ended had exactly the requested number of samples. The
//! controller fails the model if it runs twice at once.

#![cfg(tollgate_loom)]

use std::ops::RangeInclusive;
use std::sync::Arc;

use tollgate::{Clock, ErrorKind};
use tollgate_adaptive::{AdaptivePermit as Permit, AdaptiveSemaphore};
use tollgate_adaptive::{Controller, SampleWindow, Target};
use tollgate_loom::*;

/// A controller that alternates between two limits, in windows of `samples` samples.
struct Alternating {
    limits: [f64; 2],
    samples: u32,
    updating: Guarded,
}

// Loom checks that no two threads are in the controller at once.
impl Controller for Alternating {
    fn initial(&self) -> Target {
        self.target(0)
    }

    fn update(&mut self, window: &SampleWindow) -> Target {
        self.updating.touch();
        yield_now();
        assert_eq!(window.samples(), self.samples);
        let is_first = window.limit() == self.limits[0];
        self.target(usize::from(is_first))
    }
}

impl Alternating {
    fn new(limits: [f64; 2], samples: u32) -> Self {
        let updating = Guarded::default();
        Self {
            limits,
            samples,
            updating,
        }
    }

    fn target(&self, index: usize) -> Target {
        Target {
            limit: self.limits[index],
            samples: self.samples,
        }
    }
}

fn by(controller: impl Controller + 'static) -> Arc<AdaptiveSemaphore> {
    Arc::new(AdaptiveSemaphore::new(controller).clock(Clock::manual()))
}

fn semaphore(limits: [f64; 2], samples: u32) -> Arc<AdaptiveSemaphore> {
    by(Alternating::new(limits, samples))
}

/// Makes `count` calls, one after the other.
fn calls(semaphore: &AdaptiveSemaphore, count: usize) {
    for _ in 0..count {
        drop(semaphore.try_acquire().unwrap());
    }
}

fn begun(semaphore: &Arc<AdaptiveSemaphore>) -> Permit<Arc<AdaptiveSemaphore>> {
    Arc::clone(semaphore).try_acquire_owned().unwrap()
}

/// Asserts that the number of ended windows is in this range.
#[track_caller]
fn assert_at_rest(semaphore: &AdaptiveSemaphore, limits: [f64; 2], windows: RangeInclusive<u64>) {
    let snapshot = semaphore.snapshot();
    assert!(windows.contains(&snapshot.windows));
    let limit = limits[snapshot.windows as usize % 2];
    assert_eq!(snapshot.window.limit(), limit);
    let permits = snapshot.permits;
    assert_eq!(permits.limit, limit as u64);
    assert_eq!((permits.in_use, permits.waiting), (0, 0));
    assert_eq!(snapshot.rejected_targets, 0);
}

// Two calls end while a third one ends the window: no sample is counted twice, and the two windows
// do not overlap.
model!(ends_that_race_the_end_of_a_window_are_counted_once, || {
    let limits = [3.0, 4.0];
    let semaphore = semaphore(limits, 1);
    let held = [(); 2].map(|()| begun(&semaphore));
    let threads = held.map(dropping);
    calls(&semaphore, 1);
    join_all(threads);
    let snapshot = semaphore.snapshot();
    assert_at_rest(&semaphore, limits, 0..=2);
    // A lost place is given back: the next call is measured.
    calls(&semaphore, 1);
    assert_eq!(semaphore.snapshot().windows, snapshot.windows + 1);
});

// Calls begin and end in two threads, so windows end in both.
model!(calls_that_begin_as_a_window_ends_are_of_one_window, || {
    let limits = [2.0, 3.0];
    let semaphore = semaphore(limits, 2);
    let thread = with(&semaphore, |semaphore| calls(semaphore, 2));
    calls(&semaphore, 2);
    join_all([thread]);
    let snapshot = semaphore.snapshot();
    let samples = 2 * snapshot.windows + u64::from(snapshot.window.samples());
    assert!(samples + snapshot.lost_samples <= 4);
    assert_at_rest(&semaphore, limits, 0..=2);
});

// A window that ends raises the limit while a caller joins the queue.
model!(end_that_raises_the_limit_races_a_joiner, || {
    let limits = [1.0, 2.0];
    let semaphore = semaphore(limits, 1);
    let thread = dropping(begun(&semaphore));
    let permit = block_on(Arc::clone(&semaphore).acquire_owned()).unwrap();
    permit.ignore();
    join_all([thread]);
    assert_at_rest(&semaphore, limits, 1..=1);
});

// An ignored call gives its place back while another call ends: exactly one further call is measured.
model!(ignore_races_the_end_of_another_call, || {
    let limits = [2.0, 5.0];
    let semaphore = semaphore(limits, 3);
    let held = begun(&semaphore);
    calls(&semaphore, 1);
    let ignored = begun(&semaphore);
    let thread = spawn(move || ignored.ignore());
    drop(held);
    join_all([thread]);
    assert_at_rest(&semaphore, limits, 0..=0);
    calls(&semaphore, 1);
    assert_at_rest(&semaphore, limits, 1..=1);
});

// A call that watches ends the window, in place of one that hangs, while that one ends.
model!(watcher_races_the_end_of_the_last_call, || {
    let limits = [2.0, 5.0];
    let clock = Clock::manual();
    let alternating = Alternating::new(limits, 2);
    let semaphore = Arc::new(AdaptiveSemaphore::new(alternating).clock(&clock));
    let held = begun(&semaphore);
    // Its end sets the deadline.
    calls(&semaphore, 1);
    clock.advance(std::time::Duration::from_secs(11));
    let thread = dropping(held);
    calls(&semaphore, 1);
    join_all([thread]);
    assert_at_rest(&semaphore, limits, 0..=1);
    // Only a lost sample keeps the window open, until another call has its place.
    let snapshot = semaphore.snapshot();
    assert!(snapshot.windows == 1 || snapshot.lost_samples == 1);
    calls(&semaphore, 1);
    assert!(semaphore.snapshot().windows > 0);
});

// A call ends, and changes the limit, while the semaphore is closed under a waiter.
model!(end_races_close, || {
    let limits = [1.0, 2.0];
    let semaphore = semaphore(limits, 1);
    let ending = dropping(begun(&semaphore));
    let closing = with(&semaphore, |semaphore| semaphore.close());
    match block_on(Arc::clone(&semaphore).acquire_owned()) {
        Ok(permit) => permit.ignore(),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Closed),
    }
    join_all([closing, ending]);
    assert!(semaphore.is_closed());
    assert_at_rest(&semaphore, limits, 1..=1);
});
