//! A limiter with a line, written in the most obvious way: a queue, a schedule, and time that goes
//! from one due tick to the next.

use std::collections::VecDeque;

use num_bigint::BigInt;
use tollgate::{Algorithm, Carry, Quota};

use super::rule::Rule;
use super::schedule::Schedule;

/// What has become of somebody who had to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    InLine,
    Granted {
        at: u64,
        charge: Booked,
    },
    /// It asked for more than this burst.
    Refused(u64),
    Closed,
}

/// A charge: under which quota it was made, its number in that schedule, and how much it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Booked {
    epoch: usize,
    number: usize,
    pub(crate) cost: u64,
}

/// What somebody who tries is told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Charged(Booked),
    Closed,
    Exceeds(u64),
    /// Until the tick; `None` for never.
    Limited(Option<u64>),
}

#[derive(Clone, Copy)]
struct Place {
    name: usize,
    cost: u64,
}

/// What was chosen for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choices {
    /// Whoever goes late is charged when it goes.
    pub(crate) delays: bool,
    /// More than the burst leaves a debt.
    pub(crate) debts: bool,
}

pub(crate) struct Naive {
    algorithm: Algorithm,
    choices: Choices,
    pub(crate) now: u64,
    /// One for each quota that it ever had; the last is in force.
    schedules: Vec<Schedule>,
    line: VecDeque<Place>,
    /// Of everybody who ever waited, by name.
    fates: Vec<Fate>,
    /// When something happened that may have made the head due: nobody is charged for before.
    changed: u64,
    closed: bool,
}

impl Naive {
    pub(crate) fn new((algorithm, quota): (Algorithm, Quota), choices: Choices, now: u64) -> Self {
        Self {
            algorithm,
            choices,
            now,
            schedules: vec![Schedule::new(Rule::by(algorithm, quota))],
            line: VecDeque::new(),
            fates: Vec::new(),
            changed: 0,
            closed: false,
        }
    }

    pub(crate) fn schedule(&self) -> &Schedule {
        self.schedules.last().expect("there is one")
    }

    fn schedule_mut(&mut self) -> &mut Schedule {
        self.schedules.last_mut().expect("there is one")
    }

    pub(crate) fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    pub(crate) fn rule(&self) -> Rule {
        self.schedule().rule
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

    pub(crate) fn assert_promise(&self) {
        self.schedules.iter().for_each(Schedule::assert_promise);
    }

    /// From which unit on so much is admitted, at the head of the line, if what is owed ends at
    /// `end`.
    fn due_after(&self, end: BigInt, cost: u64) -> BigInt {
        if cost > self.rule().burst {
            end
        } else {
            end + self.rule().price(cost) - self.rule().tolerance()
        }
    }

    /// At which tick somebody is admitted with so many in front, if all goes on as it is: each is
    /// charged when it is due, unless it will be refused.
    fn foresee(&self, ahead: usize, cost: u64) -> Option<u64> {
        let rule = self.rule();
        let mut end = self.schedule().end();
        for place in self.line.iter().take(ahead) {
            if self.choices.debts || place.cost <= rule.burst {
                let due = self.due_after(end.clone(), place.cost);
                let start = if rule.is_even() {
                    due
                } else {
                    rule.units(rule.tick_of(&due, self.now)?)
                };
                end = end.max(start) + rule.price(place.cost);
            }
        }
        rule.tick_of(&self.due_after(end, cost), self.now)
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
        place.is_some_and(|place| place.cost > self.rule().burst && !self.choices.debts)
    }

    fn book(&mut self, cost: u64, start: BigInt, forced: bool) -> Booked {
        let (price, now) = (self.rule().price(cost), self.now);
        Booked {
            epoch: self.schedules.len(),
            number: self.schedule_mut().charge(price, start, now, forced),
            cost,
        }
    }

    fn book_now(&mut self, cost: u64, forced: bool) -> Booked {
        let start = self.rule().units(self.now);
        self.book(cost, start, forced)
    }

    pub(crate) fn try_acquire(&mut self, cost: u64) -> Told {
        if self.closed {
            return Told::Closed;
        }
        if cost == 0 {
            return Told::Charged(self.book_now(0, true));
        }
        let burst = self.rule().burst;
        if cost > burst && !self.choices.debts {
            return Told::Exceeds(burst);
        }
        let due = self.foresee(self.line.len(), cost);
        if self.line.is_empty() && due == Some(self.now) {
            Told::Charged(self.book_now(cost, cost > burst))
        } else {
            Told::Limited(due)
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
        self.book_now(cost, true)
    }

    pub(crate) fn refund(&mut self, charge: Booked, cost: u64) {
        if charge.epoch != self.schedules.len() {
            return;
        }
        let (units, now) = (self.rule().price(cost), self.now);
        self.schedule_mut().refund(charge.number, &units, now);
        self.change();
    }

    /// What was available, spent or owed before is so still, in the sense of `carry`; in doubt more
    /// is owed.
    pub(crate) fn set_quota(&mut self, quota: Quota, carry: Carry) {
        let (old, new) = (self.rule(), Rule::by(self.algorithm, quota));
        let owed = self.schedule().owed(self.now);
        let up = |units: BigInt, by: BigInt, of: BigInt| (units * by + &of - 1) / of;
        let owed = match carry {
            Carry::Reset => BigInt::default(),
            Carry::Proportional => up(owed, new.tolerance(), old.tolerance()),
            Carry::Additive => up(owed, new.interval(), old.interval()),
            Carry::AsIs => {
                let free = old.tolerance() - owed;
                let kept = if free > 0.into() {
                    free * new.interval() / old.interval()
                } else {
                    -up(-free, new.interval(), old.interval())
                };
                (new.tolerance() - kept).max(0.into())
            }
            _ => unreachable!("there are four ways"),
        };
        let mut schedule = Schedule::new(new);
        schedule.charge(owed, new.units(self.now), self.now, true);
        self.schedules.push(schedule);
        self.change();
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
            let rule = self.rule();
            let oversize = head.cost > rule.burst;
            let fate = if oversize && !self.choices.debts {
                Fate::Refused(rule.burst)
            } else {
                let due = self.due_after(self.schedule().end(), head.cost);
                let unit = rule.units(self.now);
                if due > unit {
                    return;
                }
                let start = if self.choices.delays || !rule.is_even() {
                    unit
                } else {
                    due.max(rule.units(self.changed))
                };
                Fate::Granted {
                    at: self.now,
                    charge: self.book(head.cost, start, oversize),
                }
            };
            self.line.pop_front();
            self.fates[head.name] = fate;
        }
    }

    pub(crate) fn advance(&mut self, nanos: u64) {
        let target = self.now + nanos;
        while let Some(head) = self.line.front() {
            match self.foresee(0, head.cost) {
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
