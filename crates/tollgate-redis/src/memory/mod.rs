//! [`Memory`]: what a server does for the limits of a store, in this process, for tests.
//!
//! 1. It takes the calls of the scripts, with the same keys and arguments, and returns the same replies. So everything
//!    above a call is the same with and without a server: queues, turns, renewals, refunds, statistics.
//! 2. Rate limiters and a semaphore of tollgate decide. What is written here is what a server adds to them: which keys
//!    there are, which charge a refund means, which turns are open, when leases end, who is next in a line.
//! 3. The time is an argument of each call, in whole microseconds, as a server has it. It begins with the store, so
//!    that windows begin then. It never goes back: a call that comes later has at least the time of the one before.
//! 4. One lock makes a call atomic. Messages are delivered after it, because their receivers take locks of their own.
//!
//! A server forgets a key when nothing is owed any more; here that happens when there are [many keys](keys).

mod arguments;
mod keys;
mod lease;
mod limit;
mod rates;
mod rule;
#[cfg(test)]
mod tests;
mod turns;
#[cfg(test)]
mod unit_tests;

use std::collections::HashMap;

use redis::{Cmd, RedisResult, Value};
use tollgate::Algorithm;

use self::arguments::{Call, Messages, Reply, failed};
use self::keys::Keys;
use self::lease::Line;
use self::rates::Rates;
use crate::script::{CALLERS, DEBT, LEASE, LEASES, LIMIT_SET, LOG, STEPS, WINDOW};
use crate::sync::{Mutex, lock};

const KEYS_OF_A_SEMAPHORE: usize = 7;

/// Receives the messages of a channel. Returns `false` if nobody listens any more.
pub(crate) type Channel = Box<dyn Fn(&str) -> bool + Send + Sync>;

#[derive(Default)]
pub(crate) struct Memory {
    state: Mutex<State>,
    channels: Mutex<HashMap<String, Channel>>,
}

#[derive(Default)]
struct State {
    rates: Rates,
    /// The leases and the tickets of each semaphore, by its first key.
    lines: Keys<Line>,
}

impl Memory {
    /// Adds a channel.
    pub(crate) fn open(&self, name: &str, channel: Channel) {
        lock(&self.channels).insert(name.to_owned(), channel);
    }

    /// Executes the call of a script in this microsecond.
    pub(crate) fn call(&self, command: &Cmd, now: u64) -> RedisResult<Value> {
        let Some(call) = Call::read(command)? else {
            // A check of the configuration finds nothing.
            return Ok(Value::Array(Vec::new()));
        };
        let (reply, messages) = {
            let state = &mut *lock(&self.state);
            state.execute(&call, now)?
        };
        for (channel, message) in messages {
            let channels = lock(&self.channels);
            // It takes locks of a limit, under which nothing is called here.
            let is_heard = channels.get(&channel).is_some_and(|it| it(&message));
            drop(channels);
            if !is_heard {
                lock(&self.channels).remove(&channel);
            }
        }
        Ok(reply)
    }
}

fn value(reply: Reply) -> Value {
    Value::Array(reply.into_iter().map(Value::Int).collect())
}

impl State {
    fn execute(&mut self, call: &Call<'_>, now: u64) -> RedisResult<(Value, Messages)> {
        let mut rates = self.rates.at(now);
        // The clock was read before the lock, so that of another call may be ahead of it.
        let now = rates.now;
        self.lines.tidy(|line| line.is_at_rest(now));
        let of_one = [
            (&DEBT, Algorithm::Gcra),
            (&STEPS, Algorithm::TokenBucket),
            (&WINDOW, Algorithm::SlidingWindow),
            (&LOG, Algorithm::SlidingLog),
        ];
        for (script, algorithm) in of_one {
            if call.is_of(script) {
                return Ok((value(rates.one(algorithm, call)?), Vec::new()));
            }
        }
        if call.is_of(&LIMIT_SET) {
            return Ok((value(rates.several(call)?), Vec::new()));
        }
        if call.is_of(&CALLERS) {
            return Ok((value(rates.callers(call)?), Vec::new()));
        }
        if call.is_of(&LEASE) {
            let (reply, messages) = self.lease(call, now)?;
            return Ok((value(reply), messages));
        }
        if call.is_of(&LEASES) {
            let (mut replies, mut messages) = (Vec::new(), Vec::new());
            for part in call.parts(KEYS_OF_A_SEMAPHORE)? {
                let (reply, more) = self.lease(&part, now)?;
                replies.push(value(reply));
                messages.extend(more);
            }
            return Ok((Value::Array(replies), messages));
        }
        Err(failed("a store in memory has no such command"))
    }

    fn lease(&mut self, call: &Call<'_>, now: u64) -> RedisResult<(Reply, Messages)> {
        let line = self.lines.all.entry(call.key(0)?.to_owned()).or_default();
        line.execute(call, now)
    }
}
