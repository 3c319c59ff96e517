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
        if self.config.clock.is_of_runtime() && lock(&self.runtime).enter_runtime() {
            // It was armed in another runtime.
            self.timer.disarm();
            self.lock_state().clear();
        }
    }

    /// Charges between `cost` and `most` now, or nothing. What nearly every call needs is inlined
    /// into the caller: one look at the counter, one compare-exchange.
    #[inline(always)]
    pub(super) fn try_charge(&self, cost: u64, most: u64) -> Result<Charge, AcquireError> {
        if let Some(counter) = self.plain {
            match self.decide(cost, most, counter.now()) {
                Decided::Charged(charge) => return Ok(charge),
                Decided::Limited { due, now } => return Err(AcquireError::limited_until(due, now)),
                Decided::Locked | Decided::Lost => {}
            }
        }
        self.try_slowly(cost, most)
    }

    /// The same whatever the clock is, and with the lock if need be.
    #[cold]
    #[inline(never)]
    fn try_slowly(&self, cost: u64, most: u64) -> Result<Charge, AcquireError> {
        match self.decide_slowly(cost, most) {
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

    /// Charges between `cost` and `most` now, if there is nothing to wait for and the lock is not
    /// needed.
    #[inline(always)]
    pub(super) fn charge_if_free(&self, cost: u64, most: u64) -> Option<Charge> {
        if let Some(counter) = self.plain {
            match self.decide(cost, most, counter.now()) {
                Decided::Charged(charge) => return Some(charge),
                Decided::Limited { .. } | Decided::Locked => return None,
                Decided::Lost => {}
            }
        }
        match self.decide_slowly(cost, most) {
            Decided::Charged(charge) => Some(charge),
            _ => None,
        }
    }

    /// Decides until no other thread is faster. It waits a little longer each time: threads that
    /// take turns at the word are slower than one that has it for a while.
    #[cold]
    #[inline(never)]
    fn decide_slowly(&self, cost: u64, most: u64) -> Decided {
        self.enter_runtime();
        let mut lost = u32::from(self.plain.is_some());
        loop {
            if lost > 0 {
                spin(16 << lost.min(2));
            }
            match self.decide(cost, most, self.clock().now()) {
                Decided::Lost => lost += 1,
                decided => return decided,
            }
        }
    }

    /// Decides without the lock, at a tick that was read just before.
    #[inline(always)]
    fn decide(&self, cost: u64, most: u64, now: Tick) -> Decided {
        let seen = self.state.load();
        if self.params.is_even() {
            self.decide_by::<true>(seen, cost, most, now)
        } else {
            self.decide_unevenly(seen, cost, most, now)
        }
    }

    /// Where a unit is not a nanosecond. Not inlined: few quotas need it.
    #[inline(never)]
    fn decide_unevenly(&self, seen: StateSnapshot, cost: u64, most: u64, now: Tick) -> Decided {
        self.decide_by::<false>(seen, cost, most, now)
    }

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
        if seen.is_locked() || !is_ordinary {
            return self.decide_by_ring(cost, most, now);
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
                    ticket: tat.end() + self.params.refunded(),
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
            Err(_) if tat.end() > unit + params.burst_tolerance => Decided::Locked,
            Err(due) => {
                let due = self.params.tick_at(&params, due);
                match self.state.is_still(seen) {
                    true => Decided::Limited { due, now },
                    false => Decided::Lost,
                }
            }
        }
    }

    /// The same where the word does not decide.
    #[inline(never)]
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
