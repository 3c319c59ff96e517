//! A process: its turns and its share, by the rule of `rate/turns.rs`, for callers that cost one unit and do not
//! leave.

use std::collections::VecDeque;

use super::server::{Ask, Micros, Reply};

/// How much longer than the shortest round trip a timely reply may take.
const LATE: Micros = 50_000;
/// A turn is far if it is due later than this.
const FAR: Micros = 5_000_000;
/// The most calls in a request: of those that take what is there, and of those that reserve turns.
const MOST_ASKED: u64 = 1024;
const MOST_RESERVED: u64 = 256;

/// The limit as a process knows it.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    pub(crate) burst: u64,
    /// The units that the rate admits within the horizon.
    pub(crate) within: u64,
}

pub(crate) struct Process {
    /// The way to the server, one way.
    pub(crate) distance: Micros,
    /// When each turn is due.
    turns: VecDeque<Micros>,
    share: Option<u64>,
    round_trip: Option<Micros>,
    behind: Micros,
    is_lost: bool,
    look: Option<Micros>,
    /// The number of the call under way, and of the last one.
    pub(crate) asks: Option<u64>,
    pub(crate) last: u64,
    /// The failures in a row, and the time until which the breaker is open.
    pub(crate) failures: u32,
    pub(crate) pause: Micros,
    /// When it is woken next; 0 for never.
    pub(crate) planned: Micros,
    /// When it begins, and when it was first admitted.
    pub(crate) begins: Micros,
    pub(crate) first: Option<Micros>,
    /// Those that came after the first seconds.
    pub(crate) admitted: u64,
}

/// What happens to the callers of a process.
#[derive(Default)]
pub(crate) struct Change {
    /// The callers that are admitted now.
    pub(crate) admitted: u64,
    /// The turns that are given back, or too late.
    pub(crate) unused: u64,
}

impl Process {
    pub(crate) fn new(distance: Micros, begins: Micros) -> Self {
        Self {
            distance,
            turns: VecDeque::new(),
            share: None,
            round_trip: None,
            behind: 0,
            is_lost: false,
            look: None,
            asks: None,
            last: 0,
            failures: 0,
            pause: 0,
            planned: 0,
            begins,
            first: None,
            admitted: 0,
        }
    }

    /// Admits the callers whose turns are due.
    pub(crate) fn serve(&mut self, now: Micros) -> u64 {
        let due = self.turns.partition_point(|due| *due <= now);
        self.turns.drain(..due);
        due as u64
    }

    /// Returns when the next turn is due.
    pub(crate) fn due(&self) -> Option<Micros> {
        self.turns.front().copied()
    }

    /// Returns what to ask, with this many callers in the process; or when to act next, if there is anything to
    /// wait for.
    pub(crate) fn next(
        &mut self,
        waiters: u64,
        known: Known,
        now: Micros,
    ) -> Result<Ask, Option<Micros>> {
        let held = self.turns.len() as u64;
        let due = self.due();
        match due {
            Some(due) if due - now > FAR => {
                self.look.get_or_insert(now + FAR.max((due - now) / 10));
            }
            Some(_) => {}
            None => self.look = None,
        }
        if self.pause > now {
            return Err(Some(due.map_or(self.pause, |due| due.min(self.pause))));
        }
        if self.look.is_some_and(|look| look <= now) {
            return Ok(Ask::Look);
        }
        let wake = due.into_iter().chain(self.look).min();
        let queued = waiters.saturating_sub(held);
        if queued == 0 {
            return Err(wake);
        }
        let is_behind = !self.is_lost && (self.behind > now || held > 0);
        if !is_behind {
            let calls = queued.min(MOST_ASKED);
            return Ok(Ask::Take { calls });
        }
        let share = self.share.unwrap_or(1);
        let room = share.saturating_sub(held);
        if held > 0 && (held > share / 2 || room < 1) {
            return Err(wake);
        }
        let calls = queued.min(room + known.burst).min(MOST_RESERVED);
        Ok(Ask::Turns { calls, held, room })
    }

    /// Handles the reply to a call that took this long.
    pub(crate) fn learn(
        &mut self,
        ask: Ask,
        reply: &Reply,
        known: Known,
        took: Micros,
        now: Micros,
    ) -> Change {
        let mut change = Change::default();
        self.failures = 0;
        if let Ask::Look = ask {
            self.look = None;
            if self
                .turns
                .front()
                .is_some_and(|due| now + reply.wait < *due)
            {
                change.unused = self.turns.drain(..).count() as u64;
            }
            return change;
        }
        self.is_lost = false;
        self.behind = if reply.wait > 0 { now + reply.wait } else { 0 };
        let mut is_timely = true;
        if let Ask::Turns { .. } = ask {
            let share = known.within.checked_div(reply.holders).unwrap_or(1).max(1);
            let most = self.share.unwrap_or(1) * 2;
            self.share = Some(share.min(most));
            is_timely = self.round_trip.is_none_or(|least| took <= least + LATE);
            let least = self.round_trip.filter(|least| is_timely && *least < took);
            self.round_trip = Some(least.unwrap_or(took));
        }
        for wait in &reply.due {
            match wait {
                0 => change.admitted += 1,
                _ if !is_timely => change.unused += 1,
                _ => {
                    let due = now + wait;
                    let index = self.turns.partition_point(|it| *it <= due);
                    self.turns.insert(index, due);
                }
            }
        }
        change
    }

    /// Handles a call without a reply. The breaker opens after five of them.
    pub(crate) fn fail(&mut self, now: Micros, pause: Micros) {
        (self.behind, self.is_lost) = (0, true);
        self.failures += 1;
        if self.failures >= 5 {
            self.pause = now + pause;
        }
    }
}
