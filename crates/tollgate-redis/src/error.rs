//! [`StoreError`]: the ways in which a store fails.

use std::error::Error;
use std::fmt;

use redis::{ErrorKind, RedisError, ServerErrorKind};
use tollgate::AcquireError;

/// A failure of the store: the source of an [`AcquireError`] of the kind
/// [`Store`](tollgate::ErrorKind::Store).
///
/// A denial is a decision, not a failure. The fallback of a limit decides calls after a failure.
/// [`is_perhaps_charged`](Self::is_perhaps_charged) returns whether the call may still be counted.
///
/// # Examples
///
/// ```
/// use std::error::Error;
/// use tollgate::AcquireError;
/// use tollgate_redis::StoreError;
///
/// let error = AcquireError::from(StoreError::Timeout);
/// let source = error.source().and_then(|source| source.downcast_ref::<StoreError>());
/// assert!(source.is_some_and(|source| source.is_perhaps_charged()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreError {
    /// There was no reply before the [deadline](crate::Store::deadline). The call may have been executed, or
    /// may be executed later.
    Timeout,
    /// The connection was lost during the call, which may have been executed.
    Disconnected,
    /// There is no connection, and none can be made now. Nothing was sent.
    Unavailable,
    /// The store has failed several times, and its [breaker](crate::Store::breaker) is open.
    /// Nothing was sent.
    BreakerOpen,
    /// The server accepts no more clients: its `maxclients` is reached. With TLS, and in a cluster, that
    /// is `Unavailable`, because the server closes the connection without an answer, or the client of
    /// the cluster drops it.
    TooManyClients,
    /// The server is a replica, or rejects writes for another reason.
    ReadOnly,
    /// The server is still loading its data, or is busy with a script that does not end.
    Loading,
    /// The server has no memory left for writes: its `maxmemory` is reached, and it evicts nothing.
    /// Nothing was charged.
    OutOfMemory,
    /// A part of the cluster, or the primary, is missing.
    ClusterDown,
    /// The keys of a call are not in one slot of the cluster. Limits check this when they are created.
    CrossSlot,
    /// The keys of a call are being moved to another node, and were not on one node before the
    /// deadline. Nothing was charged.
    TryAgain,
    /// A key holds a value that another program or another kind of limit wrote. It is left unchanged.
    WrongType,
    /// A script failed, or its reply is invalid.
    Script,
    /// The server does not permit this client to connect, or to run a command of a script: its
    /// password is wrong, or its rights do not suffice.
    /// [`Store::last_failure`](crate::Store::last_failure) returns the message of the server.
    Forbidden,
    /// The address of a server cannot be used.
    Misconfigured,
    /// The runtime of the [store](crate::Store) has shut down.
    NoRuntime,
}

impl StoreError {
    /// Returns whether the call may have been executed, or may be executed later.
    ///
    /// Code that must not undercount admissions should count such a call. Code that must not act twice should
    /// not repeat it.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_redis::StoreError;
    ///
    /// assert!(StoreError::Timeout.is_perhaps_charged());
    /// assert!(!StoreError::Unavailable.is_perhaps_charged());
    /// ```
    pub const fn is_perhaps_charged(self) -> bool {
        matches!(self, Self::Timeout | Self::Disconnected)
    }

    /// Returns whether the store cannot be used now, for any call.
    pub(crate) const fn is_outage(self) -> bool {
        matches!(
            self,
            Self::Timeout
                | Self::Disconnected
                | Self::Unavailable
                | Self::TooManyClients
                | Self::ReadOnly
                | Self::Loading
                | Self::ClusterDown
        )
    }

    /// Returns whether a script may have failed halfway: its writes up to that point stay.
    pub(crate) const fn is_half_done(self) -> bool {
        matches!(self, Self::WrongType | Self::Script | Self::Forbidden)
    }

    pub(crate) fn of(error: &RedisError) -> Self {
        match error.kind() {
            ErrorKind::Server(kind) => match kind {
                ServerErrorKind::ReadOnly => Self::ReadOnly,
                ServerErrorKind::BusyLoading => Self::Loading,
                ServerErrorKind::ClusterDown | ServerErrorKind::MasterDown => Self::ClusterDown,
                ServerErrorKind::CrossSlot => Self::CrossSlot,
                ServerErrorKind::TryAgain | ServerErrorKind::Moved | ServerErrorKind::Ask => {
                    Self::TryAgain
                }
                ServerErrorKind::NoPerm => Self::Forbidden,
                _ => Self::of_text(error),
            },
            ErrorKind::AuthenticationFailed => Self::Forbidden,
            ErrorKind::InvalidClientConfig => Self::Misconfigured,
            ErrorKind::ClusterConnectionNotFound => Self::Unavailable,
            ErrorKind::Io if error.is_timeout() => Self::Timeout,
            ErrorKind::Io if error.is_connection_refusal() => Self::Unavailable,
            ErrorKind::Io => Self::Disconnected,
            _ => Self::of_text(error),
        }
    }

    /// Derives the error from the server's message, if the message has no error kind.
    fn of_text(error: &RedisError) -> Self {
        let said = |word: &str| {
            error.code().is_some_and(|code| code.contains(word))
                || error.detail().is_some_and(|detail| detail.contains(word))
        };
        if said("WRONGTYPE") || said("TOLLGATE the key holds something else") {
            Self::WrongType
        } else if said("OOM") {
            Self::OutOfMemory
        } else if said("max number of clients") {
            Self::TooManyClients
        } else if said("READONLY") || said("MISCONF") || said("NOREPLICAS") {
            Self::ReadOnly
        } else if said("LOADING") || said("BUSY") {
            Self::Loading
        } else if [
            "NOAUTH",
            "WRONGPASS",
            "NOPERM",
            "The user executing the script",
        ]
        .iter()
        .any(|it| said(it))
        {
            Self::Forbidden
        } else {
            Self::Script
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(ALL[*self as usize].1)
    }
}

impl Error for StoreError {}

type Source = &'static (dyn Error + Send + Sync);

/// Creates an error of the kind [`Store`](tollgate::ErrorKind::Store) with this one as its source.
impl From<StoreError> for AcquireError {
    fn from(error: StoreError) -> Self {
        Self::store(&ALL[error as usize].0)
    }
}

/// All errors in their order, each as the source of another error, with its text.
static ALL: [(Source, &str); 16] = {
    use StoreError::*;
    [
        (
            &Timeout,
            "no reply before the deadline, the call may have been charged",
        ),
        (
            &Disconnected,
            "the connection was lost, the call may have been charged",
        ),
        (&Unavailable, "no connection to the server"),
        (&BreakerOpen, "the breaker is open after several failures"),
        (&TooManyClients, "the server accepts no more clients"),
        (&ReadOnly, "the server accepts no writes"),
        (&Loading, "the server is still loading its data, or is busy"),
        (&OutOfMemory, "the server is out of memory"),
        (&ClusterDown, "a part of the cluster is missing"),
        (&CrossSlot, "the keys are not in one slot"),
        (&TryAgain, "the keys are being moved"),
        (&WrongType, "a key holds a value of another type"),
        (&Script, "a script failed"),
        (&Forbidden, "the server denies this client permission"),
        (&Misconfigured, "the address is invalid"),
        (&NoRuntime, "the runtime of the store has shut down"),
    ]
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acquire_error_from_each_has_it_as_its_source() {
        for (index, (error, text)) in ALL.into_iter().enumerate() {
            let source: &dyn Error = error;
            let error: &StoreError = source.downcast_ref().unwrap();
            assert_eq!((*error as usize, error.to_string().as_str()), (index, text));
            let refused = AcquireError::from(*error);
            let source = refused.source().and_then(|source| source.downcast_ref());
            assert_eq!(source, Some(error));
        }
    }
}
