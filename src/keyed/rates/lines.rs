//! The limiters of keys that need one: whose callers wait, or of whose charges more is to be known
//! than what they come to.
//!
//! 1. The entry of such a key holds the number of its slot, and the slot that of the entry.
//! 2. A limiter is taken out, under the lock of the shard, when it is
//!    [retired](DedicatedLimiter::try_reclaim). Nobody else has it then, and nobody can get it but here.

use super::super::chunked::Chunked;
use crate::rate::DedicatedLimiter;

/// Slots.
pub(super) struct Lines {
    slots: Chunked<Slot>,
    /// The first free slot of a list.
    free: Option<usize>,
    /// Which slot is looked at next.
    hand: usize,
}

enum Slot {
    Free {
        next: Option<usize>,
    },
    Taken {
        line: DedicatedLimiter,
        entry: usize,
    },
}

impl Lines {
    pub(super) fn new() -> Self {
        Self {
            slots: Chunked::new(),
            free: None,
            hand: 0,
        }
    }

    /// Puts the limiter of an entry in, and says where.
    pub(super) fn put(&mut self, line: DedicatedLimiter, entry: usize) -> usize {
        let taken = Slot::Taken { line, entry };
        let Some(slot) = self.free else {
            return self.slots.push(taken);
        };
        if let Slot::Free { next } = std::mem::replace(self.slots.get_mut(slot), taken) {
            self.free = next;
        }
        slot
    }

    pub(super) fn get(&self, slot: usize) -> &DedicatedLimiter {
        match self.slots.get(slot) {
            Slot::Taken { line, .. } => line,
            Slot::Free { .. } => unreachable!("an entry leads to a free slot"),
        }
    }

    /// Takes one out, to be dropped after the lock.
    pub(super) fn take(&mut self, slot: usize) -> Option<DedicatedLimiter> {
        let free = Slot::Free { next: self.free };
        match std::mem::replace(self.slots.get_mut(slot), free) {
            Slot::Taken { line, .. } => {
                self.free = Some(slot);
                Some(line)
            }
            Slot::Free { .. } => unreachable!("an entry leads to a free slot"),
        }
    }

    /// The entry of a slot has another number now.
    pub(super) fn renumber(&mut self, slot: usize, number: usize) {
        if let Slot::Taken { entry, .. } = self.slots.get_mut(slot) {
            *entry = number;
        }
    }

    /// The next one, round and round, with its slot and its entry.
    pub(super) fn next(&mut self) -> Option<(usize, usize)> {
        self.hand = if self.hand + 1 < self.slots.len() {
            self.hand + 1
        } else {
            0
        };
        if self.hand == self.slots.len() {
            return None;
        }
        match self.slots.get(self.hand) {
            Slot::Taken { entry, .. } => Some((self.hand, *entry)),
            Slot::Free { .. } => None,
        }
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &DedicatedLimiter> {
        (0..self.slots.len()).filter_map(|slot| match self.slots.get(slot) {
            Slot::Taken { line, .. } => Some(line),
            Slot::Free { .. } => None,
        })
    }
}
