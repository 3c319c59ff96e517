//! The permit of an adaptive rate: it says how its request has ended.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use super::AdaptiveRate;
use crate::feedback::Feedback;
use crate::rate::Charge;

/// Permission to make one request, from an [`AdaptiveRate`].
///
/// Drop it when the request has succeeded; a request that failed for a reason other than its rate has
/// succeeded in this sense. Say so with [`throttled`](Self::throttled) or [`ignore`](Self::ignore) if
/// it has not. A permit that is dropped while its thread is panicking says nothing.
///
/// `S` derefs to the limiter: it is a reference, or an `Arc` for an owned permit.
#[must_use = "a permit that is dropped counts as a success: keep it until the request has ended"]
pub struct RatePermit<S: Deref<Target = AdaptiveRate>> {
    rate: S,
    /// `None` once it was said how the request ended.
    charge: Option<Charge>,
}

impl<S: Deref<Target = AdaptiveRate>> RatePermit<S> {
    #[inline(always)]
    pub(in crate::adaptive) fn new(rate: S, charge: Charge) -> Self {
        rate.control.admitted(charge.at());
        Self {
            rate,
            charge: Some(charge),
        }
    }

    /// Ends a request that the server refused because there were too many, with a status such as 429 or
    /// 503. The rate is cut, unless it already was for the same overload.
    ///
    /// `retry_after` pauses all requests for that long from now, but for
    /// [`max_pause`](AdaptiveRate::max_pause) at most, as with
    /// [`RateLimiter::pause_for`](crate::RateLimiter::pause_for). `feedback` of the crate
    /// `tollgate-tower` reads it from a response over HTTP. Nothing repeats the refused request.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Clock;
    /// use tollgate::adaptive::AdaptiveRate;
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
    pub fn throttled(mut self, retry_after: Option<Duration>) {
        self.learn(Feedback::Overloaded { retry_after });
    }

    /// Ends a request that says nothing about the rate: it did not reach the server, for example.
    ///
    /// Its time is not given back; [`refund`](Self::refund) does that.
    pub fn ignore(mut self) {
        self.learn(Feedback::Ignored);
    }

    /// Returns the permit of a request that was not made, and gives its time back as far as
    /// [`RateLimiter::refund`](crate::RateLimiter::refund) does. A change of the rate since the permit
    /// was acquired prevents that: a cut, or a step of growth, which another caller makes before it is
    /// charged, or a waiter when it is admitted while others wait. A growing rate changes at most 50 times per second.
    pub fn refund(mut self) {
        if let Some(charge) = self.charge.take() {
            self.rate.limiter.refund(charge);
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

impl<S: Deref<Target = AdaptiveRate>> RatePermit<S> {
    pub(in crate::adaptive) fn charge(&self) -> Option<&Charge> {
        self.charge.as_ref()
    }

    pub(super) fn rate(&self) -> &AdaptiveRate {
        &self.rate
    }

    /// Ends the request; what is said of it later counts no more.
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

impl<S: Deref<Target = AdaptiveRate>> fmt::Debug for RatePermit<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RatePermit")
            .field("charge", &self.charge)
            .field("rate", &*self.rate)
            .finish()
    }
}
