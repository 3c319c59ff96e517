//! The methods of one key of a semaphore.

use std::sync::Arc;

use super::super::acquire::{Acquire, Begun, Enter, sealed::Sealed};
use super::super::contents::Contents;
use super::super::handle::{Address, Handle};
use crate::concurrency::{AcquireOwned, OwnedPermit, Semaphore};
use crate::error::AcquireError;
use crate::wait::Waiting;

/// One key of a map of semaphores, with the methods of [`Semaphore`].
///
/// While the map is full and no key that a new key looks at is idle, the methods that would take a
/// permit of a key that is not kept fail with [`TooManyKeys`](crate::ErrorKind::TooManyKeys).
///
/// A permit keeps its key, and not the map. What is done to the [semaphore of a
/// permit](OwnedPermit::semaphore), such as closing it, concerns its key alone, and lasts until the
/// key is dropped, which may be as soon as it is not in use. So does a permit that is
/// [forgotten](OwnedPermit::forget).
impl<A: Address<Semaphore>> Handle<Semaphore, A> {
    /// Takes a permit of the key now, or none. See [`Semaphore::try_acquire`].
    ///
    /// # Errors
    ///
    /// As [`Semaphore::try_acquire`], and [`TooManyKeys`](crate::ErrorKind::TooManyKeys) if there is
    /// no room for another key.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{ErrorKind, Keyed};
    ///
    /// let users = Keyed::<u64, _>::semaphores(1);
    /// let permit = users.key(&7).try_acquire()?;
    /// let rejected = users.key(&7).try_acquire().unwrap_err();
    /// assert_eq!(rejected.kind(), ErrorKind::NoPermits);
    /// drop(permit);
    /// assert!(users.key(&7).try_acquire().is_ok());
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline]
    pub fn try_acquire(&self) -> Result<OwnedPermit, AcquireError> {
        self.try_acquire_many(1)
    }

    /// Takes `n` permits of the key now, or none.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
    #[inline]
    pub fn try_acquire_many(&self, n: u32) -> Result<OwnedPermit, AcquireError> {
        let semaphore = self.semaphore()?;
        semaphore.try_acquire_many_owned(n)
    }

    /// Waits for a permit of the key. See [`Semaphore::acquire`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing, see [`Keyed`](crate::Keyed#cancel-safety).
    ///
    /// # Errors
    ///
    /// As [`Semaphore::acquire`], and [`TooManyKeys`](crate::ErrorKind::TooManyKeys) if there is no
    /// room for another key.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::Keyed;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let users = Keyed::<u64, _>::semaphores(1);
    /// let permit = users.key(&7).acquire().await?;
    /// assert_eq!(users.key(&7).available_permits(), 0);
    /// # drop(permit);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn acquire(&self) -> Waiting<Acquire<Self>> {
        self.acquire_many(1)
    }

    /// Waits for `n` permits of the key, to be had all at once or not at all.
    ///
    /// # Cancel safety, errors
    ///
    /// As [`acquire`](Self::acquire).
    #[inline]
    pub fn acquire_many(&self, n: u32) -> Waiting<Acquire<Self>> {
        Waiting::new(Acquire::new(self.clone(), n))
    }

    /// Returns how many permits of the key are free. See [`Semaphore::available_permits`].
    pub fn available_permits(&self) -> usize {
        match self.present() {
            Some(semaphore) => semaphore.available_permits(),
            None => {
                let permits = &self.address.keyed().map().contents;
                permits.permits(permits.ask(&self.address.query().to_owned()))
            }
        }
    }

    /// Returns how many callers wait for this key.
    pub fn waiting(&self) -> usize {
        self.present().map_or(0, |semaphore| semaphore.waiting())
    }

    /// The semaphore of the key, which is made if it is not there.
    fn semaphore(&self) -> Result<Arc<Semaphore>, AcquireError> {
        let map = self.address.keyed().map();
        map.with_entry(
            self.address.query(),
            map.contents.now(),
            |()| None,
            |held| Arc::clone(&held.slot.semaphore),
        )
    }

    /// The semaphore of the key, if there is one.
    fn present(&self) -> Option<Arc<Semaphore>> {
        let (map, key) = (self.address.keyed().map(), self.address.query());
        let hash = map.hash(key);
        let mut shard = map.lock(hash);
        let held = shard.find(hash, key)?;
        Some(Arc::clone(&held.slot.semaphore))
    }
}

impl<A: Address<Semaphore>> Sealed for Handle<Semaphore, A> {}

impl<A: Address<Semaphore>> Enter for Handle<Semaphore, A> {
    type Permit = OwnedPermit;
    type Cost = u32;
    type Wait = AcquireOwned;

    #[inline]
    fn begin(&self, n: u32) -> Result<Begun<OwnedPermit, AcquireOwned>, AcquireError> {
        let semaphore = self.semaphore()?;
        Ok(Begun::Wait(semaphore.acquire_many_owned(n).into_inner()))
    }
}
