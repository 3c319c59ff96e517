//! The line for one semaphore in this process.
//!
//! 1. First-in first-out. Those in front are asked for together, each with its ticket, whose number
//!    is its place among all processes.
//! 2. Whoever gives up is passed over, and its ticket is given back.
//! 3. Who only tries is asked for once.
//!
//! Times are given, none is read here.

use std::collections::VecDeque;
use std::time::Instant;

use tokio::sync::oneshot;
use tollgate::{AcquireError, ErrorKind};

use super::guard::Lease;

pub(super) type Answer = crate::wait::Answer<Lease>;

/// How many permits one lease may have: each is a member on the server.
pub(super) const MOST_PERMITS: u64 = 4096;

/// How many are asked for in a call.
pub(super) const MOST_ASKED: usize = 256;

/// Somebody who waits, or tries.
pub(super) struct Waiter {
    /// Of the lease that is to be.
    pub(super) id: String,
    pub(super) n: u32,
    pub(super) tries: bool,
    /// The number of the ticket, or 0 before there is one.
    pub(super) ticket: u64,
    /// Will not wait for longer.
    pub(super) until: Option<Instant>,
    pub(super) answer: oneshot::Sender<Answer>,
}

/// What is asked for a waiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) id: String,
    pub(super) n: u32,
    pub(super) ticket: u64,
    pub(super) stays: bool,
}

#[derive(Default)]
pub(super) struct Line {
    pub(super) waiters: VecDeque<Waiter>,
    /// Tickets of those who gave up.
    leaving: Vec<(String, u32)>,
    /// To be told, under no lock.
    pub(super) refused: Vec<(Waiter, AcquireError)>,
    /// When to ask again for those who have a ticket.
    pub(super) again: Option<Instant>,
    /// How often there may have come to be room.
    stirs: u64,
}

/// What to do next for the line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nobody is in it.
    Nothing,
    /// Give back these tickets.
    Leave(Vec<(String, u32)>),
    /// Ask for these.
    Ask(Vec<Asked>),
    /// Look again then.
    Wait(Instant),
}

/// How many permits can be had at once. With none at all one waits, as they may come.
pub(super) fn capacity(permits: u64) -> u64 {
    if permits == 0 {
        MOST_PERMITS
    } else {
        permits.min(MOST_PERMITS)
    }
}

impl Line {
    /// There may be room: those who have a ticket are asked for at once.
    pub(super) fn stir(&mut self) {
        self.again = None;
        self.stirs += 1;
    }

    /// To be read before the server is asked.
    pub(super) fn stirs(&self) -> u64 {
        self.stirs
    }

    /// Those who have a ticket are asked for again then; or at once, if there has come to be room
    /// since the server was asked, which may have been after it had looked.
    pub(super) fn ask_again(&mut self, again: Instant, stirs: u64) {
        self.again = (self.stirs == stirs).then_some(again);
    }

    /// Whether somebody has waited already, and so goes first.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiters.iter().any(|waiter| waiter.ticket > 0)
    }

    /// Passes over those who gave up, refuses what cannot be, and says what to do.
    pub(super) fn next(&mut self, permits: u64, now: Instant) -> Next {
        let capacity = capacity(permits);
        let mut kept = VecDeque::with_capacity(self.waiters.len());
        for waiter in std::mem::take(&mut self.waiters) {
            let fits = u64::from(waiter.n) <= capacity;
            if fits && !waiter.answer.is_closed() {
                kept.push_back(waiter);
            } else {
                self.refuse(waiter, AcquireError::exceeds_capacity(capacity));
            }
        }
        self.waiters = kept;
        if !self.leaving.is_empty() {
            return Next::Leave(std::mem::take(&mut self.leaving));
        }
        if self.waiters.is_empty() {
            self.again = None;
            return Next::Nothing;
        }
        let mut front = self.waiters.iter().take(MOST_ASKED);
        match self.again {
            Some(again) if now < again && front.all(|waiter| waiter.ticket > 0) => {
                Next::Wait(again)
            }
            _ => Next::Ask(self.front()),
        }
    }

    fn front(&self) -> Vec<Asked> {
        let front = self.waiters.iter().take(MOST_ASKED);
        front
            .map(|waiter| Asked {
                id: waiter.id.clone(),
                n: waiter.n,
                ticket: waiter.ticket,
                stays: !waiter.tries,
            })
            .collect()
    }

    /// Takes out those in front, to be answered.
    pub(super) fn take(&mut self, count: usize) -> Vec<Waiter> {
        let count = count.min(self.waiters.len());
        self.waiters.drain(..count).collect()
    }

    /// Puts back those who wait on, in their order.
    pub(super) fn put_back(&mut self, waiters: Vec<Waiter>) {
        for waiter in waiters.into_iter().rev() {
            self.waiters.push_front(waiter);
        }
    }

    /// Somebody who is taken out is to be told why, and leaves the ticket.
    pub(super) fn refuse(&mut self, waiter: Waiter, error: AcquireError) {
        if waiter.ticket > 0 {
            self.leaving.push((waiter.id.clone(), waiter.n));
        }
        self.refused.push((waiter, error));
    }

    pub(super) fn close(&mut self) {
        for waiter in self.take(usize::MAX) {
            self.refuse(waiter, AcquireError::new(ErrorKind::Closed));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn waiter(id: &str, n: u32, ticket: u64) -> (Waiter, oneshot::Receiver<Answer>) {
        let (answer, receiver) = oneshot::channel();
        let waiter = Waiter {
            id: id.to_owned(),
            n,
            tries: false,
            ticket,
            until: None,
            answer,
        };
        (waiter, receiver)
    }

    #[test]
    fn newcomers_are_asked_for_at_once_and_others_when_it_is_time() {
        let now = Instant::now();
        let again = now + Duration::from_secs(1);
        let mut line = Line::default();
        assert_eq!(line.next(1, now), Next::Nothing);
        let (first, _first) = waiter("a", 1, 7);
        line.waiters.push_back(first);
        line.again = Some(again);
        assert_eq!(line.next(1, now), Next::Wait(again));
        let (second, _second) = waiter("b", 1, 0);
        line.waiters.push_back(second);
        let Next::Ask(asked) = line.next(1, now) else {
            panic!("a newcomer is asked for");
        };
        let tickets: Vec<_> = asked.iter().map(|asked| asked.ticket).collect();
        assert_eq!(tickets, [7, 0], "in their order, with their tickets");
    }

    #[test]
    fn room_that_came_while_the_server_was_asked_is_not_forgotten() {
        let now = Instant::now();
        let again = now + Duration::from_secs(1);
        let mut line = Line::default();
        let (first, _first) = waiter("a", 1, 7);
        line.waiters.push_back(first);
        let stirs = line.stirs();
        line.stir();
        line.ask_again(again, stirs);
        assert!(matches!(line.next(1, now), Next::Ask(_)));
        let stirs = line.stirs();
        line.ask_again(again, stirs);
        assert_eq!(line.next(1, now), Next::Wait(again));
    }

    #[test]
    fn who_gave_up_leaves_its_ticket() {
        let now = Instant::now();
        let mut line = Line::default();
        let (first, dropped) = waiter("a", 2, 7);
        line.waiters.push_back(first);
        drop(dropped);
        assert_eq!(line.next(4, now), Next::Leave(vec![("a".to_owned(), 2)]));
        assert_eq!(line.next(4, now), Next::Nothing);
    }

    #[test]
    fn what_cannot_be_is_refused_but_not_while_there_are_no_permits() {
        let now = Instant::now();
        let mut line = Line::default();
        let (first, mut receiver) = waiter("a", 3, 0);
        line.waiters.push_back(first);
        assert!(matches!(line.next(0, now), Next::Ask(_)));
        assert_eq!(line.next(2, now), Next::Nothing);
        assert!(receiver.try_recv().is_err(), "not under the lock");
        let (waiter, error) = line.refused.pop().unwrap();
        waiter.answer.send(Err(error)).unwrap();
        let refused = receiver.try_recv().unwrap().unwrap_err();
        assert_eq!(refused.capacity(), Some(2));
    }

    #[test]
    fn who_waits_on_stays_before_who_came_meanwhile() {
        let mut line = Line::default();
        let mut receivers = Vec::new();
        for id in ["a", "b"] {
            let (waiter, receiver) = waiter(id, 1, 0);
            line.waiters.push_back(waiter);
            receivers.push(receiver);
        }
        let asked = line.take(2);
        let (late, _late) = waiter("c", 1, 0);
        line.waiters.push_back(late);
        line.put_back(asked);
        let ids: Vec<_> = line.waiters.iter().map(|one| one.id.as_str()).collect();
        assert_eq!(ids, ["a", "b", "c"]);
    }
}
