//! Taking more than is asked for, as far as it is there: for who decides by itself for a while.
//!
//! 1. One decision, as in [`decide`](Core::decide): the word is changed once, or not at all, and
//!    never while somebody waits. What is taken is a charge like any other, so the promise of the
//!    limiter holds by its tick.
//! 2. All that is in hand is of one charge, the last one, and at its end: more is taken only for a
//!    call that uses up what was left. So a refund of that charge gives it back exactly.

use super::{Core, Decided, back_off, count};
use crate::algorithm::Limits;
use crate::error::AcquireError;
use crate::rate::charge::Charge;
use crate::rate::rule::Memory;
use crate::time::Tick;

/// What was charged, and not let through yet.
#[derive(Default)]
pub(in crate::rate) struct Hand {
    left: u64,
    /// Of the charge that it is of.
    ticket: u64,
    generation: u64,
    at: Tick,
}

/// Somebody who asks for more than is in hand.
#[derive(Clone, Copy)]
pub(in crate::rate) struct Asked {
    pub(in crate::rate) cost: u64,
    /// How much is taken ahead, if so much is there.
    pub(in crate::rate) chunk: u64,
}

/// What that comes to.
#[derive(Clone, Copy)]
pub(in crate::rate) struct Rest {
    /// What is to be had of the limiter.
    pub(in crate::rate) missing: u64,
    /// What is used up of the hand then.
    pub(in crate::rate) spent: u64,
}

impl Hand {
    pub(in crate::rate) fn left(&self) -> u64 {
        self.left
    }

    /// Lets a call through, if there is enough. Not one that asks for nothing.
    #[inline(always)]
    pub(in crate::rate) fn take(&mut self, cost: u64) -> bool {
        // For 0 this is the largest number, which is not less than any.
        let enough = cost.wrapping_sub(1) < self.left;
        if enough {
            self.left -= cost;
        }
        enough
    }

    /// What is missing for a call. If it asks for more than the burst, or for nothing, that is all
    /// of it: such a call is for the limiter alone to judge.
    #[inline]
    fn rest(&self, limits: &Limits, cost: u64) -> Rest {
        let alone = cost == 0 || limits.of(cost) > limits.tolerance;
        let spent = if alone { 0 } else { self.left };
        Rest {
            missing: cost - spent,
            spent,
        }
    }

    /// Lets a call through that got what was missing.
    #[inline]
    pub(in crate::rate) fn use_up(&mut self, spent: u64) {
        self.left -= spent;
    }

    /// The same, and keeps what was charged beyond that.
    #[inline]
    fn refill(&mut self, rest: Rest, charge: &Charge) {
        self.use_up(rest.spent);
        let more = charge.cost.saturating_sub(rest.missing);
        if more > 0 {
            self.left = more;
            self.ticket = charge.ticket;
            self.generation = charge.generation;
            self.at = charge.at;
        }
    }
}

impl Core {
    /// Lets a call through that asks for more than is in hand, or says why not: then the hand is as
    /// it was. What is taken ahead is at most a chunk together with what was missing, and what is
    /// there; nothing is while somebody waits or something is being changed.
    #[inline(never)]
    pub(in crate::rate) fn try_take_ahead(
        &self,
        hand: &mut Hand,
        asked: Asked,
    ) -> Result<(), AcquireError> {
        let result = match self.decide_ahead(hand, asked) {
            Decided::Charged(_) => Ok(()),
            Decided::Limited { due, now } if self.plain.is_some() => {
                let after = due.as_nanos().saturating_sub(now.as_nanos());
                Err(AcquireError::limited_nanos(after))
            }
            Decided::Limited { due, now } => Err(self.limited(due, now)),
            Decided::Held | Decided::Lost => {
                let rest = self.rest_of(hand, asked.cost);
                self.try_held(rest.missing).map(|_| hand.use_up(rest.spent))
            }
        };
        if let Some(counts) = &self.counts {
            count(match result {
                Ok(()) => &counts.admitted,
                Err(_) => &counts.denied,
            });
        }
        result
    }

    /// The same, if there is nothing to wait for and the lock is not needed.
    #[inline(never)]
    pub(in crate::rate) fn take_free_ahead(&self, hand: &mut Hand, asked: Asked) -> bool {
        let charged = matches!(self.decide_ahead(hand, asked), Decided::Charged(_));
        if let Some(counts) = self.counts.as_ref().filter(|_| charged) {
            count(&counts.admitted);
        }
        charged
    }

    /// What is missing for a call. While the quota is being changed, whether it asks for more than
    /// the burst may be told wrongly; the limiter judges what is missing in either case.
    pub(in crate::rate) fn rest_of(&self, hand: &Hand, cost: u64) -> Rest {
        hand.rest(&self.limits.load::<true>(), cost)
    }

    /// Gives back what is in hand, as far as time has not paid it off.
    pub(in crate::rate) fn give_back_hand(&self, hand: &mut Hand) {
        let left = std::mem::take(&mut hand.left);
        if left == 0 {
            return;
        }
        let charge = Charge {
            ticket: hand.ticket,
            generation: hand.generation,
            cost: left,
            at: hand.at,
            owed: 0,
        };
        self.refund(&charge, left);
    }

    #[inline(always)]
    fn decide_ahead(&self, hand: &mut Hand, asked: Asked) -> Decided {
        let Some(counter) = self.plain else {
            return self.decide_ahead_slowly(hand, asked, 0);
        };
        match self.decide_ahead_at::<false>(hand, asked, counter.now()) {
            Decided::Lost => self.decide_ahead_slowly(hand, asked, 0),
            decided => decided,
        }
    }

    /// Until nobody else is faster.
    #[cold]
    #[inline(never)]
    fn decide_ahead_slowly(&self, hand: &mut Hand, asked: Asked, mut lost: u32) -> Decided {
        self.enter_runtime();
        loop {
            back_off(lost);
            match self.decide_ahead_by_rule(hand, asked, self.clock().now()) {
                Decided::Lost => lost += 1,
                decided => return decided,
            }
        }
    }

    fn decide_ahead_by_rule(&self, hand: &mut Hand, asked: Asked, now: Tick) -> Decided {
        let rest = self.rest_of(hand, asked.cost);
        if rest.missing == 0 {
            return Decided::Held;
        }
        let most = match self.rule.as_deref() {
            None => return self.decide_ahead_at::<true>(hand, asked, now),
            Some(Memory::Window(_)) => rest.missing.max(asked.chunk),
            // Of more than one a log decides under the lock.
            Some(Memory::Log(_)) => rest.missing,
        };
        let mut decided = self.decide_by_rule(most, now);
        if most > rest.missing && !matches!(decided, Decided::Charged(_)) {
            decided = self.decide_by_rule(rest.missing, now);
        }
        if let Decided::Charged(charge) = &decided {
            hand.refill(rest, charge);
        }
        decided
    }

    /// Decides by what is owed, at a tick that was read just before, as [`decide`](Core::decide).
    #[inline(always)]
    fn decide_ahead_at<const STEPS: bool>(
        &self,
        hand: &mut Hand,
        asked: Asked,
        now: Tick,
    ) -> Decided {
        let seen = self.cell.load();
        let limits = self.limits.load::<STEPS>();
        let rest = hand.rest(&limits, asked.cost);
        let price = limits.of(rest.missing);
        if seen.is_held() || price > limits.tolerance || rest.missing == 0 {
            return Decided::Held;
        }
        let (unit, debt) = (limits.at(now), seen.debt());
        let room = limits.tolerance.saturating_sub(debt.at(unit));
        let most = rest.missing.max(asked.chunk);
        // It is divided only where there is some but not all of it.
        let cost = if limits.of(most) <= room {
            most
        } else if price <= room {
            limits.tokens(room)
        } else {
            rest.missing
        };
        match debt.take(&limits, unit, limits.of(cost)) {
            Ok(debt) => {
                let charge = self.charge_until(debt, unit, now, cost);
                if self.cell.exchange(seen, debt.end()) {
                    hand.refill(rest, &charge);
                    Decided::Charged(charge)
                } else {
                    Decided::Lost
                }
            }
            // Only by a charge beyond the burst; or the clock was set back.
            Err(_) if debt.at(unit) > limits.tolerance => Decided::Held,
            Err(due) => {
                let due = self.limits.inverse::<STEPS>().tick_at(due);
                if self.cell.confirms(seen) {
                    Decided::Limited { due, now }
                } else {
                    Decided::Lost
                }
            }
        }
    }
}
