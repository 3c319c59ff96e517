//! Joining the line, looking how it goes there, and leaving it.

use std::sync::Arc;
use std::task::{Poll, Waker};

use super::{Arm, Bell, Lines, Place, REFUSED, Refusal, UNATTENDED};
use crate::error::{AcquireError, ErrorKind};
use crate::rate::charge::Charge;
use crate::rate::core::{Core, count};
use crate::sync::MutexGuard;
use crate::time::Tick;
use crate::wait::{remaining_timeout, report_clock};
use crate::wait_queue::{WaiterId, WaiterStatus};

/// Of a charge that cannot be given back any more.
const NO_GENERATION: u64 = u64::MAX;

impl Core {
    /// Takes now, is refused, or joins the line: then there is a ticket, and an alarm to
    /// [arm](Self::arm).
    #[inline(never)]
    pub(in crate::rate) fn join(
        self: &Arc<Self>,
        cost: u64,
        waker: &Waker,
    ) -> Result<Result<Charge, AcquireError>, (WaiterId, Arm)> {
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
                } else if remaining_timeout().is_some_and(|left| after > left) {
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
    ) -> (WaiterId, Arm) {
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
        report_clock(self.clock());
        (ticket, bell.map(|bell| (due, bell)))
    }

    /// Has the line looked at when it is due. Not under the lock.
    pub(in crate::rate) fn arm(&self, arm: Arm) {
        if let Some((due, bell)) = arm {
            self.alarm().arm(self.clock(), due, bell);
        }
    }

    /// Nobody can join any more until the head goes; or, where nobody may wait, until `due`.
    fn queue_full(&self, lines: &Lines, due: Tick, now: Tick) -> AcquireError {
        let (limits, seen) = (self.limits.load::<true>(), self.cell.load());
        let head = lines.due_of_head(self, &limits, seen);
        let head = head.map(|due| self.tick_at(due));
        let after = head.unwrap_or(due).saturating_since(now);
        AcquireError::queue_full(self.jittered(after))
    }

    fn bell(self: &Arc<Self>, lines: &mut Lines) -> Waker {
        let ring = || Waker::from(Arc::new(Bell(Arc::downgrade(self))));
        lines.bell.get_or_insert_with(ring).clone()
    }

    /// A later poll.
    #[inline(never)]
    pub(in crate::rate) fn look(
        &self,
        ticket: &WaiterId,
        cost: u64,
        waker: &Waker,
    ) -> Poll<Result<Charge, AcquireError>> {
        // Declared before the lock, so dropped after it.
        let mut _unused = None;
        self.meet();
        let mut lines = self.lock();
        let mut look = lines.line.look(ticket, waker);
        if look != WaiterStatus::Served {
            // It may be due, and the alarm late: a deadline that is polled now must not be earlier.
            self.settle(lines);
            lines = self.lock();
            look = lines.line.look(ticket, waker);
        }
        if look == WaiterStatus::StaleWaker {
            drop(lines);
            let fresh = waker.clone();
            lines = self.lock();
            _unused = Some(lines.line.set_waker(ticket, fresh));
            look = lines.line.look(ticket, waker);
        }
        // Still stale, perhaps: a clone need not be known as waking the same.
        if matches!(look, WaiterStatus::Waiting | WaiterStatus::StaleWaker) {
            drop(lines);
            report_clock(self.clock());
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
    fn charge_of(&self, lines: &Lines, ticket: &WaiterId, place: Place, cost: u64) -> Charge {
        let (limits, at) = (self.limits.load::<true>(), Tick::from_nanos(place.tick));
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
    pub(in crate::rate) fn leave(&self, ticket: WaiterId, cost: u64) {
        let mut lines = self.lock();
        let first = lines.line.head_number() == Some(ticket.number().get());
        let Some(waker) = lines.line.withdraw(&ticket) else {
            return self.leave_granted(lines, ticket, cost);
        };
        lines.asked -= u128::from(cost);
        if first {
            let (limits, seen) = (self.limits.load::<true>(), self.cell.load());
            let due = self.due(&limits, seen, 0, cost);
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
    fn leave_granted<'a>(&'a self, mut lines: MutexGuard<'a, Lines>, ticket: WaiterId, cost: u64) {
        match lines.line.collect_kept(&ticket) {
            Some(place) if place.owed != REFUSED => {
                let charge = self.charge_of(&lines, &ticket, place, cost);
                drop(lines);
                self.refund(&charge, cost);
            }
            _ => drop(lines),
        }
    }

    /// Has a place in line granted without anybody to collect; or says why it was refused.
    pub(in crate::rate) fn leave_unattended(&self, ticket: &WaiterId) -> Result<(), AcquireError> {
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
    pub(in crate::rate) fn due_of(&self, ticket: &WaiterId) -> Option<Tick> {
        let mut lines = self.lock();
        let cost = lines.line.cost_mut(ticket)?.units;
        let (limits, seen) = (self.limits.load::<true>(), self.cell.load());
        let others = lines.charged(self, &limits, lines.line.before(ticket));
        Some(self.tick_at(self.due_behind(&limits, seen, others, cost)))
    }
}
