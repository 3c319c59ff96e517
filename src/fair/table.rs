//! [`Table`]: the classes that a queue remembers, by index and by key. Each is an [`Entry`], which
//! handles and permits use without the lock, and a [`ClassState`] under it, with the waiters of the class.
//!
//! The entry counts the held permits of its class, in one word above two flags.
//!
//! 1. `NOTICE` is set while the class has waiters. It is set and cleared under the lock of the
//!    queue. Meanwhile permits are granted only under the lock, and a caller that returns one takes the
//!    lock afterwards. The flag and the number share a word, so a release is either seen by a waiter
//!    that joins, or it sees the flag.
//! 2. `DETACHED` is set while the class is not in the table. It is set only while nothing is held and
//!    nobody waits, so a class in use is never forgotten.
//! 3. Without a flag, a permit is counted by one compare-exchange.
//! 4. A class leaves the table only when another one takes its index: of [`LOOKS`] classes that are not
//!    in use, the one that loses least by that.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;

use hashbrown::HashTable;

use super::class::Class;
use crate::error::{AcquireError, ErrorKind};
use crate::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::throttle::Throttle;
use crate::time::Tick;
use crate::wait::Waiting;

const NOTICE: u64 = 1;
const DETACHED: u64 = 2;
const FLAGS: u64 = NOTICE | DETACHED;
const ONE: u64 = 4;

/// The number of classes that are looked at to make room for a new one.
const LOOKS: usize = 64;

/// A class and the permits that it holds.
pub(super) struct Entry<K> {
    pub(super) key: K,
    pub(super) hash: u64,
    pub(super) class: Class,
    word: AtomicU64,
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
            index: AtomicUsize::new(0),
        }
    }

    /// Counts one more permit, unless the class has waiters, is at its maximum or is detached.
    #[inline]
    pub(super) fn try_hold(&self) -> bool {
        // Acquire pairs with the release of the previous holder of the class.
        let held = self
            .word
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |word| {
                let is_free = word & FLAGS == 0 && word / ONE < self.class.max_concurrency.into();
                is_free.then_some(word + ONE)
            });
        held.is_ok()
    }

    /// Counts one permit less. Returns whether the queue must be told.
    #[inline]
    pub(super) fn release(&self) -> bool {
        // Release pairs with the acquire of the next holder of the class.
        self.word.fetch_sub(ONE, Ordering::Release) & NOTICE != 0
    }

    /// Returns whether the class is not in the table.
    pub(super) fn is_detached(&self) -> bool {
        self.word.load(Ordering::Relaxed) & DETACHED != 0
    }

    /// Returns the number of held permits.
    pub(super) fn held(&self) -> u64 {
        self.word.load(Ordering::Acquire) / ONE
    }
}

/// Under the lock of the queue.
impl<K> Entry<K> {
    /// Counts one more permit of a class that has waiters.
    pub(super) fn hold(&self) {
        self.word.fetch_add(ONE, Ordering::Acquire);
    }

    /// Sets whether the class has waiters.
    pub(super) fn set_notice(&self, waiters: bool) {
        match waiters {
            true => self.word.fetch_or(NOTICE, Ordering::AcqRel),
            false => self.word.fetch_and(!NOTICE, Ordering::AcqRel),
        };
    }

    /// Returns the index of a class that is in the table.
    pub(super) fn index(&self) -> usize {
        self.index.load(Ordering::Relaxed)
    }

    fn attach(&self, index: usize) {
        self.index.store(index, Ordering::Relaxed);
        self.word.fetch_and(!DETACHED, Ordering::AcqRel);
    }

    /// Detaches the class if it holds nothing and has no waiters.
    fn try_detach(&self) -> bool {
        let detached = self
            .word
            .compare_exchange(0, DETACHED, Ordering::AcqRel, Ordering::Relaxed);
        detached.is_ok()
    }
}

pub(super) struct Table<T: Throttle, K> {
    pub(super) classes: Vec<ClassState<T, K>>,
    /// Indices into `classes`.
    by_key: HashTable<usize>,
    /// The class that is looked at next, to make room.
    hand: usize,
    /// How much the classes of each priority were served.
    pub(super) virtual_times: Box<[u128; 256]>,
}

/// A class in the table.
pub(super) struct ClassState<T: Throttle, K> {
    pub(super) entry: Arc<Entry<K>>,
    /// Its waiters by number, the oldest first.
    pub(super) waiters: BTreeMap<u64, Waiter<T>>,
    /// The virtual start time of the next grant.
    pub(super) start: u128,
}

/// A waiter that was not served.
pub(super) struct Waiter<T: Throttle> {
    pub(super) cost: u64,
    pub(super) enter: Enter<T>,
    /// The tick of the throttle at which it joined, if the throttle has ticks.
    pub(super) joined: Tick,
    /// The tick of the queue at which it joined.
    pub(super) since: Tick,
    pub(super) waker: Option<Waker>,
}

/// Enters a throttle for a cost, as of a tick of the throttle or as of now.
pub(super) type Enter<T> = fn(&T, u64, Option<Tick>) -> Waiting<<T as Throttle>::Enter>;

impl<T: Throttle, K: Eq> Table<T, K> {
    pub(super) fn new() -> Self {
        Self {
            classes: Vec::new(),
            by_key: HashTable::new(),
            hand: 0,
            virtual_times: Box::new([0; 256]),
        }
    }

    /// Returns the class of a key.
    pub(super) fn find(&self, hash: u64, key: &K) -> Option<&Arc<Entry<K>>> {
        let entry = |index: &usize| &self.classes[*index].entry;
        let is = |index: &usize| entry(index).hash == hash && entry(index).key == *key;
        self.by_key.find(hash, is).map(entry)
    }

    /// Adds a class that is not in the table. Returns the one that was forgotten for it, to be dropped
    /// after the lock.
    pub(super) fn add(
        &mut self,
        entry: &Arc<Entry<K>>,
        max_classes: usize,
    ) -> Result<Option<Arc<Entry<K>>>, AcquireError> {
        let state = ClassState {
            entry: Arc::clone(entry),
            waiters: BTreeMap::new(),
            start: 0,
        };
        let (mut index, mut forgotten) = (self.classes.len(), None);
        if index < max_classes {
            self.classes.push(state);
        } else {
            let full = AcquireError::new(ErrorKind::QueueFull);
            index = self.forget().ok_or(full)?;
            forgotten = Some(std::mem::replace(&mut self.classes[index], state).entry);
        }
        let hash = |index: &usize| self.classes[*index].entry.hash;
        self.by_key.insert_unique(entry.hash, index, hash);
        entry.attach(index);
        Ok(forgotten)
    }

    /// Detaches a class that is not in use, and returns its index.
    fn forget(&mut self) -> Option<usize> {
        let mut least: Option<(u128, usize)> = None;
        for _ in 0..LOOKS.min(self.classes.len()) {
            let (index, class) = (self.hand, &self.classes[self.hand]);
            self.hand = (index + 1) % self.classes.len();
            let virtual_time = self.virtual_times[usize::from(class.entry.class.priority)];
            let ahead = class.start.saturating_sub(virtual_time);
            if least.is_some_and(|least| least.0 <= ahead) || !class.entry.try_detach() {
                continue;
            }
            if let Some((_, kept)) = least.replace((ahead, index)) {
                self.classes[kept].entry.attach(kept);
            }
            if ahead == 0 {
                break;
            }
        }
        let (_, index) = least?;
        let hash = self.classes[index].entry.hash;
        let found = self.by_key.find_entry(hash, |other| *other == index);
        found.ok()?.remove();
        Some(index)
    }
}
