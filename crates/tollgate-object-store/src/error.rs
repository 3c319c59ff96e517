//! What the limits of a request fail with, and how to find it in an error of a store.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use tollgate::{AcquireError, ErrorKind};

/// An error of any type, as `object_store` has them as sources.
pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// A request was not admitted within the [longest wait](crate::ThrottledConnector::max_wait).
///
/// It is the source of the store's error, and [`cause`] finds the [`AcquireError`] behind it. The
/// library `object_store` does not repeat a request that failed in this way.
///
/// A caller that opens more responses than there are permits, before it reads any of them to its end,
/// waits for itself: a merge of sorted files does that. [`bodies`](Self::bodies) then is the number of
/// permits, and [`Hold::Head`](crate::Hold::Head) prevents it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitTooLong {
    max_wait: Duration,
    bodies: usize,
    source: AcquireError,
}

impl WaitTooLong {
    /// Returns the longest wait that was allowed. If the limits knew that it would not suffice, the
    /// request failed without any wait.
    pub fn max_wait(&self) -> Duration {
        self.max_wait
    }

    /// Returns how many responses held a permit when the wait ended, because their bodies had not been
    /// read to the end or dropped.
    pub fn bodies(&self) -> usize {
        self.bodies
    }
}

impl fmt::Display for WaitTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not admitted within {:?}", self.max_wait)?;
        match self.bodies {
            0 => return Ok(()),
            1 => f.write_str(
                ", while 1 response body that was not read to its end holds a permit; read or drop it",
            )?,
            bodies => write!(
                f,
                ", while {bodies} response bodies that were not read to their end hold a permit each; \
                 read or drop them"
            )?,
        }
        f.write_str(", or use Hold::Head")
    }
}

impl Error for WaitTooLong {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}

/// Returns the error of a request that was not admitted.
pub(crate) fn refusal(source: AcquireError, max_wait: Duration, bodies: usize) -> BoxError {
    match source.kind() {
        ErrorKind::TimedOut => Box::new(WaitTooLong {
            max_wait,
            bodies,
            source,
        }),
        _ => Box::new(source),
    }
}

/// Returns the error of a call of [`Throttled`](crate::Throttled).
pub(crate) fn of_store(source: BoxError) -> object_store::Error {
    object_store::Error::Generic {
        store: "Throttled",
        source,
    }
}

/// Returns why a request was not admitted, if that is what an error of a store is about: the
/// [`AcquireError`] in its chain of sources.
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
    let mut error = error;
    loop {
        match error.downcast_ref::<AcquireError>() {
            Some(cause) => return Some(cause),
            None => error = error.source()?,
        }
    }
}
