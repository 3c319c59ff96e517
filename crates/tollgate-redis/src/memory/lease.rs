//! [`Line`]: the leases of a semaphore, and the line of its waiters: the operations of `lease.lua`.
//!
//! 1. A semaphore of tollgate decides whether permits are free, under the number of permits that the caller has.
//! 2. In the order of the tickets, those that the caller claims are granted if they fit, and the processes of the others
//!    that fit are told; the first one that does not fit ends the line. Permits for those that are told are kept until
//!    they claim them, or their time is over: then all tickets of their process leave.
//! 3. A semaphore is never new: there is no grace time, because no data was lost. A clock is not set back, and there is
//!    no first version.

use std::collections::{BTreeMap, HashMap, HashSet};

use redis::RedisResult;
use tollgate::Semaphore;

use super::arguments::{Call, Messages, Reply, failed};

/// For how long a ticket is kept after it was named last.
const MINUTE: u64 = 60_000_000;

/// The number of tickets that stand in front.
const FRONT: usize = 2;

/// For how long a ticket stays in front that only its own permits exclude.
const STUCK: u64 = 1_000_000;

struct Held {
    n: u64,
    expiry: u64,
}

struct Ticket {
    id: String,
    n: u64,
    /// The permits of its process.
    permits: u64,
    /// The time in which its process claims it.
    patience: u64,
    /// Where its process is told, or nothing.
    channel: String,
    expiry: u64,
    /// When it was told, and since when only its own permits exclude it.
    told: Option<u64>,
    stuck: Option<u64>,
}

impl Ticket {
    fn process(&self) -> &str {
        process_of(&self.id)
    }
}

/// The ids of one process begin with its name and a dot.
fn process_of(id: &str) -> &str {
    id.split_once('.').map_or(id, |(process, _)| process)
}

pub(super) struct Line {
    permits: Semaphore,
    held: HashMap<String, Held>,
    /// By their numbers.
    tickets: BTreeMap<u64, Ticket>,
    /// The last number of a lease or a ticket.
    last: u64,
}

impl Default for Line {
    fn default() -> Self {
        Self {
            permits: Semaphore::new(0),
            held: HashMap::new(),
            tickets: BTreeMap::new(),
            last: 0,
        }
    }
}

/// What all operations have.
struct Terms {
    permits: u64,
    ttl: u64,
    patience: u64,
    now: u64,
}

/// The request of a call for a lease, or a ticket.
struct Request<'a> {
    id: &'a str,
    n: u64,
    stays: bool,
}

fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl Line {
    pub(super) fn execute(&mut self, call: &Call<'_>, now: u64) -> RedisResult<(Reply, Messages)> {
        let terms = Terms {
            permits: call.number(1)?,
            ttl: call.number(2)?,
            patience: call.number(4)?,
            now,
        };
        if now > call.any_number(5)? {
            return Ok((vec![int(now)], Vec::new()));
        }
        self.expire(now);
        let mut messages = Vec::new();
        let mut reply = vec![int(now)];
        match call.text(0)? {
            "acquire" => reply.extend(self.acquire(call, &terms, &mut messages)?),
            "renew" => reply.push(self.renew(call, &terms)?),
            "assert" => {
                for one in call.texts(7).chunks(3) {
                    reply.push(self.assert(one, &terms)?);
                }
            }
            "release" => reply.push(self.release(call, &terms, &mut messages)?),
            "look" => {
                self.fit(terms.permits);
                reply.extend([0, int(self.permits.available_permits() as u64)]);
            }
            _ => return Err(failed("what to do is not known")),
        }
        Ok((reply, messages))
    }

    /// Returns whether a new line would be the same: nothing is held, nobody waits, and the next number would be greater
    /// than all earlier ones.
    pub(super) fn is_at_rest(&mut self, now: u64) -> bool {
        self.expire(now);
        self.held.is_empty() && self.tickets.is_empty() && self.last < now
    }

    /// Lets the permits be counted under this number.
    fn fit(&self, permits: u64) {
        let permits = usize::try_from(permits).unwrap_or(usize::MAX);
        self.permits
            .set_permits(permits.min(Semaphore::MAX_PERMITS));
    }

    /// Takes permits if they are free under this number.
    fn take(&self, n: u64, permits: u64) -> bool {
        self.fit(permits);
        self.permits.try_take(n).is_ok()
    }

    fn expire(&mut self, now: u64) {
        self.tickets.retain(|_, ticket| ticket.expiry > now);
        let permits = &self.permits;
        self.held.retain(|_, held| {
            let is_held = held.expiry > now;
            if !is_held {
                permits.release(held.n);
            }
            is_held
        });
    }

    /// Returns the next number of a lease or a ticket.
    fn following(&mut self, seen: u64, now: u64) -> u64 {
        self.last = (self.last + 1).max(seen + 1).max(now);
        self.last
    }

    /// Adds a lease whose permits were taken.
    fn hold(&mut self, id: &str, n: u64, terms: &Terms) {
        let expiry = terms.now + terms.ttl;
        let held = Held { n, expiry };
        self.held.insert(id.to_owned(), held);
    }

    fn acquire(
        &mut self,
        call: &Call<'_>,
        terms: &Terms,
        messages: &mut Messages,
    ) -> RedisResult<Vec<i64>> {
        let (seen, channel) = (call.any_number(7)?, call.text(8)?);
        let ahead = self.ahead(call.text(9)?);
        let (mut places, mut claimed, mut back) = (Vec::new(), HashMap::new(), 0);
        for (place, one) in call.texts(9).chunks(4).enumerate() {
            let index = 9 + 4 * place;
            let &[id, ..] = one else { continue };
            let (n, asked) = (call.number(index + 1)?, call.any_number(index + 2)?);
            let stays = call.number(index + 3)? != 0;
            let known = self.tickets.iter().find(|(_, it)| it.id == id);
            let known = known.map(|(number, _)| *number);
            if self.held.contains_key(id) {
                let fencing = self.following(seen, terms.now);
                self.hold(id, n, terms);
                known.map(|number| self.tickets.remove(&number));
                places.push([fencing, 0]);
                continue;
            }
            if asked == 0 && self.tickets.is_empty() && self.take(n, terms.permits) {
                let fencing = self.following(seen, terms.now);
                self.hold(id, n, terms);
                places.push([fencing, 0]);
                continue;
            }
            if known.is_none() && asked > 0 {
                back = 1;
            }
            let number = match (asked, known) {
                (0, Some(known)) => known,
                (0, None) => self.following(seen, terms.now),
                (asked, _) => asked,
            };
            let before = known.and_then(|known| self.tickets.remove(&known));
            self.tickets.insert(
                number,
                Ticket {
                    id: id.to_owned(),
                    n,
                    permits: terms.permits,
                    patience: terms.patience,
                    channel: channel.to_owned(),
                    expiry: terms.now + MINUTE,
                    told: None,
                    stuck: before.and_then(|before| before.stuck),
                },
            );
            claimed.insert(number, (place, Request { id, n, stays }));
            places.push([0, number]);
        }
        let caller = call.text(9).map_or("", process_of);
        let waited = !claimed.is_empty();
        let (granted, soon) = self.serve(caller, terms, &claimed, messages);
        for number in granted {
            if let Some((place, Request { id, n, .. })) = claimed.remove(&number) {
                let fencing = self.following(seen, terms.now);
                self.hold(id, n, terms);
                self.tickets.remove(&number);
                places[place] = [fencing, 0];
            }
        }
        for (number, (place, request)) in claimed {
            if !request.stays {
                self.tickets.remove(&number);
                places[place][1] = 0;
            }
        }
        let oldest = self.tickets.values().next();
        let is_oldest = waited && oldest.is_some_and(|oldest| oldest.process() == caller);
        let first = self.held.values().map(|held| held.expiry).min();
        let first = first.filter(|_| is_oldest).map(|first| first - terms.now);
        let soonest = first.into_iter().chain(soon).min();
        let line = [0, int(soonest.unwrap_or(0)), 0, back, int(ahead)];
        let places = places.into_iter().flatten().map(int);
        Ok(line.into_iter().chain(places).collect())
    }

    /// Returns the number of tickets before that of an id, or 0 if it is new, was told, or stands in front.
    fn ahead(&self, id: &str) -> u64 {
        let mut tickets = self.tickets.values().enumerate();
        let ticket = tickets.find(|(_, ticket)| ticket.id == id);
        let far = ticket.filter(|(place, ticket)| *place >= FRONT && ticket.told.is_none());
        far.map_or(0, |(place, _)| place as u64)
    }

    /// Serves the line. Returns the claimed tickets that are granted, whose permits are taken; and the time after which the
    /// caller looks, if it claims, and is the successor or has removed a process.
    fn serve(
        &mut self,
        caller: &str,
        terms: &Terms,
        claimed: &HashMap<u64, (usize, Request<'_>)>,
        messages: &mut Messages,
    ) -> (Vec<u64>, Option<u64>) {
        let (now, mut most) = (terms.now, u64::MAX);
        let (mut granted, mut kept, mut gone) = (Vec::new(), 0, HashSet::new());
        // The processes that were told, whether one was told now, and the rest of their time.
        let (mut told, mut is_new, mut patience) = (HashSet::new(), false, 0);
        // The ticket that ends the line.
        let mut end = None;
        // The least cost of a ticket that was passed, by process.
        let mut passed = HashMap::<String, u64>::new();
        let permits = &self.permits;
        let takes = |n, bound: u64| {
            let bound = usize::try_from(bound).unwrap_or(usize::MAX);
            permits.set_permits(bound.min(Semaphore::MAX_PERMITS));
            permits.try_take(n).is_ok()
        };
        for (number, ticket) in &mut self.tickets {
            let process = ticket.process().to_owned();
            if gone.contains(&process) {
                continue;
            }
            let n = ticket.n;
            if !takes(n, most.min(ticket.permits)) {
                // It is passed, and keeps its number, if only its own permits exclude it, and that for a second, or if a
                // ticket of its process for no more was passed.
                if !takes(n, most.min(terms.permits)) {
                    end = Some(*number);
                    break;
                }
                permits.release(n);
                if passed.get(&process).is_some_and(|passed| n >= *passed) {
                    continue;
                }
                if now - *ticket.stuck.get_or_insert(now) < STUCK {
                    end = Some(*number);
                    break;
                }
                passed.insert(process, n);
                continue;
            }
            if claimed.contains_key(number) {
                granted.push(*number);
                continue;
            }
            let is_over = |told| now - told >= ticket.patience;
            if ticket
                .told
                .is_none_or(|told| is_over(told) && process == caller)
            {
                (ticket.told, is_new) = (Some(now), true);
                let message = format!("{process} claim {}:{n}", ticket.id);
                messages.push((ticket.channel.clone(), message));
            } else if ticket.told.is_some_and(is_over) {
                permits.release(n);
                gone.insert(process);
                continue;
            }
            let over = ticket.told.map_or(now, |told| told + ticket.patience);
            patience = patience.max(over - now);
            most = most.min(ticket.permits);
            kept += n;
            told.insert(process);
        }
        permits.release(kept);
        self.tickets.retain(|_, it| !gone.contains(it.process()));
        if told.is_empty() {
            return (granted, None);
        }
        let mut behind = end.into_iter().flat_map(|end| self.tickets.range(end..));
        let successor = behind.find(|(_, it)| !told.contains(it.process()));
        let successor = successor.map(|(_, successor)| successor);
        let own = claimed.keys().next().map(|number| &self.tickets[number]);
        let is_next = successor.is_some_and(|it| it.process() == caller);
        if let Some(next) = successor.filter(|_| is_new && !(is_next && own.is_some())) {
            let message = format!("{} soon {patience}", next.process());
            messages.push((next.channel.clone(), message));
        }
        let looks = own.is_some_and(|own| !own.channel.is_empty()) && (is_next || !gone.is_empty());
        (granted, looks.then_some(patience))
    }

    /// Renews the leases with these members: the first of a lease has its id, the others a colon and a number more.
    fn renew(&mut self, call: &Call<'_>, terms: &Terms) -> RedisResult<i64> {
        let fencing = call.any_number(7)?;
        let mut all = true;
        for member in call.texts(8) {
            let (id, index) = match member.split_once(':') {
                Some((id, index)) => (id, index.parse().unwrap_or(u64::MAX)),
                None => (*member, 0),
            };
            match self.held.get_mut(id).filter(|held| index < held.n) {
                Some(held) => held.expiry = terms.now + terms.ttl,
                None => all = false,
            }
        }
        if all {
            self.last = self.last.max(fencing);
        }
        Ok(i64::from(all))
    }

    /// Asserts a lease. Returns 0 if it is lost, 1 if it is renewed, 2 if it was not known, and is asserted again.
    fn assert(&mut self, one: &[&str], terms: &Terms) -> RedisResult<i64> {
        let &[id, n, fencing] = one else {
            return Err(failed("an argument is missing"));
        };
        let [n, fencing] = [n, fencing].map(|it| it.parse::<u64>());
        let (Ok(n), Ok(fencing)) = (n, fencing) else {
            return Err(failed("an argument is no number"));
        };
        let is_held = self.held.contains_key(id);
        let is_back = !is_held && fencing > self.last && self.take(n, terms.permits);
        if !is_held && !is_back {
            return Ok(0);
        }
        self.last = self.last.max(fencing);
        self.hold(id, n, terms);
        Ok(if is_held { 1 } else { 2 })
    }

    /// Releases leases and tickets. Returns the number of permits of those that existed.
    fn release(
        &mut self,
        call: &Call<'_>,
        terms: &Terms,
        messages: &mut Messages,
    ) -> RedisResult<i64> {
        let mut count = 0;
        for one in call.texts(7).chunks(2) {
            if let Some(held) = self.held.remove(one[0]) {
                self.permits.release(held.n);
                count += held.n;
            }
            self.tickets.retain(|_, ticket| ticket.id != one[0]);
        }
        self.serve(process_of(call.text(7)?), terms, &HashMap::new(), messages);
        Ok(int(count))
    }
}
