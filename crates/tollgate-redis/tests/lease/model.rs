//! The most obvious model of the script of leases, and what the tests of the script share.

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
pub(super) const TTL: i64 = 1_000_000_000;
pub(super) const LIFE: i64 = 400_000_000;

/// The time for which the script keeps the state.
pub(super) const DAY: i64 = 86_400_000_000;

/// The life of a ticket in the current version.
pub(super) const MINUTE: i64 = 60_000_000;

const SECOND: i64 = 1_000_000;

pub(super) const KEYS: [&str; 7] = ["k", "f", "q", "e", "s", "born", "w"];

pub(super) const START: i64 = 1_700_000_000_000_000;

/// The callers, with the number of permits that each acquires.
pub(super) const COSTS: [i64; 7] = [1, 1, 2, 1, 3, 1, 2];

/// The first callers may be of the first version.
pub(super) const OLD: usize = 3;

/// The processes of the current version: their channels, and the time in which each claims. The last one only
/// looks.
pub(super) const PROCESSES: [(&str, i64); 3] = [("c0", 50_000), ("c1", 200_000), ("", 90_000)];

pub(super) fn process(who: usize) -> usize {
    who % PROCESSES.len()
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
#[derive(Clone, Copy, Debug)]
struct Kept {
    written: i64,
    last: i64,
    recovered: i64,
    /// The first version may have a lease or a ticket.
    has_first: bool,
}

impl Default for Kept {
    fn default() -> Self {
        Self {
            written: 0,
            last: 0,
            recovered: 0,
            has_first: true,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) now: i64,
    pub(super) permits: i64,
    pub(super) grace: i64,
    /// The highest number that the callers have seen and send, or 0.
    pub(super) seen: i64,
    leases: Vec<Lease>,
    tickets: Vec<Ticket>,
    kept: Kept,
    pub(super) born: Option<i64>,
    /// The number of callers of the first version.
    pub(super) old: usize,
    pub(super) deaf: [bool; PROCESSES.len()],
    pub(super) messages: Vec<String>,
}

/// The state that one call sees.
struct Call {
    kept: Kept,
    is_young: bool,
    rest: i64,
    writes: bool,
}

impl Model {
    /// Creates the model of an empty server.
    pub(super) fn new(permits: i64, grace: i64, old: usize) -> Self {
        Self {
            now: START,
            permits,
            grace,
            old,
            ..Self::default()
        }
    }

    /// Loses all data but the sentinel.
    pub(super) fn lose(&mut self) {
        // No server loses its data faster than it grants.
        self.now += 1000;
        self.leases.clear();
        self.tickets.clear();
        self.kept = Kept::default();
    }

    /// Begins a call, of the first version or the current one.
    fn begin(&mut self, is_first: bool) -> Call {
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
        let is_later = kept.written / SECOND != now / SECOND;
        if is_first || kept.has_first || is_later {
            self.tickets.retain(|ticket| ticket.until > now);
        }
        let is_young = kept.recovered != born;
        let rest = if is_young { born + self.grace - now } else { 0 };
        Call {
            kept,
            is_young,
            rest: rest.max(0),
            writes,
        }
    }

    fn end(&mut self, mut call: Call, is_first: bool) {
        if call.writes {
            call.kept.written = self.now;
            call.kept.has_first |= is_first;
            self.kept = call.kept;
        }
    }

    pub(super) fn held(&self) -> i64 {
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

    pub(super) fn name(&self, who: usize) -> String {
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

    /// Returns the number of tickets before that of a caller, unless it is new, was told, or stands in front.
    fn ahead(&self, who: usize) -> i64 {
        let line = self.line();
        let Some(place) = line.iter().position(|one| one.who == who) else {
            return 0;
        };
        let is_far = place >= 2 && line[place].wait.is_some_and(|wait| wait.told == 0);
        let before = |one: &&Ticket| one.number < line[place].number;
        if is_far {
            line.iter().filter(before).count() as i64
        } else {
            0
        }
    }

    /// Serves the line in a call of a process. Returns the claimed callers that are admitted, and the time after which
    /// the process looks, if it requests something, and is the successor or has removed a process.
    fn serve(&mut self, caller: usize, claimed: &[usize]) -> (Vec<usize>, Option<i64>) {
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
                if wait.told == 0 || (!is_alive && process == caller) {
                    (wait.told, is_new) = (now, true);
                    *self.wait_of(who).unwrap() = wait;
                    is_alive = self.tell(process, format!("claim {}:{n}", self.name(who)));
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
            return (granted, None);
        }
        let requests = !claimed.is_empty();
        let is_next = successor == Some(caller);
        if let Some(next) = successor.filter(|_| is_new && !(is_next && requests)) {
            self.tell(next, format!("soon {patience}"));
        }
        let looks = requests && (is_next || !gone.is_empty()) && !PROCESSES[caller].0.is_empty();
        (granted, looks.then_some(patience))
    }

    /// Acquires for the callers of one process of the current version, or for callers of the first one.
    pub(super) fn acquire(&mut self, asked: &[(usize, i64, bool)], is_first: bool) -> Vec<i64> {
        let mut call = self.begin(is_first);
        let ahead = self.ahead(asked[0].0);
        let mut places = vec![[0, 0]; asked.len()];
        // Those that wait, each with its place in the reply.
        let (mut waiting, mut back) = (Vec::new(), 0);
        for (place, (who, ticket, _)) in asked.iter().enumerate() {
            let fits = COSTS[*who] <= self.room();
            if let Some(fencing) = self.has(*who) {
                // Only the first version keeps the numbers of its leases.
                let fencing = if is_first {
                    fencing
                } else {
                    self.following(&mut call)
                };
                self.hold(&mut call, *who, fencing);
                self.tickets.retain(|ticket| ticket.who != *who);
                places[place] = [fencing, 0];
            } else if call.rest == 0 && *ticket == 0 && fits && self.tickets.is_empty() {
                let fencing = self.following(&mut call);
                self.hold(&mut call, *who, fencing);
                places[place] = [fencing, 0];
            } else {
                let (number, is_back) = self.line_up(&mut call, *who, *ticket, is_first);
                back |= i64::from(is_back);
                places[place] = [0, number];
                waiting.push((*who, place));
            }
        }
        let mut soon = None;
        if call.rest == 0 {
            let claimed: Vec<_> = waiting.iter().map(|(who, _)| *who).collect();
            let granted = if is_first {
                self.serve_first(&claimed)
            } else {
                let granted;
                (granted, soon) = self.serve(process(asked[0].0), &claimed);
                granted
            };
            for who in granted {
                let fencing = self.following(&mut call);
                self.hold(&mut call, who, fencing);
                self.tickets.retain(|ticket| ticket.who != who);
                let (_, place) = waiting.iter().find(|(one, _)| *one == who).unwrap();
                places[*place] = [fencing, 0];
            }
        }
        for (who, place) in &waiting {
            if !asked[*place].2 {
                self.tickets.retain(|ticket| ticket.who != *who);
                places[*place][1] = 0;
            }
        }
        let mut reply = vec![self.now, call.rest];
        if is_first {
            reply.push(self.room());
        } else {
            let (mut soonest, mut old) = (0, false);
            if let Some((last, _)) = waiting.last() {
                let expiry = self.next_expiry(process(*last));
                soonest = [expiry, soon].into_iter().flatten().min().unwrap_or(0);
                let has_ticket = self.tickets.iter().any(|one| one.wait.is_none());
                old = has_ticket || self.leases.iter().any(|one| one.who < self.old);
                call.kept.has_first &= old;
            }
            reply.extend([soonest, old.into(), back, ahead]);
        }
        reply.extend(places.concat());
        self.end(call, is_first);
        reply
    }

    /// Puts a ticket into the line, or back. Returns its number, and whether it was put back.
    fn line_up(&mut self, call: &mut Call, who: usize, ticket: i64, is_first: bool) -> (i64, bool) {
        let known = self.tickets.iter().position(|one| one.who == who);
        let known = known.map(|index| self.tickets.remove(index));
        let shown = match (ticket, &known) {
            (0, Some(known)) => known.number,
            (0, None) => self.following(call),
            (number, _) => number,
        };
        let is_back = ticket > 0 && known.is_none();
        let wait = known.as_ref().and_then(|one| one.wait);
        let stuck = wait.map_or(0, |wait| wait.stuck);
        let wait = Wait {
            told: 0,
            stuck: if stuck > self.now { 0 } else { stuck },
            permits: self.permits,
        };
        let (number, life) = if is_first {
            (shown, LIFE)
        } else {
            (known.map_or(shown, |known| known.number), MINUTE)
        };
        self.tickets.push(Ticket {
            number,
            who,
            until: self.now + life,
            wait: (!is_first).then_some(wait),
        });
        call.writes = true;
        (shown, is_back)
    }

    /// Serves the line as the first version does, and returns the claimed callers that are admitted.
    fn serve_first(&self, claimed: &[usize]) -> Vec<usize> {
        let mut free = self.room();
        let line = self.line().into_iter().map(|ticket| ticket.who);
        let fits = line.take_while(|who| {
            free -= COSTS[*who];
            free >= 0
        });
        fits.filter(|who| claimed.contains(who)).collect()
    }

    /// Returns the time until a lease expires, if the oldest ticket is of that process.
    fn next_expiry(&self, own: usize) -> Option<i64> {
        let is_own = |one: &Ticket| one.wait.is_some() && process(one.who) == own;
        let expiry = self.leases.iter().map(|lease| lease.until).min();
        let expiry = expiry.filter(|_| self.line().first().is_some_and(is_own));
        expiry.map(|until| until - self.now)
    }

    pub(super) fn renew(&mut self, all: &[usize], fencing: &[i64]) -> Vec<i64> {
        let mut call = self.begin(false);
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
        self.end(call, false);
        vec![self.now, are_all.into()]
    }

    pub(super) fn assert(&mut self, all: &[usize], fencing: &[i64]) -> Vec<i64> {
        let is_first = all[0] < self.old;
        let mut call = self.begin(is_first);
        let mut reply = vec![self.now];
        // Those that are asserted together do not count as granted later.
        let last = call.kept.last;
        let verdicts = all
            .iter()
            .map(|who| self.assert_one(&mut call, last, *who, fencing[*who]));
        reply.extend(verdicts);
        self.end(call, is_first);
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
        if verdict == 2 && who >= self.old {
            self.tickets.retain(|ticket| ticket.who != who);
        }
        if verdict > 0 {
            call.kept.last = call.kept.last.max(fencing);
            self.hold(call, who, fencing);
        }
        verdict
    }

    pub(super) fn release(&mut self, all: &[usize]) -> Vec<i64> {
        let call = self.begin(all[0] < self.old);
        let before = self.held();
        self.leases.retain(|lease| !all.contains(&lease.who));
        self.tickets.retain(|ticket| !all.contains(&ticket.who));
        let reply = vec![self.now, before - self.held()];
        if call.rest == 0 && all[0] >= self.old {
            self.serve(process(all[0]), &[]);
        }
        self.end(call, all[0] < self.old);
        reply
    }

    pub(super) fn look(&mut self) -> Vec<i64> {
        let call = self.begin(false);
        let free = if call.rest > 0 { 0 } else { self.room() };
        let reply = vec![self.now, call.rest, free];
        self.end(call, false);
        reply
    }
}
