//! [`Table`]: the classes by index and by key.
//!
//! A class in use is in the table. A class leaves it only when another one takes its index: of
//! [`LOOKS`] classes that are not in use, the one that loses least by that.

use std::sync::Arc;

use hashbrown::HashTable;

use super::entry::Entry;
use super::virtual_time::Tags;
use super::waiters::{List, WaiterId};
use crate::error::{AcquireError, ErrorKind};

/// The number of classes that are looked at to make room for a new one.
const LOOKS: usize = 64;

pub(super) struct Table<K> {
    pub(super) classes: Vec<ClassState<K>>,
    /// Indices into `classes`.
    by_key: HashTable<usize>,
    /// The class that is looked at next, to make room or to refuse all waiters.
    hand: usize,
}

/// A class in the table.
pub(super) struct ClassState<K> {
    pub(super) entry: Arc<Entry<K>>,
    pub(super) list: List,
    pub(super) tags: Tags,
}

/// What the table made of an entry.
pub(super) struct Attached<K> {
    /// The entry that has its key, if that is another one.
    pub(super) other: Option<Arc<Entry<K>>>,
    /// The entry that was forgotten for it, to be dropped after the lock.
    pub(super) forgotten: Option<Arc<Entry<K>>>,
}

impl<K: Eq> Table<K> {
    pub(super) const fn new() -> Self {
        Self {
            classes: Vec::new(),
            by_key: HashTable::new(),
            hand: 0,
        }
    }

    /// Returns the class of a key.
    pub(super) fn find(&self, hash: u64, key: &K) -> Option<&Arc<Entry<K>>> {
        let entry = |index: &usize| &self.classes[*index].entry;
        let is = |index: &usize| entry(index).hash == hash && entry(index).key == *key;
        self.by_key.find(hash, is).map(entry)
    }

    /// Adds an entry, unless it or another one with its key is there. `ahead` says what a class loses
    /// when it is forgotten for it.
    pub(super) fn attach(
        &mut self,
        entry: &Arc<Entry<K>>,
        max_classes: usize,
        ahead: impl Fn(&ClassState<K>) -> u128,
    ) -> Result<Attached<K>, AcquireError> {
        let (mut other, mut forgotten) = (None, None);
        if entry.index().is_none() {
            other = self.find(entry.hash, &entry.key).cloned();
        }
        if entry.index().is_some() || other.is_some() {
            return Ok(Attached { other, forgotten });
        }
        let state = ClassState {
            entry: Arc::clone(entry),
            list: List::new(),
            tags: Tags::default(),
        };
        let mut index = self.classes.len();
        if index < max_classes {
            self.classes.push(state);
        } else {
            let full = AcquireError::new(ErrorKind::QueueFull);
            index = self.forget(ahead).ok_or(full)?;
            forgotten = Some(std::mem::replace(&mut self.classes[index], state).entry);
        }
        let hash = |index: &usize| self.classes[*index].entry.hash;
        self.by_key.insert_unique(entry.hash, index, hash);
        entry.attach(index);
        Ok(Attached { other, forgotten })
    }

    /// Detaches a class that is not in use, and returns its index.
    fn forget(&mut self, ahead: impl Fn(&ClassState<K>) -> u128) -> Option<usize> {
        let mut least: Option<(u128, usize)> = None;
        for _ in 0..LOOKS.min(self.classes.len()) {
            let (index, class) = (self.hand, &self.classes[self.hand]);
            self.hand = (index + 1) % self.classes.len();
            let ahead = ahead(class);
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

    /// Returns the oldest waiter of a class that has waiters, of the same one as long as it has any.
    pub(super) fn any_waiter(&mut self) -> Option<WaiterId> {
        for _ in 0..self.classes.len() {
            if let Some(oldest) = self.classes[self.hand].list.oldest() {
                return Some(oldest);
            }
            self.hand = (self.hand + 1) % self.classes.len();
        }
        None
    }
}
