//! The state of a limiter, and deciding without its lock.
//!
//! It is shared with the alarm, which outlives a borrow and so needs an `Arc`; it is made at the
//! first use, so that a limiter can be made in a constant.

mod ahead;

use std::sync::atomic::AtomicU64 as StdAtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::cell::{Cell, Seen, SharedLimits};
use super::charge::Charge;
use super::config::Config;
use super::protocol::Lines;
use super::rule::Memory;
use crate::algorithm::{Algorithm, Debt};
use crate::error::AcquireError;
use crate::quota::Quota;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, lock, spin};
use crate::time::{Clock, Counter, Deadline, LastRuntime, Tick};

pub(super) use self::ahead::{Asked, Hand};

/// A limiter.
pub(super) struct Core {
    pub(super) cell: Cell,
    pub(super) limits: SharedLimits,
    /// Units that were refunded. Written under the lock while the word is held.
    pub(super) refunded: AtomicU64,
    pub(super) rule: Option<Box<Memory>>,
    /// If it lives by the clock of the system and the default rule, and there is nothing to count
    /// or to be added at random.
    plain: Option<Counter>,
    pub(super) config: Config,
    pub(super) counts: Option<Box<Counts>>,
    /// What only those need who wait, or change something.
    slow: OnceLock<Box<Slow>>,
}

/// What the deciding paths do without.
struct Slow {
    lines: Mutex<Lines>,
    deadline: Deadline,
    /// The runtime in which it was used last, if it runs on tokio's time.
    last_runtime: Mutex<LastRuntime>,
}

/// What can be told without the lock.
pub(super) enum Decided {
    Charged(Charge),
    Limited {
        due: Tick,
        now: Tick,
    },
    /// Only under the lock.
    Held,
    /// Somebody else was faster; or there is more to it than a [first try](Core::first_try) does.
    Lost,
}

/// Calls, counted. Nothing depends on them, so they are not the atomics of a modelled protocol.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) admitted: StdAtomicU64,
    pub(super) denied: StdAtomicU64,
    pub(super) cancelled: StdAtomicU64,
}

/// Counts one more.
pub(super) fn count(counter: &StdAtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Core {
    pub(super) fn new(quota: Quota, mut config: Config) -> Arc<Self> {
        config.clock = config.clock.resolved();
        let algorithm = config.algorithm;
        let plain = config.clock.counter().filter(|_| config.is_plain());
        Arc::new(Self {
            cell: Cell::new(),
            limits: SharedLimits::new(algorithm, quota),
            refunded: AtomicU64::new(0),
            rule: Memory::new(algorithm, quota, plain),
            plain: plain.filter(|_| algorithm == Algorithm::Gcra),
            counts: config.statistics.then(Box::default),
            config,
            slow: OnceLock::new(),
        })
    }

    fn slow(&self) -> &Slow {
        self.slow.get_or_init(|| {
            Box::new(Slow {
                lines: Mutex::new(Lines::new()),
                deadline: Deadline::new(),
                last_runtime: Mutex::new(LastRuntime::default()),
            })
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Lines> {
        lock(&self.slow().lines)
    }

    pub(super) fn deadline(&self) -> &Deadline {
        &self.slow().deadline
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.config.clock
    }

    /// Restarts a limiter on tokio's time that was last used in another runtime, because the times
    /// of two runtimes need not agree. Called before the lock is taken, and before the clock is read
    /// without it.
    #[inline]
    pub(super) fn enter_runtime(&self) {
        if self.config.clock.is_of_runtime() {
            self.restart_in_new_runtime();
        }
    }

    #[cold]
    fn restart_in_new_runtime(&self) {
        // The lock was a temporary: restarting takes another one.
        let restarts = lock(&self.slow().last_runtime).enter_runtime();
        if restarts {
            self.restart();
        }
    }

    /// Takes so much now, or not at all. What nearly everybody needs is inlined into the caller: one
    /// look at the counter, one compare-exchange.
    #[inline(always)]
    pub(super) fn try_take(&self, cost: u64) -> Result<Charge, AcquireError> {
        match self.first_try(cost) {
            Decided::Charged(charge) => Ok(charge),
            Decided::Limited { due, now } => {
                let after = due.as_nanos().saturating_sub(now.as_nanos());
                Err(AcquireError::limited_nanos(after))
            }
            Decided::Held => self.try_held(cost),
            Decided::Lost => match self.rule.as_deref() {
                Some(Memory::Log(log)) => match log.plain {
                    Some(counter) => self.try_by_log(log, cost, counter.now()),
                    None => self.try_by_rule(cost),
                },
                _ => self.try_by_rule(cost),
            },
        }
    }

    /// The same by any rule.
    #[inline(never)]
    fn try_by_rule(&self, cost: u64) -> Result<Charge, AcquireError> {
        // Each is told by itself, and not by way of a place in which all of them put what was
        // decided: that takes as long as it does to decide.
        let decided = match self.rule.as_deref() {
            Some(Memory::Log(log)) => match log.plain_short {
                Some(counter) => {
                    let decided = self.decide_by_short_log(log, cost, counter.now());
                    return self.told(decided, cost);
                }
                None => Decided::Lost,
            },
            Some(Memory::Window(memory)) => match memory.plain {
                Some(counter) => self.decide_by_window(memory, cost, counter.now()),
                None => Decided::Lost,
            },
            None => match self.config.clock.counter() {
                Some(counter) if self.plain.is_none() && self.config.is_plain() => {
                    self.decide::<true>(cost, counter.now())
                }
                _ => Decided::Lost,
            },
        };
        self.told(decided, cost)
    }

    #[inline(always)]
    fn told(&self, decided: Decided, cost: u64) -> Result<Charge, AcquireError> {
        match decided {
            Decided::Charged(charge) => Ok(charge),
            Decided::Limited { due, now } => {
                let after = due.as_nanos().saturating_sub(now.as_nanos());
                Err(AcquireError::limited_nanos(after))
            }
            Decided::Held => self.try_held(cost),
            Decided::Lost => self.try_slowly(cost),
        }
    }

    /// Takes so much now, or not at all, whatever is to be heeded.
    #[cold]
    #[inline(never)]
    pub(super) fn try_slowly(&self, cost: u64) -> Result<Charge, AcquireError> {
        let result = match self.try_again(cost) {
            Decided::Charged(charge) => Ok(charge),
            Decided::Limited { due, now } => Err(self.limited(due, now)),
            Decided::Held | Decided::Lost => self.try_held(cost),
        };
        if let Some(counts) = &self.counts {
            count(match result {
                Ok(_) => &counts.admitted,
                Err(_) => &counts.denied,
            });
        }
        result
    }

    /// Takes so much now, if there is nothing to wait for and the lock is not needed.
    #[inline]
    pub(super) fn take_free(&self, cost: u64) -> Option<Charge> {
        match self.first_try(cost) {
            Decided::Charged(charge) => Some(charge),
            Decided::Limited { .. } | Decided::Held => None,
            Decided::Lost => self.take_slowly(cost),
        }
    }

    #[cold]
    #[inline(never)]
    fn take_slowly(&self, cost: u64) -> Option<Charge> {
        let Decided::Charged(charge) = self.try_again(cost) else {
            return None;
        };
        if let Some(counts) = &self.counts {
            count(&counts.admitted);
        }
        Some(charge)
    }

    #[inline(always)]
    fn first_try(&self, cost: u64) -> Decided {
        match self.plain {
            Some(counter) => self.decide::<false>(cost, counter.now()),
            None => Decided::Lost,
        }
    }

    /// Until nobody else is faster. That is waited for a little longer each time: threads that
    /// take turns at the word are slower than one that has it for a while.
    fn try_again(&self, cost: u64) -> Decided {
        self.enter_runtime();
        let mut lost = u32::from(self.plain.is_some());
        loop {
            back_off(lost);
            match self.decide_by_rule(cost, self.clock().now()) {
                Decided::Lost => lost += 1,
                decided => return decided,
            }
        }
    }

    /// Decides by what is owed, at a tick that was read just before. Without `STEPS` the time of
    /// the rule goes on evenly.
    #[inline(always)]
    pub(super) fn decide<const STEPS: bool>(&self, cost: u64, now: Tick) -> Decided {
        let seen = self.cell.load();
        let limits = self.limits.load::<STEPS>();
        let price = limits.of(cost);
        if seen.is_held() || price > limits.tolerance || cost == 0 {
            return Decided::Held;
        }
        let unit = limits.at(now);
        match seen.debt().take(&limits, unit, price) {
            Ok(debt) => {
                let charge = self.charge_until(debt, unit, now, cost);
                if self.cell.exchange(seen, debt.end()) {
                    Decided::Charged(charge)
                } else {
                    Decided::Lost
                }
            }
            // Only by a charge beyond the burst; or the clock was set back.
            Err(_) if seen.debt().at(unit) > limits.tolerance => Decided::Held,
            Err(due) => {
                let due = self.limits.inverse::<STEPS>().tick_at(due);
                if self.cell.confirms(seen) {
                    Decided::Limited { due, now }
                } else {
                    Decided::Lost
                }
            }
        }
    }

    /// The first tick at which so many units have passed.
    #[inline]
    pub(super) fn tick_at(&self, units: u64) -> Tick {
        self.limits.inverse::<true>().tick_at(units)
    }

    /// The charge that ends where the debt now ends.
    #[inline]
    fn charge_until(&self, debt: Debt, unit: u64, at: Tick, cost: u64) -> Charge {
        Charge {
            ticket: debt.end() + self.refunded.load(Ordering::Relaxed),
            generation: self.limits.generation(),
            cost,
            at,
            owed: debt.at(unit),
        }
    }

    /// A charge by a rule that remembers when it was made.
    #[inline]
    pub(super) fn remembered(&self, ticket: u64, at: Tick, cost: u64) -> Charge {
        Charge {
            ticket,
            generation: self.limits.generation(),
            cost,
            at,
            owed: 0,
        }
    }

    /// The charge that led to this.
    pub(super) fn receipt(&self, seen: Seen, unit: u64, at: Tick, cost: u64) -> Charge {
        match self.rule.as_deref() {
            None => self.charge_until(seen.debt(), unit, at, cost),
            Some(Memory::Window(_)) => self.remembered(0, at, cost),
            Some(Memory::Log(log)) => self.remembered(log.passed(seen), at, cost),
        }
    }

    /// Refused until `due`.
    #[inline]
    pub(super) fn limited(&self, due: Tick, now: Tick) -> AcquireError {
        let after = due.saturating_since(now);
        if self.config.jitter().is_zero() {
            AcquireError::limited(after)
        } else {
            AcquireError::limited(self.jittered(after))
        }
    }

    /// Somewhat longer, if that was asked for.
    pub(super) fn jittered(&self, after: Duration) -> Duration {
        after.saturating_add(self.config.jitter().mul_f64(fraction()))
    }
}

/// Waits a moment, if somebody else was faster so often.
fn back_off(lost: u32) {
    if lost > 0 {
        spin(16 << lost.min(2));
    }
}

/// Something from 0 to 1, different each time.
#[cold]
fn fraction() -> f64 {
    use std::hash::{BuildHasher, RandomState};
    let random = RandomState::new().hash_one(0);
    (random >> 11) as f64 / (1_u64 << 53) as f64
}
