//! [`Sampler`]: which calls are measured, where their samples go, and who runs the controller.
//!
//! 1. The word has the number of the window and how many more calls may begin in it. A call is
//!    measured exactly if it takes one of these places, so once a window has begun all its calls, a
//!    call costs one relaxed load.
//! 2. A sample counts only in the window in which its call began. A window begins after the limit
//!    of the one before has been replaced, so all its calls began under its own limit.
//! 3. A window has half as many places more as it needs samples, at least one, and ends with its
//!    `samples`-th sample, so that calls that hang do not keep the limit from changing. A place
//!    whose call gives no sample, because it was ignored or found the lock taken, goes to another
//!    call.
//! 4. The thread that adds the last sample takes the controller out of the state and runs it
//!    without the lock, because a controller is foreign code. Until the controller is back, the
//!    window has no places, so no other thread can end it.
//!
//! The lock is a leaf. A sample only tries it: a statistic may lose samples, and the owner of a
//! permit never waits. The number of a window wraps after four billion windows.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::controller::{Controller, SampleWindow, Target};
use crate::sync::{AtomicU64, Mutex, Ordering, lock};

/// A place in the window with this number, taken by a call that is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place(u32);

pub(super) struct Sampler {
    /// The number of the window in the upper half, its free places in the lower half.
    word: AtomicU64,
    /// The samples that found the lock taken.
    lost: AtomicU64,
    state: Mutex<State>,
}

/// The range of limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) min: usize,
    pub(super) max: usize,
}

impl Range {
    fn clamp(self, limit: f64) -> f64 {
        limit.clamp(self.min as f64, self.max as f64)
    }

    /// Returns the number of permits for a limit.
    fn permits(self, limit: f64) -> usize {
        (limit.round() as usize).clamp(self.min, self.max)
    }
}

struct State {
    number: u32,
    window: SampleWindow,
    /// The number of samples with which the window ends.
    samples: u32,
    /// The limit that the controller asked for, which may be out of the range.
    wanted: f64,
    /// `None` while it runs.
    controller: Option<Box<dyn Controller>>,
    range: Range,
    counts: Counts,
}

/// What has happened to the windows so far.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) windows: u64,
    pub(super) rejected_targets: u64,
    pub(super) lost_samples: u64,
}

impl Sampler {
    /// Creates a sampler.
    ///
    /// # Panics
    ///
    /// Panics if the initial limit of the controller is not a finite number above 0.
    #[track_caller]
    pub(super) fn new(controller: Box<dyn Controller>, range: Range) -> Self {
        let Target { limit, samples } = controller.initial();
        assert!(
            is_limit(limit),
            "the initial limit of a controller must be a finite number above 0, and this one is {limit}"
        );
        let samples = samples.max(1);
        Self {
            word: AtomicU64::new(word(0, samples)),
            lost: AtomicU64::new(0),
            state: Mutex::new(State {
                number: 0,
                window: SampleWindow::new(range.clamp(limit)),
                samples,
                wanted: limit,
                controller: Some(controller),
                range,
                counts: Counts::default(),
            }),
        }
    }

    /// Changes the range of limits before the first call.
    pub(super) fn set_range(&self, range: Range) {
        let mut state = lock(&self.state);
        state.range = range;
        state.window = SampleWindow::new(range.clamp(state.wanted));
    }

    /// Returns whether a call was measured, or is.
    pub(super) fn is_used(&self) -> bool {
        let state = lock(&self.state);
        state.counts.windows > 0 || self.word.load(Ordering::Relaxed) != word(0, state.samples)
    }

    /// Returns the limit in force, as a number of permits.
    pub(super) fn permits(&self) -> usize {
        let state = lock(&self.state);
        state.range.permits(state.window.limit())
    }

    /// Takes a place for a call that begins, if it is to be measured.
    #[inline]
    pub(super) fn begin(&self) -> Option<Place> {
        match self.word.load(Ordering::Relaxed) as u32 {
            0 => None,
            _ => self.take_place(),
        }
    }

    #[inline(never)]
    fn take_place(&self) -> Option<Place> {
        let take = |seen: u64| (seen as u32 != 0).then(|| seen - 1);
        let taken = self.change(take)?;
        Some(Place((taken >> 32) as u32))
    }

    /// Gives the place of a call without a sample to another call, unless its window has ended.
    pub(super) fn ignore(&self, place: Place) {
        let give = |seen: u64| ((seen >> 32) as u32 == place.0).then(|| seen + 1);
        self.change(give);
    }

    /// Changes the word. All accesses are relaxed: the word publishes nothing, samples go through
    /// the lock.
    fn change(&self, change: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        let changed = self
            .word
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
        changed.ok()
    }

    /// Replaces the word. This is a read-modify-write like all changes of the word, so that they have one
    /// order, in the memory model and in loom's.
    fn replace(&self, word: u64) {
        self.change(|_| Some(word));
    }

    /// Adds the sample of a call that has ended: its latency, or `None` if it was overloaded, and
    /// how many calls were in flight when it began. If the sample is the last of its window, this
    /// runs the controller and calls `set_limit` with the limit for the next window. Two such calls
    /// never overlap.
    pub(super) fn end(
        &self,
        place: Place,
        latency: Option<Duration>,
        in_flight: usize,
        set_limit: impl FnOnce(usize),
    ) {
        // No code that can panic runs under the lock, so it is never poisoned.
        let Ok(mut state) = self.state.try_lock() else {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return self.ignore(place);
        };
        if state.number != place.0 {
            return;
        }
        match latency {
            Some(latency) => state.window.record(latency, in_flight),
            None => state.window.record_overloaded(in_flight),
        }
        if state.window.samples() < state.samples {
            return;
        }
        // It is there while the window has places.
        let Some(controller) = state.controller.take() else {
            return;
        };
        // The window ends: samples of its other calls come too late, and no call takes a place.
        state.number = state.number.wrapping_add(1);
        self.replace(u64::from(state.number) << 32);
        let window = state.window;
        drop(state);
        self.update(controller, &window, set_limit);
    }

    /// Runs the controller and opens the next window.
    fn update(
        &self,
        mut controller: Box<dyn Controller>,
        window: &SampleWindow,
        set_limit: impl FnOnce(usize),
    ) {
        let run = AssertUnwindSafe(|| controller.update(window));
        // The destructor of a panic's payload is foreign code too.
        let target = catch_unwind(run).map_err(std::mem::forget).ok();
        let target = target.filter(|target| is_limit(target.limit));

        let mut state = lock(&self.state);
        let (limit, samples) = match target {
            Some(target) => {
                state.wanted = target.limit;
                (state.range.clamp(target.limit), target.samples.max(1))
            }
            None => {
                state.counts.rejected_targets += 1;
                (window.limit(), state.samples)
            }
        };
        let (number, permits) = (state.number, state.range.permits(limit));
        drop(state);
        // A higher limit wakes waiters, and wakers are foreign code.
        set_limit(permits);

        let mut state = lock(&self.state);
        state.window = SampleWindow::new(limit);
        state.samples = samples;
        state.controller = Some(controller);
        state.counts.windows += 1;
        self.replace(word(number, samples));
    }

    /// Returns the window so far, and the counts.
    pub(super) fn counts(&self) -> (SampleWindow, Counts) {
        let state = lock(&self.state);
        let lost_samples = self.lost.load(Ordering::Relaxed);
        let counts = Counts {
            lost_samples,
            ..state.counts
        };
        (state.window, counts)
    }
}

/// Returns the word of a window of so many samples.
fn word(number: u32, samples: u32) -> u64 {
    let places = samples.saturating_add((samples / 2).max(1));
    u64::from(number) << 32 | u64::from(places)
}

fn is_limit(limit: f64) -> bool {
    limit.is_finite() && limit > 0.0
}
