//! How permits, waiters and the closing of a semaphore meet: the slow paths, all under one lock.
//!
//! Invariants, together with those of the [word](super::permit_state) and the [line](crate::wait_queue):
//!
//! 1. When the lock is free, `QUEUED` is set exactly while the line of waiters is not empty, and
//!    `NOTICE` exactly while that line or the line of those who wait for idleness is not empty.
//! 2. Permits gather in the word until they cover the head: nothing is reserved in part, so a
//!    waiter that leaves has nothing to give back but a whole grant.
//! 3. [`advance`](Semaphore::advance) is the only place where a waiter is settled. Everything that
//!    may let the head go sees to it before the lock is free for others: a release that saw
//!    `NOTICE`, a leaving head, a grant passed on, a resize, `close`.
//! 4. Wakers are called after the lock, by [`settle`](Semaphore::settle), which goes on until the
//!    head cannot go. While it wakes, others may advance the line instead: it stays in order,
//!    because it is settled only from the head.

use std::task::{Poll, Waker};

use super::Semaphore;
use crate::concurrency::acquire::Queued;
use crate::concurrency::permit::PermitSource;
use crate::concurrency::served::lock_if_served;
use crate::error::{AcquireError, ErrorKind};
use crate::sync::{MutexGuard, Ordering, lock};
use crate::wait_queue::{WaitQueue, WaiterId, WakeList};

/// What the lock guards.
pub(super) struct QueueState {
    /// Those who wait for permits. One who asks for more than the limit has shrunk to is told it.
    permits: WaitQueue<u32>,
    /// Those who wait until everything has come back.
    idle: WaitQueue<()>,
    /// The last of them who was there when everything had come back. All up to that number are
    /// granted, even if the moment is over by the time that their turn to be woken comes.
    idle_until: u64,
    /// Once closed, the first number that was not granted; so nobody has to be told one by one.
    closed_from: Option<u64>,
    lowered: Lowered,
}

/// What the last lowering of the limit has made impossible. Only that is refused in the queue: who
/// waits for a limit to rise, waits until it has.
struct Lowered {
    /// The last waiter that was there.
    until: u64,
    /// The highest limit since then: who asks for more than that could not go at any time since.
    highest: usize,
}

/// What becomes of the head.
enum Turn {
    /// It takes so many permits.
    Go(isize),
    Closed,
    ExceedsCapacity(usize),
}

impl QueueState {
    pub(super) const fn new() -> Self {
        Self {
            permits: WaitQueue::new(),
            idle: WaitQueue::new(),
            idle_until: 0,
            closed_from: None,
            lowered: Lowered {
                until: 0,
                highest: 0,
            },
        }
    }

    /// What becomes of the head; `None` if there is none, or it has to wait on. A limit of 0 is a
    /// pause, not a capacity.
    fn turn(&self, free: isize, closed: bool, limit: isize) -> Option<Turn> {
        let cost = self.permits.head()?;
        let number = self.permits.head_number()?;
        let impossible = number <= self.lowered.until && cost as usize > self.lowered.highest;
        if closed {
            Some(Turn::Closed)
        } else if limit != 0 && impossible {
            Some(Turn::ExceedsCapacity(limit as usize))
        } else if isize::try_from(cost).is_ok_and(|cost| cost <= free) {
            Some(Turn::Go(cost as isize))
        } else {
            None
        }
    }

    /// The limit has changed.
    fn limit_changed(&mut self, old: usize, new: usize) {
        if new >= old {
            self.lowered.highest = self.lowered.highest.max(new);
        } else if new > 0 {
            self.lowered = Lowered {
                until: self.permits.last_number(),
                highest: new,
            };
        }
    }

    /// What came of the wait for permits of one who has been served.
    fn collect(&mut self, ticket: WaiterId) -> Result<(), AcquireError> {
        let number = ticket.number().get();
        if let Some(limit) = self.permits.collect(&ticket) {
            Err(AcquireError::exceeds_capacity(limit as u64))
        } else if self.closed_from.is_some_and(|first| first <= number) {
            Err(AcquireError::new(ErrorKind::Closed))
        } else {
            Ok(())
        }
    }
}

/// Taking and giving back.
impl Semaphore {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        lock(&self.queues)
    }

    /// Takes permits now, or refuses.
    #[inline]
    pub(super) fn try_take(&self, permits: u32) -> Result<(), AcquireError> {
        match self.state.try_take(permits) {
            true => Ok(()),
            false => self.refuse(permits),
        }
    }

    /// The end of a try that could not take: which refusal it is, if it is one.
    #[cold]
    fn refuse(&self, permits: u32) -> Result<(), AcquireError> {
        match self.impossible(permits) {
            Some(error) => Err(error),
            None if permits == 0 => Ok(()),
            None => Err(AcquireError::new(ErrorKind::NoPermits)),
        }
    }

    /// Why `permits` are not to be had even by waiting: closed, or more than the limit. A limit of
    /// 0 is a pause, not a capacity.
    fn impossible(&self, permits: u32) -> Option<AcquireError> {
        let limit = self.permits();
        if self.state.load().is_closed() {
            Some(AcquireError::new(ErrorKind::Closed))
        } else if limit != 0 && usize::try_from(permits).is_ok_and(|permits| permits > limit) {
            Some(AcquireError::exceeds_capacity(limit as u64))
        } else {
            None
        }
    }

    /// Lets everybody go who can: after a release that was asked to visit the lock.
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
    fn join(
        &self,
        permits: u32,
        ticket: &mut Option<WaiterId>,
        waker: &Waker,
    ) -> Poll<Result<(), AcquireError>> {
        // Cloned before the lock, under which no foreign code runs, and dropped after it.
        let waker = waker.clone();
        let mut lines = self.lock();
        if let Some(error) = self.impossible(permits) {
            return Poll::Ready(Err(error));
        }
        let room = lines.permits.len() < self.max_waiters && !lines.permits.is_full();
        loop {
            // Permits may have come back since; with nobody in line they may still be taken.
            if permits == 0 || self.state.try_take(permits) {
                return Poll::Ready(Ok(()));
            }
            if !room {
                return Poll::Ready(Err(AcquireError::new(ErrorKind::QueueFull)));
            }
            if !lines.permits.is_empty() || self.state.announce(permits) {
                *ticket = Some(lines.permits.push(permits, waker));
                return Poll::Pending;
            }
        }
    }

    fn look(&self, ticket: &mut Option<WaiterId>, waker: &Waker) -> Poll<Result<(), AcquireError>> {
        // A grant can be told without the lock.
        let granted = |ticket: &mut WaiterId| self.cursor.has_granted(ticket.number());
        if ticket.take_if(granted).is_some() {
            return Poll::Ready(Ok(()));
        }
        match lock_if_served(&self.queues, |lines| &mut lines.permits, ticket, waker) {
            None => Poll::Pending,
            Some((mut lines, ticket)) => Poll::Ready(lines.collect(ticket)),
        }
    }

    fn leave(&self, ticket: WaiterId, permits: u32) {
        let mut lines = self.lock();
        let waker = lines.permits.withdraw(&ticket);
        if waker.is_none() {
            if lines.collect(ticket).is_err() {
                return;
            }
            self.state.give(permits as usize);
        }
        // Behind a large head that leaves there may be small ones that can go, and behind the last
        // one there is no line any more.
        if waker.is_none() || !self.head_must_wait(&lines) {
            self.settle(lines);
        } else {
            drop(lines);
        }
        drop(waker);
    }
}

impl Semaphore {
    /// Whether there is a head, and it has to wait on.
    fn head_must_wait(&self, lines: &QueueState) -> bool {
        let seen = self.state.load();
        let turn = lines.turn(seen.free(), seen.is_closed(), self.limit());
        turn.is_none() && !lines.permits.is_empty()
    }
}

/// Waiting for idleness.
impl Semaphore {
    /// A first poll: ready if everything has come back, otherwise joins and leaves its ticket.
    #[cold]
    pub(super) fn join_idle(&self, ticket: &mut Option<WaiterId>, waker: &Waker) -> Poll<()> {
        let waker = waker.clone();
        let mut lines = self.lock();
        // Asked for before the word is read: a release that the reading misses sees the notice.
        self.state.ask_notice();
        if self.state.load().free() == self.limit() {
            self.settle(lines);
            return Poll::Ready(());
        }
        *ticket = Some(lines.idle.push((), waker));
        Poll::Pending
    }

    /// A later poll: whether everything had come back at some moment since the first.
    #[cold]
    pub(super) fn look_idle(&self, ticket: &mut Option<WaiterId>, waker: &Waker) -> Poll<()> {
        match lock_if_served(&self.queues, |lines| &mut lines.idle, ticket, waker) {
            None => Poll::Pending,
            Some(_) => Poll::Ready(()),
        }
    }

    /// Waits for idleness no longer.
    #[cold]
    pub(super) fn leave_idle(&self, ticket: WaiterId) {
        let mut lines = self.lock();
        let waker = lines.idle.withdraw(&ticket);
        self.settle(lines);
        drop(waker);
    }
}

/// Changing what is allowed.
impl Semaphore {
    /// The limit, in the type of the word.
    fn limit(&self) -> isize {
        // At most `MAX_PERMITS`, so it fits.
        self.permits() as isize
    }

    /// Closes, and lets everybody in line know.
    pub(super) fn close_queue(&self) {
        let mut lines = self.lock();
        self.state.close();
        let permits = &lines.permits;
        let first = permits.head_number().unwrap_or(permits.last_number() + 1);
        lines.closed_from.get_or_insert(first);
        self.settle(lines);
    }

    /// Changes the limit to what `change` makes of it, and the free permits by the difference.
    /// When it makes `None` of it nothing changes, and the answer is `false`.
    pub(super) fn resize(&self, change: impl FnOnce(usize) -> Option<usize>) -> bool {
        let lines = self.lock();
        let old = self.permits();
        let Some(new) = change(old) else {
            return false;
        };
        self.state.resize(old, new);
        self.set_limit(lines, old, new);
        true
    }

    /// Lowers the limit by permits that are held and will not come back, at most to 0: after a
    /// shrink more may be held than the limit, and the rest of them pays off the debt.
    pub(in crate::concurrency) fn forget(&self, held: usize) {
        let lines = self.lock();
        let old = self.permits();
        let new = old.saturating_sub(held);
        self.state.resize(old, new + held);
        self.set_limit(lines, old, new);
    }

    /// Takes up to `permits` free ones out of circulation; how many there were.
    pub(super) fn forget_free(&self, permits: usize) -> usize {
        let lines = self.lock();
        let forgotten = self.state.take_up_to(permits);
        let old = self.permits();
        // What is free is part of the limit.
        self.set_limit(lines, old, old - forgotten);
        forgotten
    }

    /// Sets the limit, to which the free permits have been fitted, and settles the queue.
    fn set_limit<'a>(&'a self, mut lines: MutexGuard<'a, QueueState>, old: usize, new: usize) {
        self.limit.store(new, Ordering::Relaxed);
        lines.limit_changed(old, new);
        self.settle(lines);
    }

    /// How many are waiting for permits.
    pub(super) fn queue_len(&self) -> usize {
        self.lock().permits.len()
    }
}

/// What all of these come down to.
impl Semaphore {
    /// Lets everybody go who can, then unlocks and wakes them.
    fn settle<'a>(&'a self, mut lines: MutexGuard<'a, QueueState>) {
        let mut batch = WakeList::new();
        loop {
            let more = self.advance(&mut lines, &mut batch);
            drop(lines);
            batch.wake_all();
            if !more {
                return;
            }
            lines = self.lock();
        }
    }

    /// Settles waiters from the head until one cannot go or the batch is full; `true` if it was
    /// full.
    fn advance(&self, lines: &mut QueueState, batch: &mut WakeList) -> bool {
        let seen = self.state.load();
        let limit = self.limit();
        let mut free = seen.free();
        let mut last = None;
        while !batch.is_full() {
            let served = match lines.turn(free, seen.is_closed(), limit) {
                None => break,
                Some(Turn::Go(cost)) => {
                    free -= cost;
                    lines.permits.grant_head()
                }
                // No more than a grant is noted: its number says what it is.
                Some(Turn::Closed) => lines.permits.grant_head(),
                // It is less than what the head asks for, so it fits.
                Some(Turn::ExceedsCapacity(limit)) => lines.permits.keep_head(limit as u32),
            };
            last = served.as_ref().map(|served| served.number);
            batch.push(served);
        }
        if free == limit {
            lines.idle_until = lines.idle.last_number();
        }
        if !lines.idle.is_empty() {
            let until = lines.idle_until;
            while !batch.is_full() && lines.idle.head_number().is_some_and(|first| first <= until) {
                batch.push(lines.idle.grant_head());
            }
        }
        let line = !lines.permits.is_empty();
        let notice = line || !lines.idle.is_empty();
        self.state.settle(seen, seen.free() - free, line, notice);
        if let Some(number) = last {
            let told = lines.permits.has_kept() || seen.is_closed();
            self.cursor.publish(number, told);
        }
        batch.is_full()
    }
}
