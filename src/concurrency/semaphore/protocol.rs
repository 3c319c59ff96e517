//! The slow paths of a semaphore: permits, waiters and closing, all under one lock.
//!
//! Invariants, together with those of the [word](super::permit_state) and the
//! [queue](crate::wait_queue):
//!
//! 1. When the lock is free, `QUEUED` is set exactly while the queue of waiters is not empty, and
//!    `NOTICE` exactly while that queue or the queue of waiters for idleness is not empty.
//! 2. Permits accumulate in the word until they cover the head. Nothing is reserved in part, so a
//!    waiter that leaves has nothing to return except a whole grant.
//! 3. When the lock is free, no waiter requests more than the limit, unless the limit was 0 while it
//!    waited: a newcomer is checked under the lock, and a limit that [falls](Semaphore::set_limit)
//!    refuses those above it.
//! 4. Apart from that, [`advance`](Semaphore::advance) is the only place where a waiter is settled. Every operation
//!    that may release the head does so before it frees the lock for others: a release that saw
//!    `NOTICE`, a leaving head, a grant passed on, a resize, `close`.
//! 5. [`settle`](Semaphore::settle) calls wakers after it has unlocked, and continues until the
//!    head must wait; a call that refused waiters wakes them first, in the same batches. Meanwhile
//!    other threads may advance the queue instead: it stays in order, because it is granted only
//!    from the head.
//! 6. A served waiter was granted, unless its slot holds the reason for its refusal. While a reason is kept
//!    for any waiter, `granted_until` does not rise, so it passes no waiter that has a refusal to collect. A
//!    waiter with a higher number checks its slot, under the lock.
//!
//! Ordering: `granted_until` is stored with `Release` after the permits were taken from the word with
//! `Acquire`, and is read with `Acquire`. So a waiter that was granted sees everything that the former
//! holders of its permits did.

use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::{Queues, Semaphore, requested};
use crate::concurrency::acquire::Queued;
use crate::concurrency::idle::Drains;
use crate::concurrency::permit::PermitSource;
use crate::concurrency::{Acquire, Permit};
use crate::error::{AcquireError, ErrorKind};
use crate::sync::{Mutex, MutexGuard, Ordering, lock};
use crate::wait::Polled;
use crate::wait_queue::{WaitQueue, WaiterId, WakeList, lock_if_served, serve_and_wake};

/// The reason that is kept for a waiter that was refused because the semaphore was closed. Any other value is
/// the limit that the request exceeded, which is never 0.
const CLOSED: u64 = 0;

/// Taking and returning permits without a guard, for throttles whose own permits return them, and for permits that are
/// kept as numbers.
///
/// Nothing returns such permits by itself.
impl Semaphore {
    /// Takes permits without waiting and without a guard, see [`try_acquire_many`](Self::try_acquire_many).
    /// [`Acquire::poll_take`](crate::semaphore::Acquire::poll_take) waits for them.
    ///
    /// # Errors
    ///
    /// The same as for [`try_acquire`](Self::try_acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// let semaphore = tollgate::Semaphore::new(3);
    /// semaphore.try_take(2)?;
    /// assert_eq!(semaphore.available_permits(), 1);
    /// semaphore.release(2);
    /// assert_eq!(semaphore.available_permits(), 3);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline]
    pub fn try_take(&self, permits: u64) -> Result<(), AcquireError> {
        let permits = requested(permits);
        if self.state.try_take(permits) {
            Ok(())
        } else {
            self.refuse(permits)
        }
    }

    /// Returns permits that were [taken](Self::try_take) without a guard, or whose guard was
    /// [forgotten](std::mem::forget). They go to the waiters, as when a guard is dropped.
    ///
    /// Whoever returns more than that admits more callers than the limit. To change the limit, use
    /// [`set_permits`](Self::set_permits) or [`add_permits`](Self::add_permits).
    ///
    /// # Panics
    ///
    /// Panics if `permits` is above [`MAX_PERMITS`](Self::MAX_PERMITS); then nothing has changed.
    ///
    /// # Examples
    ///
    /// ```
    /// let semaphore = tollgate::Semaphore::new(1);
    /// std::mem::forget(semaphore.try_acquire()?);
    /// semaphore.release(1);
    /// assert!(semaphore.try_acquire().is_ok());
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline]
    #[track_caller]
    pub fn release(&self, permits: u64) {
        assert!(
            permits <= Self::MAX_PERMITS as u64,
            "nobody has taken {permits} permits, see MAX_PERMITS"
        );
        self.give_back(permits as usize);
    }

    /// Handles a failed attempt to take permits: returns the error, if it is one.
    #[cold]
    fn refuse(&self, permits: u64) -> Result<(), AcquireError> {
        self.check_possible(permits)?;
        match permits {
            0 => Ok(()),
            _ => Err(AcquireError::new(ErrorKind::NoPermits)),
        }
    }

    /// Returns an error if `permits` cannot be acquired even by waiting: the semaphore is closed, or
    /// they exceed the limit. A limit of 0 is a pause, not a capacity.
    fn check_possible(&self, permits: u64) -> Result<(), AcquireError> {
        let limit = self.permits();
        if self.state.load().closed {
            Err(AcquireError::new(ErrorKind::Closed))
        } else if limit != 0 && permits > limit as u64 {
            Err(AcquireError::exceeds_capacity(limit as u64))
        } else {
            Ok(())
        }
    }

    /// Grants every waiter that can be served, after a release that saw `NOTICE`. A separate
    /// function, so that a release takes one call.
    #[inline(never)]
    fn visit(&self) {
        self.settle(lock(&self.queues));
    }
}

impl PermitSource for Semaphore {
    #[inline]
    fn give_back(&self, permits: usize) {
        if self.state.give(permits).notice {
            self.visit();
        }
    }
}

impl<S: Deref<Target = Semaphore>> Future for Acquire<S> {
    type Output = Result<Permit<S>, AcquireError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let permits = self.permits;
        let polled = self.poll_found(context);
        polled.map_ok(|(semaphore, ())| Permit::new(semaphore, permits))
    }
}

impl Queued for Semaphore {
    type Found = ();

    #[inline]
    fn take_now(&self, permits: u64) -> Option<()> {
        self.state.try_take(permits).then_some(())
    }

    #[inline(never)]
    fn join(&self, permits: u64, id: &mut Option<WaiterId>, waker: &Waker) -> Polled<()> {
        // The waker is cloned before and dropped after the lock, under which no foreign code runs.
        let waker = waker.clone();
        let mut queues = lock(&self.queues);
        self.check_possible(permits)?;
        loop {
            // Permits may have been returned since; without waiters they may still be taken.
            if permits == 0 || self.state.try_take(permits) {
                return Poll::Ready(Ok(()));
            }
            if queues.permits.len() >= self.max_waiters {
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
        let granted_until = self.granted_until.load(Ordering::Acquire);
        if id.take_if(|id| id.number() <= granted_until).is_some() {
            return Poll::Ready(Ok(()));
        }
        match lock_if_served(&self.queues, |queues| &mut queues.permits, id, waker) {
            None => Poll::Pending,
            Some((mut queues, id)) => Poll::Ready(queues.collect(&id)),
        }
    }

    fn leave(&self, id: WaiterId, permits: u64) {
        let mut queues = lock(&self.queues);
        let waker = queues.permits.withdraw(&id);
        if waker.is_none() && queues.collect(&id).is_ok() {
            self.state.give(permits as usize);
        }
        // When a large head leaves, smaller requests behind it may now be served. After the last waiter has
        // left, the flags must be cleared. A grant that was returned may be the last permit that was held.
        // But while no permit is free, the next head must wait.
        if waker.is_some() && !queues.permits.is_empty() && self.state.load().free <= 0 {
            drop(queues);
        } else {
            self.settle(queues);
        }
        drop(waker);
    }
}

impl Drains for Semaphore {
    type State = Queues;

    fn state(&self) -> &Mutex<Queues> {
        &self.queues
    }

    fn idlers(queues: &mut Queues) -> &mut WaitQueue<()> {
        &mut queues.idle
    }

    fn must_wait(&self, _: &mut Queues) -> bool {
        // `NOTICE` is set before the word is read: a release that the read misses sees the flag.
        self.state.ask_notice();
        self.in_use() > 0
    }

    fn settle<'a>(&'a self, queues: MutexGuard<'a, Queues>) {
        serve_and_wake(&self.queues, queues, |queues, batch| {
            self.advance(queues, batch);
        });
    }
}

/// The core of the operations above.
impl Semaphore {
    /// Settles waiters from the head until one must wait or the batch is full.
    pub(super) fn advance(&self, queues: &mut Queues, batch: &mut WakeList) {
        let seen = self.state.load();
        let mut free = seen.free;
        let mut granted_until = None;
        while !batch.is_full() {
            let Some((number, cost)) = queues.permits.head() else {
                break;
            };
            let need = cost as isize;
            let served = if seen.closed {
                queues.permits.keep_head(CLOSED)
            } else if need <= free {
                free -= need;
                granted_until = Some(number);
                queues.permits.grant_head()
            } else {
                break;
            };
            batch.push(served);
        }
        // The limit is at most `MAX_PERMITS`, so it fits.
        if free == self.permits() as isize {
            queues.idle_until = queues.idle.last_number();
        }
        let until = queues.idle_until;
        while !batch.is_full() && queues.idle.head().is_some_and(|(first, ())| first <= until) {
            batch.push(queues.idle.grant_head());
        }
        let queue = !queues.permits.is_empty();
        let notice = queue || !queues.idle.is_empty();
        self.state.settle(seen, seen.free - free, queue, notice);
        if let Some(number) = granted_until.filter(|_| !queues.permits.has_kept()) {
            self.granted_until.store(number, Ordering::Release);
        }
    }
}

impl Queues {
    /// Returns the outcome of a served waiter for permits.
    fn collect(&mut self, id: &WaiterId) -> Result<(), AcquireError> {
        match self.permits.collect(id) {
            None => Ok(()),
            Some(CLOSED) => Err(AcquireError::new(ErrorKind::Closed)),
            Some(limit) => Err(AcquireError::exceeds_capacity(limit)),
        }
    }
}
