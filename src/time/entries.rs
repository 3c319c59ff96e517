//! The entries of a timer: wakers, ordered by the ticks at which they are due.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use super::tick::Tick;

/// The key of an entry: its due tick, and a number that orders the entries that are due at one tick
/// by their creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) due: Tick,
    number: u64,
}

impl Key {
    pub(super) fn new(due: Tick) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { due, number }
    }
}

/// Entries, the earliest first. A timer keeps them under a lock, and releases it before it calls
/// and drops the wakers that it has taken out.
pub(super) type Queue = BTreeMap<Key, Waker>;

/// Removes the earliest entry if it is due. The last tick never comes.
pub(super) fn pop_due(queue: &mut Queue, now: Tick) -> Option<(Tick, Waker)> {
    let first = queue.first_entry()?;
    let due = first.key().due;
    due.has_come(now).then(|| (due, first.remove()))
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
            let key = Key::new(tick(millis));
            assert!(queue.insert(key, Waker::noop().clone()).is_none());
        }
        let mut due = Vec::new();
        while let Some((at, _)) = pop_due(&mut queue, tick(15)) {
            due.push(at);
        }
        assert_eq!(due, [tick(5), tick(5), tick(10), tick(15)]);
        assert_eq!(
            queue.first_key_value().map(|(first, _)| first.due),
            Some(tick(16))
        );
        assert_eq!(queue.len(), 1);
    }
}
