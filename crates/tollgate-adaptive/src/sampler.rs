//! [`Sampler`]: chooses the calls of a semaphore that are measured, collects their samples, and
//! runs the controller.
//!
//! 1. The word has the number of the window and the number of its calls that have yet to begin. A call is
//!    measured if and only if it takes one of these places.
//! 2. A sample counts only in the window in which its call began. A window begins after the limit
//!    of the one before has been replaced, so all its calls began under its own limit.
//! 3. A window is a cohort: it ends when each of its calls has ended or has reached the age of the cut, and then
//!    counts with the cut. So no call that hangs keeps the limit from changing while others end, and what a window shows
//!    does not depend on the limit. A place whose call gives no sample, because it was ignored or found
//!    the lock taken, goes to another call.
//! 4. Calls that begin when there are no places left watch: when one of them ends before its window, it reads the
//!    clock, and ends the window if its deadline has passed. It takes the lock only then. The deadline is set by the first call that
//!    ends after the last place was taken, so each call of the window is at least as old as the cut then.
//! 5. The thread that adds the last sample takes the controller out of the state and runs it
//!    without the lock, because a controller is foreign code. Until the controller is back, the
//!    window has no places, so no other thread can end it.
//! 6. After every fourth sample the controller decides, also without the lock, whether the window
//!    continues or ends. It sees those calls, too, that are known to have reached the cut. If the window
//!    gets all its samples in the meantime, it takes no more, and ends as soon as the controller is back.
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

/// A call that is measured, or that watches. An `Option` of it is returned in two registers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    /// The upper half has the number of the window, the lower half the number of calls in flight. For a call that
    /// watches it is the word, whose lower half is 0.
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

    fn watches(self) -> bool {
        self.in_flight() == 0
    }
}

pub(super) struct Sampler {
    /// The upper half has the number of the window, from 1 on, the lower half its free places.
    word: AtomicU64,
    /// The samples that found the lock taken.
    lost: AtomicU64,
    /// The places of this window that were given back.
    given: AtomicU64,
    /// The tick at which a window without places ends, or 0 before it is known. It is written under the lock, or
    /// reset by a call that gives its place back.
    deadline: AtomicU64,
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
    /// A time, and the number of places that had been taken by that time, those that were given back included.
    mark: (Tick, u64),
    /// The number of places that had been taken one cut ago, or earlier.
    old: u64,
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

    /// Keeps the number of places that were taken at least one cut ago.
    fn mark(&mut self, now: Tick, taken: u64) {
        if now.saturating_since(self.mark.0) >= self.window.cut() {
            self.old = self.mark.1;
            self.mark = (now, taken);
        }
    }

    /// Returns the least number of calls that have reached the cut and not ended, if this many places were given back.
    fn hanging(&self, given: u64) -> u32 {
        // Which calls gave theirs is unknown: it may have been old ones.
        let old = self.old.saturating_sub(given);
        (old as u32).saturating_sub(self.window.samples())
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
            window: SampleWindow::new(limit).with_cut(controller.cut()),
            samples,
            mark: (Tick::from_nanos(0), 0),
            old: 0,
            controller: Some(controller),
            explanation: Explanation::default(),
            windows: 0,
            rejected_targets: 0,
        };
        Self {
            word: AtomicU64::new(word(1, samples)),
            lost: AtomicU64::new(0),
            given: AtomicU64::new(0),
            deadline: AtomicU64::new(0),
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
        let mut state = lock(&self.state);
        state.window = SampleWindow::new(limit).with_cut(state.window.cut());
        drop(state);
        self.permits(limit)
    }

    /// Returns whether a call is measured, or a sample was counted.
    pub(super) fn is_used(&self) -> bool {
        let samples = lock(&self.state).samples;
        self.word.load(Ordering::Relaxed) != word(1, samples)
    }

    fn clamp(&self, limit: f64) -> f64 {
        limit.clamp(self.limits.0 as f64, self.limits.1 as f64)
    }

    /// Returns the number of permits for a limit.
    fn permits(&self, limit: f64) -> usize {
        (limit.round() as usize).clamp(self.limits.0, self.limits.1)
    }

    /// Begins a call: it takes a place, or watches.
    #[inline]
    pub(super) fn begin(&self, semaphore: &Semaphore) -> Option<Measured> {
        let seen = self.word.load(Ordering::Relaxed);
        match seen as u32 {
            0 => Some(Measured {
                place: NonZeroU64::new(seen)?,
                began: Tick::default(),
            }),
            _ => self.take_place(semaphore),
        }
    }

    #[inline(never)]
    fn take_place(&self, semaphore: &Semaphore) -> Option<Measured> {
        let taken = self.change(|seen| (seen as u32 != 0).then(|| seen - 1))?;
        // The call itself is one.
        let in_flight = u32::try_from(semaphore.in_use()).unwrap_or(u32::MAX);
        let in_flight = in_flight.max(1);
        let place = NonZeroU64::new(taken >> 32 << 32 | u64::from(in_flight))?;
        let began = self.clock.now();
        Some(Measured { place, began })
    }

    /// Returns whether [`end`](Self::end) has anything to do for a call.
    #[inline]
    pub(super) fn needs_end(&self, call: Measured) -> bool {
        !call.watches() || self.is_overdue(call.place.get())
    }

    /// Returns whether the window of this word goes on although its deadline has passed, or has no deadline yet. It is
    /// not inlined, so that the end of a call that only watches saves few registers.
    #[inline(never)]
    fn is_overdue(&self, word: u64) -> bool {
        let deadline = || self.deadline.load(Ordering::Relaxed);
        self.word.load(Ordering::Relaxed) == word && deadline() <= self.clock.now().as_nanos()
    }

    /// Ends a call that [needs it](Self::needs_end). If its sample is the last of the window, this runs the
    /// controller, and sets the limit of the semaphore for the next window. Two such changes never overlap.
    pub(super) fn end(&self, call: Measured, feedback: Feedback, semaphore: &Semaphore) {
        if !call.watches() && feedback == Feedback::Ignored {
            return self.give_place(call.window());
        }
        let now = self.clock.now();
        // No code that can panic runs under the lock, so it is never poisoned.
        let Ok(mut state) = self.state.try_lock() else {
            if !call.watches() {
                self.lost.fetch_add(1, Ordering::Relaxed);
                self.give_place(call.window());
            }
            return;
        };
        let word = self.word.load(Ordering::Relaxed);
        let number = (word >> 32) as u32;
        if number != call.window() || state.is_full() {
            return;
        }
        let mut asks = false;
        if !call.watches() {
            match feedback {
                Feedback::Success => {
                    let latency = now.saturating_since(call.began);
                    state.window.record(latency, call.in_flight());
                }
                _ => state.window.record_overloaded(call.in_flight()),
            }
            state.window.began_at(call.began);
            asks = state.window.samples().is_multiple_of(ASKED_AFTER);
        }
        let begun = state.samples - (word as u32).min(state.samples);
        let given = self.given.load(Ordering::Relaxed);
        state.mark(now, u64::from(begun) + given);
        if word as u32 == 0 {
            self.end_if_due(&mut state, now, semaphore.in_use());
        }
        if !state.is_full() && !asks {
            return;
        }
        // Another thread may be running it.
        let Some(mut controller) = state.controller.take() else {
            return;
        };
        state.window.end_at(self.clock.wall(), begun);
        let mut window = state.window;
        if !state.is_full() {
            window.record_hanging(state.hanging(given), semaphore.in_use());
            drop(state);
            let progress = contain_panic(|| controller.progress(&window));
            state = lock(&self.state);
            if progress != Some(Progress::End) && !state.is_full() {
                state.controller = Some(controller);
                return;
            }
        }
        if state.is_full() {
            window = state.window;
            window.end_at(self.clock.wall(), state.samples);
        }
        // The window ends: samples of its other calls arrive too late, and no call takes a place.
        let next = number.wrapping_add(1).max(1);
        self.word.swap(u64::from(next) << 32, Ordering::Relaxed);
        drop(state);
        self.update(controller, &window, next, semaphore);
    }

    /// Counts all calls that have not ended if the deadline has passed, or sets it.
    fn end_if_due(&self, state: &mut State, now: Tick, in_flight: usize) {
        match self.deadline.load(Ordering::Relaxed) {
            0 => {
                let deadline = now.saturating_add(state.window.cut()).as_nanos();
                self.deadline.store(deadline, Ordering::Relaxed);
            }
            deadline if deadline <= now.as_nanos() => {
                let hanging = state.samples - state.window.samples();
                state.window.record_hanging(hanging, in_flight);
            }
            _ => {}
        }
    }

    /// Gives the place of a call without a sample to another call, unless its window has ended.
    fn give_place(&self, window: u32) {
        let given = self.change(|seen| ((seen >> 32) as u32 == window).then(|| seen + 1));
        if given.is_some() {
            self.given.fetch_add(1, Ordering::Relaxed);
            // The other call begins later.
            self.deadline.store(0, Ordering::Relaxed);
        }
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
        let decide = || {
            (
                controller.update(window),
                controller.cut(),
                controller.explain(),
            )
        };
        let decided = contain_panic(decide).filter(|(target, ..)| is_limit(target.limit));
        let limit = decided.map_or(window.limit(), |(target, ..)| self.clamp(target.limit));
        // A higher limit wakes waiters, and wakers are foreign code.
        semaphore.set_permits(self.permits(limit));

        let mut state = lock(&self.state);
        let mut cut = window.cut();
        match decided {
            Some((target, next, explanation)) => {
                state.samples = target.samples.max(1);
                cut = next;
                state.explanation = explanation;
            }
            None => state.rejected_targets += 1,
        }
        state.window = SampleWindow::new(limit).with_cut(cut);
        (state.mark, state.old) = ((self.clock.now(), 0), 0);
        state.controller = Some(controller);
        state.windows += 1;
        self.deadline.store(0, Ordering::Relaxed);
        self.given.store(0, Ordering::Relaxed);
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
    u64::from(number) << 32 | u64::from(samples)
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
