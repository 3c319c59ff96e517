//! [`Shared`]: the state of a limiter, and how it decides without its lock.
//!
//! It is shared with the timer, which outlives a borrow and so needs an `Arc`; it is created at the
//! first use, so that a limiter can be made in a constant.
//!
//! 1. [`decide`](Shared::decide) is the only decision without the lock, and
//!    [`admit`](super::queue::Locked::admit) the only one with it, whoever asks.
//! 2. Whatever else reads or writes the state does so through one guard,
//!    [`Locked`](super::queue::Locked).

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::charge::Charge;
use super::config::Config;
use super::queue::{Locked, QueueState, Refusal};
use super::state::{AtomicState, SharedParams, StateSnapshot};
use super::timer::QueueTimer;
use crate::algorithm::sliding_log::{Claim, Ring};
use crate::algorithm::{Receipt, RuleState, Tat, tick_or_never};
use crate::decision::wait_for;
use crate::error::AcquireError;
use crate::quota::Quota;
use crate::sync::{Mutex, MutexGuard, lock, spin};
use crate::time::{Clock, Counter, LastRuntime, Tick};

/// A limiter.
pub(crate) struct Shared {
    pub(super) state: AtomicState,
    pub(super) params: SharedParams,
    /// What the clock reads, if it is the system's and nothing is added at random.
    plain: Option<Counter>,
    /// What decides calls of cost 1 by a log.
    ring: Option<Arc<Ring>>,
    pub(super) config: Config,
    queue: Mutex<QueueState>,
    pub(super) timer: QueueTimer,
    /// Where it was used last, if it lives on tokio's time.
    runtime: Mutex<LastRuntime>,
}

/// What can be told without the lock.
enum Decided {
    Charged(Charge),
    Limited {
        due: Tick,
        now: Tick,
    },
    /// Only with the lock.
    Locked,
    /// Another thread was faster.
    Lost,
}

/// Why a charge was not made at once.
pub(super) enum NotAtOnce {
    /// There is something to wait for, or the lock is needed.
    OnlyLocked,
    /// It may still be made without the lock: at this tick, unless another thread was faster.
    Unlocked(Option<Tick>),
}

impl Shared {
    pub(super) fn new(quota: Quota, config: Config) -> Arc<Self> {
        Self::owing(quota, config, 0, Tat::from_units(0))
    }

    /// A limiter with a backlog.
    pub(super) fn owing(quota: Quota, mut config: Config, generation: u64, tat: Tat) -> Arc<Self> {
        config.clock = config.clock.resolved();
        let rule = RuleState::new(config.algorithm, quota, config.aligned);
        let (state, params) = (AtomicState::new(), SharedParams::new());
        params.store(&rule, generation);
        state.store(state.load().with(tat), !rule.is_in_word());
        let ring = rule.ring().map(Arc::clone);
        let queue = QueueState::new(rule, quota, generation);
        Arc::new_cyclic(|this: &Weak<Self>| Self {
            state,
            params,
            plain: config.clock.counter().filter(|_| config.jitter.is_zero()),
            ring,
            config,
            queue: Mutex::new(queue),
            timer: QueueTimer::new(Weak::clone(this)),
            runtime: Mutex::new(LastRuntime::default()),
        })
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.config.clock
    }

    /// Locks the queue alone, for who needs no time and changes nothing that is due.
    pub(super) fn queue(&self) -> MutexGuard<'_, QueueState> {
        lock(&self.queue)
    }

    /// Starts fresh in another runtime than the last one, if the limiter lives on their time: the
    /// times of two runtimes need not agree. To be called before the clock is read.
    #[inline]
    pub(super) fn enter_runtime(&self) {
        if !self.config.clock.is_of_runtime() {
            return;
        }
        if lock(&self.runtime).enter_runtime() {
            // It was armed in another runtime.
            self.timer.disarm();
            self.lock_state().clear();
        }
    }

    /// Charges between `cost` and `most` now, or nothing. What nearly every call needs is inlined
    /// into the caller: one look at the counter, one compare-exchange.
    #[inline(always)]
    pub(super) fn try_charge(&self, cost: u64, most: u64) -> Result<Charge, AcquireError> {
        match self.decide_at_once(cost, most) {
            Ok(Decided::Charged(charge)) => Ok(charge),
            Ok(Decided::Limited { due, now }) => Err(AcquireError::limited_until(due, now)),
            Ok(Decided::Locked | Decided::Lost) => self.try_slowly(cost, most, None),
            Err(now) => self.try_slowly(cost, most, now),
        }
    }

    /// The same whatever the clock is, and with the lock if need be.
    #[inline(never)]
    fn try_slowly(&self, cost: u64, most: u64, now: Option<Tick>) -> Result<Charge, AcquireError> {
        match self.decide_slowly(cost, most, now) {
            Decided::Charged(charge) => Ok(charge),
            Decided::Limited { due, now } => Err(self.limited(due, now)),
            Decided::Locked | Decided::Lost => {
                let mut locked = self.lock_on_time();
                locked.admit(cost, most).map_err(|refusal| match refusal {
                    Refusal::Never(error) => error,
                    Refusal::Until(due) => self.limited(due, locked.now()),
                })
            }
        }
    }

    /// Charges between `cost` and `most` now, if that takes one compare-exchange.
    #[inline(always)]
    pub(super) fn charge_at_once(&self, cost: u64, most: u64) -> Result<Charge, NotAtOnce> {
        match self.decide_at_once(cost, most) {
            Ok(Decided::Charged(charge)) => Ok(charge),
            Ok(Decided::Limited { .. } | Decided::Locked) => Err(NotAtOnce::OnlyLocked),
            Ok(Decided::Lost) => Err(NotAtOnce::Unlocked(None)),
            Err(now) => Err(NotAtOnce::Unlocked(now)),
        }
    }

    /// Charges between `cost` and `most` now, if there is nothing to wait for and the lock is not
    /// needed.
    pub(super) fn charge_if_free(&self, cost: u64, most: u64) -> Option<Charge> {
        self.charge_at_once(cost, most)
            .or_else(|why| self.charge_unlocked(cost, most, why).ok_or(()))
            .ok()
    }

    /// The same, after the first attempt.
    #[inline(never)]
    pub(super) fn charge_unlocked(&self, cost: u64, most: u64, why: NotAtOnce) -> Option<Charge> {
        match why {
            NotAtOnce::OnlyLocked => None,
            NotAtOnce::Unlocked(now) => match self.decide_slowly(cost, most, now) {
                Decided::Charged(charge) => Some(charge),
                _ => None,
            },
        }
    }

    /// Decides if the clock is a counter, the word decides, and a unit is a nanosecond. Otherwise
    /// it is for [`decide_slowly`](Self::decide_slowly), at the tick that was read here, if any.
    #[inline(always)]
    fn decide_at_once(&self, cost: u64, most: u64) -> Result<Decided, Option<Tick>> {
        let Some(counter) = self.plain else {
            return Err(None);
        };
        let now = counter.now();
        let seen = self.state.load();
        if seen.is_locked() || !self.params.is_even() {
            return Err(Some(now));
        }
        Ok(self.decide_by::<true>(seen, cost, most, now))
    }

    /// Decides until no other thread is faster: first at the tick that is given, unless another
    /// thread has been faster already. It waits a little longer each time: threads that take turns at
    /// the word are slower than one that has it for a while.
    #[inline(always)]
    fn decide_slowly(&self, cost: u64, most: u64, mut now: Option<Tick>) -> Decided {
        self.enter_runtime();
        // At once.
        let mut lost = u32::from(self.plain.is_some() && now.is_none());
        loop {
            if lost > 0 {
                spin(16 << lost.min(2));
            }
            let now = now.take().unwrap_or_else(|| self.clock().now());
            let seen = self.state.load();
            let decided = if seen.is_locked() {
                self.decide_by_ring(cost, most, now)
            } else {
                self.decide_by::<false>(seen, cost, most, now)
            };
            match decided {
                Decided::Lost => lost += 1,
                decided => return decided,
            }
        }
    }

    /// Decides by the word, which is not locked, at a tick that was read just before.
    #[inline(always)]
    fn decide_by<const EVEN: bool>(
        &self,
        seen: StateSnapshot,
        cost: u64,
        most: u64,
        now: Tick,
    ) -> Decided {
        let params = self.params.load::<EVEN>();
        let price = params.units_of(cost);
        // One is never more than the burst.
        let is_ordinary = cost == 1 || cost > 0 && price <= params.burst_tolerance;
        if !is_ordinary {
            return Decided::Locked;
        }
        let (tat, unit) = (seen.tat(), params.units_at(now));
        let (cost, price) = if most > cost {
            let room = params.burst_tolerance.saturating_sub(tat.backlog_at(unit));
            let cost = most.min(params.tokens(room)).max(cost);
            (cost, params.units_of(cost))
        } else {
            (cost, price)
        };
        match tat.take(&params, unit, price) {
            Ok(tat) => {
                let charge = Charge::from(Receipt {
                    ticket: tat.end().wrapping_add(self.params.refunded()),
                    generation: self.params.generation(),
                    cost,
                    at: now,
                    owed: tat.backlog_at(unit),
                });
                match self.state.exchange(seen, tat) {
                    true => Decided::Charged(charge),
                    false => Decided::Lost,
                }
            }
            // Only by a charge beyond the burst; or the clock was set back.
            Err(_) if tat.end() > unit.wrapping_add(params.burst_tolerance) => Decided::Locked,
            Err(due) => {
                let due = self.params.tick_at(&params, due);
                match self.state.is_still(seen) {
                    true => Decided::Limited { due, now },
                    false => Decided::Lost,
                }
            }
        }
    }

    /// Decides by the log, if there is one.
    #[inline(always)]
    fn decide_by_ring(&self, cost: u64, most: u64, now: Tick) -> Decided {
        let Some(ring) = self.ring.as_ref().filter(|_| cost == 1 && most == 1) else {
            return Decided::Locked;
        };
        match ring.try_charge(now.as_nanos()) {
            Claim::Charged { ticket, at } => Decided::Charged(Charge::from(Receipt {
                ticket,
                // If it is a later one, the log knows that the ticket is of an earlier.
                generation: self.params.generation(),
                cost,
                at: now.max(Tick::from_nanos(at)),
                owed: 0,
            })),
            Claim::Denied(due) => {
                let due = tick_or_never(due);
                Decided::Limited { due, now }
            }
            Claim::Locked => Decided::Locked,
        }
    }

    /// Refused until `due`.
    pub(super) fn limited(&self, due: Tick, now: Tick) -> AcquireError {
        if self.config.jitter.is_zero() {
            return AcquireError::limited_until(due, now);
        }
        AcquireError::limited(self.jittered(wait_for(due, now)))
    }

    /// Somewhat longer, if that was asked for.
    pub(super) fn jittered(&self, after: Duration) -> Duration {
        match self.config.jitter {
            Duration::ZERO => after,
            jitter => after.saturating_add(jitter.mul_f64(fraction())),
        }
    }

    /// Locks the state: nobody decides without the lock until the guard ends, and the guard has the
    /// time, which is read only then.
    pub(super) fn lock_state(&self) -> Locked<'_> {
        Locked::new(self, lock(&self.queue))
    }

    /// Locks the state when no waiter is due: the timer may be late, and a newcomer must not be
    /// admitted before a waiter, nor be told to come again at once.
    pub(super) fn lock_on_time(&self) -> Locked<'_> {
        self.enter_runtime();
        loop {
            let mut locked = self.lock_state();
            if !locked.grant_due() {
                return locked;
            }
            locked.end();
        }
    }

    /// Grants whatever is due.
    pub(super) fn grant_all_due(&self) {
        loop {
            let mut locked = self.lock_state();
            locked.grant_due();
            if !locked.end() {
                return;
            }
        }
    }

    /// The timer calls when the head may be due.
    pub(super) fn on_deadline(&self) {
        // First, so that what is armed from now on is armed anew.
        self.timer.disarm();
        self.lock_state().serve();
    }
}

/// Something from 0 to 1, different each time.
#[cold]
fn fraction() -> f64 {
    use std::hash::{BuildHasher, RandomState};
    let random = RandomState::new().hash_one(0);
    (random >> 11) as f64 / (1_u64 << 53) as f64
}
