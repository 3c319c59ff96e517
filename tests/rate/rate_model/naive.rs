//! A limiter with a queue, written in the most obvious way: a list, a model of the debt, and time
//! that goes from one due tick to the next.

use std::collections::VecDeque;

use tollgate::Quota;
use tollgate::rate::QuotaChange;

use super::model::{Booked, Hint, Model};

/// The state of a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Queued,
    Granted {
        at: u64,
        asked: u64,
        charge: Booked,
    },
    /// It asked for more than this limit on a single call.
    Refused(u64),
    Closed,
}

/// The answer to a call that does not wait.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Charged(Booked),
    Closed,
    Exceeds(u64),
    /// Until the tick; `None` means never.
    Limited(Option<u64>, Hint),
    /// It would wait, and there is no slot until the tick.
    Full(Option<u64>),
}

#[derive(Clone, Copy)]
struct QueuedCall {
    name: usize,
    cost: u64,
    since: u64,
}

pub(crate) struct Naive {
    pub(crate) model: Box<dyn Model>,
    pub(crate) now: u64,
    /// A cost above the burst leaves a debt.
    debts: bool,
    max_waiters: usize,
    queue: VecDeque<QueuedCall>,
    /// All waiters so far, by name.
    fates: Vec<Fate>,
    /// The time of the last event that may have made the head due: no charge is earlier.
    changed: u64,
    closed: bool,
}

impl Naive {
    pub(crate) fn new(model: Box<dyn Model>, debts: bool, max_waiters: usize, now: u64) -> Self {
        Self {
            model,
            now,
            debts,
            max_waiters,
            queue: VecDeque::new(),
            fates: Vec::new(),
            changed: 0,
            closed: false,
        }
    }

    pub(crate) fn waiting(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(crate) fn fate(&self, name: usize) -> Fate {
        self.fates[name]
    }

    /// Returns when the head joined.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.queue.front().map(|head| head.since)
    }

    /// Returns whether this cost is never admitted.
    pub(crate) fn is_too_much(&self, cost: u64) -> bool {
        cost > self.model.scale().most && !self.debts
    }

    /// Returns the tick of a call with this many waiters in front, if nothing else changes: each is
    /// charged when it is due.
    fn foresee(&self, ahead: usize, cost: u64) -> Option<u64> {
        let ahead = self.queue.iter().take(ahead).map(|place| place.cost);
        let ahead: Vec<u64> = ahead.collect();
        self.model.due(self.now, &ahead, cost)
    }

    /// Returns the tick at which a call that comes now would be admitted.
    pub(crate) fn due_of_next(&self, cost: u64) -> Option<u64> {
        self.foresee(self.queue.len(), cost)
    }

    /// Returns the tick at which a waiter will be admitted.
    pub(crate) fn due_of(&self, name: usize) -> Option<u64> {
        let place = self.queue.iter().position(|place| place.name == name);
        let place = place.expect("it waits");
        self.foresee(place, self.queue[place].cost)
    }

    /// Returns the tick at which the next waiter is admitted.
    pub(crate) fn due_of_head(&self) -> Option<u64> {
        self.foresee(0, self.queue.front()?.cost)
    }

    pub(crate) fn try_acquire(&mut self, cost: u64) -> Answer {
        if self.closed {
            return Answer::Closed;
        }
        if cost == 0 {
            return Answer::Charged(self.model.admit(self.now, self.now, 0));
        }
        if self.is_too_much(cost) {
            return Answer::Exceeds(self.model.scale().most);
        }
        let due = self.due_of_next(cost);
        if !self.queue.is_empty() {
            let queue: Vec<u64> = self.queue.iter().map(|place| place.cost).collect();
            Answer::Limited(due, self.model.hint(&queue, cost))
        } else if due == Some(self.now) {
            Answer::Charged(self.model.admit(self.now, self.now, cost))
        } else {
            Answer::Limited(due, Hint::Exact)
        }
    }

    /// Returns the answer to a call that waits if it is limited.
    pub(crate) fn acquire(&mut self, cost: u64) -> Answer {
        match self.try_acquire(cost) {
            Answer::Limited(due, _) if self.waiting() >= self.max_waiters => {
                Answer::Full(if self.waiting() > 0 {
                    self.due_of_head()
                } else {
                    due
                })
            }
            answer => answer,
        }
    }

    /// Joins the queue; the name is that of the fate.
    pub(crate) fn join(&mut self, cost: u64) -> usize {
        let name = self.fates.len();
        self.fates.push(Fate::Queued);
        let since = self.now;
        self.queue.push_back(QueuedCall { name, cost, since });
        name
    }

    /// Gives up a place or a grant.
    pub(crate) fn leave(&mut self, name: usize) {
        match self.fates[name] {
            Fate::Queued => {
                let head = self.queue.front().is_some_and(|head| head.name == name);
                self.queue.retain(|place| place.name != name);
                if head {
                    self.change();
                }
            }
            Fate::Granted { charge, .. } => self.refund(charge, charge.cost),
            Fate::Refused(_) | Fate::Closed => {}
        }
    }

    pub(crate) fn charge(&mut self, cost: u64) -> Booked {
        self.model.charge(self.now, cost)
    }

    /// Refunds a charge. A charge under an earlier quota gives nothing back.
    pub(crate) fn refund(&mut self, charge: Booked, cost: u64) {
        if charge.epoch == self.model.epoch() {
            self.model.refund(self.now, charge, cost);
            self.change();
        }
    }

    pub(crate) fn set_quota(&mut self, quota: Quota, carry: QuotaChange) {
        let before = self.model.epoch();
        self.model.set_quota(self.now, quota, carry);
        let queue = std::mem::take(&mut self.queue).into_iter();
        for place in queue {
            if self.is_too_much(place.cost) {
                self.fates[place.name] = Fate::Refused(self.model.scale().most);
            } else {
                self.queue.push_back(place);
            }
        }
        if self.model.epoch() != before {
            self.change();
        }
    }

    pub(crate) fn close(&mut self) {
        self.closed = true;
        while let Some(place) = self.queue.pop_front() {
            self.fates[place.name] = Fate::Closed;
        }
    }

    /// Notes an event that may have made the head due.
    fn change(&mut self) {
        self.changed = self.now;
        self.serve();
    }

    /// Grants every waiter that is due at this tick.
    fn serve(&mut self) {
        while let Some(head) = self.queue.front().copied() {
            let fate = if self.due_of_head() == Some(self.now) {
                let charge = self.model.admit(self.now, self.changed, head.cost);
                Fate::Granted {
                    at: self.now,
                    asked: head.cost,
                    charge,
                }
            } else {
                return;
            };
            self.queue.pop_front();
            self.fates[head.name] = fate;
        }
    }

    pub(crate) fn advance(&mut self, nanos: u64) {
        let target = self.now.saturating_add(nanos);
        while let Some(due) = self.due_of_head().filter(|due| *due <= target) {
            self.now = due;
            self.serve();
        }
        self.now = target;
    }
}
