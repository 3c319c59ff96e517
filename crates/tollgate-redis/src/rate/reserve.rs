//! The calls that reserve [turns](super::turns) for the waiters, and the handling of their replies.

use std::convert::identity;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{FromRedisValue, Value};
use tollgate::{AcquireError, ErrorKind};

use super::charge::{Charge, Queue, Source};
use super::charging::refuse;
use super::denied::Denied;
use super::reply::Reply;
use super::rule::Rule;
use super::state::{RateState, Shared, State};
use crate::error::StoreError;
use crate::script::{MOST, micros, whole};

impl RateState {
    /// Returns the numbers of the first waiters, as many as the server could admit or reserve, their costs, and
    /// the microseconds that each has: none if it only tries.
    pub(super) fn asks(&self, queue: &Queue, room: u64, most: usize, now: Instant) -> Vec<Asked> {
        let mut left = room.saturating_add(self.rule.burst);
        // A search from the end of an iterator over the queue would pass all that are behind.
        let first: Vec<_> = queue.iter().take(most).collect();
        // Those who only try are asked for, too: they are decided by this call.
        let last_try = first.iter().rposition(|waiter| waiter.tries);
        let last_try = last_try.map_or(0, |index| index + 1);
        let asks = first.into_iter().enumerate().map_while(|(index, waiter)| {
            let fits = left > 0 || index < last_try;
            left = left.saturating_sub(waiter.cost);
            let time = match (waiter.tries, waiter.deadline) {
                (true, _) => 0,
                (_, Some(deadline)) => micros(self.turns.remaining(deadline, now)),
                _ => MOST,
            };
            let (number, cost) = (waiter.number, waiter.cost);
            fits.then_some(Asked { number, cost, time })
        });
        asks.collect()
    }
}

/// A waiter about whom the server is asked.
pub(super) struct Asked {
    number: u64,
    cost: u64,
    /// The microseconds that it has.
    time: u64,
}

impl Shared {
    /// Reserves turns for the first waiters while there is room for so many units.
    pub(super) async fn reserve_for_waiters(
        self: Arc<Self>,
        rule: Rule,
        asks: Vec<Asked>,
        room: u64,
    ) {
        let asked = self.now();
        let (forgotten, held) = {
            let own = &self.state().own;
            (own.denied.forgotten(), own.turns.len() as u64)
        };
        let runs = asks.chunk_by(|one, next| (one.cost, one.time) == (next.cost, next.time));
        let runs = runs.flat_map(|run| [run[0].cost, run[0].time, run.len() as u64]);
        let arguments = [self.limit.id, held, room].into_iter().chain(runs);
        let mut arguments: Vec<u64> = arguments.collect();
        arguments.pop_if(|last| *last == 1);
        let call = async {
            self.repay(rule, 1).await?;
            let value = self.call(&rule, "turns", &arguments, identity).await?;
            Reserved::read(&value, &asks)
        };
        let reply = match self.breaker.guard(call).await {
            Ok(reply) => reply,
            Err(error) => return self.fail(asks.iter().map(|asked| asked.number), error),
        };
        let answered = self.now();
        let charged = asks.iter().zip(&reply.decided);
        let charged = charged.filter(|(_, decided)| decided.position.is_some());
        self.limit
            .common
            .shares
            .charge(charged.map(|(asked, _)| asked.cost).sum());
        let wait = reply.state.wait;
        let left = asks.len() - reply.decided.len();
        let cost = asks.get(reply.decided.len()).map_or(1, |asked| asked.cost);
        let options = &self.limit.common.options;
        let denied = Denied::of(options, cost, rule, wait, [asked, answered]);
        let denied = Some(denied).filter(|_| !wait.is_zero());
        let source = if asks.len() > 1 {
            Source::Coalesced
        } else {
            Source::Store
        };
        self.change(|state| {
            let own = &mut state.own;
            let within = rule.within(self.limit.common.options.horizon);
            let (first, took) = (asks[0].cost, answered - asked);
            let is_timely = own.turns.learn(first, within, reply.holders, took);
            let again = self.decide(state, &rule, &reply, source, answered, is_timely);
            state.own.denied.learn(denied, forgotten);
            state
                .own
                .turns
                .learn_line(denied.map(|denied| denied.until));
            refuse(&self.limit, state, answered, (again + left, source));
        });
    }

    /// Admits the first waiters, gives them turns, or rejects them, as the server has decided. Returns the number of
    /// those who stay in front, because the reply with their turns is not timely.
    fn decide(
        &self,
        state: &mut State,
        rule: &Rule,
        reply: &Reserved,
        source: Source,
        answered: Instant,
        is_timely: bool,
    ) -> usize {
        let State {
            queue,
            own,
            abandoned,
            ..
        } = state;
        let (options, mut again) = (&self.limit.common.options, 0);
        for &Decided {
            number,
            wait,
            position,
        } in &reply.decided
        {
            let Some(waiter) = queue.remove(number) else {
                continue;
            };
            let Some(position) = position else {
                let error = if waiter.tries {
                    options.denial(source, wait)
                } else {
                    AcquireError::would_take(wait)
                };
                queue.reply(waiter, Err(error));
                continue;
            };
            let now = Reply {
                wait,
                position,
                ..reply.state
            };
            let charge = Charge::granted(rule, &now.when_due(), waiter.cost, 0, source);
            if wait.is_zero() {
                queue.reply(waiter, Ok(charge));
            } else if !is_timely {
                abandoned.push(charge);
                queue.insert(waiter);
                again += 1;
            } else if own.turns.waiters() < options.max_waiters {
                own.turns.add(*rule, waiter, answered + wait, charge);
            } else {
                abandoned.push(charge);
                queue.reply(waiter, Err(AcquireError::new(ErrorKind::QueueFull)));
            }
        }
        again
    }

    /// Looks where the line ends, and gives the turns back if they are behind that.
    pub(super) async fn look(self: Arc<Self>, rule: Rule) {
        let reply = self.ask(&rule, "peek", &[1]).await;
        let answered = self.now();
        self.change(|state| {
            let State { queue, own, .. } = state;
            // Turns hold also while the server does not answer.
            let end = reply.map_or(None, |reply| answered.checked_add(reply.wait));
            let end = end.or(own.turns.due()).unwrap_or(answered);
            state.abandoned.extend(own.turns.looked(queue, end));
        });
    }
}

/// The decision of the server about a waiter.
#[derive(Clone, Copy, Debug)]
struct Decided {
    /// That of the waiter.
    number: u64,
    /// The time until the waiter is due.
    wait: Duration,
    /// The position of its charge; `None` if it is due too late.
    position: Option<u64>,
}

/// The reply to a call that reserves turns.
struct Reserved {
    /// `wait` is the time until the next turn.
    state: Reply,
    /// The number of processes that hold turns.
    holders: u64,
    /// At most as many as were asked for.
    decided: Vec<Decided>,
}

impl Reserved {
    fn read(value: &Value, asks: &[Asked]) -> Result<Self, StoreError> {
        let numbers = Vec::<i64>::from_redis_value_ref(value).map_err(|_| StoreError::Unknown)?;
        let Some((state, [holders, decided @ ..])) = numbers.split_at_checked(7) else {
            return Err(StoreError::Unknown);
        };
        let [state] = Reply::of_each(&whole(state))?[..] else {
            return Err(StoreError::Unknown);
        };
        let (decided, []) = decided.as_chunks() else {
            return Err(StoreError::Unknown);
        };
        if decided.len() > asks.len() {
            return Err(StoreError::Unknown);
        }
        let decided = asks.iter().zip(decided);
        let decided = decided.map(|(asked, &[wait, position])| Decided {
            number: asked.number,
            wait: Duration::from_micros(wait.max(0) as u64),
            position: u64::try_from(position).ok(),
        });
        Ok(Self {
            state,
            holders: u64::try_from(*holders).unwrap_or(1),
            decided: decided.collect(),
        })
    }
}
