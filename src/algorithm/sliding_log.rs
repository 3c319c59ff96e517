//! The sliding log: exactly at most `N` charges in any period, measured by the ticks of the last
//! `N`.
//!
//! A [`Ring`] has `N` slots. Each holds a *stamp*: the tick of a charge, or that the slot is free.
//! Positions are numbered without end; a position belongs to the slot of its number modulo `N`, and
//! its *lap* is the number of complete passes through the ring before it. The *head* is the first
//! position that is not charged yet, so its slot holds the oldest stamp.
//!
//! 1. A charge replaces the stamp of the head's slot with a later one, in one compare-exchange, and
//!    only if the old stamp is at least a period older. So any period has at most one charge for
//!    each slot, in every case.
//! 2. A stamp carries the last four bits of its lap, its *turn*. A slot with the turn of the head's
//!    lap is charged already, and any thread that sees that moves the head on. Like in the queue of
//!    Michael and Scott, no thread has to wait for the one that made the charge.
//! 3. A look at the head reads the head, the parameters and the slot, and then the head again. The
//!    head never takes the same value twice, so if it is unchanged, all of them belong together. A
//!    rejection is such a look, and writes nothing.
//! 4. A look that became outdated cannot claim: a charge has made the slot's stamp later, `LOCKED`
//!    has changed it, and a rewritten ring has other turns. Turns repeat after 16 rewrites. A claim
//!    that was suspended for exactly that long, and whose old stamp was written to the same slot
//!    again, still replaces a stamp that is a period old, in a ring that is in use. The worst
//!    outcome is that the stamps are out of order for a lap.
//! 5. `LOCKED` in the head's slot stops all claims. Only the holder of the limiter's lock sets and
//!    clears it, and the holder writes only in between: a charge moves the bit on to the next slot
//!    before it moves the head. A rewrite ([`lay`](SlidingLog::lay)) sets the bit in all slots
//!    before it reads them. Unused slots keep it.
//! 6. Charges beyond the available room (an overdraft) are *ahead*: a number only. Each becomes a
//!    stamp as soon as the slot of its position is free, at the tick at which the slot became free.
//!    The ring stays locked until no charges are ahead. So stamps keep their true ticks, and a
//!    change of the period never has to move one. No stamp is in the future, except during a pause:
//!    then the burst is [spent](SlidingLog::spend_burst) as of its end, and the ring stays locked
//!    until then.
//! 7. Stamps rise from the head around: a charge at an older tick than the newest, by a thread that
//!    was suspended after it had read its clock, is made at the newest. A charge is also not made
//!    before the *floor*, the tick at which the ring was last rewritten: a slot that a refund has
//!    made free was free when that charge was made, and not before.
//! 8. A *ticket* identifies a charge: it is the number of charges until then. Tickets are unique
//!    and rise. Counting back from the newest ticket finds the part of a charge that a refund may
//!    give back.
//!
//! The position in the head has 64 bits, and the slot's index takes only the bits that it needs. So
//! with one slot there are 2^64 laps, and with 2^28 slots 2^36, enough for centuries at one charge
//! per nanosecond. Tickets end at 2^62; only overdrafts can reach that, and nothing is refunded
//! afterwards.

// These have their paths, because a loom model compiles this file alone.
#[path = "sliding_log/forecast.rs"]
mod forecast;
#[path = "sliding_log/ring.rs"]
mod ring;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use self::forecast::Forecast;
pub(crate) use self::ring::{Claim, Ring};
use self::ring::{FREE, LOCKED, Position, Slots, TURN, TURN_SHIFT, exchange, free_from, tick_of};
use super::LAST_TICK;
use super::refunds::Refunds;
use crate::quota::Quota;
use crate::sync::{AtomicU64, Ordering};

/// The longest time before the epoch of the clock.
const MOST_BIAS: u64 = 1 << 57;

/// The last ticket.
pub(super) const LAST_TICKET: u64 = 1 << 62;

/// The sliding log for the holder of the limiter's lock.
///
/// All ticks are nanoseconds. Every method except [`new`](Self::new), [`ring`](Self::ring) and
/// [`lock`](Self::lock) needs the ring to be locked.
#[derive(Default)]
pub(crate) struct SlidingLog {
    ring: Arc<Ring>,
    /// Equal to the head in the ring while that is locked; its length is valid at any time.
    head: Position,
    array: u64,
    period: u64,
    base: u64,
    floor: u64,
    /// The number of charges that still wait for a free slot.
    ahead: u64,
    /// The time by which the ticks of the ring are ahead of those of the clock, because there are charges from
    /// before the epoch of the clock. Until it is 0, the ring stays locked.
    bias: u64,
    /// Charges without a slot since the log became shorter; rising.
    older: Vec<u64>,
    refunds: Refunds,
    /// Charges with this ticket, or an earlier one, cannot be refunded.
    void: u64,
}

impl SlidingLog {
    /// Creates a log whose slots are all free.
    pub(crate) fn new(quota: Quota) -> Self {
        let (len, period) = (quota.count(), quota.period().as_nanos() as u64);
        let first = Slots::new(len);
        let mut log = Self {
            ring: Arc::new(Ring {
                first,
                ..Ring::default()
            }),
            head: Position {
                len,
                ..Position::default()
            },
            period,
            ..Self::default()
        };
        log.lay(len, &[], 0);
        log.unlock();
        log
    }

    /// Returns the part that charges without the lock.
    pub(crate) fn ring(&self) -> &Arc<Ring> {
        &self.ring
    }

    /// Returns the limit.
    pub(crate) fn len(&self) -> u64 {
        self.head.len
    }

    /// Returns the period, in nanoseconds.
    pub(crate) fn period(&self) -> u64 {
        self.period
    }

    /// Returns whether a charge was made after this tick.
    pub(crate) fn is_ahead_of(&self, now: u64) -> bool {
        self.ahead == 0 && self.newest() > now
    }

    /// Stops all charges without the lock. The log may be locked already.
    pub(crate) fn lock(&mut self) {
        while let Some(look) = self.ring.look(&mut 0) {
            if exchange(look.slot, look.stamp, look.stamp | LOCKED) {
                self.head = look.head;
                break;
            }
        }
    }

    /// Allows charges without the lock again, unless some are ahead.
    pub(crate) fn unlock(&self) {
        if self.ahead == 0 && self.bias == 0 {
            // This pairs with the looks: all writes are visible.
            self.slot(0).fetch_and(!LOCKED, Ordering::AcqRel);
        }
    }

    /// Returns the first tick at which `cost` can be charged, if `behind` others are charged
    /// before, one by one, each as soon as possible. A cost of more than the limit waits until the
    /// backlog is empty.
    pub(crate) fn due(&self, behind: u128, cost: u64) -> u64 {
        self.forecast().due(behind, cost)
    }

    /// Begins to foresee charges.
    pub(crate) fn forecast(&self) -> Forecast<'_> {
        Forecast::new(self)
    }

    /// Charges `cost` at a tick, or at the newest tick that it has seen, with any backlog. Charges
    /// without room are made later, one by one, each as soon as there is room. Returns the ticket,
    /// the charged cost (the part that fits before the last tick), and the tick.
    pub(crate) fn charge(&mut self, at: u64, cost: u64) -> (u64, u64, u64) {
        let at = at.max(self.newest());
        self.settle(at);
        let charged = self.book(at, cost);
        let ticket = self.total();
        if ticket > LAST_TICKET {
            self.void = u64::MAX;
        }
        (ticket, charged, at)
    }

    /// Gives back up to `cost` of a charge, the newest units first, except units that are a period
    /// old. Returns the refund. Charges that are ahead move up.
    pub(crate) fn give_back(&mut self, ticket: u64, cost: u64, now: u64) -> u64 {
        self.settle(now);
        let total = self.total();
        // A ticket after the newest is of another log.
        if ticket <= self.void || ticket > total {
            return 0;
        }
        let newer = self.refunds.newer(total, ticket);
        let unpaid = self.ahead + self.taken(now);
        let given = self.refunds.give(total, ticket, cost, unpaid);
        if given == 0 {
            return 0;
        }
        let from_ahead = given.min(self.ahead.saturating_sub(newer));
        // A slot that becomes free was free at the ticks of the refunded charges.
        self.floor = self.newest();
        let mut ticks = self.seize();
        let end = ticks.len() - newer.saturating_sub(self.ahead) as usize;
        ticks.drain(end - (given - from_ahead) as usize..end);
        let ahead = std::mem::take(&mut self.ahead) - from_ahead;
        // The refunded tickets are not used again.
        self.lay(self.head.len, &ticks, total.wrapping_sub(ahead));
        // In a pause, the newest is the end of the pause.
        self.book(now.max(self.newest()), ahead);
        given
    }

    /// Creates the log of a state with these charges, some perhaps from before the epoch. It is locked.
    pub(crate) fn of_charges(quota: Quota, charges: &Saved, ticket: u64, now: u64) -> Self {
        let mut log = Self::new(quota);
        log.lock();
        // The slots have no ticks before the epoch.
        let first = charges
            .ticks
            .first()
            .map_or(0, |first| first.min(&0).unsigned_abs());
        log.bias = first.min(MOST_BIAS);
        log.restore(charges, log.biased(now));
        log.base = log.base.wrapping_add(ticket.wrapping_sub(log.total()));
        log.void = 0;
        log.publish();
        log
    }

    /// Moves all charges along the time by this number of nanoseconds, to a tick.
    pub(crate) fn shift(&mut self, by: i64, now: u64) {
        let mut charges = self.save();
        for tick in &mut charges.ticks {
            *tick = tick.saturating_add(by).max(-(MOST_BIAS as i64));
        }
        let quota = Quota::new(self.head.len, Duration::from_nanos(self.period));
        *self = Self::of_charges(quota, &charges, self.ticket(), now);
    }

    /// Returns the ticket of the newest charge.
    pub(crate) fn ticket(&self) -> u64 {
        self.total()
    }

    /// Returns the tick of the ring for a tick of the clock.
    pub(crate) fn biased(&self, tick: u64) -> u64 {
        tick.saturating_add(self.bias).min(LAST_TICK)
    }

    /// Returns the tick of the clock for a tick of the ring.
    pub(crate) fn unbiased(&self, tick: u64) -> u64 {
        match tick {
            0..=LAST_TICK => tick.saturating_sub(self.bias),
            _ => tick,
        }
    }

    /// Forgets charges from before the epoch of the clock once none of them counts any more. Returns the tick of the
    /// ring for a tick of the clock.
    pub(crate) fn advance(&mut self, now: u64) -> u64 {
        if self.bias > 0 && now >= self.period {
            // The charges that are ahead take the places of the forgotten ones, one period later.
            self.settle(self.biased(now));
            let bias = std::mem::take(&mut self.bias);
            let total = self.total();
            let since =
                |ticks: Vec<u64>| ticks.into_iter().filter_map(|tick| tick.checked_sub(bias));
            self.older = since(std::mem::take(&mut self.older)).collect();
            let ticks: Vec<_> = since(self.seize()).collect();
            self.floor = self.floor.saturating_sub(bias);
            self.lay(self.head.len, &ticks, total.wrapping_sub(self.ahead));
        }
        self.biased(now)
    }

    /// Returns all charges, for [`restore`](Self::restore).
    pub(crate) fn save(&self) -> Saved {
        let stamps = (0..self.head.len).map(|number| self.slot(number).load(Ordering::Acquire));
        let ticks = self.older.iter().copied().chain(stamps.filter_map(tick_of));
        Saved {
            ticks: ticks.map(|tick| tick as i64 - self.bias as i64).collect(),
            ahead: self.ahead,
        }
    }

    /// Returns to saved charges, under the same quota. Earlier charges can no longer be refunded.
    pub(crate) fn restore(&mut self, saved: &Saved, now: u64) {
        self.seize();
        // A charge from before the epoch has been paid off, unless there is a bias for it.
        let biased = |tick: &i64| u64::try_from(tick.saturating_add(self.bias as i64)).ok();
        let ticks = saved.ticks.iter().filter_map(biased);
        let ticks: Vec<_> = ticks.map(|tick| tick.min(LAST_TICK)).collect();
        let last = ticks.last().map_or(0, |tick| *tick);
        self.floor = last.max(now);
        self.restart(self.head.len, ticks);
        self.ahead = saved.ahead;
        self.settle(now);
    }

    /// Spends all slots that are free at a tick except one, as if a charge had been made in each part
    /// of the period before: they become free one by one. Does nothing if there is at most one, or if
    /// the clock is younger than a period: there are no ticks before the epoch, and slots that become
    /// free later would stop a limit by the day for a day. Earlier charges can no longer be refunded.
    ///
    /// A tick in the future needs the ring to stay locked until then.
    pub(crate) fn spend_burst(&mut self, at: u64) {
        // This comes first, because slots that look free may be those of charges that are ahead.
        self.settle(at);
        let len = self.head.len;
        let Some(begin) = at.checked_sub(self.period) else {
            return;
        };
        if self.ahead > 0 || self.count_free(at, len) <= 1 {
            return;
        }
        self.floor = self.newest();
        let made = self.seize();
        let free = len - made.len() as u64;
        // The first slot stays free.
        let ticks = (1..len).map(|number| {
            let part = (u128::from(number) * u128::from(self.period)).div_ceil(u128::from(len));
            let even = begin + part as u64;
            let own = number.checked_sub(free).map(|own| made[own as usize]);
            even.max(own.unwrap_or(0))
        });
        let (ticks, older) = (ticks.collect(), std::mem::take(&mut self.older));
        self.restart(len, ticks);
        self.older = older;
    }

    /// Returns how many charges are less than a period old, or ahead.
    pub(crate) fn backlog(&mut self, now: u64) -> u64 {
        self.settle(now);
        let paid = self.older.partition_point(|tick| tick + self.period <= now);
        self.ahead + self.taken(now) + (self.older.len() - paid) as u64
    }

    /// Returns the first tick at which the backlog is empty.
    pub(crate) fn reset(&self) -> u64 {
        self.due(0, self.head.len)
    }

    /// Changes the quota. All charges stay at their ticks, so a charge that had become a period old
    /// may count again under a longer period. If it `scales`, the counting charges are scaled in
    /// proportion to the counts: the newest are kept, or each is repeated as often as necessary.
    /// Earlier charges can no longer be refunded.
    pub(crate) fn change(&mut self, quota: Quota, scales: bool, now: u64) {
        self.settle(now);
        let mut ticks = std::mem::take(&mut self.older);
        ticks.append(&mut self.seize());
        let mut ahead = self.ahead;
        self.floor = self.newest();
        if scales {
            let paid = ticks.partition_point(|tick| tick + self.period <= now);
            ticks.drain(..paid);
            (ticks, ahead) = scaled(ticks, ahead, self.head.len, quota.count());
        }
        self.period = quota.period().as_nanos() as u64;
        self.restart(quota.count(), ticks);
        self.book(now, ahead);
    }
}

/// The charges of a log at some moment.
pub(crate) struct Saved {
    /// The ticks of the clock, rising, perhaps before its epoch.
    pub(crate) ticks: Vec<i64>,
    /// The number of charges that still wait for a free slot.
    pub(crate) ahead: u64,
}

/// Methods under the lock, on a locked ring.
impl SlidingLog {
    /// Returns the slot of the head, or of a position less than a lap after it.
    fn slot(&self, after: u64) -> &AtomicU64 {
        let index = (self.head.index + after) % self.head.len;
        &self.ring.slots(self.array)[index as usize]
    }

    /// Returns the first tick at which the slot of the head is free, or of any position after it,
    /// if all positions before are charged as soon as possible.
    fn free_from(&self, after: u128) -> u64 {
        let len = u128::from(self.head.len);
        let laps = u64::try_from(after / len).unwrap_or(u64::MAX);
        let stamp = self.slot((after % len) as u64).load(Ordering::Acquire);
        free_from(stamp, self.period).saturating_add(laps.saturating_mul(self.period))
    }

    /// Returns how many of the first `most` positions from the head are free at a tick.
    fn count_free(&self, tick: u64, most: u64) -> u64 {
        let (mut free, mut taken) = (0, most);
        while free < taken {
            let middle = free + (taken - free) / 2;
            if self.free_from(middle.into()) <= tick.min(LAST_TICK) {
                free = middle + 1;
            } else {
                taken = middle;
            }
        }
        free
    }

    /// Returns how many slots are not free.
    fn taken(&self, now: u64) -> u64 {
        self.head.len - self.count_free(now, self.head.len)
    }

    /// Returns the tick before which no charge is made.
    fn newest(&self) -> u64 {
        let slots = self.ring.slots(self.array);
        let stamp = slots[self.head.before() as usize].load(Ordering::Acquire);
        tick_of(stamp).unwrap_or(0).max(self.floor)
    }

    /// Returns the ticket of the newest charge.
    fn total(&self) -> u64 {
        let number = self.head.number().wrapping_add(self.ahead);
        self.base.wrapping_add(number)
    }

    /// Writes the charges that are ahead and whose slots have become free, at the ticks at which
    /// they became free.
    fn settle(&mut self, now: u64) {
        let (count, len) = (self.count_free(now, self.ahead), self.head.len);
        if count >= len {
            let later = count / len * self.period;
            let ticks: Vec<u64> = self.seize().iter().map(|tick| tick + later).collect();
            let total = self.total();
            self.ahead -= count - count % len;
            self.lay(len, &ticks, total.wrapping_sub(self.ahead));
        }
        for _ in 0..count % len {
            self.ahead -= 1;
            self.push(self.free_from(0));
        }
    }

    /// Charges `cost` at a tick, or ahead; returns the part of it before the last tick.
    fn book(&mut self, at: u64, cost: u64) -> u64 {
        let at = at.min(LAST_TICK);
        let mut charged = 0;
        while self.ahead == 0 && charged < cost && self.free_from(0) <= at {
            self.push(at);
            charged += 1;
        }
        let before = self.ahead;
        let most = before.saturating_add(cost - charged);
        self.ahead = self.count_free(LAST_TICK, most).max(before);
        charged + self.ahead - before
    }

    /// Charges the head at a tick, and stays locked.
    fn push(&mut self, tick: u64) {
        // This comes before any thread can find the slot at the head.
        self.slot(1).fetch_or(LOCKED, Ordering::AcqRel);
        let locked = if self.head.len == 1 { LOCKED } else { 0 };
        let stamp = tick | self.head.turn() | locked;
        self.slot(0).store(stamp, Ordering::Release);
        // This fails if a thread has seen the stamp and has already moved the head.
        self.ring.move_head(self.head);
        self.head = self.head.next();
    }

    /// Locks all slots and returns the ticks of their charges, the oldest first.
    fn seize(&self) -> Vec<u64> {
        // This is a read-modify-write, so that no charge is missed: a claim that was suspended until the
        // turns repeated may also charge a slot that is not the head's.
        let seize = |number| self.slot(number).fetch_or(LOCKED, Ordering::AcqRel);
        let stamps = (0..self.head.len).map(seize);
        stamps.filter_map(tick_of).collect()
    }

    /// Rewrites a ring whose slots are all locked, with another length, and without the earlier
    /// tickets. It then holds the newest of these charges, one for each slot.
    fn restart(&mut self, len: u64, mut ticks: Vec<u64>) {
        let total = self.total();
        self.ahead = 0;
        self.void = self.void.max(total);
        self.refunds = Refunds::default();
        let kept = ticks.split_off(ticks.len().saturating_sub(len as usize));
        self.older = ticks;
        self.lay(len, &kept, total);
    }

    /// Writes everything in the ring except the stamps.
    fn publish(&self) {
        let (ring, shape) = (&self.ring, self.array << 32 | self.head.len);
        ring.shape.store(shape, Ordering::Release);
        ring.period.store(self.period, Ordering::Release);
        ring.base.store(self.base, Ordering::Release);
        ring.floor.store(self.floor, Ordering::Release);
        ring.head.store(self.head.pack(), Ordering::Release);
    }

    /// Rewrites a ring whose slots are all locked, with these ticks, the oldest first, with this
    /// length and the period in `self`. The newest charge has this ticket.
    fn lay(&mut self, len: u64, ticks: &[u64], ticket: u64) {
        // The head is later, and its turn differs from both turns in the ring.
        let lap = (self.head.pack() >> Position::index_bits(len)).wrapping_add(1);
        let lap = lap.wrapping_add(self.head.lap.wrapping_add(3).wrapping_sub(lap) % 16);
        self.head = Position { lap, index: 0, len };
        self.base = ticket.wrapping_sub(self.head.number());
        let slots = self.ring.array(self.array);
        let capacity = slots.slots.len() as u64;
        if len > capacity {
            let larger = || Box::new(Slots::new(len.max(2 * capacity)));
            slots.larger.get_or_init(larger);
            self.array += 1;
        }
        self.publish();
        // No two heads are the same, so no free stamp equals an earlier one.
        let free = FREE | (self.head.pack() & LAST_TICK);
        let turn = lap.wrapping_sub(1) << TURN_SHIFT & TURN;
        let free = (ticks.len() as u64..len).map(|_| &free);
        for (tick, number) in free.chain(ticks).zip(0..) {
            let locked = if number == 0 { LOCKED } else { 0 };
            self.slot(number)
                .store(tick | turn | locked, Ordering::Release);
        }
    }
}

/// Scales charges to another count, and returns their ticks and the number of them that are ahead.
pub(super) fn scaled(mut ticks: Vec<u64>, ahead: u64, old: u64, new: u64) -> (Vec<u64>, u64) {
    let part = |count: u64, by: u64, of: u64| {
        let part = (u128::from(count) * u128::from(by)).div_ceil(u128::from(of));
        u64::try_from(part).unwrap_or(u64::MAX)
    };
    let made = ticks.len() as u64;
    let used = made + ahead;
    let kept = part(used, new, old);
    if kept <= used {
        let past = made.min(used - kept);
        ticks.drain(..past as usize);
        return (ticks, ahead - (used - kept - past));
    }
    let ahead = part(ahead, kept, used);
    let past = kept - ahead;
    let back = |number: u64| (u128::from(number) * u128::from(made) / u128::from(past)) as u64;
    let tick = |number| ticks[(made - 1 - back(number)) as usize];
    ((0..past.min(new)).rev().map(tick).collect(), ahead)
}

#[cfg(all(test, not(tollgate_loom)))]
#[path = "sliding_log/tests.rs"]
mod tests;
