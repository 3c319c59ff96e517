//! [`Breaker`]: rejects calls to a store that fails, or to a part of it. A part is a slot of a
//! cluster, because one node may be gone while the others answer.
//!
//! 1. A closed breaker admits all calls. It opens after a number of failures in a row.
//! 2. An open breaker admits no call until a time that is drawn at random, so that the processes of
//!    a fleet do not all return at once. Then it admits one, the probe.
//! 3. The breaker closes when the probe succeeds. It opens again when the probe fails, or has no
//!    result after the same time again.
//! 4. [`is_open`](Breaker::is_open) is true until a call has succeeded, also during the probe.
//!
//! 5. A [limit](LimitBreaker) has a breaker of its own, for failures that calls of other limits may not get. Nothing
//!    else counts for it.
//!
//! Only parts that have failed have an entry. Times are arguments, except of [`LimitBreaker::guard`].

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::error::StoreError;
use crate::sync::{Mutex, lock};

const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);

#[derive(Debug)]
pub(crate) struct Breaker {
    failures: u32,
    shortest: Duration,
    longest: Duration,
    /// The parts that have failed since they last succeeded.
    parts: Mutex<HashMap<u16, State>>,
}

#[derive(Debug, Default)]
struct State {
    /// The number of failures in a row.
    failed: u32,
    /// The breaker is open until this time; after that one call may try.
    until: Option<Instant>,
}

impl Breaker {
    /// Creates a breaker that opens after `failures` failures in a row, at least 1, for a time
    /// between these.
    pub(crate) fn new(failures: u32, shortest: Duration, longest: Duration) -> Self {
        Self {
            failures,
            shortest,
            longest,
            parts: Mutex::default(),
        }
    }

    /// Returns a closed breaker with the same settings.
    pub(super) fn closed(&self) -> Self {
        Self::new(self.failures, self.shortest, self.longest)
    }

    /// Returns whether a call may be made now. The first one after the pause is the probe.
    pub(crate) fn may_call(&self, part: u16, now: Instant) -> bool {
        let mut parts = lock(&self.parts);
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
        lock(&self.parts).remove(&part);
    }

    /// Counts a failure. Returns whether a closed breaker opens.
    pub(crate) fn failed(&self, part: u16, now: Instant) -> bool {
        let mut parts = lock(&self.parts);
        let state = parts.entry(part).or_default();
        state.failed = state.failed.saturating_add(1);
        if state.failed < self.failures {
            return false;
        }
        state.until.replace(now + self.pause()).is_none()
    }

    /// Returns whether any part has opened and not succeeded since.
    pub(crate) fn is_open(&self) -> bool {
        lock(&self.parts)
            .values()
            .any(|state| state.until.is_some())
    }

    fn pause(&self) -> Duration {
        let more = self.longest.saturating_sub(self.shortest);
        let pause = self.shortest.saturating_add(more.mul_f64(fastrand::f64()));
        // Bounded, so that it can be added to any time.
        pause.min(YEAR)
    }
}

/// The breaker of one limit. Without it a limit whose user has no right for its key would call the server for each
/// caller, only to be refused.
#[derive(Debug)]
pub(crate) struct LimitBreaker(Breaker);

impl LimitBreaker {
    /// The only part of the breaker.
    const PART: u16 = 0;

    pub(super) fn new(breaker: Breaker) -> Self {
        Self(breaker)
    }

    /// Returns whether no call has failed since the last one that succeeded.
    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.0.parts).is_empty()
    }

    /// Makes a call, or returns [`BreakerOpen`](StoreError::BreakerOpen) if the last ones have failed for this
    /// limit. A call that is dropped has no result.
    pub(crate) async fn guard<T>(
        &self,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        if !self.0.may_call(Self::PART, Instant::now()) {
            return Err(StoreError::BreakerOpen);
        }
        let answer = call.await;
        match &answer {
            Err(error) if error.is_outage_of_limit() => {
                self.0.failed(Self::PART, Instant::now());
            }
            Err(error) if !error.is_mistake() => {}
            _ => self.0.succeeded(Self::PART),
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORTEST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_millis(500);

    #[test]
    fn may_call_after_failures_in_a_row_admits_one_probe() {
        let breaker = Breaker::new(3, SHORTEST, LONGEST);
        let now = Instant::now();
        let fail = |times| (0..times).filter(|_| breaker.failed(0, now)).count();
        assert_eq!(fail(2), 0);
        breaker.succeeded(0);
        assert_eq!(fail(2), 0);
        assert!(breaker.may_call(0, now));
        assert_eq!(fail(3), 1, "it opens once");
        assert!(!breaker.may_call(0, now + SHORTEST - Duration::from_nanos(1)));

        let later = now + LONGEST;
        assert!(breaker.may_call(0, later));
        assert!(!breaker.may_call(0, later), "one probe");
        assert!(breaker.is_open(), "nothing was heard of it yet");
        assert!(breaker.may_call(0, later + LONGEST), "it was lost");
        assert!(!breaker.failed(0, later + LONGEST), "it was open");
        assert!(!breaker.may_call(0, later + LONGEST));
        breaker.succeeded(0);
        assert!(breaker.may_call(0, now) && !breaker.is_open());
    }

    #[test]
    fn may_call_of_another_part_is_not_affected() {
        let breaker = Breaker::new(1, SHORTEST, LONGEST);
        let now = Instant::now();
        breaker.failed(1, now);
        assert!(!breaker.may_call(1, now));
        assert!(breaker.may_call(2, now));
        breaker.succeeded(2);
        assert!(!breaker.may_call(1, now) && breaker.is_open());
    }

    #[test]
    fn failed_with_the_longest_pause_opens_for_a_year() {
        let breaker = Breaker::new(1, Duration::MAX, Duration::MAX);
        let now = Instant::now();
        breaker.failed(0, now);
        assert!(!breaker.may_call(0, now + YEAR - Duration::from_nanos(1)));
        assert!(breaker.may_call(0, now + YEAR));
    }

    #[test]
    fn failed_draws_a_pause_between_the_bounds() {
        let now = Instant::now();
        let pauses = (0..200).map(|_| {
            let breaker = Breaker::new(1, SHORTEST, LONGEST);
            breaker.failed(0, now);
            // The shortest time after which it admits a call, to the millisecond.
            let admits = |millis: &u64| breaker.may_call(0, now + Duration::from_millis(*millis));
            (0..1000).find(admits).unwrap()
        });
        let pauses: std::collections::BTreeSet<u64> = pauses.collect();
        assert!(pauses.iter().all(|pause| (50..=501).contains(pause)));
        assert!(pauses.len() > 50);
    }

    #[test]
    fn guard_counts_failures_of_the_limit_alone() {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(async {
            let limit = LimitBreaker::new(Breaker::new(2, YEAR, YEAR));
            let call = |answer: Result<u8, StoreError>| limit.guard(async move { answer });
            for _ in 0..3 {
                assert_eq!(
                    call(Err(StoreError::Timeout)).await,
                    Err(StoreError::Timeout)
                );
                assert_eq!(
                    call(Err(StoreError::WrongType)).await,
                    Err(StoreError::WrongType)
                );
            }
            assert_eq!(
                call(Err(StoreError::Forbidden)).await,
                Err(StoreError::Forbidden)
            );
            assert_eq!(call(Ok(7)).await, Ok(7));
            assert_eq!(
                call(Err(StoreError::Unknown)).await,
                Err(StoreError::Unknown)
            );
            // An outage of the store tells nothing about the limit.
            assert_eq!(
                call(Err(StoreError::Timeout)).await,
                Err(StoreError::Timeout)
            );
            assert_eq!(
                call(Err(StoreError::Forbidden)).await,
                Err(StoreError::Forbidden)
            );
            assert_eq!(call(Ok(7)).await, Err(StoreError::BreakerOpen));
        });
    }
}
