//! [`Rates`]: the limits of all keys, and the operations of the scripts on them: those of `one.lua`, `several.lua` and
//! `callers.lua`.

use std::time::Duration;

use redis::RedisResult;
use tollgate::time::ManualClock;
use tollgate::{Algorithm, Clock};

use super::arguments::{Call, Reply, failed};
use super::keys::Keys;
use super::limit::Limit;
use super::rule::Rule;

pub(super) struct Rates {
    /// That of all limiters.
    clock: ManualClock,
    limits: Keys<Limit>,
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            clock: Clock::manual(),
            limits: Keys::default(),
        }
    }
}

/// The limits in one microsecond.
pub(super) struct RatesAt<'a> {
    rates: &'a mut Rates,
    pub(super) now: u64,
}

impl Rates {
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.limits.all.len()
    }

    /// Begins a call: advances the time to a microsecond, or keeps it if it has passed already.
    pub(super) fn at(&mut self, now: u64) -> RatesAt<'_> {
        let passed = self.clock.now().as_nanos() / 1000;
        let passed = Duration::from_micros(now.saturating_sub(passed));
        if !passed.is_zero() {
            self.clock.advance(passed);
        }
        self.limits.tidy(|limit| limit.is_at_rest());
        let now = self.clock.now().as_nanos() / 1000;
        RatesAt { rates: self, now }
    }
}

/// The algorithm with this name in a script of several limits.
fn algorithm(name: &str) -> RedisResult<Algorithm> {
    Ok(match name {
        "debt" => Algorithm::Gcra,
        "steps" => Algorithm::TokenBucket,
        "window" => Algorithm::SlidingWindow,
        "log" => Algorithm::SlidingLog,
        _ => return Err(failed("a rule is not known")),
    })
}

fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl RatesAt<'_> {
    /// Returns the limit under a key, which has this rule from now on.
    fn limit(&mut self, key: &str, rule: Rule) -> RedisResult<&mut Limit> {
        let Rates { clock, limits } = &mut *self.rates;
        let limits = &mut limits.all;
        if !limits.contains_key(key) {
            limits.insert(key.to_owned(), Limit::new(rule, clock, self.now)?);
        }
        let limit = limits.get_mut(key).expect("it was inserted");
        limit.change(rule, clock, self.now)?;
        limit.turns.pass(self.now);
        Ok(limit)
    }

    /// Executes an operation on one limit.
    pub(super) fn one(&mut self, algorithm: Algorithm, call: &Call<'_>) -> RedisResult<Reply> {
        let (what, rule, now) = (call.text(0)?, Rule::read(algorithm, call, 1)?, self.now);
        let limit = self.limit(call.key(0)?, rule)?;
        let has_turns = algorithm == Algorithm::Gcra && call.keys().len() > 1;
        let (mut done, mut wait, mut position, mut turns) = (0, 0, None, Vec::new());
        match what {
            "take" => (done, wait) = limit.take(call, now)?,
            "upto" => {
                done = call.number(4)?.min(limit.free());
                limit.charge_tokens(done, now)?;
                if done == 0 {
                    wait = limit.wait(1);
                }
            }
            "peek" => {
                wait = limit.wait(call.number(4)?);
                done = u64::from(wait == 0);
            }
            "charge" => {
                limit.charge(call.number(4)?, now)?;
                done = 1;
            }
            "turns" => (done, wait, turns) = limit.reserve_turns(call, now)?,
            "reserve" => {
                let n = call.number(4)?;
                let open;
                (wait, open) = limit.find(n, now, has_turns);
                if wait <= call.number(5)? {
                    position = Some(limit.occupy(n, wait, open, now)?);
                    done = 1;
                }
            }
            "give" => limit.give_all(&call.numbers(4)?, now)?,
            _ => return Err(failed("what to do is not known")),
        }
        let [last, made] = limit.ticket(now);
        let position = position.unwrap_or(last);
        let numbers = [done, now, wait, limit.free(), limit.reset(), position, made];
        Ok(numbers.into_iter().map(int).chain(turns).collect())
    }

    /// Executes an operation on several limits, on all or on none.
    pub(super) fn several(&mut self, call: &Call<'_>) -> RedisResult<Reply> {
        let (what, keys, now) = (call.text(0)?, call.keys(), self.now);
        let size = call.texts(1).len() / keys.len().max(1);
        let first = |index: usize| 1 + index * size;
        let mut waits = vec![0; keys.len()];
        let each = |this: &mut Self, index: usize| {
            let algorithm = algorithm(call.text(first(index))?)?;
            let rule = Rule::read(algorithm, call, first(index) + 1)?;
            this.limit(keys[index], rule).map(|_| ())
        };
        (0..keys.len()).try_for_each(|index| each(self, index))?;
        // They exist, and have their rules.
        let limits = &mut self.rates.limits.all;
        let number = |index: usize, offset: usize| call.number(first(index) + offset);
        let mut done = 1;
        match what {
            "take" => {
                done = 0;
                for offset in 4..size {
                    for (index, key) in keys.iter().enumerate() {
                        let n = number(index, offset)?;
                        waits[index] = if n > 0 { limits[*key].wait(n) } else { 0 };
                    }
                    if waits.iter().any(|wait| *wait > 0) {
                        break;
                    }
                    for (index, key) in keys.iter().enumerate() {
                        let n = number(index, offset)?;
                        let limit = limits.get_mut(*key).expect("it exists");
                        limit.charge(n, now)?;
                    }
                    done += 1;
                }
            }
            "peek" => {
                for (index, key) in keys.iter().enumerate() {
                    waits[index] = limits[*key].wait(number(index, 4)?);
                }
                done = u64::from(waits.iter().all(|wait| *wait == 0));
            }
            "charge" | "give" => {
                for (index, key) in keys.iter().enumerate() {
                    let numbers = (4..size).map(|offset| number(index, offset));
                    let numbers = numbers.collect::<RedisResult<Vec<_>>>()?;
                    let limit = limits.get_mut(*key).expect("it exists");
                    match what {
                        "give" => limit.give_all(&numbers, now)?,
                        _ => numbers.iter().try_for_each(|n| limit.charge(*n, now))?,
                    }
                }
            }
            _ => return Err(failed("what to do is not known")),
        }
        let mut reply = vec![int(done), int(now)];
        for (key, wait) in keys.iter().zip(waits) {
            let limit = &limits[*key];
            let [position, made] = limit.ticket(now);
            reply.extend([wait, limit.free(), limit.reset(), position, made].map(int));
        }
        Ok(reply)
    }

    /// Charges the callers of a detector. Returns the microseconds until each is within its burst again.
    pub(super) fn callers(&mut self, call: &Call<'_>) -> RedisResult<Reply> {
        let (mut rule, now) = (Rule::read(Algorithm::Gcra, call, 0)?, self.now);
        // What is owed is within the burst when one more is within a burst that is greater by one.
        rule.burst += 1;
        let keys = call.keys().iter().enumerate();
        let waits = keys.map(|(index, key)| {
            let n = call.number(3 + index)?;
            let limit = self.limit(key, rule)?;
            limit.charge(n, now)?;
            Ok(int(limit.wait(1)))
        });
        waits.collect()
    }
}

impl Limit {
    /// Charges calls while there is enough for each. Returns their number, and the wait of the next one.
    fn take(&mut self, call: &Call<'_>, now: u64) -> RedisResult<(u64, u64)> {
        let (mut costs, mut done) = (call.numbers(4)?, 0);
        if costs.is_empty() {
            costs.push(1);
        }
        for run in costs.chunks(2) {
            for _ in 0..run.get(1).copied().unwrap_or(1) {
                let wait = self.wait(run[0]);
                if wait > 0 {
                    return Ok((done, wait));
                }
                self.charge(run[0], now)?;
                done += 1;
            }
        }
        Ok((done, 0))
    }

    /// Returns the microseconds until the next turn of `n`, and its open tick, if it has one.
    fn find(&self, n: u64, now: u64, has_turns: bool) -> (u64, Option<usize>) {
        let wait = self.wait(n);
        match self.turns.find(n, now + wait).filter(|_| has_turns) {
            Some((due, index)) => (due - now, Some(index)),
            None => (wait, None),
        }
    }

    /// Reserves turns for a process. Returns the number of calls that were decided, the wait of the first one that was
    /// not, or of one of cost 1; the number of processes that hold turns, and each decision.
    fn reserve_turns(&mut self, call: &Call<'_>, now: u64) -> RedisResult<(u64, u64, Vec<i64>)> {
        let (process, mut held, mut room) = (call.text(4)?, call.number(5)?, call.number(6)?);
        let (mut turns, mut latest, mut behind) = (vec![0], 0, 1);
        'asks: for ask in call.numbers(7)?.chunks(3) {
            let &[n, within, ..] = ask else {
                return Err(failed("an argument is missing"));
            };
            for _ in 0..ask.get(2).copied().unwrap_or(1) {
                let (wait, open) = self.find(n, now, true);
                if wait > within {
                    turns.extend([int(wait), -1]);
                    continue;
                }
                if wait > 0 {
                    if room < n && held > 0 {
                        behind = n;
                        break 'asks;
                    }
                    (held, room) = (held + 1, room.saturating_sub(n));
                    latest = latest.max(now + wait);
                }
                let position = self.occupy(n, wait, open, now)?;
                turns.extend([int(wait), int(position)]);
            }
        }
        let done = (turns.len() / 2) as u64;
        let (wait, _) = self.find(behind, now, true);
        turns[0] = self.turns.hold(process, latest, now) as i64;
        Ok((done, wait, turns))
    }

    /// Gives charges back. They are in their order; while reservations are to come, the last one goes first.
    fn give_all(&mut self, numbers: &[u64], now: u64) -> RedisResult<()> {
        let (tickets, []) = numbers.as_chunks() else {
            return Err(failed("an argument is missing"));
        };
        let give = |this: &mut Self, &[n, position, made, due]: &[u64; 4]| {
            this.give(n, position, made, due, now);
        };
        if self.is_reserved(now) {
            tickets.iter().rev().for_each(|ticket| give(self, ticket));
        } else {
            tickets.iter().for_each(|ticket| give(self, ticket));
        }
        Ok(())
    }
}
