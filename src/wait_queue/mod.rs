//! [`WaitQueue`]: the waiters, first-in first-out, and the request of each.
//!
//! It is independent of permits, rates and clocks. A throttle keeps one under its lock, uses
//! [`head`](WaitQueue::head) to decide whether the first waiter can be served, and then
//! [grants](WaitQueue::grant_head) its request, or [keeps](WaitQueue::keep_head) a value for it.
//! When its limit falls, it [refuses](WaitQueue::refuse_above) the waiters that request more.
//!
//! Waiters are stored in chunks of 32 slots. A chunk is filled once, from its first slot to its
//! last, so the slot of a waiter is its number minus the chunk's `base`; a bit tells whether a
//! waiter is still in the slot. Leaving clears a bit, serving the head finds the lowest set bit,
//! and neither touches a neighbour. A chunk becomes a spare when it has no waiters and nothing
//! kept. So a waiter costs 22 bytes in a queue that is served from the front, and in the worst case
//! a whole chunk, when the other 31 have left. The heads of the chunks are stored together, apart
//! from the slots: those of ten thousand waiters stay in the nearest cache, whichever waiters
//! leave. A single vector would move waiters when it grows; chunks do not.
//!
//! Invariants:
//!
//! 1. Waiters are numbered as they join, from 1, and no number is used twice. Only the head is
//!    granted, so numbers are granted in rising order, independent of the requests. While nothing
//!    is kept for any waiter, the last number granted shows for every waiter whether it has been
//!    granted. A throttle may publish that number, so that a waiter finds out without the lock.
//! 2. A waiter that is granted leaves no trace. What is kept for a waiter stays in its slot until
//!    the waiter [collects](WaitQueue::collect) it.
//! 3. An id names a chunk and the number of the waiter, which tells its slot. A slot is not filled a
//!    second time before its chunk has got another `base`; so an id cannot be mistaken for a later
//!    one.
//! 4. Chunks are linked from `head` to `tail`, in the order of their numbers. Exactly the chunks
//!    with waiters are linked, and the tail.
//! 5. When there are no waiters and no kept values, no chunk is linked, and the next chunk to be
//!    used is number 0. Memory is used from the front, and a shrink only has to cut off the end.
//! 6. No waker is called, cloned or dropped in here. Wakers are passed in and returned by value, so
//!    the owner of the lock decides where foreign code runs, which is after the lock.
//! 7. Joining, being served and leaving take a constant number of steps; releasing memory frees a
//!    bounded number of chunks at once. [Refusing](refuse) those above a limit walks through the
//!    queue.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::task::Waker;

mod refuse;
mod wake;

pub(crate) use self::wake::{WakeList, lock_if_served, serve_and_wake};

/// The number of slots of a chunk: one for each bit of its `waiting`.
const SIZE: usize = 32;
/// No chunk: the end of a chain. Memory runs out long before a chunk has this index: that number of
/// chunks takes three terabytes.
const NONE: u32 = u32::MAX;
/// The number of chunks that are freed at once: the caller that empties the queue does this under
/// the lock.
const AT_ONCE: usize = 128;

/// The wakers of [refused](refuse) waiters, in the order of the waiters.
#[derive(Default)]
struct Refused(VecDeque<Waker>);

/// The request of a waiter, or what is kept for it.
pub trait Units: Copy + Default {
    /// Returns how many units the waiter requests.
    fn units(self) -> u64;
}

impl Units for () {
    fn units(self) -> u64 {
        1
    }
}

impl Units for u64 {
    fn units(self) -> u64 {
        self
    }
}

/// Waiters in the order in which they joined, each with a request of type `C`.
pub struct WaitQueue<C> {
    chunks: Vec<Chunk<C>>,
    head: u32,
    tail: u32,
    len: usize,
    /// The number of slots in which something is kept.
    kept: usize,
    /// Chunks below this have been used since the queue was last empty.
    fresh: u32,
    /// The chain of the chunks that are no longer used.
    spare: u32,
    /// The decaying maximum of `fresh` over past fillings.
    recent: u32,
    joined: u64,
    /// No waiter requests more than this.
    largest: u64,
    /// The wakers of [refused](refuse) waiters, which are still to be called.
    refused: Option<Box<Refused>>,
}

/// The head of a chunk.
struct Chunk<C> {
    /// The number of the waiter in the first slot.
    base: u64,
    /// The slots that have a waiter.
    waiting: u32,
    /// The slots in which something is kept.
    kept: u32,
    previous: u32,
    next: u32,
    slots: Box<Slots<C>>,
}

struct Slots<C> {
    wakers: [Option<Waker>; SIZE],
    costs: [C; SIZE],
}

/// The right to a slot in a queue. Its owner gives it up with [`WaitQueue::withdraw`] or, if
/// something is kept for the waiter, with [`WaitQueue::collect`].
#[derive(Debug)]
pub struct WaiterId {
    number: NonZeroU64,
    chunk: u32,
}

impl WaiterId {
    /// Returns the number of the waiter.
    pub(crate) fn number(&self) -> u64 {
        self.number.get()
    }
}

impl<C: Units> WaitQueue<C> {
    pub(crate) const fn new() -> Self {
        Self {
            chunks: Vec::new(),
            head: NONE,
            tail: NONE,
            len: 0,
            kept: 0,
            fresh: 0,
            spare: NONE,
            recent: 0,
            joined: 0,
            largest: 0,
            refused: None,
        }
    }

    /// Returns a cost that no waiter exceeds: the largest, or that of one that has left.
    pub(crate) fn largest(&self) -> u64 {
        self.largest
    }

    /// Returns the number of waiters.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns whether something is kept for any waiter.
    pub(crate) fn has_kept(&self) -> bool {
        self.kept != 0
    }

    /// Returns the number of the last waiter that joined; 0 if there was none yet.
    pub(crate) fn last_number(&self) -> u64 {
        self.joined
    }

    /// Returns the number of the first waiter, and its request.
    #[inline]
    pub(crate) fn head(&self) -> Option<(u64, C)> {
        let (at, slot) = self.head_slot()?;
        let chunk = &self.chunks[at];
        Some((chunk.base + slot as u64, chunk.slots.costs[slot]))
    }

    /// Adds a waiter at the end.
    #[inline]
    pub(crate) fn push(&mut self, cost: C, waker: Waker) -> WaiterId {
        // At one number per nanosecond, they last for 584 years.
        let number = NonZeroU64::MIN.saturating_add(self.joined);
        self.joined += 1;
        let fits = |chunk: &Chunk<C>| number.get() - chunk.base < SIZE as u64;
        if !self.chunks.get(self.tail as usize).is_some_and(fits) {
            self.link(number.get());
        }
        let chunk = &mut self.chunks[self.tail as usize];
        let slot = (number.get() - chunk.base) as usize % SIZE;
        chunk.waiting |= 1 << slot;
        self.len += 1;
        self.largest = self.largest.max(cost.units());
        chunk.slots.costs[slot] = cost;
        chunk.slots.wakers[slot] = Some(waker);
        WaiterId {
            number,
            chunk: self.tail,
        }
    }

    /// Grants the request of the first waiter, and removes it from the queue. Returns its waker.
    #[inline]
    pub(crate) fn grant_head(&mut self) -> Option<Waker> {
        let (at, slot) = self.head_slot()?;
        self.remove(at, slot)
    }

    /// Removes the first waiter from the queue, and keeps `what` in its slot until the waiter
    /// [collects](Self::collect) it. This needs no memory beyond that of the slot.
    pub(crate) fn keep_head(&mut self, what: C) -> Option<Waker> {
        let (at, slot) = self.head_slot()?;
        self.keep(at, slot, what)
    }

    /// Takes the value that is kept for a served waiter; `None` if the waiter was granted.
    pub(crate) fn collect(&mut self, id: &WaiterId) -> Option<C> {
        let (at, slot) = self.find(id, |chunk| chunk.kept)?;
        let chunk = &mut self.chunks[at];
        chunk.kept &= !(1 << slot);
        self.kept -= 1;
        let what = chunk.slots.costs[slot];
        let unused = chunk.kept == 0 && chunk.waiting == 0;
        if self.len == 0 && self.kept == 0 {
            self.reset();
        } else if unused && at as u32 != self.tail {
            self.add_spare(at as u32);
        }
        Some(what)
    }

    /// Returns the requests of the waiters before this one, in their order.
    pub(crate) fn before(&self, id: &WaiterId) -> impl Iterator<Item = C> {
        let number = id.number.get();
        let mut next = self.head;
        let chunks = std::iter::from_fn(move || {
            let chunk = self.chunks.get(next as usize)?;
            next = chunk.next;
            Some(chunk)
        });
        chunks
            .take_while(move |chunk| chunk.base < number)
            .flat_map(move |chunk| {
                let before = usize::try_from(number - chunk.base).unwrap_or(SIZE);
                let waits = |slot: &usize| chunk.waiting & 1 << slot != 0;
                (0..SIZE.min(before))
                    .filter(waits)
                    .map(|slot| chunk.slots.costs[slot])
            })
    }

    /// Returns the request of a waiter, if it still waits.
    pub(crate) fn cost(&self, id: &WaiterId) -> Option<C> {
        let (at, slot) = self.find(id, |chunk| chunk.waiting)?;
        Some(self.chunks[at].slots.costs[slot])
    }

    /// Returns the stored waker of a waiter; `None` if the waiter has been served.
    pub(crate) fn waker(&self, id: &WaiterId) -> Option<&Waker> {
        let (at, slot) = self.find(id, |chunk| chunk.waiting)?;
        self.chunks[at].slots.wakers[slot].as_ref()
    }

    /// Replaces the waker of a waiter, and returns the waker that is not needed: the old one, or
    /// `waker` itself if the waiter has been served in the meantime.
    pub(crate) fn set_waker(&mut self, id: &WaiterId, waker: Waker) -> Option<Waker> {
        match self.find(id, |chunk| chunk.waiting) {
            Some((at, slot)) => self.chunks[at].slots.wakers[slot].replace(waker),
            None => Some(waker),
        }
    }

    /// Gives up a slot, and returns the waker that was stored there. `None` if the waiter has been
    /// served.
    #[inline]
    pub(crate) fn withdraw(&mut self, id: &WaiterId) -> Option<Waker> {
        let (at, slot) = self.find(id, |chunk| chunk.waiting)?;
        self.remove(at, slot)
    }

    /// Removes the waiter in a slot from the queue, keeps `what` there, and returns its waker.
    #[inline(always)]
    fn keep(&mut self, at: usize, slot: usize, what: C) -> Option<Waker> {
        let chunk = &mut self.chunks[at];
        chunk.slots.costs[slot] = what;
        chunk.kept |= 1 << slot;
        self.kept += 1;
        self.remove(at, slot)
    }

    /// Removes the waiter in a slot from the queue, and returns its waker.
    #[inline(always)]
    fn remove(&mut self, at: usize, slot: usize) -> Option<Waker> {
        let chunk = &mut self.chunks[at];
        let left = chunk.waiting & !(1 << slot);
        chunk.waiting = left;
        self.len -= 1;
        let waker = chunk.slots.wakers[slot].take();
        if left == 0 {
            self.emptied(at as u32);
        }
        waker
    }

    /// Returns the chunk of the first waiter and its slot in it.
    #[inline(always)]
    fn head_slot(&self) -> Option<(usize, usize)> {
        let chunk = self.chunks.get(self.head as usize)?;
        let slot = chunk.waiting.trailing_zeros() as usize;
        (slot < SIZE).then_some((self.head as usize, slot))
    }

    /// Returns the chunk of a waiter and its slot in it, if the bit of the slot is set in `bits`.
    #[inline(always)]
    fn find(&self, id: &WaiterId, bits: fn(&Chunk<C>) -> u32) -> Option<(usize, usize)> {
        let chunk = self.chunks.get(id.chunk as usize)?;
        let slot = id.number().wrapping_sub(chunk.base);
        let is_set = slot < SIZE as u64 && bits(chunk) & 1 << slot != 0;
        is_set.then_some((id.chunk as usize, slot as usize))
    }
}

/// The chunks.
impl<C: Units> WaitQueue<C> {
    /// Links a chunk at the tail.
    #[inline(never)]
    fn link(&mut self, base: u64) {
        // A tail without waiters stayed linked only so that its free slots could be filled.
        if self.tail != NONE && self.chunks[self.tail as usize].waiting == 0 {
            self.unlink(self.tail);
        }
        let mut index = self.spare;
        if index == NONE {
            index = self.fresh;
            self.fresh += 1;
        } else {
            self.spare = self.chunks[index as usize].next;
        }
        if index as usize == self.chunks.len() {
            self.chunks.push(Chunk::new());
        }
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

    /// Handles a chunk that the last waiter has left.
    #[inline(never)]
    fn emptied(&mut self, index: u32) {
        if self.len == 0 {
            self.largest = 0;
        }
        if self.len == 0 && self.kept == 0 {
            self.reset();
        } else if index != self.tail {
            self.unlink(index);
        }
    }

    /// Unlinks a chunk from the chain; it becomes a spare when nothing is kept in it.
    fn unlink(&mut self, index: u32) {
        let chunk = &self.chunks[index as usize];
        let (previous, next, kept) = (chunk.previous, chunk.next, chunk.kept);
        match previous {
            NONE => self.head = next,
            _ => self.chunks[previous as usize].next = next,
        }
        match next {
            NONE => self.tail = previous,
            _ => self.chunks[next as usize].previous = previous,
        }
        if kept == 0 {
            self.add_spare(index);
        }
    }

    /// Adds a chunk to the spares.
    fn add_spare(&mut self, index: u32) {
        self.chunks[index as usize].next = self.spare;
        self.spare = index;
    }

    /// Restarts at the front, and frees up to [`AT_ONCE`] chunks beyond twice the maximum that
    /// recent fillings used. That maximum decays by an eighth per filling: one small filling after
    /// a large one frees nothing, and half a dozen of them do.
    fn reset(&mut self) {
        self.head = NONE;
        self.tail = NONE;
        self.spare = NONE;
        self.recent = self.fresh.max(self.recent - self.recent.div_ceil(8));
        self.fresh = 0;
        let need = (2 * self.recent as usize).max(1);
        if self.chunks.len() > need {
            let some_less = self.chunks.len().saturating_sub(AT_ONCE);
            self.chunks.truncate(some_less.max(need));
            if self.chunks.len() <= self.chunks.capacity() / 8 {
                self.chunks.shrink_to(2 * self.chunks.len());
            }
        }
    }
}

impl<C: Units> Chunk<C> {
    #[cold]
    fn new() -> Self {
        Self {
            base: 0,
            waiting: 0,
            kept: 0,
            previous: NONE,
            next: NONE,
            slots: Box::new(Slots {
                wakers: [const { None }; SIZE],
                costs: [C::default(); SIZE],
            }),
        }
    }
}

#[cfg(test)]
mod tests;
