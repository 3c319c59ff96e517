//! [`Store`]: a server or a cluster, and how calls to it are made.
//!
//! 1. Every call has a deadline, from before a connection is looked for until its answer is there.
//! 2. There is one connection, on which calls do not wait for each other. If it is lost, one
//!    task makes another one, whoever asks for it, and whether or not they still wait.
//! 3. The connection is given up when it is lost, and after some deadlines in a row have passed
//!    on it, since it may be half open.
//! 4. While the [breaker](breaker) is open nothing is sent.

mod breaker;
mod link;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redis::Value;
use tokio::runtime::Handle;

use self::breaker::Breaker;
use self::link::{Address, Link};
use crate::error::StoreError;
use crate::script::{Arguments, Script};

/// A Redis or Valkey server, or a cluster, that limits are kept on.
///
/// Cheap to clone. The connection is made when it is first needed, and made anew when it is lost.
/// One is enough for a process: calls are sent on one connection, and do not wait for each other.
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

/// By default.
const DEADLINE: Duration = Duration::from_millis(50);
const FAILURES: u32 = 5;
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

impl Store {
    /// The server at an address such as `redis://user:password@host:port/database`, or
    /// `rediss://` with the feature `tls`. Connects when it is first needed.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](StoreError::Misconfigured) if that is no address.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime: the connection lives on the one that this is called in.
    #[track_caller]
    pub fn new(address: &str) -> Result<Self, StoreError> {
        Ok(Self::to(Address::server(address)?))
    }

    /// A cluster, of which some nodes are at these addresses.
    ///
    /// All keys of a limit are in one slot: the part in braces, as in `{tenant}:requests`, says
    /// which. Needs the feature `cluster`.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](StoreError::Misconfigured) if there is no address, or one that is none.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime: the connection lives on the one that this is called in.
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

    fn change(mut self, change: impl FnOnce(&mut Shared)) -> Self {
        let shared =
            Arc::get_mut(&mut self.shared).expect("a store is set up before it is cloned or used");
        change(shared);
        self
    }

    /// How long a call may take, 50 milliseconds by default. What it asked for may have been
    /// charged all the same.
    ///
    /// # Panics
    ///
    /// If the store was cloned before, or a limit was made on it.
    pub fn deadline(self, deadline: Duration) -> Self {
        self.change(|shared| shared.deadline = deadline)
    }

    /// After how many failures in a row the store is left alone, 5 by default, and for how long: a
    /// time that is drawn between these two, 50 and 500 milliseconds by default. Then one call is
    /// made to see whether it is back.
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

    /// How many calls were made to the server by this process, those that failed too.
    pub fn calls(&self) -> u64 {
        self.shared.calls.load(Ordering::Relaxed)
    }

    /// Whether the store has failed several times and is left alone for a moment.
    pub fn is_broken(&self) -> bool {
        self.shared.breaker.is_open()
    }

    /// Whether keys are spread over slots, of which a script sees one.
    pub(crate) fn is_cluster(&self) -> bool {
        self.shared.link.is_cluster()
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.shared.runtime.spawn(task));
    }

    /// Calls a script, within the deadline.
    pub(crate) async fn call(
        &self,
        script: &Script,
        keys: &[&str],
        arguments: &Arguments,
    ) -> Result<Value, StoreError> {
        let shared = &*self.shared;
        if !shared.breaker.may_call(Instant::now()) {
            return Err(StoreError::BreakerOpen);
        }
        shared.calls.fetch_add(1, Ordering::Relaxed);
        let call = self.send(script, keys, arguments);
        let answer = match tokio::time::timeout(shared.deadline, call).await {
            Ok(answer) => answer,
            Err(_) => Err(shared.link.timed_out(TIMEOUTS)),
        };
        match &answer {
            Err(error) if error.is_outage() => shared.breaker.failed(Instant::now()),
            _ => {
                shared.link.answered();
                shared.breaker.succeeded();
            }
        }
        answer
    }

    async fn send(
        &self,
        script: &Script,
        keys: &[&str],
        arguments: &Arguments,
    ) -> Result<Value, StoreError> {
        let link = &self.shared.link;
        let mut connection = Link::connection(link, &self.shared.runtime).await?;
        let mut answer = connection.call(&script.by_digest(keys, arguments)).await;
        if answer.as_ref().is_err_and(Script::is_unknown) {
            answer = connection.call(&script.by_text(keys, arguments)).await;
        }
        answer.map_err(|error| {
            if error.is_unrecoverable_error() {
                link.lost(&connection);
            }
            StoreError::of(&error)
        })
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
