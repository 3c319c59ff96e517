//! Waiting in the queue of a limiter: a call joins, looks whether it was served, leaves, and foresees
//! when its turn comes. All of it goes through the guard, or only looks at the queue.
//!
//! 1. A waker is cloned before the lock and dropped after it, because it is foreign code.
//! 2. A waiter that looks serves the queue first, because the timer may be late: if it is due, a
//!    deadline that is polled at the same time must not win.
//! 3. What is foreseen of the first [`FORESEEN`] waiters is exact. Of those behind them only sums are
//!    known, of which it takes the least; neither is less than what they ask for.

use std::task::{Poll, Waker};

use super::acquire::Stage;
use super::charge::Charge;
use super::queue::Request;
use super::shared::Shared;
use crate::decision::wait_for;
use crate::error::{AcquireError, ErrorKind};
use crate::time::Tick;
use crate::wait::{remaining_timeout, report_clock};
use crate::wait_queue::{WaiterId, WaiterStatus};

/// For how many waiters in front the time of another one is computed, each by itself.
const FORESEEN: usize = 1024;

impl Shared {
    /// Charges now, fails, or joins the queue, and then stores the waiter's id in `stage`. Returns
    /// `None` if the runtime has ended, so that the call has to wait elsewhere.
    #[inline(never)]
    pub(super) fn join(
        &self,
        cost: u64,
        waker: &Waker,
        stage: &mut Stage,
    ) -> Option<Poll<Result<Charge, AcquireError>>> {
        // Cloned before the lock, under which no foreign code runs, and dropped after it.
        let waker = waker.clone();
        let mut locked = self.lock_on_time();
        if let Err(refused) = locked.check(cost) {
            return Some(Poll::Ready(Err(refused)));
        }
        let now = locked.now;
        let came = match stage {
            Stage::AsOf(tick) if cost > 0 => now.min(*tick),
            _ => now,
        };
        let admitted = match came < now {
            true => locked.admit_as_of(cost, came),
            false => locked.admit(cost, cost),
        };
        let due = match admitted {
            Ok(charge) => return Some(Poll::Ready(Ok(charge))),
            Err(due) => due,
        };
        let waiting = locked.waiting();
        if waiting >= self.config.max_waiters || locked.waiters.is_full() {
            // Until the head is due; or, if no call may wait, until this call is.
            let free = locked.next_due().unwrap_or(due);
            let after = self.jittered(wait_for(free, now));
            return Some(Poll::Ready(Err(AcquireError::after(
                ErrorKind::QueueFull,
                after,
            ))));
        }
        let after = wait_for(due, now);
        if remaining_timeout().is_some_and(|budget| after > budget) {
            return Some(Poll::Ready(Err(AcquireError::would_take(after))));
        }
        // Under the lock: a state that has ended, and is unused then, may not be used any more.
        if self.clock().has_ended() {
            return None;
        }
        let id = locked.push(cost, came, waker);
        *stage = Stage::Waiting(id.of_queue(self.number));
        drop(locked);
        report_clock(self.clock());
        // Last, because arming may panic.
        if waiting == 0 {
            self.arm(due);
        }
        Some(Poll::Pending)
    }

    /// Polls a waiter again. Returns `None` if it has to [move](super::queue::QueueEntry::Moves).
    #[inline(never)]
    pub(super) fn poll_waiter(
        &self,
        id: &WaiterId,
        waker: &Waker,
    ) -> Option<Poll<Result<Charge, AcquireError>>> {
        let mut queue = self.queue();
        let mut status = queue.waiters.look(id, waker);
        if status == WaiterStatus::Served {
            return queue.collect(id).map(Poll::Ready);
        }
        drop(queue);
        if status == WaiterStatus::StaleWaker {
            let fresh = waker.clone();
            let unused = self.queue().waiters.set_waker(id, fresh);
            drop(unused);
        }
        // The waiter may be due while the timer is late, and a deadline that is polled now must not
        // win. Or it may have been served before its waker was exchanged, so that the old waker was
        // called.
        status = self.lock_on_time().waiters.look(id, waker);
        if status == WaiterStatus::Served {
            return self.queue().collect(id).map(Poll::Ready);
        }
        report_clock(self.clock());
        Some(Poll::Pending)
    }

    /// Returns the outcome of a waiter, if it has one.
    pub(super) fn collect_served(&self, id: &WaiterId) -> Option<Result<Charge, AcquireError>> {
        let mut queue = self.queue();
        let waits = queue.waiters.cost(id).is_some();
        if waits { None } else { queue.collect(id) }
    }

    /// Leaves the queue, or gives back what was granted there.
    #[inline(never)]
    pub(super) fn leave(&self, id: WaiterId, cost: u64) {
        // Nothing is granted first: a waiter that is due but was not granted leaves like any other.
        let mut locked = self.lock_state();
        let is_head = locked.waiters.head_number() == Some(id.number().get());
        let late = locked.is_late();
        let Some(waker) = locked.waiters.withdraw(&id) else {
            let collected = locked.collect(&id);
            drop(locked);
            if let Some(Ok(charge)) = collected {
                self.lock_on_time().give_back(&charge, charge.cost());
            }
            return;
        };
        locked.forget(cost);
        if is_head {
            locked.head_changed(late);
        }
        drop(locked);
        drop(waker);
    }

    /// Returns when a waiter is due, as the queue is now, and the time; `None` if it has been
    /// served. One that asks for too much is due when it is refused: with the waiter before it.
    pub(super) fn due_of(&self, id: &WaiterId) -> Option<(Tick, Tick)> {
        let locked = self.lock_on_time();
        let own = locked.request(id)?;
        let waits = |request: &Request| !locked.is_impossible(request.cost);
        let (mut due, mut charged, mut last) = (locked.paused_until, 0, 0);
        let mut rule = locked.rule.forecast();
        let mut front = locked.before(id);
        for other in front.by_ref().take(FORESEEN) {
            last = other.joined;
            if waits(&other) {
                due = rule.due(0, other.cost).max(due);
                rule.grant(due, other.cost);
                charged += u128::from(other.cost);
            }
        }
        let cost = if waits(&own) { own.cost } else { 0 };
        // Of those between the last of these and it, what they joined with is known, and that it is
        // no more than all that still wait.
        let behind = front.next().map_or(0, |_| {
            let joined = own.joined - last - u128::from(own.cost);
            joined.min(locked.queued - charged - u128::from(cost))
        });
        Some((rule.due(behind, cost).max(due), locked.now))
    }
}
