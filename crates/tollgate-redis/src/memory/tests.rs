//! Compares [`Memory`] with a real server on random calls: the same commands, in the same microseconds, get the same
//! replies. The scripts on the server read a clock that the test sets, and their keys do not expire by the server's.
//!
//! Positions and identities of charges are names that each side chooses, so a refund gets those of its side.

use std::sync::MutexGuard;

use proptest::prelude::*;
use proptest::sample::Index;
use redis::{Arg, Cmd, Connection, FromRedisValue};
use redis_on_loopback::shared_connection;

use super::Memory;
use crate::script::{CALLERS, DEBT, LEASE, LEASES, LIMIT_SET, LOG, MOST, STEPS, Script, WINDOW};

/// The beginning of each case: a whole number of all periods of the cases.
const BEGIN: u64 = 10_000_000;

/// What stands in front of each script.
const CLOCK: &str = include_str!("clock.lua");

fn config(cases: u32) -> ProptestConfig {
    proptest::test_runner::contextualize_config(ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    })
}

/// A server and a memory, at the same time.
struct Both {
    connection: MutexGuard<'static, Connection>,
    memory: Memory,
    now: u64,
}

impl Both {
    fn new() -> Self {
        let mut connection = shared_connection();
        let () = redis::cmd("FLUSHALL").query(&mut *connection).unwrap();
        // The data is old, so that a semaphore has no grace time.
        let () = redis::cmd("MSET")
            .arg(&["born", "1", "other born", "1"])
            .query(&mut *connection)
            .unwrap();
        Self {
            connection,
            memory: Memory::default(),
            now: BEGIN,
        }
    }

    /// Returns the replies of the server and of the memory to a call, which has the arguments of each.
    fn call(&mut self, script: &Script, keys: &[&str], arguments: [&Words; 2]) -> [Vec<i64>; 2] {
        let [on_server, in_memory] = arguments.map(|words| {
            let mut command = script.by_digest(keys);
            command.arg(words);
            command
        });
        let () = redis::cmd("SET")
            .arg("clock")
            .arg(self.now)
            .query(&mut *self.connection)
            .unwrap();
        let reply =
            changed(&script.by_text(&on_server)).query::<redis::Value>(&mut *self.connection);
        let reply = match reply.unwrap() {
            redis::Value::BulkString(written) => from_written(arguments[0], &written),
            reply => flat(&reply),
        };
        let value = self.memory.call(&in_memory, self.now).unwrap();
        [reply, flat(&value)]
    }
}

/// Returns the numbers of a reply, or of several one after the other.
fn flat(reply: &redis::Value) -> Vec<i64> {
    match reply {
        redis::Value::Array(items) => items.iter().flat_map(flat).collect(),
        number => vec![i64::from_redis_value_ref(number).unwrap()],
    }
}

type Words = Vec<String>;

fn words(what: &[&str], numbers: &[u64]) -> Words {
    let what = what.iter().map(ToString::to_string);
    what.chain(numbers.iter().map(u64::to_string)).collect()
}

/// Returns the call of a script with the changed clock.
fn changed(by_text: &Cmd) -> Cmd {
    let mut command = redis::cmd("EVAL");
    for (index, argument) in by_text.args_iter().skip(1).enumerate() {
        let Arg::Simple(argument) = argument else {
            panic!()
        };
        if index == 0 {
            command.arg([CLOCK.as_bytes(), argument].concat());
        } else {
            command.arg(argument);
        }
    }
    command
}

/// Returns the full reply to a call of `take` of which all was charged, from the value that the script wrote.
fn from_written(words: &Words, written: &[u8]) -> Vec<i64> {
    let number = |text: &str| text.parse::<i64>().unwrap();
    let written = std::str::from_utf8(written)
        .unwrap()
        .strip_prefix("d:")
        .unwrap();
    let numbers: Vec<i64> = written.split(':').map(number).collect();
    let [now, owed, unit, position, made, ..] = numbers[..] else {
        panic!()
    };
    let [count, burst] = [1, 3].map(|index| number(&words[index]));
    let costs: Vec<i64> = words[4..].iter().map(|it| number(it)).collect();
    let done = costs
        .chunks(2)
        .map(|run| run.get(1).copied().unwrap_or(1))
        .sum::<i64>()
        .max(1);
    let free = (burst * unit - owed).max(0) / unit;
    let reset = (owed + count - 1) / count;
    vec![done, now, 0, free, reset, position, made]
}

// Rates.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Debt,
    Steps,
    Window,
    Log,
}

#[derive(Clone, Copy, Debug)]
struct Rule {
    kind: Kind,
    count: u64,
    period: u64,
    burst: u64,
}

impl Rule {
    fn script(self) -> &'static Script {
        match self.kind {
            Kind::Debt => &DEBT,
            Kind::Steps => &STEPS,
            Kind::Window => &WINDOW,
            Kind::Log => &LOG,
        }
    }

    fn name(self) -> &'static str {
        ["debt", "steps", "window", "log"][self.kind as usize]
    }

    fn numbers(self) -> [u64; 3] {
        [self.count, self.period, self.burst]
    }
}

fn rule() -> impl Strategy<Value = Rule> {
    let kind = prop::sample::select(vec![Kind::Debt, Kind::Steps, Kind::Window, Kind::Log]);
    let period = prop::sample::select(vec![16_u64, 80, 400, 1000]);
    (kind, 1..12_u64, period, 0..12_u64).prop_map(|(kind, count, period, more)| {
        let burst = match kind {
            Kind::Debt => 1 + more,
            Kind::Steps => count + more,
            _ => count,
        };
        Rule {
            kind,
            count,
            period,
            burst,
        }
    })
}

#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    /// Each cost so many times.
    Take(Vec<[u64; 2]>),
    Peek(u64),
    UpTo(u64),
    Charge(u64),
    Reserve(u64, u64),
    /// Asks for turns of these costs, times and numbers, for a process that holds some and may hold more units.
    Turns(u8, [u64; 2], Vec<[u64; 3]>),
    /// Gives back all of a charge, or less.
    Give(Index, u64),
    /// Gives back the last charges that are to come, in one call.
    Goodbye(usize),
    /// Changes the count and the burst by so much.
    Quota(u64, u64),
    /// Charges this much of both limits.
    Several(Vec<u64>),
    PeekSeveral(u64),
    Caller(u64, u64),
}

fn step() -> impl Strategy<Value = Step> {
    let ask = [1..5_u64, 0..300_u64, 1..3_u64];
    prop_oneof![
        6 => (0..40_u64).prop_map(Step::Pass),
        1 => (0..4000_u64).prop_map(Step::Pass),
        5 => prop::collection::vec([1..5_u64, 1..3_u64], 1..4).prop_map(Step::Take),
        2 => (1..8_u64).prop_map(Step::Peek),
        2 => (1..8_u64).prop_map(Step::UpTo),
        1 => (1..12_u64).prop_map(Step::Charge),
        3 => (1..6_u64, prop_oneof![Just(0_u64), Just(1 << 40), 0..300_u64])
            .prop_map(|(n, within)| Step::Reserve(n, within)),
        4 => (0..3_u8, [0..3_u64, 0..9_u64], prop::collection::vec(ask, 1..4))
            .prop_map(|(process, room, asks)| Step::Turns(process, room, asks)),
        5 => (any::<Index>(), 0..3_u64).prop_map(|(which, less)| Step::Give(which, less)),
        1 => (1..5_usize).prop_map(Step::Goodbye),
        1 => (1..12_u64, 0..12_u64).prop_map(|(count, more)| Step::Quota(count, more)),
        2 => prop::collection::vec(0..5_u64, 1..4).prop_map(Step::Several),
        1 => (1..5_u64).prop_map(Step::PeekSeveral),
        1 => (1..9_u64, 1..9_u64).prop_map(|(one, other)| Step::Caller(one, other)),
    ]
}

/// A charge, and its name on each side: a position and an identity.
#[derive(Clone, Copy, Debug)]
struct Charge {
    n: u64,
    due: u64,
    names: [[i64; 2]; 2],
}

struct Rates {
    both: Both,
    rules: [Rule; 2],
    charges: Vec<Charge>,
    /// Charges are made beyond the burst, and not reserved.
    overdraws: bool,
}

impl Rates {
    fn keys(&self, what: &str) -> Vec<&'static str> {
        let with_turns = ["turns", "reserve", "give"].contains(&what);
        if with_turns && self.rules[0].kind == Kind::Debt {
            vec!["limit", "turns"]
        } else {
            vec!["limit"]
        }
    }

    /// Makes a call about the first limit. The replies agree but for the names of charges.
    fn ask(&mut self, what: &str, rest: [Words; 2]) -> [Vec<i64>; 2] {
        let rule = self.rules[0];
        let arguments = rest.map(|rest| [words(&[what], &rule.numbers()), rest].concat());
        let keys = self.keys(what);
        let [one, other] = &arguments;
        let replies = self.both.call(rule.script(), &keys, [one, other]);
        let [server, memory] = &replies;
        let first = usize::from(what == "give");
        assert_eq!(server[first..5], memory[first..5], "{what} {one:?}");
        assert_eq!(server.get(7), memory.get(7), "{what} {one:?}");
        replies
    }

    fn ask_same(&mut self, what: &str, numbers: &[u64]) -> [Vec<i64>; 2] {
        let rest = words(&[], numbers);
        self.ask(what, [rest.clone(), rest])
    }

    /// Records a charge that ended `after` units before the last one of the call.
    fn charged(&mut self, n: u64, after: u64, wait: u64, replies: &[Vec<i64>; 2], at: [usize; 2]) {
        let is_window = self.rules[0].kind == Kind::Window;
        let before = if is_window { 0 } else { after as i64 };
        let names = [0, 1].map(|side: usize| at.map(|index| replies[side][index]));
        self.charges.push(Charge {
            n,
            due: self.both.now + wait,
            names: names.map(|[position, made]| [(position - before).rem_euclid(1 << 46), made]),
        });
    }

    fn give(&mut self, charges: &[Charge]) {
        let rest = [0, 1].map(|side: usize| {
            let each = charges.iter().flat_map(|charge| {
                let [position, made] = charge.names[side].map(|it| it as u64);
                [charge.n, position, made, charge.due]
            });
            words(&[], &each.collect::<Vec<_>>())
        });
        self.ask("give", rest);
    }

    fn several(&mut self, what: &str, costs: &[u64]) -> bool {
        let each = self
            .rules
            .iter()
            .flat_map(|rule| words(&[rule.name()], &[&rule.numbers()[..], costs].concat()));
        let arguments: Words = words(&[what], &[]).into_iter().chain(each).collect();
        let replies = self
            .both
            .call(&LIMIT_SET, &["limit", "other"], [&arguments, &arguments]);
        let [server, memory] = &replies;
        for range in [0..5, 7..10] {
            assert_eq!(server[range.clone()], memory[range], "{arguments:?}");
        }
        let done = server[0] as usize;
        if what == "take" {
            let mut after: u64 = costs[..done].iter().sum();
            for cost in &costs[..done] {
                after -= cost;
                if *cost > 0 {
                    self.charged(*cost, after, 0, &replies, [5, 6]);
                }
            }
        }
        done > 0
    }

    fn step(&mut self, step: &Step) {
        let rule = self.rules[0];
        // What the core leaves of a window or a log before a reservation is documented to differ.
        let is_exact = matches!(rule.kind, Kind::Debt | Kind::Steps);
        match step {
            Step::Reserve(..) | Step::Turns(..) if self.overdraws => {}
            Step::Pass(micros) => self.both.now += micros,
            Step::Take(runs) => {
                let runs: Vec<_> = runs
                    .iter()
                    .map(|[n, k]| [(*n).min(rule.burst), *k])
                    .collect();
                let replies = self.ask_same("take", &runs.concat());
                let costs = runs.iter().flat_map(|[n, k]| (0..*k).map(|_| *n));
                let costs: Vec<u64> = costs.take(replies[0][0] as usize).collect();
                let mut after: u64 = costs.iter().sum();
                for cost in costs {
                    after -= cost;
                    self.charged(cost, after, 0, &replies, [5, 6]);
                }
            }
            Step::Peek(n) => drop(self.ask_same("peek", &[(*n).min(rule.burst)])),
            Step::UpTo(n) => {
                let replies = self.ask_same("upto", &[*n]);
                let done = replies[0][0] as u64;
                if done > 0 {
                    self.charged(done, 0, 0, &replies, [5, 6]);
                }
            }
            Step::Charge(n) => {
                let free = self.ask_same("peek", &[1])[0][3] as u64;
                // A server takes a debt above the burst for a reservation after one was given back.
                let n = if self.overdraws { *n } else { (*n).min(free) };
                if n == 0 {
                    return;
                }
                let n = &n;
                let replies = self.ask_same("charge", &[*n]);
                self.charged(*n, 0, 0, &replies, [5, 6]);
            }
            Step::Reserve(n, within) => {
                let (n, within) = ((*n).min(rule.burst), if is_exact { *within } else { 0 });
                let replies = self.ask_same("reserve", &[n, within]);
                if replies[0][0] > 0 {
                    self.charged(n, 0, replies[0][2] as u64, &replies, [5, 6]);
                }
            }
            Step::Turns(process, room, asks) if rule.kind == Kind::Debt => {
                let asks: Vec<_> = asks
                    .iter()
                    .map(|[n, within, k]| [(*n).min(rule.burst), *within, *k])
                    .collect();
                let numbers: Vec<u64> = room.iter().copied().chain(asks.concat()).collect();
                let rest = words(&[&format!("p{process}")], &numbers);
                let replies = self.ask("turns", [rest.clone(), rest]);
                let costs = asks.iter().flat_map(|[n, _, k]| (0..*k).map(|_| *n));
                for (place, n) in costs.take(replies[0][0] as usize).enumerate() {
                    let index = 8 + 2 * place;
                    let [server, memory] = &replies;
                    assert_eq!(server[index], memory[index]);
                    assert_eq!(server[index + 1] < 0, memory[index + 1] < 0);
                    if server[index + 1] >= 0 {
                        self.charged(n, 0, server[index] as u64, &replies, [index + 1, 6]);
                    }
                }
                assert_eq!(replies[0].len(), replies[1].len());
            }
            Step::Turns(..) => {}
            Step::Give(which, less) if !self.charges.is_empty() => {
                // Of a used charge behind which others were refunded, a limiter of tollgate gives more back.
                let last = self.charges.len() - 1;
                let index = match which.index(3 * self.charges.len()) {
                    any if any <= last && self.charges[any].due > self.both.now => any,
                    even if even % 2 == 0 => 0,
                    _ => last,
                };
                let mut charge = self.charges.remove(index);
                // Turns and reservations are given back as a whole.
                if charge.due <= self.both.now && charge.n > *less {
                    charge.n -= less;
                }
                self.give(&[charge]);
            }
            Step::Give(..) => {}
            Step::Goodbye(count) => {
                let now = self.both.now;
                let used = self.charges.iter().rposition(|charge| charge.due <= now);
                let first = self.charges.len().saturating_sub(*count);
                let last = self
                    .charges
                    .split_off(first.max(used.map_or(0, |used| used + 1)));
                if !last.is_empty() {
                    self.give(&last);
                }
            }
            // After a change a limiter of tollgate rounds what is owed up, to a nanosecond of the rate.
            Step::Quota(count, _) if 16_000 % count > 0 || 16_000 % rule.count > 0 => {}
            // After a lower count it keeps the excess of a window longer.
            Step::Quota(count, _) if rule.kind == Kind::Window && *count < rule.count => {}
            Step::Quota(count, more) => {
                // A server pays the time since the last charge off at the new rate, a limiter of tollgate at the old one.
                if self.ask_same("take", &[])[0][0] == 0 {
                    return;
                }
                let rule = &mut self.rules[0];
                rule.count = *count;
                rule.burst = match rule.kind {
                    Kind::Debt => 1 + more,
                    Kind::Steps => count + more,
                    _ => *count,
                };
                // They are not refunded after that.
                self.charges.clear();
            }
            Step::Several(costs) => {
                let most = self.rules.iter().map(|rule| rule.burst).min().unwrap();
                let costs: Vec<u64> = costs.iter().map(|n| (*n).min(most)).collect();
                self.several("take", &costs);
            }
            Step::PeekSeveral(n) => {
                let most = self.rules.iter().map(|rule| rule.burst).min().unwrap();
                self.several("peek", &[(*n).min(most)]);
            }
            Step::Caller(one, other) => {
                let arguments = words(&[], &[3, 400, 5, *one, *other]);
                let [server, memory] =
                    self.both
                        .call(&CALLERS, &["caller", "caller 2"], [&arguments, &arguments]);
                assert_eq!(server, memory);
            }
        }
        self.ask_same("peek", &[1]);
    }
}

proptest! {
    #![proptest_config(config(128))]

    #[test]
    fn call_of_a_rate_replies_as_a_server(
        rules in [rule(), rule()],
        overdraws in prop::bool::weighted(0.3),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut rates = Rates { both: Both::new(), rules, charges: Vec::new(), overdraws };
        for step in &steps {
            rates.step(step);
        }
    }
}

/// The rest of a turn stays open.
#[test]
fn call_for_turns_of_an_open_tick_replies_as_a_server() {
    let rule = Rule {
        kind: Kind::Debt,
        count: 1,
        period: 16,
        burst: 3,
    };
    let mut rates = Rates {
        both: Both::new(),
        rules: [rule; 2],
        charges: Vec::new(),
        overdraws: false,
    };
    rates.step(&Step::Take(vec![[3, 1]]));
    for n in [3, 3] {
        rates.step(&Step::Reserve(n, MOST));
    }
    let middle = rates.charges.remove(1);
    rates.give(&[middle]);
    for n in [1, 1, 1, 3] {
        rates.step(&Step::Reserve(n, MOST));
        rates.step(&Step::Pass(1));
    }
}

/// The server's wait is bounded, because the last of the units is due in 65,535 times nine years.
#[test]
fn call_of_a_log_that_is_owed_for_too_long_replies_as_a_server() {
    let rule = Rule {
        kind: Kind::Log,
        count: 1,
        period: 280_000_000_000_000,
        burst: 1,
    };
    let mut rates = Rates {
        both: Both::new(),
        rules: [rule; 2],
        charges: Vec::new(),
        overdraws: true,
    };
    rates.step(&Step::Charge(65_536));
    let [server, memory] = rates.ask_same("peek", &[1]);
    assert_eq!([server[2], server[4]], [MOST as i64; 2]);
    assert_eq!(server[..5], memory[..5]);
}

// Leases.

const LEASE_KEYS: [&str; 7] = [
    "leases", "fences", "tickets", "ends", "state", "born", "waits",
];

const TTL: u64 = 1_000_000;

/// The time in which a process claims a ticket.
const PATIENCE: u64 = 150_000;

#[derive(Clone, Debug)]
enum LeaseStep {
    Pass(u64),
    /// Requests new leases for a process, which wait, and claims some of its tickets.
    Acquire(u8, Vec<u64>, u8, bool),
    Renew(Vec<Index>),
    Assert(Index),
    Release(Vec<Index>),
    Look,
    /// The server executes a call after its deadline.
    Late,
}

fn lease_step() -> impl Strategy<Value = LeaseStep> {
    prop_oneof![
        4 => (0..400_000_u64).prop_map(LeaseStep::Pass),
        8 => (0..3_u8, prop::collection::vec(1..4_u64, 0..3), any::<u8>(), any::<bool>())
            .prop_map(|(process, new, claims, stays)| LeaseStep::Acquire(process, new, claims, stays)),
        3 => prop::collection::vec(any::<Index>(), 1..4).prop_map(LeaseStep::Renew),
        1 => any::<Index>().prop_map(LeaseStep::Assert),
        4 => prop::collection::vec(any::<Index>(), 1..3).prop_map(LeaseStep::Release),
        1 => Just(LeaseStep::Look),
        1 => Just(LeaseStep::Late),
    ]
}

#[derive(Clone, Debug)]
struct Lease {
    id: String,
    n: u64,
    /// One of both is 0.
    fencing: u64,
    ticket: u64,
}

struct Leases {
    both: Both,
    permits: u64,
    all: Vec<Lease>,
    next: u64,
    seen: u64,
    is_shared: bool,
}

impl Leases {
    /// Makes a call that is executed until a microsecond. The replies are the same.
    fn ask(&mut self, what: &str, last: u64, rest: Words) -> Vec<i64> {
        let numbers = [self.permits, TTL, TTL, PATIENCE, last, TTL];
        let arguments = [words(&[what], &numbers), rest].concat();
        // One after the other, alone and as calls of several semaphores. The second one has its own keys.
        self.is_shared = !self.is_shared;
        if !self.is_shared {
            let [server, memory] = self
                .both
                .call(&LEASE, &LEASE_KEYS, [&arguments, &arguments]);
            assert_eq!(server, memory, "{arguments:?}");
            return server;
        }
        let look = words(&["look"], &[self.permits, TTL, TTL, MOST, MOST, TTL]);
        let several = [&arguments, &look].map(|one| {
            let count = words(&[], &[one.len() as u64]);
            [count, one.clone()].concat()
        });
        let others = LEASE_KEYS.map(|key| format!("other {key}"));
        let keys: Vec<&str> = LEASE_KEYS
            .into_iter()
            .chain(others.iter().map(String::as_str))
            .collect();
        let several = several.concat();
        let [server, memory] = self.both.call(&LEASES, &keys, [&several, &several]);
        assert_eq!(server, memory, "{several:?}");
        server[..server.len() - 3].to_vec()
    }

    fn acquire(&mut self, process: u8, new: &[u64], claims: u8, stays: bool) {
        let process = format!("p{process}.");
        let mut asked: Vec<Lease> = self
            .all
            .iter()
            .filter(|it| it.id.starts_with(&process))
            .cloned()
            .collect();
        asked.retain(|it| it.fencing == 0);
        let mut bit = 0;
        asked.retain(|_| {
            bit += 1;
            claims >> (bit % 8) & 1 == 1
        });
        for n in new {
            self.next += 1;
            let id = format!("{process}{}", self.next);
            asked.push(Lease {
                id,
                n: *n,
                fencing: 0,
                ticket: 0,
            });
        }
        if asked.is_empty() {
            return;
        }
        // The last process polls.
        let channel = if process == "p2." { "" } else { "channel" };
        let mut rest = words(&[&self.seen.to_string(), channel], &[]);
        for one in &asked {
            rest.extend(words(&[&one.id], &[one.n, one.ticket, u64::from(stays)]));
        }
        let reply = self.ask("acquire", MOST, rest);
        self.all
            .retain(|it| asked.iter().all(|one| one.id != it.id));
        for (one, place) in asked.into_iter().zip(reply[6..].chunks(2)) {
            let [fencing, ticket] = [place[0], place[1]].map(|it| it as u64);
            self.seen = self.seen.max(fencing).max(ticket);
            if fencing + ticket > 0 {
                self.all.push(Lease {
                    fencing,
                    ticket,
                    ..one
                });
            }
        }
    }

    fn step(&mut self, step: &LeaseStep) {
        let chosen = |which: &[Index], all: &[Lease]| {
            let mut all = all.to_vec();
            let take =
                |index: &Index| (!all.is_empty()).then(|| all.remove(index.index(all.len())));
            which.iter().filter_map(take).collect::<Vec<_>>()
        };
        let held: Vec<Lease> = self
            .all
            .iter()
            .filter(|it| it.fencing > 0)
            .cloned()
            .collect();
        match step {
            LeaseStep::Pass(micros) => self.both.now += micros,
            LeaseStep::Acquire(process, new, claims, stays) => {
                self.acquire(*process, new, *claims, *stays);
            }
            LeaseStep::Renew(which) => {
                // A server counts the leases whose ends change.
                self.both.now += 1;
                let some = chosen(which, &held);
                let Some(fencing) = some.iter().map(|it| it.fencing).max() else {
                    return;
                };
                let members = some.iter().flat_map(|it| {
                    let others = (1..it.n).map(|index| format!("{}:{index}", it.id));
                    std::iter::once(it.id.clone()).chain(others)
                });
                let rest = words(&[&fencing.to_string()], &[])
                    .into_iter()
                    .chain(members);
                self.ask("renew", MOST, rest.collect());
            }
            LeaseStep::Assert(which) => {
                for one in chosen(&[*which], &held) {
                    let rest = words(&[&one.id], &[one.n, one.fencing]);
                    if self.ask("assert", MOST, rest)[1] == 0 {
                        self.all.retain(|it| it.id != one.id);
                    }
                }
            }
            LeaseStep::Release(which) => {
                let some = chosen(which, &self.all);
                if some.is_empty() {
                    return;
                }
                let rest = some.iter().flat_map(|it| words(&[&it.id], &[it.n]));
                self.ask("release", MOST, rest.collect());
                self.all.retain(|it| some.iter().all(|one| one.id != it.id));
            }
            LeaseStep::Look => drop(self.ask("look", MOST, Words::new())),
            LeaseStep::Late => {
                let rest = words(&["0", "", "p0.late"], &[1, 0, 1]);
                let reply = self.ask("acquire", self.both.now - 1, rest);
                assert_eq!(reply, [self.both.now as i64]);
            }
        }
    }
}

proptest! {
    #![proptest_config(config(128))]

    #[test]
    fn call_of_a_semaphore_replies_as_a_server(
        permits in 1..5_u64,
        steps in prop::collection::vec(lease_step(), 1..40),
    ) {
        let mut leases = Leases { both: Both::new(), permits, all: Vec::new(), next: 0, seen: 0, is_shared: false };
        for step in &steps {
            leases.step(step);
        }
    }
}
