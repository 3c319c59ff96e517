//! [`Lease`]: permits that are held until they are dropped, given back, or lost.

use std::fmt;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::keeper::Held;
use crate::error::StoreError;

/// Permits of a [`Semaphore`](super::Semaphore), which renew themselves until they are dropped.
///
/// Dropping it gives the permits back, without waiting for that; [`release`](Self::release) waits.
/// If the process ends at once, or the runtime of the store is gone, they come back when the
/// [ttl](super::Semaphore::ttl) has passed.
///
/// A lease can be lost: the server took it for dead after a pause of this process, somebody removed
/// it, or it could not be renewed for so long that the server may have given the permits to others.
/// The last one is told by the clock of this process, from before the last successful call was
/// sent; so the holder knows before the server lets another one in. Then its
/// [`token`](Self::token) is cancelled. What must not be done twice has to check the
/// [`fencing`](Self::fencing) number all the same: a process can be paused between any check
/// and what it does next.
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
///     println!("somebody else may be the leader now");
/// }
/// lease.release().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a lease that is dropped is given back"]
pub struct Lease {
    held: Arc<Held>,
    /// What became of giving it back.
    released: oneshot::Receiver<Result<(), StoreError>>,
}

impl Lease {
    pub(super) fn new(
        held: Arc<Held>,
        released: oneshot::Receiver<Result<(), StoreError>>,
    ) -> Self {
        Self { held, released }
    }

    /// The fencing number: of two leases under a key, the one that was granted later has the
    /// greater one. What is written to can refuse a number that is less than one it has seen.
    ///
    /// It goes on rising when the server has lost its data, as it is never less than the
    /// microsecond of the server's clock. It stays the same as long as the lease is held. That of a
    /// lease of no permits is 0.
    pub fn fencing(&self) -> u64 {
        self.held.fencing()
    }

    /// Cancelled when the lease is lost, and not when it is given back. By a task of the store's
    /// runtime, which may be late; [`is_lost`](Self::is_lost) is not.
    pub fn token(&self) -> &CancellationToken {
        self.held.lost()
    }

    /// Whether the lease is lost, by the clock of this process, without asking the server. Once it
    /// is, it stays so.
    pub fn is_lost(&self) -> bool {
        self.held.is_lost()
    }

    /// How many permits it has.
    pub fn count(&self) -> u32 {
        self.held.count()
    }

    /// Its id, which is its member in the sorted set on the server. That of a lease of no permits is
    /// empty.
    pub fn id(&self) -> &str {
        self.held.id()
    }

    /// Gives the permits back, and waits for that. Of a lease that is lost, nothing is left to do.
    ///
    /// # Cancel safety
    ///
    /// Dropped on the way, they are given back without anybody waiting for it.
    ///
    /// # Errors
    ///
    /// How the store failed. It is tried again in the background, until the lease has expired; but
    /// not if a key holds something else, or the script fails.
    pub async fn release(mut self) -> Result<(), StoreError> {
        self.held.end();
        let released = (&mut self.released).await;
        // Gone without a word: the task was dropped with its runtime.
        released.unwrap_or(Err(StoreError::NoRuntime))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.held.end();
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
