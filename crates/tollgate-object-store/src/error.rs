//! Defines the errors of the limits, and finds them in an error of a store.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use tollgate::AcquireError;

/// An error of any type, as `object_store` uses it for sources.
pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// A limit that a request has to pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LimitKind {
    /// The throttle of the connector or the store.
    Throttle,
    /// The limiter of [`bytes_sent`](crate::ThrottledConnector::bytes_sent).
    BytesSent,
    /// The limiter of [`bytes_received`](crate::Throttled::bytes_received), for which `get_ranges` of a
    /// [`Throttled`](crate::Throttled) waits. The wait of a body that is read has no bound.
    BytesReceived,
    /// The rate of [`adaptive`](crate::ThrottledConnector::adaptive).
    AdaptiveRate,
}

impl fmt::Display for LimitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Throttle => "the throttle",
            Self::BytesSent => "the limit of sent bytes",
            Self::BytesReceived => "the limit of received bytes",
            Self::AdaptiveRate => "the adaptive rate",
        })
    }
}

/// A request was not admitted within the [longest wait](crate::ThrottledConnector::max_wait).
///
/// It is the source of the store's error: [`wait_too_long`] finds it there, and [`cause`] finds the
/// [`AcquireError`] behind it. The library `object_store` does not retry a request that failed in this
/// way.
///
/// A caller that opens more responses than there are permits, before it reads any of them to its end,
/// never gets the next permit. For example, a merge of sorted files does that. [`bodies`](Self::bodies) then is
/// the number of permits, and [`Hold::Head`](crate::Hold::Head) prevents the failure.
///
/// A request is granted its permit whether or not it is polled, and keeps it until it is polled. So requests
/// in a buffered stream, such as those of `delete_stream` of S3, can block a request that is made between two
/// items of the stream, because the stream polls none of them then: [`requests`](Self::requests) counts them.
/// Collect the stream first, or poll it in a task of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitTooLong {
    max_wait: Duration,
    limit: LimitKind,
    holders: Holders,
    source: AcquireError,
}

/// The other holders of the permits for which a request waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holders {
    pub(crate) bodies: usize,
    pub(crate) requests: usize,
}

impl WaitTooLong {
    pub(crate) fn new(
        source: AcquireError,
        max_wait: Duration,
        limit: LimitKind,
        holders: Holders,
    ) -> Self {
        Self {
            max_wait,
            limit,
            holders,
            source,
        }
    }

    /// Returns the longest allowed wait. If the limits knew that the wait would exceed it, the
    /// request failed without any wait.
    pub fn max_wait(&self) -> Duration {
        self.max_wait
    }

    /// Returns the limit that had not admitted the request.
    pub fn limit(&self) -> LimitKind {
        self.limit
    }

    /// Returns how many responses held a permit when the wait for the throttle ended, because their
    /// bodies had not been read to the end or dropped. It is 0 for another [limit](Self::limit), because
    /// these permits do not prolong its wait.
    pub fn bodies(&self) -> usize {
        self.holders.bodies
    }

    /// Returns how many other requests had been admitted and not answered, or waited, when the wait for the
    /// throttle ended. It does not include these bodies, and is 0 for another [limit](Self::limit).
    pub fn requests(&self) -> usize {
        self.holders.requests
    }
}

impl fmt::Display for WaitTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "not admitted by {} within {:?}",
            self.limit, self.max_wait
        )?;
        let Holders { bodies, requests } = self.holders;
        let (hold, each) = match bodies {
            1 => ("body that has not been read to its end holds", ""),
            _ => ("bodies that have not been read to their end hold", " each"),
        };
        if bodies > 0 {
            write!(
                f,
                "; {bodies} response {hold} a permit{each}: if they wait for this request, read or drop \
                 them first, or use Hold::Head"
            )?;
        }
        let (hold, wait, them) = match requests {
            0 => return Ok(()),
            1 => ("request holds", "waits", "it"),
            _ => ("requests hold", "wait", "them"),
        };
        write!(
            f,
            "; {requests} other {hold} a permit or {wait} for one: if nothing polls {them} during this \
             request, spawn {them}, or make this one after {them}"
        )
    }
}

impl Error for WaitTooLong {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}

/// Returns the error of a call of [`Throttled`](crate::Throttled).
pub(crate) fn of_store(source: BoxError) -> object_store::Error {
    object_store::Error::Generic {
        store: "Throttled",
        source,
    }
}

/// Returns the reason why a request was not admitted, if a store failed because of that: the [`AcquireError`]
/// in the chain of sources of its error.
///
/// The error is that of the last attempt. A store that retries requests may have sent earlier
/// attempts, so a write may have taken effect.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use object_store::ObjectStoreExt;
/// use object_store::memory::InMemory;
/// use tollgate::{AcquireError, ErrorKind, Semaphore};
/// use tollgate_object_store::{Throttled, cause};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let cap = Arc::new(Semaphore::new(4));
/// let store = Throttled::new(InMemory::new(), Arc::clone(&cap));
/// let missing = store.head(&"a".into()).await.unwrap_err();
/// assert_eq!(cause(&missing), None);
///
/// cap.close();
/// let refused = store.head(&"a".into()).await.unwrap_err();
/// assert_eq!(cause(&refused).map(AcquireError::kind), Some(ErrorKind::Closed));
/// # }
/// ```
pub fn cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a AcquireError> {
    find(error)
}

/// Returns the [`WaitTooLong`] in the chain of sources of a store's error, if the last attempt of a
/// request was not admitted within the longest wait.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use object_store::ObjectStoreExt;
/// use object_store::memory::InMemory;
/// use tollgate::Semaphore;
/// use tollgate_object_store::{Throttled, WaitTooLong, wait_too_long};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let store = Throttled::new(InMemory::new(), Arc::new(Semaphore::new(0)));
/// let store = store.max_wait(Duration::from_secs(5));
/// let error = store.head(&"a".into()).await.unwrap_err();
/// assert_eq!(wait_too_long(&error).map(WaitTooLong::max_wait), Some(Duration::from_secs(5)));
/// # }
/// ```
pub fn wait_too_long<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a WaitTooLong> {
    find(error)
}

/// Returns the first error of a type in a chain of sources.
fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut error = error;
    loop {
        match error.downcast_ref() {
            Some(found) => return Some(found),
            None => error = error.source()?,
        }
    }
}
