//! [`LocalLimiter`]: a batch of a limiter that one task has buffered, and admits calls out of by
//! itself.
//!
//! 1. What is buffered has been charged, as a batch, and was not used yet. So the promise of the
//!    limiter holds by the ticks of the batches, and calls are admitted later than charged, never
//!    earlier.
//! 2. All that is buffered is of one charge, the last one: another batch is charged only for a call
//!    that uses up what was left. So [settling](RateLimiter::settle) that charge gives it back
//!    exactly. It is always less than a batch.
//!
//! There is no lock: `&mut self` says that nobody else decides.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::acquire::Entry;
use super::charge::Charge;
use super::limiter::RateLimiter;
use super::shared::Shared;
use crate::error::AcquireError;
use crate::wait::Waiting;

/// A handle of a [`RateLimiter`] for one task or thread, which takes a batch ahead and lets calls
/// through out of that, for a few instructions each: it reads no clock, and touches nothing that is
/// shared, but for the next batch. Made by [`local`](RateLimiter::local).
///
/// Use it for millions of decisions per second, and for many threads that share a limiter. It does
/// not borrow the limiter, and may be sent to another task.
///
/// # The promise
///
/// In any window of `w`, by the time at which calls are let through, there are at most the burst,
/// the rate times `w`, and a batch for each handle: what is buffered may be used at any time later.
/// By the ticks at which the batches are charged it is [the limiter's](RateLimiter#the-promise).
///
/// - Any burst will do. When less than a batch is there, it takes what is there, at least what the
///   call asks for; when not even that is there, the call is refused or waits as it would at the
///   limiter.
/// - A call that asks for more than is buffered uses that up, and takes the rest from the limiter. A
///   call that asks for more than the burst is [judged](RateLimiter::oversize) by the limiter
///   alone, and leaves alone what is buffered; so is a call that asks for 0, which fails only if the
///   limiter is closed.
/// - What is buffered stays admitted when the limiter is [closed](RateLimiter::close) or [gets
///   another quota](RateLimiter::set_quota): so after `close` each handle lets through less than a
///   batch. [`return_unused`](Self::return_unused) ends that. After another quota what is buffered
///   can only be used: it is part of what was carried over, and
///   [`return_unused`](Self::return_unused) gives nothing of it back.
///
/// # Fairness
///
/// A buffered call goes at once, also while others wait in the queue of the limiter: it was charged
/// before they came. The next batch is never taken past them: while somebody waits, a call
/// for which there is nothing buffered is refused, or joins the line at the end, for its own cost
/// and no more. What handles have buffered, others do not get, until it is paid off or given back. So
/// take a batch that is small beside the burst, or the first handle that asks gets all of it.
///
/// # Dropping
///
/// What is buffered is given back, as by [`return_unused`](Self::return_unused). If it is leaked instead, that is
/// paid off by time like all else.
///
/// # As a part of something
///
/// It is no [`Throttle`](crate::Throttle), as to decide takes `&mut self`: what many share is the
/// limiter.
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
/// assert_eq!(limiter.available(), 600);
/// ```
pub struct LocalLimiter {
    buffered: u64,
    batch: u64,
    /// What is buffered is a part of it.
    charge: Option<Charge>,
    shared: Arc<Shared>,
}

impl RateLimiter {
    /// A handle for one task or thread, which takes `batch` ahead, and decides by itself until that
    /// is used up. See [`LocalLimiter`] for what it promises. Nothing is taken before the first
    /// call.
    ///
    /// # Panics
    ///
    /// If `batch` is 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::new(Quota::per_second(10).burst(50)).clock(Clock::manual());
    /// let mut local = limiter.local(32);
    /// local.try_acquire()?;
    /// assert_eq!((local.buffered(), limiter.available()), (31, 18));
    ///
    /// drop(local);
    /// assert_eq!(limiter.available(), 49);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[track_caller]
    pub fn local(&self, batch: u64) -> LocalLimiter {
        assert!(batch > 0, "a local limiter cannot take batches of {batch}");
        LocalLimiter {
            buffered: 0,
            batch,
            charge: None,
            shared: Arc::clone(self.shared()),
        }
    }
}

impl LocalLimiter {
    /// Lets a call through now, or not at all.
    ///
    /// There is no [`Charge`](super::Charge) for it: it is a part of the charge of a batch.
    ///
    /// # Errors
    ///
    /// Those of [`RateLimiter::try_acquire`], when there is nothing buffered. Then
    /// [`retry_after`](AcquireError::retry_after) is when this call would be let through, if nobody
    /// else came, and not when there will be a batch.
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

    /// Lets a call through that costs `n`, now or not at all.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire), when there is less buffered. What is buffered stays
    /// there.
    #[inline(always)]
    pub fn try_acquire_many(&mut self, n: u64) -> Result<(), AcquireError> {
        if self.take(n) {
            return Ok(());
        }
        self.refill(n)
    }

    /// Admits a call, if enough is buffered. Not one that asks for nothing.
    #[inline(always)]
    fn take(&mut self, n: u64) -> bool {
        // For 0 this is the largest number, which is not less than any.
        let enough = n.wrapping_sub(1) < self.buffered;
        if enough {
            self.buffered -= n;
        }
        enough
    }

    /// What is missing for a call. That is all of it if it asks for nothing, or for more than the
    /// burst: the limiter alone judges such a call.
    fn missing(&self, n: u64) -> u64 {
        let missing = n - self.buffered.min(n);
        match self.buffered > 0 && n > self.shared.params.load::<false>().burst() {
            true => n,
            false => missing,
        }
    }

    /// Returns how much is charged at most for what is missing. No batch takes the place of what is
    /// buffered.
    fn most(&self, n: u64, missing: u64) -> u64 {
        match missing == 0 || missing == n && self.buffered > 0 {
            true => missing,
            false => self.batch.max(missing),
        }
    }

    /// Charges what is missing for a call, and up to a batch with it.
    #[inline(never)]
    fn refill(&mut self, n: u64) -> Result<(), AcquireError> {
        let missing = self.missing(n);
        let charge = self.shared.try_charge(missing, self.most(n, missing))?;
        self.refilled(n, missing, charge);
        Ok(())
    }

    /// Uses up what was buffered, if only the rest was charged, and buffers what was charged beyond
    /// that.
    fn refilled(&mut self, n: u64, missing: u64, charge: Charge) {
        self.buffered -= n - missing;
        let more = charge.cost().saturating_sub(missing);
        if more > 0 {
            self.buffered = more;
            self.charge = Some(charge);
        }
    }

    /// Waits until a call may go.
    ///
    /// If there is nothing buffered, and no batch to be had, it joins the line of the limiter.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing, see [the limiter](RateLimiter#cancel-safety). What is in
    /// the buffer stays there.
    ///
    /// # Errors
    ///
    /// Those of [`RateLimiter::acquire`].
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
    #[inline]
    pub fn acquire(&mut self) -> Waiting<AcquireLocal<'_>> {
        self.acquire_many(1)
    }

    /// Waits until a call may go that costs `n`.
    ///
    /// It waits for what is missing buffered, and uses up what is there when it has that.
    ///
    /// # Cancel safety, errors
    ///
    /// As [`acquire`](Self::acquire).
    #[inline]
    pub fn acquire_many(&mut self, n: u64) -> Waiting<AcquireLocal<'_>> {
        Waiting::new(AcquireLocal {
            local: self,
            cost: n,
            entry: Entry::new(n),
        })
    }

    /// Gives back what is buffered, as far as time has not paid it off: as a
    /// [refund](RateLimiter::refund) of what was not used does.
    ///
    /// Call it before a pause, and when the limiter was closed. When the quota was
    /// [changed](RateLimiter::set_quota) since, nothing is given back, and what was buffered is lost.
    /// Dropping the handle does it as well.
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
            self.shared.refund(&charge, unused);
        }
    }

    /// Returns how much is admitted before the limiter is asked again: less than a batch.
    pub fn buffered(&self) -> u64 {
        self.buffered
    }

    /// Returns how much it charges at once, if so much is there.
    pub fn batch(&self) -> u64 {
        self.batch
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

/// The future of [`acquire`](LocalLimiter::acquire) and
/// [`acquire_many`](LocalLimiter::acquire_many) of a [`LocalLimiter`].
///
/// It is ready at its first poll if there is enough buffered, or a batch to be had; otherwise it
/// joins the line of the limiter then.
///
/// # Panics
///
/// If it is polled again after it was ready.
#[must_use = "a future does nothing unless it is awaited"]
pub struct AcquireLocal<'a> {
    local: &'a mut LocalLimiter,
    /// What the call costs. A first poll may be repeated, when a waker panicked.
    cost: u64,
    /// The wait for as much of it as is not buffered.
    entry: Entry,
}

impl AcquireLocal<'_> {
    /// A first poll for which not enough is buffered.
    #[inline(never)]
    fn poll_refill(&mut self, context: &Context<'_>) -> Poll<Result<(), AcquireError>> {
        let (local, n) = (&mut *self.local, self.cost);
        let missing = local.missing(n);
        let most = local.most(n, missing);
        if let Some(charge) = local.shared.charge_if_free(missing, most) {
            local.refilled(n, missing, charge);
            self.entry.finish();
            return Poll::Ready(Ok(()));
        }
        self.entry.set_cost(missing);
        self.poll_queue(context)
    }

    #[inline(never)]
    fn poll_queue(&mut self, context: &Context<'_>) -> Poll<Result<(), AcquireError>> {
        let charged = ready!(self.entry.poll_queue(&self.local.shared, context));
        if charged.is_ok() {
            self.local.buffered -= self.cost - self.entry.cost();
        }
        Poll::Ready(charged.map(drop))
    }
}

impl Future for AcquireLocal<'_> {
    type Output = Result<(), AcquireError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if !self.entry.is_new() {
            return self.poll_queue(context);
        }
        let n = self.cost;
        if self.local.take(n) {
            self.entry.finish();
            return Poll::Ready(Ok(()));
        }
        self.poll_refill(context)
    }
}

impl Drop for AcquireLocal<'_> {
    fn drop(&mut self) {
        self.entry.leave(&self.local.shared);
    }
}

impl fmt::Debug for AcquireLocal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcquireLocal")
            .field("cost", &self.cost)
            .field("waiting", &self.entry.id().is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;
    use crate::{Clock, Quota, RateLimiter};

    /// A waker whose clone panics needs unsafe code, so this puts the future where such a panic leaves
    /// it: it has asked for what is missing, and has not joined.
    #[test]
    fn acquire_many_polled_again_after_its_waker_panicked_costs_what_was_asked_for() {
        let limiter = RateLimiter::new(Quota::per_second(100).burst(50)).clock(Clock::manual());
        let mut local = limiter.local(8);
        local.try_acquire().unwrap();
        assert_eq!((local.buffered(), limiter.available()), (7, 42));
        let mut acquire = AcquireLocal {
            local: &mut local,
            cost: 10,
            entry: Entry::new(10),
        };
        acquire.entry.set_cost(3);
        let polled = Pin::new(&mut acquire).poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Ready(Ok(()))));
        drop(acquire);
        // Seven were buffered, and a batch is charged for the other three.
        assert_eq!((local.buffered(), limiter.available()), (5, 34));
    }
}
