//! The calls that the driver of a rate limit makes to the server, and the handling of failures.

use std::sync::Arc;
use std::time::Duration;

use tollgate::AcquireError;

use super::charge::{Charge, Source};
use super::denied::Denied;
use super::options::Options;
use super::rule::Rule;
use super::state::{Rate, Shared, State};
use crate::error::StoreError;

/// The shortest time until the next call for waiters that must wait longer, and until a retry behind
/// a queue.
pub(super) const SOON: Duration = Duration::from_millis(1);

impl Shared {
    /// Calls the server for the first waiters, which have these numbers and costs.
    pub(super) async fn ask_for_waiters(
        self: Arc<Self>,
        rule: Rule,
        numbers: Vec<u64>,
        costs: Vec<u64>,
    ) {
        let asked = self.now();
        let forgotten = self.state().own.denied.forgotten();
        let runs = costs.chunk_by(|one, next| one == next);
        let runs = runs.flat_map(|run| [run[0], run.len() as u64]);
        let mut runs = runs.collect::<Vec<_>>();
        // Each argument takes the server time, and most calls are for one waiter.
        runs.pop_if(|last| *last == 1);
        if runs == [1] {
            runs.clear();
        }
        let call = async {
            self.repay(&rule).await?;
            self.ask(&rule, "take", &runs).await
        };
        let answer = self.breaker.guard(call).await;
        let reply = match answer {
            Ok(reply) => reply,
            Err(error) => return self.fail(numbers, error),
        };
        let answered = self.now();
        let source = if costs.len() > 1 {
            Source::Coalesced
        } else {
            Source::Store
        };
        let admitted = &costs[..costs.len().min(reply.done as usize)];
        self.limit.shares.charge(admitted.iter().sum());
        let options = &self.limit.options;
        let Options { recheck, .. } = *options;
        let denied = costs.get(admitted.len()).map(|cost| Denied {
            cost: *cost,
            rule,
            // The moment at which the server computed this wait is unknown. Counted from the reply,
            // it is long enough.
            until: answered + reply.wait,
            // Counted from the moment when the call was sent, it is not too long, so no caller is
            // denied without need.
            believed: asked + reply.wait.min(recheck),
            // The next call reserves turns for the waiters.
            again: if rule.is_reserved() {
                answered
            } else {
                options.jittered(answered + reply.wait.min(recheck.max(SOON)))
            },
        });
        self.change(|state| {
            let State { queue, own, .. } = state;
            let mut after: u64 = admitted.iter().sum();
            queue.answer_first(admitted.len(), |index, _| {
                let cost = *admitted.get(index)?;
                after -= cost;
                Some(Ok(Charge::granted(&rule, &reply, cost, after, source)))
            });
            if let Some(prefetch) = &self.limit.prefetch {
                own.batches.learn(prefetch, reply.free);
            }
            own.denied.learn(denied, forgotten);
            own.turns.learn_line(denied.map(|denied| denied.until));
            let left = costs.len() - admitted.len();
            own.refuse(queue, options, answered, left, source);
        });
    }

    /// Takes up to `n` tokens from the server in advance.
    pub(super) async fn prefetch(self: Arc<Self>, rule: Rule, n: u64) {
        let Some(prefetch) = &self.limit.prefetch else {
            return;
        };
        let asked = prefetch.now();
        let call = async {
            self.repay(&rule).await?;
            self.ask(&rule, "upto", &[n]).await
        };
        let answer = self.breaker.guard(call).await;
        if let Ok(reply) = &answer {
            self.limit.shares.charge(reply.done.min(n));
        }
        self.change(|state| {
            let batches = &mut state.own.batches;
            match &answer {
                Ok(reply) if reply.done <= n => batches.put(prefetch, rule, reply, asked),
                _ => batches.is_plenty = false,
            }
        });
        // The call was not for any particular waiter.
        if let Err(error) = answer {
            self.fail([], error);
        }
    }

    /// Handles a call that failed to decide for the waiters with these numbers.
    pub(super) fn fail(self: &Arc<Self>, asked: impl IntoIterator<Item = u64>, error: StoreError) {
        let Rate {
            shares, options, ..
        } = &self.limit;
        self.change(|state| {
            let State { queue, own, .. } = state;
            let (again, denied) = shares.fail(queue, asked, error, true, Charge::local);
            let (now, rule) = (self.now(), own.rule);
            own.denied.set(denied.map(|(cost, wait)| Denied {
                cost,
                rule,
                until: now + wait,
                // The server may be back long before the share has enough.
                believed: again.min(now + wait),
                again: again.min(now + wait),
            }));
            own.turns.lose_line(again);
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
        let decided = self.limit.shares.decide(n, least, error);
        let charged = decided.map(|(cost, charges)| Charge::local(cost, charges));
        charged.map_err(|refused| match refused.retry_after() {
            Some(wait) => self.limit.options.denial(Source::Fallback, wait),
            None => refused,
        })
    }

    /// Tells the server what it does not know, before a call for callers.
    pub(super) async fn repay(&self, rule: &Rule) -> Result<(), StoreError> {
        let has_failed = self.state().own.turns.lost().is_some();
        let peek = self.ask(rule, "peek", &[0]);
        let charge = async |owed: Vec<u64>| self.ask(rule, "charge", &owed).await;
        self.limit.shares.repay(has_failed, peek, charge).await
    }
}
