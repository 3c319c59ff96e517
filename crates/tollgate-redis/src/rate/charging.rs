//! [`Charging`]: what a limiter and a set of limits have in common, beside their [queue](crate::queue): the calls that
//! charge the callers in front of it, the [last denial](super::denied), the [fallback](crate::fallback), and refunds.
//!
//! 1. One call decides about the callers in front, in their order: each is charged to all limits or to none, and the first
//!    one that is refused ends it. A limiter has one limit.
//! 2. Before a call, the server is told what it does not know; after a call that failed, the fallback decides.
//! 3. A refund ends the last denial, because there may be enough for the first waiter now.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use tollgate::wait::Waiting;
use tollgate::{AcquireError, ErrorKind, rate};

use super::charge::Source;
use super::denied::{Denied, DeniedCache};
use super::options::Options;
use super::reply::Reply;
use super::rule::Rule;
use crate::error::StoreError;
use crate::fallback::Shares;
use crate::queue::{Limit, LimitCounters, Shared, State, Wait, WaitQueue, Waiter};
use crate::refunds::{Refund, Refunds};

/// What a limiter and a set have without a lock.
pub(crate) struct Common<R: Refund> {
    pub(crate) options: Options,
    /// The shares that decide while the server does not.
    pub(crate) shares: Shares,
    pub(crate) refunds: Refunds<R>,
    /// Those of all limiters that were made from one.
    pub(crate) counters: Arc<LimitCounters>,
}

/// A limiter, or a set of limits.
pub(crate) trait Charging: Limit<Request: Clone + Sync> {
    type Refund: Refund;

    /// Callers that try are those of the program, which a denial or an outage refuses. Otherwise they are callers that have
    /// charges, and wait.
    const DENIES_TRIES: bool;

    fn common(&self) -> &Common<Self::Refund>;
    fn denied(own: &Self::State) -> &DeniedCache;
    fn denied_mut(own: &mut Self::State) -> &mut DeniedCache;

    /// Returns the rule of the limit with this index.
    fn rule(&self, own: &Self::State, index: usize) -> Rule;

    /// Returns the number of callers that wait for turns.
    fn in_line(&self, own: &Self::State) -> usize;

    /// Returns whether others wait for turns, so that a new caller waits, too.
    fn has_line(&self, own: &Self::State) -> bool;

    /// Calls the server with an operation, and arguments for each limit. Returns a reply about each.
    fn ask(
        shared: &Shared<Self>,
        rule: Rule,
        what: &'static str,
        arguments: Vec<Vec<u64>>,
    ) -> impl Future<Output = Result<Vec<Reply>, StoreError>> + Send;

    /// Returns what a caller has still to be charged to a limit.
    fn cost(asked: &Asked<Self>, _index: usize) -> u64 {
        asked.cost
    }

    /// Returns the permit of a caller that was charged, before charges of `after` of each limit.
    fn permit(&self, call: &Answered<Self>, asked: &Asked<Self>, after: &[u64]) -> Self::Permit;

    /// Takes the reply to a call. Returns the denial of the first caller that was refused.
    fn learn(&self, call: &Answered<Self>, state: &mut State<Self>) -> Option<Denied>;

    /// Returns the permit of a caller that the shares have charged.
    fn local(cost: u64, charges: Vec<rate::Charge>) -> Self::Permit;

    /// Undoes charges as far as that needs no call. Returns the rest.
    fn undo(shared: &Arc<Shared<Self>>, permit: Self::Permit) -> Vec<Self::Refund>;

    /// Forgets the last denial, because a charge was refunded or the quota has changed.
    fn forget(own: &mut Self::State) {
        Self::denied_mut(own).forget();
    }
}

/// A caller about whom the server is asked.
pub(crate) struct Asked<L: Limit> {
    pub(crate) number: u64,
    pub(crate) cost: u64,
    pub(crate) request: L::Request,
}

impl<L: Charging> Asked<L> {
    pub(crate) fn of(waiter: &Waiter<L::Request, L::Permit>) -> Self {
        Self {
            number: waiter.number,
            cost: waiter.cost,
            request: waiter.request.clone(),
        }
    }
}

/// A call that was answered.
pub(crate) struct Answered<L: Limit> {
    pub(crate) rule: Rule,
    pub(crate) asked: Vec<Asked<L>>,
    /// The number of the first callers that were charged.
    pub(crate) charged: usize,
    pub(crate) replies: Vec<Reply>,
    /// When it was sent, and when it was answered.
    pub(crate) times: [Instant; 2],
    pub(crate) source: Source,
}

/// Returns the number of callers that wait. Those that only try or have left do not; those of a set that have charges do.
fn waiting<L: Charging>(
    limit: &L,
    queue: &WaitQueue<L::Request, L::Permit>,
    own: &L::State,
) -> usize {
    let tries = if L::DENIES_TRIES { queue.tried() } else { 0 };
    let all = limit.in_line(own) + queue.len() - tries;
    // One that has left may have been taken out for a reply.
    all.saturating_sub(queue.leaving())
}

/// Rejects a caller that joins the queue, if the last denial tells that it waits too long, or if too many wait.
pub(crate) fn join<L: Charging>(
    limit: &L,
    state: &State<L>,
    caller: &Wait<L>,
) -> Result<(), AcquireError> {
    // Callers of a set that come back.
    if caller.place.is_some() || caller.tries && !L::DENIES_TRIES {
        return Ok(());
    }
    let (queue, denied) = (&state.queue, L::denied(&state.own));
    let (now, common) = (caller.now(), limit.common());
    let is_full = waiting(limit, queue, &state.own) >= common.options.max_waiters.max(1);
    if is_full && !caller.tries && waits(limit, state, caller.cost, now) {
        return Err(AcquireError::new(ErrorKind::QueueFull));
    }
    match denied.wait(queue, caller.cost, now) {
        Some(wait) if caller.tries => Err(common.options.denial(Source::DeniedCache, wait)),
        Some(wait) if Waiting::remaining_timeout().is_some_and(|time| wait > time) => {
            Err(AcquireError::would_take(wait))
        }
        _ => Ok(()),
    }
}

/// Returns whether a new caller of this cost is known to wait.
fn waits<L: Charging>(limit: &L, state: &State<L>, cost: u64, now: Instant) -> bool {
    let denied = L::denied(&state.own);
    // Otherwise the fallback decides in an outage, or the caller gets the error.
    let waits_out = denied.lost().is_none() || limit.common().shares.waits();
    let is_lost = denied.lost().is_some_and(|again| again > now);
    let is_behind = waits_out && (is_lost || limit.has_line(&state.own));
    is_behind || denied.waits(&state.queue, cost, now)
}

/// Rejects waiters by the last denial; the first `asked` are those of a call, decided by this source.
pub(super) fn refuse<L: Charging>(
    limit: &L,
    state: &mut State<L>,
    now: Instant,
    asked: (usize, Source),
) {
    let waiting = limit.in_line(&state.own);
    let (queue, options) = (&mut state.queue, &limit.common().options);
    L::denied(&state.own).refuse(queue, options, L::DENIES_TRIES, waiting, now, asked);
}

impl<L: Charging> Shared<L> {
    /// Calls the server for these callers in front of the queue.
    pub(crate) async fn take(self: Arc<Self>, rule: Rule, limits: usize, asked: Vec<Asked<L>>) {
        let (limit, sent) = (&self.limit, self.now());
        let forgotten = L::denied(&self.state().own).forgotten();
        let costs = |index| asked.iter().map(|one| L::cost(one, index)).collect();
        let arguments = (0..limits).map(costs).collect();
        let replies = match self.guarded(rule, "take", arguments).await {
            Ok(replies) => replies,
            Err(error) => return self.fail(asked.iter().map(|one| one.number), error),
        };
        let charged = replies.first().map_or(0, |reply| reply.done as usize);
        let call = Answered {
            rule,
            charged: asked.len().min(charged),
            replies,
            times: [sent, self.now()],
            source: if asked.len() > 1 {
                Source::Coalesced
            } else {
                Source::Store
            },
            asked,
        };
        let charged = &call.asked[..call.charged];
        let sum = charged.iter().map(|one| one.cost).sum();
        limit.common().shares.charge(sum);
        let sum = |index| charged.iter().map(|one| L::cost(one, index)).sum();
        let mut after: Vec<u64> = (0..limits).map(sum).collect();
        self.change(|state| {
            for one in charged {
                for (index, after) in after.iter_mut().enumerate() {
                    *after -= L::cost(one, index);
                }
                let permit = limit.permit(&call, one, &after);
                match state.queue.remove(one.number) {
                    Some(waiter) => state.queue.reply(waiter, Ok(permit)),
                    None => state.abandoned.push(permit),
                }
            }
            let denied = limit.learn(&call, state);
            L::denied_mut(&mut state.own).learn(denied, forgotten);
            let refused = call.asked.len() - call.charged;
            refuse(limit, state, call.times[1], (refused, call.source));
        });
    }

    /// Makes a call that decides about callers, or prefetches for them.
    pub(super) async fn guarded(
        &self,
        rule: Rule,
        what: &'static str,
        arguments: Vec<Vec<u64>>,
    ) -> Result<Vec<Reply>, StoreError> {
        let call = async {
            self.repay(rule, arguments.len()).await?;
            L::ask(self, rule, what, arguments).await
        };
        self.breaker.guard(call).await
    }

    /// Handles a call that failed to decide for the waiters with these numbers.
    pub(super) fn fail(self: &Arc<Self>, asked: impl IntoIterator<Item = u64>, error: StoreError) {
        self.change(|state| {
            let State { queue, own, .. } = state;
            let Common {
                options, shares, ..
            } = self.limit.common();
            let now = self.now();
            let (again, denied) = shares.fail(queue, now, asked, error, L::DENIES_TRIES, L::local);
            let denied = denied.map(|denied| Denied {
                cost: denied.cost,
                // Those behind it wait for this limit, and perhaps not for the others.
                rule: self.limit.rule(own, denied.share),
                until: now + denied.wait,
                // The server may be back long before the share has enough.
                believed: again.min(now + denied.wait),
                again: again.min(now + denied.wait),
            });
            L::denied_mut(own).fail(denied, again);
            if shares.waits() {
                // Callers of a set that have charges keep their places.
                let excess = waiting(&self.limit, queue, own).saturating_sub(options.max_waiters);
                queue.fail_last(excess, &AcquireError::new(ErrorKind::QueueFull));
            }
            refuse(&self.limit, state, now, (usize::MAX, Source::Fallback));
        });
    }

    /// Tells the server what it does not know, before a call for callers.
    pub(super) async fn repay(&self, rule: Rule, limits: usize) -> Result<(), StoreError> {
        let has_failed = L::denied(&self.state().own).lost().is_some();
        let peek = async { L::ask(self, rule, "peek", vec![vec![0]; limits]).await };
        let charge = |owed: Vec<u64>| {
            let each = owed.into_iter().map(|owed| vec![owed]);
            L::ask(self, rule, "charge", each.collect())
        };
        let shares = &self.limit.common().shares;
        shares.repay(has_failed, peek, charge).await
    }

    /// Refunds charges in the background, after the refunds that already wait.
    pub(crate) fn refund_later(self: &Arc<Self>, permits: Vec<L::Permit>) {
        let rest = permits.into_iter().flat_map(|it| L::undo(self, it));
        let rest: Vec<_> = rest.collect();
        if self.limit.common().refunds.add(rest) {
            let this = Arc::clone(self);
            self.spawn(async move {
                let refunds = &this.limit.common().refunds;
                refunds.send(|rest| this.give(rest)).await;
            });
        }
    }

    /// Refunds charges, as far as they are not paid off, also if the caller leaves meanwhile.
    pub(crate) async fn refund(self: &Arc<Self>, permit: L::Permit) -> Result<(), StoreError> {
        let (this, rest) = (Arc::clone(self), L::undo(self, permit));
        self.detached(async move { this.give(rest).await }).await
    }

    async fn give(&self, refunds: Vec<L::Refund>) -> Result<(), StoreError> {
        let Some(first) = refunds.first() else {
            return Ok(());
        };
        // An earlier rule would convert the key, and earlier charges could not be refunded after
        // that.
        let rule = self.limit.rule(&self.state().own, 0);
        let each = |index| refunds.iter().flat_map(move |it| it.arguments(index));
        let arguments = (0..first.limits()).map(|index| each(index).collect());
        L::ask(self, rule, "give", arguments.collect()).await?;
        L::forget(&mut self.state().own);
        self.notify();
        Ok(())
    }
}
