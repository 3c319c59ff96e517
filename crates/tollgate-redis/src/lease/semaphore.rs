//! [`Semaphore`]: at most so many at once, over all machines.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tollgate::{AcquireError, Throttle, Waiting};

use super::guard::Lease;
use super::keys::Keys;
use super::state::{LeaseState, Leases, Options, Shared};
use crate::error::StoreError;
use crate::queue::Wait;
use crate::store::Store;

/// A semaphore that a server keeps under a key, and that holds for everyone who uses that key.
///
/// Its permits are [leases](super::Lease): they come back when they are dropped, and also when the
/// process that holds them dies, after a [ttl](Self::ttl). The server decides, by its own clock.
/// Waiters ask again from time to time, all waiters of a process in one call.
///
/// A semaphore is cheap to clone, and clones are the same semaphore. Other semaphores with the same
/// key, in this process or another one, share nothing but the key. They may have another number of
/// permits, which each call sends to the server, but must have the same ttl.
///
/// A key that consists of this one and a suffix belongs to the semaphore as well; this key is its tag
/// if it has none in braces. All semaphores on a server share one more key, `tollgate:born`; in a
/// cluster, there is one in each slot that is used.
///
/// # Order
///
/// First-in first-out over all processes. A waiter has a ticket on the server, and nobody is admitted
/// before an older ticket, however few permits it asks for. In a process, the first 256 waiters have
/// tickets. The ticket of a process that died expires after 40 times the [poll](Self::poll) time. A
/// process that was only slow for so long keeps its place if nobody was admitted meanwhile.
///
/// # When the store fails
///
/// Nobody else is admitted: a lease cannot be granted without the store, so there is no other
/// fallback. Waiters get the error, of the kind [`Store`](tollgate::ErrorKind::Store), and may ask
/// again after the longest pause of the [breaker](crate::Store::breaker). A lease is lost when its ttl
/// has passed without a call that succeeded, and the holder knows.
///
/// # When the store loses its data
///
/// After a restart without its data, or `FLUSHALL`, no newcomer is admitted for a
/// [grace](Self::grace) time of one ttl. Meanwhile holders assert their leases again by renewing them,
/// with their fencing numbers; other leases have expired by the end. So the permits are not exceeded.
///
/// The server knows that its data is new by a key that all semaphores share and that does not expire.
/// The first use of a key on a server that was used before is not delayed. The very first use of a
/// server, or in a cluster of each slot, is delayed, because it looks like a loss of everything.
///
/// The loss of some keys and not of others cannot be noticed. So the server must not evict keys:
/// `maxmemory-policy noeviction`. After a failover to a replica that missed some writes, a lease that
/// the replica does not know is asserted again if there is room and no later lease was granted;
/// otherwise it is lost, and the holder knows when it renews it.
///
/// When the server's clock is set back, leases and tickets last as long as they would have. When it is
/// set forward, they expire early, and holders know when they renew them; until then, at most a third
/// of the ttl, only the fencing number shows who holds the lease.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
/// use tollgate_redis::{Semaphore, Store};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Store::new("redis://127.0.0.1/")?;
/// let exports = Semaphore::new(&store, "{tenant}:exports", 4).ttl(Duration::from_secs(5));
///
/// // A server that is used for the first time looks like one that has lost its data, so nobody is
/// // admitted for the first 5 seconds. `grace(Duration::ZERO)` does without.
/// let lease = exports.acquire().timeout(Duration::from_secs(60)).await?;
/// // At most four of these at once, on all machines.
/// println!("export {}", lease.fencing());
/// drop(lease);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Semaphore {
    shared: Arc<Shared>,
}

/// The defaults.
const TTL: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(25);

/// The bounds of the times that users choose. Timers are too coarse for shorter ones, and the sums of
/// longer ones might not be exact in a script.
const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3_600);

impl Semaphore {
    /// Creates a semaphore of so many permits over all processes, under a key that nothing else uses.
    /// Makes no call.
    ///
    /// With 0 permits, everybody waits until there are [some](Self::set_permits). More than 2^52
    /// count as 2^52.
    ///
    /// # Panics
    ///
    /// If the key is empty, or has a closing brace but no tag in braces, so that the keys beside it
    /// would be in another slot of a cluster.
    #[track_caller]
    pub fn new(store: &Store, key: impl Into<String>, permits: usize) -> Self {
        let options = Options {
            ttl: TTL,
            grace: None,
            poll: POLL,
            max_waiters: usize::MAX,
        };
        let keys = Keys::new(key.into(), store.is_cluster());
        Self::made(store.clone(), keys, permits, options)
    }

    fn made(store: Store, keys: Keys, permits: usize, options: Options) -> Self {
        let state = LeaseState {
            permits,
            ..LeaseState::default()
        };
        Self {
            shared: Arc::new(Shared::new(store, Leases { keys, options }, state)),
        }
    }

    fn with(self, change: impl FnOnce(&mut Options)) -> Self {
        let Leases { keys, mut options } = self.shared.limit.clone();
        change(&mut options);
        Self::made(self.shared.store.clone(), keys, self.permits(), options)
    }

    /// Sets how long a lease lasts that is not renewed, 10 seconds by default. A lease is renewed when a
    /// third of that has passed, so the [deadline](Store::deadline) of a call should be much shorter.
    /// All semaphores with the key must have the same ttl.
    ///
    /// # Panics
    ///
    /// If it is shorter than 10 milliseconds, or longer than 365 days.
    #[track_caller]
    pub fn ttl(self, ttl: Duration) -> Self {
        assert!(
            (SHORTEST..=LONGEST).contains(&ttl),
            "a ttl of {ttl:?} is not between 10 milliseconds and 365 days"
        );
        self.with(|options| options.ttl = ttl)
    }

    /// Sets how long no newcomer is admitted after the server has lost its data or was first used: one
    /// [ttl](Self::ttl) by default. With less, the permits may be exceeded then. With
    /// `Duration::ZERO`, the first use of a server is not delayed.
    ///
    /// # Panics
    ///
    /// If it is longer than 365 days.
    #[track_caller]
    pub fn grace(self, grace: Duration) -> Self {
        assert!(
            grace <= LONGEST,
            "a grace of {grace:?} is longer than 365 days"
        );
        self.with(|options| options.grace = Some(grace))
    }

    /// Sets the time until the server is asked again for waiters, 25 milliseconds by default. The time
    /// is drawn at random between this and twice as long. A release in this process asks at once.
    ///
    /// # Panics
    ///
    /// If it is shorter than a millisecond, or longer than an hour.
    #[track_caller]
    pub fn poll(self, poll: Duration) -> Self {
        assert!(
            (Duration::from_millis(1)..=Duration::from_secs(3_600)).contains(&poll),
            "a time between two polls of {poll:?} is not between a millisecond and an hour"
        );
        self.with(|options| options.poll = poll)
    }

    /// Sets how many calls may wait for this semaphore and its clones. Another one gets `QueueFull` at
    /// once. By default there is no bound.
    pub fn max_waiters(self, max_waiters: usize) -> Self {
        self.with(|options| options.max_waiters = max_waiters)
    }

    /// Acquires a permit, and waits for it in the [order](Self#order) of tickets over all processes.
    ///
    /// # Cancel safety
    ///
    /// Dropped while it waits, its ticket is given back, and so is a lease that it is granted
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// `Closed`; `QueueFull`; `Store` if the store fails; with a timeout `TimedOut`, at once if the
    /// [grace](Self::grace) lasts for longer.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use tollgate::ErrorKind;
    /// use tollgate_redis::{Semaphore, Store};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let store = Store::new("redis://127.0.0.1/")?;
    /// let exports = Semaphore::new(&store, "{acme}:exports", 4);
    /// match exports.acquire().timeout(Duration::from_secs(5)).await {
    ///     Ok(lease) => lease.release().await?,
    ///     Err(refused) if refused.kind() == ErrorKind::TimedOut => println!("all are taken"),
    ///     Err(failed) => return Err(failed.into()),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire(&self) -> Waiting<AcquireLease> {
        self.acquire_many(1)
    }

    /// Acquires `n` permits together, in one lease, and waits for them. Later waiters wait as well until
    /// there are so many at once. With 0 the lease is there at once, and holds nothing.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire); `ExceedsCapacity` if the semaphore has fewer permits, or `n` is
    /// more than 4096. While it has none at all, the call waits.
    pub fn acquire_many(&self, n: u32) -> Waiting<AcquireLease> {
        Waiting::new(AcquireLease(Wait::new(&self.shared, n.into(), false)))
    }

    /// Acquires a permit if one is free now that no process waits for. Asks the server once.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// `NoPermits`, also during the [grace](Self::grace); otherwise as [`acquire`](Self::acquire).
    pub fn try_acquire(&self) -> Waiting<AcquireLease> {
        self.try_acquire_many(1)
    }

    /// Acquires `n` permits in one lease if they are free now and no process waits for them.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire); `ExceedsCapacity` if the semaphore has fewer permits, or `n`
    /// is more than 4096.
    pub fn try_acquire_many(&self, n: u32) -> Waiting<AcquireLease> {
        Waiting::new(AcquireLease(Wait::new(&self.shared, n.into(), true)))
    }

    /// Sets the number of permits, which this semaphore sends to the server with its next call. Leases
    /// stay held. With fewer permits nobody is admitted until enough have come back, and with 0,
    /// nobody at all.
    pub fn set_permits(&self, permits: usize) {
        self.shared.state().own.permits = permits;
        self.shared.on_room();
    }

    /// Returns the number of permits that this semaphore sends to the server, whatever others send.
    pub fn permits(&self) -> usize {
        self.shared.state().own.permits
    }

    /// Returns how many permits are free, whether or not somebody waits for them. During the
    /// [grace](Self::grace) there are none. Asks the server, so the number may be outdated.
    ///
    /// # Cancel safety
    ///
    /// It changes no lease, and can be dropped.
    ///
    /// # Errors
    ///
    /// How the store failed.
    pub async fn available(&self) -> Result<usize, StoreError> {
        let free = self.shared.available().await?;
        Ok(usize::try_from(free).unwrap_or(usize::MAX))
    }

    /// Returns the key.
    pub fn key(&self) -> &str {
        self.shared.limit.keys.key()
    }

    /// Returns how many calls wait for this semaphore and its clones.
    pub fn waiting(&self) -> usize {
        self.shared.state().queue.len()
    }

    /// Closes this semaphore and its clones: every waiter and every later call gets `Closed`. Leases
    /// stay held, and other semaphores with the same key stay open.
    pub fn close(&self) {
        self.shared.close();
    }

    /// Returns whether the semaphore was [closed](Self::close).
    pub fn is_closed(&self) -> bool {
        self.shared.state().closed
    }
}

impl Throttle for Semaphore {
    type Permit = Lease;
    type Enter = AcquireLease;

    fn enter(&self) -> Waiting<AcquireLease> {
        self.acquire()
    }
}

/// The future of `acquire`, `try_acquire` and their like of a [`Semaphore`].
///
/// It joins the queue when it is first polled. It can be polled anywhere, also outside of the store's
/// runtime.
///
/// # Cancel safety
///
/// Dropped while it waits, it leaves the queue, and its ticket is given back in the background.
/// Dropped while the server is being asked, it gives back what it is granted when the reply is there.
///
/// # Errors
///
/// Those of the method that made it. After an error of the store nothing is left on the server, or it
/// goes as soon as the store is back: neither a ticket, nor what was perhaps granted.
///
/// # Panics
///
/// If it is polled again after it was ready.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
/// use tollgate_redis::{Semaphore, Store};
/// use tokio_util::sync::CancellationToken;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let store = Store::new("redis://127.0.0.1/")?;
/// let (exports, shutdown) = (Semaphore::new(&store, "exports", 4), CancellationToken::new());
/// let lease = exports
///     .acquire_many(2)
///     .timeout(Duration::from_secs(5))
///     .cancel_on(&shutdown)
///     .await?;
/// assert_eq!(lease.count(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct AcquireLease(Wait<Leases>);

impl Future for AcquireLease {
    type Output = Result<Lease, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(context)
    }
}
