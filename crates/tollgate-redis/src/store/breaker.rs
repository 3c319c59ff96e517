//! When to leave a store alone.
//!
//! 1. Closed, everybody may call. After so many failures in a row it opens.
//! 2. Open, nobody may, until a time that is drawn anew each time, so that a fleet does not come
//!    back all at once. Then exactly one may, as a probe.
//! 3. The probe's success closes it. Its failure, or that nothing is heard of it for as long again,
//!    opens it anew.
//!
//! Times are given, none is read here.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct Breaker {
    failures: u32,
    shortest: Duration,
    longest: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// In a row.
    failed: u32,
    /// Open until then, when one may try.
    until: Option<Instant>,
}

impl Breaker {
    /// Opens after so many failures in a row, at least 1, for a time between these.
    pub(crate) fn new(failures: u32, shortest: Duration, longest: Duration) -> Self {
        Self {
            failures,
            shortest,
            longest,
            state: Mutex::new(State {
                failed: 0,
                until: None,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a call may be made now. Whoever may after it was open is the probe.
    pub(crate) fn may_call(&self, now: Instant) -> bool {
        let mut state = self.state();
        match state.until {
            None => true,
            Some(until) if now < until => false,
            Some(_) => {
                state.until = Some(now + self.pause());
                true
            }
        }
    }

    pub(crate) fn succeeded(&self) {
        let mut state = self.state();
        state.failed = 0;
        state.until = None;
    }

    pub(crate) fn failed(&self, now: Instant) {
        let mut state = self.state();
        state.failed = state.failed.saturating_add(1);
        if state.failed >= self.failures {
            state.until = Some(now + self.pause());
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.state().until.is_some()
    }

    fn pause(&self) -> Duration {
        let more = self.longest.saturating_sub(self.shortest);
        self.shortest + more.mul_f64(fastrand::f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORTEST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_millis(500);

    #[test]
    fn it_opens_after_failures_in_a_row_and_lets_one_probe() {
        let breaker = Breaker::new(3, SHORTEST, LONGEST);
        let now = Instant::now();
        breaker.failed(now);
        breaker.failed(now);
        breaker.succeeded();
        breaker.failed(now);
        breaker.failed(now);
        assert!(breaker.may_call(now));
        breaker.failed(now);
        assert!(!breaker.may_call(now));
        assert!(!breaker.may_call(now + SHORTEST - Duration::from_nanos(1)));

        let later = now + LONGEST;
        assert!(breaker.may_call(later));
        assert!(!breaker.may_call(later), "one probe");
        assert!(breaker.may_call(later + LONGEST), "nothing was heard of it");
        breaker.failed(later + LONGEST);
        assert!(!breaker.may_call(later + LONGEST));
        assert!(breaker.is_open());
        breaker.succeeded();
        assert!(breaker.may_call(now));
        assert!(!breaker.is_open());
    }

    #[test]
    fn a_fleet_does_not_come_back_all_at_once() {
        let now = Instant::now();
        let back: std::collections::BTreeSet<u128> = (0..200)
            .map(|_| {
                let breaker = Breaker::new(1, SHORTEST, LONGEST);
                breaker.failed(now);
                let until = breaker.state().until.unwrap() - now;
                assert!((SHORTEST..=LONGEST).contains(&until));
                until.as_millis()
            })
            .collect();
        assert!(back.len() > 50);
    }
}
