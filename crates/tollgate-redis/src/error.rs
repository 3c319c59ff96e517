//! [`StoreError`]: the ways in which a store fails.

use std::error::Error;
use std::fmt;

use redis::{ErrorKind, RedisError, ServerErrorKind};
use tollgate::AcquireError;

/// A failure of the store: the source of an [`AcquireError`] of the kind
/// [`Store`](tollgate::ErrorKind::Store).
///
/// A denial is a decision, not a failure. Every failure is either a [mistake](Self::is_mistake) of the program or
/// its configuration, or an outage: then the [fallback](crate::Fallback) of a limit decides. A failure that this
/// crate does not know is an outage. [`is_perhaps_charged`](Self::is_perhaps_charged) returns whether the call may
/// still be counted.
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
    /// The store, or this limit alone, has failed several times, and its [breaker](crate::Store::breaker) is open.
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
    /// A script rejected the arguments of a call, for example a number that is too large, or failed at a line of
    /// its own.
    Script,
    /// This user has no right for a command, a key or a channel of the call.
    /// [`Store::last_failure`](crate::Store::last_failure) returns the message of the server.
    Forbidden,
    /// The address of a server cannot be used.
    Misconfigured,
    /// The runtime of the [store](crate::Store) has shut down.
    NoRuntime,
    /// The server does not accept this client: its user name or password is wrong, or it has no right to connect to
    /// the database of the address (`+select`). Nothing was charged.
    Unauthenticated,
    /// The server, or a proxy in front of it, replied with an error or a value that this crate does not know; for
    /// example, Envoy cannot reach the server, or a hosted database has used up its quota. The call may have been
    /// executed. [`Store::last_failure`](crate::Store::last_failure) returns the message.
    Unknown,
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
        matches!(self, Self::Timeout | Self::Disconnected | Self::Unknown)
    }

    /// Returns whether the program, or its configuration, is wrong: a key of another type, a number that a script
    /// cannot count, keys in several slots, an address that cannot be used, a runtime that has shut down. No
    /// [fallback](crate::Fallback) decides after a mistake. Every other failure is an outage.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_redis::StoreError;
    ///
    /// assert!(StoreError::WrongType.is_mistake());
    /// // A right may be withdrawn while a program runs.
    /// assert!(!StoreError::Forbidden.is_mistake());
    /// assert!(!StoreError::Unknown.is_mistake());
    /// ```
    pub const fn is_mistake(self) -> bool {
        matches!(
            self,
            Self::CrossSlot
                | Self::WrongType
                | Self::Script
                | Self::Misconfigured
                | Self::NoRuntime
        )
    }

    /// Returns whether any call of the store would fail like this now.
    pub(crate) const fn is_outage_of_store(self) -> bool {
        matches!(
            self,
            Self::Timeout
                | Self::Disconnected
                | Self::Unavailable
                | Self::TooManyClients
                | Self::ReadOnly
                | Self::Loading
                | Self::ClusterDown
                | Self::Unauthenticated
        )
    }

    /// Returns whether calls of one limit fail like this, while those of others may succeed.
    pub(crate) const fn is_outage_of_limit(self) -> bool {
        matches!(
            self,
            Self::OutOfMemory | Self::TryAgain | Self::Forbidden | Self::Unknown
        )
    }

    /// Returns whether there was no answer at all, so that the call may be made once more at once.
    pub(crate) const fn is_unanswered(self) -> bool {
        matches!(self, Self::Timeout | Self::Disconnected)
    }

    /// Returns whether a script may have failed halfway: its writes up to that point stay.
    pub(crate) const fn is_half_done(self) -> bool {
        matches!(
            self,
            Self::WrongType | Self::Script | Self::Forbidden | Self::Unknown
        )
    }

    /// The number of errors.
    pub(crate) const COUNT: usize = ALL.len();

    /// Returns all errors, in their order.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let all = ALL.iter().map(|(error, _)| error.downcast_ref::<Self>());
        all.flatten().copied()
    }

    pub(crate) fn of(error: &RedisError) -> Self {
        match error.kind() {
            ErrorKind::Server(ServerErrorKind::Moved | ServerErrorKind::Ask) => Self::TryAgain,
            ErrorKind::AuthenticationFailed => Self::Unauthenticated,
            ErrorKind::InvalidClientConfig => Self::Misconfigured,
            ErrorKind::ClusterConnectionNotFound => Self::Unavailable,
            ErrorKind::Io if error.is_timeout() => Self::Timeout,
            ErrorKind::Io if error.is_connection_refusal() => Self::Unavailable,
            ErrorKind::Io => Self::Disconnected,
            _ => {
                let [code, detail] = [error.code(), error.detail()].map(Option::unwrap_or_default);
                Self::of_message(code, detail)
            }
        }
    }

    /// Derives the failure from the message of a server or a proxy: its first word, and the rest.
    fn of_message(code: &str, detail: &str) -> Self {
        // Redis 6.2 quotes the error of a command inside a script, with its code.
        let is_quote = detail.starts_with("Error running script");
        let is = |text: &&str| code == *text || is_quote && detail.contains(text);
        let says = |text: &&str| detail.contains(text);
        let known = MESSAGES
            .iter()
            .find(|(_, codes, texts)| codes.iter().any(is) || texts.iter().any(says));
        match known {
            Some((error, ..)) => *error,
            None if is_at_a_line(detail) => Self::Script,
            None => Self::Unknown,
        }
    }
}

/// Returns whether a message is that of a Lua error at a line of our script: its text begins with the position. The
/// position of a failed command is marked with `@`.
fn is_at_a_line(detail: &str) -> bool {
    let is_position = |(at, name): (usize, &str)| {
        let line = detail[at + name.len()..].bytes().next();
        !detail[..at].ends_with('@') && line.is_some_and(|it| it.is_ascii_digit())
    };
    detail.match_indices("user_script:").any(is_position)
}

/// A failure, the codes that mean it, and parts of messages that do so with any code. The first row that matches
/// counts. Rights come first, because their messages may quote the name of a key.
type Message = (StoreError, &'static [&'static str], &'static [&'static str]);

const MESSAGES: &[Message] = {
    use StoreError::*;
    &[
        (
            Forbidden,
            &["NOPERM"],
            &[
                // Redis 6.2 and 7.0.
                "The user executing the script can't",
                // Redis since 7.2, and Valkey.
                "ACL failure in script",
                // Of the database of the address.
                "permissions to run the 'select' command",
                // Dragonfly.
                "has no ACL permissions",
            ],
        ),
        (
            Unauthenticated,
            &["NOAUTH", "WRONGPASS"],
            &["invalid password", "invalid username-password pair"],
        ),
        (
            WrongType,
            &["WRONGTYPE"],
            &["TOLLGATE the key holds something else"],
        ),
        (CrossSlot, &["CROSSSLOT"], &["hash to the same slot"]),
        (Script, &[], &["TOLLGATE "]),
        (OutOfMemory, &["OOM"], &["Out of memory"]),
        (
            TooManyClients,
            &[],
            &[
                "max number of clients",
                // Upstash.
                "max concurrent connections exceeded",
            ],
        ),
        (ReadOnly, &["READONLY", "MISCONF", "NOREPLICAS"], &[]),
        (Loading, &["LOADING", "BUSY"], &[]),
        (ClusterDown, &["CLUSTERDOWN", "MASTERDOWN"], &[]),
        (TryAgain, &["TRYAGAIN"], &[]),
    ]
};

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
static ALL: [(Source, &str); 18] = {
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
        (&Script, "a script rejected the call"),
        (&Forbidden, "this user has no right for the call"),
        (&Misconfigured, "the address is invalid"),
        (&NoRuntime, "the runtime of the store has shut down"),
        (&Unauthenticated, "the server does not accept this client"),
        (&Unknown, "an unknown error, the call may have been charged"),
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

    /// Returns the failure for a line that a server sends.
    fn failure(line: &str) -> StoreError {
        let reply = redis::parse_redis_value(format!("-{line}\r\n").as_bytes());
        StoreError::of(&reply.unwrap().extract_error().unwrap_err())
    }

    const SHA: &str = "0123456789012345678901234567890123456789";

    #[test]
    fn of_each_message_of_servers_and_proxies_is_its_kind() {
        use StoreError::*;
        // Redis 6.2 quotes the error of a command inside a script; later versions add the position to it.
        let quoted = |text: &str| {
            format!(
                "ERR Error running script (call to f_{SHA}): @user_script:41: @user_script: 41: {text}"
            )
        };
        let marked = |text: &str| format!("{text} script: {SHA}, on @user_script:41.");
        let rows = [
            (
                Forbidden,
                "NOPERM this user has no permissions to run the 'evalsha' command or its subcommand",
            ),
            (
                Forbidden,
                "NOPERM this user has no permissions to access one of the keys used as arguments",
            ),
            (
                Forbidden,
                "NOPERM this user has no permissions to access one of the channels used as arguments",
            ),
            (
                Forbidden,
                "NOPERM User app has no permissions to run the 'evalsha' command",
            ),
            (Forbidden, "NOPERM No permissions to access a key"),
            (Forbidden, "NOPERM No permissions to access a channel"),
            (Forbidden, "NOPERM No permissions to access database"),
            (Forbidden, "NOPERM user app has no ACL permissions"),
            (
                Forbidden,
                &marked("ERR The user executing the script can't run this command or subcommand"),
            ),
            (
                Forbidden,
                &quoted("The user executing the script can't run this command or subcommand"),
            ),
            (
                Forbidden,
                &marked(
                    "ERR The user executing the script can't access at least one of the keys mentioned in the \
                     command arguments",
                ),
            ),
            (
                Forbidden,
                &marked(
                    "ERR ACL failure in script: User app has no permissions to run the 'pttl' command",
                ),
            ),
            // The name of a key is no code.
            (
                Forbidden,
                &marked(
                    "ERR ACL failure in script: User app has no permissions to access the 'OOM' key",
                ),
            ),
            (
                Forbidden,
                &marked("ERR ACL failure in script: No permissions to access a channel"),
            ),
            (Unauthenticated, "NOAUTH Authentication required."),
            (
                Unauthenticated,
                "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
                HELLO <proto> AUTH <user> <pass> option can be used",
            ),
            (
                Unauthenticated,
                "WRONGPASS invalid username-password pair or user is disabled.",
            ),
            (Unauthenticated, "WRONGPASS invalid or missing auth token"),
            (Unauthenticated, "ERR invalid password"),
            (
                WrongType,
                "WRONGTYPE Operation against a key holding the wrong kind of value",
            ),
            (
                WrongType,
                &marked("WRONGTYPE Operation against a key holding the wrong kind of value"),
            ),
            (
                WrongType,
                &quoted("WRONGTYPE Operation against a key holding the wrong kind of value"),
            ),
            (
                WrongType,
                &marked("ERR TOLLGATE the key holds something else"),
            ),
            (WrongType, &quoted("TOLLGATE the key holds something else")),
            (
                Script,
                &marked("ERR TOLLGATE an argument is too large: 1e20"),
            ),
            (
                Script,
                &format!(
                    "ERR Error running script (call to f_{SHA}): @user_script:7: user_script:7: attempt to \
                compare nil with number"
                ),
            ),
            (
                Script,
                &marked("ERR user_script:7: attempt to compare nil with number"),
            ),
            (
                Script,
                "ERR Error compiling script (new function): user_script:7: '=' expected near 'x'",
            ),
            (
                CrossSlot,
                "CROSSSLOT Keys in request don't hash to the same slot",
            ),
            (
                CrossSlot,
                &marked("ERR Script attempted to access keys that do not hash to the same slot"),
            ),
            (
                OutOfMemory,
                "OOM command not allowed when used memory > 'maxmemory'.",
            ),
            (
                OutOfMemory,
                &marked("OOM command not allowed when used memory > 'maxmemory'."),
            ),
            (
                OutOfMemory,
                &quoted("-OOM command not allowed when used memory > 'maxmemory'."),
            ),
            (OutOfMemory, "ERR Out of memory"),
            (TooManyClients, "ERR max number of clients reached"),
            (
                TooManyClients,
                "ERR max number of clients + cluster connections reached",
            ),
            (TooManyClients, "ERR max concurrent connections exceeded"),
            (
                ReadOnly,
                "READONLY You can't write against a read only replica.",
            ),
            (
                ReadOnly,
                &marked("READONLY You can't write against a read only replica."),
            ),
            (
                ReadOnly,
                &quoted("-READONLY You can't write against a read only replica."),
            ),
            (
                ReadOnly,
                "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
            ),
            (
                ReadOnly,
                &marked("MISCONF Errors writing to the AOF file: No space left on device"),
            ),
            (ReadOnly, "NOREPLICAS Not enough good replicas to write."),
            (Loading, "LOADING Redis is loading the dataset in memory"),
            (
                Loading,
                "LOADING Dragonfly is loading the dataset in memory",
            ),
            (
                Loading,
                "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
            ),
            (ClusterDown, "CLUSTERDOWN The cluster is down"),
            (ClusterDown, "CLUSTERDOWN Hash slot not served"),
            (
                ClusterDown,
                "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            ),
            (
                TryAgain,
                "TRYAGAIN Multiple keys request during rehashing of slot",
            ),
            (TryAgain, "MOVED 3999 127.0.0.1:6381"),
            (TryAgain, "ASK 3999 127.0.0.1:6381"),
            // Envoy.
            (Unknown, "upstream failure"),
            (Unknown, "no upstream host"),
            (Unknown, "upstream protocol error"),
            (Unknown, "invalid request"),
            (Unknown, "ERR unknown command 'HELLO'"),
            // Twemproxy.
            (Unknown, "ERR Connection refused"),
            (Unknown, "ERR Connection timed out"),
            (Unknown, "ERR unknown"),
            // Upstash.
            (
                Unknown,
                "ERR max daily request limit exceeded. Limit: 10000, Usage: 10000.",
            ),
            (
                Unknown,
                "ERR max requests limit exceeded. Limit: 500000, Usage: 500000.",
            ),
            (
                Unknown,
                "ERR max request size exceeded. Limit: 1048576 bytes, Actual: 1048577 bytes",
            ),
            (Unknown, "ERR DB capacity quota exceeded"),
            // A server without a command of the scripts.
            (
                Unknown,
                &marked("ERR Unknown Redis command called from script"),
            ),
            (
                Unknown,
                &quoted("Unknown Redis command called from Lua script"),
            ),
            (Unknown, "ERR script tried accessing undeclared key"),
            (Unknown, "ERR"),
            (
                Unknown,
                "EXECABORT Transaction discarded because of previous errors.",
            ),
        ];
        for (expected, line) in rows {
            assert_eq!(failure(line), expected, "{line}");
        }
    }

    #[test]
    fn is_mistake_of_each_has_exactly_one_kind() {
        for (error, text) in ALL {
            let source: &dyn Error = error;
            let error: &StoreError = source.downcast_ref().unwrap();
            let kinds = [
                error.is_mistake(),
                error.is_outage_of_store(),
                error.is_outage_of_limit(),
                *error == StoreError::BreakerOpen,
            ];
            let count = kinds.iter().filter(|it| **it).count();
            assert_eq!(count, 1, "{text}");
        }
    }
}
