//! Changes of the limit of a [`Semaphore`], under its lock.

use super::{Queues, Semaphore};
use crate::concurrency::idle::Drains;
use crate::sync::{MutexGuard, Ordering, lock};
use crate::wait_queue::serve_and_wake;

/// Resizing.
impl Semaphore {
    /// Changes the limit, also while permits are held and callers are waiting.
    ///
    /// The change is exact in both directions. Growing admits the waiters that now fit. Shrinking
    /// takes no permits away from their holders: permits held above the new limit are a debt, and
    /// no caller is admitted until it has been paid off. With 0 every request for permits waits.
    /// This is a pause, which a later limit ends, whereas [`close`](Self::close) is final.
    ///
    /// Lowering the limit refuses every waiter that requests more than the new limit, at once and wherever
    /// it is in the queue, with [`ExceedsCapacity`](crate::ErrorKind::ExceedsCapacity); a later raise does
    /// not bring it back. A limit of 0 refuses nobody.
    ///
    /// Raising the limit never refuses a waiter, not even from 0. A waiter that joined before or during a
    /// pause and requests more than the limit after it waits until the limit is high enough, **and everybody
    /// behind it waits too**, although permits are available. If the limit is to stay there, call
    /// [`reject_impossible`](Self::reject_impossible) afterwards.
    ///
    /// A call that neither admits nor refuses a waiter takes constant time, and one that refuses some walks through
    /// the queue under the lock: some 10 ms for a million waiters. A limit that falls in 100 steps takes one
    /// such walk if all of them request the same, and 100 if they request 100 different numbers. Waiters are woken
    /// in batches, outside the lock.
    ///
    /// # Panics
    ///
    /// Panics if `permits` is above [`MAX_PERMITS`](Self::MAX_PERMITS).
    ///
    /// # Examples
    ///
    /// ```
    /// let semaphore = tollgate::Semaphore::new(3);
    /// let permits = semaphore.try_acquire_many(3)?;
    ///
    /// semaphore.set_permits(1);
    /// drop(permits);
    /// assert_eq!(semaphore.available_permits(), 1);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[track_caller]
    pub fn set_permits(&self, permits: usize) {
        Self::assert_permits(permits);
        self.set_limit(lock(&self.queues), permits, 0);
    }

    /// Refuses every waiter that requests more than the limit, as lowering the limit to this value
    /// does: at once, with [`ExceedsCapacity`](crate::ErrorKind::ExceedsCapacity).
    ///
    /// There are such waiters only after a limit of 0. While the limit is 0, requests for any number of
    /// permits wait, and [raising the limit](Self::set_permits) refuses none of them. While the limit is 0,
    /// no request counts as impossible, and this does nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{ErrorKind, Semaphore};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let semaphore = Semaphore::new(0);
    /// let resume = async {
    ///     semaphore.set_permits(2);
    ///     // Both would wait until the limit is 5.
    ///     assert_eq!(semaphore.snapshot().waiting, 2);
    ///     semaphore.reject_impossible();
    /// };
    /// let (large, small, ()) = tokio::join!(semaphore.acquire_many(5), semaphore.acquire(), resume);
    /// assert_eq!(large.unwrap_err().kind(), ErrorKind::ExceedsCapacity);
    /// assert!(small.is_ok());
    /// # }
    /// ```
    pub fn reject_impossible(&self) {
        self.refuse_impossible(lock(&self.queues));
    }

    /// Raises the limit by `permits`.
    ///
    /// # Panics
    ///
    /// Panics if the limit would be above [`MAX_PERMITS`](Self::MAX_PERMITS); then nothing has
    /// changed.
    ///
    /// # Examples
    ///
    /// ```
    /// let semaphore = tollgate::Semaphore::new(1);
    /// let _held = semaphore.try_acquire()?;
    /// semaphore.add_permits(2);
    /// assert_eq!((semaphore.permits(), semaphore.available_permits()), (3, 2));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[track_caller]
    pub fn add_permits(&self, permits: usize) {
        let queues = lock(&self.queues);
        let limit = self.permits().saturating_add(permits);
        if limit > Self::MAX_PERMITS {
            drop(queues);
            panic!("a semaphore cannot have {permits} more permits, see MAX_PERMITS");
        }
        self.set_limit(queues, limit, 0);
    }

    /// Lowers the limit by up to `permits` permits that are free at this moment, and returns how
    /// many there were. Permits that accumulate for the first waiter count as free. A waiter that
    /// requests more than the new limit is refused, as by [`set_permits`](Self::set_permits).
    ///
    /// # Examples
    ///
    /// ```
    /// let semaphore = tollgate::Semaphore::new(3);
    /// let _held = semaphore.try_acquire()?;
    /// assert_eq!(semaphore.forget_permits(5), 2);
    /// assert_eq!((semaphore.permits(), semaphore.available_permits()), (1, 0));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn forget_permits(&self, permits: usize) -> usize {
        let queues = lock(&self.queues);
        let forgotten = self.state.take_up_to(permits);
        // Free permits are a part of the limit, so this does not underflow.
        self.set_limit(queues, self.permits() - forgotten, forgotten);
        forgotten
    }

    /// Sets the limit, and changes the free permits by the difference, except for the permits that are
    /// `gone`, because they were taken before. Settles the queue.
    pub(super) fn set_limit<'a>(&'a self, queues: MutexGuard<'a, Queues>, new: usize, gone: usize) {
        let old = self.permits();
        self.state.resize(old, new + gone);
        self.limit.store(new, Ordering::Relaxed);
        if new < old {
            self.refuse_impossible(queues);
        } else {
            self.settle(queues);
        }
    }

    /// Refuses the waiters that request more than the limit, and settles the queue. A limit of 0 is a pause, not a
    /// capacity, and after `close` each waiter is told of that instead.
    fn refuse_impossible<'a>(&'a self, mut queues: MutexGuard<'a, Queues>) {
        let limit = self.permits();
        if limit > 0 && !self.is_closed() {
            // A limit below a request fits.
            queues.permits.refuse_above(limit as u64, limit as u64);
        }
        serve_and_wake(&self.queues, queues, |queues, batch| {
            queues.permits.take_refused(batch);
            self.advance(queues, batch);
        });
    }
}
