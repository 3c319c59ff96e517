//! [`Store`]: a server or a cluster, and the calls to it.
//!
//! 1. Every call has a deadline, which includes the time to connect.
//! 2. There is one connection, and calls on it do not wait for each other. If it is lost, one task
//!    makes another one for all callers, whether or not they still wait.
//! 3. A connection is replaced when it is lost, and after several deadlines in a row have passed on
//!    it, because it may be half open.
//! 4. While the [breaker](breaker) is open nothing is sent. Each slot of a cluster has its own.
//! 5. A call that was not sent is distinguished from one that may have been executed.
//! 6. A [`Call`] works outside of the runtime too, and is counted even if its caller has left: see [`Detached`].

mod breaker;
mod call;
mod check;
mod clocks;
mod connect;
#[cfg(feature = "credentials")]
mod credentials;
mod detached;
mod in_memory;
mod link;
mod listen;
mod memory_wire;
#[cfg(feature = "cluster")]
mod nodes;
mod pushes;
mod sentinels;
mod statistics;
mod time;
#[cfg(feature = "tls")]
mod tls;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Client, Cmd, Value};
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

use self::breaker::Breaker;
pub(crate) use self::breaker::LimitBreaker;
pub(crate) use self::call::Call;
use self::call::Progress;
pub use self::check::Warning;
use self::clocks::ServerClocks;
#[cfg(feature = "credentials")]
pub use self::credentials::Credentials;
use self::detached::joined;
pub(crate) use self::detached::{Detached, is_inside};
use self::link::{Address, Link};
#[cfg(feature = "cluster")]
use self::nodes::Cluster;
pub(crate) use self::pushes::{Listener, Listening};
use self::statistics::StoreCounters;
pub use self::statistics::{Latency, StoreStatistics};
pub(crate) use self::time::{StoreClock, StoreTime};
#[cfg(feature = "tls")]
pub use self::tls::Tls;
use crate::error::StoreError;
use crate::script::Script;

/// A Redis or Valkey server, or a cluster, that stores limits.
///
/// A store is cheap to clone. It connects on first use, and again when the connection is lost. One
/// store is enough for a process: calls share one connection, and do not wait for each other. The
/// server must be version 6.2 or later.
///
/// Configure a store before cloning it or creating a limit on it.
///
/// A program that takes a store is tested with one [in memory](Self::in_memory), without a server and in virtual time.
///
/// # Runtime
///
/// The connection lives on the tokio runtime in which the store is created. That runtime needs
/// timers and I/O, and has to run while the store is used. Limits of the store can be awaited
/// anywhere, also outside of every runtime and in other ones; there, a call is a task of the
/// store's runtime. When that runtime is gone, every call ends with
/// [`NoRuntime`](StoreError::NoRuntime).
///
/// # Cancel safety
///
/// A call that is dropped before it is sent is not sent. The reply to a call that was sent is
/// awaited until its [deadline](Self::deadline), even if no caller waits for it, so that the
/// [breaker](Self::breaker) opens, and a silent connection is replaced. Each limit documents what
/// happens to the charges of such a call.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
/// use tollgate::Quota;
/// use tollgate_redis::{RateLimiter, Store};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Store::new("redis://127.0.0.1/")?.deadline(Duration::from_millis(20));
/// let everyone = RateLimiter::new(&store, "requests", Quota::per_second(50).burst(10));
/// everyone.acquire().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

struct Shared {
    link: Arc<Link>,
    breaker: Breaker,
    clocks: ServerClocks,
    deadline: Duration,
    counters: StoreCounters,
    time: StoreTime,
}

/// The longest time until a call whose key is being moved is repeated.
const MOVING: Duration = Duration::from_millis(5);

/// The defaults.
const DEADLINE: Duration = Duration::from_millis(50);
const FAILURES: u32 = 5;
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

impl Store {
    /// Creates a store on the server at an address such as
    /// `redis://user:password@host:port/database`, or `rediss://` with the feature `tls`.
    ///
    /// Makes no call: the store connects on first use, in 2 seconds at most.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](StoreError::Misconfigured) if the address is invalid.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime: the connection lives on the current one.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_redis::{Store, StoreError};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let error = Store::new("nowhere").unwrap_err();
    /// assert_eq!(error, StoreError::Misconfigured);
    /// // The server does not have to run yet.
    /// assert!(Store::new("redis://127.0.0.1:1/").is_ok());
    /// # }
    /// ```
    #[track_caller]
    pub fn new(address: &str) -> Result<Self, StoreError> {
        let client = |info| Client::open(info).map_err(|_| StoreError::Misconfigured);
        Ok(Self::to(Address::server_with(address, client)?))
    }

    /// Creates a store on a server with sentinels, which promote a replica when it fails. The host of `address` is the
    /// name by which the sentinels know the server, as in `redis://user:password@mymaster/database`; `sentinels` are the
    /// addresses of some of them.
    ///
    /// Each time that a connection is made, the first sentinel that answers says where the primary is. Each one
    /// has 400 milliseconds, within the 2 seconds of an attempt to connect; the next attempt begins with the
    /// next one. A server that has become a replica rejects a call as [`ReadOnly`](StoreError::ReadOnly), and
    /// then the sentinels are asked again. Until they have promoted another one, calls fail as in any outage.
    /// Replication is asynchronous: the last charges before a failover may be lost.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](StoreError::Misconfigured) if an address is invalid, or there is no sentinel.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime: the connection lives on the current one.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_redis::{Store, StoreError};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), StoreError> {
    /// let sentinels = ["redis://10.0.0.1:26379", "redis://10.0.0.2:26379"];
    /// let store = Store::with_sentinels("redis://mymaster/", sentinels)?;
    /// assert!(!store.is_broken());
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "sentinel")]
    #[track_caller]
    pub fn with_sentinels<'a>(
        address: &str,
        sentinels: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, StoreError> {
        Ok(Self::to(Address::watched(address, sentinels)?))
    }

    /// Creates a store on the cluster that includes the nodes at these addresses.
    ///
    /// All keys of a limit are in one slot, by their tag in braces, as in `{tenant}:requests`.
    /// Needs the feature `cluster`.
    ///
    /// Redirections are followed within the deadline, also while a slot moves from one node to
    /// another; no call is executed twice. A node that fails does not affect the slots of others:
    /// each slot has its own [breaker](Self::breaker).
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](StoreError::Misconfigured) if there is no address, or an invalid one.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime: the connection lives on the current one.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use tollgate::Quota;
    /// use tollgate_redis::{RateLimiter, Store};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = Store::cluster(["redis://10.0.0.1/", "redis://10.0.0.2/"])?;
    /// let tenant = RateLimiter::new(&store, "{acme}:requests", Quota::per_second(50));
    /// tenant.acquire().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "cluster")]
    #[track_caller]
    pub fn cluster<'a>(addresses: impl IntoIterator<Item = &'a str>) -> Result<Self, StoreError> {
        let cluster = Cluster::new(addresses)?;
        Ok(Self::to(Address::Cluster(Box::new(cluster))))
    }

    /// Creates a store on the server at an address of `rediss://`, with these certificates.
    ///
    /// Needs the feature `tls`. While the server's certificate is not trusted, or the server does not
    /// accept that of the client, calls get [`Unavailable`](StoreError::Unavailable), and
    /// [`last_failure`](Self::last_failure) returns the reason.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](StoreError::Misconfigured) if the address is invalid or without encryption,
    /// or if a text contains no valid certificate or key.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime: the connection lives on the current one.
    #[cfg(feature = "tls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tls")))]
    #[track_caller]
    pub fn with_tls(address: &str, tls: &Tls) -> Result<Self, StoreError> {
        Ok(Self::to(Address::server_with(address, |info| {
            tls.client_of(info)
        })?))
    }

    /// Creates a store on the cluster that includes the nodes at these addresses of `rediss://`, with
    /// these certificates, as [`with_tls`](Self::with_tls) and [`cluster`](Self::cluster) do.
    ///
    /// Needs the features `cluster` and `tls`.
    ///
    /// # Errors
    ///
    /// The errors of [`with_tls`](Self::with_tls) and [`cluster`](Self::cluster).
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime: the connection lives on the current one.
    #[cfg(all(feature = "cluster", feature = "tls"))]
    #[cfg_attr(docsrs, doc(cfg(all(feature = "cluster", feature = "tls"))))]
    #[track_caller]
    pub fn cluster_with_tls<'a>(
        addresses: impl IntoIterator<Item = &'a str>,
        tls: &Tls,
    ) -> Result<Self, StoreError> {
        let cluster = Cluster::with_tls(addresses, tls)?;
        Ok(Self::to(Address::Cluster(Box::new(cluster))))
    }

    #[track_caller]
    fn to(address: Address) -> Self {
        let link = Link::new(address, Handle::current());
        Self::on(link, StoreTime::default())
    }

    fn on(link: Link, time: StoreTime) -> Self {
        Self {
            shared: Arc::new(Shared {
                link: Arc::new(link),
                breaker: Breaker::new(FAILURES, SHORTEST_PAUSE, LONGEST_PAUSE),
                clocks: ServerClocks::default(),
                deadline: DEADLINE,
                counters: StoreCounters::default(),
                time,
            }),
        }
    }

    #[track_caller]
    fn change(mut self, change: impl FnOnce(&mut Shared)) -> Self {
        let shared = Arc::get_mut(&mut self.shared)
            .expect("a store is configured before it is cloned or used");
        change(shared);
        self
    }

    /// Sets how long a call may take, 50 milliseconds by default, including the time to connect.
    ///
    /// A call that takes longer may have been charged; see
    /// [`is_perhaps_charged`](StoreError::is_perhaps_charged). After three calls in a row that were
    /// sent and took longer, the connection is replaced. In a cluster these are calls of one slot, and the
    /// connections are kept while a node answers, and the one that has the slot according to it does not.
    ///
    /// # Panics
    ///
    /// Panics if the store was cloned before, or a limit was created on it.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate_redis::Store;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate_redis::StoreError> {
    /// let store = Store::new("redis://127.0.0.1/")?
    ///     .deadline(Duration::from_millis(20))
    ///     .breaker(3, Duration::from_millis(20), Duration::from_millis(200));
    /// assert!(!store.is_broken());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    #[track_caller]
    pub fn deadline(self, deadline: Duration) -> Self {
        self.change(|shared| shared.deadline = deadline)
    }

    /// Sets the number of failures in a row that open the breaker, 5 by default, and the bounds of the
    /// random time for which it stays open, 50 and 500 milliseconds by default.
    ///
    /// Meanwhile every call ends at once with [`BreakerOpen`](StoreError::BreakerOpen). Then one
    /// call is sent as a probe. If it is answered, the breaker closes; if it fails, or has no
    /// result after the same time again, the breaker opens again. Only errors that any call would get
    /// count as failures: a connection that cannot be made, a rejected password, a timeout, a server that is loading
    /// or read-only. Each slot of a cluster has its own breaker.
    ///
    /// Each limit has a breaker of its own as well, with the same settings, for errors that other limits may not get: a
    /// missing right for a command or a key, a server without memory, an error that this crate does not know.
    /// [`is_broken`](Self::is_broken) does not include those.
    ///
    /// Times of more than a year count as a year.
    ///
    /// # Panics
    ///
    /// Panics if `failures` is 0, or the longest time is shorter than the shortest; if the store
    /// was cloned before, or a limit was created on it.
    #[must_use]
    #[track_caller]
    pub fn breaker(self, failures: u32, shortest: Duration, longest: Duration) -> Self {
        assert!(failures > 0, "a breaker cannot open after 0 failures");
        assert!(
            shortest <= longest,
            "the longest pause of {longest:?} is shorter than the shortest of {shortest:?}"
        );
        self.change(|shared| shared.breaker = Breaker::new(failures, shortest, longest))
    }

    /// Asks for the user and the password of each connection, in place of those in the address: for passwords that are
    /// changed, and for tokens that end.
    ///
    /// Needs the feature `credentials`. `ask` is called when a connection is made, at most once a second, and
    /// again when four fifths of the time have passed for which the credentials are
    /// [valid](Credentials::valid_for): then the connection authenticates again, while calls go on. It has to
    /// answer within the time to connect: 2 seconds, and half a second in a cluster. An error of it while a
    /// connection is made is an outage, with its text in
    /// [`last_failure`](Self::last_failure); for a connection that exists, `ask` is called again after a second. A
    /// connection whose new password the server rejects is not authenticated again: when the server ends it,
    /// another one is made.
    ///
    /// When a password is changed on the server before `ask` returns the new one, connections that exist stay, as
    /// Redis leaves them, and those that are lost are made again with the answer of `ask`.
    ///
    /// # Panics
    ///
    /// Panics if the store was cloned before, or a limit was created on it.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate_redis::{Credentials, Store, StoreError};
    ///
    /// /// Stands in for the call of a service.
    /// async fn token() -> Result<Credentials, std::io::Error> {
    ///     let token = std::fs::read_to_string("/run/secrets/redis")?;
    ///     Ok(Credentials::new("app", token).valid_for(Duration::from_secs(3600)))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), StoreError> {
    /// let store = Store::new("redis://127.0.0.1/")?.with_credentials(token);
    /// assert!(!store.is_broken());
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "credentials")]
    #[cfg_attr(docsrs, doc(cfg(feature = "credentials")))]
    #[must_use]
    #[track_caller]
    pub fn with_credentials<A, F, E>(self, ask: A) -> Self
    where
        A: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.change(|shared| {
            let link = Arc::get_mut(&mut shared.link).expect("nothing has used the store");
            link.set_login(credentials::Login::new(ask));
        })
    }

    /// Returns the number of calls that this store and its clones have made, including failed ones,
    /// but without those that the [breaker](Self::breaker) rejected. A script that the server did
    /// not know counts as one call, although it takes two round trips.
    pub fn calls(&self) -> u64 {
        self.shared.counters.calls()
    }

    /// Returns what this store and its clones have done: calls, errors by kind, the latency, the breaker, connections.
    ///
    /// It is a snapshot: nothing is reported anywhere until it is taken, and a call costs a few atomic additions. With the
    /// feature `metrics`, `StoreStatistics::record` reports it to a recorder.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::Quota;
    /// use tollgate_redis::{RateLimiter, Store, StoreError};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // Nothing listens there.
    /// let store = Store::new("redis://127.0.0.1:1/")?;
    /// let limiter = RateLimiter::new(&store, "requests", Quota::per_second(50));
    /// assert!(limiter.try_acquire().await.is_err());
    ///
    /// let statistics = store.statistics();
    /// assert_eq!((statistics.calls, statistics.succeeded), (1, 0));
    /// assert_eq!(statistics.failures(StoreError::Unavailable), 1);
    /// assert_eq!(limiter.statistics().failed, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn statistics(&self) -> StoreStatistics {
        let shared = &*self.shared;
        let (is_broken, link) = (shared.breaker.is_open(), shared.link.connections());
        shared.counters.snapshot(is_broken, link)
    }

    /// Returns whether the [breaker](Self::breaker) of the store, or of any slot of a cluster, has
    /// opened, and no call has been answered since.
    ///
    /// It stays `true` when the pause is over, and during a probe, until a call gets any reply. So the next
    /// call may be sent, but the store is not known to be available again. [`Debug`](fmt::Debug) shows the
    /// same.
    pub fn is_broken(&self) -> bool {
        self.shared.breaker.is_open()
    }

    /// Returns the text of the last failure of a connection or a call, for logs: for example a refused connection, a
    /// certificate that is not trusted, a missing right, or an error in a script. A [`StoreError`] has no text of its
    /// own, because it is a number that every error of a limit can carry. A call without an answer leaves no text.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::Quota;
    /// use tollgate_redis::{RateLimiter, Store};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // Nothing listens there.
    /// let store = Store::new("redis://127.0.0.1:1/")?;
    /// assert_eq!(store.last_failure(), None);
    /// let limiter = RateLimiter::new(&store, "requests", Quota::per_second(50));
    /// assert!(limiter.try_acquire().await.is_err());
    /// assert!(store.last_failure().is_some_and(|text| text.contains("refused")));
    /// # Ok(())
    /// # }
    /// ```
    pub fn last_failure(&self) -> Option<String> {
        self.shared.link.last_failure()
    }

    /// Returns a breaker for the calls of one limit, with the settings of the store's.
    pub(crate) fn limit_breaker(&self) -> LimitBreaker {
        LimitBreaker::new(self.shared.breaker.closed())
    }

    /// Returns whether keys are spread over slots; a script sees only one of them.
    pub(crate) fn is_cluster(&self) -> bool {
        self.shared.link.is_cluster()
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.shared.link.runtime
    }

    /// Returns the time by which its limits wait.
    pub(crate) fn time(&self) -> &StoreTime {
        &self.shared.time
    }

    /// Returns an operation of this runtime that goes on without its caller.
    pub(crate) fn detached<T: Send + 'static>(
        &self,
        operation: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Detached<T> {
        Detached::new(self.runtime(), operation)
    }

    /// Sleeps on the store's runtime, from any runtime or none.
    pub(crate) async fn sleep(&self, time: Duration) -> Result<(), StoreError> {
        let of = self.time().clone();
        let sleep = async move { of.sleep(time).await };
        let sleep = AbortOnDropHandle::new(self.runtime().spawn(sleep));
        joined(sleep.await)
    }

    /// Returns the slot of a cluster that has a key; elsewhere, a number that no slot has.
    pub(crate) fn part(&self, key: &str) -> u16 {
        self.shared.link.part(Some(key))
    }

    /// Returns the last microsecond of the server's clock in which a call with this key that is made
    /// at `sent` is executed before its deadline; 0 if the clock is not known.
    pub(crate) fn last_micros(&self, key: &str, sent: Instant) -> u64 {
        let shared = &*self.shared;
        let part = shared.link.part(Some(key));
        shared.clocks.last(part, sent, shared.deadline)
    }

    /// Records that a call with this key that was sent at `sent` was executed in that microsecond.
    pub(crate) fn learn_clock(&self, key: &str, now: u64, sent: Instant) {
        let shared = &*self.shared;
        shared.clocks.learn(shared.link.part(Some(key)), now, sent);
    }

    /// Calls a script with the arguments that are added to the command, within the deadline.
    pub(crate) fn call(
        &self,
        script: &'static Script,
        keys: &[&str],
        arguments: impl FnOnce(&mut Cmd),
    ) -> Call {
        let mut command = script.by_digest(keys);
        arguments(&mut command);
        self.request(command, Some(script), keys.first().copied(), true)
    }

    /// Calls a script like [`call`](Self::call). While its keys are being moved, the call ends at once, with
    /// [`TryAgain`](StoreError::TryAgain).
    pub(crate) fn call_once(
        &self,
        script: &'static Script,
        keys: &[&str],
        arguments: impl FnOnce(&mut Cmd),
    ) -> Call {
        let mut command = script.by_digest(keys);
        arguments(&mut command);
        self.request(command, Some(script), keys.first().copied(), false)
    }

    /// Sends a command, which may call a script by its digest, to the part that has a key, within
    /// the deadline; if `repeats` is set, again while keys are being moved.
    fn request(
        &self,
        command: Cmd,
        script: Option<&'static Script>,
        key: Option<&str>,
        repeats: bool,
    ) -> Call {
        let (this, part) = (self.clone(), self.shared.link.part(key));
        Call::new(self.runtime(), move |mut progress| {
            progress.repeats = repeats;
            this.requested(command, script, part, progress)
        })
    }

    async fn requested(
        self,
        command: Cmd,
        script: Option<&'static Script>,
        part: u16,
        mut progress: Progress,
    ) -> Result<Value, StoreError> {
        let (shared, begin) = (&*self.shared, Instant::now());
        let counters = &shared.counters;
        if !shared.breaker.may_call(part, begin) {
            counters.failed(StoreError::BreakerOpen);
            return Err(StoreError::BreakerOpen);
        }
        counters.begun();
        let send = self.send(&command, script, &mut progress);
        let sent = tokio::time::timeout(shared.deadline, send).await;
        let answer = match sent.map(Result::transpose) {
            Ok(Some(answer)) => answer,
            // The caller has left, and nothing was sent.
            Ok(None) => return Err(StoreError::Unavailable),
            Err(_) => Err(match progress.sent {
                Err(error) => error,
                Ok(number) => {
                    shared.link.timed_out(number, part, shared.deadline);
                    StoreError::Timeout
                }
            }),
        };
        let end = Instant::now();
        counters.ended(&answer, end - begin);
        match &answer {
            Err(error) if error.is_outage_of_store() => {
                if shared.breaker.failed(part, end) {
                    counters.opened();
                }
            }
            _ => {
                shared.link.answered(part);
                shared.breaker.succeeded(part);
            }
        }
        answer
    }

    /// Sends a command, and repeats it while no node has its key. `None` if the caller has left
    /// before it was sent.
    async fn send(
        &self,
        command: &Cmd,
        script: Option<&Script>,
        progress: &mut Progress,
    ) -> Result<Option<Value>, StoreError> {
        let link = &self.shared.link;
        let mut connection = link.connection().await?;
        if !progress.is_wanted() {
            return Ok(None);
        }
        loop {
            let mut answer = connection.call(command, progress).await;
            if let Some(script) = script
                && Script::is_unknown(&answer)
                && progress.is_wanted()
            {
                answer = connection.call(&script.by_text(command), progress).await;
            }
            let error = match answer {
                Ok(answer) => return Ok(Some(answer)),
                Err(error) => error,
            };
            let failed = link.failed(&error);
            if failed == StoreError::TryAgain {
                // Every node that received it rejected it.
                progress.sent = Err(failed);
                if progress.repeats {
                    tokio::time::sleep(MOVING.mul_f64(fastrand::f64())).await;
                    if progress.is_wanted() {
                        continue;
                    }
                }
            }
            // The address of a server that became a replica may belong to another one by now. A connection that
            // lost its rights has to authenticate again.
            let is_lost = matches!(failed, StoreError::ReadOnly | StoreError::Unauthenticated);
            if error.is_unrecoverable_error() || is_lost {
                link.lost(&connection);
            }
            return Err(failed);
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("deadline", &self.shared.deadline)
            .field("calls", &self.calls())
            .field("is_broken", &self.is_broken())
            .finish_non_exhaustive()
    }
}
