//! [`Semaphore`]: at most so many at once, over all machines.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tollgate::Waiting;

use super::acquire::AcquireLease;
use super::core::{Core, Options};
use super::keys::Keys;
use crate::error::StoreError;
use crate::store::Store;

/// A semaphore that is kept on a server, under a key, and so holds for all who use that key.
///
/// What it gives are [leases](super::Lease): permits that come back when they are dropped, and also
/// when the process that holds them dies, after a [ttl](Self::ttl). The server decides, by its own
/// clock. Who waits asks again from time to time, all of a process in one call.
///
/// Cheap to clone; clones are the same semaphore. Others of the same key, in this process or another
/// one, share nothing but the key; they may have another number of permits, which each call tells
/// the server, but must have the same ttl.
///
/// A key that ends in a suffix to this one, with the key as its tag if it has none, belongs to it as
/// well. Of all semaphores on a server there is one key more, `tollgate:born`; in a cluster, one
/// in each slot that is used.
///
/// # Order
///
/// First-in first-out, over all processes: who waits has a ticket on the server, and nobody is
/// admitted before those with an older one, however few permits it asks for. Of a process the first
/// 256 have tickets. The ticket of a process that died expires after 40 times the
/// [time between two polls](Self::poll); the place of one that was only slow for so long is kept, if
/// nobody was admitted meanwhile.
///
/// # When the store fails
///
/// Nobody is admitted who was not before: a lease cannot be granted without the store, so there is
/// no other fallback. Who waits gets the error, of the kind [`Store`](tollgate::ErrorKind::Store), and
/// may ask again after the longest pause of the [breaker](crate::Store::breaker). Leases that are held stay so, until their ttl has
/// passed without one call that succeeded; then they are lost, and the holder knows.
///
/// # When the store loses its data
///
/// After a restart without its data, or `FLUSHALL`, nobody new is admitted for a
/// [grace](Self::grace) of one ttl. Meanwhile those who hold a lease assert it again by renewing
/// it, with its fencing number; the others have expired. So the permits are not exceeded.
///
/// That the data is new is told by a key that all semaphores share and that does not expire. A key
/// that is used for the first time on a server that was used before is not delayed; the very first
/// use of a server, or in a cluster of each slot, is, as it looks like a loss of all.
///
/// What cannot be told is the loss of some keys and not of others. So the server must not evict
/// keys: `maxmemory-policy noeviction`. After a failover to a replica that missed some writes, a
/// lease that it does not know is asserted again if there is room and no later one was granted;
/// otherwise it is lost, and the holder knows when it renews it.
///
/// When the server's clock is set back, leases and tickets last as long as they would have. When
/// it is set forward, they expire early, and holders know when they renew them; until then, at most
/// a third of the ttl, only the fencing number tells who holds.
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
/// // On a server that is used for the first time nobody is admitted for the first 5 seconds: it
/// // looks like one that has lost its data. `grace(Duration::ZERO)` does without.
/// let lease = exports.acquire().timeout(Duration::from_secs(60)).await?;
/// // At most four of these at once, on all machines.
/// println!("export {}", lease.fencing());
/// drop(lease);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Semaphore {
    core: Arc<Core>,
}

/// By default.
const TTL: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(25);

/// The bounds of all times that are chosen: below, timers are too coarse; above, a script that adds
/// some of them might not count exactly.
const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3_600);

impl Semaphore {
    /// A semaphore under a key, which nothing else may use, of so many permits over all processes.
    /// Makes no call.
    ///
    /// With none, everybody waits until there are [some](Self::set_permits). More than 2^52 are as
    /// many.
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
        Self {
            core: Arc::new(Core::new(store.clone(), keys, permits, options)),
        }
    }

    fn with(self, change: impl FnOnce(&mut Options)) -> Self {
        let core = &self.core;
        let mut options = core.options;
        change(&mut options);
        let (store, keys) = (core.store.clone(), core.keys.clone());
        Self {
            core: Arc::new(Core::new(store, keys, self.permits(), options)),
        }
    }

    /// How long a lease lasts that is not renewed, 10 seconds by default. It is renewed when a
    /// third of that has passed, so the [deadline](Store::deadline) of a call should be much
    /// shorter. All who use the key must have the same one.
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

    /// How long nobody new is admitted after the server has lost its data, or was first used: one
    /// [ttl](Self::ttl) by default. With less, the permits may be exceeded then, as with
    /// `Duration::ZERO`, by which the first use of a server is not delayed either.
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

    /// How long it takes until the server is asked again for those who wait: a time that is drawn
    /// between this and twice as long; this is 25 milliseconds by default. What is given back in
    /// this process is asked for at once.
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

    /// How many may wait in this process, of this semaphore and its clones; who comes then gets
    /// `QueueFull` at once. By default as many as come.
    pub fn max_waiters(self, max_waiters: usize) -> Self {
        self.with(|options| options.max_waiters = max_waiters)
    }

    /// Waits for a permit.
    ///
    /// In the [order](Self#order) of tickets over all processes. It joins the line when it is first
    /// polled.
    ///
    /// # Cancel safety
    ///
    /// As [`AcquireLease`]: dropped while it waits, its ticket is given back, and so is a lease that
    /// it is granted meanwhile.
    ///
    /// # Errors
    ///
    /// `Closed`; `QueueFull`; `Store` if the store fails; inside a [`Timeout`](tollgate::Timeout)
    /// `TimedOut`, at once if the [grace](Self::grace) lasts for longer.
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

    /// Waits for so many permits together, in one lease. Nobody goes before it who came later, so
    /// those behind wait as well, until there are so many at once. With 0 it has a lease at once,
    /// which holds nothing.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire); `ExceedsCapacity` if there are not so many, or it is more than
    /// 4096. While there are none at all, it waits.
    pub fn acquire_many(&self, n: u32) -> Waiting<AcquireLease> {
        Waiting::new(AcquireLease::new(Arc::clone(&self.core), n, false))
    }

    /// A permit, if one is free now that nobody waits for, in any process. Asks the server once.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// `NoPermits`, also during the [grace](Self::grace); otherwise as [`acquire`](Self::acquire).
    pub fn try_acquire(&self) -> AcquireLease {
        self.try_acquire_many(1)
    }

    /// So many permits in one lease, if they are free now and nobody waits for them.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire); `ExceedsCapacity` if there are not so many, or it is
    /// more than 4096.
    pub fn try_acquire_many(&self, n: u32) -> AcquireLease {
        AcquireLease::new(Arc::clone(&self.core), n, true)
    }

    /// Goes on with another number of permits, which this semaphore tells the server with its next
    /// call. Leases that are held stay so; with fewer permits nobody is admitted until enough have
    /// come back, and with none, nobody at all.
    pub fn set_permits(&self, permits: usize) {
        self.core.state().permits = permits;
        self.core.stir();
    }

    /// The number of permits that this semaphore tells the server, whatever others tell it.
    pub fn permits(&self) -> usize {
        self.core.state().permits
    }

    /// How many permits are free, whether or not somebody waits for them. During the
    /// [grace](Self::grace), none. Asks the server: by the time of its answer there may be others.
    ///
    /// # Cancel safety
    ///
    /// It changes no lease, and can be dropped.
    ///
    /// # Errors
    ///
    /// How the store failed.
    pub async fn available(&self) -> Result<usize, StoreError> {
        let free = self.core.available().await?;
        Ok(usize::try_from(free).unwrap_or(usize::MAX))
    }

    /// The key.
    pub fn key(&self) -> &str {
        self.core.keys.key()
    }

    /// How many wait in this process, of this semaphore and its clones.
    pub fn waiting(&self) -> usize {
        self.core.state().line.waiters.len()
    }

    /// Admits nobody any more, of this semaphore and its clones: who waits and who comes gets
    /// `Closed`, and tickets are given back. Leases stay, and others of the same key as they are.
    pub fn close(&self) {
        self.core.state().closed = true;
        self.core.stirred.notify_one();
    }

    /// Whether it was [closed](Self::close).
    pub fn is_closed(&self) -> bool {
        self.core.state().closed
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("key", &self.key())
            .field("permits", &self.permits())
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}
