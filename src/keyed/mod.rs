//! The same limit for every key: [`Keyed`], its handles and futures.
//!
//! What one usually needs is in the crate's root as well.

mod acquire;
mod at_cap;
mod bucket;
mod chunked;
mod handle;
mod hashing;
mod map;
mod permits;
mod rates;
mod table;
#[cfg(test)]
mod tests;
mod touched;

use std::fmt;
use std::sync::Arc;

pub use self::acquire::{Acquire, Enter};
pub use self::at_cap::AtCap;
pub use self::handle::{Key, OwnedKey};
pub use self::hashing::{KeyHasher, KeyHashing};
use self::permits::Permits;
use self::rates::Rates;
use crate::concurrency::Semaphore;
use crate::const_panic::panic_with;
use crate::rate::RateLimiter;

/// How many keys there may be, unless that is chosen.
const DEFAULT_KEYS: usize = 100_000;

/// The same limit for each of many keys, such as users or addresses: `T` is a [`RateLimiter`] or a
/// [`Semaphore`].
///
/// [`key`](Self::key) gives a handle to one key, which has the methods that a limiter or a semaphore
/// has. A key need not be known before; one that has never been used, or owes nothing any more, has
/// its whole burst or all its permits.
///
/// # Fairness
///
/// Each key has a line of its own, first-in first-out, as the [`RateLimiter`](RateLimiter#fairness)
/// and the [`Semaphore`](Semaphore#fairness) have. Keys do not wait for each other.
///
/// # Memory
///
/// No more than `max_keys` keys are kept. A key that has fully recovered (nothing is owed; no permit
/// is out and nobody waits) is dropped when there is no room for another one, and, of those that a
/// new key happens to look at, also if it has been so for a minute (for a semaphore, at once). If
/// there is none, rates do [what was chosen](Keyed::at_cap), and semaphores refuse the new key.
///
/// Memory for keys is taken piece by piece as they come, each piece for 224 of them, and what there
/// may be of it follows from `max_keys`, here `n`, and the number of shards, `s`:
///
/// ```text
/// s * ((n / s + 5 * sqrt(n / s) + 4) / 0.95 * bucket / 7 + 1000)   bytes
/// ```
///
/// where a bucket is seven times the key and 8 bytes, with their padding, and 16 bytes, rounded up to
/// 64: 128 for a `u64`, 256 for a `String`. There are 16 shards, or four for each hardware thread,
/// rounded up to a power of two, if that is more, but so few that there are 64 keys for each. For
/// 100,000 keys that is 2.1 MB, or 4.1 MB for a `String`. Beyond that there are
///
/// - what the keys themselves have on the heap;
/// - with [`quotas`](Keyed::quotas), 42 bytes for each key that may be kept; with [`AtCap::Fold`],
///   one byte;
/// - for a semaphore some 250 bytes for each key that is kept;
/// - for a rate some 2,000 bytes for each key whose caller has to wait, has [reserved](Key::reserve), or
///   has given back another charge than the last, until all that it was charged is paid off and
///   that is found out: by a call for the key, or by those that may wait or bring a new key, each of
///   which looks at a few others; [`shrink`](Keyed::shrink) looks at all.
///
/// Nothing is ever hashed anew to make room, so no call takes longer than others for that: none
/// looks at more than eight entries, whatever the number of keys, but for those that say that they go
/// through all keys.
///
/// There may be no room for a key though there are fewer than there may be: if the shards are filled
/// so unevenly that one of them is full, which happens to less than one map in a million that is
/// filled to its last place, or if three other keys are too much like it, which happens to one new
/// key in 10^11. Then it is refused, whatever was chosen.
///
/// # Locks
///
/// A call locks one shard of the keys for some steps. Under it the `Eq` of the key is called, and
/// `Borrow`, and when all keys are gone through also `Clone`: these must not use the same map, or they
/// wait for themselves. Keys and wakers are dropped, wakers called and quotas asked for where no
/// lock is held.
///
/// # Cancel safety
///
/// As with the [`RateLimiter`](RateLimiter#cancel-safety) and the
/// [`Semaphore`](Semaphore#cancel-safety): dropping a waiting future loses nothing. A key is not
/// dropped while somebody waits for it, or for as long as it is owed something by that.
///
/// # Making one
///
/// There is a `new` for rates and one for permits, so the type has to be named where it is made:
/// `Keyed::<String, RateLimiter>::new(quota)`. It can be made in a `static`, with a cap on the keys.
/// What is handed to [`key`](Self::key) is what a key is made from, by `ToOwned`: a `&str` for a
/// `String`, and the key itself for one that is [`Clone`], such as an `Arc<str>`.
///
/// # Examples
///
/// ```
/// use tollgate::{Clock, ErrorKind, Keyed, Quota, RateLimiter};
///
/// let users = Keyed::<String, RateLimiter>::new(Quota::per_second(10).burst(2))
///     .clock(Clock::manual());
///
/// users.key("ann").try_acquire()?;
/// users.key("ann").try_acquire()?;
/// let refused = users.key("ann").try_acquire().unwrap_err();
/// assert_eq!(refused.kind(), ErrorKind::RateLimited);
/// // Each has its own.
/// users.key("bob").try_acquire()?;
/// # Ok::<_, tollgate::AcquireError>(())
/// ```
///
/// A user, a team and everyone: narrow scopes first.
///
/// ```
/// use tollgate::{Keyed, Quota, RateLimiter, Semaphore, all};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate::AcquireError> {
/// let users = Keyed::<u64, Semaphore>::new(4);
/// let teams = Keyed::<String, RateLimiter>::new(Quota::per_second(100).burst(10));
/// let everyone = RateLimiter::new(Quota::per_second(1000).burst(50));
///
/// let (user, team) = (7, "blue");
/// let (slot, _, _) = all((users.key(&user), teams.key(team), &everyone)).acquire().await?;
/// assert_eq!(users.key(&user).available_permits(), 3);
/// # drop(slot);
/// # Ok(())
/// # }
/// ```
pub struct Keyed<K, T: Kind, S = KeyHashing> {
    map: T::Map<K, S>,
}

/// What there can be for each key: a [`RateLimiter`] or a [`Semaphore`].
///
/// Sealed: it is implemented here alone.
pub trait Kind: acquire::sealed::Sealed {
    /// All keys.
    #[doc(hidden)]
    type Map<K, S>;
}

impl acquire::sealed::Sealed for RateLimiter {}
impl acquire::sealed::Sealed for Semaphore {}

impl Kind for RateLimiter {
    type Map<K, S> = Rates<K, S>;
}

impl Kind for Semaphore {
    type Map<K, S> = Permits<K, S>;
}

impl<K, T: Kind, S> Keyed<K, T, S> {
    /// A handle to one key, which may be borrowed: for keys that are `String`s, a `&str`.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Keyed, Quota, RateLimiter};
    ///
    /// let users = Keyed::<String, RateLimiter>::new(Quota::per_second(10));
    /// let ann = users.key("ann");
    /// assert!(ann.try_acquire().is_ok());
    /// assert_eq!(users.key(&String::from("ann")).available(), 0);
    /// ```
    #[inline]
    pub fn key<'a, Q: ?Sized>(&'a self, key: &'a Q) -> Key<'a, K, T, Q, S>
    where
        K: std::borrow::Borrow<Q>,
    {
        Key { keyed: self, key }
    }

    /// A handle to one key that shares the map, and so may move into a task, a stream or a service.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{Keyed, Semaphore};
    ///
    /// let users = Arc::new(Keyed::<u64, Semaphore>::new(1));
    /// let handle = Arc::clone(&users).key_owned(7);
    /// let permit = std::thread::spawn(move || handle.try_acquire()).join().unwrap()?;
    /// assert_eq!(users.key(&7).available_permits(), 0);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline]
    pub fn key_owned(self: Arc<Self>, key: K) -> OwnedKey<K, T, S> {
        OwnedKey { keyed: self, key }
    }
}

/// # Panics
///
/// If there cannot be so many.
#[track_caller]
const fn checked_keys(max_keys: usize) -> usize {
    if max_keys == 0 || max_keys as u64 > 1 << 32 {
        panic_with("there cannot be at most ", max_keys, " keys, but 1 to 2^32");
    }
    max_keys
}

impl<K, T: Kind, S> fmt::Debug for Keyed<K, T, S>
where
    T::Map<K, S>: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.map.fmt(f)
    }
}
