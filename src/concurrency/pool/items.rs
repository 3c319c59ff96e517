//! The items of a pool, and how many there are to be.
//!
//! A permit of the pool's semaphore is the right to an item. Invariants of a pool that cannot make
//! items, with `L` the limit of the semaphore:
//!
//! 1. `L` is at most `size`: a growing pool raises `size` first, a shrinking one `L`.
//! 2. `alive` is at least `L`: an item is there before its permit is, and goes after it. So whoever has
//!    a permit finds an item, whatever comes between.
//! 3. An item that comes back while `alive` is above `size` is dropped. No idle one is: it may be
//!    promised already. So a shrink takes idle items as any caller does, and gives them back.
//!
//! A pool that can make items needs none of that: whoever finds none makes one.
//!
//! No item is dropped in here, since that is foreign code: it goes out by value.

use std::collections::VecDeque;

/// The idle items, first-in first-out, and the numbers.
pub(super) struct Items<T> {
    idle: VecDeque<T>,
    /// Idle ones and those that permits hold.
    alive: usize,
    size: usize,
    closed: bool,
}

impl<T> Items<T> {
    pub(super) fn new(idle: VecDeque<T>, size: usize) -> Self {
        Self {
            alive: idle.len(),
            idle,
            size,
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
    pub(super) fn put_back(&mut self, item: T) -> Option<T> {
        if self.closed || self.alive > self.size {
            self.alive -= 1;
            return Some(item);
        }
        self.idle.push_back(item);
        None
    }

    /// Counts an item out that will not come back, if there are more than enough: then its permit
    /// goes back as any other.
    pub(super) fn lose_surplus(&mut self) -> bool {
        let surplus = self.alive > self.size;
        self.alive -= usize::from(surplus);
        surplus
    }

    /// Counts an item out that will not come back, after its permit if there is to be no other one.
    pub(super) fn lose(&mut self, for_good: bool) {
        self.alive -= 1;
        self.size -= usize::from(for_good);
    }

    /// Adds an item, before its permit; or gives it back to be dropped, once the pool is closed.
    pub(super) fn add(&mut self, item: T) -> Option<T> {
        if self.closed {
            return Some(item);
        }
        self.idle.push_back(item);
        self.alive += 1;
        self.size += 1;
        None
    }

    /// Makes room up to `size`, before the permits: for how many more. `None`, and nothing has
    /// changed, if that would be some and there can be none.
    pub(super) fn grow_to(&mut self, size: usize, can_make: bool) -> Option<usize> {
        let more = size.saturating_sub(self.size);
        if more > 0 && !can_make {
            return None;
        }
        self.size += more;
        Some(more)
    }

    /// Has room for so many less, after their permits.
    pub(super) fn shrink(&mut self, less: usize) {
        self.size -= less;
    }

    /// Whether the next item that comes back is to be dropped.
    pub(super) fn has_surplus(&self) -> bool {
        self.alive > self.size && !self.idle.is_empty()
    }

    /// Keeps none from now on. Gives back those that were idle.
    pub(super) fn close(&mut self) -> VecDeque<T> {
        self.closed = true;
        self.alive -= self.idle.len();
        std::mem::take(&mut self.idle)
    }
}
