//! [`Locked`]: the one guard for all operations under the lock of a limiter.
//!
//! Invariants, together with those of the [word](super::state), the [wait queue](crate::wait_queue)
//! and the [timer](Shared::arm):
//!
//! 1. [`Locked`] takes the lock, then sets `LOCKED` in the word, then reads the clock. So no
//!    decision without the lock has a later tick than the guard's and an earlier place in the
//!    order. No writer can use an older tick, because the guard's is the only one.
//! 2. When the guard ends, it publishes the word, and clears `LOCKED` unless there are waiters, the
//!    limiter is closed, or the [ledger](Ledger::is_free) has more than the word. It calls wakers
//!    and arms the timer after it has released the lock. Nobody else writes `LOCKED` or the epoch.
//! 3. A waiter is charged nothing until it is granted, so one that leaves moves all waiters behind
//!    it up. Its slot keeps its charge until the waiter collects it; a waiter that leaves with a
//!    charge gives it back like any refund.
//! 4. [`grant_due`](Locked::grant_due) is the only place where a waiter is served, and it serves
//!    only the head: a 1 never passes a 50.
//! 5. Every change of the ledger from outside goes through one door, [`change`](Locked::change). It
//!    refuses waiters that have become impossible, grants those that have become due, at this tick,
//!    and has the timer armed for the next one. The timer does the same. The queue moves without a
//!    poll of any future. Beside it, the guard itself brings the ledger to its tick, and charges a
//!    call that it admits or grants.
//! 6. One call, or one expiry of the timer, serves at most [`SERVED_AT_ONCE`] waiters, and releases
//!    the lock after each batch that it wakes. If the next waiter is then due, the timer is armed
//!    for its tick, so it expires at once, and the timer or the next caller continues. Until then a
//!    new call is neither admitted nor told to come again now: it is due
//!    [after](Locked::due_of_next) this tick.
//! 7. No waiter asks for more than the burst: a change that lowers the burst refuses those that do,
//!    before the next head is timed.
//! 8. The number of steps of an operation does not grow with the queue, except for such a change
//!    that [refuses](WaitQueue::refuse_above) somebody.

use std::ops::{Deref, DerefMut};
use std::task::Waker;
use std::time::Duration;

use super::charge::Charge;
use super::shared::Shared;
use super::state::StateSnapshot;
use super::waiters::{QueueEntry, QueueState, Request};
use crate::algorithm::{Ledger, Receipt};
use crate::error::{AcquireError, Cause, ErrorKind};
use crate::panic::contain_panic;
use crate::status::{Decision, Snapshot};
use crate::sync::{MutexGuard, SERVED_AT_ONCE};
use crate::time::{Tick, wait_for};
use crate::wait_queue::{WaiterId, WakeList};

/// The maximum time after the due tick of the head at which the timer serves a queue, to serve
/// other waiters with it.
const TOGETHER: Duration = Duration::from_millis(2);

/// The timer serves together the waiters that fit into the burst divided by this number.
const PARTS: u64 = 32;

/// The lock of a limiter, with the time.
pub(super) struct Locked<'a> {
    pub(super) shared: &'a Shared,
    /// `None` while it is unlocked to wake waiters.
    queue: Option<MutexGuard<'a, QueueState>>,
    seen: StateSnapshot,
    /// The tick of all operations under this guard.
    pub(super) now: Tick,
    woken: WakeList,
    /// The number of waiters that this call may still serve.
    left: usize,
    /// Whether to arm the timer for the head.
    arms: bool,
}

impl Shared {
    /// Decides a call that does not wait.
    pub(super) fn decide_with_lock(&self, cost: u64) -> Result<Charge, AcquireError> {
        let mut locked = Locked::new(self);
        locked.lock_on_time();
        locked.check(cost)?;
        let admitted = locked.admit(cost);
        admitted.map_err(|due| {
            let refused = locked.refusal(ErrorKind::RateLimited, due);
            if locked.ledger.paused_until().is_some() {
                refused.because(Cause::Paused)
            } else {
                refused
            }
        })
    }

    /// Serves the queue. The timer calls it when the head may be due, or when the runtime has
    /// ended.
    pub(super) fn on_deadline(&self) {
        // The timer is disarmed first, so that a later arming takes effect.
        self.timer.disarm();
        Locked::new(self).lock().serve();
    }

    /// Changes the ledger.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut Ledger, Tick) -> R) -> R {
        Locked::new(self).lock_on_time().change(change)
    }

    /// Gives back up to `cost` of a charge of this state. Overdue waiters go first, charged at the
    /// ticks when they were due, to make up for the late timer.
    pub(super) fn give_back(&self, charge: &Charge, cost: u64) {
        self.change(|ledger, now| ledger.give_back(&charge.0, cost, now));
    }
}

impl<'a> Locked<'a> {
    /// Creates a guard that has not locked yet. It is large, so it locks where the caller has it.
    #[inline(always)]
    pub(super) fn new(shared: &'a Shared) -> Self {
        Self {
            shared,
            queue: None,
            seen: StateSnapshot::default(),
            now: Tick::default(),
            woken: WakeList::new(),
            left: SERVED_AT_ONCE,
            arms: false,
        }
    }

    /// Locks the state and first serves due waiters, because the timer may be late. It stops when
    /// this call has served its maximum, and leaves the others to the timer.
    pub(super) fn lock_on_time(&mut self) -> &mut Self {
        self.lock();
        while self.grant_due() {
            self.unlock();
            self.lock();
        }
        self
    }

    /// Locks the state: no thread decides without the lock until the guard ends. The guard reads
    /// the time only once the state is locked.
    pub(super) fn lock(&mut self) -> &mut Self {
        let (shared, clock) = (self.shared, &self.shared.config.clock);
        let mut queue = shared.queue();
        self.seen = shared.state.lock();
        queue.ledger.lock(self.seen.tat());
        // The clock is read after the lock: earlier decisions without the lock have an earlier
        // tick, and are visible.
        self.now = clock.now();
        if queue.ledger.is_ahead_of(self.now) {
            clock.correct();
            self.now = clock.now();
        }
        let changes = !queue.ledger.is_free();
        self.queue = Some(queue);
        if changes {
            self.advance();
        }
        self
    }

    /// Brings what changes by itself to this tick. The end of a hold may make the head due, unless it
    /// was due before.
    fn advance(&mut self) {
        let (now, ends) = (self.now, self.ledger.end_of_hold());
        let was_due = |due| ends.is_some_and(|end| due < end && end <= now);
        let was_due = self.due_of_head().is_some_and(was_due);
        let due = self.ledger.advance(now).filter(|_| !was_due);
        self.timed = self.timed.max(due.unwrap_or_default());
    }

    /// Unlocks. Returns whether this call has to continue: it has served one batch of wakers, but
    /// not its maximum. Otherwise the timer continues.
    fn unlock(&mut self) -> bool {
        let goes_on = self.woken.is_full() && self.left > 0;
        let arms = !goes_on && std::mem::take(&mut self.arms);
        let due = arms.then(|| self.due_of_timer()).flatten();
        let Some(mut queue) = self.queue.take() else {
            return false;
        };
        let (shared, ledger) = (self.shared, &mut queue.ledger);
        let mut state = self.seen.with(ledger.word());
        let renewed = ledger.take_renewed();
        // The parameters of a sliding window change with its tickets, and its word with both.
        if renewed || ledger.first_ticket() != shared.params.first_ticket() {
            shared.params.store(ledger);
        }
        if renewed {
            state = state.next_epoch();
        }
        let is_free = queue.waiters.is_empty() && !queue.closed && queue.ledger.is_free();
        let admits_all = is_free && queue.ledger.admits_all();
        shared.params.set_admits_all(admits_all);
        shared
            .state
            .store(state, !is_free || !queue.ledger.is_in_word());
        if is_free {
            queue.ledger.unlock();
        }
        drop(queue);
        self.woken.wake_all();
        if let Some(due) = due {
            // In a runtime without a timer this panics, and this is a drop: only the call that
            // joins reports it (`runtime_without_a_timer_fails_only_what_waits`).
            contain_panic(|| shared.arm(due));
        }
        goes_on
    }

    /// Returns an error for a call that can never be admitted.
    pub(super) fn check(&self, cost: u64) -> Result<(), AcquireError> {
        if self.closed {
            return Err(AcquireError::new(ErrorKind::Closed));
        }
        let capacity = self.ledger.capacity();
        if cost > capacity && self.shared.config.refuses_oversize() {
            return Err(AcquireError::exceeds_capacity(capacity));
        }
        Ok(())
    }

    /// Admits a [checked](Self::check) call now, if there are no waiters and the rule allows it; or
    /// returns the tick at which it is due.
    pub(super) fn admit(&mut self, cost: u64) -> Result<Charge, Tick> {
        let due = self.due_of_next(cost);
        if !self.has_come(due) {
            return Err(due);
        }
        let now = self.now;
        Ok(Charge(self.ledger.charge(now, cost)))
    }

    /// Admits a [checked](Self::check) call of at least 1 that counts as arrived at `tick`, if
    /// there are no waiters and the rule allows it: as if it had been granted in the queue.
    /// Otherwise returns the tick at which it is due.
    pub(super) fn admit_as_of(&mut self, cost: u64, tick: Tick) -> Result<Charge, Tick> {
        let alone = self.waiters.is_empty();
        let granted = alone.then(|| self.grant(cost, tick)).flatten();
        granted.map_or_else(|| Err(self.due_of_next(cost)), |it| Ok(Charge(it)))
    }

    /// Changes the ledger, at this tick. Then refuses the waiters that this made impossible, grants
    /// those that it made due, and has the timer armed for the next one.
    pub(super) fn change<R>(&mut self, change: impl FnOnce(&mut Ledger, Tick) -> R) -> R {
        let now = self.now;
        self.retime(|this| {
            let changed = change(&mut this.ledger, now);
            // After a close, each waiter is told of that instead.
            if !this.closed {
                let capacity = this.ledger.capacity();
                let most = this.shared.config.most(capacity);
                let refused = QueueEntry::Refused { capacity };
                this.queued -= this.waiters.refuse_above(most, refused);
            }
            changed
        })
    }

    /// Does the same for a change of the queue. The waiters that become due by it count as due from
    /// now on. If the head was due before, the timer is late, and the grant makes up for that.
    fn retime<R>(&mut self, change: impl FnOnce(&mut Self) -> R) -> R {
        let was_due = self.due_of_head().is_some_and(|due| self.has_come(due));
        let changed = change(self);
        if !was_due {
            self.timed = self.now;
        }
        self.serve();
        changed
    }

    /// Takes a waiter that has not been served out of the queue. Returns its waker.
    pub(super) fn leave(&mut self, id: &WaiterId, cost: u64) -> Option<Waker> {
        let leave = |this: &mut Self| {
            let waker = this.waiters.withdraw(id);
            this.queued -= u128::from(cost);
            waker
        };
        let head = self.waiters.head();
        if head.is_some_and(|(number, _)| number == id.number()) {
            self.retime(leave)
        } else {
            leave(self)
        }
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
        self.grant_due();
    }

    /// Grants due waiters, and has the timer armed for the next one.
    pub(super) fn serve(&mut self) {
        self.arms = true;
        self.grant_due();
    }

    /// Serves waiters from the head until one is not due, or one batch of wakers is full; those that
    /// were refused come first. Returns whether it served any.
    pub(super) fn grant_due(&mut self) -> bool {
        let queue = self.queue.as_mut().expect("the guard has not ended");
        let refused = match self.left {
            0 => 0,
            _ => queue.waiters.take_refused(&mut self.woken),
        };
        self.left = self.left.saturating_sub(refused);
        let mut any = refused > 0;
        self.arms |= any;
        while self.left > 0 && !self.woken.is_full() {
            let Some(head) = self.head() else {
                break;
            };
            let served = if self.closed {
                self.waiters.grant_head()
            } else if let Some(receipt) = self.grant(head.cost, head.at) {
                self.waiters.keep_head(QueueEntry::Charged(receipt))
            } else if self.shared.config.clock.has_ended() {
                self.waiters.keep_head(QueueEntry::RuntimeEnded)
            } else {
                break;
            };
            self.queued -= u128::from(head.cost);
            self.woken.push(served);
            self.left -= 1;
            self.arms = true;
            any = true;
        }
        any
    }

    /// Charges a call that joined at `joined`, if it is due.
    fn grant(&mut self, cost: u64, joined: Tick) -> Option<Receipt> {
        let (now, makes_up) = (self.now, self.shared.config.makes_up);
        let after = joined.max(self.timed);
        self.ledger.grant(now, cost, after, makes_up)
    }

    fn has_come(&self, due: Tick) -> bool {
        due.has_come(self.now)
    }

    /// Returns the tick at which the head is served.
    fn due_of_head(&self) -> Option<Tick> {
        let head = self.head()?;
        if self.closed {
            Some(Tick::default())
        } else {
            Some(self.ledger.due(0, head.cost))
        }
    }

    /// Returns the tick at which the timer serves the queue next: when the head is due, or up to
    /// [`TOGETHER`] later, when a part ([`PARTS`]) of the burst is due. Each time wakes up a
    /// thread, and a user who allows such a burst does not ask for releases one at a time. This
    /// applies only if the limiter makes up for lateness, and time is real.
    pub(super) fn due_of_timer(&self) -> Option<Tick> {
        if self.waiters.has_refused() {
            return Some(self.now);
        }
        let (due, config) = (self.due_of_head()?, &self.shared.config);
        let cost = u128::from(self.ledger.capacity() / PARTS).min(self.queued) as u64;
        let is_exact = config.clock.counter().is_none() || config.makes_up.is_some();
        let due = if is_exact || self.has_come(due) {
            due
        } else {
            let part = self.ledger.due(0, cost);
            part.min(due.saturating_add(TOGETHER)).max(due)
        };
        Some(self.ledger.not_after_hold(due))
    }

    /// Puts a [checked](Self::check) call that counts as arrived at `tick` into the queue.
    pub(super) fn push(&mut self, cost: u64, tick: Tick, waker: Waker) -> WaiterId {
        self.queued += u128::from(cost);
        self.joined = self.joined.wrapping_add(u128::from(cost));
        let request = Request {
            cost,
            at: tick,
            joined: self.joined,
        };
        self.waiters.push(QueueEntry::Waiting(request), waker)
    }

    /// Returns the tick at which a call that arrives now is due, if it is not refused: never before
    /// the head, which may ask for more.
    fn due_of_next(&self, cost: u64) -> Tick {
        if cost == 0 {
            return Tick::default();
        }
        let due = self.ledger.due(self.queued, cost);
        let largest = self.waiters.largest();
        if self.ledger.has_holds() && self.ledger.due(0, largest).is_never() {
            // A waiter in front may need a settlement.
            return Tick::from_nanos(u64::MAX);
        }
        due.max(self.next_due().unwrap_or_default())
    }

    /// Returns the tick by which the head will have been served, if there is one: later than now.
    pub(super) fn next_due(&self) -> Option<Tick> {
        let soon = self.now.saturating_add(Duration::from_nanos(1));
        Some(self.due_of_head()?.max(soon))
    }

    /// Does the same as [`decision`](Self::decision); the remaining capacity is 0 while there are
    /// waiters.
    pub(super) fn peek(&mut self, cost: u64) -> Decision {
        let mut decision = self.decision(cost);
        if !self.waiters.is_empty() {
            decision.remaining = 0;
        }
        decision
    }

    /// Returns the error of a call that is refused until `due`. The time is unknown if a hold has to be settled
    /// first.
    pub(super) fn refusal(&self, kind: ErrorKind, due: Tick) -> AcquireError {
        if self.ledger.has_holds() && due.is_never() {
            return AcquireError::new(kind);
        }
        let wait = wait_for(due, self.now);
        AcquireError::after(kind, self.shared.config.jittered(wait))
    }

    /// Returns the decision that a call of this cost would get, without charging it.
    pub(super) fn decision(&mut self, cost: u64) -> Decision {
        let due = match self.check(cost) {
            Ok(()) => self.due_of_next(cost),
            Err(_) => Tick::from_nanos(u64::MAX),
        };
        let now = self.now;
        self.ledger.decision(now, due)
    }

    /// Returns the state at this tick.
    pub(super) fn snapshot(&mut self) -> Snapshot {
        let (now, oldest) = (self.now, self.head());
        Snapshot {
            waiting: self.waiters.len(),
            oldest_wait: oldest.map(|head| now.saturating_since(head.at)),
            ..self.ledger.snapshot(now)
        }
    }

    /// Returns the state just after a charge, or the current state if the former is not known.
    pub(super) fn decision_after(&mut self, charge: &Charge) -> Decision {
        let now = self.now;
        self.ledger.decision_after(&charge.0, now)
    }
}

impl Deref for Locked<'_> {
    type Target = QueueState;

    fn deref(&self) -> &QueueState {
        self.queue.as_ref().expect("the guard has not ended")
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut QueueState {
        self.queue.as_mut().expect("the guard has not ended")
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        while self.unlock() {
            self.lock();
            self.grant_due();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    use super::*;
    use crate::rate::MissedTickBehavior;
    use crate::rate::acquire::Limiter;
    use crate::time::Clock;
    use crate::{Quota, RateLimiter};

    /// Returns the delay between the due tick of the head and the service of a queue of these
    /// costs.
    fn later(limiter: RateLimiter, costs: &[u64]) -> Duration {
        let shared = Arc::clone(limiter.outside());
        let mut locked = Locked::new(&shared);
        locked.lock();
        let now = locked.now;
        locked.change(|ledger, now| ledger.charge(now, limiter.quota.max_burst()));
        for cost in costs {
            locked.push(*cost, now, Waker::noop().clone());
        }
        let (head, timer) = (
            locked.due_of_head().unwrap(),
            locked.due_of_timer().unwrap(),
        );
        locked.close();
        timer.saturating_since(head)
    }

    fn bytes() -> RateLimiter {
        // The burst is 8,000 and its part 250, which takes 2.5 ms.
        RateLimiter::new(Quota::bytes_per_second(100_000)).clock(Clock::system())
    }

    #[test]
    fn due_of_timer_is_when_a_part_of_the_burst_is_due() {
        assert_eq!(later(bytes(), &[100; 9]), Duration::from_micros(1500));
        // All waiters together are less than a part.
        assert_eq!(later(bytes(), &[100; 2]), Duration::from_millis(1));
        assert_eq!(later(bytes(), &[1; 1000]), TOGETHER);
    }

    #[test]
    fn due_of_timer_is_when_the_head_is_due_if_it_is_alone_or_large() {
        assert_eq!(later(bytes(), &[100]), Duration::ZERO);
        assert_eq!(later(bytes(), &[250; 9]), Duration::ZERO);
        let small = RateLimiter::new(Quota::per_second(100_000).burst(31)).clock(Clock::system());
        assert_eq!(later(small, &[1; 9]), Duration::ZERO);
    }

    #[test]
    fn due_of_timer_is_when_the_head_is_due_if_time_is_manual_or_late_ticks_are_lost() {
        assert_eq!(
            later(bytes().clock(Clock::manual()), &[1; 9]),
            Duration::ZERO
        );
        let strict = bytes().missed_tick(MissedTickBehavior::Delay);
        assert_eq!(later(strict, &[1; 9]), Duration::ZERO);
    }

    /// Whatever a change of the ledger does, the guard publishes a word, and later calls decide.
    #[test]
    fn change_that_panics_leaves_a_limiter_that_answers() {
        let limiter = RateLimiter::new(Quota::per_hour(3).burst(3)).clock(Clock::manual());
        let shared = Arc::clone(limiter.outside());
        let _ = limiter.try_acquire().unwrap();
        let change = || {
            shared.change(|ledger, now| {
                let _ = ledger.charge(now, 1);
                panic!("on purpose");
            });
        };
        assert!(catch_unwind(AssertUnwindSafe(change)).is_err());
        assert_eq!(limiter.snapshot().available, 1);
        let charge = limiter.try_acquire().unwrap();
        assert!(limiter.try_acquire().is_err());
        let waits = limiter.reserve().unwrap();
        limiter.refund(charge);
        assert_eq!(waits.delay(), Duration::ZERO);
    }
}
