//! Compares the script of leases with the most obvious model, on random steps, with a clock that the
//! test sets.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::support::cases;
use crate::support::server::Server;

/// The first version of the script: a request sends no number that it has seen, its tickets expire, nobody is
/// told, and a renewal is of one lease. Both versions run in one fleet while it is updated.
const FIRST: &str = include_str!("version_1.lua");

pub(super) const CURRENT: &str = concat!(
    include_str!("../../src/lua/clock.lua"),
    "\n",
    include_str!("../../src/lua/prelude.lua"),
    include_str!("../../src/lua/line.lua"),
    include_str!("../../src/lua/lease.lua")
);

/// Returns a script with a key as its clock. Its messages are in a list; those to the channels in a set reach
/// nobody.
pub(super) fn script(text: &str) -> String {
    let real = "redis.call('TIME')";
    assert_eq!(text.matches(real).count(), 1);
    let text = text.replace(
        real,
        "{ redis.call('GET', 'clock'):match('^(%d+)(%d%d%d%d%d%d)$') }",
    );
    text.replace(
        "redis.pcall('PUBLISH', channel, message)",
        "(redis.call('RPUSH', 'told', message) > 0 and 1 - redis.call('SISMEMBER', 'deaf', channel))",
    )
}

/// A ttl in microseconds that is long enough that no key expires in real time while a case runs.
const TTL: i64 = 1_000_000_000;
const LIFE: i64 = 400_000_000;

/// The life of a ticket in the current version.
const MINUTE: i64 = 60_000_000;

pub(super) const START: i64 = 1_700_000_000_000_000;

/// The callers, with the number of permits that each acquires.
const COSTS: [i64; 7] = [1, 1, 2, 1, 3, 1, 2];

/// The first callers may be of the first version.
const OLD: usize = 3;

/// The processes of the current version: their channels, and the time in which each claims. The last one only
/// looks.
const PROCESSES: [(&str, i64); 3] = [("c0", 50_000), ("c1", 200_000), ("", 90_000)];

fn process(who: usize) -> usize {
    who % PROCESSES.len()
}

#[derive(Clone, Debug)]
enum Step {
    Pass(i64),
    SetClockBack(i64),
    SetPermits(i64),
    /// The callers, and whether each waits.
    Acquire(Vec<(usize, bool)>),
    /// Renews, and changes nothing else.
    Renew(Vec<usize>),
    Assert(Vec<usize>),
    Release(Vec<usize>),
    Look,
    /// Whether messages to a process arrive.
    SetDeaf(usize, bool),
    /// The caller that acquires and renews, and the time by which it is too late.
    Late(usize, i64),
    LoseAll,
    /// Loses all data except the sentinel.
    LoseState,
}

fn step() -> impl Strategy<Value = Step> {
    let one = 0..COSTS.len();
    let time = prop_oneof![6 => 0..300_000_i64, 4 => 0..TTL / 50, 2 => 0..LIFE * 3 / 2, 1 => 0..TTL * 3 / 2];
    let callers = proptest::collection::btree_set(one.clone(), 1..4);
    let asked = proptest::collection::btree_map(one.clone(), prop::bool::weighted(0.7), 1..4);
    prop_oneof![
        6 => time.clone().prop_map(Step::Pass),
        1 => time.prop_map(Step::SetClockBack),
        1 => (0..5_i64).prop_map(Step::SetPermits),
        9 => asked.prop_map(|asked| Step::Acquire(asked.into_iter().collect())),
        4 => callers.clone().prop_map(|all| Step::Renew(all.into_iter().collect())),
        4 => callers.prop_map(|all| Step::Assert(all.into_iter().collect())),
        4 => proptest::collection::vec(one.clone(), 1..3).prop_map(Step::Release),
        1 => Just(Step::Look),
        2 => (0..PROCESSES.len(), prop::bool::ANY).prop_map(|(who, deaf)| Step::SetDeaf(who, deaf)),
        2 => (one.clone(), 1..TTL).prop_map(|(who, by)| Step::Late(who, by)),
        1 => Just(Step::LoseAll),
        1 => Just(Step::LoseState),
    ]
}

#[derive(Clone, Debug)]
struct Lease {
    who: usize,
    fencing: i64,
    until: i64,
}

#[derive(Clone, Debug)]
struct Ticket {
    number: i64,
    who: usize,
    until: i64,
    /// In the current version.
    wait: Option<Wait>,
}

#[derive(Clone, Copy, Debug)]
struct Wait {
    told: i64,
    stuck: i64,
    permits: i64,
}

/// The state that is kept between calls.
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    written: i64,
    last: i64,
    recovered: i64,
}

#[derive(Debug, Default)]
struct Model {
    now: i64,
    permits: i64,
    grace: i64,
    /// The highest number that the callers have seen and send, or 0.
    seen: i64,
    leases: Vec<Lease>,
    tickets: Vec<Ticket>,
    kept: Kept,
    born: Option<i64>,
    /// The number of callers of the first version.
    old: usize,
    deaf: [bool; PROCESSES.len()],
    /// The process that was told to look soon.
    successor: Option<usize>,
    messages: Vec<String>,
}

/// The state that one call sees.
struct Call {
    kept: Kept,
    is_young: bool,
    rest: i64,
    writes: bool,
}

impl Model {
    fn begin(&mut self) -> Call {
        let (now, mut kept) = (self.now, self.kept);
        let writes = now < kept.written;
        if writes {
            let back = kept.written - now;
            self.leases.iter_mut().for_each(|lease| lease.until -= back);
            self.tickets.iter_mut().for_each(|one| one.until -= back);
        }
        let known = self
            .born
            .filter(|born| *born <= now || *born == kept.recovered);
        let born = *self.born.insert(known.unwrap_or(now));
        if now >= born + self.grace.max(TTL) {
            kept.recovered = born;
        }
        self.leases.retain(|lease| lease.until > now);
        self.tickets.retain(|ticket| ticket.until > now);
        let is_young = kept.recovered != born;
        let rest = if is_young { born + self.grace - now } else { 0 };
        Call {
            kept,
            is_young,
            rest: rest.max(0),
            writes,
        }
    }

    fn end(&mut self, mut call: Call) {
        if call.writes {
            call.kept.written = self.now;
            self.kept = call.kept;
        }
    }

    fn held(&self) -> i64 {
        self.leases.iter().map(|lease| COSTS[lease.who]).sum()
    }

    fn room(&self) -> i64 {
        (self.permits - self.held()).max(0)
    }

    fn following(&self, call: &mut Call) -> i64 {
        call.kept.last = self.now.max(call.kept.last.max(self.seen) + 1);
        call.writes = true;
        call.kept.last
    }

    fn hold(&mut self, call: &mut Call, who: usize, fencing: i64) {
        self.leases.retain(|lease| lease.who != who);
        let until = self.now + TTL;
        self.leases.push(Lease {
            who,
            fencing,
            until,
        });
        call.writes = true;
    }

    fn has(&self, who: usize) -> Option<i64> {
        let lease = self.leases.iter().find(|lease| lease.who == who);
        lease.map(|lease| lease.fencing)
    }

    /// Returns the tickets in their order.
    fn line(&self) -> Vec<Ticket> {
        let mut line = self.tickets.clone();
        line.sort_by_key(|ticket| (ticket.number, self.name(ticket.who)));
        line
    }

    fn name(&self, who: usize) -> String {
        if who < self.old {
            format!("lease{who}")
        } else {
            format!("p{}.{who}", process(who))
        }
    }

    fn tell(&mut self, process: usize, message: String) -> bool {
        if PROCESSES[process].0.is_empty() {
            return true;
        }
        self.messages.push(format!("p{process} {message}"));
        !self.deaf[process]
    }

    fn wait_of(&mut self, who: usize) -> Option<&mut Wait> {
        let ticket = self.tickets.iter_mut().find(|one| one.who == who)?;
        ticket.wait.as_mut()
    }

    /// Serves the line in a call of a process, and returns the claimed callers that are admitted.
    fn serve(&mut self, caller: usize, claimed: &[usize]) -> Vec<usize> {
        let (now, limit) = (self.now, self.permits);
        let (mut used, mut most) = (self.held(), i64::MAX);
        let (mut granted, mut gone, mut told) = (Vec::new(), Vec::new(), Vec::new());
        let (mut is_new, mut patience, mut ended, mut successor) = (false, 0, false, None);
        // The processes whose tickets were passed, and their costs.
        let mut passed: Vec<(usize, i64)> = Vec::new();
        for ticket in self.line() {
            let (who, n, process) = (ticket.who, COSTS[ticket.who], process(ticket.who));
            let Some(mut wait) = ticket.wait else {
                if ended {
                    continue;
                }
                ended = used + n > limit.min(most);
                used += if ended { 0 } else { n };
                continue;
            };
            // The clock was set back.
            wait.told = if wait.told > now { 0 } else { wait.told };
            wait.stuck = if wait.stuck > now { 0 } else { wait.stuck };
            if gone.contains(&process) {
                continue;
            }
            let fits = used + n <= most.min(wait.permits);
            if !ended && !fits {
                let would_fit = used + n <= most.min(limit);
                let is_like = |one: &(usize, i64)| one.0 == process && one.1 <= n;
                if would_fit && passed.iter().any(is_like) {
                    continue;
                }
                if would_fit && wait.stuck == 0 {
                    wait.stuck = now;
                    *self.wait_of(who).unwrap() = wait;
                }
                ended = !would_fit || now - wait.stuck < 1_000_000;
                if !ended {
                    passed.push((process, n));
                    continue;
                }
            }
            if ended {
                if !told.contains(&process) {
                    successor = Some(process);
                    break;
                }
            } else if claimed.contains(&who) {
                granted.push(who);
                used += n;
            } else {
                let mut is_alive = now - wait.told < PROCESSES[process].1;
                if wait.told == 0 {
                    (wait.told, is_new) = (now, true);
                    *self.wait_of(who).unwrap() = wait;
                    is_alive = self.tell(process, format!("claim {}:{n}", self.name(who)));
                } else if !is_alive && process == caller {
                    (wait.told, is_new, is_alive) = (now, true, true);
                    *self.wait_of(who).unwrap() = wait;
                }
                if is_alive {
                    used += n;
                    most = most.min(wait.permits);
                    told.push(process);
                    patience = patience.max(wait.told + PROCESSES[process].1 - now);
                } else {
                    gone.push(process);
                }
            }
        }
        let is_gone = |one: &Ticket| one.wait.is_some() && gone.contains(&process(one.who));
        self.tickets
            .retain(|one| !is_gone(one) || granted.contains(&one.who));
        if told.is_empty() {
            if let Some(before) = self.successor.take() {
                self.tell(before, "calm 0".to_owned());
            }
        } else if let Some(next) = successor
            && !PROCESSES[next].0.is_empty()
            && (is_new || self.successor.is_none())
        {
            self.successor = Some(next);
            self.tell(next, format!("soon {patience}"));
        }
        granted
    }

    /// Acquires for the callers of one process of the current version.
    fn acquire(&mut self, asked: &[(usize, i64, bool)]) -> Vec<i64> {
        let mut call = self.begin();
        let mut places = vec![(0, 0); asked.len()];
        let (mut waiting, mut back) = (Vec::new(), 0);
        for (place, (who, ticket, _)) in asked.iter().enumerate() {
            let fits = COSTS[*who] <= self.room();
            if let Some(fencing) = self.has(*who) {
                self.hold(&mut call, *who, fencing);
                self.tickets.retain(|ticket| ticket.who != *who);
                places[place] = (fencing, 0);
            } else if call.rest == 0 && *ticket == 0 && fits && self.tickets.is_empty() {
                let fencing = self.following(&mut call);
                self.hold(&mut call, *who, fencing);
                places[place] = (fencing, 0);
            } else {
                let known = self
                    .tickets
                    .iter()
                    .find(|ticket| ticket.who == *who)
                    .cloned();
                back |= i64::from(*ticket > 0 && known.is_none());
                let shown = match (ticket, &known) {
                    (0, Some(known)) => known.number,
                    (0, None) => self.following(&mut call),
                    (number, _) => *number,
                };
                let stuck = known
                    .as_ref()
                    .and_then(|one| one.wait)
                    .map_or(0, |wait| wait.stuck);
                self.tickets.retain(|ticket| ticket.who != *who);
                self.tickets.push(Ticket {
                    number: known.map_or(shown, |known| known.number),
                    who: *who,
                    until: self.now + MINUTE,
                    wait: Some(Wait {
                        told: 0,
                        stuck: if stuck > self.now { 0 } else { stuck },
                        permits: self.permits,
                    }),
                });
                call.writes = true;
                places[place] = (0, shown);
                waiting.push((*who, place));
            }
        }
        if call.rest == 0 {
            let claimed: Vec<_> = waiting.iter().map(|(who, _)| *who).collect();
            for who in self.serve(process(asked[0].0), &claimed) {
                let fencing = self.following(&mut call);
                self.hold(&mut call, who, fencing);
                self.tickets.retain(|ticket| ticket.who != who);
                let (_, place) = waiting.iter().find(|(one, _)| *one == who).unwrap();
                places[*place] = (fencing, 0);
            }
        }
        for (place, (who, _, stays)) in asked.iter().enumerate() {
            if !stays && waiting.iter().any(|(one, _)| one == who) {
                self.tickets.retain(|ticket| ticket.who != *who);
                places[place].1 = 0;
            }
        }
        let (mut soonest, mut old) = (0, 0);
        if let Some((last, _)) = waiting.last() {
            let own = |one: &Ticket| one.wait.is_some() && process(one.who) == process(*last);
            let is_first = self.line().first().is_some_and(own);
            let expiry = self.leases.iter().map(|lease| lease.until).min();
            soonest = expiry
                .filter(|_| is_first)
                .map_or(0, |until| until - self.now);
            let has_ticket = self.tickets.iter().any(|one| one.wait.is_none());
            old = (has_ticket || self.leases.iter().any(|one| one.who < self.old)).into();
        }
        let mut reply = vec![self.now, call.rest, soonest, old, back];
        reply.extend(
            places
                .iter()
                .flat_map(|(fencing, ticket)| [*fencing, *ticket]),
        );
        self.end(call);
        reply
    }

    /// Acquires for callers of the first version.
    fn acquire_first(&mut self, asked: &[(usize, i64, bool)]) -> Vec<i64> {
        let mut call = self.begin();
        let mut places = vec![(0, 0); asked.len()];
        let mut waiting = Vec::new();
        for (place, (who, ticket, _)) in asked.iter().enumerate() {
            let fits = COSTS[*who] <= self.room();
            if let Some(fencing) = self.has(*who) {
                self.hold(&mut call, *who, fencing);
                self.tickets.retain(|ticket| ticket.who != *who);
                places[place] = (fencing, 0);
            } else if call.rest == 0 && *ticket == 0 && fits && self.tickets.is_empty() {
                let fencing = self.following(&mut call);
                self.hold(&mut call, *who, fencing);
                places[place] = (fencing, 0);
            } else {
                let there = self.tickets.iter().find(|ticket| ticket.who == *who);
                let number = match (ticket, there) {
                    (0, Some(there)) => there.number,
                    (0, None) => self.following(&mut call),
                    (number, _) => *number,
                };
                self.tickets.retain(|ticket| ticket.who != *who);
                self.tickets.push(Ticket {
                    number,
                    who: *who,
                    until: self.now + LIFE,
                    wait: None,
                });
                call.writes = true;
                places[place] = (0, number);
                waiting.push((*who, place));
            }
        }
        if call.rest == 0 {
            let mut free = self.room();
            for Ticket { who, .. } in self.line() {
                free -= COSTS[who];
                if free < 0 {
                    break;
                }
                if let Some((_, place)) = waiting.iter().find(|(one, _)| *one == who) {
                    let fencing = self.following(&mut call);
                    self.hold(&mut call, who, fencing);
                    self.tickets.retain(|ticket| ticket.who != who);
                    places[*place] = (fencing, 0);
                }
            }
        }
        for (place, (who, _, stays)) in asked.iter().enumerate() {
            if !stays && places[place].0 == 0 {
                self.tickets.retain(|ticket| ticket.who != *who);
                places[place].1 = 0;
            }
        }
        let mut reply = vec![self.now, call.rest, self.room()];
        reply.extend(
            places
                .iter()
                .flat_map(|(fencing, ticket)| [*fencing, *ticket]),
        );
        self.end(call);
        reply
    }

    fn renew(&mut self, all: &[usize], fencing: &[i64]) -> Vec<i64> {
        let mut call = self.begin();
        let until = self.now + TTL;
        // A lease that lasts as long already counts as missing.
        let mut renewed = 0;
        for lease in &mut self.leases {
            if all.contains(&lease.who) && lease.until != until {
                lease.until = until;
                renewed += 1;
            }
        }
        let are_all = renewed == all.len();
        if are_all {
            let numbers = all.iter().map(|who| fencing[*who]);
            call.kept.last = numbers.fold(call.kept.last, i64::max);
        }
        call.writes = true;
        self.end(call);
        vec![self.now, are_all.into()]
    }

    fn assert(&mut self, all: &[usize], fencing: &[i64]) -> Vec<i64> {
        let mut call = self.begin();
        let mut reply = vec![self.now];
        // Those that are asserted together do not count as granted later.
        let last = call.kept.last;
        let verdicts = all
            .iter()
            .map(|who| self.assert_one(&mut call, last, *who, fencing[*who]));
        reply.extend(verdicts);
        self.end(call);
        reply
    }

    fn assert_one(&mut self, call: &mut Call, last: i64, who: usize, fencing: i64) -> i64 {
        let fits = COSTS[who] <= self.room();
        let is_newer = call.is_young || fencing > last;
        let verdict = if self.has(who).is_some() {
            1
        } else if call.rest > 0 || (is_newer && fits) {
            2
        } else {
            0
        };
        if verdict > 0 {
            call.kept.last = call.kept.last.max(fencing);
            self.hold(call, who, fencing);
        }
        verdict
    }

    fn release(&mut self, all: &[usize]) -> Vec<i64> {
        let call = self.begin();
        let before = self.held();
        self.leases.retain(|lease| !all.contains(&lease.who));
        self.tickets.retain(|ticket| !all.contains(&ticket.who));
        let reply = vec![self.now, before - self.held()];
        if call.rest == 0 && all[0] >= self.old {
            self.serve(process(all[0]), &[]);
        }
        self.end(call);
        reply
    }

    fn look(&mut self) -> Vec<i64> {
        let call = self.begin();
        let free = if call.rest > 0 { 0 } else { self.room() };
        let reply = vec![self.now, call.rest, free];
        self.end(call);
        reply
    }
}

/// The server, as the client of a test sees it.
struct Real {
    connection: redis::Connection,
    current: String,
    first: String,
    /// The next calls are those of the first version.
    is_first: bool,
    /// The time in which the process of the next call claims.
    patience: i64,
}

pub(super) const KEYS: [&str; 7] = ["k", "f", "q", "e", "s", "born", "w"];

impl Real {
    fn run(&mut self, command: &str, arguments: &[&str]) {
        let mut command = redis::cmd(command);
        let () = command.arg(arguments).query(&mut self.connection).unwrap();
    }

    fn set_clock(&mut self, now: i64) {
        self.run("SET", &["clock", &now.to_string()]);
    }

    fn call(&mut self, model: &Model, what: &str, rest: &[String]) -> Vec<i64> {
        self.call_by(model, model.now, what, rest)
    }

    /// Makes a call that must be executed by `last`.
    fn call_by(&mut self, model: &Model, last: i64, what: &str, rest: &[String]) -> Vec<i64> {
        let mut command = redis::cmd("EVAL");
        // The life of a ticket in the first version, and the time to claim one.
        let (script, keys, time) = if self.is_first {
            (&self.first, &KEYS[..6], LIFE)
        } else {
            (&self.current, &KEYS[..], self.patience)
        };
        command.arg(script).arg(keys.len()).arg(keys);
        command.arg(what).arg(model.permits).arg(TTL);
        command.arg(model.grace).arg(time).arg(last).arg(rest);
        command.query(&mut self.connection).unwrap()
    }

    /// Returns the messages since the last time.
    fn told(&mut self) -> Vec<String> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("LRANGE").arg(&["told", "0", "-1"]);
        pipeline.cmd("DEL").arg("told").ignore();
        let (told,) = pipeline.query(&mut self.connection).unwrap();
        told
    }
}

/// Runs one case. Each caller knows its ticket and its last fencing number. The callers are one process, which
/// sends the highest number that it has seen, or processes that have seen none; the first `old` are of the first
/// version.
struct Case<'a> {
    real: &'a mut Real,
    model: Model,
    is_one: bool,
    tickets: [i64; COSTS.len()],
    fencing: [i64; COSTS.len()],
    went_back: bool,
    greatest: i64,
    seen: i64,
}

impl Case<'_> {
    fn lose(&mut self) {
        // No server loses its data faster than it grants.
        self.model.now += 1000;
        self.model.leases.clear();
        self.model.tickets.clear();
        self.model.kept = Kept::default();
        self.model.successor = None;
    }

    fn step(&mut self, step: &Step) {
        self.real.is_first = false;
        self.model.seen = self.seen;
        match step {
            Step::Pass(time) => self.model.now += time,
            Step::SetClockBack(time) => {
                self.model.now -= time;
                self.went_back = true;
            }
            Step::SetPermits(permits) => self.model.permits = *permits,
            Step::SetDeaf(process, is_deaf) => {
                let (channel, _) = PROCESSES[*process];
                self.model.deaf[*process] = *is_deaf;
                self.real
                    .run(if *is_deaf { "SADD" } else { "SREM" }, &["deaf", channel]);
            }
            Step::LoseAll => {
                let keys = KEYS;
                self.real.run("DEL", &keys);
                self.lose();
                self.model.born = None;
            }
            Step::LoseState => {
                let keys = ["k", "f", "q", "e", "s", "w"];
                self.real.run("DEL", &keys);
                self.lose();
            }
            Step::Look => {
                assert_eq!(self.real.call(&self.model, "look", &[]), self.model.look());
            }
            Step::Late(who, by) => self.late(*who, *by),
            Step::Renew(all) | Step::Assert(all) if all[0] < self.model.old => {
                self.real.is_first = true;
                let who = all[0];
                let numbers = [COSTS[who], self.fencing[who]].map(|number| number.to_string());
                let rest: Vec<_> = [self.model.name(who)].into_iter().chain(numbers).collect();
                let reply = self.real.call(&self.model, "renew", &rest);
                assert_eq!(reply, self.model.assert(&[who], &self.fencing));
            }
            Step::Renew(all) => {
                let highest = all.iter().map(|who| self.fencing[*who]).max().unwrap_or(0);
                let mut rest = vec![highest.to_string()];
                for who in all {
                    let name = self.model.name(*who);
                    rest.push(name.clone());
                    rest.extend((1..COSTS[*who]).map(|index| format!("{name}:{index}")));
                }
                let reply = self.real.call(&self.model, "renew", &rest);
                assert_eq!(reply, self.model.renew(all, &self.fencing));
            }
            Step::Assert(all) => {
                let mut rest = Vec::new();
                for who in all {
                    rest.push(self.model.name(*who));
                    let numbers = [COSTS[*who], self.fencing[*who]];
                    rest.extend(numbers.map(|number| number.to_string()));
                }
                let reply = self.real.call(&self.model, "assert", &rest);
                assert_eq!(reply, self.model.assert(all, &self.fencing));
            }
            Step::Release(all) => {
                let old = self.model.old;
                for is_first in [true, false] {
                    let all = all.iter().copied().filter(|who| (*who < old) == is_first);
                    let all: Vec<_> = all.collect();
                    if !all.is_empty() {
                        self.release(&all, is_first);
                    }
                }
            }
            Step::Acquire(asked) => {
                let groups = [None, Some(0), Some(1), Some(2)];
                for group in groups {
                    let is_in = |who: usize| match group {
                        None => who < self.model.old,
                        Some(own) => who >= self.model.old && process(who) == own,
                    };
                    let asked = asked.iter().filter(|(who, _)| is_in(*who));
                    let asked: Vec<_> = asked
                        .map(|(who, stays)| (*who, self.tickets[*who], *stays))
                        .collect();
                    if !asked.is_empty() {
                        self.acquire(&asked, group);
                    }
                }
            }
        }
        self.real.set_clock(self.model.now);
        let members: i64 = redis::cmd("ZCARD")
            .arg(KEYS[0])
            .query(&mut self.real.connection)
            .unwrap();
        assert_eq!(members, self.model.held());
        assert_eq!(self.real.told(), std::mem::take(&mut self.model.messages));
    }

    /// The call has no effect, as later steps check.
    fn late(&mut self, who: usize, by: i64) {
        let [id, n] = [self.model.name(who), COSTS[who].to_string()];
        let fencing = self.fencing[who].to_string();
        for what in ["acquire", "renew", "assert"] {
            let [zero, one] = ["0", "1"].map(str::to_owned);
            let rest = match what {
                "acquire" => {
                    let channel = PROCESSES[process(who)].0.to_owned();
                    vec![zero.clone(), channel, id.clone(), n.clone(), zero, one]
                }
                "renew" => vec![fencing.clone(), id.clone()],
                _ => vec![id.clone(), n.clone(), fencing.clone()],
            };
            let last = self.model.now - by;
            let reply = self.real.call_by(&self.model, last, what, &rest);
            assert_eq!(reply, [self.model.now]);
        }
    }

    fn release(&mut self, all: &[usize], is_first: bool) {
        self.real.is_first = is_first;
        let each = |who: &usize| [self.model.name(*who), COSTS[*who].to_string()];
        let rest: Vec<_> = all.iter().flat_map(each).collect();
        let reply = self.real.call(&self.model, "release", &rest);
        assert_eq!(reply, self.model.release(all));
        all.iter().for_each(|who| self.tickets[*who] = 0);
    }

    /// Acquires for callers of one process, or of the first version.
    fn acquire(&mut self, asked: &[(usize, i64, bool)], process: Option<usize>) {
        let is_first = process.is_none();
        self.real.is_first = is_first;
        self.model.seen = if is_first { 0 } else { self.seen };
        let each = asked.iter().flat_map(|(who, ticket, stays)| {
            let numbers = [COSTS[*who], *ticket, i64::from(*stays)];
            let numbers = numbers.map(|number| number.to_string());
            [self.model.name(*who)].into_iter().chain(numbers)
        });
        let mut rest = Vec::new();
        if let Some(process) = process {
            let (channel, patience) = PROCESSES[process];
            self.real.patience = patience;
            rest = vec![self.seen.to_string(), channel.to_owned()];
        }
        rest.extend(each);
        let before: Vec<_> = asked.iter().map(|(who, ..)| self.fencing[*who]).collect();
        let held = self.model.held();
        let reply = self.real.call(&self.model, "acquire", &rest);
        let places = if is_first {
            assert_eq!(reply, self.model.acquire_first(asked));
            3
        } else {
            assert_eq!(reply, self.model.acquire(asked));
            5
        };
        for (index, (who, ..)) in asked.iter().enumerate() {
            let (granted, ticket) = (reply[places + 2 * index], reply[places + 1 + 2 * index]);
            self.tickets[*who] = ticket;
            if granted == 0 || granted == before[index] {
                continue;
            }
            self.fencing[*who] = granted;
            // Never more permits are held than exist, except those that were held before.
            assert!(self.model.held() <= self.model.permits.max(held));
            assert!(granted > self.greatest || self.went_back && (is_first || !self.is_one));
        }
        self.greatest = self.fencing.iter().copied().fold(self.greatest, i64::max);
        if self.is_one {
            let highest = self.greatest.max(self.seen);
            self.seen = self.tickets.iter().copied().fold(highest, i64::max);
        }
    }
}

#[test]
fn acquire_of_the_first_version_behind_a_killed_waiter_is_granted_after_a_minute() {
    let server = Server::start();
    let mut real = Real {
        connection: server.connection(),
        current: script(CURRENT),
        first: script(FIRST),
        is_first: false,
        patience: 50_000,
    };
    let mut model = Model {
        now: START,
        permits: 1,
        ..Model::default()
    };
    let words = |text: &str| -> Vec<_> { text.split(' ').map(str::to_owned).collect() };
    real.set_clock(model.now);
    real.is_first = true;
    let held = real.call(&model, "acquire", &words("held 1 0 1"));
    assert_eq!(held[3..], [START, 0]);
    real.is_first = false;
    let killed = real.call(&model, "acquire", &words("0 c0 p0.1 1 0 1"));
    assert_eq!(killed[5..], [0, START + 1]);
    real.is_first = true;
    real.call(&model, "release", &words("held 1"));
    let behind = real.call(&model, "acquire", &words("next 1 0 1"));
    assert_eq!(behind[3..], [0, START + 2]);
    let ticket = words(&format!("next 1 {} 1", START + 2));
    for (now, is_granted) in [(START + MINUTE - 1, false), (START + MINUTE, true)] {
        model.now = now;
        real.set_clock(now);
        let reply = real.call(&model, "acquire", &ticket);
        assert_eq!(reply[3] > 0, is_granted);
    }
}

#[test]
fn scripts_of_both_versions_on_random_steps_do_as_the_model() {
    let server = Server::start();
    let real = std::cell::RefCell::new(Real {
        connection: server.connection(),
        current: script(CURRENT),
        first: script(FIRST),
        is_first: false,
        patience: 0,
    });
    let grace = prop_oneof![Just(0), Just(TTL), 0..TTL * 2];
    // In half of the cases there is only the current version.
    let old = prop_oneof![Just(0), Just(OLD)];
    let steps = proptest::collection::vec(step(), 1..60);
    TestRunner::new(cases(300))
        .run(
            &(grace, prop::bool::ANY, old, steps),
            |(grace, is_one, old, steps)| {
                let real = &mut *real.borrow_mut();
                real.run("FLUSHALL", &[]);
                real.set_clock(START);
                let mut case = Case {
                    real,
                    model: Model {
                        now: START,
                        permits: 3,
                        grace,
                        old,
                        ..Model::default()
                    },
                    is_one,
                    tickets: [0; COSTS.len()],
                    fencing: [0; COSTS.len()],
                    went_back: false,
                    greatest: 0,
                    seen: 0,
                };
                steps.iter().for_each(|step| case.step(step));
                Ok(())
            },
        )
        .unwrap();
}
