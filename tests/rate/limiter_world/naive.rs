//! A limiter with a line, written in the most obvious way: a queue, a model of what is owed, and
//! time that goes from one due tick to the next.

use std::collections::VecDeque;

use tollgate::{Quota, QuotaChange};

use super::model::{Booked, Hint, Model};

/// What has become of somebody who had to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    InLine,
    Granted {
        at: u64,
        asked: u64,
        charge: Booked,
    },
    /// It asked for more than this, which is what goes at once at most.
    Refused(u64),
    Closed,
}

/// What somebody who tries is told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Charged(Booked),
    Closed,
    Exceeds(u64),
    /// Until the tick; `None` for never.
    Limited(Option<u64>, Hint),
}

#[derive(Clone, Copy)]
struct Place {
    name: usize,
    cost: u64,
}

pub(crate) struct Naive<M> {
    pub(crate) model: M,
    pub(crate) now: u64,
    /// More than what goes at once leaves a debt.
    debts: bool,
    line: VecDeque<Place>,
    /// Of everybody who ever waited, by name.
    fates: Vec<Fate>,
    /// When something happened that may have made the head due: nobody is charged for before.
    changed: u64,
    closed: bool,
}

impl<M: Model> Naive<M> {
    pub(crate) fn new(model: M, debts: bool, now: u64) -> Self {
        Self {
            model,
            now,
            debts,
            line: VecDeque::new(),
            fates: Vec::new(),
            changed: 0,
            closed: false,
        }
    }

    pub(crate) fn waiting(&self) -> usize {
        self.line.len()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(crate) fn fate(&self, name: usize) -> Fate {
        self.fates[name]
    }

    fn is_too_much(&self, cost: u64) -> bool {
        cost > self.model.scale().most && !self.debts
    }

    /// At which tick somebody is admitted with so many in front, if all goes on as it is: each is
    /// charged when it is due, unless it will be refused.
    fn foresee(&self, ahead: usize, cost: u64) -> Option<u64> {
        let ahead = self.line.iter().take(ahead).map(|place| place.cost);
        let ahead: Vec<u64> = ahead.filter(|cost| !self.is_too_much(*cost)).collect();
        self.model.due(self.now, &ahead, cost)
    }

    /// At which tick somebody in line will be admitted.
    pub(crate) fn due_of(&self, name: usize) -> Option<u64> {
        let ahead = self.line.iter().position(|place| place.name == name);
        let ahead = ahead.expect("in line");
        self.foresee(ahead, self.line[ahead].cost)
    }

    /// At which tick the next one is admitted.
    pub(crate) fn due_of_head(&self) -> Option<u64> {
        self.foresee(0, self.line.front()?.cost)
    }

    /// Whether somebody in line will be refused at its head. It is not said when that will be.
    pub(crate) fn is_doomed(&self, name: usize) -> bool {
        let place = self.line.iter().find(|place| place.name == name);
        place.is_some_and(|place| self.is_too_much(place.cost))
    }

    pub(crate) fn try_acquire(&mut self, cost: u64) -> Told {
        if self.closed {
            return Told::Closed;
        }
        if cost == 0 {
            return Told::Charged(self.model.admit(self.now, self.now, 0));
        }
        if self.is_too_much(cost) {
            return Told::Exceeds(self.model.scale().most);
        }
        let due = self.foresee(self.line.len(), cost);
        if !self.line.is_empty() {
            let line: Vec<u64> = self.line.iter().map(|place| place.cost).collect();
            let doomed = line.iter().any(|cost| self.is_too_much(*cost));
            let hint = match self.model.hint(&line, cost) {
                Hint::Exact if doomed => Hint::Late,
                _ if doomed => Hint::Open,
                hint => hint,
            };
            Told::Limited(due, hint)
        } else if due == Some(self.now) {
            Told::Charged(self.model.admit(self.now, self.now, cost))
        } else {
            Told::Limited(due, Hint::Exact)
        }
    }

    /// Joins the line; the name is that of the fate.
    pub(crate) fn join(&mut self, cost: u64) -> usize {
        let name = self.fates.len();
        self.fates.push(Fate::InLine);
        self.line.push_back(Place { name, cost });
        name
    }

    /// Gives up a place, or what was granted.
    pub(crate) fn leave(&mut self, name: usize) {
        match self.fates[name] {
            Fate::InLine => {
                let head = self.line.front().is_some_and(|head| head.name == name);
                self.line.retain(|place| place.name != name);
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

    /// Nothing is given back of what was charged under an earlier quota.
    pub(crate) fn refund(&mut self, charge: Booked, cost: u64) {
        if charge.epoch == self.model.epoch() {
            self.model.refund(self.now, charge, cost);
            self.change();
        }
    }

    pub(crate) fn set_quota(&mut self, quota: Quota, carry: QuotaChange) {
        let before = self.model.epoch();
        self.model.set_quota(self.now, quota, carry);
        if self.model.epoch() != before {
            self.change();
        }
    }

    pub(crate) fn close(&mut self) {
        self.closed = true;
        while let Some(place) = self.line.pop_front() {
            self.fates[place.name] = Fate::Closed;
        }
    }

    /// Something may have made the head due.
    fn change(&mut self) {
        self.changed = self.now;
        self.serve();
    }

    /// Lets go who is due at this tick.
    fn serve(&mut self) {
        while let Some(head) = self.line.front().copied() {
            let fate = if self.is_too_much(head.cost) {
                Fate::Refused(self.model.scale().most)
            } else if self.due_of_head() == Some(self.now) {
                Fate::Granted {
                    at: self.now,
                    asked: head.cost,
                    charge: self.model.admit(self.now, self.changed, head.cost),
                }
            } else {
                return;
            };
            self.line.pop_front();
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
