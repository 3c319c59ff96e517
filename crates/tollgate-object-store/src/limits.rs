//! [`Limits`]: what a request has to pass before it is made.
//!
//! 1. The order is: the throttle, the bytes to send, the adaptive rate. A request that waits for a
//!    permit has been charged nothing. The adaptive rate is last, so that a pause and a cut hold for all
//!    requests that have not been sent. A request keeps its turn for bytes until it has passed it.
//! 2. One timeout and one token hold for all of these waits.
//! 3. The bytes that are received are charged while a body is read, or after a call that returned them. The wait
//!    after a call has a timeout and a token of its own.
//! 4. A request that is refused or dropped in a wait gives back what it has taken so far, the last
//!    first. Once it is admitted, nothing is given back on drop.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tollgate::adaptive::{AdaptiveRate, RatePermit};
use tollgate::{AcquireError, Charge, ErrorKind, Throttle, Waiting};

use crate::bandwidth::{Bandwidth, Charged};
use crate::error::{BoxError, WaitTooLong, of_store};

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
    pub(crate) sent: Option<Bandwidth>,
    /// Charged while bodies are read, and not before a request.
    pub(crate) received: Option<Bandwidth>,
    pub(crate) hold: Hold,
    pub(crate) max_wait: Duration,
    pub(crate) token: Option<CancellationToken>,
    /// How many bodies hold a permit.
    bodies: Arc<AtomicUsize>,
}

/// What an admitted request has taken.
pub(crate) struct Admitted<P> {
    pub(crate) permit: P,
    pub(crate) rate: Option<RatePermit<Arc<AdaptiveRate>>>,
    pub(crate) sent: Vec<Charge>,
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
        }
    }

    /// Waits until a request that sends this many bytes is admitted.
    pub(crate) async fn admit(&self, bytes: u64) -> Result<Admitted<T::Permit>, BoxError> {
        let permitted = AtomicBool::new(false);
        self.bounded(self.enter(bytes, &permitted), &permitted)
            .await
    }

    /// Ends a wait after the longest one, and when the token is cancelled. Bodies that hold permits may
    /// be the cause only while the throttle has not permitted it.
    async fn bounded<R>(
        &self,
        wait: impl Future<Output = Result<R, AcquireError>>,
        permitted: &AtomicBool,
    ) -> Result<R, BoxError> {
        // The inner result is the one of the limits, the outer one that of the timeout and the token.
        let wait = Waiting::new(async { Ok(wait.await) }).timeout(self.max_wait);
        let waited = match &self.token {
            Some(token) => wait.cancel_on(token).await,
            None => wait.await,
        };
        let (error, own) = match waited {
            Ok(Ok(passed)) => return Ok(passed),
            // A limiter that knows that the wait would be longer than the timeout says how long.
            Ok(Err(error)) => {
                let own = error.retry_after().is_some();
                (error, own)
            }
            Err(error) => (error, true),
        };
        if !own || error.kind() != ErrorKind::TimedOut {
            return Err(error.into());
        }
        let bodies = match permitted.load(Ordering::Relaxed) {
            true => 0,
            false => self.bodies.load(Ordering::Relaxed),
        };
        Err(WaitTooLong::new(error, self.max_wait, bodies).into())
    }

    /// Waits until a call of [`Throttled`](crate::Throttled) that sends this many bytes is admitted.
    pub(crate) async fn admit_call(
        &self,
        bytes: usize,
    ) -> object_store::Result<Admitted<T::Permit>> {
        let admitted = self.admit(u64::try_from(bytes).unwrap_or(u64::MAX)).await;
        admitted.map_err(of_store)
    }

    async fn enter(
        &self,
        bytes: u64,
        permitted: &AtomicBool,
    ) -> Result<Admitted<T::Permit>, AcquireError> {
        // The library repeats a request whose body fails, and would do so for nothing.
        if self
            .received
            .as_ref()
            .is_some_and(|received| received.limiter.is_closed())
        {
            return Err(AcquireError::new(ErrorKind::Closed));
        }
        let permit = Entered::wait(&self.throttle, 1, |throttle, _| throttle.enter()).await?;
        permitted.store(true, Ordering::Relaxed);
        let sent = match &self.sent {
            Some(sent) if bytes > 0 => Some(sent.charge(bytes).await?),
            _ => None,
        };
        let rate = Entered::wait(&self.adaptive, 1, |rate, _| rate.enter()).await?;
        Ok(Admitted {
            sent: sent.map(Charged::keep).unwrap_or_default(),
            rate: rate.keep(),
            permit: permit.keep(),
        })
    }

    /// Waits for bytes that a call of [`Throttled`](crate::Throttled) has returned at once.
    pub(crate) async fn charge_received(&self, bytes: u64) -> object_store::Result<()> {
        if let Some(received) = self.received.as_ref().filter(|_| bytes > 0) {
            let permitted = AtomicBool::new(true);
            let charged = self.bounded(received.charge(bytes), &permitted).await;
            charged.map_err(of_store)?.keep();
        }
        Ok(())
    }

    /// Gives back what was charged for bytes of a request that was never sent.
    pub(crate) fn refund(&self, charges: Vec<Charge>) {
        if let Some(sent) = &self.sent {
            for charge in charges.into_iter().rev() {
                sent.limiter.refund(charge);
            }
        }
    }

    /// Counts the body that holds a permit.
    pub(crate) fn held<P>(&self, permit: P) -> Held<P> {
        self.bodies.fetch_add(1, Ordering::Relaxed);
        Held {
            _count: Count(Arc::clone(&self.bodies)),
            _permit: permit,
        }
    }
}

/// The permit that a body holds. The fields are dropped in this order, so that a waiter whom the
/// permit wakes does not count the body.
pub(crate) struct Held<P> {
    _count: Count,
    _permit: P,
}

struct Count(Arc<AtomicUsize>);

impl Drop for Count {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A permit that is rolled back on drop.
pub(crate) struct Entered<'a, T: Throttle> {
    throttle: &'a T,
    permit: Option<T::Permit>,
}

impl<'a, T: Throttle> Entered<'a, T> {
    pub(crate) fn new(throttle: &'a T, permit: T::Permit) -> Self {
        let permit = Some(permit);
        Self { throttle, permit }
    }

    /// Waits for `n` units, so that the throttle sees the timeout.
    pub(crate) async fn wait(
        throttle: &'a T,
        n: u64,
        enter: impl FnOnce(&'a T, u64) -> Waiting<T::Enter>,
    ) -> Result<Self, AcquireError> {
        let permit = enter(throttle, n).into_inner().await?;
        Ok(Self::new(throttle, permit))
    }

    pub(crate) fn keep(mut self) -> T::Permit {
        match self.permit.take() {
            Some(permit) => permit,
            None => unreachable!("only `keep` takes it"),
        }
    }
}

impl<T: Throttle> Drop for Entered<'_, T> {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            self.throttle.rollback(permit);
        }
    }
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
            .finish_non_exhaustive()
    }
}
