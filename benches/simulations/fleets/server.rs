//! The server: one limit, and the time that its calls take. The rule is that of `debt.lua` and `turns.lua`, for
//! calls that cost one unit. Nothing is given back here, so there are no open ticks.

use std::collections::BTreeSet;

/// A microsecond of the simulation.
pub(crate) type Micros = u64;

/// The units of debt of a call: each microsecond pays off as many as the rate.
const UNIT: u64 = 1_000_000;

/// A limit, in the form of `debt.lua`.
#[derive(Clone)]
struct Limit {
    rate: u64,
    burst: u64,
    debt: u64,
    at: Micros,
    /// The latest tick of each process that holds turns.
    latest: Vec<Micros>,
    holders: BTreeSet<(Micros, usize)>,
}

impl Limit {
    fn new(rate: u64, burst: u64, processes: usize) -> Self {
        Self {
            rate,
            burst,
            debt: 0,
            at: 0,
            latest: vec![0; processes],
            holders: BTreeSet::new(),
        }
    }

    /// Returns the time until a call is admitted.
    fn wait(&mut self, now: Micros) -> Micros {
        self.debt = self.debt.saturating_sub((now - self.at) * self.rate);
        self.at = now;
        let above = (self.debt + UNIT).saturating_sub(self.burst * UNIT);
        above.div_ceil(self.rate)
    }

    /// Records the latest tick of a process. Returns the number of processes that hold turns.
    fn hold(&mut self, process: usize, latest: Micros, now: Micros) -> u64 {
        while self.holders.first().is_some_and(|(tick, _)| *tick <= now) {
            self.holders.pop_first();
        }
        let before = self.latest[process];
        if latest > before {
            self.holders.remove(&(before, process));
            self.holders.insert((latest, process));
            self.latest[process] = latest;
        }
        self.holders.len() as u64
    }
}

/// What a process asks for.
#[derive(Clone, Copy)]
pub(crate) enum Ask {
    /// Charges at most as many calls, while there is enough now.
    Take { calls: u64 },
    /// Charges as many calls, each with the first turn, while there is room for as many turns.
    Turns { calls: u64, held: u64, room: u64 },
    /// Asks where the line ends.
    Look,
}

/// The reply of the server.
#[derive(Clone)]
pub(crate) struct Reply {
    /// The time until each call that was charged is due.
    pub(crate) due: Vec<Micros>,
    /// The time until the next call would be due.
    pub(crate) wait: Micros,
    pub(crate) holders: u64,
}

/// How long the server takes for a call on a connection of its own; beyond that, for a call that reserves turns,
/// and for each turn. These are assumed, from what one core does.
pub(crate) const CALL: Micros = 35;
const RESERVES: Micros = 25;
const TURN: Micros = 3;

pub(crate) struct Server {
    limit: Limit,
    /// The state that a replica has.
    replica: Option<Limit>,
    /// Calls are executed one after the other.
    busy: Micros,
    pub(crate) calls: u64,
    /// The time that calls took.
    pub(crate) worked: Micros,
    /// The longest time that a call waited for others.
    pub(crate) queued: Micros,
}

impl Server {
    pub(crate) fn new(rate: u64, burst: u64, processes: usize) -> Self {
        Self {
            limit: Limit::new(rate, burst, processes),
            replica: None,
            busy: 0,
            calls: 0,
            worked: 0,
            queued: 0,
        }
    }

    /// Copies the state to a replica, which takes over later.
    pub(crate) fn replicate(&mut self) {
        self.replica = Some(self.limit.clone());
    }

    /// Lets the replica take over; without one, the state is lost.
    pub(crate) fn take_over(&mut self, now: Micros) {
        let Limit { rate, burst, .. } = self.limit;
        let processes = self.limit.latest.len();
        let empty = || Limit {
            at: now,
            ..Limit::new(rate, burst, processes)
        };
        self.limit = self.replica.take().unwrap_or_else(empty);
        self.busy = now;
    }

    /// Executes a call that arrives now. Returns the reply, and when it is sent.
    pub(crate) fn call(&mut self, process: usize, ask: Ask, now: Micros) -> (Reply, Micros) {
        let begin = self.busy.max(now);
        self.queued = self.queued.max(begin - now);
        let mut due = Vec::new();
        let mut holders = 0;
        match ask {
            Ask::Take { calls } => {
                while due.len() < calls as usize && self.limit.wait(begin) == 0 {
                    self.limit.debt += UNIT;
                    due.push(0);
                }
            }
            Ask::Turns {
                calls,
                mut held,
                room,
            } => {
                let (mut room, mut latest) = (room as i64, 0);
                while due.len() < calls as usize {
                    let wait = self.limit.wait(begin);
                    if wait > 0 {
                        if room < 1 && held > 0 {
                            break;
                        }
                        (held, room, latest) = (held + 1, room - 1, begin + wait);
                    }
                    self.limit.debt += UNIT;
                    due.push(wait);
                }
                holders = self.limit.hold(process, latest, begin);
            }
            Ask::Look => {}
        }
        let reserves = if holders > 0 { RESERVES } else { 0 };
        let work = CALL + reserves + TURN * due.len() as u64;
        self.busy = begin + work;
        self.calls += 1;
        self.worked += work;
        let reply = Reply {
            due,
            wait: self.limit.wait(begin),
            holders,
        };
        (reply, self.busy)
    }
}
