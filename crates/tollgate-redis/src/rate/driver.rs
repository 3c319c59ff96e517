//! The task that looks after a line while somebody is in it.
//!
//! One call is made at a time, for as many as are in line then; who comes meanwhile is in the next
//! one. If the task is dropped, with its runtime, everybody in line is told. While something is
//! taken ahead it stays, to give it back in time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tollgate::AcquireError;

use super::ahead::Purse;
use super::charge::{Charge, Source, Ticket};
use super::core::{Core, State};
use super::fallback::{Fallback, applies};
use super::line::{Denied, Next};
use super::rule::Rule;
use crate::error::StoreError;

/// How many are asked for in a call.
const MOST: usize = 1024;

/// How soon the server is asked again, at the earliest, for who waits for a share.
const AGAIN: Duration = Duration::from_millis(50);

pub(super) struct Driver {
    core: Arc<Core>,
    done: bool,
}

/// Has a task look after the line, if none does. The task is to be [begun](Driver::begin) once the
/// lock is gone: on a runtime that is gone it is dropped at once.
pub(super) fn drive(core: &Arc<Core>, state: &mut State) -> Option<Driver> {
    if state.driven {
        core.stirred.notify_one();
        return None;
    }
    state.driven = true;
    Some(Driver {
        core: Arc::clone(core),
        done: false,
    })
}

impl Driver {
    pub(super) fn begin(self) {
        let core = Arc::clone(&self.core);
        core.store.spawn(self.run());
    }

    async fn run(mut self) {
        loop {
            let (next, rule) = self.next();
            match next {
                Next::Nothing => {
                    self.done = true;
                    return;
                }
                Next::Ask(costs) => self.ask(&rule, &costs).await,
                Next::TakeAhead(n) => self.take_ahead(&rule, n).await,
                Next::Wait(again) => {
                    let stirred = self.core.stirred.notified();
                    let _ = tokio::time::timeout_at(again.into(), stirred).await;
                }
            }
        }
    }

    fn next(&self) -> (Next, Rule) {
        let core = &self.core;
        let (next, rule, rests) = core.change(|state| {
            let mut rests = Vec::new();
            state.line.clear();
            if state.closed {
                state.line.close();
            }
            if let Some(purse) = &core.purse {
                let ended = core.has_ended(state);
                rests = state.batches.take_back(purse, ended);
                serve(purse, state);
                rests.extend(state.batches.take_excess(purse));
            }
            let most = if core.options.coalesce { MOST } else { 1 };
            let next = state.line.next(&state.rule, Instant::now(), most);
            let next = match (&core.purse, next) {
                (Some(purse), Next::Nothing) => core.keep_purse(purse, state),
                (Some(purse), Next::Ask(costs)) => state.batches.instead(purse, costs),
                (_, next) => next,
            };
            if next == Next::Nothing {
                // Under the lock: whoever comes next begins anew.
                state.driven = false;
            }
            (next, state.rule, rests)
        });
        core.return_rests(rests);
        (next, rule)
    }

    async fn take_ahead(&self, rule: &Rule, n: u64) {
        let Some(purse) = &self.core.purse else {
            return;
        };
        let asked = purse.now();
        let arguments = rule.arguments("upto").number(n);
        let answer = self.core.ask(rule, arguments).await;
        let state = &mut *self.core.state();
        match answer {
            Ok(reply) if reply.done <= n => state.batches.put(purse, *rule, &reply, asked),
            // Whoever comes next is in line, and hears of it.
            _ => state.batches.forget(),
        }
    }

    async fn ask(&self, rule: &Rule, costs: &[u64]) {
        let asked = Instant::now();
        let (present, forgets) = {
            let state = self.core.state();
            (state.line.waiters.len(), state.line.forgets)
        };
        let arguments = rule.arguments("take").numbers(costs.iter().copied());
        match self.core.ask(rule, arguments).await {
            Ok(reply) => {
                let charges = Core::charges(rule, costs, &reply);
                let denied = costs.get(charges.len()).map(|cost| Denied {
                    cost: *cost,
                    until: asked + reply.wait,
                    again: self.core.jittered(Instant::now() + reply.wait),
                });
                self.core.change(|state| {
                    if let Some(purse) = &self.core.purse {
                        state.batches.learn(purse, reply.free);
                    }
                    // Of before something came back nothing is known.
                    let denied = denied.filter(|_| state.line.forgets == forgets);
                    answer(state, rule, charges, denied);
                });
            }
            Err(error) if applies(error) => self.fall_back(rule, costs.len(), present, error),
            Err(error) => {
                let error = AcquireError::from(error);
                self.core
                    .change(|state| state.line.fail(costs.len(), &error));
            }
        }
    }

    /// For all who were in line when the server was asked, although it was asked for the first ones
    /// alone: nobody waits for one deadline after another.
    fn fall_back(&self, rule: &Rule, asked: usize, present: usize, error: StoreError) {
        let waiters = |state: &State| -> Vec<u64> {
            let waiters = state.line.waiters.iter().take(present);
            waiters.map(|waiter| waiter.cost).collect()
        };
        match self.core.options.fallback {
            Fallback::FailClosed => {
                // For the others nothing was sent.
                let unsent = if error.is_perhaps_charged() {
                    StoreError::Unavailable
                } else {
                    error
                };
                let others = present.saturating_sub(asked);
                self.core.change(|state| {
                    state.line.fail(asked, &AcquireError::from(error));
                    state.line.fail(others, &AcquireError::from(unsent));
                });
            }
            Fallback::FailOpen => {
                let costs = waiters(&self.core.state());
                let charges = costs
                    .iter()
                    .map(|cost| Charge::open(*cost, Source::Fallback));
                let charges = charges.collect();
                self.core.change(|state| answer(state, rule, charges, None));
            }
            Fallback::Local { .. } => {
                let costs = waiters(&self.core.state());
                self.decide_alone(rule, &costs);
            }
        }
    }

    fn decide_alone(&self, rule: &Rule, costs: &[u64]) {
        let Some(stand_in) = self.core.state().stand_in.clone() else {
            return;
        };
        let (now, mut charges, mut denied) = (Instant::now(), Vec::new(), None);
        for cost in costs {
            match stand_in.try_acquire_many(*cost) {
                Ok(local) => charges.push(Charge {
                    ticket: Ticket::Local(local),
                    ..Charge::open(*cost, Source::Fallback)
                }),
                Err(refused) => {
                    let Some(wait) = refused.retry_after() else {
                        // More than the share.
                        self.core.change(|state| {
                            state.line.grant(charges);
                            state.line.fail(1, &refused);
                        });
                        return;
                    };
                    // The server may be back long before the share is.
                    let again = self.core.store.again(&self.core.key);
                    let again = again.unwrap_or(now).max(now + AGAIN).min(now + wait);
                    denied = Some(Denied {
                        cost: *cost,
                        until: again,
                        again,
                    });
                    break;
                }
            }
        }
        self.core
            .change(|state| answer(state, rule, charges, denied));
    }
}

/// Grants to those in front, and keeps what is known of the next one.
fn answer(state: &mut State, rule: &Rule, charges: Vec<Charge>, denied: Option<Denied>) {
    state.line.grant(charges);
    // Of another rule nothing is known.
    state.line.denied = denied.filter(|_| state.rule == *rule);
}

/// Those in front, out of what was taken ahead.
fn serve(purse: &Purse, state: &mut State) {
    while let Some(first) = state.line.waiters.front() {
        let cost = first.cost;
        let Some(taken) = purse.take_shut(cost) else {
            return;
        };
        let charge = Core::taken(state.rule.burst, cost, taken);
        state.line.grant([charge]);
    }
}

impl Core {
    fn has_ended(&self, state: &State) -> bool {
        let abandoned = self.abandoned.load(Ordering::Acquire);
        state.closed || abandoned && state.line.waiters.is_empty()
    }

    /// What to do for the purse when nobody is in line.
    fn keep_purse(&self, purse: &Purse, state: &State) -> Next {
        if self.has_ended(state) {
            return Next::Nothing;
        }
        purse.shut(false);
        if let Some(n) = state.batches.wanted(purse) {
            return Next::TakeAhead(n);
        }
        match state.batches.over_in(purse) {
            Some(over) => Next::Wait(Instant::now() + over),
            None => Next::Nothing,
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if !self.done {
            self.core.change(|state| {
                state.driven = false;
                let all = state.line.waiters.len();
                let error = AcquireError::from(StoreError::NoRuntime);
                state.line.fail(all, &error);
            });
        }
    }
}
