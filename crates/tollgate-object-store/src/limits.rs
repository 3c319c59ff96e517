//! [`Limits`]: what a request has to pass before it is made.
//!
//! 1. The order is: the throttle, the bytes to send, the adaptive rate. A request that waits for a
//!    permit has been charged nothing. The adaptive rate is last, so that a pause and a cut hold for all
//!    requests that have not been sent. What was charged before a long pause is not charged again after
//!    it, although time has paid it off: these bytes come on top of the limit then.
//! 2. A request that nothing holds up passes all of them without a future. Otherwise it keeps what it got
//!    so, and waits for the rest; one timeout and one token hold for all of these waits.
//! 3. The bytes that are received are charged while a body is read, or after a call that returned them. The wait
//!    after a call has a timeout and a token of its own.
//! 4. A request that is refused or dropped in a wait gives back what it has taken so far, the last
//!    first. Once it is admitted, nothing is given back on drop. Bytes that a call has returned are
//!    charged although their wait fails or is dropped.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tollgate::adaptive::{AdaptiveRate, RatePermit};
use tollgate::throttle::RollbackGuard;
use tollgate::{AcquireError, ErrorKind, RateLimiter, Throttle, Waiting};

use crate::data::{Charged, Kept, Moved};
use crate::error::{BoxError, Holders, LimitKind, WaitTooLong, of_store};

/// How long a request holds its permit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Hold {
    /// Until the body of the response has been read to its end, has failed, or is dropped. So the
    /// limit is one of connections in use. This is the default.
    ///
    /// A caller that opens more bodies than there are permits before it reads them never gets the
    /// next permit, and its request fails with [`WaitTooLong`](crate::WaitTooLong).
    #[default]
    Body,
    /// Until the head of the response has arrived. So the limit is one of requests that the server
    /// works on, and bodies that are open do not count.
    Head,
}

/// The longest wait unless another is set: less than the three minutes for which `object_store`
/// repeats a request.
const MAX_WAIT: Duration = Duration::from_secs(120);

/// The limits of a connector or of a store. Clones share them.
#[derive(Clone)]
pub(crate) struct Limits<T> {
    throttle: T,
    pub(crate) adaptive: Option<Arc<AdaptiveRate>>,
    pub(crate) sent: Option<Arc<RateLimiter>>,
    /// Charged while bodies are read, and not before a request.
    pub(crate) received: Option<Arc<RateLimiter>>,
    pub(crate) hold: Hold,
    pub(crate) max_wait: Duration,
    pub(crate) token: Option<CancellationToken>,
    /// How many bodies hold a permit.
    bodies: Arc<AtomicUsize>,
    /// How many requests hold a permit or wait.
    requests: Arc<AtomicUsize>,
}

/// What an admitted request has taken.
pub(crate) struct Admitted<'a, P> {
    pub(crate) permit: Held<P, &'a AtomicUsize>,
    pub(crate) rate: Option<RatePermit<Arc<AdaptiveRate>>>,
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
        // Dropped after the count, so that a waiter whom it wakes does not count the request.
        let mut taken = Taken::default();
        let count = Count::new(&*self.requests);
        if self.enter_now(&mut taken, bytes).is_none() {
            // Boxed, so that a request that need not wait does not carry the room for it.
            let waited = Box::pin(self.bounded(self.enter(&mut taken, bytes))).await;
            if let Err(error) = waited {
                // Those who hold permits may be the cause only while the throttle has not permitted it.
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

    /// Ends a wait after the longest one, and when the token is cancelled.
    async fn bounded<R>(
        &self,
        wait: impl Future<Output = Result<R, AcquireError>>,
    ) -> Result<R, Refused> {
        // The inner result is the one of the limits, the outer one that of the timeout and the token.
        let wait = Waiting::new(async {
            let passed = wait.await;
            // A limiter refuses a wait that is longer than the time that is left, and says how long it would
            // be. One with a shorter timeout of its own refuses others as well.
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

    /// Takes what needs no wait. `None` says that something is missing, or that the request is refused.
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

    /// Waits for what has not been taken.
    async fn enter<'a>(&'a self, taken: &mut Taken<'a, T>, bytes: u64) -> Result<(), AcquireError> {
        // The library repeats a request whose body fails, and would do so for nothing.
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

    /// Returns whether bodies could not be read.
    fn is_closed(&self) -> bool {
        let received = self.received.as_ref();
        received.is_some_and(|received| received.is_closed())
    }

    /// Returns what limits a request with a body of so many bytes.
    fn sent_by(&self, bytes: u64) -> Option<&Arc<RateLimiter>> {
        self.sent.as_ref().filter(|_| bytes > 0)
    }

    /// Waits for bytes that a call of [`Throttled`](crate::Throttled) has returned at once. They are charged
    /// however the wait ends.
    pub(crate) async fn charge_received(&self, bytes: u64) -> object_store::Result<()> {
        if let Some(received) = self.received.as_ref().filter(|_| bytes > 0) {
            // Dropped after the wait, which gives back what it was granted.
            let moved = Moved::new(received, bytes);
            let charged = self.bounded(Charged::wait(received, bytes)).await;
            let charged = charged.map_err(|error| {
                error.boxed(self.max_wait, LimitKind::BytesReceived, Holders::default())
            });
            moved.keep(charged.map_err(of_store)?);
        }
        Ok(())
    }

    /// Gives back what was charged for bytes of a request that was never sent.
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

    /// Returns who else may hold permits, for a request that waits.
    fn holders(&self) -> Holders {
        Holders {
            bodies: self.bodies.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed) - 1,
        }
    }
}

/// What a request has taken so far. It is rolled back on drop, the last first.
struct Taken<'a, T: Throttle> {
    /// The last: who has it has all.
    rate: Option<RollbackGuard<&'a Option<Arc<AdaptiveRate>>>>,
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

/// Why a wait failed, and whether that is because it would exceed the longest one.
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

/// The permit that a request or a body holds. The fields are dropped in this order, so that a waiter whom
/// the permit wakes does not count its former holder.
pub(crate) struct Held<P, C: Deref<Target = AtomicUsize> = Arc<AtomicUsize>> {
    _count: Count<C>,
    permit: P,
}

/// One of a number, until it is dropped.
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

/// Enters by a wait, out of its `Waiting`, so that the throttle sees a timeout around this.
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
