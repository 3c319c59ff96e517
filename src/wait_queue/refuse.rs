//! Refuses the waiters that request more than a limit, wherever they are in the queue.
//!
//! Invariants:
//!
//! 1. No waiter requests more than `largest`. A waiter that joins raises it, and it is 0 again when the queue is
//!    empty. A waiter that leaves does not lower it, so it may be too high until the next walk.
//! 2. A limit of at least `largest` refuses nobody, and takes no walk. A walk passes every waiter once, under the
//!    lock: it refuses those above the limit, and finds the largest request of the others. So a limit that falls
//!    step by step takes a walk only at each step that refuses a waiter, and one more if the largest has left.
//! 3. After a walk, no waiter requests more than its limit, and what is kept for a refused waiter is in its slot.
//!    Only the wakers of the refused waiters are still to be called. The queue keeps them, in the order of the
//!    waiters, because a batch of wakers is smaller than a queue: the caller takes them batch by batch.

use super::{NONE, Units, WaitQueue, WakeList};

impl<C: Units> WaitQueue<C> {
    /// Refuses every waiter that requests more than `limit`: removes it from the queue, and keeps `refusal` in its
    /// slot until it [collects](Self::collect) it. Returns the sum of the removed requests.
    ///
    /// The caller then wakes them, with [`take_refused`](Self::take_refused).
    pub(crate) fn refuse_above(&mut self, limit: u64, refusal: C) -> u128 {
        if self.largest <= limit {
            return 0;
        }
        let (mut next, mut largest, mut removed) = (self.head, 0, 0);
        while next != NONE {
            let (at, chunk) = (next as usize, &self.chunks[next as usize]);
            // The chunk may be unlinked when its last waiter is removed.
            next = chunk.next;
            let mut unseen = chunk.waiting;
            while unseen != 0 {
                let slot = unseen.trailing_zeros() as usize;
                unseen &= unseen - 1;
                let units = self.chunks[at].slots.costs[slot].units();
                if units > limit {
                    removed += u128::from(units);
                    let waker = self.keep(at, slot, refusal);
                    self.refused.get_or_insert_default().0.extend(waker);
                } else {
                    largest = largest.max(units);
                }
            }
        }
        self.largest = largest;
        removed
    }

    /// Moves the wakers of refused waiters into the batch until it is full, and returns how many it has moved.
    pub(crate) fn take_refused(&mut self, batch: &mut WakeList) -> usize {
        let mut moved = 0;
        while let Some(refused) = self.refused.as_mut().filter(|_| !batch.is_full()) {
            batch.push(refused.0.pop_front());
            moved += 1;
            if refused.0.is_empty() {
                self.refused = None;
            }
        }
        moved
    }

    /// Returns whether wakers of refused waiters are still to be called.
    pub(crate) fn has_refused(&self) -> bool {
        self.refused.is_some()
    }
}
