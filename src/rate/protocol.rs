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

use std::sync::{Arc, Weak};
use std::task::{Poll, Wake, Waker};

use super::charge::Charge;
use super::core::{Core, count};
use super::options::{Carry, Oversize};
use super::refunds::Refunds;
use crate::algorithm::{Debt, Limits};
use crate::error::{AcquireError, ErrorKind};
use crate::line::{Line, Look, Ticket, WakeBatch};
use crate::quota::Quota;
use crate::sync::{MutexGuard, Ordering};
use crate::time::Tick;
use crate::wait::{budget, tell_clock};

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
    /// Somebody is in line, so that nothing can be had at once.
    pub(super) waited_for: bool,
    generation: u64,
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
    pub(super) fn oldest(&self) -> Option<Tick> {
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
    pub(super) fn stood(&self, charge: &Charge) -> Ahead {
        let ahead = self.look_ahead(0);
        if charge.generation != ahead.generation {
            return ahead;
        }
        Ahead {
            owed: charge.owed,
            now: charge.at,
            ..ahead
        }
    }

    /// How things stand for somebody who asks for so much now.
    pub(super) fn look_ahead(&self, cost: u64) -> Ahead {
        self.meet();
        let (lines, now) = self.lock_on_time();
        let (limits, debt) = (self.limits.load(), self.cell.hold().debt());
        self.let_go(&lines);
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
            waited_for: !lines.line.is_empty(),
            generation: self.limits.generation(),
            now,
        }
    }
}

/// Waiting.
impl Core {
    /// Takes now, is refused, or joins the line: then there is a ticket, and an alarm to
    /// [arm](Self::arm).
    #[inline(never)]
    pub(super) fn join(
        self: &Arc<Self>,
        cost: u64,
        waker: &Waker,
    ) -> Result<Result<Charge, AcquireError>, (Ticket, Arm)> {
        // Cloned before the lock, under which no foreign code runs, and dropped after it.
        let waker = waker.clone();
        self.meet();
        let (lines, now) = self.lock_on_time();
        let refused = match self.admit(&lines, cost, now) {
            Ok(charge) => Ok(charge),
            Err(Refusal::Never(error)) => Err(error),
            Err(Refusal::Until(due)) => {
                let after = due.saturating_since(now);
                if lines.len() >= self.config.max_waiters() || lines.line.is_full() {
                    Err(self.queue_full(&lines, due, now))
                } else if budget().is_some_and(|budget| after > budget) {
                    Err(AcquireError::would_take(after))
                } else {
                    return Err(self.push(lines, cost, due, now, waker));
                }
            }
        };
        self.let_go(&lines);
        drop(lines);
        if let Some(counts) = &self.counts {
            count(match refused {
                Ok(_) => &counts.admitted,
                Err(_) => &counts.denied,
            });
        }
        Ok(refused)
    }

    fn push(
        self: &Arc<Self>,
        mut lines: MutexGuard<'_, Lines>,
        cost: u64,
        due: Tick,
        now: Tick,
        waker: Waker,
    ) -> (Ticket, Arm) {
        let place = Place {
            units: cost,
            tick: now.as_nanos() & !UNATTENDED,
            owed: 0,
        };
        let first = lines.line.is_empty();
        lines.asked += u128::from(cost);
        let ticket = lines.line.push(place, waker);
        let bell = first.then(|| self.bell(&mut lines));
        drop(lines);
        tell_clock(self.clock());
        (ticket, bell.map(|bell| (due, bell)))
    }

    /// Has the line looked at when it is due. Not under the lock.
    pub(super) fn arm(&self, arm: Arm) {
        if let Some((due, bell)) = arm {
            self.alarm().arm(self.clock(), due, bell);
        }
    }

    /// Nobody can join any more until the head goes; or, where nobody may wait, until `due`.
    fn queue_full(&self, lines: &Lines, due: Tick, now: Tick) -> AcquireError {
        let head = lines.line.head().map(|head| {
            let (limits, debt) = (self.limits.load(), self.cell.load().debt());
            self.tick_at(lines.due(self, &limits, debt, 0, head.units))
        });
        let after = head.unwrap_or(due).saturating_since(now);
        AcquireError::queue_full(self.jittered(after))
    }

    fn bell(self: &Arc<Self>, lines: &mut Lines) -> Waker {
        let ring = || Waker::from(Arc::new(Bell(Arc::downgrade(self))));
        lines.bell.get_or_insert_with(ring).clone()
    }

    /// A later poll.
    #[inline(never)]
    pub(super) fn look(
        &self,
        ticket: &Ticket,
        cost: u64,
        waker: &Waker,
    ) -> Poll<Result<Charge, AcquireError>> {
        // Declared before the lock, so dropped after it.
        let mut _unused = None;
        self.meet();
        let mut lines = self.lock();
        let mut look = lines.line.look(ticket, waker);
        if look != Look::Served {
            // It may be due, and the alarm late: a deadline that is polled now must not be earlier.
            self.settle(lines);
            lines = self.lock();
            look = lines.line.look(ticket, waker);
        }
        if look == Look::StaleWaker {
            drop(lines);
            let fresh = waker.clone();
            lines = self.lock();
            _unused = Some(lines.line.set_waker(ticket, fresh));
            look = lines.line.look(ticket, waker);
        }
        // Still stale, perhaps: a clone need not be known as waking the same.
        if matches!(look, Look::Waiting | Look::StaleWaker) {
            drop(lines);
            tell_clock(self.clock());
            return Poll::Pending;
        }
        Poll::Ready(match lines.line.collect_kept(ticket) {
            None => Err(AcquireError::new(ErrorKind::Closed)),
            Some(place) if place.owed == REFUSED => {
                Err(AcquireError::exceeds_capacity(place.units))
            }
            Some(place) => Ok(self.charge_of(&lines, ticket, place, cost)),
        })
    }

    /// The charge of somebody who was granted.
    fn charge_of(&self, lines: &Lines, ticket: &Ticket, place: Place, cost: u64) -> Charge {
        let (limits, at) = (self.limits.load(), Tick::from_nanos(place.tick));
        if ticket.number().get() < lines.generation_from {
            // Since then what is owed has been carried over, and only that is known.
            return Charge {
                ticket: 0,
                generation: NO_GENERATION,
                cost,
                at,
                owed: 0,
            };
        }
        // More than the burst begins when nothing is owed, and perhaps did not fit.
        let oversize = limits.of(cost) > limits.tolerance;
        let fitted = || cost.min(place.owed.div_ceil(limits.interval));
        Charge {
            ticket: place.units,
            generation: self.limits.generation(),
            cost: if oversize { fitted() } else { cost },
            at,
            owed: place.owed,
        }
    }

    /// Gives up a place in line, or gives back what was granted there.
    #[inline(never)]
    pub(super) fn leave(&self, ticket: Ticket, cost: u64) {
        let mut lines = self.lock();
        let first = lines.line.head_number() == Some(ticket.number().get());
        let Some(waker) = lines.line.withdraw(&ticket) else {
            return self.leave_granted(lines, ticket, cost);
        };
        lines.asked -= u128::from(cost);
        if first {
            let (limits, debt) = (self.limits.load(), self.cell.load().debt());
            let due = lines.due(self, &limits, debt, 0, cost);
            let now = self.clock().now();
            // If it was overdue, it is the alarm that is late, and that is made up for.
            if due > limits.at(now) {
                lines.timed = now;
            }
            self.settle(lines);
        } else {
            drop(lines);
        }
        drop(waker);
        if let Some(counts) = &self.counts {
            count(&counts.cancelled);
        }
    }

    #[cold]
    fn leave_granted<'a>(&'a self, mut lines: MutexGuard<'a, Lines>, ticket: Ticket, cost: u64) {
        match lines.line.collect_kept(&ticket) {
            Some(place) if place.owed != REFUSED => {
                let charge = self.charge_of(&lines, &ticket, place, cost);
                self.give_back(lines, &charge, cost);
            }
            _ => drop(lines),
        }
    }

    /// Has a place in line granted without anybody to collect; or says why it was refused.
    pub(super) fn leave_unattended(&self, ticket: &Ticket) -> Result<(), AcquireError> {
        let mut lines = self.lock();
        if let Some(place) = lines.line.cost_mut(ticket) {
            place.tick |= UNATTENDED;
            let waker = lines.line.set_waker(ticket, Waker::noop().clone());
            drop(lines);
            drop(waker);
            return Ok(());
        }
        match lines.line.collect_kept(ticket) {
            None => Err(AcquireError::new(ErrorKind::Closed)),
            Some(place) if place.owed == REFUSED => {
                Err(AcquireError::exceeds_capacity(place.units))
            }
            Some(_) => Ok(()),
        }
    }

    /// When a waiter is due, as the line stands; `None` if it has been served.
    pub(super) fn due_of(&self, ticket: &Ticket) -> Option<Tick> {
        let mut lines = self.lock();
        let cost = lines.line.cost_mut(ticket)?.units;
        let (limits, debt) = (self.limits.load(), self.cell.load().debt());
        let before = lines.charges(self, &limits, lines.line.before(ticket));
        Some(self.tick_at(lines.due(self, &limits, debt, before, cost)))
    }
}

/// Changing what is owed and allowed.
impl Core {
    /// Takes back up to `cost` of a charge.
    pub(super) fn refund(&self, charge: &Charge, cost: u64) {
        self.meet();
        self.give_back(self.lock(), charge, cost);
    }

    fn give_back<'a>(&'a self, mut lines: MutexGuard<'a, Lines>, charge: &Charge, cost: u64) {
        // What was charged under another quota was carried over with all that was spent.
        if charge.generation != self.limits.generation() {
            return;
        }
        let seen = self.cell.hold();
        let limits = self.limits.load();
        let now = self.clock().now();
        let unit = limits.at(now);
        let total = self.refunded.load(Ordering::Relaxed);
        // No more than is owed: it may be of another limiter.
        let units = limits.of(cost).min(seen.debt().at(unit));
        let given = lines.refunds.give(charge.ticket, units, unit, total);
        if given > 0 {
            lines.timed = now;
            // A decision that has seen what was refunded before must not take place now, not even
            // when the debt has become the same again.
            self.cell.begin_epoch(seen, seen.debt().give(given));
            self.refunded.store(total + given, Ordering::Relaxed);
        }
        if total + given > MOST_REFUNDED {
            self.begin_generation(&mut lines);
        }
        self.settle(lines);
    }

    /// Charges from before cannot be told from one another any more. Only held.
    fn begin_generation(&self, lines: &mut Lines) {
        lines.generation_from = lines.unserved();
        lines.refunds.clear();
        self.refunded.store(0, Ordering::Relaxed);
        self.limits.begin_generation();
    }

    /// Takes so much, whatever is owed.
    pub(super) fn charge(&self, cost: u64) -> Charge {
        self.meet();
        let (lines, now) = self.lock_on_time();
        let seen = self.cell.hold();
        let limits = self.limits.load();
        let unit = limits.at(now);
        let (debt, cost) = seen.debt().charge(&limits, unit, cost);
        self.cell.store(seen, debt, true);
        let charge = self.charge_until(debt, unit, now, cost);
        self.let_go(&lines);
        charge
    }

    /// Owes this much, for as long as `quota` would take to pay it off, in addition.
    pub(super) fn owe(&self, owed: u64, quota: Quota) {
        self.meet();
        let (lines, now) = self.lock_on_time();
        let seen = self.cell.hold();
        let (old, limits) = (Limits::new(quota), self.limits.load());
        let owed = Carry::Proportional.owed(
            owed,
            [old.tolerance, limits.tolerance],
            [old.interval, limits.interval],
        );
        let debt = seen.debt().owe(limits.at(now), owed);
        self.cell.store(seen, debt, true);
        self.let_go(&lines);
    }

    /// Changes the quota, and times the line anew.
    pub(super) fn reconfigure(&self, quota: Quota, carry: Carry) {
        self.meet();
        let (mut lines, now) = self.lock_on_time();
        let seen = self.cell.hold();
        let (old, new) = (self.limits.load(), Limits::new(quota));
        let owed = carry.owed(
            seen.debt().at(old.at(now)),
            [old.tolerance, new.tolerance],
            [old.interval, new.interval],
        );
        lines.quota = Some(quota);
        lines.shrunk |= new.burst() < old.burst() && !lines.line.is_empty();
        lines.timed = now;
        self.limits.store(quota);
        self.begin_generation(&mut lines);
        let debt = Debt::until(new.at(now).saturating_add(owed));
        self.cell.begin_epoch(seen, debt);
        self.settle(lines);
    }

    /// Owes nothing any more.
    pub(super) fn restart(&self) {
        let mut lines = self.lock();
        let seen = self.cell.hold();
        lines.timed = self.clock().now();
        self.begin_generation(&mut lines);
        self.cell.begin_epoch(seen, Debt::until(0));
        // It was set in another runtime.
        self.alarm().take_off();
        self.settle(lines);
    }

    pub(super) fn close(&self) {
        let mut lines = self.lock();
        self.cell.hold();
        lines.closed = true;
        self.settle(lines);
    }
}

/// Of a charge that cannot be given back any more.
const NO_GENERATION: u64 = u64::MAX;

/// The most units that are counted as refunded.
const MOST_REFUNDED: u64 = 1 << 62;

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
