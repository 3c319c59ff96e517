//! The line: who waits, in what order, for how much.
//!
//! Stands alone: it knows no permits, no rates and no clock. A throttle keeps one under its lock,
//! decides by [`head`](Line::head) whether the first waiter can be served, and tells it what came
//! of its wait by [`settle_head`](Line::settle_head).
//!
//! Invariants:
//!
//! 1. Waiters are numbered as they join, from 1, and no number is used twice. The waiting ones, and
//!    no others, are linked from `head` to `tail` in the order of their numbers; `len` counts them.
//! 2. Only the head is served, so numbers are served in rising order, whatever they ask for: to
//!    know the last number served is to know, of every waiter, whether it has been. A throttle
//!    may publish it, so that a waiter finds out without the lock.
//! 3. A waiter that is [granted](Line::grant_head) leaves no trace. One that is
//!    [told](Line::settle_head) an outcome keeps its slot until its ticket leaves.
//! 4. A ticket names a slot and the number that waited there. Slots are reused and numbers are not,
//!    so a ticket cannot be taken for a later one.
//! 5. No waker is called, cloned or dropped in here: they come in by value and go out by value, so
//!    the owner of the lock decides where foreign code runs, which is after the lock.
//! 6. Joining, serving and leaving take a constant number of steps.

mod arena;
mod wake;

use std::num::NonZeroU64;
use std::task::Waker;

use self::arena::{Arena, NONE};
pub(crate) use self::wake::WakeBatch;

/// A first-in first-out line of waiters, who ask for a `C` each, and of whom some are told a `T` in
/// the end.
pub(crate) struct Line<C, T> {
    arena: Arena<Place<C, T>>,
    joined: u64,
    head: u32,
    tail: u32,
    len: u32,
}

/// The right to a place in a line, to be given up by [`Line::leave`] unless the waiter has been
/// granted.
#[derive(Debug)]
pub(crate) struct Ticket {
    number: NonZeroU64,
    index: u32,
}

struct Place<C, T> {
    number: NonZeroU64,
    state: State<C, T>,
}

enum State<C, T> {
    Waiting(Waiter<C>),
    Settled(T),
}

struct Waiter<C> {
    waker: Waker,
    cost: C,
    previous: u32,
    next: u32,
}

/// A waiter that has been served: its waker is to be called after the lock.
pub(crate) struct Served {
    pub(crate) number: NonZeroU64,
    pub(crate) waker: Waker,
}

/// What a waiter finds when it looks at its place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Still in line, and the waker that it left is the right one.
    Waiting,
    /// Still in line, but it left another waker.
    StaleWaker,
    /// Told something, which is to be collected.
    Settled,
    /// Granted.
    Granted,
}

/// What a waiter gave up by leaving.
#[derive(Debug)]
pub(crate) enum Left<T> {
    /// Its place; `first` when that was the head of the line.
    Place { waker: Waker, first: bool },
    /// An outcome that it had not collected.
    Settled(T),
    /// What it was granted.
    Granted,
}

impl Ticket {
    /// The number that waits.
    pub(crate) fn number(&self) -> NonZeroU64 {
        self.number
    }
}

impl<C: Copy, T> Line<C, T> {
    pub(crate) const fn new() -> Self {
        Self {
            arena: Arena::new(),
            joined: 0,
            head: NONE,
            tail: NONE,
            len: 0,
        }
    }

    /// How many are waiting.
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether somebody has been told something and has not collected it.
    pub(crate) fn has_settled(&self) -> bool {
        self.arena.used() != self.len
    }

    /// Whether there is no slot left for another waiter.
    pub(crate) fn is_full(&self) -> bool {
        self.arena.used() == Arena::<Place<C, T>>::MAX
    }

    /// Joins at the end. Not to be called when the line [is full](Self::is_full).
    #[inline]
    pub(crate) fn push(&mut self, cost: C, waker: Waker) -> Ticket {
        // At one a nanosecond, numbers last for 584 years.
        let number = NonZeroU64::MIN.saturating_add(self.joined);
        self.joined += 1;
        let previous = self.tail;
        let state = State::Waiting(Waiter {
            waker,
            cost,
            previous,
            next: NONE,
        });
        let index = self.arena.insert(Place { number, state });
        match previous {
            NONE => self.head = index,
            _ => self.waiter_mut(previous).next = index,
        }
        self.tail = index;
        self.len += 1;
        Ticket { number, index }
    }

    /// The number of the last waiter that joined; 0 when nobody ever did.
    pub(crate) fn last_number(&self) -> u64 {
        self.joined
    }

    /// The number of the first waiter.
    pub(crate) fn head_number(&self) -> Option<u64> {
        Some(self.arena.get(self.head)?.number.get())
    }

    /// What the first waiter asks for.
    #[inline]
    pub(crate) fn head(&self) -> Option<C> {
        match &self.arena.get(self.head)?.state {
            State::Waiting(waiter) => Some(waiter.cost),
            State::Settled(_) => None,
        }
    }

    /// Gives the first waiter what it asks for, and takes it out of the line.
    #[inline]
    pub(crate) fn grant_head(&mut self) -> Option<Served> {
        if self.head == NONE {
            return None;
        }
        let place = self.arena.remove(self.head);
        self.serve(place)
    }

    /// Tells the first waiter an outcome, and takes it out of the line.
    pub(crate) fn settle_head(&mut self, outcome: T) -> Option<Served> {
        let place = self.arena.get_mut(self.head)?;
        let settled = Place {
            number: place.number,
            state: State::Settled(outcome),
        };
        let place = std::mem::replace(place, settled);
        self.serve(place)
    }

    #[inline]
    fn serve(&mut self, place: Place<C, T>) -> Option<Served> {
        let State::Waiting(waiter) = place.state else {
            unreachable!("the head is settled");
        };
        self.unlink(&waiter);
        Some(Served {
            number: place.number,
            waker: waiter.waker,
        })
    }

    /// Looks whether a waiter has been served.
    pub(crate) fn look(&self, ticket: &Ticket, waker: &Waker) -> Look {
        match self.arena.get(ticket.index) {
            Some(place) if place.number == ticket.number => match &place.state {
                State::Settled(_) => Look::Settled,
                State::Waiting(waiter) if waiter.waker.will_wake(waker) => Look::Waiting,
                State::Waiting(_) => Look::StaleWaker,
            },
            _ => Look::Granted,
        }
    }

    /// Exchanges the waker of a waiter, and gives back the one that is not needed: the old one, or
    /// `waker` itself when the waiter has been served in the meantime.
    pub(crate) fn set_waker(&mut self, ticket: &Ticket, waker: Waker) -> Waker {
        match self.arena.get_mut(ticket.index) {
            Some(place) if place.number == ticket.number => match &mut place.state {
                State::Waiting(waiter) => std::mem::replace(&mut waiter.waker, waker),
                State::Settled(_) => waker,
            },
            _ => waker,
        }
    }

    /// Gives up a place, or what came of it.
    pub(crate) fn leave(&mut self, ticket: Ticket) -> Left<T> {
        match self.arena.get(ticket.index) {
            Some(place) if place.number == ticket.number => {}
            _ => return Left::Granted,
        }
        match self.arena.remove(ticket.index).state {
            State::Settled(outcome) => Left::Settled(outcome),
            State::Waiting(waiter) => {
                let first = self.head == ticket.index;
                self.unlink(&waiter);
                Left::Place {
                    waker: waiter.waker,
                    first,
                }
            }
        }
    }

    /// Closes the gap that a waiter leaves.
    #[inline]
    fn unlink(&mut self, waiter: &Waiter<C>) {
        match waiter.previous {
            NONE => self.head = waiter.next,
            previous => self.waiter_mut(previous).next = waiter.next,
        }
        match waiter.next {
            NONE => self.tail = waiter.previous,
            next => self.waiter_mut(next).previous = waiter.previous,
        }
        self.len -= 1;
    }

    fn waiter_mut(&mut self, index: u32) -> &mut Waiter<C> {
        match self.arena.get_mut(index).map(|place| &mut place.state) {
            Some(State::Waiting(waiter)) => waiter,
            _ => unreachable!("slot {index} is linked, and nobody waits there"),
        }
    }
}

#[cfg(test)]
mod tests;
