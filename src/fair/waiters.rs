//! [`Waiters`]: the slots of all waiters, and a [`List`] of the waiters of each class.
//!
//! 1. A slot is free, or it belongs to one future, which frees it: by leaving, or by collecting what
//!    it was given. So the index of a slot is a sufficient id.
//! 2. Waiters of a class are linked in the order in which they joined. Joining, leaving and being
//!    served take a constant number of steps, wherever the waiter is.
//! 3. Slots are stored in chunks of 32, which are filled from the first one, so a call moves no
//!    waiters to a larger vector. A call that frees the last slot in use frees the memory of at most
//!    [`AT_ONCE`] chunks. So no call takes longer because many wait.
//! 4. No waker is called, cloned or dropped in here.

use std::task::Waker;

use crate::time::Tick;

/// No slot: the end of a list.
const NONE: u32 = u32::MAX;
/// The number of slots of a chunk.
const SIZE: usize = 32;
/// The number of chunks that are kept when no slot is in use.
const KEPT: usize = 32;
/// The number of chunks that are freed at once: the caller that frees the last slot in use does this
/// under the lock.
const AT_ONCE: usize = 128;

/// Slots of waiters that are given a `G`, and how each enters the throttle.
pub(super) struct Waiters<E, G> {
    chunks: Vec<Box<[Slot<E, G>; SIZE]>>,
    /// The chain of the slots that are free again.
    free: u32,
    /// Slots below this have been in use since no slot was.
    fresh: u32,
    used: usize,
    waiting: usize,
    joined: u64,
}

enum Slot<E, G> {
    Free(u32),
    Waiting(Waiter<E>),
    Served(G),
}

/// What a caller asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<E> {
    pub(super) cost: u64,
    /// How the throttle is entered for it.
    pub(super) enter: E,
}

/// A waiter in a list.
pub(super) struct Waiter<E> {
    /// The number of the waiter: later waiters have higher ones.
    pub(super) number: u64,
    pub(super) since: Tick,
    pub(super) request: Request<E>,
    /// The index of the class.
    pub(super) class: usize,
    pub(super) waker: Option<Waker>,
    previous: u32,
    next: u32,
}

/// The first and the last waiter of a class.
#[derive(Clone, Copy)]
pub(super) struct List {
    head: u32,
    tail: u32,
    len: usize,
}

/// The slot of a waiter.
pub(super) type WaiterId = u32;

impl List {
    pub(super) const fn new() -> Self {
        Self {
            head: NONE,
            tail: NONE,
            len: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the oldest waiter.
    pub(super) fn oldest(&self) -> Option<WaiterId> {
        (self.len > 0).then_some(self.head)
    }

    /// Returns the newest waiter.
    pub(super) fn newest(&self) -> Option<WaiterId> {
        (self.len > 0).then_some(self.tail)
    }
}

impl<E, G> Waiters<E, G> {
    pub(super) const fn new() -> Self {
        Self {
            chunks: Vec::new(),
            free: NONE,
            fresh: 0,
            used: 0,
            waiting: 0,
            joined: 0,
        }
    }

    /// Returns the number of waiters that were not served.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns whether there is no slot left.
    pub(super) fn is_full(&self) -> bool {
        self.used >= NONE as usize
    }

    /// Adds a waiter at the end of the list of a class. Do not call it when the slots
    /// [are full](Self::is_full).
    pub(super) fn push(
        &mut self,
        list: &mut List,
        class: usize,
        request: Request<E>,
        since: Tick,
    ) -> WaiterId {
        self.joined += 1;
        let slot = Slot::Waiting(Waiter {
            number: self.joined,
            since,
            request,
            class,
            waker: None,
            previous: list.tail,
            next: NONE,
        });
        let id = self.free_slot();
        if let Some(free) = self.slot(id) {
            *free = slot;
        }
        self.used += 1;
        self.waiting += 1;
        match self.get_mut(list.tail) {
            Some(last) => last.next = id,
            None => list.head = id,
        }
        list.tail = id;
        list.len += 1;
        id
    }

    /// Returns a waiter, unless it was served.
    pub(super) fn get(&self, id: WaiterId) -> Option<&Waiter<E>> {
        match &self.chunks.get(id as usize / SIZE)?[id as usize % SIZE] {
            Slot::Waiting(waiter) => Some(waiter),
            _ => None,
        }
    }

    /// Returns a waiter, unless it was served.
    pub(super) fn get_mut(&mut self, id: WaiterId) -> Option<&mut Waiter<E>> {
        match self.slot(id)? {
            Slot::Waiting(waiter) => Some(waiter),
            _ => None,
        }
    }

    /// Removes a waiter from its list, and keeps what it is given in its slot. Returns the waiter.
    pub(super) fn serve(&mut self, list: &mut List, id: WaiterId, given: G) -> Option<Waiter<E>> {
        self.unlink(list, id, Slot::Served(given))
    }

    /// Removes a waiter that leaves from its list, and frees its slot. Returns the waiter.
    pub(super) fn leave(&mut self, list: &mut List, id: WaiterId) -> Option<Waiter<E>> {
        let waiter = self.unlink(list, id, Slot::Free(self.free))?;
        self.freed(id);
        Some(waiter)
    }

    /// Takes what a waiter was given, and frees its slot.
    pub(super) fn collect(&mut self, id: WaiterId) -> Option<G> {
        let free = Slot::Free(self.free);
        let slot = self.slot(id)?;
        match std::mem::replace(slot, free) {
            Slot::Served(given) => {
                self.freed(id);
                Some(given)
            }
            other => {
                *slot = other;
                None
            }
        }
    }

    fn slot(&mut self, id: WaiterId) -> Option<&mut Slot<E, G>> {
        let chunk = self.chunks.get_mut(id as usize / SIZE)?;
        Some(&mut chunk[id as usize % SIZE])
    }

    /// Returns a slot that is not in use.
    fn free_slot(&mut self) -> WaiterId {
        if let Some(Slot::Free(next)) = self.slot(self.free) {
            let next = *next;
            return std::mem::replace(&mut self.free, next);
        }
        if self.fresh as usize == self.chunks.len() * SIZE {
            let chunk = Box::new([const { Slot::Free(NONE) }; SIZE]);
            self.chunks.push(chunk);
        }
        self.fresh += 1;
        self.fresh - 1
    }

    fn freed(&mut self, id: WaiterId) {
        self.free = id;
        self.used -= 1;
        if self.used == 0 {
            self.free = NONE;
            self.fresh = 0;
            let some_less = self.chunks.len().saturating_sub(AT_ONCE);
            self.chunks.truncate(some_less.max(KEPT));
        }
    }

    /// Replaces the slot of a waiter, and links its neighbours.
    fn unlink(&mut self, list: &mut List, id: WaiterId, with: Slot<E, G>) -> Option<Waiter<E>> {
        let slot = self.slot(id)?;
        let waiter = match std::mem::replace(slot, with) {
            Slot::Waiting(waiter) => waiter,
            other => {
                *slot = other;
                return None;
            }
        };
        match self.get_mut(waiter.previous) {
            Some(previous) => previous.next = waiter.next,
            None => list.head = waiter.next,
        }
        match self.get_mut(waiter.next) {
            Some(next) => next.previous = waiter.previous,
            None => list.tail = waiter.previous,
        }
        list.len -= 1;
        self.waiting -= 1;
        Some(waiter)
    }
}
