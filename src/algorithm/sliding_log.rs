//! The sliding log: exactly at most `N` charges in any period, by the ticks of the last `N`.
//!
//! A [`Ring`] has `N` slots. Each holds a *stamp*: the tick of a charge, or that the slot is free.
//! Positions are numbered without end; a position belongs to the slot of its number modulo `N`, and
//! how often the ring was gone through before it is its *lap*. The *head* is the first position that
//! is not charged yet, so its slot holds the oldest stamp.
//!
//! 1. A charge replaces the stamp of the head's slot by a later one, in one compare-exchange, and
//!    only if the old stamp is at least a period older. So any period has at most one charge for
//!    each slot, whatever else happens.
//! 2. A stamp carries the last four bits of its lap, its *turn*. A slot with the turn of the head's
//!    lap is charged already, and whoever sees that moves the head on. As in the queue of Michael
//!    and Scott, nobody has to wait for the thread that made the charge.
//! 3. A look at the head reads the head, the parameters and the slot, and then the head again. The
//!    head never takes the same value twice, so if it is unchanged, all of them belong together.
//!    A rejection is such a look, and writes nothing.
//! 4. A look that became outdated cannot claim: a charge has made the slot's stamp later, `LOCKED`
//!    has changed it, and a rewritten ring has other turns. Turns repeat after 16 rewritings. A claim
//!    that was suspended for exactly so long, and whose old stamp was written to the same slot
//!    again, still replaces a stamp that is a period old, in a ring that is in use; the worst of it
//!    is that the stamps are out of order for a lap.
//! 5. `LOCKED` in the head's slot stops all claims. Only the holder of the limiter's lock sets and
//!    clears it, and only in between does it write: a charge moves the bit on to the next slot before
//!    it moves the head. A rewriting ([`lay`](SlidingLog::lay)) sets the bit in all slots before it
//!    reads them. Slots that are not in use keep it.
//! 6. Charges beyond what there is room for (an overdraft) are *ahead*: a number only. Each becomes
//!    a stamp as soon as the slot of its position is free, at the tick at which that was so. Until
//!    there are none ahead the ring stays locked. So no stamp is ever in the future, stamps keep
//!    their true ticks, and a change of the period never has to move one.
//! 7. A charge is known by its *ticket*: how many were charged until then. Tickets are unique and
//!    rise. What a charge's refund may give back is found by counting back from the newest.
//!
//! The position in the head has 64 bits, of which the slot's index takes no more than it needs. So
//! with one slot there are 2^64 laps, and with 2^28 slots 2^36, which is centuries at one charge in
//! a nanosecond. Tickets end at 2^62, which only overdrafts can reach; nothing is given back then.

use std::sync::{Arc, OnceLock};

use super::LAST_TICK;
use crate::quota::Quota;
use crate::sync::{AtomicU64, Ordering};

/// How many refunds are remembered. When the oldest is forgotten, older charges can give back less.
const MOST_REFUNDS: usize = 1024;

/// The last ticket.
const LAST_TICKET: u64 = 1 << 62;

const LOCKED: u64 = 1 << 63;
const TURN_SHIFT: u32 = 59;
const TURN: u64 = 0b1111 << TURN_SHIFT;
const FREE: u64 = 1 << 58;

/// What a slot holds: 58 bits of a tick, whether the slot is free instead, the turn, `LOCKED`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp(u64);

impl Stamp {
    const fn new(tick: u64, turn: u64) -> Self {
        Self(tick | turn)
    }

    const fn is_locked(self) -> bool {
        self.0 & LOCKED != 0
    }

    const fn turn(self) -> u64 {
        self.0 & TURN
    }

    /// The tick of the charge, unless the slot is free.
    const fn tick(self) -> Option<u64> {
        match self.0 & FREE {
            0 => Some(self.0 & LAST_TICK),
            _ => None,
        }
    }

    /// The first tick at which the next charge may replace it.
    #[inline(always)]
    const fn free_from(self, period: u64) -> u64 {
        match self.tick() {
            Some(tick) => tick + period,
            None => 0,
        }
    }
}

/// A position in a ring of some length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Position {
    lap: u64,
    index: u64,
}

impl Position {
    /// How many bits an index takes.
    #[inline(always)]
    const fn index_bits(len: u64) -> u32 {
        u64::BITS - (len - 1).leading_zeros()
    }

    #[inline(always)]
    const fn unpack(packed: u64, len: u64) -> Self {
        let lap = packed >> Self::index_bits(len);
        let index = packed - (lap << Self::index_bits(len));
        Self { lap, index }
    }

    #[inline(always)]
    const fn pack(self, len: u64) -> u64 {
        (self.lap << Self::index_bits(len)) + self.index
    }

    #[inline(always)]
    const fn next(self, len: u64) -> Self {
        match self.index + 1 {
            index if index < len => Self { index, ..self },
            _ => Self {
                lap: self.lap + 1,
                index: 0,
            },
        }
    }

    /// How many positions there are before it.
    #[inline(always)]
    const fn number(self, len: u64) -> u64 {
        self.lap * len + self.index
    }

    /// The turn of a stamp that was charged at this position.
    #[inline(always)]
    const fn turn(self) -> u64 {
        self.lap << TURN_SHIFT & TURN
    }
}

/// Slots, and those that took their place when there were too few.
#[derive(Debug)]
struct Slots {
    slots: Box<[AtomicU64]>,
    /// At least twice as many.
    larger: OnceLock<Box<Slots>>,
}

impl Slots {
    fn new(capacity: u64, stamp: u64) -> Self {
        Self {
            slots: (0..capacity).map(|_| AtomicU64::new(stamp)).collect(),
            larger: OnceLock::new(),
        }
    }
}

/// The part of a sliding log that threads share without a lock.
#[derive(Debug)]
pub struct Ring {
    /// The head's position.
    head: AtomicU64,
    len: AtomicU64,
    /// In nanoseconds.
    period: AtomicU64,
    /// A position's number and this make a ticket; wraps.
    base: AtomicU64,
    /// How many arrays are smaller than the one in use.
    array: AtomicU64,
    first: Slots,
}

/// What became of a call of cost 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It was charged at the tick at which it was made.
    Charged {
        /// By which [`give_back`](SlidingLog::give_back) knows the charge.
        ticket: u64,
    },
    /// The next charge is possible from this tick on; after the last tick, never.
    Denied {
        /// In nanoseconds.
        due: u64,
    },
    /// The call has to be decided under the limiter's lock.
    Locked,
}

/// The head as it was at one moment, not charged and not locked.
struct Look<'a> {
    head: Position,
    len: u64,
    period: u64,
    base: u64,
    slot: &'a AtomicU64,
    stamp: Stamp,
}

impl Ring {
    /// Charges 1 at a tick, or says from when on that is possible, without a lock.
    #[inline]
    pub fn try_charge(&self, now: u64) -> Claim {
        let now = now.min(LAST_TICK);
        loop {
            let Some(look) = self.look() else {
                return Claim::Locked;
            };
            let due = look.stamp.free_from(look.period);
            if due > now {
                return Claim::Denied { due };
            }
            let next = look.head.next(look.len);
            if look.claim(Stamp::new(now, look.head.turn())) {
                self.move_head(look.head, next, look.len);
                let ticket = look.base.wrapping_add(next.number(look.len));
                return Claim::Charged { ticket };
            }
        }
    }

    /// Looks at the head, and moves it on as far as it is charged. `None` if it is locked.
    #[inline(always)]
    fn look(&self) -> Option<Look<'_>> {
        loop {
            // Pairs with `move_head` and `lay`: the slot and the parameters are at least as new.
            let packed = self.head.load(Ordering::Acquire);
            let slots = self.slots();
            // Whoever reads what `lay` has written reads the locked slots afterwards, or the new
            // head. Pairs with `lay`.
            let len = self.len.load(Ordering::Acquire);
            let period = self.period.load(Ordering::Acquire);
            let base = self.base.load(Ordering::Acquire);
            let head = Position::unpack(packed, len);
            // While the ring becomes shorter, there may be no such slot.
            let slot = slots.get(head.index as usize)?;
            let stamp = Stamp(slot.load(Ordering::Acquire));
            // Whoever charged the slot at a later position had seen a later head.
            if self.head.load(Ordering::Relaxed) != packed {
                continue;
            }
            if stamp.is_locked() {
                return None;
            }
            if stamp.turn() != head.turn() {
                return Some(Look {
                    head,
                    len,
                    period,
                    base,
                    slot,
                    stamp,
                });
            }
            self.move_head(head, head.next(len), len);
        }
    }

    /// Moves the head on, unless somebody else has done so.
    #[inline(always)]
    fn move_head(&self, head: Position, next: Position, len: u64) {
        // Release: whoever sees the next head sees how this one was charged.
        let _ = self.head.compare_exchange(
            head.pack(len),
            next.pack(len),
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
    }

    #[inline(always)]
    fn slots(&self) -> &[AtomicU64] {
        // Pairs with the release of `grow`: the array was made.
        match self.array.load(Ordering::Acquire) {
            0 => &self.first.slots,
            smaller => &self.larger_slots(smaller).slots,
        }
    }

    #[cold]
    #[inline(never)]
    fn larger_slots(&self, smaller: u64) -> &Slots {
        (0..smaller).fold(&self.first, |slots, _| {
            slots.larger.get().map_or(slots, |it| it)
        })
    }

    /// Makes room for so many slots. Those that are new are locked. Only under the lock.
    fn grow(&self, len: u64) {
        let array = self.array.load(Ordering::Relaxed);
        let slots = self.larger_slots(array);
        let capacity = slots.slots.len() as u64;
        if len > capacity {
            let larger = || Box::new(Slots::new(len.max(2 * capacity), LOCKED));
            slots.larger.get_or_init(larger);
            self.array.store(array + 1, Ordering::Release);
        }
    }
}

impl Look<'_> {
    /// Writes the slot, if its stamp is still the same.
    #[inline(always)]
    fn claim(&self, stamp: Stamp) -> bool {
        let old = self.stamp.0;
        let claimed = self
            .slot
            .compare_exchange(old, stamp.0, Ordering::AcqRel, Ordering::Relaxed);
        claimed.is_ok()
    }
}

/// What was charged under the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogCharge {
    /// By which [`give_back`](SlidingLog::give_back) knows the charge.
    pub ticket: u64,
    /// How many were charged: all, unless there is no time left for them before the last tick.
    pub cost: u64,
}

/// The sliding log as the holder of the limiter's lock has it.
///
/// All ticks are nanoseconds. Every method but [`new`](Self::new), [`ring`](Self::ring) and
/// [`lock`](Self::lock) needs the ring to be locked.
#[derive(Debug)]
pub struct SlidingLog {
    ring: Arc<Ring>,
    len: u64,
    period: u64,
    /// How many are charged for which no slot has become free yet.
    ahead: u64,
    /// Charges for which there is no slot since the log became shorter; rising.
    older: Vec<u64>,
    /// Tickets of charges of which something was given back, rising, and how much.
    refunds: Vec<(u64, u64)>,
    /// Charges with this ticket, or an earlier one, give nothing back.
    void: u64,
}

impl SlidingLog {
    /// Makes a log of which all slots are free.
    pub fn new(quota: Quota) -> Self {
        let (len, period) = (quota.count(), nanos(quota));
        // The first lap is 1, and what was before it is 0.
        let head = Position { lap: 1, index: 0 };
        let ring = Ring {
            head: AtomicU64::new(head.pack(len)),
            len: AtomicU64::new(len),
            period: AtomicU64::new(period),
            base: AtomicU64::new(len.wrapping_neg()),
            array: AtomicU64::new(0),
            first: Slots::new(len, FREE),
        };
        Self {
            ring: Arc::new(ring),
            len,
            period,
            ahead: 0,
            older: Vec::new(),
            refunds: Vec::new(),
            void: 0,
        }
    }

    /// The part that charges without the lock.
    pub fn ring(&self) -> &Arc<Ring> {
        &self.ring
    }

    /// Stops all charges that are made without the lock. It may be locked already.
    pub fn lock(&self) {
        while let Some(look) = self.ring.look() {
            if look.claim(Stamp(look.stamp.0 | LOCKED)) {
                break;
            }
        }
    }

    /// Lets charges be made without the lock again, unless some are ahead.
    pub fn unlock(&self) {
        if self.ahead == 0 {
            // Pairs with the looks: all that was written is there.
            self.slot(0).fetch_and(!LOCKED, Ordering::AcqRel);
        }
    }

    /// The first tick at which `cost` can be charged, if `behind` others are charged before, one by
    /// one, each as soon as possible. A cost of more than the limit waits until nothing is owed.
    pub fn due(&self, behind: u128, cost: u64) -> u64 {
        let places = behind + u128::from(cost.min(self.len));
        let last = places.checked_sub(1);
        last.map_or(0, |last| self.free_from(last + u128::from(self.ahead)))
    }

    /// Charges so much at a tick, whatever is owed. What there is no room for is charged as soon as
    /// there is, each by itself.
    pub fn charge(&mut self, at: u64, cost: u64) -> LogCharge {
        self.settle(at);
        let cost = self.book(at, cost);
        let ticket = self.total();
        if ticket > LAST_TICKET {
            self.void = u64::MAX;
        }
        LogCharge { ticket, cost }
    }

    /// Gives back up to `cost` of a charge, as far as that is not a period old, the newest first, and
    /// says how much that was. What is ahead moves up.
    pub fn give_back(&mut self, ticket: u64, cost: u64, now: u64) -> u64 {
        self.settle(now);
        let total = self.total();
        let later = self.refunds.iter().rev();
        let later = later.take_while(|(other, _)| *other > ticket);
        let later: u64 = later.map(|(_, count)| count).sum();
        // How many newer charges there still are. Of a ticket of another log there may be none.
        let newer = total
            .checked_sub(ticket)
            .map(|newer| newer.checked_sub(later));
        let Some(newer) = newer.flatten().filter(|_| ticket > self.void) else {
            return 0;
        };
        let unpaid = self.ahead + self.len - self.free_slots(now);
        let given = cost.min(unpaid.saturating_sub(newer));
        if given == 0 {
            return 0;
        }
        let from_ahead = given.min(self.ahead.saturating_sub(newer));
        let mut ticks = self.seize();
        let end = ticks.len() - newer.saturating_sub(self.ahead) as usize;
        ticks.drain(end - (given - from_ahead) as usize..end);
        let ahead = std::mem::take(&mut self.ahead) - from_ahead;
        // Their tickets are not used again.
        self.lay(&ticks, total - ahead);
        self.book(now, ahead);
        let number = self.refunds.partition_point(|(other, _)| *other < ticket);
        self.refunds.insert(number, (ticket, given));
        if self.refunds.len() > MOST_REFUNDS {
            self.refunds.remove(0);
        }
        given
    }

    /// How many charges are less than a period old, or ahead.
    pub fn backlog(&mut self, now: u64) -> u64 {
        self.settle(now);
        let free = self.free_slots(now);
        let counts = |tick: &&u64| **tick + self.period > now;
        let older = self.older.iter().rev().take_while(counts);
        let older = if free == 0 { older.count() as u64 } else { 0 };
        self.ahead + self.len - free + older
    }

    /// The first tick at which nothing is owed any more.
    pub fn reset(&self) -> u64 {
        self.due(0, self.len)
    }

    /// Goes on with another quota. All charges stay at their ticks, so that one that had become a
    /// period old may count again under a longer period. If it `scales`, as many of those that count
    /// are kept as is in proportion to the counts, the newest; or each as often as it takes.
    /// Charges from before give nothing back.
    pub fn change(&mut self, quota: Quota, scales: bool, now: u64) {
        self.settle(now);
        let total = self.total();
        let mut ticks = std::mem::take(&mut self.older);
        ticks.append(&mut self.seize());
        let mut ahead = std::mem::take(&mut self.ahead);
        if scales {
            let paid = ticks.partition_point(|tick| *tick + self.period <= now);
            ticks.drain(..paid);
            (ticks, ahead) = scaled(ticks, ahead, self.len, quota.count());
        }
        (self.len, self.period) = (quota.count(), nanos(quota));
        let excess = ticks.len().saturating_sub(self.len as usize);
        let kept = ticks.split_off(excess);
        self.older = ticks;
        self.forget_tickets(total);
        self.lay(&kept, total);
        self.book(now, ahead);
    }

    /// Forgets all charges.
    pub fn clear(&mut self) {
        let total = self.total();
        self.seize();
        self.ahead = 0;
        self.older = Vec::new();
        self.forget_tickets(total);
        self.lay(&[], total);
    }
}

/// Under the lock, and locked.
impl SlidingLog {
    fn head(&self) -> Position {
        Position::unpack(self.ring.head.load(Ordering::Acquire), self.len)
    }

    /// The slot of the head, or of a position after it, less than a lap.
    fn slot(&self, after: u64) -> &AtomicU64 {
        let index = self.head().index + after;
        let index = if index < self.len {
            index
        } else {
            index - self.len
        };
        &self.ring.slots()[index as usize]
    }

    /// The first tick at which the slot of the head is free, or of any position after it, if all
    /// before are charged as soon as they can be.
    fn free_from(&self, after: u128) -> u64 {
        let len = u128::from(self.len);
        let laps = u64::try_from(after / len).unwrap_or(u64::MAX);
        let slot = self.slot((after % len) as u64);
        let first = Stamp(slot.load(Ordering::Acquire)).free_from(self.period);
        first.saturating_add(laps.saturating_mul(self.period))
    }

    /// How many positions are free at a tick, of so many from the head on.
    fn count_free(&self, tick: u64, most: u64) -> u64 {
        let (mut free, mut taken) = (0, most);
        while free < taken {
            let middle = free + (taken - free) / 2;
            if self.free_from(middle.into()) <= tick {
                free = middle + 1;
            } else {
                taken = middle;
            }
        }
        free
    }

    fn free_slots(&self, now: u64) -> u64 {
        self.count_free(now.min(LAST_TICK), self.len)
    }

    /// The ticket of the newest charge.
    fn total(&self) -> u64 {
        let base = self.ring.base.load(Ordering::Relaxed);
        base.wrapping_add(self.head().number(self.len))
            .wrapping_add(self.ahead)
    }

    fn forget_tickets(&mut self, total: u64) {
        self.void = self.void.max(total);
        self.refunds.clear();
    }

    /// Writes those that are ahead, and for which slots have become free, at the ticks at which they
    /// have.
    fn settle(&mut self, now: u64) {
        let count = self.count_free(now.min(LAST_TICK), self.ahead);
        let whole = count - count % self.len;
        if whole > 0 {
            let later = whole / self.len * self.period;
            let ticks = self.seize();
            let ticks: Vec<u64> = ticks.into_iter().map(|tick| tick + later).collect();
            let total = self.total();
            self.ahead -= whole;
            self.lay(&ticks, total - self.ahead);
        }
        for _ in whole..count {
            self.ahead -= 1;
            self.push(self.free_from(0));
        }
    }

    /// Charges so much at a tick, or ahead; says how much of it is before the last tick.
    fn book(&mut self, at: u64, cost: u64) -> u64 {
        let at = at.min(LAST_TICK);
        let mut charged = 0;
        while self.ahead == 0 && charged < cost && self.free_from(0) <= at {
            self.push(at);
            charged += 1;
        }
        let most = self.ahead.saturating_add(cost - charged);
        let fitting = self.count_free(LAST_TICK, most).max(self.ahead);
        charged += fitting - self.ahead;
        self.ahead = fitting;
        charged
    }

    /// Charges the head at a tick, and stays locked.
    fn push(&self, tick: u64) {
        let head = self.head();
        let mut stamp = Stamp::new(tick, head.turn()).0;
        if self.len == 1 {
            stamp |= LOCKED;
        } else {
            // Before anybody can find it at the head.
            self.slot(1).fetch_or(LOCKED, Ordering::AcqRel);
        }
        self.slot(0).store(stamp, Ordering::Release);
        // Those who have seen the stamp may have done so already.
        let next = head.next(self.len).pack(self.len);
        self.ring.head.store(next, Ordering::Release);
    }

    /// Locks all slots and returns the ticks of their charges, the oldest first.
    fn seize(&self) -> Vec<u64> {
        // A read-modify-write, so that no charge is missed, whatever a suspended claim does.
        let seize = |number| Stamp(self.slot(number).fetch_or(LOCKED, Ordering::AcqRel));
        (0..self.len)
            .filter_map(|number| seize(number).tick())
            .collect()
    }

    /// Rewrites a ring of which all slots are locked, by these ticks, the oldest first, and by the
    /// length and the period that are set; the newest has this ticket.
    fn lay(&self, ticks: &[u64], ticket: u64) {
        let (ring, len) = (&self.ring, self.len);
        let packed = ring.head.load(Ordering::Relaxed);
        let old = Position::unpack(packed, ring.len.load(Ordering::Relaxed));
        // A later head, and a turn that is neither of those that were in the ring.
        let lap = (packed >> Position::index_bits(len)) + 1;
        let head = Position {
            lap: lap + (old.lap + 3).wrapping_sub(lap) % 16,
            index: 0,
        };
        let packed = head.pack(len);
        ring.grow(len);
        ring.len.store(len, Ordering::Release);
        ring.period.store(self.period, Ordering::Release);
        let base = ticket.wrapping_sub(head.number(len));
        ring.base.store(base, Ordering::Release);
        ring.head.store(packed, Ordering::Release);
        // No two heads are the same, so no free stamp is as another one was.
        let free = FREE | (packed & LAST_TICK);
        let turn = (head.lap - 1) << TURN_SHIFT & TURN;
        let free = (ticks.len() as u64..len).map(|_| &free);
        for (number, (slot, tick)) in ring.slots().iter().zip(free.chain(ticks)).enumerate() {
            let locked = if number == 0 { LOCKED } else { 0 };
            slot.store(Stamp::new(*tick, turn).0 | locked, Ordering::Release);
        }
    }
}

/// So many of the charges as of another count, and how many of them are ahead.
fn scaled(mut ticks: Vec<u64>, ahead: u64, old: u64, new: u64) -> (Vec<u64>, u64) {
    let part = |count: u128, by: u128, of: u128| {
        u64::try_from((count * by).div_ceil(of)).unwrap_or(u64::MAX)
    };
    let used = ticks.len() as u128 + u128::from(ahead);
    let kept = part(used, new.into(), old.into());
    if u128::from(kept) <= used {
        let gone = (used - u128::from(kept)) as u64;
        let past = gone.min(ticks.len() as u64);
        ticks.drain(..past as usize);
        return (ticks, ahead - (gone - past));
    }
    let ahead = part(ahead.into(), kept.into(), used);
    let (past, made) = (kept - ahead, ticks.len() as u128);
    let tick = |back: u64| {
        let back = u128::from(back) * made / u128::from(past);
        ticks[(made - 1 - back) as usize]
    };
    ((0..past.min(new)).rev().map(tick).collect(), ahead)
}

fn nanos(quota: Quota) -> u64 {
    u64::try_from(quota.period().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(all(test, not(tollgate_loom)))]
#[path = "sliding_log/tests.rs"]
mod tests;
