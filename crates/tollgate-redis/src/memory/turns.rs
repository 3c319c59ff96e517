//! [`Turns`]: the open ticks of a limit, and the processes that hold turns.
//!
//! A turn that was given back while others are charged behind it leaves its tick open: the next turn that costs at most
//! as much gets it. The rest of it stays open, later by the cost of that turn.

use std::collections::HashMap;

use super::rule::Rule;

/// The maximum number of open ticks, as on a server.
const MOST_OPEN: usize = 64;

#[derive(Default)]
pub(super) struct Turns {
    /// In the order of their ticks.
    open: Vec<Open>,
    /// The latest tick of each process.
    holders: HashMap<String, u64>,
}

#[derive(Clone, Copy)]
struct Open {
    /// The microsecond in which it is due.
    due: u64,
    n: u64,
    /// The position of the charge that ends with it.
    end: u64,
}

impl Turns {
    /// Forgets the ticks that have passed.
    pub(super) fn pass(&mut self, now: u64) {
        self.open.retain(|open| open.due > now);
    }

    pub(super) fn add(&mut self, due: u64, n: u64, end: u64) {
        let index = self.open.partition_point(|open| open.due <= due);
        self.open.insert(index, Open { due, n, end });
        self.open.truncate(MOST_OPEN);
    }

    /// Returns the last open tick, or 0.
    pub(super) fn last(&self) -> u64 {
        self.open.last().map_or(0, |open| open.due)
    }

    /// Finds an open tick for a turn of `n` before a microsecond. Returns when it is due, and its index.
    pub(super) fn find(&self, n: u64, before: u64) -> Option<(u64, usize)> {
        let mut open = self.open.iter().take_while(|open| open.due < before);
        let index = open.position(|open| open.n >= n)?;
        Some((self.open[index].due, index))
    }

    /// Takes `n` units of an open tick. Returns the position at which they end.
    pub(super) fn take(&mut self, index: usize, n: u64, rule: &Rule) -> u64 {
        let Open { due, n: units, end } = self.open.remove(index);
        let rest = units - n;
        if rest > 0 {
            let later = u128::from(n) * u128::from(rule.period);
            let later = later.div_ceil(u128::from(rule.count)) as u64;
            self.add(due + later, rest, end);
        }
        end - rest
    }

    /// Records the latest tick of a process, or 0. Returns the number of processes that hold turns.
    pub(super) fn hold(&mut self, process: &str, latest: u64, now: u64) -> usize {
        self.holders.retain(|_, latest| *latest > now);
        if latest > now {
            let known = self.holders.entry(process.to_owned()).or_default();
            *known = latest.max(*known);
        }
        self.holders.len()
    }
}
