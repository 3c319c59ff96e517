//! [`Semaphore`]: a concurrency limit over all machines.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tollgate::wait::Waiting;
use tollgate::{AcquireError, Throttle};

use super::Lease;
use super::group::{Group, Options};
use super::looks::Looks;
use super::renewals::Renewals;
use super::state::{LeaseState, Leases, Shared, process};
use crate::error::StoreError;
use crate::keys;
use crate::queue::{LimitStatistics, Origin, Wait};
use crate::store::Store;

/// A semaphore that a server keeps under a name, for all processes that use that name.
///
/// Its permits are [leases](super::Lease): they are returned when they are dropped, and expire
/// after a [ttl](Self::ttl) when the process that holds them dies. The server decides, by its own
/// clock. The server tells a waiter when it may claim its lease, so a waiting process sends one request a
/// second, and a lease that somebody waited for costs three requests. A process sends one in up to five seconds if
/// more than a hundred tickets stand before its first one: it then notices as much later that a message to it, or
/// the data of the server, was lost.
///
/// A semaphore is cheap to clone, and clones are the same semaphore. Other semaphores with the same
/// name, in this process or another one, share only the name. They may have another number of
/// permits, which each call sends to the server, but must have the same ttl.
///
/// A semaphore has six [keys](crate#keys-on-the-server) in one slot of a cluster: that of the tag
/// in the braces of its name, or of the whole name. All semaphores on a server share one more key,
/// `tollgate:born`; in a cluster, there is one in each slot that is used.
///
/// # Order
///
/// First-in first-out over all processes. A waiter has a ticket on the server, and no call is
/// admitted before an older ticket, however few permits it requests. In a process, the first 64
/// waiters have tickets; the others stand behind them.
///
/// A process that is told to claim a lease has three of its round trips for that, at least 50 milliseconds and
/// at most a second; longer only if it polls for [many keys](crate::Keyed#semaphores). If it does not claim, or no message can reach it, all its waiters lose their places, and
/// the next process is served. So a process that was killed or stopped delays the others once. A process that
/// was only slow gets its places back with its next request. If the semaphores of several processes have
/// different numbers of permits, a waiter whose own number is too small is passed after it has stood in front
/// for a second, and keeps its ticket.
///
/// Messages come on the connection of the store. They need the third version of the protocol, the right
/// for the channel, and no cluster. Other processes poll the server ([`poll`](Self::poll)), in the same line;
/// [`Store::last_failure`] has the reason. All processes poll while one of them has an earlier version of this
/// crate.
///
/// # When the store fails
///
/// No more calls are admitted: a lease cannot be granted without the store, so there is no other
/// fallback. Waiters wait until the store is back, and keep their places and their timeouts; so give a waiter a
/// timeout. Also a missing right is an outage, because it may be granted later. Calls that do not wait
/// ([`try_acquire`](Self::try_acquire)) get the error, of the kind [`Store`](tollgate::ErrorKind::Store), or
/// `NoPermits` without a call behind a waiter that has a ticket; all
/// calls get it if it is a mistake ([`is_mistake`](StoreError::is_mistake)). A lease is lost when its ttl has
/// passed without a successful call, and its holder notices that.
///
/// A server that was stopped or overloaded executes calls whose callers have left. Such a call
/// grants nothing: each carries its deadline in the time of the server's clock, which the process
/// knows from earlier replies. If it is not known yet, or the clock was set forward, a call takes
/// one more round trip. If the clock was set back, calls of that moment may be executed late by as
/// much, until the next reply; a lease that nobody holds then expires after its ttl.
///
/// # When the store loses its data
///
/// After a restart without its data, or `FLUSHALL`, the server admits no new caller for a
/// [grace](Self::grace) time of one ttl. Meanwhile holders assert their leases again when they
/// renew them, with their fencing numbers; other leases have expired by the end. So the number of
/// permits is not exceeded.
///
/// The server detects that its data is new with a key that all semaphores share and that does not
/// expire. The first use of a key on a server that was used before is not delayed. The very first
/// use of a server, or in a cluster of each slot, is delayed, because it looks like a loss of all
/// data.
///
/// The loss of only some keys cannot be detected. So the server must not evict keys:
/// `maxmemory-policy noeviction`. After a failover to a replica that missed some writes, a lease
/// that the replica does not know is asserted again if there is room and no later lease was
/// granted; otherwise it is lost, and the holder notices that at the next renewal.
///
/// When the server's clock is set back, leases and tickets last as long as they would have. When it
/// is set forward, they expire early, and holders notice that at the next renewal; until then, at
/// most half of the ttl, only the fencing number shows which lease is valid.
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
/// // admitted for the first 5 seconds. `grace(Duration::ZERO)` turns that off.
/// let lease = exports.acquire().timeout(Duration::from_secs(60)).await?;
/// // At most four exports run at once, on all machines together.
/// println!("export {}", lease.fencing());
/// drop(lease);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Semaphore {
    shared: Arc<Shared>,
}

/// The default times.
const TTL: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(25);

/// The bounds of the configurable times. Timers are too coarse for shorter ones, and the sums of longer ones
/// might not be exact in a script.
const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3_600);

impl Semaphore {
    /// Creates the semaphore of this name, with `permits` permits over all processes. Makes no call.
    ///
    /// With 0 permits, all callers wait until the number is [raised](Self::set_permits). A number above 2^52
    /// counts as 2^52.
    pub fn new(store: &Store, name: impl Into<String>, permits: usize) -> Self {
        let options = Options {
            ttl: TTL,
            grace: None,
            poll: POLL,
            max_waiters: usize::MAX,
        };
        let keys = keys::Semaphore::new(&name.into(), store.is_cluster());
        let group = Group::new(store.clone(), options, false);
        Self::made(&group, Arc::default(), Arc::new(keys), permits)
    }

    fn made(
        group: &Arc<Group>,
        renewals: Arc<Renewals>,
        keys: Arc<keys::Semaphore>,
        permits: usize,
    ) -> Self {
        let state = LeaseState {
            permits,
            looks: Looks::new(group.round_trip()),
            ..LeaseState::default()
        };
        let limit = Leases {
            keys,
            process: process(),
            group: Arc::clone(group),
            renewals,
        };
        Self {
            shared: Arc::new(Shared::new(group.store.clone(), limit, state)),
        }
    }

    fn with(self, change: impl FnOnce(&mut Options)) -> Self {
        let Leases { keys, group, .. } = &self.shared.limit;
        let mut options = group.options;
        change(&mut options);
        let group = Group::new(group.store.clone(), options, group.has_keys);
        Self::made(&group, Arc::default(), Arc::clone(keys), self.permits())
    }

    /// Returns a semaphore with the same options and permits, whose keys share their calls and tasks.
    pub(crate) fn of_keys(&self) -> Self {
        let Leases { keys, group, .. } = &self.shared.limit;
        let group = Group::new(group.store.clone(), group.options, true);
        Self::made(&group, Arc::default(), Arc::clone(keys), self.permits())
    }

    /// Returns the semaphore of a key, if this one was [made for keys](Self::of_keys).
    pub(crate) fn of_key(&self, key: &str) -> Self {
        let Leases {
            keys,
            group,
            renewals,
            ..
        } = &self.shared.limit;
        let (renewals, keys) = (Arc::clone(renewals), Arc::new(keys.of_key(key)));
        Self::made(group, renewals, keys, self.permits())
    }

    #[cfg(test)]
    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Returns whether this is the only handle, and nothing is held, waited for, or known that another semaphore of the
    /// key would not learn from the server.
    pub(crate) fn is_at_rest(&self) -> bool {
        // Whoever waits, calls, holds or releases a lease has a reference to the state.
        Arc::strong_count(&self.shared) == 1 && self.shared.breaker.is_closed() && {
            let state = self.shared.state();
            !state.closed && state.queue.is_empty() && state.own.leaving.is_empty()
        }
    }

    /// Sets how long a lease lasts without renewal, 10 seconds by default. A lease is renewed when
    /// half of that has passed, with up to 117 other permits of this process in one call, so the
    /// [deadline](Store::deadline) of a call should be much shorter. All semaphores with the name must have the
    /// same ttl.
    ///
    /// # Panics
    ///
    /// Panics if it is shorter than 10 milliseconds, or longer than 365 days.
    #[must_use]
    #[track_caller]
    pub fn ttl(self, ttl: Duration) -> Self {
        assert!(
            (SHORTEST..=LONGEST).contains(&ttl),
            "a ttl of {ttl:?} is not between 10 milliseconds and 365 days"
        );
        self.with(|options| options.ttl = ttl)
    }

    /// Sets how long no new caller is admitted after the server has lost its data or was first
    /// used: one [ttl](Self::ttl) by default. With less, the number of permits may be exceeded
    /// then. With `Duration::ZERO`, the first use of a server is not delayed.
    ///
    /// # Panics
    ///
    /// Panics if it is longer than 365 days.
    #[must_use]
    #[track_caller]
    pub fn grace(self, grace: Duration) -> Self {
        assert!(
            grace <= LONGEST,
            "a grace time of {grace:?} is longer than 365 days"
        );
        self.with(|options| options.grace = Some(grace))
    }

    /// Sets the time between two polls of the server for waiters that get no messages from it, 25 milliseconds
    /// by default. Each time is drawn at random between this and twice this. A release in this process polls at
    /// once. A process that gets messages does not poll, but looks once a second, or less often far from the front.
    ///
    /// # Panics
    ///
    /// Panics if it is shorter than a millisecond, or longer than an hour.
    #[must_use]
    #[track_caller]
    pub fn poll(self, poll: Duration) -> Self {
        assert!(
            (Duration::from_millis(1)..=Duration::from_secs(3_600)).contains(&poll),
            "a poll interval of {poll:?} is not between a millisecond and an hour"
        );
        self.with(|options| options.poll = poll)
    }

    /// Sets how many calls may wait for this semaphore and its clones. A further call gets
    /// `QueueFull` at once. By default there is no bound.
    #[must_use]
    pub fn max_waiters(self, max_waiters: usize) -> Self {
        self.with(|options| options.max_waiters = max_waiters)
    }

    /// Acquires a permit, and waits for it in the [order](Self#order) of tickets over all
    /// processes.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped while it waits, its ticket is returned, and so is any lease that
    /// the server grants to it meanwhile.
    ///
    /// # Errors
    ///
    /// `Closed`; `QueueFull`; with a timeout `TimedOut`, at once if the
    /// [grace](Self::grace) time lasts longer; `Store` after a [mistake](StoreError::is_mistake). An
    /// outage of the store is no error: the call waits.
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
    ///     Err(refused) if refused.kind() == ErrorKind::TimedOut => println!("all permits are taken"),
    ///     Err(failed) => return Err(failed.into()),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire(&self) -> Waiting<AcquireLease> {
        self.acquire_many(1)
    }

    /// Acquires `n` permits together, in one lease, and waits for them. Later waiters wait as well
    /// until that many are free at once. With 0 the lease is granted at once, and holds no permits.
    ///
    /// # Cancel safety
    ///
    /// See [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// The errors of [`acquire`](Self::acquire); `ExceedsCapacity` if the semaphore has fewer
    /// permits, or `n` is more than 4096. While the semaphore has no permits at all, the call
    /// waits.
    pub fn acquire_many(&self, n: u32) -> Waiting<AcquireLease> {
        Waiting::new(AcquireLease::new(Wait::new(&self.shared, n.into(), false)))
    }

    /// Acquires a permit if one is free and no process waits for it. Calls the server once.
    ///
    /// # Cancel safety
    ///
    /// See [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// `NoPermits`, also during the [grace](Self::grace) time; `Store` if the store fails; otherwise the errors of
    /// [`acquire`](Self::acquire).
    pub fn try_acquire(&self) -> Waiting<AcquireLease> {
        self.try_acquire_many(1)
    }

    /// Acquires `n` permits in one lease if they are free and no process waits for them.
    ///
    /// # Cancel safety
    ///
    /// See [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// The errors of [`try_acquire`](Self::try_acquire); `ExceedsCapacity` if the semaphore has
    /// fewer permits, or `n` is more than 4096.
    pub fn try_acquire_many(&self, n: u32) -> Waiting<AcquireLease> {
        Waiting::new(AcquireLease::new(Wait::new(&self.shared, n.into(), true)))
    }

    /// Sets the number of permits, which this semaphore sends to the server with its next call.
    /// Leases stay held. With fewer permits no call is admitted until enough have been returned,
    /// and with 0, none at all.
    pub fn set_permits(&self, permits: usize) {
        self.shared.state().own.permits = permits;
        self.shared.look_now();
    }

    /// Returns the number of permits that this semaphore sends to the server. Other semaphores with its name
    /// may send other numbers.
    pub fn permits(&self) -> usize {
        self.shared.state().own.permits
    }

    /// Returns the number of free permits, whether or not there are waiters for them. During the
    /// [grace](Self::grace) time it is 0. Calls the server, so the number may be outdated.
    ///
    /// # Cancel safety
    ///
    /// The call changes no lease, so dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// The failure of the store.
    pub async fn available(&self) -> Result<usize, StoreError> {
        let free = self.shared.available().await?;
        Ok(usize::try_from(free).unwrap_or(usize::MAX))
    }

    /// Returns the [key](crate#keys-on-the-server) of the leases.
    pub fn key(&self) -> &str {
        self.shared.limit.keys.leases()
    }

    /// Returns the number of calls that wait for this semaphore and its clones.
    pub fn waiting(&self) -> usize {
        self.shared.state().queue.len()
    }

    /// Returns what this semaphore and its clones have done; that of a key, what those of all keys of its
    /// [`Keyed`](crate::Keyed) have done. A snapshot; with the feature `metrics`, `LimitStatistics::record` reports it.
    pub fn statistics(&self) -> LimitStatistics {
        self.shared.limit.group.counters.snapshot()
    }

    /// Closes this semaphore and its clones: every waiter and every later call gets `Closed`.
    /// Leases stay held, and other semaphores with the same name stay open.
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

/// The future of `acquire`, `try_acquire` and similar methods of a [`Semaphore`].
///
/// It joins the queue when it is first polled. It can be polled anywhere, also outside of the
/// store's runtime.
///
/// # Cancel safety
///
/// If the future is dropped while it waits, it leaves the queue, and its ticket is returned in the
/// background. If it is dropped during a call of the server, the permits that the reply grants are
/// returned.
///
/// # Errors
///
/// The errors of the method that created it. After an error of the store nothing stays on the
/// server, neither a ticket nor a possible grant, or it is removed as soon as the store is back.
///
/// # Panics
///
/// Panics if it is polled again after completion.
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
pub struct AcquireLease {
    wait: Wait<Leases>,
    /// Whether it is counted as waiting.
    is_waiting: bool,
}

impl AcquireLease {
    fn new(wait: Wait<Leases>) -> Self {
        Self {
            wait,
            is_waiting: false,
        }
    }
}

impl Future for AcquireLease {
    type Output = Result<Lease, AcquireError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { wait, is_waiting } = self.get_mut();
        let poll = wait.poll(context);
        let counters = &wait.limit().group.counters;
        counters.polled(is_waiting, &poll, |_| Origin::Alone);
        poll
    }
}

impl Drop for AcquireLease {
    fn drop(&mut self) {
        let Self { wait, is_waiting } = self;
        wait.limit().group.counters.dropped(is_waiting);
    }
}
