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

use tollgate::{AcquireError, rate};

use super::outcome::Charges;
use super::parts::{Part, Parts};
use crate::error::StoreError;
use crate::queue::{self, Limit, Next, Origin, Wait};
use crate::rate::{
    self as limiter, Answered, Charging, Common, Denied, DeniedCache, LATE, Options,
};
use crate::rate::{RateLimiter, Reply, Rule, Source};
use crate::refunds::Refunds;

/// The maximum number of callers in one call, divided by the number of limits.
const MOST_ASKED: usize = 256;

pub(super) struct Waits {
    pub(super) parts: Parts,
    pub(super) common: Common<Charges>,
    /// The limits, each for the waiters that have to reserve turns.
    limiters: Vec<OnceLock<RateLimiter>>,
    /// The number of callers that wait for turns.
    pub(super) in_line: AtomicUsize,
}

#[derive(Default)]
pub(super) struct SetState {
    /// The last denial of a limit that reserves no turns.
    denied: DeniedCache,
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

type Asked = limiter::Asked<Waits>;

impl Waits {
    pub(super) fn new(parts: Parts, options: Options) -> Self {
        let limits = parts.each.iter().map(|part| (part.quota, part.algorithm));
        Self {
            limiters: parts.each.iter().map(|_| OnceLock::new()).collect(),
            common: Common {
                options,
                shares: options.shares(limits),
                refunds: Refunds::default(),
                counters: Arc::default(),
            },
            parts,
            in_line: AtomicUsize::new(0),
        }
    }

    /// Returns the limit that was added at this index.
    pub(super) fn limiter(&self, index: usize) -> &RateLimiter {
        self.limiters[index].get_or_init(|| {
            let (Part { key, quota, .. }, options) =
                (&self.parts.each[index], &self.common.options);
            let limiter = RateLimiter::with_key(&self.parts.store, key.clone(), *quota)
                .max_waiters(options.max_waiters)
                .horizon(options.horizon);
            // In an outage, the queue of the set decides by the fallback.
            if self.common.shares.waits() {
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
        all.saturating_sub(self.common.options.horizon)
    }

    /// Returns whether a charge of this cost, since a time, is too old to be used.
    pub(super) fn is_stale(
        &self,
        cost: u64,
        &(index, since): &(usize, Instant),
        now: Instant,
    ) -> bool {
        let one = self.parts.each[index].rule.lasting(cost.into());
        let most = LATE.max(self.common.options.horizon).max(one);
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
        limiter::join(self, state, caller)?;
        Ok(caller.brought.clone())
    }

    fn next(shared: &Arc<Shared>, state: &mut State) -> Next {
        let State { queue, own, .. } = state;
        if queue.is_empty() {
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
        if let Some(again) = own.denied.asks_again(queue, false, now) {
            return Next::Sleep(again);
        }
        if asked.is_empty() {
            asked.extend(queue.iter().take(most).map(Asked::of));
        }
        if asked.is_empty() {
            // The replies may bring others.
            return Next::Sleep(now);
        }
        let (rule, limits) = (waits.rule(own, 0), waits.parts.each.len());
        Next::Run(Box::pin(Arc::clone(shared).take(rule, limits, asked)))
    }

    fn give_back(shared: &Arc<Shared>, steps: Vec<Step>) {
        shared.refund_later(steps);
    }
}

impl Charging for Waits {
    type Refund = Charges;

    const DENIES_TRIES: bool = false;

    fn common(&self) -> &Common<Charges> {
        &self.common
    }

    fn denied(own: &SetState) -> &DeniedCache {
        &own.denied
    }

    fn denied_mut(own: &mut SetState) -> &mut DeniedCache {
        &mut own.denied
    }

    fn rule(&self, _own: &SetState, index: usize) -> Rule {
        self.parts.each[index].rule
    }

    fn in_line(&self, _own: &SetState) -> usize {
        self.in_line.load(Ordering::Relaxed)
    }

    fn has_line(&self, _own: &SetState) -> bool {
        self.limiters().any(|limiter| limiter.waiting() > 0)
    }

    async fn ask(
        shared: &Shared,
        _rule: Rule,
        what: &'static str,
        arguments: Vec<Vec<u64>>,
    ) -> Result<Vec<Reply>, StoreError> {
        let parts = &shared.limit.parts;
        parts.replies(&parts.call(what, arguments).await?)
    }

    fn cost(asked: &Asked, index: usize) -> u64 {
        let is_held = asked.request.iter().any(|(held, _)| *held == index);
        if is_held { 0 } else { asked.cost }
    }

    fn permit(&self, call: &Answered<Self>, asked: &Asked, after: &[u64]) -> Step {
        let mut charges = self
            .parts
            .charges(asked.cost, &call.replies, |index| after[index]);
        if call.source == Source::Coalesced {
            charges.origin = Origin::Coalesced;
        }
        for &(index, _) in &asked.request {
            charges.tickets[index] = [0; 3];
        }
        Step::Admitted(charges)
    }

    fn learn(&self, call: &Answered<Self>, state: &mut State) -> Option<Denied> {
        let State { queue, own, .. } = state;
        let waits = call.replies.iter().map(|reply| reply.wait).enumerate();
        let longest = waits.clone().max_by_key(|(_, wait)| *wait);
        let has_charges = |asked: &Asked| !asked.request.is_empty();
        let (Some(first), Some((longest, wait))) = (call.asked.get(call.charged), longest) else {
            // Callers that have charges are no concern of a denial.
            return own.denied.last().filter(|_| has_charges(&call.asked[0]));
        };
        let parts = &self.parts.each;
        let is_reserved = parts[longest].rule.is_reserved();
        // Those that wait for the longest time first: the others join later.
        let lines = waits.filter(|(index, wait)| {
            is_reserved && !wait.is_zero() && parts[*index].rule.is_reserved()
        });
        let lines = lines.map(|(index, wait)| (index, wait + self.queued(index, first.cost)));
        let lines: Vec<_> = lines.collect();
        own.has_several_lines = lines.len() > 1;
        if has_charges(first) {
            if let Some(waiter) = queue.remove(first.number) {
                queue.reply(waiter, Ok(Step::Behind(lines)));
            }
        } else if is_reserved {
            // Nobody behind it would be admitted before it.
            queue.answer(|_, waiter| {
                let is_new = waiter.request.is_empty();
                is_new.then(|| Ok(Step::Behind(lines.clone())))
            });
        }
        if is_reserved {
            return own.denied.last().filter(|_| has_charges(first));
        }
        let options = &self.common.options;
        Some(Denied::of(
            options,
            first.cost,
            parts[longest].rule,
            wait,
            call.times,
        ))
    }

    fn local(cost: u64, charges: Vec<rate::Charge>) -> Step {
        Step::Admitted(Charges::local(cost, charges))
    }

    fn undo(shared: &Arc<Shared>, step: Step) -> Vec<Charges> {
        let (
            Step::Admitted(charges),
            Common {
                shares, refunds, ..
            },
        ) = (step, shared.limit.common())
        else {
            return Vec::new();
        };
        if charges.tickets.is_empty() {
            shares.refund(charges.local, charges.cost);
        } else if shared.limit.has_made(&charges) {
            return vec![charges];
        } else {
            refunds.lose(charges.cost);
        }
        Vec::new()
    }
}

impl Waits {
    /// Returns whether this set can have made these charges: those of another set may be too few or too many.
    pub(super) fn has_made(&self, charges: &Charges) -> bool {
        charges.tickets.len() == self.parts.each.len()
    }
}
