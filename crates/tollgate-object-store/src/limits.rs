//! [`Limits`]: the limits that a request has to pass before it is sent.
//!
//! 1. The order is: the throttle, the bytes to send, the adaptive rate. A request that waits for a
//!    permit has been charged nothing. The adaptive rate is last, so that a pause and a cut apply to all
//!    requests that have not been sent. Bytes charged before a long pause are not charged again after
//!    it, although time has paid them off: they then exceed the limit.
//! 2. A request that needs no wait passes all limits without a future. Otherwise it keeps the permits and
//!    charges obtained so far, and waits for the rest; one timeout and one token apply to all of these waits.
//! 3. Received bytes are charged while a body is read, or after a call that returned them. The wait
//!    after a call has a timeout and a token of its own.
//! 4. A request that is refused or dropped in a wait gives back its permits and charges, the last
//!    first. Once it is admitted, nothing is given back on drop. Bytes that a call has returned are
//!    charged even if their wait fails or is dropped.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tollgate::throttle::RollbackGuard;
use tollgate::wait::Waiting;
use tollgate::{AcquireError, ErrorKind, RateLimiter, Throttle};
use tollgate_adaptive::{AdaptiveRate, RatePermit, Shared};

use crate::data::{Charged, Kept, Moved};
use crate::error::{BoxError, Holders, LimitKind, WaitTooLong, of_store};

/// Determines how long a request holds its permit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Hold {
    /// Until the body of the response has been read to its end, has failed, or is dropped. So the
    /// limit bounds the connections in use. This is the default.
    ///
    /// A caller that opens more bodies than there are permits before it reads them never gets the
    /// next permit, and its request fails with [`WaitTooLong`](crate::WaitTooLong).
    #[default]
    Body,
    /// Until the head of the response has arrived. So the limit bounds the requests that the server
    /// works on, and open bodies do not count.
    Head,
}

/// The default of the longest wait: less than the three minutes for which `object_store`
/// retries a request.
const MAX_WAIT: Duration = Duration::from_secs(120);

/// The limits of a connector or of a store. Clones share them.
#[derive(Clone)]
pub(crate) struct Limits<T> {
    throttle: T,
    pub(crate) adaptive: Option<Shared<AdaptiveRate>>,
    pub(crate) sent: Option<Arc<RateLimiter>>,
    /// Limits the bodies that are read, and is not charged before a request.
    pub(crate) received: Option<Arc<RateLimiter>>,
    pub(crate) hold: Hold,
    pub(crate) max_wait: Duration,
    pub(crate) token: Option<CancellationToken>,
    /// The number of bodies that hold a permit.
    bodies: Arc<AtomicUsize>,
    /// The number of requests that hold a permit or wait.
    requests: Arc<AtomicUsize>,
}

/// The permits and charges of an admitted request.
pub(crate) struct Admitted<'a, P> {
    pub(crate) permit: Held<P, &'a AtomicUsize>,
    pub(crate) rate: Option<RatePermit<Shared<AdaptiveRate>>>,
    pub(crate) sent: Kept,
}

impl<T: Throttle> Limits<T> {
    pub(crate) fn new(throttle: T) -> Self {
        Self {
            throttle,
            adaptive: None,
            sent: None,
            received: None,
            hold: Hold::default(),
            max_wait: MAX_WAIT,
            token: None,
            bodies: Arc::default(),
            requests: Arc::default(),
        }
    }

    /// Waits until a request that sends this many bytes is admitted.
    pub(crate) async fn admit(&self, bytes: u64) -> Result<Admitted<'_, T::Permit>, BoxError> {
        // It is dropped after the count, so that a waiter that it wakes does not count this request.
        let mut taken = Taken::default();
        let count = Count::new(&*self.requests);
        if self.enter_now(&mut taken, bytes).is_none() {
            // The future is boxed, so that a request without a wait does not need space for it.
            let waited = Box::pin(self.bounded(self.enter(&mut taken, bytes))).await;
            if let Err(error) = waited {
                // Other holders of permits can be the cause only while the throttle has not admitted the request.
                let (limit, holders) = match (&taken.permit, &taken.sent, self.sent_by(bytes)) {
                    (None, ..) => (LimitKind::Throttle, self.holders()),
                    (_, None, Some(_)) => (LimitKind::BytesSent, Holders::default()),
                    _ => (LimitKind::AdaptiveRate, Holders::default()),
                };
                return Err(error.boxed(self.max_wait, limit, holders));
            }
        }
        Ok(taken.keep(count))
    }

    /// Ends a wait after the longest allowed time, and when the token is cancelled.
    async fn bounded<R>(
        &self,
        wait: impl Future<Output = Result<R, AcquireError>>,
    ) -> Result<R, Refused> {
        // The inner result is that of the limits, the outer one that of the timeout and the token.
        let wait = Waiting::new(async {
            let passed = wait.await;
            // A limiter refuses a wait that exceeds the remaining time, and reports how long it would
            // be. A limiter with a shorter timeout of its own also refuses other waits.
            let left = Waiting::remaining_timeout();
            Ok(passed.map_err(|error| {
                let would_take = error.retry_after().zip(left);
                let is_too_long = error.kind() == ErrorKind::TimedOut
                    && would_take.is_some_and(|(wait, left)| wait > left);
                Refused { error, is_too_long }
            }))
        });
        let wait = wait.timeout(self.max_wait);
        let waited = match &self.token {
            Some(token) => wait.cancel_on(token).await,
            None => wait.await,
        };
        waited.unwrap_or_else(|error| {
            let is_too_long = error.kind() == ErrorKind::TimedOut;
            Err(Refused { error, is_too_long })
        })
    }

    /// Waits until a call of [`Throttled`](crate::Throttled) that sends this many bytes is admitted.
    pub(crate) async fn admit_call(
        &self,
        bytes: usize,
    ) -> object_store::Result<Admitted<'_, T::Permit>> {
        let admitted = self.admit(u64::try_from(bytes).unwrap_or(u64::MAX)).await;
        admitted.map_err(of_store)
    }

    /// Takes everything that needs no wait. `None` means that something is missing, or that the request is refused.
    fn enter_now<'a>(&'a self, taken: &mut Taken<'a, T>, bytes: u64) -> Option<()> {
        let is_cancelled = |token: &CancellationToken| token.is_cancelled();
        if self.token.as_ref().is_some_and(is_cancelled) || self.is_closed() {
            return None;
        }
        taken.permit = Some(entered_now(&self.throttle)?);
        if let Some(sent) = self.sent_by(bytes) {
            taken.sent = Some(Charged::at_once(sent, bytes)?);
        }
        taken.rate = Some(entered_now(&self.adaptive)?);
        Some(())
    }

    /// Waits for the permits and charges that have not been taken.
    async fn enter<'a>(&'a self, taken: &mut Taken<'a, T>, bytes: u64) -> Result<(), AcquireError> {
        // The library retries a request whose body fails, and these retries would fail too.
        if self.is_closed() {
            return Err(AcquireError::new(ErrorKind::Closed));
        }
        if taken.permit.is_none() {
            taken.permit = Some(entered(&self.throttle).await?);
        }
        if let (Some(sent), None) = (self.sent_by(bytes), &taken.sent) {
            taken.sent = Some(Charged::wait(sent, bytes).await?);
        }
        taken.rate = Some(entered(&self.adaptive).await?);
        Ok(())
    }

    /// Returns whether bodies cannot be read because their limiter is closed.
    fn is_closed(&self) -> bool {
        let received = self.received.as_ref();
        received.is_some_and(|received| received.is_closed())
    }

    /// Returns the limiter for a request with a body of `bytes` bytes.
    fn sent_by(&self, bytes: u64) -> Option<&Arc<RateLimiter>> {
        self.sent.as_ref().filter(|_| bytes > 0)
    }

    /// Waits for bytes that a call of [`Throttled`](crate::Throttled) has returned at once. They are charged
    /// however the wait ends.
    pub(crate) async fn charge_received(&self, bytes: u64) -> object_store::Result<()> {
        if let Some(received) = self.received.as_ref().filter(|_| bytes > 0) {
            // It is dropped after the wait, which gives back its grant.
            let moved = Moved::new(received, bytes);
            let charged = self.bounded(Charged::wait(received, bytes)).await;
            let charged = charged.map_err(|error| {
                error.boxed(self.max_wait, LimitKind::BytesReceived, Holders::default())
            });
            moved.keep(charged.map_err(of_store)?);
        }
        Ok(())
    }

    /// Gives back the charge for the bytes of a request that was never sent.
    pub(crate) fn refund(&self, charges: Kept) {
        if let Some(sent) = &self.sent {
            for charge in charges.into_iter().flatten() {
                sent.refund(charge);
            }
        }
    }

    /// Counts the body that holds the permit of its request.
    pub(crate) fn held<P>(&self, request: Held<P, &AtomicUsize>) -> Held<P> {
        Held {
            _count: Count::new(Arc::clone(&self.bodies)),
            permit: request.permit,
        }
    }

    /// Returns the other possible holders of permits, for a request that waits.
    fn holders(&self) -> Holders {
        Holders {
            bodies: self.bodies.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed) - 1,
        }
    }
}

/// The permits and charges that a request has taken so far. They are rolled back on drop, the last first.
struct Taken<'a, T: Throttle> {
    /// The last one: a request that has it has everything.
    rate: Option<RollbackGuard<&'a Option<Shared<AdaptiveRate>>>>,
    sent: Option<Charged<'a>>,
    permit: Option<RollbackGuard<&'a T>>,
}

impl<T: Throttle> Taken<'_, T> {
    fn keep(self, count: Count<&AtomicUsize>) -> Admitted<'_, T::Permit> {
        match (self.permit, self.rate) {
            (Some(permit), Some(rate)) => Admitted {
                sent: self.sent.map(Charged::keep).unwrap_or_default(),
                rate: rate.disarm(),
                permit: Held {
                    _count: count,
                    permit: permit.disarm(),
                },
            },
            _ => unreachable!("it is called when all is taken"),
        }
    }
}

impl<T: Throttle> Default for Taken<'_, T> {
    fn default() -> Self {
        Self {
            rate: None,
            sent: None,
            permit: None,
        }
    }
}

/// The error of a failed wait, and whether the wait failed because it would exceed the longest one.
struct Refused {
    error: AcquireError,
    is_too_long: bool,
}

impl Refused {
    fn boxed(self, max_wait: Duration, limit: LimitKind, holders: Holders) -> BoxError {
        if self.is_too_long {
            WaitTooLong::new(self.error, max_wait, limit, holders).into()
        } else {
            self.error.into()
        }
    }
}

/// The permit that a request or a body holds. The fields are dropped in this order, so that a waiter that
/// the permit wakes does not count its former holder.
pub(crate) struct Held<P, C: Deref<Target = AtomicUsize> = Arc<AtomicUsize>> {
    _count: Count<C>,
    permit: P,
}

/// Counts one in a shared number, until it is dropped.
pub(crate) struct Count<C: Deref<Target = AtomicUsize>>(C);

impl<C: Deref<Target = AtomicUsize>> Count<C> {
    fn new(counter: C) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(counter)
    }
}

impl<C: Deref<Target = AtomicUsize>> Drop for Count<C> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Enters if that needs no wait.
fn entered_now<T: Throttle>(throttle: &T) -> Option<RollbackGuard<&T>> {
    let permit = throttle.enter_now()?;
    Some(RollbackGuard::new(throttle, permit))
}

/// Enters with a wait. The future is taken out of its `Waiting`, so that the throttle sees a timeout around it.
async fn entered<T: Throttle>(throttle: &T) -> Result<RollbackGuard<&T>, AcquireError> {
    let permit = throttle.enter().into_inner().await?;
    Ok(RollbackGuard::new(throttle, permit))
}

impl<T> fmt::Debug for Limits<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limits")
            .field("adaptive", &self.adaptive)
            .field("sent", &self.sent)
            .field("received", &self.received)
            .field("hold", &self.hold)
            .field("max_wait", &self.max_wait)
            .field("bodies", &self.bodies)
            .field("requests", &self.requests)
            .finish_non_exhaustive()
    }
}
