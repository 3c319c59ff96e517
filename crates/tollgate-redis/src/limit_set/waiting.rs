//! The waiters of a set in this process, and the calls that are made for them.
//!
//! 1. One driver calls for a prefix of the [queue](crate::queue): each caller in it is charged to all limits or
//!    to none, and the first one that is refused ends the call.
//! 2. If the limit that lacks most [reserves turns](crate::rate), the callers leave the queue, and wait in the
//!    queues of the limits that lack something, like waiters of a [`RateLimiter`]; see
//!    [`in_line`](super::in_line). With the charges of these limits they return to the queue, before the others,
//!    and are charged to the rest of the limits.
//! 3. If the limit that lacks most reserves no turns, the callers stay in the queue, and the driver calls when
//!    there may be enough.
//! 4. In an outage the waiters keep their places, unless the fallback admits them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tollgate::wait::Waiting;
use tollgate::{AcquireError, ErrorKind};

use super::outcome::Charges;
use super::parts::{Part, Parts};
use crate::error::StoreError;
use crate::fallback::{Fallback, Shares};
use crate::queue::{self, Limit, LimitCounters, MOST_VISITED, Next, Origin, Wait};
use crate::rate::{LATE, RateLimiter, Reply, jittered};
use crate::refunds::Refunds;

/// The maximum number of callers in one call, divided by the number of limits.
const MOST_ASKED: usize = 256;

/// The longest time until the next call for waiters of a limit that reserves no turns.
const RECHECK: Duration = Duration::from_secs(1);

/// The shortest one.
const SOON: Duration = Duration::from_millis(1);

/// The options, which are set when a set is created.
#[derive(Clone, Copy)]
pub(super) struct Options {
    pub(super) jitter: Duration,
    pub(super) fallback: Fallback,
    pub(super) fail_waiting: bool,
    pub(super) max_waiters: usize,
    pub(super) horizon: Duration,
}

pub(super) struct Waits {
    pub(super) parts: Parts,
    pub(super) options: Options,
    /// The limits, each for the waiters that have to reserve turns.
    limiters: Vec<OnceLock<RateLimiter>>,
    /// The shares that decide while the server does not.
    pub(super) shares: Shares,
    /// The number of callers that wait for turns.
    pub(super) in_line: AtomicUsize,
    pub(super) refunds: Refunds<Charges>,
    pub(super) counters: LimitCounters,
}

#[derive(Default)]
pub(super) struct SetState {
    /// A limit that reserves no turns has too little until the first time. Until the second time nobody calls again.
    denied: Option<[Instant; 2]>,
    /// The last call has failed. Until this time nobody calls again.
    lost: Option<Instant>,
    /// Several limits lacked something when a caller was refused last. Only the server knows how long each of their
    /// lines is.
    pub(super) has_several_lines: bool,
}

/// What a caller brings along: the limits that it has been charged to, and since when.
pub(super) type Held = Vec<(usize, Instant)>;

/// The answer to a caller.
pub(super) enum Step {
    Admitted(Charges),
    /// The caller has to wait until its turns at these limits, for about so long each.
    Behind(Vec<(usize, Duration)>),
}

pub(super) type Shared = queue::Shared<Waits>;
type State = queue::State<Waits>;

/// A caller about whom the server is asked.
struct Asked {
    number: u64,
    cost: u64,
    held: Held,
}

impl Asked {
    /// Returns what the caller has still to be charged to a limit.
    fn cost_of(&self, index: usize) -> u64 {
        let is_held = self.held.iter().any(|(held, _)| *held == index);
        if is_held { 0 } else { self.cost }
    }
}

impl Waits {
    pub(super) fn new(parts: Parts, options: Options) -> Self {
        let limits = parts.each.iter().map(|part| (part.quota, part.algorithm));
        Self {
            limiters: parts.each.iter().map(|_| OnceLock::new()).collect(),
            shares: Shares::new(options.fallback, options.fail_waiting, limits),
            parts,
            options,
            in_line: AtomicUsize::new(0),
            refunds: Refunds::default(),
            counters: LimitCounters::default(),
        }
    }

    /// Returns the limit that was added at this index.
    pub(super) fn limiter(&self, index: usize) -> &RateLimiter {
        self.limiters[index].get_or_init(|| {
            let (Part { key, quota, .. }, options) = (&self.parts.each[index], &self.options);
            let limiter = RateLimiter::with_key(&self.parts.store, key.clone(), *quota)
                .max_waiters(options.max_waiters)
                .horizon(options.horizon);
            // In an outage, the queue of the set decides by the fallback.
            if self.shares.waits() {
                limiter
            } else {
                limiter.fail_waiting()
            }
        })
    }

    /// Returns the limits that exist for waiters.
    pub(super) fn limiters(&self) -> impl Iterator<Item = &RateLimiter> {
        self.limiters.iter().filter_map(OnceLock::get)
    }

    /// Returns the limits for whose turns other callers wait.
    pub(super) fn lines(&self) -> Vec<(usize, Duration)> {
        let limiters = self.limiters.iter().enumerate();
        let lines = limiters.filter(|(_, it)| it.get().is_some_and(|it| it.waiting() > 0));
        lines.map(|(index, _)| (index, Duration::ZERO)).collect()
    }

    /// Returns about how long the callers of this process that wait for a limit take, beyond those that have turns.
    fn queued(&self, index: usize, cost: u64) -> Duration {
        let waiting = self.limiters[index].get().map_or(0, RateLimiter::waiting);
        let all = self.parts.each[index]
            .rule
            .lasting(waiting as u128 * u128::from(cost));
        all.saturating_sub(self.options.horizon)
    }

    /// Returns whether a charge of this cost, since a time, is too old to be used.
    pub(super) fn is_stale(
        &self,
        cost: u64,
        &(index, since): &(usize, Instant),
        now: Instant,
    ) -> bool {
        let one = self.parts.each[index].rule.lasting(cost.into());
        let most = LATE.max(self.options.horizon).max(one);
        now.saturating_duration_since(since) > most
    }
}

impl Limit for Waits {
    type Permit = Step;
    type Brought = Held;
    type Request = Held;
    type State = SetState;

    fn key(&self) -> &str {
        self.parts.each.first().map_or("", |part| &part.key)
    }

    fn free_permit() -> Step {
        Step::Admitted(Charges::local(0, Vec::new()))
    }

    fn capacity(&self, _state: &SetState) -> u64 {
        let bursts = self.parts.each.iter().map(|part| part.rule.burst);
        bursts.min().unwrap_or(u64::MAX)
    }

    fn join(&self, state: &State, caller: &Wait<Self>) -> Result<Held, AcquireError> {
        let now = caller.now();
        let waits = state.own.again().is_some_and(|again| again > now);
        let waiting = self.waiting(&state.queue);
        if waits && caller.place.is_none() && !caller.tries {
            if waiting >= self.options.max_waiters.max(1) {
                return Err(AcquireError::new(ErrorKind::QueueFull));
            }
            if let (Some([until, _]), Some(time)) = (state.own.denied, Waiting::remaining_timeout())
                && until > now
                && until - now > time
            {
                return Err(AcquireError::would_take(until - now));
            }
        }
        Ok(caller.brought.clone())
    }

    fn next(shared: &Arc<Shared>, state: &mut State) -> Next {
        let State { queue, own, .. } = state;
        if queue.is_empty() {
            own.denied = None;
            return Next::End;
        }
        let (now, waits) = (shared.now(), &shared.limit);
        let most = (MOST_ASKED / waits.parts.each.len().max(1)).max(1);
        let (mut asked, mut stale) = (Vec::new(), Vec::new());
        for waiter in queue.tries().take(most) {
            let mut held = waiter.request.iter();
            if held.any(|held| waits.is_stale(waiter.cost, held, now)) {
                stale.push(waiter.number);
            } else {
                asked.push(Asked::of(waiter));
            }
        }
        for number in stale {
            if let Some(waiter) = queue.remove(number) {
                queue.reply(waiter, Ok(Step::Behind(Vec::new())));
            }
        }
        let again = if asked.is_empty() {
            own.again()
        } else {
            own.lost
        };
        if let Some(again) = again.filter(|again| *again > now) {
            return Next::Sleep(again);
        }
        if asked.is_empty() {
            asked.extend(queue.iter().take(most).map(Asked::of));
        }
        if asked.is_empty() {
            // The replies may bring others.
            return Next::Sleep(now);
        }
        Next::Run(Box::pin(Arc::clone(shared).ask(asked)))
    }

    fn give_back(shared: &Arc<Shared>, steps: Vec<Step>) {
        for step in steps {
            if let Step::Admitted(charges) = step {
                shared.refund_later(charges);
            }
        }
    }
}

impl SetState {
    /// Returns when the driver may call again for callers that have not been charged.
    fn again(&self) -> Option<Instant> {
        self.lost.or(self.denied.map(|[_, again]| again))
    }
}

impl Asked {
    fn of(waiter: &queue::Waiter<Held, Step>) -> Self {
        Self {
            number: waiter.number,
            cost: waiter.cost,
            held: waiter.request.clone(),
        }
    }
}

impl Shared {
    /// Asks the server about these callers, which either all have charges, or all have none.
    async fn ask(self: Arc<Self>, asked: Vec<Asked>) {
        let parts = &self.limit.parts;
        let call = async {
            self.repay().await?;
            let costs = (0..parts.each.len()).map(|index| {
                let costs = asked.iter().map(|one| one.cost_of(index));
                costs.collect::<Vec<u64>>()
            });
            parts.replies(&parts.call("take", costs).await?)
        };
        let replies = match self.breaker.guard(call).await {
            Ok(replies) => replies,
            Err(error) => return self.fail(asked.iter().map(|one| one.number), error),
        };
        let answered = self.now();
        let done = replies.first().map_or(0, |reply| reply.done);
        let admitted = &asked[..asked.len().min(done as usize)];
        let charged = admitted.iter().map(|one| one.cost).sum();
        self.limit.shares.charge(charged);
        self.change(|state| {
            state.own.lost = None;
            for (place, one) in admitted.iter().enumerate() {
                let after = |index| {
                    let later = admitted[place + 1..].iter();
                    later.map(|later| later.cost_of(index)).sum()
                };
                let mut charges = parts.charges(one.cost, &replies, after);
                if asked.len() > 1 {
                    charges.origin = Origin::Coalesced;
                }
                for &(index, _) in &one.held {
                    charges.tickets[index] = [0; 3];
                }
                match state.queue.remove(one.number) {
                    Some(waiter) => state.queue.reply(waiter, Ok(Step::Admitted(charges))),
                    None => state.abandoned.push(Step::Admitted(charges)),
                }
            }
            let refused = &asked[admitted.len()..];
            if let Some(first) = refused.first() {
                self.refuse(state, first, &replies, answered);
            } else if asked.iter().all(|one| one.held.is_empty()) {
                state.own.denied = None;
            }
        });
    }

    /// Handles a call in which this caller was the first that was refused.
    fn refuse(&self, state: &mut State, first: &Asked, replies: &[Reply], answered: Instant) {
        let State { queue, own, .. } = state;
        let parts = &self.limit.parts.each;
        let waits = replies.iter().map(|reply| reply.wait).enumerate();
        let Some((longest, wait)) = waits.clone().max_by_key(|(_, wait)| *wait) else {
            return;
        };
        let is_reserved = parts[longest].rule.is_reserved();
        // Those that wait for the longest time first: the others join later.
        let lines = waits.filter(|(index, wait)| {
            is_reserved && !wait.is_zero() && parts[*index].rule.is_reserved()
        });
        let lines = lines.map(|(index, wait)| (index, wait + self.limit.queued(index, first.cost)));
        let lines: Vec<_> = lines.collect();
        own.has_several_lines = lines.len() > 1;
        if !first.held.is_empty() {
            if let Some(waiter) = queue.remove(first.number) {
                queue.reply(waiter, Ok(Step::Behind(lines)));
            }
        } else if is_reserved {
            // Nobody behind it would be admitted before it.
            own.denied = None;
            queue.answer(|_, waiter| {
                let is_new = waiter.request.is_empty();
                is_new.then(|| Ok(Step::Behind(lines.clone())))
            });
        }
        if is_reserved {
            return;
        }
        let options = &self.limit.options;
        let (until, soon) = (answered + wait, wait.min(RECHECK).max(SOON));
        own.denied = Some([until, answered + jittered(soon, options.jitter)]);
        queue.answer_first(MOST_VISITED, |_, waiter| {
            let is_late = waiter.deadline.is_some_and(|deadline| deadline < until);
            let is_late = is_late && waiter.request.is_empty();
            is_late.then(|| Err(AcquireError::would_take(wait)))
        });
        let excess = queue.len().saturating_sub(options.max_waiters);
        queue.fail_last(excess, &AcquireError::new(ErrorKind::QueueFull));
    }

    /// Handles a call that failed to decide for the callers with these numbers. Those that have charges keep their
    /// places, too.
    fn fail(self: &Arc<Self>, asked: impl IntoIterator<Item = u64>, error: StoreError) {
        self.change(|state| {
            let State { queue, own, .. } = state;
            let permit = |cost, charges| Step::Admitted(Charges::local(cost, charges));
            let (again, _) = self.limit.shares.fail(queue, asked, error, false, permit);
            (own.denied, own.lost) = (None, Some(again));
        });
    }

    /// Tells the server what it does not know, before a call for callers.
    async fn repay(&self) -> Result<(), StoreError> {
        let parts = &self.limit.parts;
        let has_failed = self.state().own.lost.is_some();
        let charge = async |owed| parts.call("charge", owed).await;
        let peek = async { parts.call_each("peek", 0).await };
        self.limit.shares.repay(has_failed, peek, charge).await
    }

    pub(super) fn refund_later(self: &Arc<Self>, charges: Charges) {
        if charges.tickets.is_empty() {
            self.limit.shares.refund(charges.local, charges.cost);
        } else if !self.limit.has_made(&charges) {
            self.limit.refunds.lose(charges.cost);
        } else if self.limit.refunds.add([charges]) {
            let this = Arc::clone(self);
            self.spawn(async move { this.limit.refunds.send(|all| this.give(all)).await });
        }
    }

    async fn give(&self, all: Vec<Charges>) -> Result<(), StoreError> {
        let parts = &self.limit.parts;
        let arguments = (0..parts.each.len()).map(|index| {
            let each = all.iter().flat_map(|charges| {
                let [position, made, at] = charges.tickets[index];
                [charges.cost, position, made, at]
            });
            each.collect::<Vec<u64>>()
        });
        parts.call("give", arguments).await.map(drop)
    }

    /// Refunds charges, also if the caller leaves meanwhile.
    pub(super) async fn refund(self: &Arc<Self>, charges: Charges) -> Result<(), StoreError> {
        if charges.tickets.is_empty() {
            self.limit.shares.refund(charges.local, charges.cost);
            return Ok(());
        }
        if !self.limit.has_made(&charges) {
            return Err(StoreError::Script);
        }
        let this = Arc::clone(self);
        let given = async move { this.give(vec![charges]).await };
        self.detached(given).await
    }
}

impl Waits {
    /// Returns the number of callers that wait.
    pub(super) fn waiting(&self, queue: &queue::WaitQueue<Held, Step>) -> usize {
        queue.len() + self.in_line.load(Ordering::Relaxed)
    }

    /// Returns whether this set can have made these charges: those of another set may be too few.
    pub(super) fn has_made(&self, charges: &Charges) -> bool {
        charges.tickets.len() >= self.parts.each.len()
    }
}
