//! The state that the handles of a rate limit share, and the use of the [queue](crate::queue) by a
//! rate limit.

use std::convert::identity;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Cmd, Value};
use tollgate::time::Tick;
use tollgate::{AcquireError, Quota, rate};

use super::charge::{Charge, Part, Source, Ticket};
use super::charging::{self, Answered, Asked, Charging, Common, refuse};
use super::denied::{Denied, DeniedCache};
use super::prefetch::{Batches, Prefetch};
use super::reply::Reply;
use super::rule::Rule;
use super::turns::Turns;
use crate::error::StoreError;
use crate::keys;
use crate::queue::{self, Next, Wait};
use crate::store::Call;

/// The maximum number of waiters in one call.
const MOST_ASKED: usize = 1024;

/// The maximum number of waiters in one call that reserves turns: each takes the server more time.
const MOST_RESERVED: usize = 256;

pub(super) struct Rate {
    pub(super) key: String,
    /// Distinguishes this limiter from those of other processes.
    pub(super) id: u64,
    pub(super) common: Common<Part>,
    pub(super) prefetch: Option<Prefetch>,
}

pub(super) struct RateState {
    /// The last handle of the limiter was dropped.
    pub(super) is_abandoned: bool,
    pub(super) quota: Quota,
    pub(super) rule: Rule,
    pub(super) denied: DeniedCache,
    pub(super) batches: Batches,
    pub(super) turns: Turns,
}

impl RateState {
    /// Returns whether nothing is known that a new limiter would not know, while there are no waiters.
    pub(super) fn is_at_rest(&self, now: Instant) -> bool {
        self.denied.is_at_rest(now) && self.batches.is_empty() && self.turns.is_at_rest(now)
    }
}

pub(super) type Shared = queue::Shared<Rate>;
pub(super) type State = queue::State<Rate>;

impl Rate {
    fn has_ended(state: &State) -> bool {
        state.closed || state.own.is_abandoned && state.queue.is_empty()
    }

    /// Takes out expired tokens, and admits waiters with the remaining ones.
    fn serve(prefetch: &Prefetch, state: &mut State) {
        let has_ended = Self::has_ended(state);
        let batches = &mut state.own.batches;
        let expired = batches.take_expired(prefetch, has_ended);
        state
            .abandoned
            .extend(expired.into_iter().map(Charge::from));
        while let Some((number, cost)) = state.queue.front().map(|it| (it.number, it.cost))
            && let Some(charge) = batches.take(prefetch, cost)
            && let Some(waiter) = state.queue.remove(number)
        {
            state.queue.reply(waiter, Ok(charge));
        }
        let excess = batches.take_excess(prefetch);
        state.abandoned.extend(excess.into_iter().map(Charge::from));
    }

    /// Decides about held tokens while there are no waiters.
    fn keep(shared: &Arc<Shared>, prefetch: &Prefetch, state: &mut State) -> Next {
        if Self::has_ended(state) {
            return Next::End;
        }
        let RateState { rule, batches, .. } = &mut state.own;
        let expiry = batches.expiry();
        prefetch.cache.open_until(expiry.as_nanos());
        if let Some(n) = batches.refill(prefetch, 0) {
            return Next::Run(Box::pin(Arc::clone(shared).prefetch(*rule, n)));
        }
        if prefetch.cache.count() == 0 {
            return Next::End;
        }
        Next::Sleep(shared.now() + expiry.saturating_since(prefetch.now()))
    }
}

impl queue::Limit for Rate {
    type Permit = Charge;
    type Brought = ();
    type Request = ();
    type State = RateState;

    fn key(&self) -> &str {
        &self.key
    }

    fn free_permit() -> Charge {
        Charge::open(0, Source::Nobody)
    }

    fn capacity(&self, state: &RateState) -> u64 {
        state.rule.most_at_once(self.common.options.oversize)
    }

    #[inline]
    fn take_cached(shared: &Shared, cost: u64) -> Option<Charge> {
        let prefetch = shared.limit.prefetch.as_ref().filter(|_| cost > 0)?;
        let (charge, notify) = prefetch.take(cost)?;
        if notify {
            shared.notify();
        }
        Some(charge)
    }

    fn join(&self, state: &State, caller: &Wait<Self>) -> Result<(), AcquireError> {
        charging::join(self, state, caller)
    }

    fn on_leave_elsewhere(state: &mut RateState, number: u64) {
        state.turns.leave(number);
    }

    fn serve(state: &mut State, calls: bool, now: Instant) -> Option<Instant> {
        let State { queue, own, .. } = state;
        if !calls {
            own.turns.asked = 0;
        }
        if !calls && (state.closed || !own.turns.is_of(&own.rule)) {
            state.abandoned.extend(own.turns.release(queue));
        }
        if own.turns.waiters() + own.turns.len() == 0 {
            if !calls && queue.is_empty() {
                own.turns.rest();
            }
            return None;
        }
        let due = own.turns.serve(queue, &own.rule, now);
        if !calls {
            state.abandoned.extend(own.turns.balance(queue));
        }
        due
    }

    fn release(state: &mut State) {
        let State { queue, own, .. } = state;
        state.abandoned.extend(own.turns.release(queue));
    }

    fn next(shared: &Arc<Shared>, state: &mut State) -> Next {
        let prefetch = shared.limit.prefetch.as_ref();
        if let Some(prefetch) = prefetch {
            Self::serve(prefetch, state);
        }
        let (now, options) = (shared.now(), &shared.limit.common.options);
        refuse(&shared.limit, state, now, (0, Source::DeniedCache));
        let State { queue, own, .. } = state;
        let look = own.turns.looks_at(now);
        if look.is_some_and(|look| look <= now) {
            return Next::Run(Box::pin(Arc::clone(shared).look(own.rule)));
        }
        let due = own.turns.due().into_iter().chain(look).min();
        if queue.is_empty() {
            let next = prefetch.map_or(Next::End, |it| Self::keep(shared, it, state));
            return next.at_latest(due);
        }
        if let Some(again) = own.denied.asks_again(queue, true, now) {
            return Next::Sleep(again).at_latest(due);
        }
        let most = if options.coalesce { MOST_ASKED } else { 1 };
        let is_lost = own.denied.lost().is_some();
        if own.rule.is_reserved() && !is_lost && own.turns.is_behind(now) {
            let Some(room) = own.turns.room(queue) else {
                return Next::End.at_latest(due);
            };
            let asks = own.asks(queue, room, most.min(MOST_RESERVED), now);
            own.turns.asked = asks.len();
            return Next::Run(Box::pin(
                Arc::clone(shared).reserve_for_waiters(own.rule, asks, room),
            ));
        }
        let asked: Vec<_> = queue.iter().take(most).map(Asked::of).collect();
        own.turns.asked = asked.len();
        let queued = asked.iter().map(|one| one.cost);
        let queued = queued.fold(0, u64::saturating_add);
        let refill = prefetch.and_then(|it| own.batches.refill(it, queued));
        let this = Arc::clone(shared);
        Next::Run(match refill {
            Some(n) => Box::pin(this.prefetch(own.rule, n)),
            None => Box::pin(this.take(own.rule, 1, asked)),
        })
    }

    fn stop_cached(&self) {
        if let Some(prefetch) = &self.prefetch {
            prefetch.cache.open_until(0);
        }
    }

    fn give_back(shared: &Arc<Shared>, charges: Vec<Charge>) {
        shared.refund_later(charges);
    }
}

impl Charging for Rate {
    type Refund = Part;

    const DENIES_TRIES: bool = true;

    fn common(&self) -> &Common<Part> {
        &self.common
    }

    fn denied(own: &RateState) -> &DeniedCache {
        &own.denied
    }

    fn denied_mut(own: &mut RateState) -> &mut DeniedCache {
        &mut own.denied
    }

    fn rule(&self, own: &RateState, _index: usize) -> Rule {
        own.rule
    }

    fn in_line(&self, own: &RateState) -> usize {
        own.turns.waiters()
    }

    fn has_line(&self, own: &RateState) -> bool {
        // Turns of an earlier quota are given back in the next step.
        own.turns.waiters() > 0 && own.turns.is_of(&own.rule)
    }

    async fn ask(
        shared: &Shared,
        rule: Rule,
        what: &'static str,
        arguments: Vec<Vec<u64>>,
    ) -> Result<Vec<Reply>, StoreError> {
        let mut arguments = arguments.concat();
        if what == "take" {
            let runs = arguments.chunk_by(|one, next| one == next);
            arguments = runs.flat_map(|run| [run[0], run.len() as u64]).collect();
            // Each argument takes the server time, and most calls are for one waiter.
            arguments.pop_if(|last| *last == 1);
            if arguments == [1] {
                arguments.clear();
            }
        }
        Ok(vec![shared.ask(&rule, what, &arguments).await?])
    }

    fn permit(&self, call: &Answered<Self>, asked: &Asked<Self>, after: &[u64]) -> Charge {
        Charge::granted(
            &call.rule,
            &call.replies[0],
            asked.cost,
            after[0],
            call.source,
        )
    }

    fn learn(&self, call: &Answered<Self>, State { own, .. }: &mut State) -> Option<Denied> {
        let (reply, options) = (&call.replies[0], &self.common.options);
        if let Some(prefetch) = &self.prefetch {
            own.batches.learn(prefetch, reply.free);
        }
        let denied = call.asked.get(call.charged);
        let denied =
            denied.map(|it| Denied::of(options, it.cost, call.rule, reply.wait, call.times));
        own.turns.learn_line(denied.map(|denied| denied.until));
        denied
    }

    fn local(cost: u64, charges: Vec<rate::Charge>) -> Charge {
        Charge::local(cost, charges)
    }

    fn undo(shared: &Arc<Shared>, charge: Charge) -> Vec<Part> {
        let n = charge.cost;
        match charge.ticket {
            Ticket::Store(grant) => vec![Part { grant, n }],
            Ticket::Cached(expiry) => shared.put_back(expiry, n),
            Ticket::Local(local) => {
                shared.limit.common.shares.refund(local, n);
                Vec::new()
            }
        }
    }

    fn forget(own: &mut RateState) {
        own.denied.forget();
        own.batches.is_plenty = false;
    }
}

impl Shared {
    /// Calls the script with an operation and these arguments.
    pub(super) async fn ask(
        &self,
        rule: &Rule,
        what: &str,
        arguments: &[u64],
    ) -> Result<Reply, StoreError> {
        let value = self.call(rule, what, arguments, identity).await?;
        Reply::read(rule, &value)
    }

    /// Calls the script with an operation and these arguments, and perhaps with the key of the turns. If that is refused,
    /// because a cluster has moved one of the two keys, or the user has a right only for the other, the call is made without it.
    pub(super) async fn call(
        &self,
        rule: &Rule,
        what: &str,
        arguments: &[u64],
        with: impl Fn(Call) -> Call,
    ) -> Result<Value, StoreError> {
        let with_arguments = |command: &mut Cmd| {
            command.arg(what).arg(&rule.numbers()).arg(arguments);
        };
        let key = self.limit.key.as_str();
        let has_turns = rule.has_turns() && ["turns", "reserve", "give"].contains(&what);
        if has_turns && self.state().own.turns.has_key(self.now()) {
            let keys = [key, &keys::turns(key)];
            let call = self.store.call_once(rule.script(), &keys, with_arguments);
            let answer = with(call).await;
            if !matches!(answer, Err(StoreError::TryAgain | StoreError::Forbidden)) {
                return answer;
            }
            self.state().own.turns.lose_key(self.now());
        }
        with(self.store.call(rule.script(), &[key], with_arguments)).await
    }

    /// Charges one call alone, between `least` and `n`. Returns the charge, and the time until it
    /// is due. If the server does not decide, the fallback does.
    pub(super) async fn charge_alone(
        self: &Arc<Self>,
        rule: Rule,
        what: &str,
        arguments: &[u64],
        n: u64,
        least: u64,
    ) -> Result<(Charge, Duration), AcquireError> {
        let charge = move |reply: &Reply| {
            let cost = if least < n { reply.done.min(n) } else { n };
            (reply.done > 0)
                .then(|| Charge::granted(&rule, &reply.when_due(), cost, 0, Source::Store))
        };
        // A shutdown waits for the call, and for its refund.
        let call = self.call(&rule, what, arguments, |call| {
            let (this, token) = (Arc::clone(self), self.tasks.token());
            call.on_abandoned(move |value| {
                let reply = Reply::read(&rule, &value);
                let abandoned = reply.ok().and_then(|reply| charge(&reply));
                this.refund_later(abandoned.into_iter().collect());
                drop(token);
            })
        });
        let Common {
            options, shares, ..
        } = &self.limit.common;
        let read = async {
            self.repay(rule, 1).await?;
            Reply::read(&rule, &call.await?)
        };
        match self.breaker.guard(read).await {
            Ok(reply) => match charge(&reply) {
                Some(charge) => {
                    shares.charge(charge.cost);
                    Ok((charge, reply.wait))
                }
                None => Err(options.denial(Source::Store, reply.wait)),
            },
            Err(error) => match shares.decide(n, least, error) {
                Ok((cost, charges)) => Ok((Charge::local(cost, charges), Duration::ZERO)),
                Err(refused) => Err(match refused.retry_after() {
                    Some(wait) => options.denial(Source::Fallback, wait),
                    None => refused,
                }),
            },
        }
    }

    /// Takes up to `n` tokens from the server in advance.
    pub(super) async fn prefetch(self: Arc<Self>, rule: Rule, n: u64) {
        let Some(prefetch) = &self.limit.prefetch else {
            return;
        };
        let asked = prefetch.now();
        let answer = self.guarded(rule, "upto", vec![vec![n]]).await;
        let reply = answer.map(|replies| replies[0]);
        if let Ok(reply) = &reply {
            self.limit.common.shares.charge(reply.done.min(n));
        }
        self.change(|state| {
            let batches = &mut state.own.batches;
            match &reply {
                Ok(reply) if reply.done <= n => batches.put(prefetch, rule, reply, asked),
                _ => batches.is_plenty = false,
            }
        });
        // The call was not for any particular waiter.
        if let Err(error) = reply {
            self.fail([], error);
        }
    }

    /// Puts back `n` tokens that expire at that time or later. Returns the part that the server has to refund
    /// instead.
    fn put_back(self: &Arc<Self>, expiry: Tick, n: u64) -> Vec<Part> {
        let Some(prefetch) = &self.limit.prefetch else {
            return Vec::new();
        };
        let mut state = self.state();
        let (rest, left) = state.own.batches.put_back(prefetch, expiry, n);
        // The driver ensures that these tokens are not held for too long.
        self.drive(state, false);
        self.limit.common.refunds.lose(left);
        rest
    }
}
