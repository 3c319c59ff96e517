//! Corrections of the reference: refunds, settlements, holds, pauses and changes of the quota. Each changes the list
//! of events, and may make the head due.

use tollgate::Quota;
use tollgate::rate::QuotaChange;

use super::owed::{LAST_TICK, NOBODY, Rule};
use super::{Answer, Charged, Event, Reference, What};

/// Returns the amount that these events have charged, at this many units a token.
fn forced(events: impl Iterator<Item = Event>, interval: i128) -> i128 {
    let amounts = events.map(|event| match event.2 {
        What::Charge(cost, _) | What::Hold(_, Some(cost), _) => cost * interval,
        What::Refund(cost) => -cost * interval,
        What::Forced(amount) => amount,
        What::Hold(_, None, _) | What::Pause | What::Shift(_) => 0,
    });
    amounts.sum()
}

/// Returns whether an event is a pause that has not ended.
pub(super) fn is_active(event: &Event, now: u64) -> bool {
    matches!(event.2, What::Pause) && event.1 > now.into()
}

/// The calls.
impl Reference {
    pub(crate) fn refund(&mut self, charged: Charged, cost: u64) {
        self.give_back(charged, cost);
        self.change();
    }

    /// Gives back a part of a charge, unless it is from before a pause, or of another quota.
    pub(crate) fn give_back(&mut self, charged: Charged, cost: u64) {
        self.forget_call(charged, cost.into());
        self.take_back(charged, cost);
    }

    /// Does the same for a charge whose call is made.
    fn take_back(&mut self, charged: Charged, cost: u64) {
        if charged.generation == self.generation {
            let refund = What::Refund(cost.into());
            self.events.push((charged.owner, self.now.into(), refund));
        }
    }

    /// Takes a cost out of a call that a server has not counted.
    fn forget_call(&mut self, charged: Charged, cost: i128) {
        let owner = self.original(charged.owner);
        let is_known = charged.generation == self.generation;
        if let Some(others) = self.others.as_mut().filter(|_| is_known) {
            others.refund(owner, cost);
        }
    }

    pub(crate) fn settle(&mut self, charged: Charged, used: u64) {
        match charged.cost.checked_sub(used) {
            Some(less) => self.refund(charged, less),
            None => _ = self.charge(used - charged.cost),
        }
    }

    /// Holds the cost of a charge, in place of the charge. In a log and a window the charge itself
    /// is the hold.
    pub(crate) fn hold(&mut self, charged: Charged) -> Charged {
        if !self.rule().is_by_word() {
            let is_known = charged.generation == self.generation;
            return if is_known {
                charged
            } else {
                self.charge(charged.cost)
            };
        }
        self.take_back(charged, charged.cost);
        let end = self.now.saturating_add(self.setup.max_hold);
        let (owner, hold) = (self.owners, What::Hold(charged.cost.into(), None, end));
        self.owners += 1;
        self.begun.push((owner, charged.owner));
        self.events.push((owner, self.now.into(), hold));
        self.change();
        Charged { owner, ..charged }
    }

    /// Charges the usage as of the beginning of the hold. A log and a window correct the charge. If
    /// the hold has ended by itself, what was used beyond it is charged now.
    pub(crate) fn settle_hold(&mut self, hold: Charged, used: u64) {
        if !self.rule().is_by_word() {
            return self.settle(hold, used);
        }
        let is_it = |event: &&mut Event| event.0 == hold.owner;
        match self.events.iter_mut().find(is_it).map(|event| &mut event.2) {
            Some(What::Hold(_, open @ None, _)) => {
                *open = Some(used.into());
                self.forget_call(hold, i128::from(hold.cost) - i128::from(used));
            }
            _ if used > hold.cost => _ = self.charge(used - hold.cost),
            _ => {}
        }
        self.change();
    }

    /// Admits nobody until the end, and spends the burst as of then, except for one token. The
    /// longest pause wins: it and the one that has not ended are one pause.
    pub(crate) fn pause_for(&mut self, nanos: u64) {
        let until = self.now.saturating_add(nanos);
        if until > self.now && until > self.paused_until {
            let is_never = i128::from(until) > LAST_TICK;
            let until = if is_never { u64::MAX } else { until };
            self.paused_until = until;
            self.begin_generation();
            if let Some(others) = &mut self.others {
                others.forget_use();
            }
            if !self.move_pause(until) {
                self.events.push((NOBODY, until.into(), What::Pause));
            }
            self.change();
        }
    }

    /// Earlier charges can no longer be refunded, and no response to them counts.
    fn begin_generation(&mut self) {
        self.generation += 1;
        if let Some(others) = &mut self.others {
            others.forget_calls();
        }
    }

    /// Moves the end of a pause. What was forced in it counts as of now in a log or a window, and
    /// comes after the spent burst in a backlog. Returns whether there is a pause.
    fn move_pause(&mut self, until: u64) -> bool {
        let now = i128::from(self.now);
        let pause = self
            .events
            .iter()
            .position(|event| is_active(event, self.now));
        let Some(pause) = pause else {
            return false;
        };
        self.events[pause].1 = until.into();
        if !self.rule().is_by_word() {
            let forced = forced(self.events.drain(pause + 1..), 1);
            self.events.push((NOBODY, now, What::Forced(forced)));
        }
        true
    }

    /// Ends a pause, as if it had been asked to end now.
    pub(crate) fn resume(&mut self) {
        if self.move_pause(self.now) {
            self.begin_generation();
        }
        self.paused_until = self.paused_until.min(self.now);
        self.change();
    }

    /// Carries over what is owed. During a pause that is what is owed without it; then the new
    /// burst is spent, and what was forced in the pause follows. Open holds count as of now.
    /// Waiters that ask for too much now are refused.
    pub(crate) fn set_quota(&mut self, quota: Quota, how: QuotaChange) {
        let (old, now) = (*self.owed().rule(), i128::from(self.now));
        let new = Rule::new(self.setup.algorithm, quota);
        self.quota = quota;
        if old.is(&new) {
            return;
        }
        let new = old.then(new, now);
        let pause = self
            .events
            .iter()
            .position(|event| is_active(event, self.now));
        let (before, within) = self.events.split_at(pause.unwrap_or(self.events.len()));
        let base = self.replay(before).change(new, how, now);
        let is_open = |event: &&Event| matches!(event.2, What::Hold(_, None, _));
        let opened = |events: &[Event]| {
            let holds = events.iter().filter(is_open);
            holds.map(|hold| (hold.0, now, hold.2)).collect::<Vec<_>>()
        };
        let mut events = opened(before);
        if pause.is_some() {
            let forced = forced(within.iter().copied(), old.interval());
            let forced = old.scaled(forced, &new, how);
            events.push((NOBODY, self.paused_until.into(), What::Pause));
            events.push((NOBODY, now, What::Forced(forced)));
            events.extend(opened(within));
        }
        (self.base, self.events) = (base, events);
        self.begin_generation();
        for waiter in std::mem::take(&mut self.queue) {
            if self.is_too_much(waiter.cost) {
                self.answers[waiter.name] = Answer::Exceeds(self.limit());
            } else {
                self.queue.push_back(waiter);
            }
        }
        self.change();
    }
}
