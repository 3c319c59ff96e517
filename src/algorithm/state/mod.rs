//! [`LimiterState`]: the state of a limiter as a value.
//!
//! It is a [`Ledger`] at some moment, without a clock, a lock or memory that others share, and every decision from it is
//! one of a ledger that is made from it. So it has no arithmetic of its own.
//!
//! 1. Its ticks count from its *epoch*, a time of the caller's, so that they have the 58 bits of a ledger. When they
//!    become too large, the epoch moves.
//! 2. Time never goes back in it. If the time of a call is before that of the last charge, the epoch moves back with
//!    it, and no time has passed. Windows move back by whole windows only, so they still end at the same times of the
//!    caller's clock, and by so few that none of them ends twice.
//! 3. A charge has the generation of the state. A new one begins when tickets change their meaning: with the epoch and
//!    with the quota. One that begins at the first use, or when the epoch moves forward, is a hash of the time, so that
//!    two states have different ones.
//! 4. A state that was read from outside is [validated](LimiterState::validated): a ledger gets no value that it could
//!    not have.

mod error;
mod record;
#[cfg(feature = "serde")]
mod serialized;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use self::error::RestoreError;
use super::choice::{Algorithm, AlgorithmError};
use super::gcra::Origin;
use super::ledger::{Ledger, MOST_REFUNDED, OthersUse};
use super::params::{LAST_TICK, MAX_TAT};
use super::rule::Receipt;
use super::rule_state::Owed;
use super::sliding_log::LAST_TICKET;
use super::sliding_window::MAX_COUNT;
use crate::error::AcquireError;
use crate::quota::Quota;
use crate::rate::Charge;
use crate::time::Tick;

/// The version of the form of a state.
const VERSION: u16 = 1;

/// The tick at which the present is after the epoch has moved: so early that the time of a ledger does not end, even
/// with 16 units in a nanosecond.
const PRESENT: u64 = 1 << 53;

/// The generation of a state that was not used yet. No charge of a state has it.
pub(super) const UNUSED: u64 = 0;

/// The last generation. Those of limiters are larger.
const LAST_GENERATION: u64 = (1 << 32) - 1;

/// Returns the generation after this one. They begin again after the last.
fn next(generation: u64) -> u64 {
    generation % LAST_GENERATION + 1
}

/// Returns the generation that begins at a time: that of another state is another one, except by a chance of 1 in
/// 2^32.
fn generation_at(now: i64) -> u64 {
    // The multiplier is 2^64 divided by the golden ratio.
    next((now as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32)
}

/// The state of a rate limiter as a value: what is owed to it. Waiters are not in it.
///
/// A state is plain data, and pure: it has no clock, and every method that needs the time takes it. It has two uses:
///
/// - [`RateLimiter::state`](crate::RateLimiter::state) returns one, and
///   [`RateLimiter::restore`](crate::RateLimiter::restore) begins a limiter with it, for example after a restart. The
///   times of such a state are those of the limiter's clock, so give it to `restore` only.
/// - It decides by itself, with [`take`](Self::take), [`due`](Self::due) and [`give_back`](Self::give_back). So a
///   program can keep it where it likes, such as in a file that several processes lock. If `restore` begins a limiter
///   with such a state, `elapsed` counts from its last charge.
///
/// # Time
///
/// Times are durations since an epoch that the caller chooses and keeps: the same one for all calls, for example
/// [`UNIX_EPOCH`](std::time::UNIX_EPOCH). The resolution is a nanosecond. Windows and batches begin at the multiples of
/// their length since that epoch.
///
/// Read one clock, under the lock that protects the state; callers whose clocks differ get the difference at each
/// alternation.
///
/// If a time is before that of the last charge, no time has passed since, and from then on the state counts from the
/// earlier time. So a clock that jumps ahead by a day and back leaves at most a burst owed, and each jump ahead admits
/// at most a burst. Windows and batches move back by whole windows, as many as fit: a wait may then be longer by one
/// window. Charges from before such a jump give nothing back.
///
/// # Several quotas
///
/// Callers with different quotas may use one state. Under [`Gcra`](Algorithm::Gcra) they share one end of the backlog,
/// as a time: each charge moves it by the emission interval of the caller's quota, and each caller's burst is measured
/// up to it. So what was spent stays spent at the price of its spender, and going to and fro between quotas makes
/// nothing available. Windows and batches keep the number that was used; their length and the algorithm have to be the
/// same, see [`check`](Self::check). A charge from before a call with another quota gives nothing back.
///
/// # Size
///
/// All algorithms but the log take a constant size, [160 bytes](Self::to_bytes) as a record. A
/// [`SlidingLog`](Algorithm::SlidingLog) takes 8 bytes for each of its last charges, and in JSON at most 20: of as many
/// as its count, and beyond that of those from before its count became smaller. Decisions of a log take a time that is
/// linear in that.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::rate::LimiterState;
/// use tollgate::{Algorithm, ErrorKind, Quota};
///
/// let quota = Quota::per_second(10).burst(2);
/// let mut state = LimiterState::new(Algorithm::Gcra, quota)?;
/// let now = Duration::from_secs(1_800_000_000);
/// state.take(quota, now, 2)?;
///
/// let refused = state.take(quota, now, 1).unwrap_err();
/// assert_eq!(refused.kind(), ErrorKind::RateLimited);
/// assert_eq!(refused.retry_after(), Some(Duration::from_millis(100)));
/// assert_eq!(state.due(quota, now, 1), Some(now + Duration::from_millis(100)));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimiterState {
    pub(super) algorithm: Algorithm,
    pub(super) quota: Quota,
    /// The caller's time of the tick 0, in nanoseconds.
    pub(super) epoch: i64,
    /// The tick at which it was read, or at which it was charged last.
    pub(super) at: u64,
    pub(super) generation: u64,
    /// What time pays off; during a pause, what the pause has not spent.
    pub(super) owed: Owed,
    pub(super) pause: Option<PauseState>,
    pub(super) others: Option<OthersUse>,
}

/// A state, and the time that has passed since.
#[derive(Clone)]
pub(crate) struct Restored {
    pub(super) state: LimiterState,
    elapsed: Duration,
}

impl Restored {
    /// Returns the tick from which windows are counted on a clock whose present is this tick.
    pub(crate) fn origin_at(&self, now: Tick) -> i64 {
        let (Owed::Backlog { start, .. }, by) = (&self.state.owed, self.shift_to(now)) else {
            return 0;
        };
        // The windows of nine years are counted; if there were more, the quota of the state counts them.
        let (start, least) = (
            start.saturating_add(by),
            now.as_nanos() as i64 - LAST_TICK as i64,
        );
        let period = self.state.algorithm.batch(self.state.quota).period();
        let period = i64::try_from(period.as_nanos()).unwrap_or(i64::MAX);
        match least.checked_sub(start) {
            Some(more) if more > 0 => start + (more / period).saturating_mul(period),
            _ => start,
        }
    }

    /// Returns the nanoseconds by which the ticks of the state come later on a clock whose present is this tick. A time
    /// of more than nine years counts as nine years, in step with the period.
    pub(crate) fn shift_to(&self, now: Tick) -> i64 {
        let elapsed = u64::try_from(self.elapsed.as_nanos()).unwrap_or(u64::MAX);
        let period = self.state.algorithm.batch(self.state.quota).period();
        let period = period.as_nanos() as u64;
        let elapsed = match elapsed.checked_sub(LAST_TICK) {
            Some(more) if period <= LAST_TICK => LAST_TICK - period + more % period,
            Some(_) => LAST_TICK,
            None => elapsed,
        };
        now.as_nanos().min(LAST_TICK) as i64 - self.state.at as i64 - elapsed as i64
    }
}

/// A pause that has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct PauseState {
    /// The tick of its end.
    pub(super) until: u64,
    /// The units that were charged since it began.
    pub(super) forced: u64,
}

/// Creation for a limiter.
impl LimiterState {
    /// Returns when the state was read.
    pub(crate) fn read_at(&self) -> u64 {
        self.at
    }

    /// Checks whether a limiter with this algorithm can begin with the state.
    pub(crate) fn restored(
        &self,
        expected: Algorithm,
        elapsed: Duration,
    ) -> Result<Restored, RestoreError> {
        let found = self.algorithm;
        if found != expected {
            return Err(RestoreError::Algorithm { found, expected });
        }
        let state = self.clone();
        Ok(Restored { state, elapsed })
    }

    /// Creates the state in a window or a step that ends after this time, of which this much was used.
    #[track_caller]
    pub(crate) fn in_window(algorithm: Algorithm, quota: Quota, left: Duration, used: u64) -> Self {
        let has_steps = algorithm.keeps_a_word() && algorithm != Algorithm::Gcra;
        assert!(has_steps, "{algorithm} has no windows that end all at once");
        let nanos = left.as_nanos();
        let is_valid = nanos > 0 && nanos <= u128::from(LAST_TICK);
        assert!(
            is_valid,
            "a window must end in more than 0s and at most 2^58 ns, not in {left:?}"
        );
        let mut ledger = Ledger::new(algorithm, quota, Origin::NONE, 1);
        ledger.charge(Tick::default(), used);
        let mut state = ledger.state(Tick::default());
        if let Owed::Backlog { start, .. } = &mut state.owed {
            *start = nanos as i64 - algorithm.batch(quota).period().as_nanos() as i64;
        }
        state
    }
}

/// Creation and use.
impl LimiterState {
    /// Creates the state of a limiter that has made no charges.
    ///
    /// # Errors
    ///
    /// Returns an error if the quota does not fit the algorithm, see [`check`](Algorithm::check).
    pub fn new(algorithm: Algorithm, quota: Quota) -> Result<Self, AlgorithmError> {
        algorithm.check(quota)?;
        Ok(Ledger::new(algorithm, quota, Origin::NONE, 1).state(Tick::default()))
    }

    /// Returns the algorithm.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Returns the quota: that of the limiter, or of the last charge.
    pub fn quota(&self) -> Quota {
        self.quota
    }

    /// Checks whether a caller with this algorithm and this quota can use the state together with others.
    ///
    /// # Errors
    ///
    /// - [`Algorithm`](RestoreError::Algorithm), if it is the state of another algorithm;
    /// - [`Period`](RestoreError::Period), if its windows or batches have another length. A state of
    ///   [`Gcra`](Algorithm::Gcra) has no windows.
    ///
    /// # Panics
    ///
    /// Panics if the quota does not fit the algorithm, see [`Algorithm::check`].
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::rate::LimiterState;
    /// use tollgate::{Algorithm, Quota};
    ///
    /// let state = LimiterState::new(Algorithm::FixedWindow, Quota::per_hour(100))?;
    /// assert!(state.check(Algorithm::FixedWindow, Quota::per_hour(50)).is_ok());
    /// let error = state.check(Algorithm::FixedWindow, Quota::per_day(100)).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "the state has windows of 100/h, and the limiter has windows of 100/d",
    /// );
    /// # Ok::<_, tollgate::rate::AlgorithmError>(())
    /// ```
    #[track_caller]
    pub fn check(&self, algorithm: Algorithm, quota: Quota) -> Result<(), RestoreError> {
        if self.algorithm != algorithm {
            let (found, expected) = (self.algorithm, algorithm);
            return Err(RestoreError::Algorithm { found, expected });
        }
        let period = algorithm.batch(quota).period();
        if algorithm != Algorithm::Gcra && algorithm.batch(self.quota).period() != period {
            let (found, expected) = (self.quota, quota);
            return Err(RestoreError::Period { found, expected });
        }
        Ok(())
    }

    /// Charges `units` now, at the price of this quota, or fails. The [tick](Charge::at) of the charge counts from the
    /// caller's epoch.
    ///
    /// A refusal changes the state only at the first use, and if the time went back; then it has to be kept, too.
    ///
    /// # Errors
    ///
    /// - [`RateLimited`](crate::ErrorKind::RateLimited), with the exact time after which the call would be admitted if
    ///   no other came;
    /// - [`ExceedsCapacity`](crate::ErrorKind::ExceedsCapacity), if it asks for more than the quota ever allows at
    ///   once.
    ///
    /// # Panics
    ///
    /// Panics if the quota cannot be used with the state, see [`check`](Self::check).
    #[track_caller]
    pub fn take(
        &mut self,
        quota: Quota,
        now: Duration,
        units: u64,
    ) -> Result<Charge, AcquireError> {
        let (ledger, now, present) = self.ledger_at(quota, now);
        let capacity = ledger.capacity();
        if units > capacity {
            return Err(AcquireError::exceeds_capacity(capacity));
        }
        let due = ledger.due(0, units);
        if units > 0 && due > present {
            return Err(AcquireError::limited_until(due, now));
        }
        Ok(self.charged(ledger, present, units))
    }

    /// Charges `units` now, with any backlog, for a cost that is known only afterwards. See
    /// [`RateLimiter::charge`](crate::RateLimiter::charge).
    ///
    /// # Panics
    ///
    /// Panics if the quota cannot be used with the state, see [`check`](Self::check).
    #[track_caller]
    pub fn charge(&mut self, quota: Quota, now: Duration, units: u64) -> Charge {
        let (ledger, _, present) = self.ledger_at(quota, now);
        self.charged(ledger, present, units)
    }

    /// Returns the time from which on `units` can be taken, if nothing else is taken before: a time that has come if
    /// they can be taken now, and `None` if they never can.
    ///
    /// # Panics
    ///
    /// Panics if the quota cannot be used with the state, see [`check`](Self::check).
    #[track_caller]
    pub fn due(&self, quota: Quota, now: Duration, units: u64) -> Option<Duration> {
        let mut this = self.clone();
        let (ledger, _, present) = this.ledger_at(quota, now);
        if units > ledger.capacity() {
            return None;
        }
        let due = ledger.due(0, units);
        if units == 0 || due <= present {
            return Some(now);
        }
        (!due.is_never()).then(|| this.time_of(due))
    }

    /// Gives back up to `units` of a charge whose call is not made, except the part that time has paid off, like
    /// [`RateLimiter::refund`](crate::RateLimiter::refund). The
    /// state remembers no earlier refunds, so it gives back less if a later charge was refunded before, never
    /// more. A time before the last charge counts as the time of that charge.
    ///
    /// It gives nothing back for a charge of another state whose first use was at another time, except by a chance of
    /// 1 in 2^32.
    pub fn give_back(&mut self, charge: &Charge, units: u64, now: Duration) {
        // No time passes between an earlier `now` and the last charge, and none passes again later.
        let now = now.max(self.time_of(Tick::from_nanos(self.at)));
        let (mut ledger, _, present) = self.ledger_at(self.quota, now);
        let at = i64::try_from(charge.at().as_nanos()).unwrap_or(i64::MAX);
        let at = at.saturating_sub(self.epoch).max(0) as u64;
        let receipt = Receipt {
            at: Tick::from_nanos(at),
            ..charge.0
        };
        ledger.give_back(&receipt, units, present);
        self.keep(ledger, present);
    }
}

/// The ledger of a state.
impl LimiterState {
    /// Returns the ledger at a time, under a quota. Returns the tick of that time, too, and that tick or the one of the
    /// last charge, whichever is later.
    #[track_caller]
    fn ledger_at(&mut self, quota: Quota, now: Duration) -> (Ledger, Tick, Tick) {
        if let Err(error) = self.check(self.algorithm, quota) {
            panic!("{error}");
        }
        let now = self.move_epoch(now);
        let present = now.max(self.at);
        let [now, present] = [now, present].map(Tick::from_nanos);
        let mut ledger = Ledger::of_state(self);
        ledger.advance(present);
        ledger.use_quota(quota, present);
        (ledger, now, present)
    }

    /// Moves the epoch if the time went back, or if ticks become too large. Returns the tick of the time.
    fn move_epoch(&mut self, now: Duration) -> u64 {
        let now = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX);
        let tick = now.saturating_sub(self.epoch);
        if self.generation == UNUSED {
            self.generation = generation_at(now);
        }
        if tick < self.at as i64 {
            let back = match Ledger::of_state(self).window_at(Tick::from_nanos(self.at)) {
                None => (self.at as i64).saturating_sub(tick),
                // The time stays before the window, so that this window does not end twice.
                Some((begin, length)) => {
                    let before = begin.saturating_sub(tick).max(0) as u64;
                    (before - before % length) as i64
                }
            };
            if back > 0 {
                self.epoch = self.epoch.saturating_sub(back);
                self.generation = next(self.generation);
            }
        } else if tick > 2 * PRESENT as i64 {
            let period = self.quota.period_nanos();
            let by = tick as u64 - PRESENT;
            // In step with the period, a conversion of units is exact.
            let by = (by - if period < PRESENT { by % period } else { 0 }) as i64;
            let mut ledger = Ledger::of_state(self);
            ledger.shift(-by, Tick::from_nanos((tick - by) as u64));
            let at = (self.at as i64 - by).max(0) as u64;
            *self = Self {
                epoch: self.epoch.saturating_add(by),
                generation: generation_at(now),
                ..ledger.state(Tick::from_nanos(at))
            };
        }
        now.saturating_sub(self.epoch).max(0) as u64
    }

    /// Charges, and keeps the state after that.
    fn charged(&mut self, mut ledger: Ledger, present: Tick, units: u64) -> Charge {
        let receipt = ledger.charge(present, units);
        self.keep(ledger, present);
        let at = self.time_of(receipt.at);
        Charge(Receipt {
            generation: self.generation,
            at: Tick::after_epoch(at),
            ..receipt
        })
    }

    /// Takes over the state of a ledger that was made from this state.
    fn keep(&mut self, mut ledger: Ledger, present: Tick) {
        let generation = match ledger.generation() {
            same if same == self.generation => same,
            _ => next(self.generation),
        };
        *self = Self {
            epoch: self.epoch,
            generation,
            ..ledger.state(present)
        };
    }

    /// Returns the caller's time of a tick.
    fn time_of(&self, tick: Tick) -> Duration {
        let nanos = i128::from(tick.as_nanos()) + i128::from(self.epoch);
        Duration::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
    }

    /// Returns the state if it is one that a limiter can have.
    fn validated(self) -> Result<Self, RestoreError> {
        let most = self.algorithm.check(self.quota).ok();
        let most = most.map(|()| self.algorithm.batch(self.quota).max_burst());
        let is_near = |tick: i64| tick.unsigned_abs() <= 1 << 60;
        let owed = match (&self.owed, self.algorithm, most) {
            (
                Owed::Backlog {
                    end,
                    start,
                    refunded,
                },
                algorithm,
                Some(_),
            ) => {
                let is_counted = *end <= MAX_TAT && *refunded <= MOST_REFUNDED;
                algorithm.keeps_a_word() && is_counted && is_near(*start)
            }
            (Owed::Window(window), Algorithm::SlidingWindow, Some(most)) => {
                let counts = window.previous <= most && window.count <= MAX_COUNT;
                counts && is_near(window.start)
            }
            (Owed::Log { ticks, ahead, .. }, Algorithm::SlidingLog, Some(_)) => {
                let [first, last] =
                    [ticks.first(), ticks.last()].map(|it| it.copied().unwrap_or(0));
                let has_ticks = is_near(first) && last <= LAST_TICK as i64;
                ticks.is_sorted() && has_ticks && *ahead <= LAST_TICKET
            }
            _ => false,
        };
        let is_known = self.at <= LAST_TICK && self.generation <= LAST_GENERATION;
        let pause = self.pause.unwrap_or_default();
        let others = self.others.unwrap_or_default();
        let growth = others.growth.unwrap_or_default();
        let is_passed = growth.passed <= Duration::from_nanos(LAST_TICK);
        let ends = [pause.until, others.until.as_nanos(), growth.at.as_nanos()];
        let has_ends = ends.iter().all(|end| *end <= LAST_TICK || *end == u64::MAX);
        if owed && is_known && has_ends && is_passed {
            Ok(self)
        } else {
            Err(RestoreError::Garbage)
        }
    }
}
