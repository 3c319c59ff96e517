//! [`Entry`]: a class of a queue. Handles and permits use it without the lock.
//!
//! It counts the held permits of its class in the lower half of a word, below two flags.
//!
//! 1. `NOTICE` is set while the class has waiters. It is set and cleared under the lock of the
//!    queue. While it is set, permits are granted only under the lock, and a caller that returns
//!    one takes the lock afterwards. The flag and the number share a word, so either a joining
//!    waiter sees the release, or the release sees the flag.
//! 2. `DETACHED` is set while the class is not in the table. It is set only while nothing is held and
//!    nobody waits, so a class in use is never forgotten.
//! 3. Without a flag, one compare-exchange counts a permit. A word with a flag is above every maximum, so one
//!    comparison checks all of them.

use super::class::Class;
use crate::sync::{AtomicU64, AtomicUsize, Ordering};

const NOTICE: u64 = 1 << 63;
const DETACHED: u64 = 1 << 62;

/// A class and the permits that it holds.
pub(super) struct Entry<K> {
    pub(super) key: K,
    pub(super) hash: u64,
    pub(super) class: Class,
    word: AtomicU64,
    /// The word of a class that holds its maximum.
    full: u64,
    /// The index of the class in the table while it is there, for readers with the lock.
    index: AtomicUsize,
}

impl<K> Entry<K> {
    /// Creates the entry of a class that is not in the table yet.
    pub(super) fn new(key: K, hash: u64, class: Class) -> Self {
        Self {
            key,
            hash,
            class,
            word: AtomicU64::new(DETACHED),
            full: class.max_concurrency.into(),
            index: AtomicUsize::new(0),
        }
    }

    /// Counts one more permit, unless the class has waiters, is at its maximum or is detached.
    #[inline]
    pub(super) fn try_hold(&self) -> bool {
        let one_more = |word| (word < self.full).then_some(word + 1);
        // Acquire pairs with the release of the previous holder of the class.
        self.word
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, one_more)
            .is_ok()
    }

    /// Counts one permit less. Returns whether the queue must be notified.
    #[inline]
    pub(super) fn release(&self) -> bool {
        // Release pairs with the acquire of the next holder of the class.
        // `NOTICE` is the highest bit.
        self.word.fetch_sub(1, Ordering::Release) >= NOTICE
    }

    /// Returns whether the class is not in the table.
    pub(super) fn is_detached(&self) -> bool {
        self.word.load(Ordering::Relaxed) & DETACHED != 0
    }

    /// Returns the number of held permits.
    pub(super) fn held(&self) -> u64 {
        u64::from(self.word.load(Ordering::Acquire) as u32)
    }
}

/// Methods under the lock of the queue.
impl<K> Entry<K> {
    /// Counts one more permit of a class that has waiters.
    pub(super) fn hold(&self) {
        self.word.fetch_add(1, Ordering::Acquire);
    }

    /// Sets whether the class has waiters.
    pub(super) fn set_notice(&self, waiters: bool) {
        if waiters {
            self.word.fetch_or(NOTICE, Ordering::AcqRel)
        } else {
            self.word.fetch_and(!NOTICE, Ordering::AcqRel)
        };
    }

    /// Returns the index of a class that is in the table.
    pub(super) fn index(&self) -> usize {
        self.index.load(Ordering::Relaxed)
    }

    /// Attaches the class, at this index of the table.
    pub(super) fn attach(&self, index: usize) {
        self.index.store(index, Ordering::Relaxed);
        self.word.fetch_and(!DETACHED, Ordering::AcqRel);
    }

    /// Detaches the class if it holds nothing and has no waiters.
    pub(super) fn try_detach(&self) -> bool {
        self.word
            .compare_exchange(0, DETACHED, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }
}
