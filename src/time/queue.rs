//! Wakers in the order in which they are due. No lock and no clock: a timer keeps one under its
//! lock, and calls and drops what it takes out of it after the lock.

use std::collections::BTreeMap;
use std::task::Waker;

use super::tick::Tick;

/// An alarm that was set: when it is due, and a number of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) due: Tick,
    number: u64,
}

/// Alarms, the earliest first; of those due at the same tick, the one first that was set first.
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

    /// Makes a key for an alarm that is yet to be [inserted](Self::insert).
    pub(super) fn key(&mut self, due: Tick) -> Key {
        let number = self.next;
        self.next += 1;
        Key { due, number }
    }

    /// Puts an alarm in, and gives back the waker that it had.
    pub(super) fn insert(&mut self, key: Key, waker: Waker) -> Option<Waker> {
        self.entries.insert(key, waker)
    }

    /// Whether an alarm is there and wakes the same.
    pub(super) fn will_wake(&self, key: Key, waker: &Waker) -> bool {
        let there = self.entries.get(&key);
        there.is_some_and(|there| there.will_wake(waker))
    }

    /// Takes an alarm out.
    pub(super) fn remove(&mut self, key: Key) -> Option<Waker> {
        self.entries.remove(&key)
    }

    /// The earliest alarm.
    pub(super) fn first(&self) -> Option<Key> {
        self.entries.first_key_value().map(|(first, _)| *first)
    }

    /// Takes out the earliest alarm, if it is due. One that is never due is not.
    pub(super) fn pop_due(&mut self, now: Tick) -> Option<(Tick, Waker)> {
        let first = self.entries.first_entry()?;
        let due = first.key().due;
        (due <= now && !due.is_never()).then(|| (due, first.remove()))
    }

    /// Takes out everything.
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
    fn what_is_due_is_taken_in_the_order_of_its_ticks() {
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
