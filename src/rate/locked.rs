//! [`Locked`]: the one guard for all operations under the lock of a limiter.
//!
//! Invariants, together with those of the [word](super::state), the [wait queue](crate::wait_queue)
//! and the [timer](Shared::arm):
//!
//! 1. [`Locked`] takes the lock, then sets `LOCKED` in the word, then reads the clock. So no
//!    decision without the lock has a later tick than the guard's and an earlier place in the
//!    order. No writer can use an older tick, because the guard's is the only one.
//! 2. When the guard ends, it publishes the word, and clears `LOCKED` unless there are waiters, the
//!    limiter is closed or paused, there is a hold, or a server is followed. It calls wakers and
//!    arms the timer after it has released the lock.
//! 3. A waiter is charged nothing until it is granted, so one that leaves moves all waiters behind
//!    it up. Its slot keeps its charge until the waiter collects it; a waiter that leaves with a
//!    charge gives it back like any refund.
//! 4. [`grant_due`](Locked::grant_due) is the only place where a waiter is served, and it serves
//!    only the head: a 1 never passes a 50.
//! 5. Every change that may make the head due earlier ends in
//!    [`restart_timing`](Locked::restart_timing). It grants due waiters, and has the timer armed
//!    for the next one. The timer does the same. The queue moves without a poll of any future.
//! 6. One call, or one expiry of the timer, serves at most [`SERVED_AT_ONCE`] waiters, and releases
//!    the lock after each batch that it wakes. If the next waiter is then due, the timer is armed
//!    for its tick, so it expires at once, and the timer or the next caller continues. Until then a
//!    new call is neither admitted nor told to come again now: it is due
//!    [after](Locked::due_of_next) this tick.
//! 7. The sum of the queue includes the waiters that can be admitted, and no others. So a waiter
//!    that can only be refused, because the burst was lowered, delays nobody, neither before nor
//!    after it is refused at the head of the queue.
//! 8. A [pause](super::pause) keeps `LOCKED` set until its end. So only the guard decides during a
//!    pause, and [`due`](super::queue::QueueState::due) is never before the end.
//! 9. The number of steps of an operation does not grow with the queue, except for a logarithm in
//!    the sums of costs.

use std::ops::{Deref, DerefMut};
use std::task::Waker;
use std::time::Duration;

use super::charge::Charge;
use super::options::MissedTickBehavior;
use super::queue::{QueueEntry, QueueState, Request};
use super::shared::Shared;
use super::state::StateSnapshot;
use crate::algorithm::{QuotaChange, Receipt, fresh_generation};
use crate::error::{AcquireError, ErrorKind};
use crate::panic::contain_panic;
use crate::quota::Quota;
use crate::status::{Decision, Snapshot};
use crate::sync::{MutexGuard, SERVED_AT_ONCE};
use crate::time::{Tick, wait_for};
use crate::wait_queue::{WaiterId, WakeList};

/// The maximum of refunded units in one generation.
const MOST_REFUNDED: u64 = 1 << 62;

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
    /// Whether the meaning of the word has changed.
    pub(super) renewed: bool,
    /// Whether to arm the timer for the head.
    arms: bool,
}

impl Shared {
    /// Locks the state: no thread decides without the lock until the guard ends. The guard reads
    /// the time only once the state is locked.
    pub(super) fn lock_state(&self) -> Locked<'_> {
        let mut locked = Locked {
            shared: self,
            queue: None,
            seen: StateSnapshot::default(),
            now: Tick::default(),
            woken: WakeList::new(),
            left: SERVED_AT_ONCE,
            renewed: false,
            arms: false,
        };
        locked.lock();
        locked
    }

    /// Locks the state and first serves due waiters, because the timer may be late. It stops when
    /// this call has served its maximum, and leaves the others to the timer.
    pub(super) fn lock_on_time(&self) -> Locked<'_> {
        let mut locked = self.lock_state();
        while locked.grant_due() {
            locked.unlock();
            locked.lock();
        }
        locked
    }

    /// Calls `run` with the lock of the state that decides here.
    pub(super) fn locked<R>(&self, run: impl FnOnce(&mut Locked<'_>) -> R) -> R {
        self.here(|state| run(&mut state.lock_on_time()))
    }
}

impl Locked<'_> {
    fn lock(&mut self) {
        let (shared, clock) = (self.shared, &self.shared.config.clock);
        let mut queue = shared.queue();
        self.seen = shared.state.lock();
        queue.rule.lock(self.seen.tat());
        // The clock is read after the lock: earlier decisions without the lock have an earlier
        // tick, and are visible.
        self.now = clock.now();
        if queue.is_ahead_of(self.now) {
            clock.correct();
            self.now = clock.now();
        }
        if let Some(followed) = &mut queue.followed {
            followed.of_others.settle(self.now);
        }
        self.queue = Some(queue);
    }

    /// Unlocks. Returns whether this call has to continue: it has served one batch of wakers, but
    /// not its maximum. Otherwise the timer continues.
    fn unlock(&mut self) -> bool {
        let goes_on = self.woken.is_full() && self.left > 0;
        let arms = !goes_on && std::mem::take(&mut self.arms);
        let due = arms.then(|| self.due_of_timer()).flatten();
        let Some(queue) = self.queue.take() else {
            return false;
        };
        let shared = self.shared;
        let mut state = self.seen.with(queue.rule.tat());
        let renewed = std::mem::take(&mut self.renewed);
        // The parameters of a sliding window change with its tickets, and its word with both.
        if renewed || queue.rule.first_ticket() != shared.params.first_ticket() {
            shared
                .params
                .store(&queue.rule, queue.quota, queue.generation);
        }
        if renewed {
            state = state.next_epoch();
        }
        let locked = !queue.waiters.is_empty()
            || queue.closed
            || self.now < queue.paused_until
            || queue.held > 0
            || queue.followed.is_some();
        shared
            .state
            .store(state, locked || !queue.rule.is_in_word());
        if !locked {
            queue.rule.unlock();
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
        if self.is_impossible(cost) {
            return Err(AcquireError::exceeds_capacity(self.rule.capacity()));
        }
        Ok(())
    }

    /// Admits a [checked](Self::check) call now for between `cost` and `most`, if there are no
    /// waiters and the rule allows it; or returns the tick at which it is due.
    pub(super) fn admit(&mut self, cost: u64, most: u64) -> Result<Charge, Tick> {
        let due = self.due_of_next(cost);
        if !self.has_come(due) {
            return Err(due);
        }
        let cost = if most > cost {
            most.min(self.available()).max(cost)
        } else {
            cost
        };
        Ok(self.charge(cost))
    }

    /// Admits a [checked](Self::check) call of at least 1 that counts as arrived at `tick`, if
    /// there are no waiters and the rule allows it: as if it had been granted in the queue.
    /// Otherwise returns the tick at which it is due.
    pub(super) fn admit_as_of(&mut self, cost: u64, tick: Tick) -> Result<Charge, Tick> {
        let alone = self.waiters.is_empty();
        let granted = alone.then(|| self.grant(cost, tick)).flatten();
        granted.map_or_else(|| Err(self.due_of_next(cost)), |it| Ok(Charge(it)))
    }

    /// Charges now, with any backlog.
    pub(super) fn charge(&mut self, cost: u64) -> Charge {
        let now = self.now;
        let receipt = self.rule.charge(now, cost);
        Charge(self.note(receipt))
    }

    /// Gives back up to `cost` of a charge whose call is not made, except the part that time has
    /// paid off.
    pub(super) fn give_back(&mut self, charge: &Charge, cost: u64) {
        self.forget_call(&charge.0, i128::from(cost));
        self.return_to_rule(charge, cost);
    }

    /// Does the same for a charge that continues to count in another way.
    pub(super) fn return_to_rule(&mut self, charge: &Charge, cost: u64) {
        let (now, receipt) = (self.now, &charge.0);
        // This is a charge of another limiter, or one under another quota, which was carried over
        // with the whole spent part.
        let late = self.is_late();
        if receipt.generation != self.generation || self.rule.give_back(receipt, cost, now) == 0 {
            return;
        }
        if self.rule.first_ticket() > MOST_REFUNDED {
            self.begin_generation();
        }
        // A decision that has read the old sum of refunds must now fail, even if the word has
        // become the same again.
        self.renewed = true;
        self.head_changed(late);
    }

    /// Changes the quota, and makes every waiter due according to the new one. A quota that means
    /// the same as the old one is only stored. Changes are numbered from 1. If a later change has
    /// already come from another thread, this one has no effect.
    pub(super) fn set_quota(&mut self, change: u64, quota: Quota, how: QuotaChange) {
        if change <= self.changes {
            return;
        }
        (self.changes, self.quota) = (change, quota);
        let impossible = self.costs.above(self.most());
        if self.change_rule(how) {
            self.queued = self.queued + impossible - self.costs.above(self.most());
            self.begin_generation();
            self.restart_timing();
        }
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
        self.grant_due();
    }

    /// Starts to number charges again: earlier charges can no longer be refunded.
    pub(super) fn begin_generation(&mut self) {
        self.generation = fresh_generation();
        self.rule.forget_receipts();
        if let Some(followed) = &mut self.followed {
            followed.forget_charges();
        }
        self.renewed = true;
    }

    /// Reschedules the queue at this tick, grants waiters that have just become due, and has the
    /// timer armed for the next one.
    pub(super) fn restart_timing(&mut self) {
        self.timed = self.now;
        self.serve();
    }

    /// Does the same for a change that affects a head which may have been due before it. The timer
    /// is then late, and the grant makes up for that.
    pub(super) fn head_changed(&mut self, was_due: bool) {
        if was_due {
            self.serve();
        } else {
            self.restart_timing();
        }
    }

    /// Grants due waiters, and has the timer armed for the next one.
    pub(super) fn serve(&mut self) {
        self.arms = true;
        self.grant_due();
    }

    /// Serves waiters from the head until one is not due, or one batch of wakers is full. Returns
    /// whether it served any.
    pub(super) fn grant_due(&mut self) -> bool {
        let mut any = false;
        while self.left > 0 && !self.woken.is_full() {
            let Some(head) = self.head() else {
                break;
            };
            let served = if self.closed {
                self.waiters.grant_head()
            } else if self.is_impossible(head.cost) {
                let capacity = self.rule.capacity();
                self.waiters.keep_head(QueueEntry::Refused { capacity })
            } else if let Some(receipt) = self.grant(head.cost, head.at) {
                self.waiters.keep_head(QueueEntry::Charged(receipt))
            } else if self.shared.config.clock.has_ended() {
                self.waiters.keep_head(QueueEntry::Moves)
            } else {
                break;
            };
            self.forget(head.cost);
            self.woken.push(served);
            self.left -= 1;
            self.arms = true;
            any = true;
        }
        any
    }

    /// Charges a call that joined at `joined` if it is due, at the tick when it was due. That tick
    /// is not before the call joined or was made due, and not longer ago than the limiter may make
    /// up for.
    fn grant(&mut self, cost: u64, joined: Tick) -> Option<Receipt> {
        let due = self.due(0, cost);
        if !self.has_come(due) {
            return None;
        }
        let now = self.now;
        let earliest = match self.shared.config.missed_tick {
            Some(MissedTickBehavior::Delay) => now,
            Some(MissedTickBehavior::Burst { max }) => self.rule.earliest(now, Some(max)),
            None => self.rule.earliest(now, None),
        };
        let at = due.max(earliest).max(joined).max(self.timed).min(now);
        let receipt = self.rule.grant(at, cost);
        Some(self.note(receipt))
    }

    fn has_come(&self, due: Tick) -> bool {
        due <= self.now && !due.is_never()
    }

    /// Returns the tick at which the head is served: any time if it can only be refused.
    fn due_of_head(&self) -> Option<Tick> {
        let head = self.head()?;
        if self.closed || self.is_impossible(head.cost) {
            Some(Tick::default())
        } else {
            Some(self.due(0, head.cost))
        }
    }

    /// Returns the tick at which the timer serves the queue next: when the head is due, or up to
    /// [`TOGETHER`] later, when a part ([`PARTS`]) of the burst is due. Each time wakes up a
    /// thread, and a user who allows such a burst does not ask for releases one at a time. This
    /// applies only if the limiter makes up for lateness, and time is real.
    fn due_of_timer(&self) -> Option<Tick> {
        let (due, config) = (self.due_of_head()?, &self.shared.config);
        let cost = u128::from(self.rule.capacity() / PARTS).min(self.queued) as u64;
        let is_exact = config.clock.counter().is_none() || config.missed_tick.is_some();
        if is_exact || self.has_come(due) {
            Some(due)
        } else {
            Some(self.due(0, cost).min(due.saturating_add(TOGETHER)).max(due))
        }
    }

    /// Returns whether the head is due but not served yet.
    pub(super) fn is_late(&self) -> bool {
        self.due_of_head().is_some_and(|due| self.has_come(due))
    }

    /// Returns whether a call asks for more than it can ever get.
    pub(super) fn is_impossible(&self, cost: u64) -> bool {
        cost > self.most()
    }

    /// Returns the maximum that a call can ever get.
    fn most(&self) -> u64 {
        self.shared.config.most(self.rule.capacity())
    }

    /// Puts a [checked](Self::check) call that counts as arrived at `tick` into the queue.
    pub(super) fn push(&mut self, cost: u64, tick: Tick, waker: Waker) -> WaiterId {
        self.queued += u128::from(cost);
        self.joined = self.joined.wrapping_add(u128::from(cost));
        // A limiter that allows overdrafts has no impossible costs.
        if self.shared.config.refuses_oversize() {
            self.costs.add(cost);
        }
        let request = Request {
            cost,
            at: tick,
            joined: self.joined,
        };
        self.waiters.push(QueueEntry::Waiting(request), waker)
    }

    /// Removes a waiter that has left the queue from the counts.
    pub(super) fn forget(&mut self, cost: u64) {
        if !self.is_impossible(cost) {
            self.queued -= u128::from(cost);
        }
        if self.shared.config.refuses_oversize() {
            self.costs.remove(cost);
        }
    }

    /// Returns the tick at which a call that arrives now is due, if it is not refused: never before
    /// the head, which may ask for more.
    fn due_of_next(&self, cost: u64) -> Tick {
        if cost == 0 {
            return Tick::default();
        }
        let due = self.due(self.queued, cost);
        due.max(self.next_due().unwrap_or_default())
    }

    /// Returns the tick by which the head will have been served, if there is one: later than now.
    pub(super) fn next_due(&self) -> Option<Tick> {
        let soon = self.now.saturating_add(Duration::from_nanos(1));
        Some(self.due_of_head()?.max(soon))
    }

    /// Returns the cost that could be charged at once if there were no waiters and the limiter were
    /// open.
    pub(super) fn available(&mut self) -> u64 {
        self.rule.capacity().saturating_sub(self.in_use())
    }

    /// Returns the used part of the capacity: all of it during a pause.
    pub(super) fn in_use(&mut self) -> u64 {
        if self.is_paused() {
            return self.rule.capacity();
        }
        let now = self.now;
        self.rule.backlog(now).saturating_add(self.beside())
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
        if self.held > 0 && due.is_never() {
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
        let (limit, in_use) = (self.rule.capacity(), self.in_use());
        Decision::at(self.now, limit, in_use, due, self.reset())
    }

    /// Returns the tick at which nothing is in use, if no other call comes: never while there is a
    /// hold.
    fn reset(&self) -> Tick {
        let others = self.of_others();
        match (self.held, others.cost) {
            (0, 0) => self.rule.reset().max(self.paused_until),
            (0, _) => self.rule.reset().max(self.paused_until).max(others.until),
            _ => Tick::from_nanos(u64::MAX),
        }
    }

    /// Returns the state at this tick.
    pub(super) fn snapshot(&mut self) -> Snapshot {
        let decision = self.decision(0);
        let oldest = self.head();
        Snapshot {
            limit: decision.limit,
            in_use: self.in_use(),
            available: decision.remaining,
            waiting: self.waiters.len(),
            oldest_wait: oldest.map(|head| self.now.saturating_since(head.at)),
        }
    }

    /// Returns the state just after a charge, or the current state if the former is not known.
    pub(super) fn decision_after(&mut self, charge: &Charge) -> Decision {
        let receipt = &charge.0;
        if receipt.generation != self.generation || self.beside() > 0 {
            let retry_after = Some(Duration::ZERO);
            return Decision {
                retry_after,
                ..self.decision(0)
            };
        }
        self.rule.decision_after(receipt)
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
    use super::*;
    use crate::RateLimiter;
    use crate::rate::acquire::Limiter;
    use crate::time::Clock;

    /// Returns the delay between the due tick of the head and the service of a queue of these
    /// costs.
    fn later(limiter: RateLimiter, costs: &[u64]) -> Duration {
        let shared = limiter.shared();
        let mut locked = shared.lock_state();
        let now = locked.now;
        locked.charge(limiter.quota.max_burst());
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
}
