//! The calls that the driver of a rate limit makes to the server, and the handling of failures.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate::AcquireError;

use super::charge::{Charge, Source, Ticket};
use super::denied::{Denied, jittered};
use super::fallback::{Fallback, applies};
use super::rule::Rule;
use super::state::{Options, Shared, State};
use crate::error::StoreError;

/// The shortest time until the next call for waiters that must wait longer, and until a retry behind
/// a queue.
pub(super) const SOON: Duration = Duration::from_millis(1);

/// The shortest time until the next call for waiters that the fallback denied.
const AFTER_FALLBACK: Duration = Duration::from_millis(50);

impl Shared {
    /// Calls the server for the first waiters, which have these costs.
    pub(super) async fn ask_for_waiters(self: Arc<Self>, rule: Rule, costs: Vec<u64>) {
        let asked = Instant::now();
        let forgotten = self.state().own.forgotten;
        let runs = costs.chunk_by(|one, next| one == next);
        let runs = runs.flat_map(|run| [run[0], run.len() as u64]);
        let reply = match self.ask(&rule, "take", &runs.collect::<Vec<_>>()).await {
            Ok(reply) => reply,
            Err(error) => return self.fail(costs.len(), error),
        };
        let answered = Instant::now();
        let source = if costs.len() > 1 {
            Source::Coalesced
        } else {
            Source::Store
        };
        let admitted = &costs[..costs.len().min(reply.done as usize)];
        let Options { recheck, .. } = self.limit.options;
        let denied = costs.get(admitted.len()).map(|cost| Denied {
            cost: *cost,
            // Nobody knows when the server counted this wait. After the reply it is long enough.
            until: answered + reply.wait,
            // After the call was sent it is not too long, so nobody is denied for no reason.
            believed: asked + reply.wait.min(recheck),
            again: self.jittered(answered + reply.wait.min(recheck.max(SOON))),
        });
        self.change(|state| {
            let State { queue, own, .. } = state;
            let mut after: u64 = admitted.iter().sum();
            queue.answer(|index, _| {
                let cost = *admitted.get(index)?;
                after -= cost;
                Some(Ok(Charge::granted(&rule, &reply, cost, after, source)))
            });
            if let Some(prefetch) = &self.limit.prefetch {
                own.batches.learn(prefetch, reply.free);
            }
            // A denial by another rule, or from before a refund, is not valid any more.
            let is_valid = own.rule == rule && own.forgotten == forgotten;
            own.denied = denied.filter(|_| is_valid);
            let (options, left) = (&self.limit.options, costs.len() - admitted.len());
            own.refuse(queue, options, answered, left, source);
        });
    }

    /// Takes up to `n` tokens from the server in advance.
    pub(super) async fn prefetch(self: Arc<Self>, rule: Rule, n: u64) {
        let Some(prefetch) = &self.limit.prefetch else {
            return;
        };
        let asked = prefetch.now();
        let answer = self.ask(&rule, "upto", &[n]).await;
        self.change(|state| {
            let batches = &mut state.own.batches;
            match &answer {
                Ok(reply) if reply.done <= n => {
                    let excess = batches.put(prefetch, rule, reply, asked);
                    state.abandoned.extend(excess.map(Charge::from));
                }
                _ => batches.is_plenty = false,
            }
        });
        // The call was not for any particular waiter.
        if let Err(error) = answer {
            self.fail(0, error);
        }
    }

    /// Handles a call that did not decide for the first `asked` waiters. The fallback decides for
    /// all current waiters, so no caller waits for one deadline after another.
    fn fail(self: &Arc<Self>, asked: usize, error: StoreError) {
        // Nothing was sent for the other waiters.
        let unsent = if error.is_perhaps_charged() {
            StoreError::Unavailable
        } else {
            error
        };
        self.change(|state| {
            let State { queue, own, .. } = state;
            let now = Instant::now();
            own.denied = None;
            queue.answer(|index, waiter| {
                let error = if index < asked { error } else { unsent };
                if own.denied.is_some() || index >= asked && !applies(error) {
                    return None;
                }
                let answer = self.fall_back(waiter.cost, waiter.cost, error);
                let Some(wait) = answer.as_ref().err().and_then(AcquireError::retry_after) else {
                    return Some(answer);
                };
                // The server may be back long before the local share has enough.
                let again = now + wait.min(AFTER_FALLBACK);
                own.denied = Some(Denied {
                    cost: waiter.cost,
                    until: now + wait,
                    believed: again,
                    again,
                });
                None
            });
            let options = &self.limit.options;
            own.refuse(queue, options, now, usize::MAX, Source::Fallback);
        });
    }

    /// Lets the fallback decide, between `least` and `n`.
    pub(super) fn fall_back(
        &self,
        n: u64,
        least: u64,
        error: StoreError,
    ) -> Result<Charge, AcquireError> {
        let open = |cost| Charge::open(cost, Source::Fallback);
        match (self.limit.options.fallback, &self.limit.fallback) {
            (Fallback::FailOpen, _) if applies(error) => Ok(open(n)),
            (Fallback::Local { .. }, Some(fallback)) if applies(error) => {
                let cost = fallback.snapshot().available.min(n).max(least);
                let local = fallback.try_acquire_many(cost).map_err(|refused| {
                    let wait = refused.retry_after().unwrap_or(AFTER_FALLBACK);
                    Source::Fallback.limited(wait)
                })?;
                Ok(Charge {
                    ticket: Ticket::Local(local),
                    ..open(cost)
                })
            }
            _ => Err(error.into()),
        }
    }

    /// Adds a random delay of at most the jitter, so that the processes of a fleet do not all call
    /// at once.
    pub(super) fn jittered(&self, time: Instant) -> Instant {
        let later = jittered(Duration::ZERO, self.limit.options.jitter);
        time.checked_add(later).unwrap_or(time)
    }
}
