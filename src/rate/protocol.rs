//! How decisions, waiters, refunds and reconfigurations meet: the slow paths, all under one lock.
//!
//! Invariants, together with those of the [cell](super::cell), the [line](crate::line) and the
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

use super::charge::Charge;
use super::core::{Core, count};
use super::options::Oversize;
use super::refunds::Refunds;
use crate::algorithm::{Debt, Limits};
use crate::decision::Decision;
use crate::error::{AcquireError, ErrorKind};
use crate::line::{Line, WakeBatch};
use crate::quota::Quota;
use crate::sync::{MutexGuard, Ordering};
use crate::time::Tick;

/// What the lock guards.
pub(super) struct Lines {
    line: Line<Place, std::convert::Infallible>,
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
    pub(super) limits: Limits,
    pub(super) quota: Option<Quota>,
    /// How many are in line. If there is one, nothing can be had at once.
    pub(super) waiting: usize,
    /// When the head joined.
    pub(super) oldest: Option<Tick>,
    pub(super) now: Tick,
}

impl Ahead {
    pub(super) fn decision(&self, retry_after: Duration) -> Decision {
        Decision::new(&self.limits, self.owed, self.now, retry_after)
    }
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
            line: Line::new(),
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
            self.charges(core, limits, self.line.iter())
        } else {
            self.asked
        }
    }

    /// What these will be charged, together: those who ask for too much will be refused.
    fn charges(&self, core: &Core, limits: &Limits, places: impl Iterator<Item = Place>) -> u128 {
        let refuses = core.config.oversize == Oversize::Refuse;
        places
            .filter(|place| !refuses || limits.of(place.units) <= limits.tolerance)
            .map(|place| u128::from(place.units))
            .sum()
    }

    /// How much of what is overdue is made up for.
    fn catch_up(&self, core: &Core, limits: &Limits) -> u64 {
        core.config.catch_up().unwrap_or_else(|| {
            let units = limits.at(Tick::from_nanos(10_000_000));
            limits.tokens(units).max(1)
        })
    }

    /// From which unit on somebody could be admitted who comes after `before` others of this debt.
    fn due(&self, core: &Core, limits: &Limits, debt: Debt, before: u128, cost: u64) -> u64 {
        let price = limits.of(cost);
        let before = before.saturating_mul(u128::from(limits.interval));
        let before = u64::try_from(before).unwrap_or(u64::MAX);
        let start = debt.end().saturating_add(before);
        if price > limits.tolerance && core.config.oversize == Oversize::Debt {
            start
        } else {
            start.saturating_add(price).saturating_sub(limits.tolerance)
        }
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
        let limits = self.limits.load();
        let (unit, price, debt) = (limits.at(now), limits.of(cost), seen.debt());
        if cost == 0 {
            return Ok(self.charge_until(debt, unit, now, cost));
        }
        let oversize = price > limits.tolerance;
        if oversize && self.config.oversize == Oversize::Refuse {
            let error = AcquireError::exceeds_capacity(limits.burst());
            return Err(Refusal::Never(error));
        }
        if !lines.line.is_empty() {
            let due = lines.due(self, &limits, debt, lines.ahead(self, &limits), cost);
            return Err(Refusal::Until(self.tick_at(due)));
        }
        let (debt, cost) = if !oversize {
            match debt.take(&limits, unit, price) {
                Ok(debt) => (debt, cost),
                Err(due) => return Err(Refusal::Until(self.tick_at(due))),
            }
        } else if debt.end() <= unit {
            debt.charge(&limits, unit, cost)
        } else {
            return Err(Refusal::Until(self.tick_at(debt.end())));
        };
        self.cell.store(seen, debt, true);
        Ok(self.charge_until(debt, unit, now, cost))
    }

    /// Locks, and tells the time, when nobody is left in line who is due: the alarm may be late.
    /// Whoever comes must not be told to come again at once, nor be charged before them.
    fn lock_on_time(&self) -> (MutexGuard<'_, Lines>, Tick) {
        loop {
            let lines = self.lock();
            let mut now = self.clock().now();
            let (limits, debt) = (self.limits.load(), self.cell.load().debt());
            if debt.at(limits.at(now)) > limits.tolerance {
                // So much is seldom owed, and also when the clock was set back.
                self.clock().correct();
                now = self.clock().now();
            }
            match lines.line.head() {
                Some(head) if !lines.is_closed() => {
                    let due = lines.due(self, &limits, debt, 0, head.units);
                    if due > limits.at(now) {
                        return (lines, now);
                    }
                    self.settle(lines);
                }
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
        self.cell.store(
            seen,
            seen.debt(),
            !lines.line.is_empty() || lines.is_closed(),
        );
    }

    /// How things stood just after a charge; or how they stand now, if that is not known any more.
    pub(super) fn stood(&self, charge: &Charge) -> Decision {
        let lines = self.lock();
        let (limits, generation) = (self.limits.load(), self.limits.generation());
        drop(lines);
        if charge.generation == generation {
            Decision::new(&limits, charge.owed, charge.at, Duration::ZERO)
        } else {
            self.look_ahead(0).decision(Duration::ZERO)
        }
    }

    /// How things stand for somebody who asks for so much now. Others go on deciding meanwhile.
    pub(super) fn look_ahead(&self, cost: u64) -> Ahead {
        self.meet();
        let (lines, now) = self.lock_on_time();
        let (limits, debt) = (self.limits.load(), self.cell.load().debt());
        let refuses = self.config.oversize == Oversize::Refuse;
        let due = if lines.is_closed() || limits.of(cost) > limits.tolerance && refuses {
            None
        } else if cost == 0 {
            Some(now)
        } else {
            let due = lines.due(self, &limits, debt, lines.ahead(self, &limits), cost);
            Some(self.tick_at(due))
        };
        Ahead {
            due,
            owed: debt.at(limits.at(now)),
            limits,
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
        let mut batch = WakeBatch::new();
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
    fn advance(&self, lines: &mut Lines, batch: &mut WakeBatch) -> Option<Tick> {
        let seen = self.cell.hold();
        let limits = self.limits.load();
        let mut debt = seen.debt();
        let mut next = None;
        if !lines.line.is_empty() && !lines.is_closed() {
            let now = self.clock().now();
            while let Some(head) = lines.line.head() {
                if batch.is_full() {
                    break;
                }
                match self.grant(lines, &limits, debt, head, now) {
                    Ok((after, kept)) => {
                        debt = after;
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
        self.cell.store(seen, debt, held);
        next
    }

    /// What becomes of the head: what is owed then, and what is kept for it; or when it is due.
    fn grant(
        &self,
        lines: &Lines,
        limits: &Limits,
        debt: Debt,
        head: Place,
        now: Tick,
    ) -> Result<(Debt, Option<Place>), Tick> {
        let price = limits.of(head.units);
        let attended = head.tick & UNATTENDED == 0;
        if price > limits.tolerance && self.config.oversize == Oversize::Refuse {
            let refused = Place {
                units: limits.burst(),
                tick: 0,
                owed: REFUSED,
            };
            return Ok((debt, attended.then_some(refused)));
        }
        let due = lines.due(self, limits, debt, 0, head.units);
        let unit = limits.at(now);
        if due > unit {
            return Err(self.tick_at(due));
        }
        // Not before it came or was made due, nor longer ago than may be made up for.
        let known = head.joined().max(lines.timed);
        let earliest = unit.saturating_sub(limits.of(lines.catch_up(self, limits)));
        let start = due.max(earliest).max(limits.at(known)).min(unit);
        let at = self.tick_at(start).max(known).min(now);
        let (after, _) = debt.charge(limits, start, head.units);
        if let Some(counts) = &self.counts {
            count(&counts.admitted);
        }
        let granted = Place {
            units: after.end() + self.refunded.load(Ordering::Relaxed),
            tick: at.as_nanos(),
            owed: after.at(limits.at(at)),
        };
        Ok((after, attended.then_some(granted)))
    }
}
