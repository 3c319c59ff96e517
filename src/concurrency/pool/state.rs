//! What the lock of a pool guards: the items, who has one, and who waits.
//!
//! A *place* is the right to an item. Callers have places; one that waits is granted a place, and takes
//! its item when it is polled. Invariants:
//!
//! 1. When the lock is free, somebody waits only if no place is, or somebody is about to
//!    [admit](State::advance) more waiters. A newcomer never overtakes them.
//! 2. Idle items that are not promised to granted waiters, and taken places, are as many as the size at
//!    most, or a shrink, or an addition after one, has left too many. Then an item that comes back
//!    is dropped.
//! 3. In a pool that cannot make items they are as many as the size at least: so there is an item for
//!    each place. In one that can, a caller with a place and without an item makes one.
//! 4. No item and no waker is dropped in here, since that is foreign code: they go out by value.

use std::collections::VecDeque;

use crate::error::{AcquireError, ErrorKind};
use crate::wait_queue::{WaitQueue, WakeList};

/// The items, the places and the queue.
pub(super) struct State<T> {
    /// First-in first-out.
    idle: VecDeque<T>,
    pub(super) size: usize,
    /// Places that callers have, granted ones included.
    taken: usize,
    /// Places that waiters were granted and did not collect yet.
    granted: usize,
    pub(super) closed: bool,
    pub(super) waiters: WaitQueue<()>,
}

impl<T> State<T> {
    pub(super) fn new(size: usize, idle: VecDeque<T>) -> Self {
        Self {
            idle,
            size,
            taken: 0,
            granted: 0,
            closed: false,
            waiters: WaitQueue::new(),
        }
    }

    /// Takes a place now, and the item that goes with it. `None` if it has to be made.
    #[inline]
    pub(super) fn try_take(&mut self) -> Result<Option<T>, ErrorKind> {
        if self.closed {
            return Err(ErrorKind::Closed);
        }
        if self.taken >= self.size || !self.waiters.is_empty() {
            return Err(ErrorKind::NoPermits);
        }
        self.taken += 1;
        Ok(self.idle.pop_front())
    }

    /// What came of the wait of one who has been served; as [`try_take`](Self::try_take).
    pub(super) fn collect(&mut self) -> Result<Option<T>, AcquireError> {
        if self.closed {
            return Err(AcquireError::new(ErrorKind::Closed));
        }
        self.granted -= 1;
        Ok(self.idle.pop_front())
    }

    /// Gives up the place that a waiter was granted.
    pub(super) fn leave_served(&mut self) {
        if !self.closed {
            self.granted -= 1;
            self.taken -= 1;
        }
    }

    /// Idle items that are promised to nobody.
    #[inline]
    fn spare(&self) -> usize {
        self.idle.len().saturating_sub(self.granted)
    }

    /// How many places are free.
    pub(super) fn free(&self) -> usize {
        if self.closed {
            return 0;
        }
        self.size.saturating_sub(self.taken)
    }

    /// Gives a place back with its item, or without it. Returns an item that is to be dropped.
    #[inline]
    pub(super) fn give_back(&mut self, item: Option<T>, can_make: bool) -> Option<T> {
        let too_many = self.closed || self.taken + self.spare() > self.size;
        self.taken -= 1;
        match item {
            Some(item) if too_many => return Some(item),
            Some(item) => self.idle.push_back(item),
            None if can_make || too_many => {}
            None => self.size -= 1,
        }
        None
    }

    /// Adds an item, and a place for it. Returns it, once the pool is closed.
    pub(super) fn add(&mut self, item: T) -> Option<T> {
        if self.closed {
            return Some(item);
        }
        self.idle.push_back(item);
        self.size += 1;
        None
    }

    /// Changes the size. Returns idle items that are too many then; where others can be made, also
    /// promised ones.
    pub(super) fn resize(&mut self, size: usize, can_make: bool) -> VecDeque<T> {
        self.size = size;
        let spare = self.spare();
        let surplus = (self.taken + spare).saturating_sub(size);
        let most = if can_make { self.idle.len() } else { spare };
        self.idle.drain(..surplus.min(most)).collect()
    }

    /// Admits nobody from now on, granted waiters included. Returns the idle items.
    pub(super) fn close(&mut self) -> VecDeque<T> {
        self.closed = true;
        self.taken -= self.granted;
        self.granted = 0;
        std::mem::take(&mut self.idle)
    }

    /// Serves waiters from the head until one has to wait on or the batch is full; `true` if it was
    /// full.
    pub(super) fn advance(&mut self, batch: &mut WakeList) -> bool {
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
        batch.is_full()
    }
}
