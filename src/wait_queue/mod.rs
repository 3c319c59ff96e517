//! The line: who waits, in what order, for how much.
//!
//! Stands alone: it knows no permits, no rates and no clock. A throttle keeps one under its lock,
//! decides by [`head`](WaitQueue::head) whether the first waiter can be served, and tells it what came
//! of its wait by [`tell_head`](WaitQueue::tell_head).
//!
//! Invariants:
//!
//! 1. Waiters are numbered as they join, from 1, and no number is used twice. They stand in the
//!    [slab] in the order of their numbers.
//! 2. Only the head is served, so numbers are served in rising order, whatever they ask for: to
//!    know the last number served is to know, of every waiter, whether it has been. A throttle
//!    may publish it, so that a waiter finds out without the lock.
//! 3. A waiter that is [granted](WaitQueue::grant_head) leaves no trace. What is
//!    [kept](WaitQueue::keep_head) for one, or what one was [told](WaitQueue::tell_head), stays until its
//!    ticket collects it.
//! 4. A ticket names a place and the number that waited there. Slots are reused and numbers are
//!    not, so a ticket cannot be taken for a later one.
//! 5. No waker is called, cloned or dropped in here: they come in by value and go out by value, so
//!    the owner of the lock decides where foreign code runs, which is after the lock.
//! 6. Joining, being granted and leaving take a constant number of steps.

mod slab;
mod wake;

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::task::Waker;

use self::slab::WaiterSlab;
pub(crate) use self::wake::WakeList;

/// A first-in first-out line of waiters, who ask for a `C` each, and of whom some are told a `T` in
/// the end.
pub(crate) struct WaitQueue<C, T> {
    waiting: WaiterSlab<C>,
    /// What was told and not collected. Nobody is told anything on the ordinary ways.
    told: BTreeMap<NonZeroU64, T>,
    joined: u64,
}

/// The right to a place in a line: to be given up by [`WaitQueue::withdraw`], or, when the waiter has
/// been told something, by [`WaitQueue::collect`].
#[derive(Debug)]
pub(crate) struct WaiterId {
    number: NonZeroU64,
    index: u32,
}

/// A waiter that has been served: its waker is to be called after the lock.
pub(crate) struct Woken {
    pub(crate) number: NonZeroU64,
    pub(crate) waker: Waker,
}

/// What a waiter finds when it looks at its place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WaiterStatus {
    /// Still in line, and the waker that it left is the right one.
    Waiting,
    /// Still in line, but it left another waker.
    StaleWaker,
    /// Served: granted, or told something, which is to be collected.
    Served,
}

impl WaiterId {
    /// The number that waits.
    pub(crate) fn number(&self) -> NonZeroU64 {
        self.number
    }
}

impl<C: Copy + Default, T> WaitQueue<C, T> {
    pub(crate) const fn new() -> Self {
        Self {
            waiting: WaiterSlab::new(),
            told: BTreeMap::new(),
            joined: 0,
        }
    }

    /// How many are waiting.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.len() == 0
    }

    /// The number of the last waiter that joined; 0 when nobody ever did.
    pub(crate) fn last_number(&self) -> u64 {
        self.joined
    }

    /// The number of the first waiter.
    pub(crate) fn head_number(&self) -> Option<u64> {
        self.waiting.first_number()
    }

    /// Whether somebody has been told something and has not collected it.
    pub(crate) fn has_told(&self) -> bool {
        !self.told.is_empty()
    }

    /// Whether there is no room left for another waiter.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.is_full()
    }

    /// Joins at the end. Not to be called when the line [is full](Self::is_full).
    #[inline]
    pub(crate) fn push(&mut self, cost: C, waker: Waker) -> WaiterId {
        // At one a nanosecond, numbers last for 584 years.
        let number = NonZeroU64::MIN.saturating_add(self.joined);
        self.joined += 1;
        let index = self.waiting.push(number, cost, waker);
        WaiterId { number, index }
    }

    /// What the first waiter asks for.
    #[inline]
    pub(crate) fn head(&self) -> Option<C> {
        self.waiting.first()
    }

    /// Gives the first waiter what it asks for, and takes it out of the line.
    #[inline]
    pub(crate) fn grant_head(&mut self) -> Option<Woken> {
        self.waiting.pop_first()
    }

    /// Takes the first waiter out of the line, and keeps `what` in its place, until it
    /// [collects](Self::collect_kept) that. Where everybody gets something, this is what it is for:
    /// no memory is needed beyond that of the place.
    pub(crate) fn keep_head(&mut self, what: C) -> Option<Woken> {
        self.waiting.keep_first(what)
    }

    /// Takes what was kept for a waiter that has been served.
    pub(crate) fn collect_kept(&mut self, ticket: &WaiterId) -> Option<C> {
        self.waiting.collect(ticket.index, ticket.number)
    }

    /// What those ask for who wait before this waiter, in their order.
    pub(crate) fn before(&self, ticket: &WaiterId) -> impl Iterator<Item = C> {
        self.waiting.before(ticket.number)
    }

    /// What a waiter asks for, if it still waits; to be changed.
    pub(crate) fn cost_mut(&mut self, ticket: &WaiterId) -> Option<&mut C> {
        self.waiting.cost_mut(ticket.index, ticket.number)
    }

    /// Tells the first waiter an outcome, and takes it out of the line.
    pub(crate) fn tell_head(&mut self, outcome: T) -> Option<Woken> {
        let served = self.waiting.pop_first()?;
        self.told.insert(served.number, outcome);
        Some(served)
    }

    /// Looks whether a waiter has been served.
    pub(crate) fn look(&self, ticket: &WaiterId, waker: &Waker) -> WaiterStatus {
        match self.waiting.waker(ticket.index, ticket.number) {
            Some(left) if left.will_wake(waker) => WaiterStatus::Waiting,
            Some(_) => WaiterStatus::StaleWaker,
            None => WaiterStatus::Served,
        }
    }

    /// Exchanges the waker of a waiter, and gives back the one that is not needed: the old one, or
    /// `waker` itself when the waiter has been served in the meantime.
    pub(crate) fn set_waker(&mut self, ticket: &WaiterId, waker: Waker) -> Waker {
        match self.waiting.waker_mut(ticket.index, ticket.number) {
            Some(left) => std::mem::replace(left, waker),
            None => waker,
        }
    }

    /// Gives up a place, and gives back the waker that was left there. `None` if the waiter has
    /// been served.
    #[inline]
    pub(crate) fn withdraw(&mut self, ticket: &WaiterId) -> Option<Waker> {
        self.waiting.remove(ticket.index, ticket.number)
    }

    /// What a waiter that has been served was told; `None` if it was granted.
    pub(crate) fn collect(&mut self, ticket: WaiterId) -> Option<T> {
        self.told.remove(&ticket.number)
    }
}

#[cfg(test)]
mod tests;
