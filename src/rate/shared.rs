//! [`Shared`]: the state of a limiter, and its decisions without the lock.
//!
//! The timer shares it and may outlive a borrow, so it needs an `Arc`. It is created at the first
//! use, so that a limiter can be created in a constant.
//!
//! 1. A decision has two doors. [`decide_now`](Shared::decide_now) is inlined into the caller, and
//!    decides nearly every call: by the counter of the system clock, the word, and one
//!    compare-exchange. [`decide`](Shared::decide) decides everything else: by other rules, on other
//!    clocks, after another thread was faster, and with the lock. A call that may wait takes the
//!    lock itself, because it joins the queue under the same lock
//!    ([`Call::poll`](super::acquire::Call::poll)).
//! 2. [`decide_by_word`](Shared::decide_by_word), [`decide_by_window`](Shared::decide_by_window) and
//!    [`decide_by_ring`](Shared::decide_by_ring) are the only decisions without the lock, and
//!    [`admit`](super::locked::Locked::admit) is the only one with it, for all callers.
//! 3. Every other decision, and every change of due times, goes through one guard,
//!    [`Locked`](super::locked::Locked). To read the queue, to collect an outcome there, or to exchange a waker,
//!    the mutex alone is enough.

use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};

use super::charge::Charge;
use super::options::Config;
use super::state::{AtomicState, SharedParams, StateSnapshot};
use super::waiters::QueueState;
use crate::algorithm::sliding_log::{Claim, Ring};
use crate::algorithm::{
    Algorithm, LAST_TICK, Ledger, QuotaChange, Receipt, Restored, Tat, fresh_generation,
    tick_or_never,
};
use crate::error::AcquireError;
use crate::quota::Quota;
use crate::sync::{Mutex, MutexGuard, back_off, lock};
use crate::time::{Counter, Deadline, Tick};

/// The state of a limiter, which its timer shares.
pub struct Shared {
    pub(super) state: AtomicState,
    pub(super) params: SharedParams,
    /// The counter of the clock, if [`decide_now`](Self::decide_now) decides by it: the clock is the
    /// system's, there is no jitter, and a [`Tat`] is the whole state.
    word_counter: Option<Counter>,
    /// The same counter, if a [`Tat`] is not the whole state.
    other_counter: Option<Counter>,
    /// The ring that decides calls of cost 1, if the rule is a log.
    ring: Option<Arc<Ring>>,
    pub(super) config: Config,
    pub(super) queue: Mutex<QueueState>,
    /// The deadline at which the queue is served next. It is armed, and serves the queue, without
    /// the lock. Arming only moves it earlier; if it expires too early, the queue computes the due
    /// tick of its head, and arms it again.
    pub(super) timer: Deadline,
    /// The waker that the timer calls.
    on_deadline: Waker,
}

/// The outcome of a decision without the lock.
pub(super) enum Decided {
    Charged(Charge),
    Limited {
        due: Tick,
        now: Tick,
    },
    /// Not decided: [`decide`](Shared::decide) has to, or the holder of the lock.
    Undecided,
    /// Another thread has changed the word at the same time.
    Contended,
}

impl Decided {
    #[inline(always)]
    fn unless_doubtful(self) -> Self {
        match self {
            Self::Limited { due, now } if is_doubtful(due, now) => Self::Undecided,
            decided => decided,
        }
    }
}

/// Returns whether a refusal may be wrong because the counter was read ahead of the word. A
/// processor may do that, by some nanoseconds.
#[inline(always)]
fn is_doubtful(due: Tick, now: Tick) -> bool {
    due.as_nanos().saturating_sub(now.as_nanos()) < 1_000
}

impl Shared {
    /// Creates the state of a limiter under a quota, which may go on from an earlier one.
    pub(super) fn new(
        quota: (Quota, QuotaChange),
        restored: Option<&Restored>,
        config: Config,
    ) -> Arc<Self> {
        let generation = fresh_generation();
        let ledger = match restored {
            None => Ledger::new(config.algorithm, quota.0, config.origin, generation),
            Some(it) => {
                let now = config.clock.now();
                Ledger::restored(it, quota, config.origin, now, generation)
            }
        };
        Self::of_ledger(ledger, config)
    }

    /// Creates the state of a limiter that may have made charges.
    pub(super) fn of_ledger(ledger: Ledger, config: Config) -> Arc<Self> {
        let (state, params) = (AtomicState::default(), SharedParams::default());
        params.store(&ledger);
        params.set_admits_all(ledger.admits_all());
        let is_free = ledger.is_free();
        state.store(
            state.load().with(ledger.word()),
            !is_free || !ledger.is_in_word(),
        );
        if is_free {
            ledger.unlock();
        }
        let ring = ledger.ring().map(Arc::clone);
        let counter = config.clock.counter().filter(|_| config.jitter == 0);
        let queue = QueueState::new(ledger);
        Arc::new_cyclic(|this: &Weak<Self>| Self {
            state,
            params,
            word_counter: counter.filter(|_| config.algorithm.keeps_a_word()),
            other_counter: counter.filter(|_| !config.algorithm.keeps_a_word()),
            ring,
            config,
            queue: Mutex::new(queue),
            timer: Deadline::new(),
            on_deadline: Waker::from(Arc::new(OnDeadline(Weak::clone(this)))),
        })
    }

    /// Locks the queue alone, for callers that need no time and change no due times.
    pub(super) fn queue(&self) -> MutexGuard<'_, QueueState> {
        lock(&self.queue)
    }

    /// Decides by the counter and the word. The path of nearly every call is inlined into the
    /// caller: one reading of the counter, one compare-exchange. It keeps nothing across a call, so
    /// the registers of the caller need not be saved.
    #[inline(always)]
    pub(super) fn decide_now(&self, cost: u64) -> Decided {
        match self.word_and_tick(self.word_counter) {
            Some((seen, now)) => self.decide_by_word(seen, cost, now).unless_doubtful(),
            None => Decided::Undecided,
        }
    }

    /// Decides a call that is not decided at once by the counter of the system clock: by a window, by
    /// a log, or without a limit.
    #[inline(always)]
    pub(super) fn decide_by_counter(&self, cost: u64) -> Decided {
        let decided = match self.word_and_tick(self.other_counter) {
            Some((_, now)) if self.ring.is_some() => self.decide_by_ring(cost, now),
            Some((seen, now)) => self.decide_by_window(seen, cost, now),
            None if self.word_counter.is_some() => return self.decide_without_limit(cost),
            None => return Decided::Undecided,
        };
        decided.unless_doubtful()
    }

    /// Decides every other call that does not wait: on any clock, and with the lock if necessary.
    #[inline(never)]
    pub(super) fn decide(&self, cost: u64) -> Result<Charge, AcquireError> {
        match self.decide_without_lock(cost) {
            Decided::Charged(charge) => Ok(charge),
            Decided::Limited { due, now } => Err(self.config.limited(due, now)),
            Decided::Undecided | Decided::Contended => self.decide_with_lock(cost),
        }
    }

    /// Reads the word, and then a counter, if there is one: an older tick would miss the time of
    /// charges that others made in between, and refuse although there is room. Returns `None` if no
    /// decision is possible.
    #[inline(always)]
    fn word_and_tick(&self, counter: Option<Counter>) -> Option<(StateSnapshot, Tick)> {
        let (counter, seen) = (counter?, self.state.load());
        if seen.is_locked() && self.ring.is_none() {
            return None;
        }
        Some((seen, counter.now_in_window()?))
    }

    /// Decides by any rule and on any clock, and repeats while another thread is faster. Checks the
    /// first doubtful refusal again. Reads no clock if every call is admitted.
    #[inline(always)]
    pub(super) fn decide_without_lock(&self, cost: u64) -> Decided {
        let unlimited = self.decide_without_limit(cost);
        if let Decided::Charged(_) = unlimited {
            return unlimited;
        }
        let (mut lost, mut looked) = (0, false);
        loop {
            let seen = self.state.load();
            let now = match self.word_counter.or(self.other_counter) {
                Some(counter) => counter.now(),
                None => self.config.clock.now(),
            };
            let decided = match self.config.algorithm {
                _ if seen.is_locked() => self.decide_by_ring(cost, now),
                Algorithm::SlidingWindow => self.decide_by_window(seen, cost, now),
                _ => self.decide_by_word(seen, cost, now),
            };
            match decided {
                Decided::Contended => back_off(&mut lost),
                Decided::Limited { due, now } if !looked && is_doubtful(due, now) => looked = true,
                decided => return decided,
            }
        }
    }

    /// Charges a call if every call is admitted.
    #[inline(always)]
    fn decide_without_limit(&self, cost: u64) -> Decided {
        if self.params.admits_all() {
            Decided::Charged(Charge::without_limit(cost))
        } else {
            Decided::Undecided
        }
    }

    /// Decides by the unlocked word, at a tick that was read just after it.
    #[inline(always)]
    fn decide_by_word(&self, seen: StateSnapshot, cost: u64, now: Tick) -> Decided {
        let params = self.params.load();
        // First, because it asks for the same conditions as the load.
        let (tat, unit) = (seen.tat(), params.units_unless_dense(now));
        let price = params.units_of(cost);
        // A cost of 1 is never more than the burst.
        let is_ordinary = cost == 1 || cost > 0 && price <= params.burst_tolerance;
        if !is_ordinary {
            return Decided::Undecided;
        }
        match tat.take(&params, unit, price) {
            Ok(tat) => {
                let mut receipt = tat.receipt(now, cost, tat.end().wrapping_sub(unit));
                receipt.ticket = receipt.ticket.wrapping_add(self.params.first_ticket());
                self.confirm(seen, now, Ok((tat, receipt)))
            }
            // Only a backlog beyond the burst, a clock that was set back, or a time that is never
            // reached leads here. The holder of the lock knows which of them it is.
            Err(due)
                if tat.end() > unit.wrapping_add(params.burst_tolerance) || due > LAST_TICK =>
            {
                Decided::Undecided
            }
            Err(due) => self.confirm(seen, now, Err(self.params.tick_at(&params, due))),
        }
    }

    /// Decides by the sliding window of the unlocked word.
    #[inline(always)]
    fn decide_by_window(&self, seen: StateSnapshot, cost: u64, now: Tick) -> Decided {
        match self.params.window(seen.tat()).try_charge(now, cost) {
            Some(decided) => self.confirm(seen, now, decided),
            None => Decided::Undecided,
        }
    }

    /// Writes the word after a charge, or returns the tick at which a charge is due. It fails if
    /// the word has changed, because the parameters were then not of one moment.
    #[inline(always)]
    fn confirm(
        &self,
        seen: StateSnapshot,
        now: Tick,
        decided: Result<(Tat, Receipt), Tick>,
    ) -> Decided {
        match decided {
            Ok((word, receipt)) => {
                let generation = self.params.generation();
                if !self.state.exchange(seen, word) {
                    return Decided::Contended;
                }
                Decided::Charged(Charge(Receipt {
                    generation,
                    ..receipt
                }))
            }
            Err(due) if self.state.is_still(seen) => Decided::Limited { due, now },
            Err(_) => Decided::Contended,
        }
    }

    /// Decides by the log, if there is one.
    #[inline(always)]
    fn decide_by_ring(&self, cost: u64, now: Tick) -> Decided {
        let Some(ring) = self.ring.as_ref().filter(|_| cost == 1) else {
            return Decided::Undecided;
        };
        match ring.try_charge(now.as_nanos()) {
            Claim::Charged { ticket, at } => Decided::Charged(Charge(Receipt {
                ticket,
                // If this generation is a later one, the log knows that the ticket is from an
                // earlier one.
                generation: self.params.generation(),
                cost,
                at: now.max(Tick::from_nanos(at)),
                owed: 0,
            })),
            Claim::Denied(due) => {
                let due = tick_or_never(due);
                Decided::Limited { due, now }
            }
            Claim::Locked => Decided::Undecided,
        }
    }

    /// Gives back up to `cost` of a charge.
    pub(super) fn refund(&self, charge: &Charge, cost: u64) {
        if self.params.is_unlimited() {
            // Nothing is owed, not even for a charge under an earlier quota. A limit that is set in
            // the meantime owes nothing for it either.
            return;
        }
        self.give_back(charge, cost);
    }

    /// Arms the timer to serve the queue at `due`, or earlier.
    pub(super) fn arm(&self, due: Tick) {
        self.timer
            .arm(&self.config.clock, due, self.on_deadline.clone());
    }
}

/// Serves the queue. It holds the limiter weakly, so a limiter that is dropped while its timer is
/// armed is freed.
struct OnDeadline(Weak<Shared>);

impl Wake for OnDeadline {
    fn wake(self: Arc<Self>) {
        if let Some(shared) = self.0.upgrade() {
            shared.on_deadline();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use crate::{Clock, Quota, RateLimiter};

    /// The clock blocks its readers in the meantime.
    #[test]
    fn try_acquire_without_a_limit_reads_no_clock() {
        let clock = Clock::manual();
        let limiter = RateLimiter::new(Quota::UNLIMITED).clock(&clock);
        let (sender, outcomes) = mpsc::channel();
        let calls = thread::spawn(move || {
            for cost in [0, 1, u64::MAX] {
                let tried = limiter.try_acquire_many(cost);
                let waited = limiter.acquire_many(cost).wait();
                let batch = limiter.local(32).try_acquire_many(cost);
                let all = [tried.is_ok(), waited.is_ok(), batch.is_ok()];
                sender.send(all).unwrap();
            }
        });
        clock.with_lock(|| {
            for _ in 0..3 {
                let all = outcomes.recv_timeout(Duration::from_secs(60));
                assert_eq!(all, Ok([true; 3]), "a call reads the clock");
            }
        });
        calls.join().unwrap();
    }
}
