//! [`Store`]: a server or a cluster, and how calls to it are made.
//!
//! 1. Every call has a deadline, from before a connection is looked for until its answer is there.
//! 2. There is one connection, on which calls do not wait for each other. If it is lost, one
//!    task makes another one, whoever asks for it, and whether or not they still wait.
//! 3. The connection is given up when it is lost, and after some deadlines in a row have passed
//!    on it, since it may be half open.
//! 4. While the [breaker](breaker) is open nothing is sent. Of a cluster each slot has its own.
//! 5. What was not sent is told from what may have been executed.
//! 6. A [call](call) works outside of the runtime too, and is counted also if its caller leaves.

mod breaker;
mod call;
mod check;
mod link;
#[cfg(feature = "cluster")]
mod nodes;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redis::Value;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use self::breaker::Breaker;
pub(crate) use self::call::Call;
use self::call::{Progress, Request, Stage};
pub use self::check::Warning;
use self::link::{Address, Link};
use crate::carried::{Carried, is_inside};
use crate::error::StoreError;
use crate::script::{Arguments, Script};

/// A Redis or Valkey server, or a cluster, that limits are kept on.
///
/// Cheap to clone. The connection is made when it is first needed, and made anew when it is lost.
/// One is enough for a process: calls are sent on one connection, and do not wait for each other. Server 6.2 or later.
///
/// It is set up before it is cloned or a limit is made on it; afterwards nothing of it changes.
///
/// # Runtime
///
/// The connection lives on the tokio runtime in which the store is made, which needs its timers and
/// input and output, and is to be driven as long as the store is used. Limits of the store can be
/// waited for anywhere, also outside of every runtime and in those of others; there, a call is a
/// task of the store's runtime. When that is gone, every call ends with
/// [`NoRuntime`](StoreError::NoRuntime).
///
/// # Cancel safety
///
/// A call whose caller gives up before it is sent is not sent. One that was sent is listened to
/// until its [deadline](Self::deadline) all the same, so that the [breaker](Self::breaker) opens,
/// and a connection on which nothing is heard is made anew, also if no caller waits for as long.
/// What becomes of what such a call charged, each limit says.
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
    deadline: Duration,
    runtime: Handle,
    calls: AtomicU64,
}

/// How many deadlines may pass in a row before the connection is made anew.
const TIMEOUTS: u32 = 3;

/// How long to wait at most until a key that is being moved is asked for again.
const MOVING: Duration = Duration::from_millis(5);

/// By default.
const DEADLINE: Duration = Duration::from_millis(50);
const FAILURES: u32 = 5;
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

impl Store {
    /// The server at an address such as `redis://user:password@host:port/database`, or
    /// `rediss://` with the feature `tls`.
    ///
    /// Makes no call: it connects when it is first needed, for which it takes 2 seconds at most.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](StoreError::Misconfigured) if that is no address.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime: the connection lives on the one that this is called in.
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
    /// // Nobody has to be there yet.
    /// assert!(Store::new("redis://127.0.0.1:1/").is_ok());
    /// # }
    /// ```
    #[track_caller]
    pub fn new(address: &str) -> Result<Self, StoreError> {
        Ok(Self::to(Address::server(address)?))
    }

    /// A cluster, of which some nodes are at these addresses.
    ///
    /// All keys of a limit are in one slot: the part in braces, as in `{tenant}:requests`, says
    /// which. Needs the feature `cluster`.
    ///
    /// Redirections are followed within the deadline, also while a slot moves from one node to
    /// another; no call is executed twice. A node that fails is left alone for its slots only: the
    /// [breaker](Self::breaker) counts for each slot.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](StoreError::Misconfigured) if there is no address, or one that is none.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime: the connection lives on the one that this is called in.
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
        Ok(Self::to(Address::cluster(addresses)?))
    }

    #[track_caller]
    fn to(address: Address) -> Self {
        Self {
            shared: Arc::new(Shared {
                link: Arc::new(Link::new(address)),
                breaker: Breaker::new(FAILURES, SHORTEST_PAUSE, LONGEST_PAUSE),
                deadline: DEADLINE,
                runtime: Handle::current(),
                calls: AtomicU64::new(0),
            }),
        }
    }

    #[track_caller]
    fn change(mut self, change: impl FnOnce(&mut Shared)) -> Self {
        let shared =
            Arc::get_mut(&mut self.shared).expect("a store is set up before it is cloned or used");
        change(shared);
        self
    }

    /// How long a call may take, 50 milliseconds by default: from when it is made until its answer
    /// is there, also if there is no connection yet.
    ///
    /// What it asked for may have been charged all the same, as
    /// [`is_perhaps_charged`](StoreError::is_perhaps_charged) says. After three calls in a row that
    /// were sent and took longer, the connection is made anew.
    ///
    /// # Panics
    ///
    /// If the store was cloned before, or a limit was made on it.
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
    #[track_caller]
    pub fn deadline(self, deadline: Duration) -> Self {
        self.change(|shared| shared.deadline = deadline)
    }

    /// After how many failures in a row the store is left alone, 5 by default, and for how long: a
    /// time that is drawn between these two, 50 and 500 milliseconds by default.
    ///
    /// Until then every call ends at once with [`BreakerOpen`](StoreError::BreakerOpen). Then one
    /// call is let through, to see whether the store is back. If it is answered, so are all; if it
    /// fails, or is heard nothing of for as long again, it goes on so. What counts as a failure is
    /// that the store cannot be used, such as a timeout, and not that it refuses one call. Of a
    /// cluster each slot has its own count.
    ///
    /// A time of more than a year is one of a year.
    ///
    /// # Panics
    ///
    /// If `failures` is 0, or the longest time is shorter than the shortest; if the store was
    /// cloned before, or a limit was made on it.
    #[track_caller]
    pub fn breaker(self, failures: u32, shortest: Duration, longest: Duration) -> Self {
        assert!(failures > 0, "a breaker cannot open after 0 failures");
        assert!(
            shortest <= longest,
            "the longest pause of {longest:?} is shorter than the shortest of {shortest:?}"
        );
        self.change(|shared| shared.breaker = Breaker::new(failures, shortest, longest))
    }

    /// How many calls were made by way of this store and its clones, those that failed too, and not
    /// those that the [breaker](Self::breaker) kept back. A script that the server did not know
    /// is one call, though two trips.
    pub fn calls(&self) -> u64 {
        self.shared.calls.load(Ordering::Relaxed)
    }

    /// Whether the store, or any slot of a cluster, has failed so often in a row that its
    /// [breaker](Self::breaker) opened, and has answered no call since.
    ///
    /// It stays so when the pause is over, and while a call is let through to see whether the store
    /// is back: until a call is answered, whatever the answer is. So it does not say that the next
    /// call is refused, but that the store is not known to be back; and if no calls are made it
    /// stays. [`Debug`](fmt::Debug) shows the same.
    pub fn is_broken(&self) -> bool {
        self.shared.breaker.is_open()
    }

    /// Whether keys are spread over slots, of which a script sees one.
    pub(crate) fn is_cluster(&self) -> bool {
        self.shared.link.is_cluster()
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.shared.runtime
    }

    /// Whether this is called in the runtime that the connection lives on.
    pub(crate) fn is_inside(&self) -> bool {
        is_inside(&self.shared.runtime)
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.shared.runtime.spawn(task));
    }

    /// When a key is to be asked for again after its store has failed: when its breaker lets that
    /// happen, and none if that is at any time.
    pub(crate) fn again(&self, key: &str) -> Option<Instant> {
        let shared = &*self.shared;
        shared.breaker.until(shared.link.part(key))
    }

    /// Has something asked by whoever waits for it, and to the end if they do not.
    pub(crate) fn carry<T: Send + 'static, E: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Carried<T, E> {
        Carried::new(&self.shared.runtime, future)
    }

    /// Sleeps on the runtime, wherever this is polled.
    pub(crate) async fn sleep(&self, time: Duration) -> Result<(), StoreError> {
        // Dropped, it ends its task.
        let mut slept = JoinSet::new();
        let sleep = async move { tokio::time::sleep(time).await };
        slept.spawn_on(sleep, &self.shared.runtime);
        match slept.join_next().await {
            Some(Ok(())) => Ok(()),
            _ => Err(StoreError::NoRuntime),
        }
    }

    /// Calls a script, within the deadline.
    pub(crate) fn call(
        &self,
        script: &'static Script,
        keys: &[&str],
        arguments: &Arguments,
    ) -> Call {
        let part = keys.first().map_or(0, |key| self.shared.link.part(key));
        let by_digest = script.by_digest(keys, arguments);
        self.request(Request::Script { script, by_digest }, part)
    }

    /// Asks something of a part, within the deadline.
    fn request(&self, request: Request, part: u16) -> Call {
        let this = self.clone();
        Call::new(&self.shared.runtime, move |progress| {
            this.requested(request, part, progress)
        })
    }

    async fn requested(
        self,
        request: Request,
        part: u16,
        mut progress: Progress,
    ) -> Result<Value, StoreError> {
        let shared = &*self.shared;
        if !shared.breaker.may_call(part, Instant::now()) {
            return Err(StoreError::BreakerOpen);
        }
        shared.calls.fetch_add(1, Ordering::Relaxed);
        let send = self.send(&request, &mut progress);
        let answer = match tokio::time::timeout(shared.deadline, send).await {
            Ok(Some(answer)) => answer,
            // Nobody hears of it, and nothing was heard of the store.
            Ok(None) => return Err(StoreError::Unavailable),
            Err(_) => Err(match progress.stage {
                Stage::Unsent(error) => error,
                Stage::Sent(number) => {
                    shared.link.timed_out(number, TIMEOUTS, &shared.runtime);
                    StoreError::Timeout
                }
            }),
        };
        match &answer {
            Err(error) if error.is_outage() => shared.breaker.failed(part, Instant::now()),
            _ => {
                shared.link.answered();
                shared.breaker.succeeded(part);
            }
        }
        answer
    }

    /// As often as it takes, if no node has its key for now. None if nobody waited for it any more
    /// before it was sent.
    async fn send(
        &self,
        request: &Request,
        progress: &mut Progress,
    ) -> Option<Result<Value, StoreError>> {
        let link = &self.shared.link;
        let mut connection = match Link::connection(link, &self.shared.runtime).await {
            Ok(connection) => connection,
            Err(error) => return Some(Err(error)),
        };
        if !progress.is_wanted() {
            return None;
        }
        loop {
            let error = match request.send(&mut connection, progress).await {
                Ok(answer) => return Some(Ok(answer)),
                Err(error) => error,
            };
            let failed = StoreError::of(&error);
            if failed == StoreError::TryAgain {
                // Every node that was asked refused it.
                progress.stage = Stage::Unsent(failed);
                tokio::time::sleep(MOVING.mul_f64(fastrand::f64())).await;
                if progress.is_wanted() {
                    continue;
                }
            }
            // Whoever became a replica may have had its address taken over by another one.
            if error.is_unrecoverable_error() || failed == StoreError::ReadOnly {
                link.lost(&connection);
            }
            return Some(Err(failed));
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
