//! [`Ring`]: the part of a sliding log that threads share without a lock.
//!
//! Its invariants are those of the [log](super).

use std::sync::OnceLock;

use super::LAST_TICK;
use crate::sync::{AtomicU64, Ordering, back_off};

/// The maximum time by which the newest charge may be ahead of a clock that was not set back, in
/// nanoseconds.
const SET_BACK: u64 = 1_000_000;

/// A stamp has 58 bits of a tick, then a bit for a free slot, the turn, and `LOCKED`.
pub(super) const FREE: u64 = 1 << 58;
pub(super) const TURN_SHIFT: u32 = 59;
pub(super) const TURN: u64 = 0b1111 << TURN_SHIFT;
pub(super) const LOCKED: u64 = 1 << 63;

/// Returns the tick of a charge, unless the slot is free.
pub(super) fn tick_of(stamp: u64) -> Option<u64> {
    (stamp & FREE == 0).then_some(stamp & LAST_TICK)
}

/// Returns the first tick at which the next charge may replace a stamp.
pub(super) fn free_from(stamp: u64, period: u64) -> u64 {
    tick_of(stamp).map_or(0, |tick| tick + period)
}

/// A position in a ring of some length.
#[derive(Clone, Copy, Default)]
pub(super) struct Position {
    pub(super) lap: u64,
    pub(super) index: u64,
    pub(super) len: u64,
}

impl Position {
    /// Returns the number of bits of an index.
    pub(super) fn index_bits(len: u64) -> u32 {
        u64::BITS - (len - 1).leading_zeros()
    }

    fn unpack(packed: u64, len: u64) -> Self {
        let lap = packed >> Self::index_bits(len);
        let index = packed - (lap << Self::index_bits(len));
        Self { lap, index, len }
    }

    pub(super) fn pack(self) -> u64 {
        (self.lap << Self::index_bits(self.len)) + self.index
    }

    pub(super) fn next(self) -> Self {
        let (lap, index) = match self.index + 1 {
            index if index < self.len => (self.lap, index),
            _ => (self.lap.wrapping_add(1), 0),
        };
        Self { lap, index, ..self }
    }

    /// Returns the index of the position before it.
    pub(super) fn before(self) -> u64 {
        self.index.checked_sub(1).unwrap_or(self.len - 1)
    }

    /// Returns the number of positions before it.
    pub(super) fn number(self) -> u64 {
        self.lap.wrapping_mul(self.len).wrapping_add(self.index)
    }

    /// Returns the turn of a stamp of a charge at this position.
    pub(super) fn turn(self) -> u64 {
        self.lap << TURN_SHIFT & TURN
    }
}

/// The outcome of a call of cost 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// It was charged at this tick: the tick of the call, or the newest tick that the log has seen.
    /// [`give_back`](super::SlidingLog::give_back) finds the charge by the ticket.
    Charged { ticket: u64, at: u64 },
    /// The next charge is possible from this tick on; if it is after the last tick, never.
    Denied(u64),
    /// The call has to be decided under the limiter's lock.
    Locked,
}

/// The part of a sliding log that threads share without a lock.
#[derive(Default)]
pub(crate) struct Ring {
    /// The head's position.
    pub(super) head: AtomicU64,
    /// The length, and in the upper half the number of arrays smaller than the one in use.
    pub(super) shape: AtomicU64,
    /// The period in nanoseconds.
    pub(super) period: AtomicU64,
    /// The sum of this and the number of a position is a ticket; it wraps.
    pub(super) base: AtomicU64,
    /// No charge is made before this tick.
    pub(super) floor: AtomicU64,
    pub(super) first: Slots,
}

/// Slots, and the larger ones that replaced them when there were too few.
#[derive(Default)]
pub(super) struct Slots {
    pub(super) slots: Box<[AtomicU64]>,
    /// The new array has at least twice the slots.
    pub(super) larger: OnceLock<Box<Slots>>,
}

/// The head at one moment, not charged and not locked.
pub(super) struct Look<'a> {
    pub(super) head: Position,
    pub(super) slot: &'a AtomicU64,
    pub(super) stamp: u64,
    /// The first tick at which the next charge is possible.
    due: u64,
    /// The tick before which no charge may be.
    newest: u64,
}

impl Ring {
    /// Charges 1 at a tick, or returns the first tick at which that is possible, without a lock.
    pub(crate) fn try_charge(&self, now: u64) -> Claim {
        let now = now.min(LAST_TICK);
        let mut lost = 0;
        loop {
            let Some(look) = self.look(&mut lost) else {
                return Claim::Locked;
            };
            let at = now.max(look.newest);
            if look.due > at {
                // Threads disagree by less than that. A larger difference means that the clock was
                // set back, and that is corrected under the lock.
                let set_back = look.newest > now.saturating_add(SET_BACK);
                return if set_back {
                    Claim::Locked
                } else {
                    Claim::Denied(look.due)
                };
            }
            // If base and stamp are of different rings, the claim fails. This pairs with `lay`.
            let base = self.base.load(Ordering::Acquire);
            if exchange(look.slot, look.stamp, at | look.head.turn()) {
                self.move_head(look.head);
                let ticket = base.wrapping_add(look.head.next().number());
                return Claim::Charged { ticket, at };
            }
            back_off(&mut lost);
        }
    }

    /// Looks at the head, and moves it on while it is charged. Returns `None` if it is locked.
    #[inline(always)]
    pub(super) fn look(&self, lost: &mut u32) -> Option<Look<'_>> {
        loop {
            // This pairs with `move_head`, `push` and `lay`: the next reads are at least as new.
            let packed = self.head.load(Ordering::Acquire);
            // If these are newer than the head, the slot is locked, or newer too. This pairs with
            // `lay`.
            let shape = self.shape.load(Ordering::Acquire);
            let period = self.period.load(Ordering::Acquire);
            let head = Position::unpack(packed, shape & u64::from(u32::MAX));
            // While the ring becomes shorter, the slot may not exist.
            let slots = self.slots(shape >> 32);
            let slot = slots.get(head.index as usize)?;
            let stamp = slot.load(Ordering::Acquire);
            let before = slots.get(head.before() as usize)?.load(Ordering::Acquire);
            let floor = self.floor.load(Ordering::Acquire);
            // If the slot is newer than the head was, the head is also newer now.
            if self.head.load(Ordering::Relaxed) != packed {
                back_off(lost);
                continue;
            }
            if stamp & LOCKED != 0 {
                return None;
            }
            if stamp & TURN != head.turn() {
                return Some(Look {
                    head,
                    slot,
                    stamp,
                    due: free_from(stamp, period),
                    newest: tick_of(before).unwrap_or(0).max(floor),
                });
            }
            self.move_head(head);
            back_off(lost);
        }
    }

    /// Moves the head on, unless another thread has done so.
    pub(super) fn move_head(&self, head: Position) {
        // A thread that sees the next head also sees that this one was charged.
        exchange(&self.head, head.pack(), head.next().pack());
    }

    pub(super) fn slots(&self, array: u64) -> &[AtomicU64] {
        match array {
            0 => &self.first.slots,
            _ => &self.array(array).slots,
        }
    }

    #[cold]
    pub(super) fn array(&self, array: u64) -> &Slots {
        (0..array).fold(&self.first, |it, _| {
            it.larger.get().map_or(it, |larger| larger)
        })
    }
}

/// Writes a value if the old one is still there.
pub(super) fn exchange(atomic: &AtomicU64, old: u64, new: u64) -> bool {
    let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
    (atomic.compare_exchange(old, new, success, failure)).is_ok()
}

impl Slots {
    /// Creates slots that are locked.
    pub(super) fn new(capacity: u64) -> Self {
        Self {
            slots: (0..capacity).map(|_| AtomicU64::new(LOCKED)).collect(),
            larger: OnceLock::new(),
        }
    }
}
