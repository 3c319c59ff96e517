//! The waiters, in chunks of 32 that are linked in the order of the line.
//!
//! A chunk is filled once, from its first place to its last, so a place is its waiter's number less
//! the chunk's `base`; a bit says whether somebody still waits there. Leaving clears a bit, serving
//! the head finds the lowest one, and nobody touches a neighbour. A chunk goes back to the spare
//! ones when nobody waits in it any more; so a waiter costs 22 bytes in a line that is served from
//! the front, and at the worst a whole chunk, when the 31 others of its chunk have left.
//!
//! What a waiter got may be [kept](WaiterSlab::keep_first) where it waited, until it collects. A second
//! bit says so, and the chunk is not used again before that.
//!
//! The heads of the chunks lie together, apart from the places: of ten thousand waiters they stay
//! in the nearest cache, whoever leaves. WaiterSlab instead of one vector: growing moves no waiter.
//!
//! Invariants:
//!
//! 1. WaiterSlab are linked from `head` to `tail`, in the order of their numbers; every one of them but
//!    the tail has a waiter. One in which nobody waits, but something is kept, is in no chain, or
//!    is the tail.
//! 2. When nobody waits and nothing is kept, none is linked, and the next one to be used is number
//!    0: memory is used from the front, and a shrink has only to cut off the end.
//! 3. A place is not filled a second time before its chunk has got another `base`; so a place and
//!    a number together name one waiter, for ever.

use std::num::NonZeroU64;
use std::task::Waker;

use super::Woken;

/// Slots in a chunk: one for each bit of its `waiting`.
const SIZE: usize = 32;
/// No chunk: the end of a chain.
const NONE: u32 = u32::MAX;
/// Instead of the previous one, of a chunk that is in no chain because something is kept in it.
const DETACHED: u32 = u32::MAX - 1;
/// How many chunks are freed at once: this is done under the lock, by whoever empties the queue.
const AT_ONCE: usize = 128;
/// The most chunks, so that the index of a place fits: it is that of the chunk, times `SIZE`, plus
/// that of the place in it.
const MOST: u32 = u32::MAX / SIZE as u32;

/// The head of a chunk.
struct Chunk<C> {
    /// The number of whoever waits in the first place.
    base: u64,
    /// Where somebody waits.
    waiting: u32,
    /// Where something is kept.
    kept: u32,
    previous: u32,
    next: u32,
    places: Box<Slots<C>>,
}

struct Slots<C> {
    wakers: [Option<Waker>; SIZE],
    costs: [C; SIZE],
}

/// The waiters of a line, in their order.
pub(super) struct WaiterSlab<C> {
    chunks: Vec<Chunk<C>>,
    head: u32,
    tail: u32,
    len: u32,
    /// In how many places something is kept.
    kept: u32,
    /// WaiterSlab below this have been used since the line was last empty.
    fresh: u32,
    /// The chain of those that are not used any more.
    spare: u32,
    /// The decaying maximum of `fresh` over past fillings.
    recent: u32,
    /// How many chunks to keep when more are being given back.
    keep: usize,
}

impl<C: Copy + Default> WaiterSlab<C> {
    pub(super) const fn new() -> Self {
        Self {
            chunks: Vec::new(),
            head: NONE,
            tail: NONE,
            len: 0,
            kept: 0,
            fresh: 0,
            spare: NONE,
            recent: 0,
            keep: usize::MAX,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there might be no chunk left for another waiter.
    pub(super) fn is_full(&self) -> bool {
        self.fresh == MOST && self.spare == NONE
    }

    /// Adds a waiter at the end, and says where. `number` is the next after the last one that was
    /// added. Not to be called when the line [is full](Self::is_full).
    #[inline]
    pub(super) fn push(&mut self, number: NonZeroU64, cost: C, waker: Waker) -> u32 {
        let number = number.get();
        let fits = |chunk: &Chunk<C>| number - chunk.base < SIZE as u64;
        if !self.chunks.get(self.tail as usize).is_some_and(fits) {
            self.link(number);
        }
        let tail = self.tail;
        let chunk = &mut self.chunks[tail as usize];
        let place = (number - chunk.base) as usize % SIZE;
        chunk.waiting |= 1 << place;
        self.len += 1;
        chunk.places.costs[place] = cost;
        chunk.places.wakers[place] = Some(waker);
        tail * SIZE as u32 + place as u32
    }

    /// Takes a chunk into use, at the tail.
    #[inline(never)]
    fn link(&mut self, base: u64) {
        // A tail that everybody has left was kept only to be filled up.
        if self.tail != NONE && self.chunks[self.tail as usize].waiting == 0 {
            self.unlink(self.tail);
        }
        let index = if self.spare == NONE {
            let fresh = self.fresh;
            if fresh as usize == self.chunks.len() {
                self.grow();
            }
            self.fresh += 1;
            fresh
        } else {
            let spare = self.spare;
            self.spare = self.chunks[spare as usize].next;
            spare
        };
        let tail = self.tail;
        let chunk = &mut self.chunks[index as usize];
        chunk.base = base;
        chunk.previous = tail;
        chunk.next = NONE;
        match tail {
            NONE => self.head = index,
            _ => self.chunks[tail as usize].next = index,
        }
        self.tail = index;
    }

    #[cold]
    fn grow(&mut self) {
        self.chunks.push(Chunk {
            base: 0,
            waiting: 0,
            kept: 0,
            previous: NONE,
            next: NONE,
            places: Box::new(Slots {
                wakers: [const { None }; SIZE],
                costs: [C::default(); SIZE],
            }),
        });
    }

    /// Takes a chunk out of the chain, to be used again when nothing is kept in it.
    #[inline(never)]
    fn unlink(&mut self, index: u32) {
        let spare = self.spare;
        let chunk = &mut self.chunks[index as usize];
        let (previous, next) = (chunk.previous, chunk.next);
        if chunk.kept == 0 {
            chunk.next = spare;
            self.spare = index;
        } else {
            chunk.previous = DETACHED;
        }
        match previous {
            NONE => self.head = next,
            _ => self.chunks[previous as usize].next = next,
        }
        match next {
            NONE => self.tail = previous,
            _ => self.chunks[next as usize].previous = previous,
        }
    }

    /// What the first waiter asks for.
    #[inline]
    pub(super) fn first(&self) -> Option<C> {
        let chunk = self.chunks.get(self.head as usize)?;
        let place = chunk.waiting.trailing_zeros() as usize;
        chunk.places.costs.get(place).copied()
    }

    /// The number of the first waiter.
    #[inline]
    pub(super) fn first_number(&self) -> Option<u64> {
        let chunk = self.chunks.get(self.head as usize)?;
        let place = u64::from(chunk.waiting.trailing_zeros());
        (chunk.waiting != 0).then_some(chunk.base + place)
    }

    /// Takes the first waiter out.
    #[inline]
    pub(super) fn pop_first(&mut self) -> Option<Woken> {
        let head = self.head;
        let chunk = self.chunks.get_mut(head as usize)?;
        let place = chunk.waiting.trailing_zeros();
        let number = NonZeroU64::new(chunk.base + u64::from(place))?;
        let left = chunk.waiting & chunk.waiting.wrapping_sub(1);
        chunk.waiting = left;
        let waker = chunk.places.wakers.get_mut(place as usize)?.take()?;
        self.len -= 1;
        if left == 0 {
            self.emptied(head);
        }
        Some(Woken { number, waker })
    }

    /// Takes the first waiter out, and keeps something in its place until it is
    /// [collected](Self::collect).
    pub(super) fn keep_first(&mut self, what: C) -> Option<Woken> {
        let head = self.head;
        let chunk = self.chunks.get_mut(head as usize)?;
        let place = chunk.waiting.trailing_zeros();
        let waker = chunk.places.wakers.get_mut(place as usize)?.take()?;
        let number = NonZeroU64::new(chunk.base + u64::from(place))?;
        chunk.places.costs[place as usize] = what;
        chunk.kept |= 1 << place;
        chunk.waiting &= chunk.waiting.wrapping_sub(1);
        let left = chunk.waiting;
        self.kept += 1;
        self.len -= 1;
        if left == 0 {
            self.emptied(head);
        }
        Some(Woken { number, waker })
    }

    /// What is kept for a waiter that was served.
    pub(super) fn collect(&mut self, index: u32, number: NonZeroU64) -> Option<C> {
        let (at, place) = (index as usize / SIZE, index as usize % SIZE);
        let chunk = self.chunks.get_mut(at)?;
        let same = chunk.base.wrapping_add(place as u64) == number.get();
        if !same || chunk.kept & 1 << place == 0 {
            return None;
        }
        chunk.kept &= !(1 << place);
        self.kept -= 1;
        let what = chunk.places.costs[place];
        if chunk.kept == 0 && chunk.previous == DETACHED {
            chunk.previous = NONE;
            chunk.next = self.spare;
            self.spare = at as u32;
        }
        if self.len == 0 && self.kept == 0 {
            self.reset();
        }
        Some(what)
    }

    /// What those ask for who wait and whose numbers are below this one, in their order.
    pub(super) fn before(&self, number: NonZeroU64) -> impl Iterator<Item = C> {
        let mut next = self.head;
        let chunks = std::iter::from_fn(move || {
            let chunk = self.chunks.get(next as usize)?;
            next = chunk.next;
            Some(chunk)
        });
        chunks
            .take_while(move |chunk| chunk.base < number.get())
            .flat_map(move |chunk| {
                let before = usize::try_from(number.get() - chunk.base).unwrap_or(SIZE);
                let waits = |place: &usize| chunk.waiting & 1 << place != 0;
                (0..SIZE.min(before))
                    .filter(waits)
                    .map(|place| chunk.places.costs[place])
            })
    }

    /// Changes what a waiter asks for, if it still waits.
    pub(super) fn cost_mut(&mut self, index: u32, number: NonZeroU64) -> Option<&mut C> {
        let (chunk, place) = self.place(index, number)?;
        self.chunks[chunk].places.costs.get_mut(place)
    }

    /// The last one has left a chunk.
    #[inline(never)]
    fn emptied(&mut self, chunk: u32) {
        if self.len == 0 && self.kept == 0 {
            self.reset();
        } else if chunk != self.tail {
            self.unlink(chunk);
        }
    }

    /// Starts again at the front, and gives memory back when the recent fillings needed less than a
    /// quarter of it. The maximum decays by an eighth a filling: one small filling after a large
    /// one frees nothing, a dozen of them do, some chunks each. Twice the recent need is kept, so that the next
    /// filling does not allocate what this one freed.
    fn reset(&mut self) {
        self.head = NONE;
        self.tail = NONE;
        self.spare = NONE;
        self.recent = self.fresh.max(self.recent - self.recent.div_ceil(8));
        self.fresh = 0;
        let need = (2 * self.recent as usize).max(1);
        let far_too_many = (self.recent as usize) < self.chunks.len() / 4;
        self.keep = if far_too_many {
            need
        } else {
            self.keep.max(need)
        };
        if self.chunks.len() > self.keep {
            let some_less = self.chunks.len().saturating_sub(AT_ONCE);
            self.chunks.truncate(some_less.max(self.keep));
            if self.chunks.len() <= self.chunks.capacity() / 8 {
                self.chunks.shrink_to(2 * self.chunks.len());
            }
        }
    }

    /// The chunk and the place in it of a number, if it still waits there.
    #[inline]
    fn place(&self, index: u32, number: NonZeroU64) -> Option<(usize, usize)> {
        let (at, place) = (index as usize / SIZE, index as usize % SIZE);
        let chunk = self.chunks.get(at)?;
        let same = chunk.base.wrapping_add(place as u64) == number.get();
        (same && chunk.waiting & 1 << place != 0).then_some((at, place))
    }

    /// The waker of a waiter, if it still waits.
    #[inline]
    pub(super) fn waker(&self, index: u32, number: NonZeroU64) -> Option<&Waker> {
        let (chunk, place) = self.place(index, number)?;
        self.chunks[chunk].places.wakers[place].as_ref()
    }

    /// The waker of a waiter, if it still waits.
    pub(super) fn waker_mut(&mut self, index: u32, number: NonZeroU64) -> Option<&mut Waker> {
        let (chunk, place) = self.place(index, number)?;
        self.chunks[chunk].places.wakers[place].as_mut()
    }

    /// Takes a waiter out, if it still waits.
    #[inline]
    pub(super) fn remove(&mut self, index: u32, number: NonZeroU64) -> Option<Waker> {
        let (at, place) = (index as usize / SIZE, index as usize % SIZE);
        let chunk = self.chunks.get_mut(at)?;
        let bit = 1 << place;
        let same = chunk.base.wrapping_add(place as u64) == number.get();
        if !same || chunk.waiting & bit == 0 {
            return None;
        }
        chunk.waiting &= !bit;
        self.len -= 1;
        let left = chunk.waiting;
        let waker = chunk.places.wakers[place].take();
        if left == 0 {
            self.emptied(at as u32);
        }
        waker
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers waiters as a line does.
    struct Numbered {
        chunks: WaiterSlab<u32>,
        joined: u64,
    }

    impl Numbered {
        fn new() -> Self {
            Self {
                chunks: WaiterSlab::new(),
                joined: 0,
            }
        }

        fn push(&mut self) -> (u32, NonZeroU64) {
            self.joined += 1;
            let number = NonZeroU64::new(self.joined).unwrap();
            let waker = Waker::noop().clone();
            (self.chunks.push(number, 1, waker), number)
        }

        fn fill_and_drain(&mut self, count: u64) {
            let first = self.joined + 1;
            (0..count).for_each(|_| {
                self.push();
            });
            for number in first..first + count {
                assert_eq!(self.chunks.pop_first().unwrap().number.get(), number);
            }
            assert!(self.chunks.pop_first().is_none());
        }

        fn allocated(&self) -> usize {
            self.chunks.chunks.len()
        }
    }

    #[test]
    fn a_waiter_of_a_long_line_costs_at_most_48_bytes() {
        let mut line = Numbered::new();
        (0..10_000).for_each(|_| {
            line.push();
        });
        let heads = line.chunks.chunks.capacity() * size_of::<Chunk<u32>>();
        let places = line.allocated() * size_of::<Slots<u32>>();
        assert!(heads + places <= 48 * 10_000, "{heads} + {places} bytes");
    }

    #[test]
    fn a_line_that_never_empties_allocates_nothing_once_warm() {
        let mut line = Numbered::new();
        (0..100).for_each(|_| {
            line.push();
        });
        let warm = line.allocated() + 1;
        for _ in 0..10_000 {
            line.push();
            line.chunks.pop_first().unwrap();
        }
        assert!(line.allocated() <= warm);
    }

    #[test]
    fn those_who_leave_make_room_also_behind_a_head_that_stays() {
        let mut line = Numbered::new();
        line.push();
        for _ in 0..10_000 {
            let (index, number) = line.push();
            assert!(line.chunks.remove(index, number).is_some());
            assert!(line.chunks.remove(index, number).is_none());
        }
        assert_eq!(line.chunks.first_number(), Some(1));
        assert!(line.allocated() <= 3, "{} chunks", line.allocated());
    }

    #[test]
    fn one_small_filling_after_a_large_one_frees_nothing() {
        let mut line = Numbered::new();
        line.fill_and_drain(10_000);
        let allocated = line.allocated();
        assert_eq!(allocated, 10_000_usize.div_ceil(SIZE));
        line.fill_and_drain(1);
        assert_eq!(line.allocated(), allocated);
    }

    #[test]
    fn memory_comes_back_after_some_small_fillings() {
        let mut line = Numbered::new();
        line.fill_and_drain(10_000);
        let allocated = line.allocated();
        (0..12).for_each(|_| line.fill_and_drain(1));
        assert!(2 * line.allocated() <= allocated + 1);
        (0..100).for_each(|_| line.fill_and_drain(1));
        assert!(line.allocated() <= 2);
        line.fill_and_drain(10_000);
    }

    /// Whoever empties the queue does it under the lock.
    #[test]
    fn reset_after_a_long_queue_frees_a_bounded_number_of_chunks() {
        let mut line = Numbered::new();
        line.fill_and_drain(100_000);
        let mut allocated = line.allocated();
        for _ in 0..150 {
            line.fill_and_drain(1);
            assert!(allocated - line.allocated() <= AT_ONCE);
            allocated = line.allocated();
        }
        assert!(allocated <= 8, "{allocated} chunks");
    }

    #[test]
    fn a_place_of_a_chunk_that_was_given_back_holds_nobody() {
        let mut line = Numbered::new();
        let (index, number) = (0..10_000).map(|_| line.push()).last().unwrap();
        while line.chunks.pop_first().is_some() {}
        (0..100).for_each(|_| line.fill_and_drain(1));
        assert!(line.chunks.waker(index, number).is_none());
        assert!(line.chunks.waker_mut(index, number).is_none());
        assert!(line.chunks.remove(index, number).is_none());
    }
}
