//! What the lock guards: the rule and the waiters, and the one guard for everything that happens
//! under the lock.
//!
//! Invariants, together with those of the [word](super::state), the [wait queue](crate::wait_queue)
//! and the [timer](Shared::arm):
//!
//! 1. [`Locked`] takes the lock, then sets `LOCKED` in the word, then reads the clock. So no
//!    decision without the lock has a later tick than the guard's and an earlier place in the
//!    order. No writer can use an older tick, because the guard's is the only one.
//! 2. When the guard ends, it publishes the word, and clears `LOCKED` unless there are waiters, or
//!    the limiter is closed or paused. It calls wakers and arms the timer after it has released the lock.
//! 3. A waiter is charged nothing until it is granted, so one that leaves moves all waiters behind
//!    it up. Its slot keeps its charge until the waiter collects it; a waiter that leaves with a
//!    charge gives it back like any refund.
//! 4. [`grant_due`](Locked::grant_due) is the only place where a waiter is served, and it serves
//!    only the head: a 1 never passes a 50.
//! 5. Every change that may make the head due earlier ends in [`restart_timing`](Locked::restart_timing),
//!    which grants what is due, and has the timer armed for the next waiter. The timer does the
//!    same. The queue moves without a poll of any future.
//! 6. One call, or one expiry of the timer, serves at most [`SERVED_AT_ONCE`] waiters, and holds the
//!    lock for as many as it wakes at once. If the next waiter is due then, the timer is armed for
//!    that, so it expires at once, and it or the next caller goes on. Until then a new call is
//!    neither admitted nor told to come again now: it is due [after](Locked::due_of_next) this tick.
//! 7. The sum of the queue has the waiters that can be admitted, and no others. So one that can only
//!    be refused, because the burst was lowered, delays nobody, before it is refused at the head of
//!    the queue and after.
//! 8. A [pause](super::pause) keeps `LOCKED` set until its end. So nothing but the guard decides
//!    meanwhile, and [`due`](QueueState::due) is never before the end.
//! 9. No operation takes a number of steps that grows with the queue, except for the logarithm that
//!    the sums of costs take.

use std::ops::{Deref, DerefMut};
use std::task::Waker;
use std::time::Duration;

use super::charge::Charge;
use super::costs::CostSums;
use super::options::{MissedTickBehavior, Oversize};
use super::shared::Shared;
use super::state::StateSnapshot;
use crate::algorithm::{QuotaChange, Receipt, RuleState, fresh_generation};
use crate::decision::{Decision, wait_for};
use crate::error::{AcquireError, ErrorKind};
use crate::quota::Quota;
use crate::sync::{MutexGuard, SERVED_AT_ONCE};
use crate::time::Tick;
use crate::wait_queue::{WaitQueue, WaiterId, WakeList};

/// The most refunded units that are counted in one generation.
const MOST_REFUNDED: u64 = 1 << 62;

/// Replaces the generation of a charge: the waiter asked for too much.
const REFUSED: u64 = u64::MAX;

/// Replaces the generation of a charge: the runtime has ended, and the waiter moves to another queue.
pub(super) const MOVES: u64 = u64::MAX - 1;

/// What the lock guards.
pub(super) struct QueueState {
    pub(super) rule: RuleState,
    pub(super) quota: Quota,
    /// How often the quota was changed.
    pub(super) changes: u64,
    /// While a waiter waits, its [`request`]; then its charge, or the capacity as the cost if it is
    /// [`REFUSED`], or that it [`MOVES`]. A waiter for which nothing is kept was released by `close`.
    pub(super) waiters: WaitQueue<Receipt>,
    /// The total cost of the waiters that can be admitted: of all, except those that ask for more
    /// than they can get since the burst was lowered.
    pub(super) queued: u128,
    /// The costs of all waiters, from which `queued` is computed when the burst changes.
    costs: CostSums,
    /// The total cost of all waiters that ever joined.
    joined: u128,
    pub(super) closed: bool,
    /// When the waiters were last rescheduled: none was due before that.
    timed: Tick,
    /// Nothing is admitted before this tick. The rule has the burst spent as of then.
    pub(super) paused_until: Tick,
    /// The last opening of a gate for which the burst was spent.
    pub(super) last_opening: u64,
    /// Charges of other generations cannot be refunded: they are earlier ones, or those of another
    /// limiter.
    generation: u64,
}

impl QueueState {
    pub(super) fn new(rule: RuleState, quota: Quota, generation: u64) -> Self {
        Self {
            rule,
            quota,
            changes: 0,
            waiters: WaitQueue::new(),
            queued: 0,
            costs: CostSums::default(),
            joined: 0,
            closed: false,
            timed: Tick::default(),
            paused_until: Tick::default(),
            last_opening: 0,
            generation,
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiters.len()
    }

    /// Returns when `cost` is due after `behind` has been charged, like the rule, but not before the
    /// end of a pause.
    fn due(&self, behind: u128, cost: u64) -> Tick {
        self.rule.due(behind, cost).max(self.paused_until)
    }

    /// Returns whether the clock seems to have been set back. A pause leads to the same state of the
    /// rule, and comparing clocks costs more than a refusal.
    fn is_ahead_of(&self, now: Tick) -> bool {
        self.rule.is_ahead_of(now) && now >= self.paused_until
    }

    /// Returns the outcome of a waiter that no longer waits. `None` if it [`MOVES`].
    pub(super) fn collect(&mut self, id: &WaiterId) -> Option<Result<Charge, AcquireError>> {
        match self.waiters.collect(id) {
            None => Some(Err(AcquireError::new(ErrorKind::Closed))),
            Some(kept) if kept.generation == MOVES => None,
            Some(kept) if kept.generation == REFUSED => {
                Some(Err(AcquireError::exceeds_capacity(kept.cost)))
            }
            Some(receipt) => Some(Ok(receipt.into())),
        }
    }
}

/// The lock of a limiter, with the time.
pub(super) struct Locked<'a> {
    shared: &'a Shared,
    /// `None` after the guard has ended.
    queue: Option<MutexGuard<'a, QueueState>>,
    seen: StateSnapshot,
    /// The tick at which everything under this guard takes place.
    pub(super) now: Tick,
    woken: WakeList,
    /// How many more waiters this call serves.
    left: usize,
    /// Whether the meaning of the word has changed.
    renewed: bool,
    /// Whether to arm the timer for the head.
    arms: bool,
}

impl<'a> Locked<'a> {
    pub(super) fn new(shared: &'a Shared, mut queue: MutexGuard<'a, QueueState>) -> Self {
        let seen = shared.state.lock();
        queue.rule.lock(seen.tat());
        // After the lock: earlier decisions without the lock have an earlier tick, and are visible.
        let mut now = shared.clock().now();
        if queue.is_ahead_of(now) {
            shared.clock().correct();
            now = shared.clock().now();
        }
        Self {
            shared,
            queue: Some(queue),
            seen,
            now,
            woken: WakeList::new(),
            left: SERVED_AT_ONCE,
            renewed: false,
            arms: false,
        }
    }

    /// Unlocks. Returns whether this call has to go on, because it has served as many waiters as it
    /// wakes at once, and not all that it serves. Otherwise the timer goes on.
    pub(super) fn end(&mut self) -> bool {
        let goes_on = self.woken.is_full() && self.left > 0;
        let arms = std::mem::take(&mut self.arms) && !goes_on;
        let due = arms.then(|| self.due_of_head()).flatten();
        let Some(queue) = self.queue.take() else {
            return false;
        };
        let shared = self.shared;
        let mut state = self.seen.with(queue.rule.tat());
        if self.renewed {
            shared
                .params
                .store(&queue.rule, queue.quota, queue.generation);
            state = state.next_epoch();
        }
        let locked = queue.waiting() > 0 || queue.closed || self.now < queue.paused_until;
        shared
            .state
            .store(state, locked || !queue.rule.is_in_word());
        if !locked {
            queue.rule.unlock();
        }
        drop(queue);
        self.woken.wake_all();
        if let Some(due) = due {
            shared.arm(due);
        }
        goes_on
    }

    /// Ends this guard, and begins another one of the same call.
    pub(super) fn again(mut self) -> Self {
        let goes_on = self.end();
        let mut next = self.shared.lock_state();
        (next.left, next.arms) = (self.left, goes_on);
        next
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
    /// waiters and the rule allows it; or returns when it is due.
    pub(super) fn admit(&mut self, cost: u64, most: u64) -> Result<Charge, Tick> {
        let due = self.due_of_next(cost);
        if !self.has_come(due) {
            return Err(due);
        }
        let cost = match most > cost {
            true => most.min(self.available()).max(cost),
            false => cost,
        };
        Ok(self.charge(cost))
    }

    /// Admits a [checked](Self::check) call of at least 1 that counts as having come at `tick`, if
    /// there are no waiters and the rule allows it: as if it had been granted in the queue. Or
    /// returns when it is due.
    pub(super) fn admit_as_of(&mut self, cost: u64, tick: Tick) -> Result<Charge, Tick> {
        let alone = self.waiting() == 0;
        let granted = alone.then(|| self.grant(request(cost, tick, 0))).flatten();
        granted.map_or_else(|| Err(self.due_of_next(cost)), |it| Ok(it.into()))
    }

    /// Charges now, whatever the backlog is.
    pub(super) fn charge(&mut self, cost: u64) -> Charge {
        let (now, generation) = (self.now, self.generation);
        let receipt = self.rule.charge(now, cost);
        Receipt {
            generation,
            ..receipt
        }
        .into()
    }

    /// Gives back up to `cost` of a charge, except what time has paid off.
    pub(super) fn give_back(&mut self, charge: &Charge, cost: u64) {
        let (now, receipt) = (self.now, charge.receipt());
        // A charge of another limiter, or one under another quota, which was carried over with all
        // that was spent.
        let late = self.is_late();
        if receipt.generation != self.generation || self.rule.give_back(receipt, cost, now) == 0 {
            return;
        }
        if self.rule.refunded() > MOST_REFUNDED {
            self.begin_generation();
        }
        // A decision that has read the old sum of refunds must fail now, even if the word has
        // become the same again.
        self.renewed = true;
        self.head_changed(late);
    }

    /// Changes the quota, and makes every waiter due by the new one. A quota that means the same as
    /// the old one is only stored. Changes are numbered from 1, and a later one may have come first,
    /// from another thread: then this one is over.
    pub(super) fn set_quota(&mut self, change: u64, quota: Quota, how: QuotaChange) {
        if change <= self.changes {
            return;
        }
        let now = self.now;
        (self.changes, self.quota) = (change, quota);
        let paused = self.pause_before_change();
        let impossible = self.impossible();
        if self.rule.change(quota, how, now) {
            self.queued = self.queued + impossible - self.impossible();
            if let Some(paused) = paused {
                self.pause_after_change(paused, how);
            }
            self.begin_generation();
            self.restart_timing();
        }
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
        self.grant_due();
    }

    /// Begins to number charges again: earlier ones can no longer be refunded.
    pub(super) fn begin_generation(&mut self) {
        self.generation = fresh_generation();
        self.rule.forget_receipts();
        self.renewed = true;
    }

    /// Reschedules the queue at this tick, grants what has just become due, and has the timer armed
    /// for the next waiter.
    pub(super) fn restart_timing(&mut self) {
        self.timed = self.now;
        self.serve();
    }

    /// Does the same for a change that concerns a head which may have been due before it: then the
    /// timer is late, which is made up for.
    pub(super) fn head_changed(&mut self, was_due: bool) {
        match was_due {
            true => self.serve(),
            false => self.restart_timing(),
        }
    }

    /// Grants what is due, and has the timer armed for the next waiter.
    pub(super) fn serve(&mut self) {
        self.arms = true;
        self.grant_due();
    }

    /// Serves waiters from the head until one is not due, or enough are to be woken. Returns
    /// whether it served any.
    pub(super) fn grant_due(&mut self) -> bool {
        let mut any = false;
        while self.left > 0 && !self.woken.is_full() {
            let Some(head) = self.waiters.head() else {
                break;
            };
            let served = if self.closed {
                self.waiters.grant_head()
            } else if self.is_impossible(head.cost) {
                let refused = Receipt {
                    generation: REFUSED,
                    cost: self.rule.capacity(),
                    ..Receipt::default()
                };
                self.waiters.keep_head(refused)
            } else if let Some(receipt) = self.grant(head) {
                self.waiters.keep_head(receipt)
            } else if self.shared.clock().has_ended() {
                let moves = Receipt {
                    generation: MOVES,
                    ..Receipt::default()
                };
                self.waiters.keep_head(moves)
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

    /// Charges the head if it is due, at the tick when it was due: not before it joined or was made
    /// due, and no longer ago than may be made up for.
    fn grant(&mut self, head: Receipt) -> Option<Receipt> {
        let due = self.due(0, head.cost);
        if !self.has_come(due) {
            return None;
        }
        let now = self.now;
        let earliest = match self.shared.config.missed_tick {
            Some(MissedTickBehavior::Delay) => now,
            Some(MissedTickBehavior::Burst { max }) => self.rule.earliest(now, Some(max)),
            None => self.rule.earliest(now, None),
        };
        let at = due.max(earliest).max(head.at).max(self.timed).min(now);
        Some(Receipt {
            generation: self.generation,
            ..self.rule.grant(at, head.cost)
        })
    }

    fn has_come(&self, due: Tick) -> bool {
        due <= self.now && !due.is_never()
    }

    /// Returns when the head is served: at any time if it is only to be refused.
    fn due_of_head(&self) -> Option<Tick> {
        let head = self.waiters.head()?;
        match self.closed || self.is_impossible(head.cost) {
            true => Some(Tick::default()),
            false => Some(self.due(0, head.cost)),
        }
    }

    /// Returns whether the head is due, and was not served yet.
    pub(super) fn is_late(&self) -> bool {
        self.due_of_head().is_some_and(|due| self.has_come(due))
    }

    /// Returns whether a call asks for more than it can ever get.
    pub(super) fn is_impossible(&self, cost: u64) -> bool {
        self.refuses() && cost > self.rule.capacity()
    }

    /// Returns the total cost of the waiters that ask for more than they can ever get.
    fn impossible(&self) -> u128 {
        match self.refuses() {
            true => self.costs.above(self.rule.capacity()),
            false => 0,
        }
    }

    fn refuses(&self) -> bool {
        self.shared.config.oversize == Oversize::Refuse
    }

    /// Puts a [checked](Self::check) call into the queue that counts as having come at `tick`.
    pub(super) fn push(&mut self, cost: u64, tick: Tick, waker: Waker) -> WaiterId {
        self.queued += u128::from(cost);
        self.joined = self.joined.wrapping_add(u128::from(cost));
        if self.refuses() {
            self.costs.add(cost);
        }
        let request = request(cost, tick, self.joined);
        self.waiters.push(request, waker)
    }

    /// Counts a waiter no longer that has left the queue.
    pub(super) fn forget(&mut self, cost: u64) {
        if !self.is_impossible(cost) {
            self.queued -= u128::from(cost);
        }
        if self.refuses() {
            self.costs.remove(cost);
        }
    }

    /// Returns when a call that comes now is due, if it is not refused: never before the head,
    /// which may ask for more.
    fn due_of_next(&self, cost: u64) -> Tick {
        if cost == 0 {
            return Tick::default();
        }
        let due = self.due(self.queued, cost);
        due.max(self.next_due().unwrap_or_default())
    }

    /// Returns when the head will have been served, if there is one: not by now.
    pub(super) fn next_due(&self) -> Option<Tick> {
        let soon = self.now.saturating_add(Duration::from_nanos(1));
        Some(self.due_of_head()?.max(soon))
    }

    /// Returns what could be charged at once if there were no waiters and the limiter were open.
    pub(super) fn available(&mut self) -> u64 {
        self.rule.capacity().saturating_sub(self.in_use())
    }

    /// Returns what is missing from the capacity: all of it during a pause.
    pub(super) fn in_use(&mut self) -> u64 {
        match self.is_paused() {
            true => self.rule.capacity(),
            false => {
                let now = self.now;
                self.rule.backlog(now)
            }
        }
    }

    /// Does the same as [`decision`](Self::decision); while there are waiters, nothing remains.
    pub(super) fn peek(&mut self, cost: u64) -> Decision {
        let mut decision = self.decision(cost);
        if self.waiting() > 0 {
            decision.remaining = 0;
        }
        decision
    }

    /// Returns the decision that a call of this cost would get, without charging it.
    pub(super) fn decision(&mut self, cost: u64) -> Decision {
        let due = match self.check(cost) {
            Ok(()) => self.due_of_next(cost),
            Err(_) => Tick::from_nanos(u64::MAX),
        };
        Decision {
            limit: self.rule.capacity(),
            remaining: self.available(),
            retry_after: wait_for(due, self.now),
            reset_after: wait_for(self.rule.reset().max(self.paused_until), self.now),
            at: self.now,
        }
    }

    /// Returns the state just after a charge, or the current state if that is not known.
    pub(super) fn decision_after(&mut self, charge: &Charge) -> Decision {
        let receipt = charge.receipt();
        if receipt.generation != self.generation {
            return self.decision(0);
        }
        let (backlog, reset) = self.rule.after(receipt);
        let limit = self.rule.capacity();
        Decision {
            limit,
            remaining: limit.saturating_sub(backlog),
            retry_after: Duration::ZERO,
            reset_after: wait_for(reset, receipt.at),
            at: receipt.at,
        }
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
        let (mut goes_on, mut left) = (self.end(), self.left);
        while goes_on {
            let mut next = self.shared.lock_state();
            next.left = left;
            next.serve();
            (goes_on, left) = (next.end(), next.left);
        }
    }
}

/// Returns what is kept for a waiter while it waits: its cost, the tick as of which it joined, and the
/// total cost of all that had joined then, itself included.
fn request(cost: u64, at: Tick, joined: u128) -> Receipt {
    Receipt {
        cost,
        at,
        ticket: joined as u64,
        owed: (joined >> 64) as u64,
        ..Receipt::default()
    }
}

/// Returns the total cost of all that had joined after this request.
pub(super) fn joined_by(request: &Receipt) -> u128 {
    u128::from(request.owed) << 64 | u128::from(request.ticket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::Algorithm;

    #[test]
    fn is_ahead_of_a_tick_in_a_pause_is_false() {
        let quota = Quota::per_second(10).burst(5);
        let mut queue = QueueState::new(RuleState::new(Algorithm::Gcra, quota, false), quota, 1);
        let (now, end) = (Tick::from_nanos(1), Tick::from_nanos(60_000_000_000));
        queue.rule.spend_burst(end);
        assert!(queue.is_ahead_of(now));
        queue.paused_until = end;
        assert!(!queue.is_ahead_of(now));
        // One that was set back from a later time than the end.
        queue.rule.charge(end, 1000);
        assert!(queue.is_ahead_of(end));
    }
}
