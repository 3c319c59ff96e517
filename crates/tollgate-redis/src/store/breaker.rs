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
use crate::script::micros;
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

    pub(crate) fn failed(&self, part: u16, now: Instant) {
        let mut parts = lock(&self.parts);
        let state = parts.entry(part).or_default();
        state.failed = state.failed.saturating_add(1);
        if state.failed >= self.failures {
            state.until = Some(now + self.pause());
        }
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
            Err(error) if error.is_outage_of_limit() => self.0.failed(Self::PART, Instant::now()),
            Err(error) if !error.is_mistake() => {}
            _ => self.0.succeeded(Self::PART),
        }
        answer
    }
}

// [`ServerClocks`]: the times of the servers' clocks, as known from replies, so that a call can carry the
// deadline of its execution.
//
// When a server that was stopped continues, it executes the calls that it had received, although their
// callers have left. A call with a deadline in the server's own time is refused then, whichever connection or
// process it came from.
//
// 1. A reply tells the time at which the call was executed, which was after the call was sent. So the
//    time that is calculated from it is never too early, and too late by at most a round trip, unless
//    the clock has changed since.
// 2. If the clock was set forward, is not known yet, or has gained more than the deadline of a call
//    since the last reply, the first call is refused. Its reply tells the time, and the call is
//    repeated. If the clock was set back, calls are executed later than they
//    should be, until the next reply.
//
// Each slot of a cluster has its own entry, because it may be on another node. Times are arguments:
// nothing here reads a clock.

#[derive(Debug, Default)]
pub(super) struct ServerClocks {
    /// A microsecond of the clock of each part, and the time here that is not after it.
    parts: Mutex<HashMap<u16, (u64, Instant)>>,
}

impl ServerClocks {
    /// Records that a call that was sent at `sent` was executed in the microsecond `now`.
    pub(super) fn learn(&self, part: u16, now: u64, sent: Instant) {
        lock(&self.parts).insert(part, (now, sent));
    }

    /// Returns the last microsecond in which a call that is sent at `sent` is executed before
    /// `deadline` has passed; 0 if the clock is not known.
    pub(super) fn last(&self, part: u16, sent: Instant, deadline: Duration) -> u64 {
        let known = lock(&self.parts).get(&part).copied();
        known.map_or(0, |(now, then)| {
            let passed = sent.saturating_duration_since(then);
            now.saturating_add(micros(passed.saturating_add(deadline)))
        })
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
        let fail = |times| (0..times).for_each(|_| breaker.failed(0, now));
        fail(2);
        breaker.succeeded(0);
        fail(2);
        assert!(breaker.may_call(0, now));
        fail(1);
        assert!(!breaker.may_call(0, now + SHORTEST - Duration::from_nanos(1)));

        let later = now + LONGEST;
        assert!(breaker.may_call(0, later));
        assert!(!breaker.may_call(0, later), "one probe");
        assert!(breaker.is_open(), "nothing was heard of it yet");
        assert!(breaker.may_call(0, later + LONGEST), "it was lost");
        breaker.failed(0, later + LONGEST);
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

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn last_of_an_unknown_part_is_zero_and_of_others_never_too_early() {
        let (clocks, start) = (ServerClocks::default(), Instant::now());
        assert_eq!(clocks.last(1, start, SECOND), 0);
        // Sent at 0, executed at 700 ms, which was 10 s on the server.
        clocks.learn(1, 10_000_000, start);
        let sent = start + 5 * SECOND;
        let truth = 10_000_000 - 700_000 + 5_000_000 + 1_000_000;
        assert_eq!(clocks.last(1, sent, SECOND), truth + 700_000);
        assert_eq!(clocks.last(2, sent, SECOND), 0);
        // The last reply counts, also after the clock was set back.
        clocks.learn(1, 3_000_000, sent);
        assert_eq!(clocks.last(1, sent, SECOND), 4_000_000);
        // Exact in a script, with any deadline.
        assert!(clocks.last(1, sent, Duration::MAX) < 1 << 53);
    }
}
