//! The slow paths of a semaphore: permits, waiters and closing, all under one lock.
//!
//! Invariants, together with those of the [word](super::permit_state) and the
//! [queue](crate::wait_queue):
//!
//! 1. When the lock is free, `QUEUED` is set exactly while the queue of waiters is not empty, and
//!    `NOTICE` exactly while that queue or the queue of waiters for idleness is not empty.
//! 2. Permits accumulate in the word until they cover the head. Nothing is reserved in part, so a
//!    waiter that leaves has nothing to return except a whole grant.
//! 3. [`advance`](Semaphore::advance) is the only place where a waiter is settled. Every operation
//!    that may release the head does so before it frees the lock for others: a release that saw
//!    `NOTICE`, a leaving head, a grant passed on, a resize, `close`.
//! 4. [`settle`](Semaphore::settle) calls wakers after it has unlocked, and continues until the
//!    head must wait. Meanwhile other threads may advance the queue instead: it stays in order,
//!    because it is settled only from the head.

use std::task::{Poll, Waker};

use super::Semaphore;
use crate::concurrency::acquire::Queued;
use crate::concurrency::permit::PermitSource;
use crate::error::{AcquireError, ErrorKind};
use crate::sync::{MutexGuard, Ordering, lock};
use crate::wait::Polled;
use crate::wait_queue::{WaitQueue, WaiterId, WakeList, lock_if_served, serve_and_wake};

/// The state that the lock guards.
pub(super) struct QueueState {
    /// The waiters for permits. A waiter that requests more than the shrunk limit finds that limit
    /// kept in its slot.
    pub(super) permits: WaitQueue<u32>,
    /// The waiters for the moment at which all permits have been returned.
    pub(super) idle: WaitQueue<()>,
    /// The last of them that was there when all permits had been returned. All waiters up to that
    /// number are granted, even if the moment is over when their turn to be woken comes.
    idle_until: u64,
    /// Once closed, the first number that was not granted; so waiters need not be notified one by
    /// one.
    closed_from: Option<u64>,
    /// The number of the last waiter that was there when the limit was last reduced, or when the
    /// impossible were last rejected. Only those waiters are refused: one that waits for the limit to
    /// rise keeps waiting until it has risen.
    refuses_until: u64,
    /// The highest limit since then: a request for more than that could not be granted at any time
    /// since.
    highest_limit: usize,
}

impl QueueState {
    pub(super) const fn new() -> Self {
        Self {
            permits: WaitQueue::new(),
            idle: WaitQueue::new(),
            idle_until: 0,
            closed_from: None,
            refuses_until: 0,
            highest_limit: 0,
        }
    }

    /// Returns whether this waiter was to be refused for its request, and the limit has not been
    /// raised far enough since.
    fn is_impossible(&self, number: u64, cost: u32) -> bool {
        number <= self.refuses_until && cost as usize > self.highest_limit
    }

    /// Records a change of the limit.
    fn limit_changed(&mut self, old: usize, new: usize) {
        if new >= old {
            self.highest_limit = self.highest_limit.max(new);
        } else {
            self.refuse_above(new);
        }
    }

    /// Refuses the waiters that request more than the limit when they reach the head. A limit of 0 is
    /// a pause, not a capacity.
    pub(super) fn refuse_above(&mut self, limit: usize) {
        if limit > 0 {
            self.refuses_until = self.permits.last_number();
            self.highest_limit = limit;
        }
    }

    /// Records that no waiter is granted from now on.
    pub(super) fn close(&mut self) {
        let first = self.permits.head_number();
        let first = first.unwrap_or(self.permits.last_number() + 1);
        self.closed_from.get_or_insert(first);
    }

    /// Returns the outcome of a served waiter for permits.
    fn collect(&mut self, id: WaiterId) -> Result<(), AcquireError> {
        let number = id.number().get();
        if let Some(limit) = self.permits.collect(&id) {
            Err(AcquireError::exceeds_capacity(limit as u64))
        } else if self.closed_from.is_some_and(|first| first <= number) {
            Err(AcquireError::new(ErrorKind::Closed))
        } else {
            Ok(())
        }
    }
}

/// Taking and returning.
impl Semaphore {
    pub(super) fn lock(&self) -> MutexGuard<'_, QueueState> {
        lock(&self.queues)
    }

    /// Takes permits now, or returns an error.
    #[inline]
    pub(crate) fn try_take(&self, permits: u32) -> Result<(), AcquireError> {
        match self.state.try_take(permits) {
            true => Ok(()),
            false => self.refuse(permits),
        }
    }

    /// Handles a failed attempt to take permits: returns the error, if it is one.
    #[cold]
    fn refuse(&self, permits: u32) -> Result<(), AcquireError> {
        self.check_possible(permits)?;
        match permits {
            0 => Ok(()),
            _ => Err(AcquireError::new(ErrorKind::NoPermits)),
        }
    }

    /// Returns an error if `permits` cannot be acquired even by waiting: the semaphore is closed, or
    /// they exceed the limit. A limit of 0 is a pause, not a capacity.
    fn check_possible(&self, permits: u32) -> Result<(), AcquireError> {
        let limit = self.permits();
        if self.state.load().is_closed() {
            Err(AcquireError::new(ErrorKind::Closed))
        } else if limit != 0 && usize::try_from(permits).is_ok_and(|permits| permits > limit) {
            Err(AcquireError::exceeds_capacity(limit as u64))
        } else {
            Ok(())
        }
    }

    /// Grants every waiter that can be served, after a release that saw `NOTICE`. A separate
    /// function, so that a release takes one call.
    #[inline(never)]
    fn visit(&self) {
        self.settle(self.lock());
    }
}

impl PermitSource for Semaphore {
    #[inline]
    fn give_back(&self, permits: usize) {
        if self.state.give(permits).wants_notice() {
            self.visit();
        }
    }
}

impl Queued for Semaphore {
    type Found = ();

    #[inline]
    fn take_now(&self, permits: u32) -> Option<()> {
        self.state.try_take(permits).then_some(())
    }

    #[inline(never)]
    fn join(&self, permits: u32, id: &mut Option<WaiterId>, waker: &Waker) -> Polled<()> {
        // The waker is cloned before and dropped after the lock, under which no foreign code runs.
        let waker = waker.clone();
        let mut queues = self.lock();
        self.check_possible(permits)?;
        let room = queues.permits.len() < self.max_waiters && !queues.permits.is_full();
        loop {
            // Permits may have been returned since; without waiters they may still be taken.
            if permits == 0 || self.state.try_take(permits) {
                return Poll::Ready(Ok(()));
            }
            if !room {
                return Poll::Ready(Err(AcquireError::new(ErrorKind::QueueFull)));
            }
            if !queues.permits.is_empty() || self.state.announce(permits) {
                *id = Some(queues.permits.push(permits, waker));
                return Poll::Pending;
            }
        }
    }

    fn look(&self, id: &mut Option<WaiterId>, waker: &Waker) -> Polled<()> {
        // A grant can be detected without the lock.
        let granted = |id: &mut WaiterId| self.cursor.has_granted(id.number().get());
        if id.take_if(granted).is_some() {
            return Poll::Ready(Ok(()));
        }
        match lock_if_served(&self.queues, |queues| &mut queues.permits, id, waker) {
            None => Poll::Pending,
            Some((mut queues, id)) => Poll::Ready(queues.collect(id)),
        }
    }

    fn leave(&self, id: WaiterId, permits: u32) {
        let mut queues = self.lock();
        let waker = queues.permits.withdraw(&id);
        if waker.is_none() && queues.collect(id).is_ok() {
            self.state.give(permits as usize);
        }
        // Behind a large head that leaves there may be small waiters that can now be served. After
        // the last waiter has left, the flags must be cleared. A grant that was returned may be the
        // last permit that was held. But while no permit is free, the next head must wait, unless
        // the limit was reduced while it waited.
        let head = queues.permits.head_number();
        let is_newer = head.is_some_and(|head| head > queues.refuses_until);
        match waker.is_some() && is_newer && self.state.load().free() <= 0 {
            true => drop(queues),
            false => self.settle(queues),
        }
        drop(waker);
    }
}

/// Resizing.
impl Semaphore {
    /// Returns the limit, in the type of the word.
    pub(super) fn limit(&self) -> isize {
        // At most `MAX_PERMITS`, so it fits.
        self.permits() as isize
    }

    /// Changes the limit to the result of `change`, and the free permits by the difference. If
    /// `change` returns `None`, nothing changes and this returns `false`.
    pub(super) fn resize(&self, change: impl FnOnce(usize) -> Option<usize>) -> bool {
        let queues = self.lock();
        let Some(new) = change(self.permits()) else {
            return false;
        };
        self.set_limit(queues, new, 0);
        true
    }

    /// Lowers the limit by permits that are held and will not be returned, at most to 0. After a
    /// shrink more permits may be held than the limit; the rest of them pays off the debt.
    pub(in crate::concurrency) fn forget(&self, held: usize) {
        let queues = self.lock();
        self.set_limit(queues, self.permits().saturating_sub(held), held);
    }

    /// Sets the limit, and changes the free permits by the difference, except for the permits that
    /// are `gone`: they were taken before. Settles the queue.
    pub(super) fn set_limit<'a>(
        &'a self,
        mut queues: MutexGuard<'a, QueueState>,
        new: usize,
        gone: usize,
    ) {
        let old = self.permits();
        self.state.resize(old, new + gone);
        queues.limit_changed(old, new);
        self.limit.store(new, Ordering::Relaxed);
        self.settle(queues);
    }
}

/// The core of the operations above.
impl Semaphore {
    /// Grants every waiter that can be served, then unlocks and wakes them.
    pub(super) fn settle<'a>(&'a self, queues: MutexGuard<'a, QueueState>) {
        serve_and_wake(&self.queues, queues, |queues, batch| {
            self.advance(queues, batch)
        });
    }

    /// Settles waiters from the head until one must wait or the batch is full.
    fn advance(&self, queues: &mut QueueState, batch: &mut WakeList) {
        let seen = self.state.load();
        let limit = self.limit();
        let mut free = seen.free();
        let mut last = None;
        while !batch.is_full() {
            let head = (queues.permits.head(), queues.permits.head_number());
            let (Some(cost), Some(number)) = head else {
                break;
            };
            // On a platform where this does not fit, no limit is as high.
            let need = isize::try_from(cost).unwrap_or(isize::MAX);
            let served = if seen.is_closed() {
                // It is recorded like a grant: `closed_from` tells the two apart by number.
                queues.permits.grant_head()
            } else if limit != 0 && queues.is_impossible(number, cost) {
                // A limit of 0 is a pause, not a capacity. Any other limit is less than the request
                // of the head, so it fits.
                queues.permits.keep_head(limit as u32)
            } else if need <= free {
                free -= need;
                queues.permits.grant_head()
            } else {
                break;
            };
            last = Some(number);
            batch.push(served);
        }
        if free == limit {
            queues.idle_until = queues.idle.last_number();
        }
        let until = queues.idle_until;
        let was_there = |first| first <= until;
        while !batch.is_full() && queues.idle.head_number().is_some_and(was_there) {
            batch.push(queues.idle.grant_head());
        }
        let queue = !queues.permits.is_empty();
        let notice = queue || !queues.idle.is_empty();
        self.state.settle(seen, seen.free() - free, queue, notice);
        if let Some(number) = last {
            let has_notices = queues.permits.has_kept() || seen.is_closed();
            self.cursor.publish(number, has_notices);
        }
    }
}
