//! The adaptive semaphore with two or three threads: samples that race the end of a window, calls
//! that begin meanwhile, and `close`.
//!
//! Every model ends with [`assert_at_rest`]: no permit is held, the limit is one that the controller
//! asked for, and each window that ended had exactly as many samples as were asked for. The
//! controller fails the model if it runs twice at once.

#![cfg(tollgate_loom)]
// The threads of a model are not threads: loom asks for no `Send`.
#![allow(clippy::arc_with_non_send_sync)]

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::future::block_on;
use loom::thread;
use tollgate::adaptive::{AdaptiveSemaphore, Controller, Progress, SampleWindow, Target};
use tollgate::{Clock, ErrorKind};

/// Every interleaving with at most three preemptions, or as many as `LOOM_MAX_PREEMPTIONS` says.
fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(3);
    builder.check(run);
}

/// Alternates between two limits, in windows of so many samples.
struct Alternating {
    limits: [f64; 2],
    samples: u32,
    updates: UnsafeCell<usize>,
}

// Loom checks that no two threads are in it at once.
impl Controller for Alternating {
    fn initial(&self) -> Target {
        self.target(0)
    }

    fn update(&mut self, window: &SampleWindow) -> Target {
        let updates = self.updates.with_mut(|_| {
            thread::yield_now();
            window.limit()
        });
        assert_eq!(window.samples(), self.samples);
        let is_first = updates == self.limits[0];
        self.target(usize::from(is_first))
    }
}

/// The same, and it drops the first four samples, once.
struct Discarding(Alternating, bool);

impl Controller for Discarding {
    fn initial(&self) -> Target {
        self.0.initial()
    }

    fn update(&mut self, window: &SampleWindow) -> Target {
        self.0.update(window)
    }

    fn progress(&mut self, _: &SampleWindow) -> Progress {
        self.0.updates.with_mut(|_| thread::yield_now());
        match std::mem::replace(&mut self.1, true) {
            false => Progress::Discard,
            true => Progress::Continue,
        }
    }
}

impl Alternating {
    fn target(&self, index: usize) -> Target {
        Target {
            limit: self.limits[index],
            samples: self.samples,
        }
    }
}

fn semaphore(limits: [f64; 2], samples: u32) -> Arc<AdaptiveSemaphore> {
    let controller = Alternating {
        limits,
        samples,
        updates: UnsafeCell::new(0),
    };
    Arc::new(AdaptiveSemaphore::new(controller).clock(Clock::manual()))
}

#[track_caller]
fn assert_at_rest(semaphore: &AdaptiveSemaphore, limits: [f64; 2]) {
    let snapshot = semaphore.snapshot();
    let limit = limits[snapshot.windows as usize % 2];
    assert_eq!(snapshot.window.limit(), limit);
    let permits = snapshot.permits;
    assert_eq!(permits.limit, limit as u64);
    assert_eq!((permits.in_use, permits.waiting), (0, 0));
    assert_eq!(snapshot.rejected_targets, 0);
}

/// Two calls end while a third one ends the window: no sample is counted twice, and the two windows
/// do not overlap.
#[test]
fn ends_that_race_the_end_of_a_window_are_counted_once() {
    model(|| {
        let limits = [3.0, 4.0];
        let semaphore = semaphore(limits, 1);
        let held: Vec<_> = (0..2)
            .map(|_| Arc::clone(&semaphore).try_acquire_owned().unwrap())
            .collect();
        let threads: Vec<_> = held
            .into_iter()
            .map(|permit| thread::spawn(move || drop(permit)))
            .collect();
        drop(semaphore.try_acquire().unwrap());
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        let snapshot = semaphore.snapshot();
        assert!((1..=2).contains(&snapshot.windows));
        assert_at_rest(&semaphore, limits);
        // A place that was lost is given back: the next call is measured.
        drop(semaphore.try_acquire().unwrap());
        assert_eq!(semaphore.snapshot().windows, snapshot.windows + 1);
    });
}

/// Calls begin and end in two threads, so windows end in both.
#[test]
fn calls_that_begin_while_a_window_ends_are_of_one_of_the_two() {
    model(|| {
        let limits = [2.0, 3.0];
        let semaphore = semaphore(limits, 2);
        let other = Arc::clone(&semaphore);
        let calls = |semaphore: &AdaptiveSemaphore| {
            for _ in 0..2 {
                drop(semaphore.try_acquire().unwrap());
            }
        };
        let thread = thread::spawn(move || calls(&other));
        calls(&semaphore);
        thread.join().unwrap();
        let snapshot = semaphore.snapshot();
        let samples = 2 * snapshot.windows + u64::from(snapshot.window.samples());
        assert!(samples + snapshot.lost_samples <= 4);
        assert_at_rest(&semaphore, limits);
    });
}

/// A window that ends raises the limit while a caller joins the queue.
#[test]
fn end_that_raises_the_limit_races_a_joiner() {
    model(|| {
        let limits = [1.0, 2.0];
        let semaphore = semaphore(limits, 1);
        let held = Arc::clone(&semaphore).try_acquire_owned().unwrap();
        let thread = thread::spawn(move || drop(held));
        let permit = block_on(Arc::clone(&semaphore).acquire_owned()).unwrap();
        permit.ignore();
        thread.join().unwrap();
        assert_eq!(semaphore.snapshot().windows, 1);
        assert_at_rest(&semaphore, limits);
    });
}

/// An ignored call gives its place back while the window ends: it never opens a window that waits
/// for its controller.
#[test]
fn ignore_races_the_end_of_a_window() {
    model(|| {
        let limits = [2.0, 5.0];
        let semaphore = semaphore(limits, 8);
        // Nine of the twelve places of the window.
        let mut held: Vec<_> = (0..2)
            .map(|_| Arc::clone(&semaphore).try_acquire_owned().unwrap())
            .collect();
        for _ in 0..7 {
            drop(held.pop());
            held.push(Arc::clone(&semaphore).try_acquire_owned().unwrap());
        }
        let ignored = held.pop().unwrap();
        let thread = thread::spawn(move || ignored.ignore());
        drop(held);
        thread.join().unwrap();
        assert_eq!(semaphore.snapshot().windows, 1);
        assert_at_rest(&semaphore, limits);
    });
}

/// Another call ends while the controller drops the samples of the window, or is asked: no sample of the new
/// window is lost by that, and the window has places for all.
#[test]
fn end_races_the_discard_of_samples() {
    model(|| {
        let alternating = Alternating {
            limits: [3.0, 4.0],
            samples: 5,
            updates: UnsafeCell::new(0),
        };
        let controller = Discarding(alternating, false);
        let semaphore = AdaptiveSemaphore::new(controller).clock(Clock::manual());
        let semaphore = Arc::new(semaphore);
        for _ in 0..3 {
            drop(semaphore.try_acquire().unwrap());
        }
        let held = Arc::clone(&semaphore).try_acquire_owned().unwrap();
        let thread = thread::spawn(move || drop(held));
        drop(semaphore.try_acquire().unwrap());
        thread.join().unwrap();
        let snapshot = semaphore.snapshot();
        // The fifth sample is of the new window, unless it came while the controller was asked, or found the
        // lock taken.
        let lost = snapshot.lost_samples as u32;
        assert!(snapshot.window.samples() <= 1 || lost > 0, "{snapshot:?}");
        assert_eq!(snapshot.permits.in_use, 0);
        // More calls end the window: none of its places is lost.
        for _ in 0..9 {
            drop(semaphore.try_acquire().unwrap());
            if semaphore.snapshot().windows == 1 {
                return;
            }
        }
        panic!("the window never ends: {:?}", semaphore.snapshot());
    });
}

/// A call ends, and changes the limit, while the semaphore is closed under a waiter.
#[test]
fn end_races_close() {
    model(|| {
        let limits = [1.0, 2.0];
        let semaphore = semaphore(limits, 1);
        let held = Arc::clone(&semaphore).try_acquire_owned().unwrap();
        let other = Arc::clone(&semaphore);
        let closing = thread::spawn(move || other.close());
        let ending = thread::spawn(move || drop(held));
        match block_on(Arc::clone(&semaphore).acquire_owned()) {
            Ok(permit) => permit.ignore(),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Closed),
        }
        closing.join().unwrap();
        ending.join().unwrap();
        assert!(semaphore.is_closed());
        assert_eq!(semaphore.snapshot().windows, 1);
        assert_at_rest(&semaphore, limits);
    });
}
