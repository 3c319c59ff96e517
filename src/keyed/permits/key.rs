//! What one does with one key of a semaphore.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use super::super::acquire::{Acquire, Begun, Enter, sealed::Sealed};
use super::super::handle::{Key, OwnedKey};
use crate::concurrency::{AcquireOwned, OwnedPermit, Semaphore};
use crate::error::AcquireError;
use crate::wait::Waiting;

macro_rules! verbs {
    ([$($generics:tt)*] $handle:ty, [$($bounds:tt)*]) => {
        /// Permits.
        ///
        /// As the methods of [`Semaphore`], for one key. While there is no room for it, as there
        /// are as many keys as there may be, all of them in use, those that would take a permit
        /// refuse with [`TooManyKeys`](crate::ErrorKind::TooManyKeys).
        ///
        /// A permit keeps its key, and not the map. One that is
        /// [forgotten](OwnedPermit::forget) lowers the limit of its key until that is dropped.
        impl<$($generics)*> $handle
        where
            $($bounds)*
        {
            /// Takes a permit of the key now, or not at all. See [`Semaphore::try_acquire`].
            ///
            /// # Errors
            ///
            /// As [`Semaphore::try_acquire`], and [`TooManyKeys`](crate::ErrorKind::TooManyKeys) if
            /// there is no room for another key.
            ///
            /// # Examples
            ///
            /// ```
            /// use tollgate::{ErrorKind, Keyed, Semaphore};
            ///
            /// let users = Keyed::<u64, Semaphore>::new(1);
            /// let permit = users.key(&7).try_acquire()?;
            /// let refused = users.key(&7).try_acquire().unwrap_err();
            /// assert_eq!(refused.kind(), ErrorKind::NoPermits);
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
                let semaphore = self.keyed.map.semaphore(self.key())?;
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
            /// As [`Semaphore::acquire`], and [`TooManyKeys`](crate::ErrorKind::TooManyKeys) if there
            /// is no room for another key.
            ///
            /// # Examples
            ///
            /// ```
            /// use tollgate::{Keyed, Semaphore};
            ///
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), tollgate::AcquireError> {
            /// let users = Keyed::<u64, Semaphore>::new(1);
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

            /// How many permits of the key are free. See [`Semaphore::available_permits`].
            pub fn available_permits(&self) -> usize {
                let map = &self.keyed.map;
                let available = map.look(self.key(), Semaphore::available_permits);
                available.unwrap_or_else(|| map.permits_of(self.key()))
            }

            /// How many wait for this key.
            pub fn waiting(&self) -> usize {
                let map = &self.keyed.map;
                map.look(self.key(), Semaphore::waiting).unwrap_or(0)
            }
        }

        impl<$($generics)*> Sealed for $handle {}

        impl<$($generics)*> Enter for $handle
        where
            $($bounds)*
        {
            type Permit = OwnedPermit;
            type Cost = u32;
            type Wait = AcquireOwned;

            #[inline]
            fn begin(&self, n: u32) -> Result<Begun<OwnedPermit, AcquireOwned>, AcquireError> {
                let semaphore = self.keyed.map.semaphore(self.key())?;
                Ok(Begun::Wait(semaphore.acquire_many_owned(n).into_inner()))
            }
        }
    };
}

verbs!(
    ['a, K, Q: ?Sized, S] Key<'a, K, Semaphore, Q, S>,
    [
        K: Hash + Eq + Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K>,
        S: BuildHasher + Default + Clone,
    ]
);

verbs!(
    [K, S] OwnedKey<K, Semaphore, S>,
    [K: Hash + Eq + Clone, S: BuildHasher + Default + Clone,]
);
