//! Wakers in the order in which they are due. It has no lock and no clock: a timer keeps it under a lock,
//! and calls and drops the wakers that it takes out after the lock.

use std::collections::BTreeMap;
use std::task::Waker;

use super::tick::Tick;

/// The key of an entry: when it is due, and a number of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) due: Tick,
    number: u64,
}

/// Entries, the earliest first; of entries due at one tick, the one first that was set first.
pub(super) struct Queue {
    entries: BTreeMap<Key, Waker>,
    next: u64,
}

impl Queue {
    pub(super) const fn new() -> Self {
        Self {
            entries: BTreeMap::new(),
            next: 0,
        }
    }

    /// Makes a key for an entry that is yet to be [inserted](Self::insert).
    pub(super) fn key(&mut self, due: Tick) -> Key {
        let number = self.next;
        self.next += 1;
        Key { due, number }
    }

    /// Inserts an entry, and returns the waker that it had.
    pub(super) fn insert(&mut self, key: Key, waker: Waker) -> Option<Waker> {
        self.entries.insert(key, waker)
    }

    /// Returns whether an entry is there and wakes the same task.
    pub(super) fn will_wake(&self, key: Key, waker: &Waker) -> bool {
        let there = self.entries.get(&key);
        there.is_some_and(|there| there.will_wake(waker))
    }

    /// Removes an entry.
    pub(super) fn remove(&mut self, key: Key) -> Option<Waker> {
        self.entries.remove(&key)
    }

    /// Returns the earliest entry.
    pub(super) fn first(&self) -> Option<Key> {
        self.entries.first_key_value().map(|(first, _)| *first)
    }

    /// Removes the earliest entry if it is due. The last tick never comes.
    pub(super) fn pop_due(&mut self, now: Tick) -> Option<(Tick, Waker)> {
        let first = self.entries.first_entry()?;
        let due = first.key().due;
        (due <= now && !due.is_never()).then(|| (due, first.remove()))
    }

    /// Removes all entries.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Waker> + use<> {
        std::mem::take(&mut self.entries).into_values()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn tick(millis: u64) -> Tick {
        Tick::after_epoch(Duration::from_millis(millis))
    }

    #[test]
    fn pop_due_returns_entries_in_the_order_of_their_ticks() {
        let mut queue = Queue::new();
        for millis in [15, 5, 16, 10, 5] {
            let key = queue.key(tick(millis));
            assert!(queue.insert(key, Waker::noop().clone()).is_none());
        }
        let mut due = Vec::new();
        while let Some((at, _)) = queue.pop_due(tick(15)) {
            due.push(at);
        }
        assert_eq!(due, [tick(5), tick(5), tick(10), tick(15)]);
        assert_eq!(queue.first().map(|first| first.due), Some(tick(16)));
        assert_eq!(queue.take_all().count(), 1);
    }
}
