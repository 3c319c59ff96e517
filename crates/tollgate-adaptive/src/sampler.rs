//! [`Sampler`]: chooses the calls of a semaphore that are measured, collects their samples, and
//! runs the controller.
//!
//! 1. The word has the number of the window and the number of calls that may still begin in it. A
//!    call is measured if and only if it takes one of these places, so once all calls of a window
//!    have begun, another call costs one relaxed load.
//! 2. A sample counts only in the window in which its call began. A window begins after the limit
//!    of the one before has been replaced, so all its calls began under its own limit.
//! 3. A window has half as many places again as it needs samples, at least one more, and ends with
//!    its `samples`-th sample, so that calls that hang do not keep the limit from changing. A place
//!    whose call gives no sample, because it was ignored or found the lock taken, goes to another
//!    call.
//! 4. The thread that adds the last sample takes the controller out of the state and runs it
//!    without the lock, because a controller is foreign code. Until the controller is back, the
//!    window has no places, so no other thread can end it.
//! 5. After every fourth sample the controller decides, also without the lock, whether the window
//!    continues, ends or begins again. If the window gets all its samples in the meantime, it takes
//!    no more, and ends as soon as the controller is back.
//!
//! The lock is a leaf. A sample only tries it: a statistic may lose samples, and the owner of a
//! permit never waits. The number of a window wraps after four billion windows.

use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tollgate::throttle::Feedback;
use tollgate::time::Tick;
use tollgate::{Clock, Semaphore, Snapshot};

use super::controller::{Controller, Explanation, Progress, SampleWindow, Target};
use crate::sync::{AtomicU64, Mutex, Ordering, lock};

/// A measured call. An `Option` of it is returned in two registers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    /// The upper half has the number of the window in which it has a place, the lower half the
    /// number of calls in flight.
    place: NonZeroU64,
    began: Tick,
}

impl Measured {
    fn window(self) -> u32 {
        (self.place.get() >> 32) as u32
    }

    fn in_flight(self) -> usize {
        self.place.get() as u32 as usize
    }
}

pub(super) struct Sampler {
    /// The upper half has the number of the window, the lower half its free places.
    word: AtomicU64,
    /// The samples that found the lock taken.
    lost: AtomicU64,
    state: Mutex<State>,
    /// The initial limit of the controller, which may be out of the range.
    initial: f64,
    /// The range of limits.
    limits: (usize, usize),
    pub(super) clock: Clock,
}

struct State {
    window: SampleWindow,
    /// The number of samples with which the window ends.
    samples: u32,
    /// `None` while it runs.
    controller: Option<Box<dyn Controller>>,
    /// That of the last target.
    explanation: Explanation,
    windows: u64,
    rejected_targets: u64,
}

/// The number of samples between two questions to the controller whether the window ends.
const ASKED_AFTER: u32 = 4;

impl State {
    /// Returns whether the window has all its samples.
    fn is_full(&self) -> bool {
        self.window.samples() >= self.samples
    }
}

impl Sampler {
    /// Creates a sampler whose [limits](Self::set_limits) are set next.
    ///
    /// # Panics
    ///
    /// Panics if the initial limit of the controller is not a finite number above 0.
    #[track_caller]
    pub(super) fn new(controller: Box<dyn Controller>) -> Self {
        let Target { limit, samples } = controller.initial();
        assert!(
            is_limit(limit),
            "the initial limit of a controller must be a finite number above 0, but it is {limit}"
        );
        let samples = samples.max(1);
        let state = State {
            window: SampleWindow::new(limit),
            samples,
            controller: Some(controller),
            explanation: Explanation::default(),
            windows: 0,
            rejected_targets: 0,
        };
        Self {
            word: AtomicU64::new(word(0, samples)),
            lost: AtomicU64::new(0),
            state: Mutex::new(state),
            initial: limit,
            limits: (1, 1),
            clock: Clock::default(),
        }
    }

    /// Sets the range of limits before the first call. Returns the number of permits to begin with.
    pub(super) fn set_limits(&mut self, limits: (usize, usize)) -> usize {
        self.limits = limits;
        let limit = self.clamp(self.initial);
        lock(&self.state).window = SampleWindow::new(limit);
        self.permits(limit)
    }

    /// Returns whether a call is measured, or a sample was counted.
    pub(super) fn is_used(&self) -> bool {
        let samples = lock(&self.state).samples;
        self.word.load(Ordering::Relaxed) != word(0, samples)
    }

    fn clamp(&self, limit: f64) -> f64 {
        limit.clamp(self.limits.0 as f64, self.limits.1 as f64)
    }

    /// Returns the number of permits for a limit.
    fn permits(&self, limit: f64) -> usize {
        (limit.round() as usize).clamp(self.limits.0, self.limits.1)
    }

    /// Takes a place for a call that begins, if it is to be measured.
    #[inline]
    pub(super) fn begin(&self, semaphore: &Semaphore) -> Option<Measured> {
        match self.word.load(Ordering::Relaxed) as u32 {
            0 => None,
            _ => self.take_place(semaphore),
        }
    }

    #[inline(never)]
    fn take_place(&self, semaphore: &Semaphore) -> Option<Measured> {
        let taken = self.change(|seen| (seen as u32 != 0).then(|| seen - 1))?;
        // The call itself is one.
        let in_flight = u32::try_from(semaphore.in_use()).unwrap_or(u32::MAX).max(1);
        let place = NonZeroU64::new(taken >> 32 << 32 | u64::from(in_flight))?;
        let began = self.clock.now();
        Some(Measured { place, began })
    }

    /// Ends a call. If its sample is the last of the window, this runs the controller, and sets the limit of
    /// the semaphore for the next window. Two such changes never overlap.
    pub(super) fn end(&self, call: Measured, feedback: Feedback, semaphore: &Semaphore) {
        let latency = match feedback {
            Feedback::Success => Some(self.clock.now().saturating_since(call.began)),
            Feedback::Overloaded { .. } => None,
            Feedback::Ignored => return self.give_place(call.window()),
        };
        // No code that can panic runs under the lock, so it is never poisoned.
        let Ok(mut state) = self.state.try_lock() else {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return self.give_place(call.window());
        };
        let number = (self.word.load(Ordering::Relaxed) >> 32) as u32;
        if number != call.window() || state.is_full() {
            return;
        }
        match latency {
            Some(latency) => state.window.record(latency, call.in_flight()),
            None => state.window.record_overloaded(call.in_flight()),
        }
        if !state.is_full() && !state.window.samples().is_multiple_of(ASKED_AFTER) {
            return;
        }
        // Another thread may be running it.
        let Some(mut controller) = state.controller.take() else {
            return;
        };
        state.window.end_at(self.clock.wall());
        if !state.is_full() {
            let window = state.window;
            drop(state);
            let progress = contain_panic(|| controller.progress(&window));
            state = lock(&self.state);
            if progress == Some(Progress::Discard) {
                let discarded = state.window.samples();
                state.window = SampleWindow::new(window.limit());
                self.change(|seen| Some(seen + u64::from(discarded)));
            }
            if progress != Some(Progress::End) && !state.is_full() {
                state.controller = Some(controller);
                return;
            }
        }
        // The window ends: samples of its other calls arrive too late, and no call takes a place.
        let next = number.wrapping_add(1);
        self.word.swap(u64::from(next) << 32, Ordering::Relaxed);
        let window = state.window;
        drop(state);
        self.update(controller, &window, next, semaphore);
    }

    /// Gives the place of a call without a sample to another call, unless its window has ended.
    fn give_place(&self, window: u32) {
        self.change(|seen| ((seen >> 32) as u32 == window).then(|| seen + 1));
    }

    /// Changes the word. All accesses are relaxed: the word publishes nothing, and samples go
    /// through the lock. All changes are read-modify-writes, so that they have one order, both in
    /// the memory model and in loom's.
    fn change(&self, change: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        let relaxed = Ordering::Relaxed;
        self.word.fetch_update(relaxed, relaxed, change).ok()
    }

    /// Runs the controller and opens the next window.
    fn update(
        &self,
        mut controller: Box<dyn Controller>,
        window: &SampleWindow,
        next: u32,
        semaphore: &Semaphore,
    ) {
        let decided = contain_panic(|| (controller.update(window), controller.explain()));
        let decided = decided.filter(|(target, _)| is_limit(target.limit));
        let limit = decided.map_or(window.limit(), |(target, _)| self.clamp(target.limit));
        // A higher limit wakes waiters, and wakers are foreign code.
        semaphore.set_permits(self.permits(limit));

        let mut state = lock(&self.state);
        match decided {
            Some((target, explanation)) => {
                state.samples = target.samples.max(1);
                state.explanation = explanation;
            }
            None => state.rejected_targets += 1,
        }
        state.window = SampleWindow::new(limit);
        state.controller = Some(controller);
        state.windows += 1;
        self.word.swap(word(next, state.samples), Ordering::Relaxed);
    }

    /// Returns the window so far, with the state of the permits.
    pub(super) fn snapshot(&self, permits: Snapshot) -> AdaptiveSnapshot {
        let state = lock(&self.state);
        AdaptiveSnapshot {
            permits,
            window: state.window,
            explanation: state.explanation,
            windows: state.windows,
            lost_samples: self.lost.load(Ordering::Relaxed),
            rejected_targets: state.rejected_targets,
        }
    }
}

/// Returns the word of a window with this number of samples.
fn word(number: u32, samples: u32) -> u64 {
    let places = samples.saturating_add((samples / 2).max(1));
    u64::from(number) << 32 | u64::from(places)
}

/// Calls a controller, and catches its panic. Returns `None` after a panic.
fn contain_panic<R>(controller: impl FnOnce() -> R) -> Option<R> {
    let called = catch_unwind(AssertUnwindSafe(controller));
    // The payload is not dropped: its destructor is foreign code too, and could panic again.
    called.map_err(std::mem::forget).ok()
}

fn is_limit(limit: f64) -> bool {
    limit.is_finite() && limit > 0.0
}

/// The state of an [`AdaptiveSemaphore`](super::AdaptiveSemaphore).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct AdaptiveSnapshot {
    /// Its permits and waiters, at one moment: the limit in force, and the calls in flight, which
    /// can exceed the limit after it was lowered.
    pub permits: Snapshot,
    /// Why this is the limit, and the latencies that the controller compared. With the default controller the
    /// limit halves for a window now and then: that is a [`Probe`](super::Reason::Probe) of the latency
    /// without a queue, and no sign of overload.
    pub explanation: Explanation,
    /// The samples since the last change of the limit.
    pub window: SampleWindow,
    /// The number of windows that have ended.
    pub windows: u64,
    /// The number of samples that were dropped because another thread was adding one.
    pub lost_samples: u64,
    /// How many times the limit stayed the same because the controller panicked, or asked for a
    /// limit that is not a finite number above 0.
    pub rejected_targets: u64,
}
