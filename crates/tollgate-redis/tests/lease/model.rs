//! Compares the script of leases with the most obvious model, on random steps, with a clock that the
//! test sets.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::support::cases;
use crate::support::server::Server;

/// The first version of the script: a request sends no number that it has seen, and a renewal is of one lease. Both
/// versions run in one fleet while it is updated.
const FIRST: &str = include_str!("version_1.lua");

const CURRENT: &str = concat!(
    include_str!("../../src/lua/clock.lua"),
    "\n",
    include_str!("../../src/lua/prelude.lua"),
    include_str!("../../src/lua/lease.lua")
);

/// Returns a script with a key as its clock.
fn script(text: &str) -> String {
    let real = "redis.call('TIME')";
    assert_eq!(text.matches(real).count(), 1);
    text.replace(real, "{ 0, redis.call('GET', 'clock') }")
}

/// A ttl in microseconds that is long enough that no key expires in real time while a case runs.
const TTL: i64 = 1_000_000_000;
const LIFE: i64 = 400_000_000;
const START: i64 = 1_700_000_000_000_000;

/// The callers, with the number of permits that each acquires.
const COSTS: [i64; 7] = [1, 1, 2, 1, 3, 1, 2];

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
    /// The caller that acquires and renews, and the time by which it is too late.
    Late(usize, i64),
    LoseAll,
    /// Loses all data except the sentinel.
    LoseState,
}

fn step() -> impl Strategy<Value = Step> {
    let one = 0..COSTS.len();
    let time = prop_oneof![4 => 0..TTL / 50, 2 => 0..LIFE * 3 / 2, 1 => 0..TTL * 3 / 2];
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

    fn acquire(&mut self, asked: &[(usize, i64, bool)]) -> Vec<i64> {
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
                });
                call.writes = true;
                places[place] = (0, number);
                waiting.push((*who, place));
            }
        }
        if call.rest == 0 {
            let mut line = self.tickets.clone();
            line.sort_by_key(|ticket| (ticket.number, ticket.who));
            let mut free = self.room();
            for Ticket { who, .. } in line {
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
        self.end(call);
        vec![self.now, before - self.held()]
    }

    fn look(&mut self) -> Vec<i64> {
        let call = self.begin();
        let free = if call.rest > 0 { 0 } else { self.room() };
        let waited = self.tickets.iter().map(|ticket| COSTS[ticket.who]).sum();
        let reply = vec![self.now, call.rest, free, self.held(), waited];
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
}

const KEYS: [&str; 6] = ["k", "f", "q", "e", "s", "born"];

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
        let script = if self.is_first {
            &self.first
        } else {
            &self.current
        };
        command.arg(script).arg(KEYS.len()).arg(&KEYS);
        command.arg(what).arg(model.permits).arg(TTL);
        command.arg(model.grace).arg(LIFE).arg(last).arg(rest);
        command.query(&mut self.connection).unwrap()
    }
}

/// Runs one case. Each caller knows its ticket and its last fencing number. The callers are one process, which sends
/// the highest number that it has seen, or processes that have seen none.
fn run(real: &mut Real, grace: i64, is_one: bool, steps: &[(bool, Step)]) {
    let mut model = Model {
        now: START,
        permits: 3,
        grace,
        ..Model::default()
    };
    real.run("FLUSHALL", &[]);
    real.set_clock(model.now);
    let (mut tickets, mut fencing) = ([0; COSTS.len()], [0; COSTS.len()]);
    let (mut went_back, mut greatest) = (false, 0);
    let mut seen = 0;
    for (is_first, step) in steps {
        let is_late = matches!(step, Step::Late(..));
        real.is_first = *is_first && !is_late;
        model.seen = if real.is_first { 0 } else { seen };
        match step {
            Step::Renew(all) | Step::Assert(all) if *is_first => {
                let who = all[0];
                let [n, fencing_of] = [COSTS[who], fencing[who]].map(|number| number.to_string());
                let reply = real.call(&model, "renew", &[name(who), n, fencing_of]);
                assert_eq!(reply, model.assert(&[who], &fencing));
            }
            Step::Pass(time) => {
                model.now += time;
                real.set_clock(model.now);
            }
            Step::SetClockBack(time) => {
                model.now -= time;
                went_back = true;
                real.set_clock(model.now);
            }
            Step::SetPermits(permits) => model.permits = *permits,
            Step::LoseAll => {
                // No server loses its data faster than it grants.
                model.now += 1000;
                real.run("FLUSHALL", &[]);
                real.set_clock(model.now);
                model.leases.clear();
                model.tickets.clear();
                model.kept = Kept::default();
                model.born = None;
            }
            Step::LoseState => {
                model.now += 1000;
                real.set_clock(model.now);
                real.run("DEL", &KEYS[..5]);
                model.leases.clear();
                model.tickets.clear();
                model.kept = Kept::default();
            }
            Step::Look => assert_eq!(real.call(&model, "look", &[]), model.look()),
            // The call has no effect, as later steps check.
            Step::Late(who, by) => {
                let [id, n] = [name(*who), COSTS[*who].to_string()];
                for what in ["acquire", "renew", "assert"] {
                    let fencing = fencing[*who].to_string();
                    let rest = match what {
                        "acquire" => {
                            let [seen, none, stays] = ["0", "0", "1"].map(str::to_owned);
                            vec![seen, id.clone(), n.clone(), none, stays]
                        }
                        "renew" => vec![fencing, id.clone()],
                        _ => vec![id.clone(), n.clone(), fencing],
                    };
                    let reply = real.call_by(&model, model.now - by, what, &rest);
                    assert_eq!(reply, [model.now]);
                }
            }
            Step::Renew(all) => {
                let highest = all.iter().map(|who| fencing[*who]).max().unwrap_or(0);
                let mut rest = vec![highest.to_string()];
                for who in all {
                    rest.push(name(*who));
                    rest.extend((1..COSTS[*who]).map(|index| format!("{}:{index}", name(*who))));
                }
                let reply = real.call(&model, "renew", &rest);
                assert_eq!(reply, model.renew(all, &fencing));
            }
            Step::Assert(all) => {
                let mut rest = Vec::new();
                for who in all {
                    rest.push(name(*who));
                    rest.extend([COSTS[*who], fencing[*who]].map(|number| number.to_string()));
                }
                let reply = real.call(&model, "assert", &rest);
                assert_eq!(reply, model.assert(all, &fencing));
            }
            Step::Release(all) => {
                let rest: Vec<_> = all
                    .iter()
                    .flat_map(|who| [name(*who), COSTS[*who].to_string()])
                    .collect();
                let reply = real.call(&model, "release", &rest);
                assert_eq!(reply, model.release(all));
                all.iter().for_each(|who| tickets[*who] = 0);
            }
            Step::Acquire(asked) => {
                let asked: Vec<_> = asked
                    .iter()
                    .map(|(who, stays)| (*who, tickets[*who], *stays))
                    .collect();
                let rest = asked.iter().flat_map(|(who, ticket, stays)| {
                    let numbers = [COSTS[*who], *ticket, i64::from(*stays)];
                    [name(*who)]
                        .into_iter()
                        .chain(numbers.map(|number| number.to_string()))
                });
                let number = (!is_first).then(|| seen.to_string());
                let rest: Vec<_> = number.into_iter().chain(rest).collect();
                let before: Vec<_> = asked.iter().map(|(who, ..)| fencing[*who]).collect();
                let held = model.held();
                let reply = real.call(&model, "acquire", &rest);
                assert_eq!(reply, model.acquire(&asked));
                for (index, (who, ..)) in asked.iter().enumerate() {
                    let (granted, ticket) = (reply[3 + 2 * index], reply[4 + 2 * index]);
                    tickets[*who] = ticket;
                    if granted == 0 || granted == before[index] {
                        continue;
                    }
                    fencing[*who] = granted;
                    // Never more permits are held than exist, except those that were held before.
                    assert!(model.held() <= model.permits.max(held));
                    assert!(granted > greatest || went_back && (*is_first || !is_one));
                }
                greatest = fencing.iter().copied().fold(greatest, i64::max);
                if is_one {
                    seen = tickets.iter().copied().fold(greatest.max(seen), i64::max);
                }
            }
        }
        let members: i64 = redis::cmd("ZCARD")
            .arg(KEYS[0])
            .query(&mut real.connection)
            .unwrap();
        assert_eq!(members, model.held());
    }
}

fn name(who: usize) -> String {
    format!("lease{who}")
}

#[test]
fn scripts_of_both_versions_on_random_steps_do_as_the_model() {
    let server = Server::start();
    let real = std::cell::RefCell::new(Real {
        connection: server.connection(),
        current: script(CURRENT),
        first: script(FIRST),
        is_first: false,
    });
    let grace = prop_oneof![Just(0), Just(TTL), 0..TTL * 2];
    // In half of the cases there is only the current version.
    let steps = prop_oneof![Just(0.0), Just(0.5)].prop_flat_map(|first| {
        proptest::collection::vec((prop::bool::weighted(first), step()), 1..60)
    });
    TestRunner::new(cases(300))
        .run(
            &(grace, prop::bool::ANY, steps),
            |(grace, is_one, steps)| {
                run(&mut real.borrow_mut(), grace, is_one, &steps);
                Ok(())
            },
        )
        .unwrap();
}
