//! What the lock guards: the rule and the waiters, and the one guard that everything under the lock
//! goes through.
//!
//! Invariants, together with those of the [word](super::state), the [wait queue](crate::wait_queue) and
//! the [timer](super::timer):
//!
//! 1. [`Locked`] takes the lock, then sets `LOCKED` in the word, then reads the clock. So no decision
//!    without the lock is made at a later tick than the guard's and an earlier place in the order,
//!    and no writer can use an older tick: the guard's is the only one there is.
//! 2. When the guard ends, it publishes the word, and clears `LOCKED` unless somebody waits or the
//!    limiter is closed. Wakers are called and the timer is armed after the lock.
//! 3. A waiter has charged nothing until it is granted, so one that leaves moves everybody behind it
//!    up. Its charge is kept in its place until it collects it; one that leaves with a charge gives
//!    it back like any refund.
//! 4. [`grant_due`](Locked::grant_due) is the only place where a waiter is served, and only the head
//!    ever is: a 1 never passes a 50.
//! 5. Whatever may make the head due earlier ends in [`time_anew`](Locked::time_anew), which grants
//!    what is due, and has the timer armed for the next. So does the timer. No future has to be
//!    polled for the queue to move.
//! 6. Nothing takes a number of steps that grows with the queue, but to say when one waiter in it is
//!    due.

use std::ops::{Deref, DerefMut};
use std::task::{Poll, Waker};

use super::charge::Charge;
use super::options::{MissedTickBehavior, Oversize};
use super::shared::Shared;
use super::state::StateSnapshot;
use crate::algorithm::{QuotaChange, Receipt, RuleState};
use crate::decision::{Decision, wait_for};
use crate::error::{AcquireError, ErrorKind};
use crate::quota::Quota;
use crate::sync::MutexGuard;
use crate::time::Tick;
use crate::wait::{remaining_timeout, report_clock};
use crate::wait_queue::{WaitQueue, WaiterId, WaiterStatus, WakeList};

/// The most units that are counted as given back.
const MOST_REFUNDED: u64 = 1 << 62;

/// In place of the generation of a charge: the waiter asked for too much.
const REFUSED: u64 = u64::MAX;

/// What the lock guards.
pub(super) struct QueueState {
    pub(super) rule: RuleState,
    pub(super) quota: Quota,
    /// While a waiter waits, its cost and the tick at which it joined; then its charge, or as cost
    /// the capacity if it is [`REFUSED`]. One for which nothing is kept was closed out.
    waiters: WaitQueue<Receipt>,
    /// The cost of all waiters.
    queued: u128,
    closed: bool,
    /// When the queue was last timed anew: no waiter was due before that.
    timed: Tick,
    /// Charges of earlier generations cannot be given back.
    generation: u64,
}

/// Why a call is not admitted now.
pub(super) enum Refusal {
    Never(AcquireError),
    Until(Tick),
}

impl QueueState {
    pub(super) fn new(rule: RuleState, quota: Quota, generation: u64) -> Self {
        Self {
            rule,
            quota,
            waiters: WaitQueue::new(),
            queued: 0,
            closed: false,
            timed: Tick::default(),
            generation,
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiters.len()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// When the head joined.
    pub(super) fn oldest(&self) -> Option<Tick> {
        self.waiters.head().map(|head| head.at)
    }

    /// When the head is due.
    fn due_of_head(&self) -> Option<Tick> {
        let head = self.waiters.head()?;
        Some(self.rule.due(0, head.cost))
    }

    /// What a waiter came to that does not wait any more.
    fn collect(&mut self, id: &WaiterId) -> Result<Charge, AcquireError> {
        match self.waiters.collect(id) {
            None => Err(AcquireError::new(ErrorKind::Closed)),
            Some(kept) if kept.generation == REFUSED => {
                Err(AcquireError::exceeds_capacity(kept.cost))
            }
            Some(receipt) => Ok(receipt.into()),
        }
    }
}

/// The lock of a limiter, with the time.
pub(super) struct Locked<'a> {
    shared: &'a Shared,
    /// `None` when the guard has ended.
    queue: Option<MutexGuard<'a, QueueState>>,
    seen: StateSnapshot,
    now: Tick,
    woken: WakeList,
    /// What the word means has changed.
    renewed: bool,
    /// The timer is to be armed for the head.
    arms: bool,
}

impl<'a> Locked<'a> {
    pub(super) fn new(shared: &'a Shared, mut queue: MutexGuard<'a, QueueState>) -> Self {
        let seen = shared.state.lock();
        queue.rule.lock(seen.tat());
        // Only now: what was decided without the lock before has an earlier tick, and is seen.
        let mut now = shared.clock().now();
        if queue.rule.is_ahead_of(now) {
            shared.clock().correct();
            now = shared.clock().now();
        }
        Self {
            shared,
            queue: Some(queue),
            seen,
            now,
            woken: WakeList::new(),
            renewed: false,
            arms: false,
        }
    }

    /// The tick at which everything under this guard takes place.
    pub(super) fn now(&self) -> Tick {
        self.now
    }

    /// Unlocks. Returns whether there may be more to grant.
    pub(super) fn end(&mut self) -> bool {
        let Some(queue) = self.queue.take() else {
            return false;
        };
        let shared = self.shared;
        let mut state = self.seen.with(queue.rule.tat());
        if self.renewed {
            shared.params.store(&queue.rule, queue.generation);
            state = state.next_epoch();
        }
        let due = self.arms.then(|| queue.due_of_head()).flatten();
        let locked = queue.waiting() > 0 || queue.closed;
        shared
            .state
            .store(state, locked || !queue.rule.is_in_word());
        if !locked {
            queue.rule.unlock();
        }
        drop(queue);
        let more = self.woken.is_full();
        self.woken.wake_all();
        shared.arm(due);
        more
    }

    /// Admits a call now that takes between `cost` and `most`, if nobody waits and time allows it.
    pub(super) fn admit(&mut self, cost: u64, most: u64) -> Result<Charge, Refusal> {
        if self.closed {
            return Err(Refusal::Never(AcquireError::new(ErrorKind::Closed)));
        }
        if self.is_impossible(cost) {
            let error = AcquireError::exceeds_capacity(self.rule.capacity());
            return Err(Refusal::Never(error));
        }
        let due = self.due_of_next(cost);
        if !self.has_come(due) || cost > 0 && self.waiting() > 0 {
            return Err(Refusal::Until(due));
        }
        let cost = match most > cost {
            true => most.min(self.available()).max(cost),
            false => cost,
        };
        Ok(self.charge(cost))
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

    /// Gives back up to `cost` of a charge, as far as time has not paid it off.
    pub(super) fn give_back(&mut self, charge: &Charge, cost: u64) {
        let (now, receipt) = (self.now, charge.receipt());
        // What was charged under another quota was carried over with all that was spent.
        if receipt.generation != self.generation || self.rule.give_back(receipt, cost, now) == 0 {
            return;
        }
        if self.rule.refunded() > MOST_REFUNDED {
            self.begin_generation();
        }
        // A decision that has seen what was refunded before must not take place now, not even when
        // the word has become the same again.
        self.renewed = true;
        self.time_anew();
    }

    /// Changes the quota, and lets everybody be due by the new one. One that says the same in other
    /// words is only remembered.
    pub(super) fn set_quota(&mut self, quota: Quota, how: QuotaChange) {
        let now = self.now;
        self.quota = quota;
        if self.rule.change(quota, how, now) {
            self.begin_generation();
            self.time_anew();
        }
    }

    /// Forgets all charges.
    pub(super) fn clear(&mut self) {
        self.rule.clear();
        self.begin_generation();
        self.time_anew();
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
        self.grant_due();
    }

    /// Charges from before cannot be told from one another any more.
    fn begin_generation(&mut self) {
        self.generation += 1;
        self.rule.forget_receipts();
        self.renewed = true;
    }

    /// Grants what something has just made due, and has the timer armed for the next waiter.
    fn time_anew(&mut self) {
        self.timed = self.now;
        self.serve();
    }

    /// Grants what is due, and has the timer armed for the next waiter.
    pub(super) fn serve(&mut self) {
        self.arms = true;
        self.grant_due();
    }

    /// Serves waiters from the head until one is not due, or enough are to be woken. Returns whether
    /// any was.
    pub(super) fn grant_due(&mut self) -> bool {
        let mut any = false;
        while !self.woken.is_full() {
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
            } else {
                break;
            };
            self.queued -= u128::from(head.cost);
            self.woken.push(served);
            self.arms = true;
            any = true;
        }
        any
    }

    /// Charges the head, if it is due: as of when it was due, but not before it came or was made
    /// due, nor longer ago than may be made up for.
    fn grant(&mut self, head: Receipt) -> Option<Receipt> {
        let due = self.rule.due(0, head.cost);
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

    /// Whether a call asks for more than it can ever get.
    fn is_impossible(&self, cost: u64) -> bool {
        self.shared.config.oversize == Oversize::Refuse && cost > self.rule.capacity()
    }

    /// When a call that comes now is due, if it is not refused: never before the head, which perhaps
    /// asks for more.
    fn due_of_next(&self, cost: u64) -> Tick {
        if cost == 0 {
            return Tick::default();
        }
        let due = self.rule.due(self.queued, cost);
        due.max(self.due_of_head().unwrap_or_default())
    }

    /// What could be had at once, if nobody waited and it was not closed.
    pub(super) fn available(&mut self) -> u64 {
        let now = self.now;
        let backlog = self.rule.backlog(now);
        self.rule.capacity().saturating_sub(backlog)
    }

    /// How the limiter stands for a call of this cost that is not made.
    pub(super) fn decision(&mut self, cost: u64) -> Decision {
        let due = match self.closed || self.is_impossible(cost) {
            true => Tick::from_nanos(u64::MAX),
            false => self.due_of_next(cost),
        };
        let limit = self.rule.capacity();
        let (after, reset) = (
            wait_for(due, self.now),
            wait_for(self.rule.reset(), self.now),
        );
        Decision::from_parts(limit, self.available(), after, reset, self.now)
    }

    /// How the limiter stood just after a charge; or how it stands now, if that is not known.
    pub(super) fn decision_after(&mut self, charge: &Charge) -> Decision {
        let receipt = charge.receipt();
        if receipt.generation != self.generation {
            return self.decision(0);
        }
        let (backlog, reset) = self.rule.after(receipt);
        let limit = self.rule.capacity();
        let (none, reset) = (Default::default(), wait_for(reset, receipt.at));
        Decision::from_parts(
            limit,
            limit.saturating_sub(backlog),
            none,
            reset,
            receipt.at,
        )
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
        if self.end() {
            self.shared.grant_all_due();
        }
    }
}

/// Waiting.
impl Shared {
    /// Charges now, is refused, or joins the queue: then there is perhaps a deadline to
    /// [arm](Self::arm), which may panic, so whoever waits must have its place before.
    #[inline(never)]
    pub(super) fn join(
        &self,
        cost: u64,
        waker: &Waker,
    ) -> Result<Result<Charge, AcquireError>, (WaiterId, Option<Tick>)> {
        // Cloned before the lock, under which no foreign code runs, and dropped after it.
        let waker = waker.clone();
        let mut locked = self.lock_on_time();
        let due = match locked.admit(cost, cost) {
            Ok(charge) => return Ok(Ok(charge)),
            Err(Refusal::Never(error)) => return Ok(Err(error)),
            Err(Refusal::Until(due)) => due,
        };
        let (now, waiting) = (locked.now, locked.waiting());
        if waiting >= self.config.max_waiters || locked.waiters.is_full() {
            // Until the head goes; or, where nobody may wait, until this call would.
            let free = locked.due_of_head().unwrap_or(due);
            let after = self.jittered(wait_for(free, now));
            return Ok(Err(AcquireError::queue_full(after)));
        }
        let after = wait_for(due, now);
        if remaining_timeout().is_some_and(|budget| after > budget) {
            return Ok(Err(AcquireError::would_take(after)));
        }
        let joined = Receipt {
            cost,
            at: now,
            ..Receipt::default()
        };
        locked.queued += u128::from(cost);
        let id = locked.waiters.push(joined, waker);
        drop(locked);
        report_clock(self.clock());
        Err((id, (waiting == 0).then_some(due)))
    }

    /// Has the queue called at `due`.
    pub(super) fn arm(&self, due: Option<Tick>) {
        if let Some(due) = due {
            self.timer.arm(self.clock(), due);
        }
    }

    /// Polls a waiter again.
    #[inline(never)]
    pub(super) fn poll_waiter(
        &self,
        id: &WaiterId,
        waker: &Waker,
    ) -> Poll<Result<Charge, AcquireError>> {
        let mut queue = self.queue();
        let mut status = queue.waiters.look(id, waker);
        if status == WaiterStatus::Served {
            return Poll::Ready(queue.collect(id));
        }
        drop(queue);
        if status == WaiterStatus::StaleWaker {
            let fresh = waker.clone();
            let unused = self.queue().waiters.set_waker(id, fresh);
            drop(unused);
        }
        // It may be due, and the timer late: a deadline that is polled now must not be earlier. And
        // it may have been served before its waker was exchanged, and the old one been called.
        status = self.lock_on_time().waiters.look(id, waker);
        if status == WaiterStatus::Served {
            return Poll::Ready(self.queue().collect(id));
        }
        report_clock(self.clock());
        Poll::Pending
    }

    /// Gives up a place in the queue, or gives back what was granted there.
    #[inline(never)]
    pub(super) fn leave(&self, id: WaiterId, cost: u64) {
        // Not on time: a waiter that is due but was not granted leaves like any other.
        let mut locked = self.lock_state();
        let is_head = locked.waiters.head_number() == Some(id.number().get());
        let overdue = locked.due_of_head().is_some_and(|due| locked.has_come(due));
        let Some(waker) = locked.waiters.withdraw(&id) else {
            let collected = locked.collect(&id);
            drop(locked);
            if let Ok(charge) = collected {
                self.lock_on_time().give_back(&charge, charge.cost());
            }
            return;
        };
        locked.queued -= u128::from(cost);
        if is_head {
            // If it was overdue, it is the timer that is late, and that is made up for.
            match overdue {
                true => locked.serve(),
                false => locked.time_anew(),
            }
        }
        drop(locked);
        drop(waker);
    }

    /// When a waiter is due, as the queue stands, and the time; `None` if it has been served. Takes a
    /// number of steps that grows with the queue.
    pub(super) fn due_of(&self, id: &WaiterId) -> Option<(Tick, Tick)> {
        let locked = self.lock_on_time();
        let cost = locked.waiters.cost(id)?.cost;
        // A copy of a log takes as much as the log, so none is made for the head.
        let mut copy = None;
        for other in locked.waiters.before(id) {
            if !locked.is_impossible(other.cost) {
                let rule = copy.get_or_insert_with(|| locked.rule.clone());
                let due = rule.due(0, other.cost);
                rule.grant(due, other.cost);
            }
        }
        let due = copy.as_ref().unwrap_or(&locked.rule).due(0, cost);
        Some((due, locked.now))
    }
}
