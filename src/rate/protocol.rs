//! How decisions, waiters, refunds and reconfigurations meet: the slow paths, all under one lock.
//!
//! Invariants, together with those of the [cell](super::cell), the [line](crate::wait_queue) and the
//! [alarm](crate::time::Alarm):
//!
//! 1. When the lock is free, `HELD` is set exactly while somebody waits or the limiter is closed.
//! 2. A waiter has charged nothing until it is granted, so one that leaves moves everybody behind
//!    it up. What it is granted is kept in its place until it collects; one that leaves with it
//!    gives it back like any refund.
//! 3. [`advance`](Core::advance) is the only place where a waiter is settled, and only the head
//!    ever is: a 1 never passes a 50.
//! 4. Whatever may make the head due earlier ends in [`settle`](Core::settle), which grants what is
//!    due, and arms the alarm for the next. So does the alarm. Nobody else has to be polled for the
//!    line to move.
//! 5. Wakers are called and the alarm is armed after the lock.

mod changing;
mod waiting;

use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::time::Duration;

use super::cell::Seen;
use super::charge::Charge;
use super::core::{Core, count};
use super::options::Oversize;
use super::refunds::Refunds;
use crate::algorithm::{Limits, MOST_DEBT};
use crate::decision::Decision;
use crate::error::{AcquireError, ErrorKind};
use crate::quota::Quota;
use crate::sync::MutexGuard;
use crate::time::Tick;
use crate::wait_queue::{WaitQueue, WakeList};

/// What the lock guards.
pub(super) struct Lines {
    line: WaitQueue<Place, std::convert::Infallible>,
    /// What those in line ask for, together.
    asked: u128,
    /// The burst has become smaller while somebody waited, so that some may not be admitted any
    /// more.
    shrunk: bool,
    closed: bool,
    /// When the line was last timed anew: nobody was due before that who is due only by it.
    timed: Tick,
    refunds: Refunds,
    /// The first number that was not served when charges were last told from earlier ones.
    generation_from: u64,
    /// The quota, if it is not the first any more.
    quota: Option<Quota>,
    /// Calls the alarm's attention to the line; made for the first waiter.
    bell: Option<Waker>,
}

/// What is known of somebody in line: first what it asks for and when it joined; then where its
/// charge ends, at which tick it was charged, and what was owed then.
#[derive(Clone, Copy, Default)]
struct Place {
    units: u64,
    tick: u64,
    owed: u64,
}

/// On the tick at which one joined: nobody will collect.
const UNATTENDED: u64 = 1 << 63;
/// In place of what was owed: it was refused, for it asked for more than `units`.
const REFUSED: u64 = u64::MAX;

impl Place {
    fn joined(self) -> Tick {
        Tick::from_nanos(self.tick & !UNATTENDED)
    }
}

/// When somebody is due, and whom to call then.
pub(super) type Arm = Option<(Tick, Waker)>;

/// Why a call is not admitted now.
enum Refusal {
    Never(AcquireError),
    Until(Tick),
}

/// How things stand for somebody who comes.
pub(super) struct Ahead {
    /// When it would be admitted, if nobody else came; `None` for never.
    pub(super) due: Option<Tick>,
    /// What is owed now, in units of the limits.
    pub(super) owed: u64,
    /// How things stand for who asks for nothing.
    pub(super) decision: Decision,
    pub(super) quota: Option<Quota>,
    /// How many are in line. If there is one, nothing can be had at once.
    pub(super) waiting: usize,
    /// When the head joined.
    pub(super) oldest: Option<Tick>,
    pub(super) now: Tick,
}

/// Rings when a line is to be looked at.
struct Bell(Weak<Core>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        if let Some(core) = self.0.upgrade() {
            core.ring();
        }
    }
}

impl Lines {
    pub(super) fn new() -> Self {
        Self {
            line: WaitQueue::new(),
            asked: 0,
            shrunk: false,
            closed: false,
            timed: Tick::default(),
            refunds: Refunds::default(),
            generation_from: 0,
            quota: None,
            bell: None,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.line.len()
    }

    /// The quota, if it is not the first any more.
    pub(super) fn quota(&self) -> Option<Quota> {
        self.quota
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// When the head joined.
    fn oldest(&self) -> Option<Tick> {
        self.line.head().map(Place::joined)
    }

    /// The first number that was not served.
    fn unserved(&self) -> u64 {
        let line = &self.line;
        line.head_number().unwrap_or(line.last_number() + 1)
    }

    /// What those in line will be charged, together, before somebody who comes now.
    fn ahead(&self, core: &Core, limits: &Limits) -> u128 {
        if self.shrunk {
            let places = self.charged(core, limits, self.line.iter());
            places.map(u128::from).sum()
        } else {
            self.asked
        }
    }

    /// What these will be charged: those who ask for too much will be refused.
    fn charged(
        &self,
        core: &Core,
        limits: &Limits,
        places: impl Iterator<Item = Place>,
    ) -> impl Iterator<Item = u64> {
        let refuses = core.config.oversize == Oversize::Refuse;
        let limits = *limits;
        let costs = places.map(|place| place.units);
        costs.filter(move |cost| !refuses || limits.of(*cost) <= limits.tolerance)
    }

    /// How much of what is overdue is made up for.
    fn catch_up(&self, core: &Core, limits: &Limits) -> u64 {
        let in_time = || core.tokens_in(limits, 10_000_000).max(1);
        core.config.catch_up().unwrap_or_else(in_time)
    }

    /// From which unit on the head could be admitted.
    fn due_of_head(&self, core: &Core, limits: &Limits, seen: Seen) -> Option<u64> {
        let head = self.line.head()?;
        Some(core.due(limits, seen, 0, head.units))
    }

    /// From which unit on somebody could be admitted who comes now.
    fn due_of_next(&self, core: &Core, limits: &Limits, seen: Seen, cost: u64) -> u64 {
        let due = core.due(limits, seen, self.ahead(core, limits), cost);
        // Not before the head, which perhaps asks for more.
        due.max(self.due_of_head(core, limits, seen).unwrap_or(0))
    }
}

/// Deciding.
impl Core {
    /// Admits somebody now, if nobody is in line and time allows it. Only held.
    fn admit(&self, lines: &Lines, cost: u64, now: Tick) -> Result<Charge, Refusal> {
        if lines.is_closed() {
            return Err(Refusal::Never(AcquireError::new(ErrorKind::Closed)));
        }
        let seen = self.cell.hold();
        let limits = self.limits.load::<true>();
        let unit = limits.at(now);
        if cost == 0 {
            return Ok(self.receipt(seen, unit, now, cost));
        }
        if limits.of(cost) > limits.tolerance && self.config.oversize == Oversize::Refuse {
            let error = AcquireError::exceeds_capacity(limits.burst());
            return Err(Refusal::Never(error));
        }
        let due = lines.due_of_next(self, &limits, seen, cost);
        if due > unit || !lines.line.is_empty() {
            return Err(Refusal::Until(self.tick_at(due)));
        }
        let (seen, fitted) = self.book(&limits, seen, unit, cost);
        self.cell.store(seen, true);
        Ok(self.receipt(seen, unit, now, fitted))
    }

    /// Locks, and tells the time, when nobody is left in line who is due: the alarm may be late.
    /// Whoever comes must not be told to come again at once, nor be charged before them.
    fn lock_on_time(&self) -> (MutexGuard<'_, Lines>, Tick) {
        loop {
            let lines = self.lock();
            let mut now = self.clock().now();
            let (limits, seen) = (self.limits.load::<true>(), self.cell.load());
            if self.looks_behind(&limits, seen, now) {
                self.clock().correct();
                now = self.clock().now();
            }
            match lines.due_of_head(self, &limits, seen) {
                Some(due) if due <= limits.at(now) && !lines.is_closed() => self.settle(lines),
                _ => return (lines, now),
            }
        }
    }

    /// A try that needs the lock.
    #[cold]
    pub(super) fn try_held(&self, cost: u64) -> Result<Charge, AcquireError> {
        self.meet();
        let (lines, now) = self.lock_on_time();
        let admitted = self.admit(&lines, cost, now);
        self.let_go(&lines);
        drop(lines);
        admitted.map_err(|refusal| match refusal {
            Refusal::Never(error) => error,
            Refusal::Until(due) => self.limited(due, now),
        })
    }

    /// Lets others decide without the lock again, if nobody waits. Only held.
    fn let_go(&self, lines: &Lines) {
        let seen = self.cell.hold();
        self.cell
            .store(seen, !lines.line.is_empty() || lines.is_closed());
    }

    /// How things stood just after a charge; or how they stand now, if that is not known any more.
    pub(super) fn stood(&self, charge: &Charge) -> Decision {
        let lines = self.lock();
        let (limits, generation) = (self.limits.load::<true>(), self.limits.generation());
        if charge.generation != generation {
            drop(lines);
            return self.look_ahead(0).decision;
        }
        match self.rule.as_deref() {
            None => {
                let reset = limits.at(charge.at) + charge.owed;
                let reset = self.tick_at(reset.min(MOST_DEBT));
                Decision::new(&limits, charge.owed, reset, charge.at, Duration::ZERO)
            }
            Some(_) => self.decision(&limits, self.cell.load(), charge.at, Duration::ZERO),
        }
    }

    /// How things stand for somebody who asks for so much now. Others go on deciding meanwhile.
    pub(super) fn look_ahead(&self, cost: u64) -> Ahead {
        self.meet();
        let (lines, now) = self.lock_on_time();
        let (limits, seen) = (self.limits.load::<true>(), self.cell.load());
        let refuses = self.config.oversize == Oversize::Refuse;
        let due = if lines.is_closed() || limits.of(cost) > limits.tolerance && refuses {
            None
        } else if cost == 0 {
            Some(now)
        } else {
            let due = lines.due_of_next(self, &limits, seen, cost);
            Some(self.tick_at(due))
        };
        Ahead {
            due,
            owed: self.owed(seen, limits.at(now)),
            decision: self.decision(&limits, seen, now, Duration::ZERO),
            quota: lines.quota,
            waiting: lines.len(),
            oldest: lines.oldest(),
            now,
        }
    }
}

/// What all of these come down to.
impl Core {
    /// The alarm has gone off.
    fn ring(&self) {
        // First, so that what is armed from now on is armed anew.
        self.alarm().take_off();
        self.settle(self.lock());
    }

    /// Lets everybody go who is due, then unlocks, wakes them, and arms the alarm for the next.
    fn settle<'a>(&'a self, mut lines: MutexGuard<'a, Lines>) {
        let mut batch = WakeList::new();
        loop {
            let due = self.advance(&mut lines, &mut batch);
            let full = batch.is_full();
            let arm = due.zip(lines.bell.clone());
            drop(lines);
            batch.wake_all();
            if !full {
                return self.arm(arm);
            }
            lines = self.lock();
        }
    }

    /// Settles waiters from the head until one is not due or the batch is full; says when the head
    /// is due.
    fn advance(&self, lines: &mut Lines, batch: &mut WakeList) -> Option<Tick> {
        let mut seen = self.cell.hold();
        let limits = self.limits.load::<true>();
        let mut next = None;
        if !lines.line.is_empty() && !lines.is_closed() {
            let now = self.clock().now();
            while let Some(head) = lines.line.head() {
                if batch.is_full() {
                    break;
                }
                match self.grant(lines, &limits, &mut seen, head, now) {
                    Ok(kept) => {
                        lines.asked -= u128::from(head.units);
                        batch.push(match kept {
                            Some(kept) => lines.line.keep_head(kept),
                            None => lines.line.grant_head(),
                        });
                    }
                    Err(due) => {
                        next = Some(due);
                        break;
                    }
                }
            }
        }
        while lines.is_closed() && !lines.line.is_empty() && !batch.is_full() {
            batch.push(lines.line.grant_head());
        }
        lines.shrunk &= !lines.line.is_empty();
        let held = !lines.line.is_empty() || lines.is_closed();
        self.cell.store(seen, held);
        next
    }

    /// Lets the head go, and says what is kept for it; or when it is due.
    fn grant(
        &self,
        lines: &Lines,
        limits: &Limits,
        seen: &mut Seen,
        head: Place,
        now: Tick,
    ) -> Result<Option<Place>, Tick> {
        let attended = head.tick & UNATTENDED == 0;
        let oversize = limits.of(head.units) > limits.tolerance;
        if oversize && self.config.oversize == Oversize::Refuse {
            let refused = Place {
                units: limits.burst(),
                tick: 0,
                owed: REFUSED,
            };
            return Ok(attended.then_some(refused));
        }
        let due = self.due(limits, *seen, 0, head.units);
        let unit = limits.at(now);
        if due > unit {
            return Err(self.tick_at(due));
        }
        // Not before it came or was made due, nor longer ago than may be made up for.
        let known = head.joined().max(lines.timed);
        let earliest = unit.saturating_sub(self.span(limits, lines.catch_up(self, limits)));
        let start = due.max(earliest).max(limits.at(known));
        // Not between two steps, where a part of what comes at once would be there already.
        let start = limits.reached(start).min(unit);
        let at = self.tick_at(start).max(known).min(now);
        let (after, fitted) = self.book(limits, *seen, start, head.units);
        *seen = after;
        if let Some(counts) = &self.counts {
            count(&counts.admitted);
        }
        let charge = self.receipt(after, limits.at(at), at, fitted);
        let granted = Place {
            units: charge.ticket,
            tick: at.as_nanos(),
            owed: match self.rule.as_deref() {
                None => charge.owed,
                // More is not known of it.
                Some(_) => fitted,
            },
        };
        Ok(attended.then_some(granted))
    }
}
