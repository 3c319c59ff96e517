//! [`TokenCache`]: the tokens that this process holds, which callers take without a lock.
//!
//! 1. The cache is a number of tokens. They have no identities: only how many are in use matters.
//! 2. Callers take tokens with a compare-exchange. Everything else is done by one thread at a time, under the lock
//!    of the queue.
//! 3. Callers take tokens until the cache closes, which is when the oldest of them expire. While there are
//!    waiters that time is 0: only the queue is served, so no later caller overtakes it.
//! 4. A caller learns the time at which the cache would have closed. The tokens that it got do not expire earlier,
//!    because the time is read before they are taken.

use crate::sync::{AtomicBool, AtomicU64, Ordering, fence};

pub(crate) struct TokenCache {
    count: AtomicU64,
    /// When the cache closes, in nanoseconds.
    closes: AtomicU64,
    /// Whether the driver was notified that the cache is low.
    notified: AtomicBool,
    /// The cache is low when no more than this many tokens are left.
    low: u64,
}

/// Tokens that were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) left: u64,
    /// When the cache would have closed, in nanoseconds.
    pub(crate) closes: u64,
    /// Whether the caller has to notify the driver that the cache is low.
    pub(crate) notify: bool,
}

impl TokenCache {
    pub(crate) fn new(low: u64) -> Self {
        Self {
            count: AtomicU64::new(0),
            closes: AtomicU64::new(0),
            notified: AtomicBool::new(false),
            low,
        }
    }

    /// Takes `n` tokens, if the cache has that many and is open.
    #[inline]
    pub(crate) fn take(&self, n: u64, now: impl FnOnce() -> u64) -> Option<Taken> {
        // Without tokens, the time is not needed.
        if self.count() < n {
            return None;
        }
        let closes = self.closes.load(Ordering::Acquire);
        if now() >= closes {
            return None;
        }
        self.take_until(closes, n)
    }

    /// Takes `n` tokens, if the cache has that many, whether or not it is open. They expire at that time or later.
    #[inline]
    pub(crate) fn take_until(&self, closes: u64, n: u64) -> Option<Taken> {
        let left = self.change(|count| count.checked_sub(n))? - n;
        let notify = left <= self.low && {
            // Either the driver sees that the cache is low, or this call sees that it has to
            // notify.
            fence(Ordering::SeqCst);
            !self.notified.swap(true, Ordering::Relaxed)
        };
        Some(Taken {
            left,
            closes,
            notify,
        })
    }

    /// Changes the number of tokens, and returns the number before that.
    #[inline]
    fn change(&self, change: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        let (acquire, release) = (Ordering::Acquire, Ordering::AcqRel);
        self.count.fetch_update(release, acquire, change).ok()
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }
}

/// Operations under the lock of the queue.
impl TokenCache {
    /// Sets when the cache closes, in nanoseconds; 0 closes it now.
    pub(crate) fn open_until(&self, closes: u64) {
        self.closes.store(closes, Ordering::Release);
    }

    /// Puts in `n` tokens, unless there would be more than `most`.
    pub(crate) fn put(&self, n: u64, most: u64) -> bool {
        let more = |count: u64| count.checked_add(n).filter(|count| *count <= most);
        self.change(more).is_some()
    }

    /// Takes out the tokens beyond `most`, and returns how many they are.
    pub(crate) fn reduce(&self, most: u64) -> u64 {
        let before = self.change(|count| Some(count.min(most)));
        before.map_or(0, |count| count.saturating_sub(most))
    }

    /// Returns whether the cache is low. If it is not, the caller that makes it low notifies the
    /// driver.
    pub(crate) fn is_low(&self) -> bool {
        self.notified.store(false, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.count() <= self.low
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use super::*;

    fn cache() -> TokenCache {
        let cache = TokenCache::new(2);
        cache.open_until(100);
        cache
    }

    #[test]
    fn take_of_a_closed_cache_returns_none() {
        let cache = cache();
        cache.put(10, u64::MAX);
        assert_eq!(cache.take(1, || 99).map(|taken| taken.closes), Some(100));
        assert!(cache.take(1, || 100).is_none());
        cache.open_until(0);
        assert!(cache.take(1, || 0).is_none());
        assert_eq!(cache.take_until(7, 1).map(|taken| taken.closes), Some(7));
        cache.open_until(100);
        assert!(cache.take(1, || 0).is_some());
    }

    #[test]
    fn take_of_a_low_cache_notifies_once() {
        let cache = cache();
        cache.put(5, 5);
        let notifies = |n| cache.take(n, || 0).is_some_and(|taken| taken.notify);
        assert_eq!([2, 1, 1].map(notifies), [false, true, false]);
        assert!(cache.is_low());
        assert!(notifies(1));
    }

    #[test]
    fn put_and_reduce_keep_a_maximum() {
        let cache = cache();
        assert!(cache.put(5, 5) && !cache.put(1, 5) && !cache.put(u64::MAX, u64::MAX));
        assert_eq!(
            [cache.reduce(7), cache.reduce(3), cache.reduce(3)],
            [0, 2, 0]
        );
        assert_eq!(cache.count(), 3);
    }
}
