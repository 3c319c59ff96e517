//! Following a server's count: what others use of it, beside the charges of the limiter.
//!
//! 1. A response tells the count just after the server had counted the call of a charge. The use by
//!    others is that count less what the limiter itself had counted just after the charge.
//! 2. A refunded call is one that the server has not counted.
//! 3. A response is older than one to a later charge, and then tells nothing but the end of a window.

use super::corrections::is_active;
use super::owed::up;
use super::{Charged, Event, NOBODY, Reference, What};

/// The use by others, and the calls that a response may be about.
#[derive(Clone, Default)]
pub(super) struct Others {
    calls: Vec<Call>,
    /// The newest charge with a response.
    answered: Option<usize>,
    told: i128,
    /// The tick at which the use ends, or is no longer known.
    until: i128,
    /// The tick at which it was told and the part of the window that had passed then, if it grows.
    grows: Option<(i128, i128)>,
}

/// A call, and what counted just after its charge.
#[derive(Clone, Copy)]
struct Call {
    owner: usize,
    at: i128,
    cost: i128,
    counted: i128,
}

impl Others {
    /// Returns the use at a tick. A growing one ends, and is at most twice what was told.
    pub(super) fn used(&self, now: i128) -> i128 {
        match self.grows {
            Some(_) if self.until <= now => 0,
            Some((at, passed)) if passed > 0 => {
                (self.told * (passed + now - at) / passed).min(self.told * 2)
            }
            _ => self.told,
        }
    }

    /// Returns the costs that count beside a call at a tick, as they are known now; it fits if it fits
    /// beside any of them. When the use is no longer known, a call may go alone.
    pub(super) fn beside(&self, now: i128, tick: i128, rest: i128) -> Vec<i128> {
        let used = self.used(now);
        if used == 0 || tick < self.until {
            return vec![used];
        }
        let alone = if self.grows.is_some() {
            0
        } else {
            used.min(rest)
        };
        vec![used, alone]
    }

    /// Returns the tick from which on nothing is known to be used.
    pub(super) fn end(&self, now: i128) -> i128 {
        if self.used(now) > 0 { self.until } else { 0 }
    }

    /// Forgets the use, which a pause has spent.
    pub(super) fn forget_use(&mut self) {
        (self.told, self.until, self.grows) = (0, 0, None);
    }

    /// Forgets the calls of another generation.
    pub(super) fn forget_calls(&mut self) {
        (self.calls, self.answered) = (Vec::new(), None);
    }

    pub(super) fn note(&mut self, owner: usize, at: i128, cost: i128, counted: i128) {
        if cost > 0 {
            self.calls.push(Call {
                owner,
                at,
                cost,
                counted,
            });
        }
    }

    /// Takes a cost out of a call, and out of what counted after it and later ones.
    pub(super) fn refund(&mut self, owner: usize, cost: i128) {
        for call in self.calls.iter_mut().filter(|call| call.owner >= owner) {
            call.cost -= if call.owner == owner { cost } else { 0 };
            call.counted = (call.counted - cost).max(0);
        }
    }

    /// Forgets an answered call and all earlier ones. Returns what counted just after it, the same with
    /// the calls until `soon`, and what was charged since; if the call is not known, what counts now.
    fn answer(&mut self, owner: usize, soon: i128, now: i128) -> Option<[i128; 3]> {
        if self.answered.is_some_and(|newest| owner <= newest) {
            return None;
        }
        self.answered = Some(owner);
        let until_soon = self.calls.iter().rfind(|call| call.at <= soon);
        let until_soon = until_soon.map_or(now, |call| call.counted);
        let call = self.calls.iter().find(|call| call.owner == owner).copied();
        self.calls.retain(|call| call.owner > owner);
        let since = self.calls.iter().map(|call| call.cost).sum();
        Some(match call {
            Some(call) => [call.counted, until_soon, since],
            None => [now, until_soon, 0],
        })
    }
}

impl Reference {
    /// Returns the charge that a hold began with, or the charge itself.
    pub(super) fn original(&self, owner: usize) -> usize {
        let found = self.begun.iter().find(|(hold, _)| *hold == owner);
        found.map_or(owner, |(_, charge)| *charge)
    }

    /// Brings the limiter in step with a server, whose response to the call of a charge reports a count
    /// and the time until the count restarts.
    pub(crate) fn follow(&mut self, charged: Charged, used: u64, reset_after: u64) {
        let (rule, now, at) = (
            *self.owed().rule(),
            i128::from(self.now),
            i128::from(charged.at),
        );
        if charged.generation != self.generation || rule.is_unlimited() {
            return;
        }
        let end = at + i128::from(reset_after).min(rule.period);
        let mut others = self.others.take();
        let window = (rule.has_windows(&self.setup)).then(|| {
            let until = others.as_ref().map(|it| {
                if it.grows.is_some() && it.until <= now {
                    0
                } else {
                    it.until
                }
            });
            self.move_window(end, until)
        });
        let before = others.as_ref().map_or(0, |it| it.used(now));
        // The use by others is not in it, except that a pause uses everything.
        let own = match self.paused_until() {
            Some(_) => (rule.burst - before).max(0),
            None => self.in_use().into(),
        };
        let used = i128::from(used).min(rule.burst * 2);
        let mut it = others.take().unwrap_or_default();
        if it.grows.is_some() && it.until <= now {
            it.forget_use();
        }
        let answer = it.answer(self.original(charged.owner), at + rule.period / 1000, own);
        if let Some((end, _)) = window {
            it.until = end;
        }
        let mut missing = 0;
        match (answer, window) {
            (Some([.., since]), None) if rule.is_by_word() => missing = used + since - own,
            (Some([counted, ..]), None) => {
                (it.told, it.until, it.grows) = ((used - counted).max(0), at + rule.period, None);
            }
            (Some([_, until_soon, _]), Some((end, true))) => {
                let mut told = it.clone();
                told.told = (used - until_soon).max(0);
                told.grows = Some((at, (rule.period - (end - at).max(0)).max(0)));
                if told.used(now) >= it.used(now) {
                    it = told;
                }
            }
            _ => {}
        }
        self.others = Some(it);
        if missing > 0 {
            self.events
                .push((NOBODY, now, What::Charge(missing, false)));
        }
        self.change();
    }

    /// Moves the end of the present window to a tick, or to one a whole number of windows away. The
    /// first response sets it; a later one delays it, or, once a window, moves it up to a hundredth of
    /// the period earlier. Returns the end, and whether the server's is the end of the present window.
    fn move_window(&mut self, end: i128, until: Option<i128>) -> (i128, bool) {
        let (rule, now) = (*self.owed().rule(), i128::from(self.now));
        let own = rule.next_step(now);
        let earlier = match until {
            None => i128::from(u64::MAX),
            Some(until) if until <= now => rule.period / 100,
            Some(_) => 0,
        };
        let away = if own >= earlier {
            ((own - end).max(0) + rule.period / 2) / rule.period
        } else {
            up((now + 1 - end).max(0), rule.period)
        };
        let next = end + away * rule.period;
        if next > now && next >= own - earlier {
            let shift = (NOBODY, now, What::Shift(next - rule.period));
            let pause = |event: &Event| is_active(event, self.now);
            let place = self.events.iter().position(pause);
            self.events
                .insert(place.unwrap_or(self.events.len()), shift);
        }
        let end_of_own = self.owed().rule().next_step(now);
        (end_of_own, away == 0 && end > now)
    }
}
