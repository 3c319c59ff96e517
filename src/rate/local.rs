//! [`LocalLimiter`]: a share of a limiter that one task has in hand, and decides by itself.
//!
//! 1. What is in hand has been charged, as a chunk, and was not let through yet. So the promise of
//!    the limiter holds by the ticks of the chunks, and calls are let through later than charged,
//!    never earlier.
//! 2. There is less in hand than a chunk, and all of it [can be given back](Hand).
//!
//! There is no lock: whoever decides has it alone. That is what `&mut self` says.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::acquire::Entry;
use super::core::{Asked, Core, Hand};
use super::limiter::RateLimiter;
use crate::error::AcquireError;
use crate::wait::Waiting;

/// A handle of a [`RateLimiter`] for one task or thread, which takes a chunk ahead and lets calls
/// through out of that, for a few instructions each: it reads no clock, and touches nothing that is
/// shared, but for the next chunk. Made by [`local`](RateLimiter::local).
///
/// It is for who makes millions of calls a second, and for many threads that share a limiter. It
/// does not borrow the limiter, and may be sent to another task.
///
/// # The promise
///
/// In any window of `w`, by the time at which calls are let through, there are at most the burst,
/// the rate times `w`, and a chunk for each handle: what is in hand may be used at any time later.
/// By the ticks at which the chunks are charged it is [the limiter's](RateLimiter#the-promise).
///
/// - Any burst will do. When less than a chunk is there, it takes what is there, at least what the
///   call asks for; when not even that is there, the call is refused or waits as it would at the
///   limiter.
/// - A call that asks for more than is in hand uses that up, and takes the rest from the limiter. A
///   call that asks for more than the burst is [judged](RateLimiter::oversize) by the limiter
///   alone, and leaves alone what is in hand; so is a call that asks for 0, which fails only if the
///   limiter is closed.
/// - What is in hand stays admitted when the limiter is [closed](RateLimiter::close) or [gets
///   another quota](RateLimiter::set_quota): so after `close` each handle lets through less than a
///   chunk. [`flush`](Self::flush) ends that. After another quota what is in hand can only be used:
///   it is part of what was carried over, and `flush` gives nothing of it back.
/// - For the [statistics](RateLimiter::statistics) of the limiter a chunk is one call.
/// - A limiter that keeps a [log](crate::Algorithm::SlidingLog) gives nothing ahead: more than one
///   at a time it gives only under its lock. One by a
///   [sliding window](crate::Algorithm::SlidingWindow) gives a whole chunk or nothing ahead.
///
/// # Fairness
///
/// Out of the hand a call goes at once, also while others wait in the line of the limiter: it was
/// charged before they came. The next chunk is never taken past them: while somebody waits, a call
/// for which there is nothing in hand is refused, or joins the line at the end, for its own cost
/// and no more. What handles have in hand others do not get, until it is paid off or given back. So
/// take a chunk that is small beside the burst, or the first handle that asks gets all of it.
///
/// # Dropping
///
/// What is in hand is given back, as by [`flush`](Self::flush). If it is leaked instead, that is
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
///             // Of the fourth chunk it gives back 28.
///         });
///     }
/// });
/// assert_eq!(limiter.available(), 600);
/// ```
pub struct LocalLimiter {
    hand: Hand,
    chunk: u64,
    core: Arc<Core>,
}

impl RateLimiter {
    /// A handle for one task or thread, which takes `chunk` ahead, and decides by itself until that
    /// is used up. See [`LocalLimiter`] for what it promises. Nothing is taken before the first
    /// call.
    ///
    /// # Panics
    ///
    /// If `chunk` is 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::new(Quota::per_second(10).burst(50)).clock(Clock::manual());
    /// let mut local = limiter.local(32);
    /// local.try_acquire()?;
    /// assert_eq!((local.in_hand(), limiter.available()), (31, 18));
    ///
    /// drop(local);
    /// assert_eq!(limiter.available(), 49);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[track_caller]
    pub fn local(&self, chunk: u64) -> LocalLimiter {
        assert!(chunk > 0, "a local limiter cannot take chunks of {chunk}");
        LocalLimiter {
            hand: Hand::default(),
            chunk,
            core: Arc::clone(self.core()),
        }
    }
}

impl LocalLimiter {
    /// Lets a call through now, or not at all.
    ///
    /// There is no [`Charge`](super::Charge) for it: it is a part of the charge of a chunk.
    ///
    /// # Errors
    ///
    /// Those of [`RateLimiter::try_acquire`], when there is nothing in hand. Then
    /// [`retry_after`](AcquireError::retry_after) is when this call would be let through, if nobody
    /// else came, and not when there will be a chunk.
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
    /// As [`try_acquire`](Self::try_acquire), when there is less in hand. What is in hand stays
    /// there.
    #[inline(always)]
    pub fn try_acquire_many(&mut self, n: u64) -> Result<(), AcquireError> {
        if self.hand.take(n) {
            return Ok(());
        }
        let asked = Asked {
            cost: n,
            chunk: self.chunk,
        };
        // Not as the answer itself, which would have to be copied to where this one is, in any case.
        self.core.try_take_ahead(&mut self.hand, asked)?;
        Ok(())
    }

    /// Waits until a call may go.
    ///
    /// If there is nothing in hand, and no chunk to be had, it joins the line of the limiter.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing, see [the limiter](RateLimiter#cancel-safety). What is in
    /// hand stays there.
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
    /// It waits for what is missing in hand, and uses up what is there when it has that.
    ///
    /// # Cancel safety, errors
    ///
    /// As [`acquire`](Self::acquire).
    #[inline]
    pub fn acquire_many(&mut self, n: u64) -> Waiting<AcquireLocal<'_>> {
        Waiting::new(AcquireLocal {
            hand: &mut self.hand,
            chunk: self.chunk,
            spent: 0,
            entry: Entry::new(&self.core, n),
        })
    }

    /// Gives back what is in hand, as far as time has not paid it off: as a
    /// [refund](RateLimiter::refund) of what was not used does.
    ///
    /// To be called before a pause, and when the limiter was closed. When its quota was
    /// [changed](RateLimiter::set_quota) since, nothing is given back, and what was in hand is lost.
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
    /// local.flush();
    /// assert_eq!(local.try_acquire().unwrap_err().kind(), ErrorKind::Closed);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn flush(&mut self) {
        self.core.give_back_hand(&mut self.hand);
    }

    /// How much is let through before the limiter is asked again: less than a chunk.
    pub fn in_hand(&self) -> u64 {
        self.hand.left()
    }

    /// How much it takes ahead, if so much is there.
    pub fn chunk(&self) -> u64 {
        self.chunk
    }
}

impl Drop for LocalLimiter {
    fn drop(&mut self) {
        self.flush();
    }
}

impl fmt::Debug for LocalLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalLimiter")
            .field("in_hand", &self.in_hand())
            .field("chunk", &self.chunk)
            .finish_non_exhaustive()
    }
}

/// The future of [`acquire`](LocalLimiter::acquire) and
/// [`acquire_many`](LocalLimiter::acquire_many) of a [`LocalLimiter`].
///
/// It is ready at its first poll if there is enough in hand, or a chunk to be had; otherwise it
/// joins the line of the limiter then.
///
/// # Panics
///
/// If it is polled again after it was ready.
#[must_use = "a future does nothing unless it is awaited"]
pub struct AcquireLocal<'a> {
    hand: &'a mut Hand,
    chunk: u64,
    /// What is used up of the hand, once it is in line for the rest.
    spent: u64,
    entry: Entry<&'a Arc<Core>>,
}

impl AcquireLocal<'_> {
    /// A first poll for which there is not enough in hand.
    #[inline(never)]
    fn poll_more(&mut self, context: &Context<'_>) -> Poll<Result<(), AcquireError>> {
        let (core, cost, chunk) = (self.entry.core(), self.entry.cost(), self.chunk);
        if core.take_free_ahead(self.hand, Asked { cost, chunk }) {
            self.entry.finish();
            return Poll::Ready(Ok(()));
        }
        let rest = core.rest_of(self.hand, cost);
        self.spent = rest.spent;
        self.entry.set_cost(rest.missing);
        self.poll_line(context)
    }

    #[inline(never)]
    fn poll_line(&mut self, context: &Context<'_>) -> Poll<Result<(), AcquireError>> {
        let charged = ready!(self.entry.poll(context));
        if charged.is_ok() {
            self.hand.use_up(self.spent);
        }
        Poll::Ready(charged.map(drop))
    }
}

impl Future for AcquireLocal<'_> {
    type Output = Result<(), AcquireError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if !self.entry.is_new() {
            return self.poll_line(context);
        }
        let n = self.entry.cost();
        if self.hand.take(n) {
            self.entry.finish();
            return Poll::Ready(Ok(()));
        }
        self.poll_more(context)
    }
}

impl fmt::Debug for AcquireLocal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcquireLocal")
            .field("cost", &self.entry.cost().saturating_add(self.spent))
            .field("in_line", &self.entry.ticket().is_some())
            .finish_non_exhaustive()
    }
}
