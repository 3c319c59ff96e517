//! Permits on a server: leases, which expire if their holder dies.
//!
//! Flow: [`semaphore`] (the public type) -> [`state`] (the [queue](crate::queue) of a semaphore) ->
//! [`Lease`] -> [`group`] (what the semaphores of all keys share): [`drivers`] and [`renewals`] (the tasks that wait and
//! that renew leases) -> [`calls`] of the script -> [`batches`] of calls -> [`keys`](crate::keys).

mod batches;
mod boot_instant;
mod calls;
mod drivers;
mod group;
mod looks;
mod renewals;
mod semaphore;
mod state;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use self::boot_instant::BootInstant;
use self::renewals::Renewing;
use self::state::{Request, Shared};
use tokio_util::sync::CancellationToken;

pub use self::semaphore::{AcquireLease, Semaphore};
use crate::error::StoreError;
use crate::store::{Detached, StoreTime};
use crate::sync::{Mutex, lock};

// [`Lease`]: permits that are held until they are dropped, released, or lost.
//
// 1. A lease is held until a time by the clock of this process: one ttl after the last successful
//    grant or renewal was sent, less a margin. On the server it expires later: one ttl after that
//    call was executed. The clock [counts suspends](boot_instant) of the machine.
// 2. From that time on the lease is lost, regardless of later replies. Calls that check the lease
//    and the task that prolongs it read the clock under the same lock, so their answers never
//    contradict each other.

/// The margin as a fraction of the ttl, because timers are late, and clocks run at different
/// speeds.
const MARGIN: u32 = 16;

/// Permits of a [`Semaphore`]. The lease renews itself until it is dropped.
///
/// Dropping a lease returns the permits in the background; [`release`](Self::release) waits for
/// that. If the process ends at once, or the runtime of the store is gone, the permits are free
/// again when the [ttl](Semaphore::ttl) has passed.
///
/// A lease can be lost: the server considered its holder dead after a pause of this process,
/// another client removed it, or renewals failed for so long that the server may have granted the
/// permits to others. The clock of this process decides the last case. It counts from the moment
/// just before the last successful call was sent, so the holder notices the loss before the server
/// admits another one. Then its [`token`](Self::token) is cancelled. Work that must not be done
/// twice has to check the [`fencing`](Self::fencing) number as well, because a process can be
/// paused between any check and its next action.
///
/// # Examples
///
/// ```no_run
/// use tollgate_redis::{Semaphore, Store};
///
/// # async fn write(fencing: u64) {}
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Store::new("redis://127.0.0.1/")?;
/// let leader = Semaphore::new(&store, "{reports}:leader", 1);
/// let lease = leader.acquire().await?;
/// let work = write(lease.fencing());
/// if lease.token().run_until_cancelled(work).await.is_none() {
///     println!("another process may be the leader now");
/// }
/// lease.release().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a lease that is dropped is given back"]
pub struct Lease {
    held: Arc<Held>,
    /// The semaphore, and the number of the lease in it. `None` for a lease of no permits, and after a
    /// release.
    held_in: Option<(Arc<Shared>, u64)>,
}

/// The state that a lease and the task that renews it share.
#[derive(Default)]
struct Held {
    request: Request,
    fencing: u64,
    lost: CancellationToken,
    /// Held by the call that renews the lease.
    renewing: Arc<tokio::sync::Mutex<()>>,
    /// `None` for a lease of no permits, which never expires.
    until: Mutex<Option<BootInstant>>,
    /// Counts the lease in its group.
    _counted: Arc<()>,
}

impl Held {
    /// Returns the time at which the lease is over. Only for a lease of permits.
    fn until(&self) -> BootInstant {
        lock(&self.until).unwrap_or_else(BootInstant::now)
    }

    /// Prolongs the lease. Returns `false` if it has expired already.
    fn prolong(&self, later: BootInstant, time: &StoreTime) -> bool {
        let mut until = lock(&self.until);
        let is_held = until.is_some_and(|until| BootInstant::by(time) < until);
        if is_held {
            *until = Some(later);
        }
        is_held
    }
}

impl Lease {
    /// Creates a lease of no permits.
    fn empty() -> Self {
        Self {
            held: Arc::default(),
            held_in: None,
        }
    }

    /// Creates a lease that was granted by a call sent at `sent`.
    fn new(shared: &Arc<Shared>, request: Request, fencing: u64, sent: BootInstant) -> Self {
        let group = &shared.limit.group;
        let ttl = group.options.ttl;
        let until = sent + held_for(ttl);
        let held = Arc::new(Held {
            request,
            fencing,
            until: Mutex::new(Some(until)),
            _counted: Arc::clone(&group.held),
            ..Held::default()
        });
        let renewals = &shared.limit.renewals;
        let (number, is_first) = renewals.add(shared, Arc::clone(&held), sent, ttl);
        if is_first {
            let task = Renewing::new(group, renewals);
            drop(group.store.runtime().spawn(task.run()));
        }
        let held_in = Some((Arc::clone(shared), number));
        Self { held, held_in }
    }

    /// Ends the lease. Returns the call that returns the permits, unless they are lost or returned.
    fn end(&mut self) -> Option<Detached<()>> {
        let (shared, number) = self.held_in.take()?;
        if !shared.limit.renewals.remove(number) {
            return None;
        }
        let store = shared.store.clone();
        let given = give_back(shared, Arc::clone(&self.held));
        Some(store.detached(given).start())
    }

    /// Returns the fencing number: of two leases under a key, the later grant has the greater
    /// number. A resource can reject a number that is less than one it has seen.
    ///
    /// Numbers of different keys are not comparable: see [`Keyed`](crate::Keyed#semaphores).
    ///
    /// The number keeps rising after a loss of the server's data, because it is never less than the
    /// microsecond of the server's clock. A semaphore also sends the highest number that it and its clones have
    /// got, so it gets a greater one even from a server whose data and clock are behind, as after some failovers.
    /// A process that has got no number as high may still get a lower one from such a server, until the next
    /// request of one that has. Servers whose clocks are synchronized to less than the time of a failover avoid that.
    ///
    /// It stays the same while the lease is held. A lease of no permits has the number 0.
    pub fn fencing(&self) -> u64 {
        self.held.fencing
    }

    /// Returns the token that is cancelled when the lease is lost, and not when it is released. A
    /// task of the store's runtime cancels it, possibly late: on Linux within a second after a machine resumes that
    /// was suspended for longer than the lease lasts. [`is_lost`](Self::is_lost) is never late.
    pub fn token(&self) -> &CancellationToken {
        &self.held.lost
    }

    /// Returns whether the lease is lost, by the clock of this machine, without calling the server.
    /// A lost lease stays lost. On Linux and Android that clock counts the time for which the machine was suspended;
    /// elsewhere it is that of [`std::time::Instant`].
    pub fn is_lost(&self) -> bool {
        let Some((shared, _)) = &self.held_in else {
            return self.held.lost.is_cancelled();
        };
        let is_over = |until: BootInstant| BootInstant::by(shared.store.time()) >= until;
        self.held.lost.is_cancelled() || lock(&self.held.until).is_some_and(is_over)
    }

    /// Returns the number of permits of the lease.
    pub fn count(&self) -> u32 {
        self.held.request.n
    }

    /// Returns the id, which is the member in the sorted set on the server. The id of a lease of no
    /// permits is empty.
    pub fn id(&self) -> &str {
        &self.held.request.id
    }

    /// Returns the permits to the server, and waits for the reply. A lost lease has
    /// nothing to return.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the permits are returned in the background.
    ///
    /// # Errors
    ///
    /// The failure of the store. The release is retried in the background until the lease has
    /// expired, unless a key holds a value of another kind, or the script fails.
    pub async fn release(mut self) -> Result<(), StoreError> {
        match self.end() {
            Some(given) => given.await,
            None => Ok(()),
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        drop(self.end());
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("id", &self.id())
            .field("count", &self.count())
            .field("fencing", &self.fencing())
            .field("is_lost", &self.is_lost())
            .finish_non_exhaustive()
    }
}

/// Returns the permits of a lease, after a renewal that is under way.
async fn give_back(shared: Arc<Shared>, held: Arc<Held>) -> Result<(), StoreError> {
    let _renewing = held.renewing.lock().await;
    let ttl = shared.limit.group.options.ttl;
    shared
        .release_or_retry(vec![held.request.clone()], ttl)
        .await
}

fn held_for(ttl: Duration) -> Duration {
    ttl - ttl / MARGIN
}
