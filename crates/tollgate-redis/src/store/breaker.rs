//! When to leave a store alone, or a part of it: a slot of a cluster, as one node may be gone while
//! the others answer.
//!
//! 1. Closed, everybody may call. After so many failures in a row it opens.
//! 2. Open, nobody may, until a time that is drawn anew each time, so that a fleet does not come
//!    back all at once. Then exactly one may, as a probe.
//! 3. The probe's success closes it. Its failure, or that nothing is heard of it for as long again,
//!    opens it anew.
//! 4. Open in the eyes of others it stays until a call has succeeded, also when it lets the probe
//!    through.
//!
//! Only of parts that have failed anything is kept. Times are given, none is read here.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);

#[derive(Debug)]
pub(crate) struct Breaker {
    failures: u32,
    shortest: Duration,
    longest: Duration,
    /// Of the parts that have failed since they last succeeded.
    parts: Mutex<HashMap<u16, State>>,
}

#[derive(Debug, Default)]
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
            parts: Mutex::default(),
        }
    }

    fn parts(&self) -> MutexGuard<'_, HashMap<u16, State>> {
        // Nothing panics while it is held.
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a call may be made now. Whoever may after it was open is the probe.
    pub(crate) fn may_call(&self, part: u16, now: Instant) -> bool {
        let mut parts = self.parts();
        let Some(state) = parts.get_mut(&part) else {
            return true;
        };
        match state.until {
            None => true,
            Some(until) if now < until => false,
            Some(_) => {
                state.until = Some(now + self.pause());
                true
            }
        }
    }

    pub(crate) fn succeeded(&self, part: u16) {
        self.parts().remove(&part);
    }

    pub(crate) fn failed(&self, part: u16, now: Instant) {
        let mut parts = self.parts();
        let state = parts.entry(part).or_default();
        state.failed = state.failed.saturating_add(1);
        if state.failed >= self.failures {
            state.until = Some(now + self.pause());
        }
    }

    /// Of any part: from when it opened until a call succeeded.
    pub(crate) fn is_open(&self) -> bool {
        self.parts().values().any(|state| state.until.is_some())
    }

    /// When a part may be called again, if it may not at any time.
    pub(crate) fn until(&self, part: u16) -> Option<Instant> {
        self.parts().get(&part)?.until
    }

    fn pause(&self) -> Duration {
        let more = self.longest.saturating_sub(self.shortest);
        let pause = self.shortest.saturating_add(more.mul_f64(fastrand::f64()));
        // So that it can be added to any time.
        pause.min(YEAR)
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
        breaker.failed(0, now);
        breaker.failed(0, now);
        breaker.succeeded(0);
        breaker.failed(0, now);
        breaker.failed(0, now);
        assert!(breaker.may_call(0, now));
        breaker.failed(0, now);
        assert!(!breaker.may_call(0, now));
        assert!(!breaker.may_call(0, now + SHORTEST - Duration::from_nanos(1)));

        let later = now + LONGEST;
        assert!(breaker.may_call(0, later));
        assert!(!breaker.may_call(0, later), "one probe");
        assert!(breaker.is_open(), "nothing was heard of it yet");
        assert!(
            breaker.may_call(0, later + LONGEST),
            "nothing was heard of it"
        );
        breaker.failed(0, later + LONGEST);
        assert!(!breaker.may_call(0, later + LONGEST));
        assert!(breaker.is_open());
        breaker.succeeded(0);
        assert!(breaker.may_call(0, now));
        assert!(!breaker.is_open());
    }

    #[test]
    fn a_part_that_fails_leaves_the_others_alone() {
        let breaker = Breaker::new(1, SHORTEST, LONGEST);
        let now = Instant::now();
        breaker.failed(1, now);
        assert!(!breaker.may_call(1, now));
        assert!(breaker.may_call(2, now));
        breaker.succeeded(2);
        assert!(!breaker.may_call(1, now) && breaker.is_open());
        assert_eq!(breaker.until(2), None);
    }

    #[test]
    fn a_pause_that_never_ends_is_a_long_one() {
        let breaker = Breaker::new(1, Duration::MAX, Duration::MAX);
        let now = Instant::now();
        breaker.failed(0, now);
        assert!(!breaker.may_call(0, now + YEAR - Duration::from_nanos(1)));
        assert!(breaker.may_call(0, now + YEAR));
    }

    #[test]
    fn a_fleet_does_not_come_back_all_at_once() {
        let now = Instant::now();
        let back: std::collections::BTreeSet<u128> = (0..200)
            .map(|_| {
                let breaker = Breaker::new(1, SHORTEST, LONGEST);
                breaker.failed(0, now);
                let until = breaker.until(0).unwrap() - now;
                assert!((SHORTEST..=LONGEST).contains(&until));
                until.as_millis()
            })
            .collect();
        assert!(back.len() > 50);
    }
}
