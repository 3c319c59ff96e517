//! The state under the lock of a pool: the items, the places and the waiters.
//!
//! A *place* is the right to an item. Callers have places; a waiter is granted a place, and takes
//! its item when it is polled. Invariants:
//!
//! 1. When the lock is free, there are waiters only if no place is free, or if some thread is about
//!    to [admit](State::advance) more waiters. A newcomer never overtakes them.
//! 2. Idle items belong first to the waiters that were granted a place and have not collected their
//!    item yet; newcomers get only those [beyond](State::spare). The number of the latter plus the
//!    number of taken places, granted ones included, is at most the size, unless a shrink, or an
//!    addition after one, has left too many. In that case a returned item is dropped.
//! 3. In a pool that cannot make items, that sum is at least the size, so there is an item for each
//!    place. In a pool that can make items, a caller that has a place and no item makes one.
//!    Only such a pool has idle items that must be checked, so a caller that drops its item makes another
//!    one. Callers there take a place first, and [their item](State::pop_idle) in a separate step.
//! 4. No operation takes a number of steps that grows with the waiters.
//! 5. One flag covers the conditions that most calls need not check: whether the pool is closed, whether idle
//!    items must be checked, and whether a caller waits for the return of all places.
//! 6. No item and no waker is dropped in here, because that is foreign code: they are returned by
//!    value.

use std::collections::VecDeque;

use crate::error::ErrorKind;
use crate::time::Tick;
use crate::wait_queue::{WaitQueue, WakeList};

/// The items, the places and the queue.
pub struct State<T> {
    /// First-in first-out.
    idle: VecDeque<T>,
    /// The tick at which each idle item was returned, if the pool has an idle timeout.
    since: VecDeque<Tick>,
    pub(super) size: usize,
    /// The number of places that callers have, granted ones included.
    pub(super) taken: usize,
    /// The number of waiters that were granted a place and have not collected its item yet.
    granted: usize,
    /// Whether the pool is closed, idle items must be checked, or there are [`idlers`](Self::idlers).
    pub(super) special: bool,
    pub(super) closed: bool,
    /// Whether idle items must be checked before they are used.
    looks: bool,
    pub(super) waiters: WaitQueue<()>,
    /// The waiters for the moment at which no caller has a place.
    pub(super) idlers: WaitQueue<()>,
    /// The last of those waiters that was in the queue at such a moment.
    idle_until: u64,
}

impl<T> State<T> {
    pub(super) fn new(size: usize, idle: VecDeque<T>) -> Self {
        Self {
            idle,
            since: VecDeque::new(),
            size,
            taken: 0,
            granted: 0,
            special: false,
            closed: false,
            looks: false,
            waiters: WaitQueue::new(),
            idlers: WaitQueue::new(),
            idle_until: 0,
        }
    }

    /// Makes callers check idle items before they use them.
    pub(super) fn look(&mut self) {
        (self.special, self.looks) = (true, true);
    }

    /// Takes a place now, with its item. `None` means that the caller [may have an idle
    /// item](Self::pop_idle), or the item has to be made.
    #[inline]
    pub(super) fn try_take(&mut self) -> Result<Option<T>, ErrorKind> {
        if self.special {
            self.try_take_special()
        } else {
            self.take_place(true)
        }
    }

    #[cold]
    #[inline(never)]
    fn try_take_special(&mut self) -> Result<Option<T>, ErrorKind> {
        if self.closed {
            Err(ErrorKind::Closed)
        } else {
            self.take_place(!self.looks)
        }
    }

    #[inline(always)]
    fn take_place(&mut self, pops: bool) -> Result<Option<T>, ErrorKind> {
        if self.taken >= self.size || !self.waiters.is_empty() {
            return Err(ErrorKind::NoPermits);
        }
        self.taken += 1;
        match self.spare() {
            1.. if pops => Ok(self.idle.pop_front()),
            _ => Ok(None),
        }
    }

    /// Returns the outcome of a served waiter, like [`try_take`](Self::try_take).
    pub(super) fn collect(&mut self) -> Result<Option<T>, ErrorKind> {
        // Closing takes back granted places.
        self.granted = self.granted.checked_sub(1).ok_or(ErrorKind::Closed)?;
        if self.looks {
            Ok(None)
        } else {
            Ok(self.idle.pop_front())
        }
    }

    /// Takes an idle item for a place without an item. Also returns the tick at which the item was returned.
    pub(super) fn pop_idle(&mut self) -> Option<(T, Option<Tick>)> {
        match self.spare() {
            0 => None,
            _ => Some((self.idle.pop_front()?, self.since.pop_front())),
        }
    }

    /// Returns the number of idle items that no granted waiter is going to collect.
    #[inline]
    fn spare(&self) -> usize {
        self.idle.len().saturating_sub(self.granted)
    }

    /// Takes a place back, with or without its item. Returns the item if it is to be dropped.
    #[inline(always)]
    pub(super) fn give_back(&mut self, item: Option<T>, can_make: bool, closed: bool) -> Option<T> {
        let too_many = closed || self.taken + self.spare() > self.size;
        self.taken -= 1;
        match item {
            Some(item) if too_many => return Some(item),
            Some(item) => self.idle.push_back(item),
            None if can_make || too_many => {}
            None => self.size -= 1,
        }
        None
    }

    /// Stores when the last idle item was returned, if the pool has an idle timeout and an item was returned.
    pub(super) fn stamp(&mut self, now: Option<Tick>) {
        if let Some(now) = now {
            self.since.resize(self.idle.len(), now);
        }
    }

    /// Adds an item, and a place for it. Returns the item if the pool is closed.
    pub(super) fn add(&mut self, item: T) -> Option<T> {
        if self.closed {
            return Some(item);
        }
        self.idle.push_back(item);
        self.size += 1;
        None
    }

    /// Changes the size. Returns the surplus idle items.
    pub(super) fn resize(&mut self, size: usize) -> VecDeque<T> {
        self.size = size;
        let spare = self.spare();
        let surplus = (self.taken + spare).saturating_sub(size).min(spare);
        self.since.drain(..surplus.min(self.since.len()));
        let kept = self.idle.split_off(surplus);
        std::mem::replace(&mut self.idle, kept)
    }

    /// Closes the pool, for granted waiters too. Returns the items that no caller has.
    pub(super) fn close(&mut self) -> VecDeque<T> {
        (self.special, self.closed) = (true, true);
        self.taken -= std::mem::take(&mut self.granted);
        std::mem::take(&mut self.idle)
    }

    /// Serves waiters from the head until one must keep waiting or the batch is full.
    pub(super) fn advance(&mut self, batch: &mut WakeList) {
        while !batch.is_full() && !self.waiters.is_empty() {
            if !self.closed {
                if self.taken >= self.size {
                    break;
                }
                self.taken += 1;
                self.granted += 1;
            }
            batch.push(self.waiters.grant_head());
        }
        if self.taken == 0 {
            self.idle_until = self.idlers.last_number();
        }
        let until = self.idle_until;
        while !batch.is_full() && self.idlers.head().is_some_and(|(first, ())| first <= until) {
            batch.push(self.idlers.grant_head());
        }
        self.special = self.closed || self.looks || !self.idlers.is_empty();
    }
}
