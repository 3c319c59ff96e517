//! [`LocalLimiter`]: a batch of a limiter's tokens that one task has buffered. The task admits
//! calls from it without the limiter.
//!
//! 1. The buffered tokens have been charged, as a batch, and are not used yet. So the promise of
//!    the limiter holds by the ticks of the batches, and calls are admitted later than they are
//!    charged, never earlier.
//! 2. All buffered tokens belong to one charge, the last one: another batch is charged only for a
//!    call that uses up the rest of the buffer. So a refund of a part of that charge gives the
//!    buffer back exactly. The buffer is always less than a batch.
//! 3. A handle charges a whole batch, or the cost of one call, with the same decision as any other
//!    call of the limiter. A call is refused only after the limiter has refused its own cost, so
//!    the handles of a limiter that is short of tokens admit as much as the limiter itself
//!    (`tests/rate/local.rs`).
//!
//! There is no lock: `&mut self` guarantees that no other thread decides.

use std::fmt;
use std::future::Future;

use super::acquire::{Acquire, Limiter};
use super::charge::Charge;
use super::limiter::RateLimiter;
use crate::error::AcquireError;
use crate::status::Snapshot;
use crate::wait::Waiting;

/// A handle of a [`RateLimiter`] for one task or thread. It charges a batch in advance and admits
/// calls from it, with a few instructions each: it reads the clock and touches shared memory only
/// for the next batch. Created by [`local`](RateLimiter::local).
///
/// Use it for millions of decisions per second, and for many threads that share a limiter. It does
/// not borrow the limiter, and can be sent to another task.
///
/// # The promise
///
/// In any window of length `w`, measured by the times at which calls are admitted, it admits at
/// most the burst plus the rate times `w` plus one batch for each handle, because buffered tokens
/// may be used at any later time. By the ticks at which the batches are charged, it keeps [the
/// promise of the limiter](RateLimiter#the-promise).
///
/// - Any burst works, but a batch is never more than the burst: with the default burst of 1 a
///   handle buffers nothing, and asks the limiter each time.
/// - A handle charges a whole batch or none. If less than a batch is available, the call asks for
///   its own cost, and so do the next 16 calls that the buffer does not cover. If not even the cost
///   is available, the call is refused or waits, like with the limiter. So handles that ask for
///   more than the rate admit as much as the limiter itself would, except for the tokens that are
///   buffered at that moment.
/// - A call that asks for more than the buffer uses the buffer up, and charges the rest. The
///   limiter alone [decides](RateLimiter::oversize) a call that asks for more than the burst; the
///   buffer stays untouched. The same holds for a call that asks for 0; it fails only if the
///   limiter is closed.
/// - Buffered tokens stay admitted when the limiter is [closed](RateLimiter::close) or [gets
///   another quota](RateLimiter::set_quota): so after `close` each handle admits less than one more
///   batch, unless [`return_unused`](Self::return_unused) is called. After a change of the quota,
///   buffered tokens can only be used: they are part of the backlog that was carried over, and
///   [`return_unused`](Self::return_unused) gives none of them back. From a quota [without a
///   limit](crate::Quota::UNLIMITED) nothing is carried over, so tokens buffered then are in
///   addition to the burst of the next quota.
///
/// # Fairness
///
/// A buffered call is admitted immediately, even while others wait in the queue of the limiter: it
/// was charged before they came. The next batch never passes waiters: while there are any, a call
/// with an empty buffer is refused, or joins the queue at the end, for its own cost only. The
/// tokens in a buffer are not available to others until they are paid off or given back. So choose
/// a batch that is small compared with the burst; otherwise the first handle that asks gets all of
/// it.
///
/// # Dropping
///
/// Dropping the handle gives the buffer back, like [`return_unused`](Self::return_unused). If the
/// handle is leaked instead, time pays the batch off like any other charge.
///
/// # Composition
///
/// It does not implement [`Throttle`](crate::Throttle), because deciding takes `&mut self`. Share
/// the limiter itself instead.
///
/// # Examples
///
/// ```
/// use std::thread;
/// use tollgate::{Clock, Quota, RateLimiter};
///
/// let limiter = RateLimiter::new(Quota::per_hour(1).burst(1000)).clock(Clock::manual());
/// thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| {
///             let mut local = limiter.local(32);
///             for _ in 0..100 {
///                 local.try_acquire().expect("there is enough for everybody");
///             }
///             // Of the fourth batch it gives back 28.
///         });
///     }
/// });
/// assert_eq!(limiter.snapshot().available, 600);
/// ```
pub struct LocalLimiter {
    buffered: u64,
    batch: u64,
    /// The number of next calls that ask only for their own cost, because a batch was refused. A
    /// limiter that has no batch now hardly has one at the next call, and each question costs a
    /// decision.
    alone: u8,
    /// The charge to which the buffer belongs.
    charge: Option<Charge>,
    limiter: RateLimiter,
}

/// The number of calls that ask for their own cost after one whose batch was refused.
const ALONE: u8 = 16;

impl RateLimiter {
    /// Creates a handle for one task or thread. The handle charges `batch` in advance and decides
    /// alone until the batch is used up. See [`LocalLimiter`] for its promise. It charges nothing
    /// before its first call.
    ///
    /// # Panics
    ///
    /// Panics if `batch` is 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::new(Quota::per_second(10).burst(50)).clock(Clock::manual());
    /// let mut local = limiter.local(32);
    /// local.try_acquire()?;
    /// assert_eq!((local.buffered(), limiter.snapshot().available), (31, 18));
    ///
    /// drop(local);
    /// assert_eq!(limiter.snapshot().available, 49);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[track_caller]
    pub fn local(&self, batch: u64) -> LocalLimiter {
        assert!(batch > 0, "a local limiter cannot take batches of {batch}");
        LocalLimiter {
            buffered: 0,
            batch,
            alone: 0,
            charge: None,
            limiter: self.handle(),
        }
    }
}

impl LocalLimiter {
    /// Admits a call of cost 1 now, or fails.
    ///
    /// The call has no [`Charge`](super::Charge) of its own: it is a part of the charge of a batch.
    ///
    /// # Errors
    ///
    /// The same as for [`RateLimiter::try_acquire`], when the buffer is empty.
    /// [`retry_after`](AcquireError::retry_after) is then the time until this call would be
    /// admitted if no other call came, and not the time until a batch is available.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::new(Quota::per_second(10).burst(2)).clock(Clock::manual());
    /// let mut local = limiter.local(32);
    /// local.try_acquire()?;
    /// local.try_acquire()?;
    /// let refused = local.try_acquire().unwrap_err();
    /// assert_eq!(refused.retry_after(), Some(Duration::from_millis(100)));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline(always)]
    pub fn try_acquire(&mut self) -> Result<(), AcquireError> {
        self.try_acquire_many(1)
    }

    /// Admits a call of cost `n` now, or fails.
    ///
    /// # Errors
    ///
    /// The same as for [`try_acquire`](Self::try_acquire), when less than `n` is buffered. The buffer does
    /// not change then.
    #[inline(always)]
    pub fn try_acquire_many(&mut self, n: u64) -> Result<(), AcquireError> {
        // This excludes a call of cost 0: for 0 this is `u64::MAX`, and that is not less than any
        // number.
        if n.wrapping_sub(1) < self.buffered {
            self.buffered -= n;
            return Ok(());
        }
        self.ask(n)
    }

    /// Asks the limiter, for a call that does not fit into the buffer: for a batch, or for the
    /// missing cost alone.
    #[inline(never)]
    fn ask(&mut self, n: u64) -> Result<(), AcquireError> {
        let missing = self.missing(n);
        if self.alone > 0 {
            self.alone -= 1;
        } else if self.refill(missing) {
            return Ok(());
        }
        self.limiter.try_acquire_many(missing)?;
        self.buffered -= n - missing;
        Ok(())
    }

    /// Returns the missing part of the cost of a call. That is the whole cost if the call asks for
    /// 0, or for more than the burst: the limiter alone decides such a call.
    fn missing(&self, n: u64) -> u64 {
        if self.buffered > 0 && n > self.burst() {
            n
        } else {
            n - self.buffered.min(n)
        }
    }

    fn burst(&self) -> u64 {
        self.limiter.outside().params.load().burst()
    }

    /// Charges a batch for a call that uses up the buffer and lacks `missing`, and buffers the
    /// rest. Returns whether it did.
    fn refill(&mut self, missing: u64) -> bool {
        let batch = self.batch.min(self.burst());
        // A batch never replaces a buffer that is not used up: a call for 0 or for more than the
        // burst leaves it as it is.
        if !(1..batch).contains(&missing) {
            return false;
        }
        let Ok(charge) = self.limiter.try_acquire_many(batch) else {
            self.alone = ALONE;
            return false;
        };
        // Less was charged only at the end of the limiter's time.
        self.buffered = charge.cost().saturating_sub(missing);
        self.charge = Some(charge);
        true
    }

    /// Waits until a call of cost 1 is admitted.
    ///
    /// If the buffer is empty and no batch is available, the call joins the queue of the limiter.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing, see [the limiter](RateLimiter#cancel-safety). The buffer
    /// does not change.
    ///
    /// # Errors
    ///
    /// The same as for [`RateLimiter::acquire`].
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Quota, RateLimiter};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let limiter = RateLimiter::new(Quota::per_second(1_000_000).burst(1000));
    /// let mut local = limiter.local(32);
    /// for _ in 0..2000 {
    ///     local.acquire().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire(
        &mut self,
    ) -> Waiting<impl Future<Output = Result<(), AcquireError>> + Send + Sync> {
        self.acquire_many(1)
    }

    /// Waits until a call of cost `n` is admitted.
    ///
    /// It waits for the part of the cost that the buffer lacks, and then uses the buffer up. Pin
    /// the future before you poll it, like that of an `async fn`.
    ///
    /// # Cancel safety, errors
    ///
    /// The same as for [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let limiter = RateLimiter::new(Quota::per_second(10).burst(50)).clock(Clock::manual());
    /// let mut local = limiter.local(8);
    /// local.acquire_many(3).await?;
    /// assert_eq!((local.buffered(), limiter.snapshot().available), (5, 42));
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire_many(
        &mut self,
        n: u64,
    ) -> Waiting<impl Future<Output = Result<(), AcquireError>> + Send + Sync> {
        Waiting::new(async move {
            if self.try_acquire_many(n).is_err() {
                let missing = self.missing(n);
                // This has no wrapper, because a wrapper would hide the timeout around this future.
                Acquire::new(&self.limiter, missing).await?;
                self.buffered -= n - missing;
            }
            Ok(())
        })
    }

    /// Gives the buffer back, except the part that time has paid off, like a
    /// [refund](RateLimiter::refund) of the unused part.
    ///
    /// Call it before a pause, and after the limiter was closed. If the quota was
    /// [changed](RateLimiter::set_quota) in the meantime, nothing is given back, and the buffer is
    /// lost. Dropping the handle does the same.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Clock, ErrorKind, Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::new(Quota::per_second(10).burst(50)).clock(Clock::manual());
    /// let mut local = limiter.local(32);
    /// local.try_acquire()?;
    /// limiter.close();
    /// local.try_acquire()?;
    ///
    /// local.return_unused();
    /// assert_eq!(local.try_acquire().unwrap_err().kind(), ErrorKind::Closed);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn return_unused(&mut self) {
        let unused = std::mem::take(&mut self.buffered);
        if let Some(charge) = self.charge.take().filter(|_| unused > 0) {
            self.limiter.refund_part(&charge, unused);
        }
    }

    /// Returns the buffered tokens, which the handle can admit before it asks the limiter again:
    /// less than a batch.
    pub fn buffered(&self) -> u64 {
        self.buffered
    }

    /// Returns the state of the limiter at one moment. The buffer of the handle counts as in use.
    pub fn snapshot(&self) -> Snapshot {
        self.limiter.snapshot()
    }
}

impl Drop for LocalLimiter {
    fn drop(&mut self) {
        self.return_unused();
    }
}

impl fmt::Debug for LocalLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalLimiter")
            .field("buffered", &self.buffered)
            .field("batch", &self.batch)
            .finish_non_exhaustive()
    }
}
