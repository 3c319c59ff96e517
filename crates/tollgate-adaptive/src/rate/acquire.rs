//! [`AcquireRate`], the future of a rate limiter, and [`RatePermit`], with which a caller reports
//! the outcome of its request.

use std::fmt;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tollgate::rate::{Acquire, Charge};
use tollgate::throttle::Feedback;
use tollgate::{AcquireError, RateLimiter};

use super::AdaptiveRate;

/// The limiter of an adaptive rate, behind the pointer to that rate.
struct LimiterOf<S>(S);

impl<S: Deref<Target = AdaptiveRate>> Deref for LimiterOf<S> {
    type Target = RateLimiter;

    #[inline(always)]
    fn deref(&self) -> &RateLimiter {
        &self.0.limiter
    }
}

/// The future of [`AdaptiveRate::acquire`] and [`acquire_owned`](AdaptiveRate::acquire_owned). `S`
/// derefs to the limiter.
///
/// It joins the queue when it is first polled. Dropping it loses nothing.
///
/// # Panics
///
/// Panics if it is polled again after it has completed.
#[must_use = "a future does nothing unless it is awaited"]
pub struct AcquireRate<S: Deref<Target = AdaptiveRate>>(Acquire<LimiterOf<S>>);

impl<S: Deref<Target = AdaptiveRate>> AcquireRate<S> {
    #[inline]
    pub(crate) fn new(rate: S) -> Self {
        Self(Acquire::new(LimiterOf(rate), 1))
    }

    fn rate(&self) -> &S {
        &self.0.limiter().0
    }
}

impl<S: Deref<Target = AdaptiveRate> + Clone + Unpin> Future for AcquireRate<S> {
    type Output = Result<RatePermit<S>, AcquireError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // After a change of the quota, earlier charges cannot be refunded, so a newcomer makes a
        // due step before its own charge.
        let is_new = !self.0.is_waiting();
        if is_new {
            self.rate().step_if_due();
        }
        let polled = Pin::new(&mut self.0).poll(context);
        polled.map_ok(|charge| {
            let permit = RatePermit::new(self.rate().clone(), charge);
            // While others wait, there may be no newcomer.
            if !is_new {
                permit.rate.step_for_waiters();
            }
            permit
        })
    }
}

impl<S: Deref<Target = AdaptiveRate>> fmt::Debug for AcquireRate<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Permission to make one request, from an [`AdaptiveRate`].
///
/// Drop it when the request has succeeded; a request that failed for a reason other than its rate
/// counts as a success. Otherwise end it with [`throttled`](Self::throttled) or
/// [`ignore`](Self::ignore). A permit that is dropped while its thread is panicking is ignored.
///
/// `S` derefs to the limiter: it is a reference, or an `Arc` for an owned permit.
#[must_use = "a permit that is dropped counts as a success: keep it until the request has ended"]
pub struct RatePermit<S: Deref<Target = AdaptiveRate>> {
    rate: S,
    /// `None` once the outcome of the request was reported.
    charge: Option<Charge>,
}

impl<S: Deref<Target = AdaptiveRate>> RatePermit<S> {
    /// Charges a request without waiting.
    #[inline(always)]
    pub(crate) fn try_new(rate: S) -> Result<Self, AcquireError> {
        rate.step_if_due();
        let charge = rate.limiter.try_acquire()?;
        Ok(Self::new(rate, charge))
    }

    #[inline(always)]
    fn new(rate: S, charge: Charge) -> Self {
        rate.control.admitted(charge.at());
        Self {
            rate,
            charge: Some(charge),
        }
    }

    /// Ends a request that the server refused because there were too many, with a status such as
    /// 429 or 503. This cuts the rate, unless the same overload has already cut it.
    ///
    /// `retry_after` pauses all requests for that time from now, but for
    /// [`max_pause`](AdaptiveRate::max_pause) at most, in the same way as
    /// [`RateLimiter::pause_for`]. `feedback` of the crate
    /// [`tollgate-http`] reads it from an HTTP response. The limiter does not repeat the refused
    /// request.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Clock;
    /// use tollgate_adaptive::AdaptiveRate;
    ///
    /// let clock = Clock::manual();
    /// let rate = AdaptiveRate::new().clock(&clock);
    /// // The server answers with the status 429 and `Retry-After: 3`.
    /// rate.try_acquire()?.throttled(Some(Duration::from_secs(3)));
    ///
    /// assert_eq!(rate.rate(), 8.5);
    /// let refused = rate.try_acquire().unwrap_err();
    /// assert_eq!(refused.retry_after(), Some(Duration::from_secs(3)));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    ///
    /// [`tollgate-http`]: https://docs.rs/tollgate-http/latest/tollgate_http/
    pub fn throttled(mut self, retry_after: Option<Duration>) {
        self.learn(Feedback::Overloaded { retry_after });
    }

    /// Ends a request without counting it, for example because it did not reach the server.
    ///
    /// Its time is not given back; [`refund`](Self::refund) does that.
    pub fn ignore(mut self) {
        self.learn(Feedback::Ignored);
    }

    /// Returns the permit of a request that was not made, and gives its time back to the same
    /// extent as [`RateLimiter::refund`]. A change of the rate since
    /// the permit was acquired prevents that. Such a change is a cut or a step of growth. Another
    /// caller makes a step of growth before it is charged, or an admitted waiter makes it while
    /// others wait. A growing rate changes at most 50 times per second.
    pub fn refund(mut self) {
        if let Some(charge) = self.charge.take() {
            self.rate.limiter.refund(charge);
        }
    }

    /// Ends the request; later reports about it are ignored.
    pub(crate) fn learn(&mut self, feedback: Feedback) {
        let Some(charge) = self.charge.take() else {
            return;
        };
        match feedback {
            Feedback::Success => self.rate.control.succeed(),
            Feedback::Overloaded { retry_after } => self.rate.refused(charge.at(), retry_after),
            Feedback::Ignored => {}
        }
    }
}

impl<S: Deref<Target = AdaptiveRate>> Drop for RatePermit<S> {
    #[inline]
    fn drop(&mut self) {
        if self.charge.is_some() && !std::thread::panicking() {
            self.rate.control.succeed();
        }
    }
}

impl<S: Deref<Target = AdaptiveRate>> fmt::Debug for RatePermit<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RatePermit")
            .field("charge", &self.charge)
            .field("rate", &*self.rate)
            .finish()
    }
}
