//! A limiter with a line, written in the most obvious way: a queue, a model, and time that goes
//! from one due tick to the next.

use std::collections::VecDeque;

use tollgate::{Algorithm, Carry, Quota};

use super::rule::{Booked, Rule};

/// What has become of somebody who had to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    InLine,
    Granted {
        at: u64,
        charge: Booked,
    },
    /// It asked for more than this limit.
    Refused(u64),
    Closed,
}

/// What somebody who tries is told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Charged(Booked),
    Closed,
    Exceeds(u64),
    /// Until the tick, or never. Behind a line it may be told an earlier one.
    Limited {
        due: Option<u64>,
        behind: bool,
    },
}

#[derive(Clone, Copy)]
struct Place {
    name: usize,
    cost: u64,
}

pub(crate) struct Naive {
    /// More than the limit leaves a debt.
    debts: bool,
    pub(crate) now: u64,
    pub(crate) rule: Rule,
    epoch: usize,
    line: VecDeque<Place>,
    /// Of everybody who ever waited, by name.
    fates: Vec<Fate>,
    closed: bool,
    /// Whether anything was charged that did not ask, or was not carried over.
    pub(crate) forced: bool,
    /// What was kept, and not given back.
    pub(crate) kept: Vec<Booked>,
}

impl Naive {
    pub(crate) fn new(algorithm: Algorithm, quota: Quota, debts: bool, now: u64) -> Self {
        Self {
            debts,
            now,
            rule: Rule::new(algorithm, quota),
            epoch: 0,
            line: VecDeque::new(),
            fates: Vec::new(),
            closed: false,
            forced: false,
            kept: Vec::new(),
        }
    }

    pub(crate) fn waiting(&self) -> usize {
        self.line.len()
    }

    /// Whether it is known exactly when a 1 would be admitted behind the line: by a log, if all
    /// that is in it are such.
    fn is_exact_behind(&self, cost: u64) -> bool {
        let ones = self.line.iter().all(|place| place.cost == 1);
        ones && cost == 1 && self.rule.is_log()
    }

    /// Whether somebody in line asks for so much that not all of it may fit, so that those behind
    /// are due earlier than they are told.
    pub(crate) fn is_endless(&self) -> bool {
        let most = 4 * self.rule.most;
        self.line.iter().any(|place| place.cost > most)
    }

    /// Whether it was charged under the quota that is in force.
    pub(crate) fn is_of_now(&self, charge: Booked) -> bool {
        charge.epoch == self.epoch
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(crate) fn fate(&self, name: usize) -> Fate {
        self.fates[name]
    }

    /// When somebody is admitted with so many in front, if all goes on as it is.
    fn foresee(&self, ahead: usize, cost: u64) -> Option<u64> {
        let (mut rule, mut now) = (self.rule.clone(), self.now);
        for place in self.line.iter().take(ahead) {
            if place.cost > rule.most && !self.debts {
                continue;
            }
            now = rule.earliest(now, place.cost)?;
            rule.book(0, usize::MAX, now, place.cost);
        }
        rule.earliest(now, cost)
    }

    pub(crate) fn due_of(&self, name: usize) -> Option<u64> {
        let ahead = self.line.iter().position(|place| place.name == name);
        let ahead = ahead.expect("in line");
        self.foresee(ahead, self.line[ahead].cost)
    }

    /// Whether somebody in line will be refused at its head. It is not said when that will be.
    pub(crate) fn is_doomed(&self, name: usize) -> bool {
        let place = self.line.iter().find(|place| place.name == name);
        place.is_some_and(|place| place.cost > self.rule.most && !self.debts)
    }

    fn book(&mut self, cost: u64) -> Booked {
        let booked = self.rule.book(self.epoch, self.kept.len(), self.now, cost);
        self.kept.push(booked);
        booked
    }

    pub(crate) fn try_acquire(&mut self, cost: u64) -> Told {
        let most = self.rule.most;
        if self.closed {
            Told::Closed
        } else if cost == 0 {
            Told::Charged(self.book(0))
        } else if cost > most && !self.debts {
            Told::Exceeds(most)
        } else if self.line.is_empty() && self.rule.earliest(self.now, cost) == Some(self.now) {
            self.forced |= cost > most;
            Told::Charged(self.book(cost))
        } else {
            Told::Limited {
                due: self.foresee(self.line.len(), cost),
                behind: !self.line.is_empty() && !self.is_exact_behind(cost),
            }
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
                self.line.retain(|place| place.name != name);
                self.serve();
            }
            Fate::Granted { charge, .. } => self.refund(charge, charge.cost),
            Fate::Refused(_) | Fate::Closed => {}
        }
    }

    pub(crate) fn charge(&mut self, cost: u64) -> Booked {
        self.forced = true;
        self.book(cost)
    }

    pub(crate) fn refund(&mut self, charge: Booked, cost: u64) {
        if charge.epoch != self.epoch {
            return;
        }
        self.rule.refund(charge, cost, self.now);
        let kept = self.kept.iter_mut().find(|kept| **kept == charge);
        kept.expect("it was kept").cost -= cost;
        self.serve();
    }

    pub(crate) fn set_quota(&mut self, quota: Quota, carry: Carry) {
        self.forced = true;
        self.rule.change(quota, carry, self.now);
        self.epoch += 1;
        self.serve();
    }

    pub(crate) fn close(&mut self) {
        self.closed = true;
        while let Some(place) = self.line.pop_front() {
            self.fates[place.name] = Fate::Closed;
        }
    }

    /// Lets go who is due at this tick.
    fn serve(&mut self) {
        while let Some(head) = self.line.front().copied() {
            let most = self.rule.most;
            let fate = if head.cost > most && !self.debts {
                Fate::Refused(most)
            } else {
                if self.rule.earliest(self.now, head.cost) != Some(self.now) {
                    return;
                }
                self.forced |= head.cost > most;
                Fate::Granted {
                    at: self.now,
                    charge: self.book(head.cost),
                }
            };
            self.line.pop_front();
            self.fates[head.name] = fate;
        }
    }

    pub(crate) fn advance(&mut self, nanos: u64) {
        let target = self.now.saturating_add(nanos);
        while let Some(head) = self.line.front() {
            match self.rule.earliest(self.now, head.cost) {
                Some(due) if due <= target => {
                    self.now = due;
                    self.serve();
                }
                _ => break,
            }
        }
        self.now = target;
    }
}
