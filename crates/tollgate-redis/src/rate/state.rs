//! The state that the handles of a rate limit share, and the use of the [queue](crate::queue) by a
//! rate limit.

use std::convert::identity;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Cmd, Value};
use tollgate::time::Tick;
use tollgate::wait::Waiting;
use tollgate::{AcquireError, ErrorKind, Quota};

use super::charge::{Charge, Part, Queue, Source, Ticket};
use super::denied::DeniedCache;
use super::options::Options;
use super::prefetch::{Batches, Prefetch};
use super::reply::Reply;
use super::rule::Rule;
use super::turns::Turns;
use crate::error::StoreError;
use crate::fallback::Shares;
use crate::keys;
use crate::queue::{self, LimitCounters, Next, Wait};
use crate::refunds::Refunds;
use crate::store::Call;

/// The maximum number of waiters in one call.
const MOST_ASKED: usize = 1024;

/// The maximum number of waiters in one call that reserves turns: each takes the server more time.
const MOST_RESERVED: usize = 256;

pub(super) struct Rate {
    pub(super) key: String,
    /// Distinguishes this limiter from those of other processes.
    pub(super) id: u64,
    pub(super) options: Options,
    pub(super) prefetch: Option<Prefetch>,
    /// The share that decides while the server does not.
    pub(super) shares: Shares,
    pub(super) refunds: Refunds<Part>,
    /// Those of all limiters that were made from one.
    pub(super) counters: Arc<LimitCounters>,
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
        !self.denied.is_known(now) && self.batches.is_empty() && self.turns.is_at_rest(now)
    }

    /// Returns when to call again for the queue, if not now.
    fn asks_again(&self, queue: &Queue, now: Instant) -> Option<Instant> {
        // A caller that only tries does not wait for the next call for the first waiter.
        let lost = self.turns.lost().filter(|again| *again > now);
        let lost = lost.filter(|_| !queue.is_empty() && !queue.has_tries());
        lost.or_else(|| self.denied.asks_again(queue, now))
    }

    /// [Rejects](DeniedCache::refuse) waiters by the last denial.
    pub(super) fn refuse(
        &self,
        queue: &mut Queue,
        options: &Options,
        now: Instant,
        asked: usize,
        source: Source,
    ) {
        let waiting = self.turns.waiters();
        self.denied
            .refuse(queue, options, waiting, now, asked, source);
    }

    /// Forgets the last denial, because a charge was refunded or the quota has changed.
    pub(super) fn forget_denied(&mut self) {
        self.denied.forget();
        self.batches.is_plenty = false;
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
        state.rule.most_at_once(self.options.oversize)
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
        let (queue, now, options) = (&state.queue, caller.now(), &self.options);
        if let Some(wait) = state.own.denied.wait(queue, caller.cost, now) {
            if caller.tries {
                return Err(options.denial(Source::DeniedCache, wait));
            }
            if Waiting::remaining_timeout().is_some_and(|timeout| wait > timeout) {
                return Err(AcquireError::would_take(wait));
            }
        }
        let waiting = queue.len() + state.own.turns.waiters();
        let is_full = waiting >= options.max_waiters.max(1);
        if !caller.tries && is_full && state.own.denied.waits(queue, caller.cost, now) {
            return Err(AcquireError::new(ErrorKind::QueueFull));
        }
        Ok(())
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
        let (now, options) = (shared.now(), &shared.limit.options);
        let State { queue, own, .. } = state;
        own.refuse(queue, options, now, 0, Source::DeniedCache);
        let look = own.turns.looks_at(now);
        if look.is_some_and(|look| look <= now) {
            return Next::Run(Box::pin(Arc::clone(shared).look(own.rule)));
        }
        let due = own.turns.due().into_iter().chain(look).min();
        if queue.is_empty() {
            let next = prefetch.map_or(Next::End, |it| Self::keep(shared, it, state));
            return next.at_latest(due);
        }
        if let Some(again) = own.asks_again(queue, now) {
            return Next::Sleep(again).at_latest(due);
        }
        let most = if options.coalesce { MOST_ASKED } else { 1 };
        if own.rule.is_reserved() && own.turns.is_behind(now) {
            let Some(room) = own.turns.room(queue) else {
                return Next::End.at_latest(due);
            };
            let asks = own.asks(queue, room, most.min(MOST_RESERVED), now);
            own.turns.asked = asks.len();
            return Next::Run(Box::pin(
                Arc::clone(shared).reserve_for_waiters(own.rule, asks, room),
            ));
        }
        let waiters = queue.iter().take(most);
        let waiters = waiters.map(|waiter| (waiter.number, waiter.cost));
        let (numbers, costs): (Vec<u64>, Vec<u64>) = waiters.unzip();
        own.turns.asked = costs.len();
        let queued = costs.iter().copied().fold(0, u64::saturating_add);
        let refill = prefetch.and_then(|it| own.batches.refill(it, queued));
        let this = Arc::clone(shared);
        Next::Run(match refill {
            Some(n) => Box::pin(this.prefetch(own.rule, n)),
            None => Box::pin(this.ask_for_waiters(own.rule, numbers, costs)),
        })
    }

    fn stop_cached(&self) {
        if let Some(prefetch) = &self.prefetch {
            prefetch.cache.open_until(0);
        }
    }

    fn give_back(shared: &Arc<Shared>, charges: Vec<Charge>) {
        let parts: Vec<Part> = charges
            .into_iter()
            .flat_map(|charge| shared.undo(charge))
            .collect();
        if shared.limit.refunds.add(parts) {
            let this = Arc::clone(shared);
            shared.spawn(async move { this.limit.refunds.send(|parts| this.give(parts)).await });
        }
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
                queue::Limit::give_back(&this, abandoned.into_iter().collect());
                drop(token);
            })
        });
        let options = &self.limit.options;
        let read = async {
            self.repay(&rule).await?;
            Reply::read(&rule, &call.await?)
        };
        match self.breaker.guard(read).await {
            Ok(reply) => match charge(&reply) {
                Some(charge) => {
                    self.limit.shares.charge(charge.cost);
                    Ok((charge, reply.wait))
                }
                None => Err(options.denial(Source::Store, reply.wait)),
            },
            Err(error) => Ok((self.fall_back(n, least, error)?, Duration::ZERO)),
        }
    }

    /// Refunds a charge, as far as it is not paid off, also if the caller leaves meanwhile.
    pub(super) async fn refund(self: &Arc<Self>, charge: Charge) -> Result<(), StoreError> {
        let (this, parts) = (Arc::clone(self), self.undo(charge));
        self.detached(async move { this.give(parts).await }).await
    }

    /// Refunds parts of charges, as far as they are not paid off.
    async fn give(&self, parts: Vec<Part>) -> Result<(), StoreError> {
        if parts.is_empty() {
            return Ok(());
        }
        // An earlier rule would convert the key, and earlier charges could not be refunded after
        // that.
        let rule = self.state().own.rule;
        let numbers = |Part { grant, n }: &Part| [*n, grant.position, grant.made, grant.at];
        let numbers: Vec<u64> = parts.iter().flat_map(numbers).collect();
        self.ask(&rule, "give", &numbers).await?;
        self.state().own.forget_denied();
        self.notify();
        Ok(())
    }

    /// Undoes a charge as far as that needs no call. Returns the part that the server has to
    /// refund.
    fn undo(self: &Arc<Self>, charge: Charge) -> Vec<Part> {
        let n = charge.cost;
        match charge.ticket {
            Ticket::Store(grant) => vec![Part { grant, n }],
            Ticket::Cached(expiry) => self.put_back(expiry, n),
            Ticket::Local(local) => {
                self.limit.shares.refund(local, n);
                Vec::new()
            }
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
        self.limit.refunds.lose(left);
        rest
    }
}
