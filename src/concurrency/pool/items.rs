//! The items of a pool, and how many there are.
//!
//! A permit of the pool's semaphore is the right to an item. Invariants:
//!
//! 1. The limit of the semaphore changes only under the lock of the items. What that means to those
//!    who wait is settled after it, because wakers are foreign code.
//! 2. In a pool that cannot make items, `alive` is at least the limit: an item is there before its
//!    permit is, and goes after it. So whoever has a permit finds an item, whatever comes between.
//! 3. An item that comes back while `alive` is above the limit is dropped. An idle one is dropped only
//!    by a shrink that takes its free permit out of circulation: the others may be promised already.
//!
//! In a pool that can make items, whoever finds none makes one.
//!
//! No item is dropped in here, since that is foreign code: it goes out by value.

use std::collections::VecDeque;

/// The idle items, first-in first-out, and how many there are.
pub(super) struct Items<T> {
    idle: VecDeque<T>,
    /// Idle ones and those that permits hold.
    alive: usize,
    closed: bool,
}

impl<T> Items<T> {
    pub(super) fn new(idle: VecDeque<T>) -> Self {
        Self {
            alive: idle.len(),
            idle,
            closed: false,
        }
    }

    /// Takes an idle item. Only with a permit.
    #[inline]
    pub(super) fn take(&mut self) -> Option<T> {
        self.idle.pop_front()
    }

    /// Counts an item that was made for a permit.
    pub(super) fn made(&mut self) {
        self.alive += 1;
    }

    /// Takes an item back, before its permit; or gives it back to be dropped.
    #[inline]
    pub(super) fn put_back(&mut self, item: T, limit: usize) -> Option<T> {
        if self.closed || self.alive > limit {
            self.alive -= 1;
            return Some(item);
        }
        self.idle.push_back(item);
        None
    }

    /// Counts an item out that does not come back. `true`, if the limit is now above what is there.
    pub(super) fn lose(&mut self, limit: usize) -> bool {
        self.alive -= 1;
        self.alive < limit
    }

    /// Adds an item, before its permit; or gives it back to be dropped, once the pool is closed.
    pub(super) fn add(&mut self, item: T) -> Option<T> {
        if self.closed {
            return Some(item);
        }
        self.idle.push_back(item);
        self.alive += 1;
        None
    }

    /// Takes out idle items that are too many for a lowered limit, which took so many free permits
    /// out of circulation.
    pub(super) fn shrink(&mut self, limit: usize, free: usize) -> VecDeque<T> {
        let surplus = self.alive.saturating_sub(limit);
        let dropped = surplus.min(free).min(self.idle.len());
        self.alive -= dropped;
        self.idle.drain(..dropped).collect()
    }

    /// Keeps none from now on. Gives back those that were idle.
    pub(super) fn close(&mut self) -> VecDeque<T> {
        self.closed = true;
        self.alive -= self.idle.len();
        std::mem::take(&mut self.idle)
    }
}
