//! [`Control`]: the rule of an adaptive rate, shared by its callers.
//!
//! The rule is behind a mutex, which is never held while the limiter is used:
//!
//! 1. A thread that changes the rate of the rule applies it to the limiter after unlocking, and
//!    then checks whether it is still the rate of the rule; if not, it applies the new rate too. So
//!    the limiter ends with the last rate of the rule, whichever thread was the last to apply one.
//!    If applying it panics, for example in a runtime without a timer, the next step of growth or
//!    cut applies the rate of the rule.
//! 2. An admitted caller reads `next_step` and no clock: the tick of its charge decides whether a
//!    step of growth is due. The caller only notes the result.
//! 3. The next caller makes the step before it is charged, because earlier charges cannot be
//!    refunded after a change of the quota. While others wait there may be no next caller, so an
//!    admitted waiter makes the step then. If another thread has the lock, the next caller makes
//!    the step.
//! 4. Successes are counted outside the lock, with one relaxed addition: the rule needs their
//!    number only roughly.

use std::time::Duration;

use tollgate::time::Tick;

use super::rule::{RateRule, SET_BACK};
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, const_fn, lock};

/// Replaces the tick of the next step when the step is due.
const DUE: u64 = 0;

pub(super) struct Control {
    rule: Mutex<RateRule>,
    /// The first tick, in nanoseconds, at which the rate may grow, or [`DUE`]. It is only a hint:
    /// the rule decides.
    next_step: AtomicU64,
    succeeded: AtomicU64,
}

impl Control {
    const_fn! {
        pub(super) fn new(rule: RateRule) -> Self {
            Self {
                rule: Mutex::new(rule),
                next_step: AtomicU64::new(DUE),
                succeeded: AtomicU64::new(0),
            }
        }
    }

    /// Returns a copy of the rule in its present state.
    pub(super) fn rule(&self) -> RateRule {
        lock(&self.rule).clone()
    }

    /// Returns the number of successes.
    pub(super) fn succeeded(&self) -> u64 {
        self.succeeded.load(Ordering::Relaxed)
    }

    /// Counts a success.
    #[inline(always)]
    pub(super) fn succeed(&self) {
        self.succeeded.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether the rate has to [grow](Self::grow) before the next charge.
    #[inline(always)]
    pub(super) fn is_due(&self) -> bool {
        self.next_step.load(Ordering::Relaxed) == DUE
    }

    /// Records whether a step of growth is due at the tick of an admission.
    #[inline(always)]
    pub(super) fn admitted(&self, at: Tick) {
        // It is also due if the clock is far behind the next step: it was set back, or the rate is low, and the rule
        // decides.
        const BACK: u64 = (SET_BACK * 1e9) as u64;
        let next = self.next_step.load(Ordering::Relaxed);
        if next.wrapping_sub(at.as_nanos()).wrapping_sub(1) >= BACK {
            self.note_due(next);
        }
    }

    #[cold]
    fn note_due(&self, next: u64) {
        // This fails if another thread has just made the step.
        let relaxed = Ordering::Relaxed;
        let _ = self.next_step.compare_exchange(next, DUE, relaxed, relaxed);
    }

    /// Lets the rate grow until `now` if a step is due.
    pub(super) fn grow(&self, now: Tick, apply: impl Fn(f64)) {
        if let Ok(mut rule) = self.rule.try_lock() {
            // Another thread may have made the step.
            if self.is_due() {
                if rule.grow(now, self.succeeded()) {
                    self.apply(rule, apply);
                } else {
                    self.note_next_step(&rule);
                }
            }
        }
    }

    /// Counts a refusal of a request that began at a tick, and that pauses the limiter for this long.
    pub(super) fn refused(&self, began: Tick, now: Tick, pause: Duration, apply: impl Fn(f64)) {
        let mut rule = lock(&self.rule);
        if rule.refuse(began, now, self.succeeded(), pause) {
            self.apply(rule, apply);
        }
    }

    fn note_next_step(&self, rule: &RateRule) {
        let next = rule.next_step();
        self.next_step.store(next.as_nanos(), Ordering::Relaxed);
    }

    /// Applies the rate of the rule.
    fn apply<'a>(&'a self, mut rule: MutexGuard<'a, RateRule>, apply: impl Fn(f64)) {
        self.note_next_step(&rule);
        loop {
            let rate = rule.rate;
            drop(rule);
            apply(rate);
            rule = lock(&self.rule);
            if rule.rate == rate {
                return;
            }
        }
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn refused_after_a_panic_of_apply_applies_the_rate() {
        let control = Control::new(RateRule::new((1.0, 1e6), 100.0));
        let at = |seconds: u64| Tick::from_nanos(seconds * 1_000_000_000);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            control.refused(at(1), at(1), Duration::ZERO, |_| {
                panic!("the runtime has no timer")
            });
        }));
        assert!(panicked.is_err());
        let applied = Cell::new(0.0);
        control.refused(at(2), at(2), Duration::ZERO, |rate| applied.set(rate));
        assert_eq!(
            (control.rule().cuts, applied.get()),
            (2, control.rule().rate)
        );
        control.admitted(at(3));
        control.grow(at(3), |rate| applied.set(-rate));
        assert_eq!(applied.get(), -control.rule().rate);
    }
}
