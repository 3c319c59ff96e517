//! Slots with small integer names, in chunks.
//!
//! Owns the memory of a line. Invariants:
//!
//! 1. A slot is vacant or full; `used` counts the full ones.
//! 2. Slots at `fresh` and beyond have not been full since the arena was last empty; vacant slots
//!    below `fresh` are chained from `free`.
//! 3. When the arena becomes empty it forgets the chain and starts again at slot 0, so that memory
//!    is used from the front, in order, and a shrink has only to cut off the end.
//!
//! Chunks instead of one vector: growing moves nobody, and costs at most one chunk too many, where
//! a doubling vector costs up to twice the memory.

/// Slots in a chunk.
const CHUNK: usize = 32;

/// No slot: the end of a chain.
pub(super) const NONE: u32 = u32::MAX;

/// Slots with small integer names.
pub(super) struct Arena<T> {
    chunks: Vec<Box<[Slot<T>; CHUNK]>>,
    fresh: u32,
    free: u32,
    used: u32,
    /// The most slots in use since the arena was last empty.
    high: u32,
    /// The decaying maximum of `high` over past fillings.
    recent: u32,
}

enum Slot<T> {
    Vacant { next: u32 },
    Full(T),
}

impl<T> Arena<T> {
    /// The most slots that an arena can hold.
    pub(super) const MAX: u32 = NONE - 1;

    pub(super) const fn new() -> Self {
        Self {
            chunks: Vec::new(),
            fresh: 0,
            free: NONE,
            used: 0,
            high: 0,
            recent: 0,
        }
    }

    pub(super) fn used(&self) -> u32 {
        self.used
    }

    /// Fills a slot and says which.
    ///
    /// # Panics
    ///
    /// When [`MAX`](Self::MAX) slots are in use; the caller asks first.
    #[inline]
    pub(super) fn insert(&mut self, value: T) -> u32 {
        assert!(self.used < Self::MAX, "an arena holds at most 2^32 - 2");
        let index = if self.free == NONE {
            let index = self.fresh;
            if index as usize == self.chunks.len() * CHUNK {
                let vacant = |_| Slot::Vacant { next: NONE };
                self.chunks.push(Box::new(std::array::from_fn(vacant)));
            }
            self.fresh += 1;
            index
        } else {
            let index = self.free;
            self.free = match self.slot(index) {
                Slot::Vacant { next } => *next,
                Slot::Full(_) => unreachable!("a full slot in the chain of vacant ones"),
            };
            index
        };
        *self.slot_mut(index) = Slot::Full(value);
        self.used += 1;
        self.high = self.high.max(self.used);
        index
    }

    /// Empties a slot.
    #[inline]
    pub(super) fn remove(&mut self, index: u32) -> T {
        let next = self.free;
        let slot = std::mem::replace(self.slot_mut(index), Slot::Vacant { next });
        let Slot::Full(value) = slot else {
            unreachable!("slot {index} is vacant");
        };
        self.free = index;
        self.used -= 1;
        if self.used == 0 {
            self.reset();
        }
        value
    }

    /// What a slot holds. `None` if it is vacant, or was given back with its chunk.
    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<&T> {
        let index = index as usize;
        match self.chunks.get(index / CHUNK)?.get(index % CHUNK)? {
            Slot::Full(value) => Some(value),
            Slot::Vacant { .. } => None,
        }
    }

    /// What a slot holds, if it is full.
    #[inline]
    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        let index = index as usize;
        match self.chunks.get_mut(index / CHUNK)?.get_mut(index % CHUNK)? {
            Slot::Full(value) => Some(value),
            Slot::Vacant { .. } => None,
        }
    }

    /// Starts again at the front, and gives memory back when the recent fillings needed less than
    /// a quarter of it. The maximum decays by an eighth a filling: one small filling after a large
    /// one frees nothing, a dozen do. Twice the recent need is kept, so that the next filling does
    /// not allocate what this one freed.
    #[inline]
    fn reset(&mut self) {
        self.fresh = 0;
        self.free = NONE;
        self.recent = self.high.max(self.recent - self.recent.div_ceil(8));
        self.high = 0;
        let recent = self.recent as usize;
        if recent < self.chunks.len() * CHUNK / 4 {
            let keep = (2 * recent).div_ceil(CHUNK).max(1);
            self.chunks.truncate(keep);
            self.chunks.shrink_to(2 * keep);
        }
    }

    #[inline]
    fn slot(&self, index: u32) -> &Slot<T> {
        let index = index as usize;
        &self.chunks[index / CHUNK][index % CHUNK]
    }

    #[inline]
    fn slot_mut(&mut self, index: u32) -> &mut Slot<T> {
        let index = index as usize;
        &mut self.chunks[index / CHUNK][index % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill_and_drain(arena: &mut Arena<u32>, count: u32) {
        let slots: Vec<u32> = (0..count).map(|value| arena.insert(value)).collect();
        for (value, slot) in slots.into_iter().enumerate() {
            assert_eq!(arena.remove(slot) as usize, value);
        }
        assert_eq!(arena.used(), 0);
    }

    #[test]
    fn slots_are_reused_from_the_front_once_empty() {
        let mut arena = Arena::new();
        fill_and_drain(&mut arena, 100);
        assert_eq!(arena.insert(7), 0);
        assert_eq!(arena.insert(8), 1);
        assert_eq!(arena.get(1), Some(&8));
    }

    #[test]
    fn a_vacant_slot_is_reused_before_a_fresh_one() {
        let mut arena = Arena::new();
        let slots: Vec<u32> = (0..5).map(|value| arena.insert(value)).collect();
        arena.remove(slots[1]);
        arena.remove(slots[3]);
        assert_eq!(arena.insert(9), slots[3]);
        assert_eq!(arena.insert(9), slots[1]);
        assert_eq!(arena.insert(9), 5);
    }

    #[test]
    fn one_small_filling_after_a_large_one_frees_nothing() {
        let mut arena = Arena::new();
        fill_and_drain(&mut arena, 10_000);
        let chunks = arena.chunks.len();
        assert_eq!(chunks, 10_000_usize.div_ceil(CHUNK));
        fill_and_drain(&mut arena, 1);
        assert_eq!(arena.chunks.len(), chunks);
    }

    #[test]
    fn memory_comes_back_after_a_dozen_small_fillings() {
        let mut arena = Arena::new();
        fill_and_drain(&mut arena, 10_000);
        let chunks = arena.chunks.len();
        for _ in 0..12 {
            fill_and_drain(&mut arena, 1);
        }
        assert!(arena.chunks.len() * 2 <= chunks + 1);
        for _ in 0..100 {
            fill_and_drain(&mut arena, 1);
        }
        assert_eq!(arena.chunks.len(), 1);
    }

    #[test]
    fn a_slot_that_was_given_back_holds_nothing() {
        let mut arena = Arena::new();
        fill_and_drain(&mut arena, 10_000);
        for _ in 0..100 {
            fill_and_drain(&mut arena, 1);
        }
        assert_eq!(arena.get(0), None);
        assert_eq!(arena.get(9_999), None);
        assert_eq!(arena.get_mut(NONE), None);
    }

    #[test]
    #[should_panic(expected = "slot 0 is vacant")]
    fn a_vacant_slot_cannot_be_emptied() {
        let mut arena = Arena::new();
        let slot = arena.insert(1);
        arena.remove(slot);
        arena.remove(slot);
    }
}
