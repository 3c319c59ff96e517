//! What looks after a line while somebody is in it.
//!
//! One call is made at a time, for as many as are in line then; who comes meanwhile is in the next
//! one. It is [polled](super::seat) by the one who waits, or is a task if they are several. If it is
//! dropped, with its runtime, everybody in line is told. While something is taken ahead it is a task
//! that stays, to give it back in time.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::{Duration, Instant};

use tollgate::{AcquireError, ErrorKind};

use super::ahead::Ahead;
use super::charge::{Charge, Source, Ticket};
use super::core::{Core, Options, State};
use super::fallback::{Fallback, applies};
use super::line::{Denied, Next};
use super::rule::Rule;
use crate::error::StoreError;

/// How many are asked for in a call.
const MOST: usize = 1024;

/// How soon the server is asked again, at the earliest, for who must wait for longer.
const SOON: Duration = Duration::from_millis(1);

/// How soon the server is asked again, at the earliest, for who waits for a share.
const AGAIN: Duration = Duration::from_millis(50);

pub(super) type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

pub(super) struct Driver {
    core: Arc<Core>,
    done: bool,
}

/// Who looks after a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Driven {
    /// Nobody.
    No,
    /// Whoever came first, as a part of their wait.
    Here,
    /// A task.
    Apart,
}

/// What is to be done once the lock is gone.
#[derive(Default)]
#[must_use]
pub(super) struct Begin {
    /// By which number the driver is polled by whoever began it, if it is.
    pub(super) number: Option<u64>,
    /// What becomes a task. On a runtime that is gone it is dropped at once.
    pub(super) driver: Option<Running>,
    /// Whoever looks after the line is to be told.
    pub(super) stirs: bool,
}

/// Has the line looked after, if nobody does: here, if whoever asks will poll it, and nobody else
/// waits.
pub(super) fn drive(core: &Arc<Core>, state: &mut State, here: bool) -> Begin {
    match state.driven {
        Driven::No => {
            let driver = Driver {
                core: Arc::clone(core),
                done: false,
            };
            let driver: Running = Box::pin(driver.run());
            state.driven = Driven::Apart;
            if !here || core.ahead.is_some() || !core.store.is_inside() {
                return Begin {
                    driver: Some(driver),
                    ..Begin::default()
                };
            }
            match core.seat.put(driver) {
                Ok(number) => {
                    state.driven = Driven::Here;
                    Begin {
                        number: Some(number),
                        ..Begin::default()
                    }
                }
                Err(driver) => Begin {
                    driver: Some(driver),
                    ..Begin::default()
                },
            }
        }
        Driven::Here => {
            state.driven = Driven::Apart;
            Begin {
                driver: core.seat.hand_over(None),
                stirs: state.asleep,
                ..Begin::default()
            }
        }
        Driven::Apart => Begin {
            stirs: state.asleep,
            ..Begin::default()
        },
    }
}

impl Driver {
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
                    self.apart().await;
                    let stirred = self.core.stirred.notified();
                    let _ = tokio::time::timeout_at(again.into(), stirred).await;
                }
            }
        }
    }

    /// Goes on in a task: what waits for a time must not be polled by somebody who is not on the
    /// runtime when that ends.
    async fn apart(&self) {
        let is_here = {
            let state = &mut *self.core.state();
            std::mem::replace(&mut state.driven, Driven::Apart) == Driven::Here
        };
        if is_here {
            // Handed over as soon as this poll ends.
            drop(self.core.seat.hand_over(None));
            let mut is_first = true;
            poll_fn(|_| match std::mem::take(&mut is_first) {
                true => Poll::Pending,
                false => Poll::Ready(()),
            })
            .await;
        }
    }

    fn next(&self) -> (Next, Rule) {
        let core = &self.core;
        let (next, rule, rests) = core.change(|state| {
            let mut rests = Vec::new();
            state
                .line
                .clear(state.rule.most_at_once(core.options.oversize));
            if state.closed {
                state.line.close();
            }
            if let Some(ahead) = &core.ahead {
                let ended = core.has_ended(state);
                rests = state.batches.take_back(ahead, ended);
                serve(ahead, state);
                rests.extend(state.batches.take_excess(ahead));
            }
            let most = if core.options.coalesce { MOST } else { 1 };
            let next = state.line.next(&state.rule, Instant::now(), most);
            let next = match (&core.ahead, next) {
                (Some(ahead), Next::Nothing) => core.keep(ahead, state),
                (Some(ahead), Next::Ask(costs)) => state.batches.instead(ahead, costs),
                (_, next) => next,
            };
            if next == Next::Nothing {
                // Under the lock: whoever comes next begins anew.
                state.driven = Driven::No;
            }
            state.asleep = matches!(next, Next::Wait(_));
            (next, state.rule, rests)
        });
        core.return_rests(rests);
        (next, rule)
    }

    async fn take_ahead(&self, rule: &Rule, n: u64) {
        let core = &self.core;
        let Some(ahead) = &core.ahead else {
            return;
        };
        let asked = ahead.now();
        let arguments = rule.arguments("upto").number(n);
        let answer = core.ask(rule, arguments).await;
        let rest = {
            let state = &mut *core.state();
            match &answer {
                Ok(reply) if reply.done <= n => state.batches.put(ahead, *rule, reply, asked),
                _ => {
                    state.batches.forget();
                    None
                }
            }
        };
        core.return_rests(rest.into_iter().collect());
        // For none of those in line by name.
        if let Err(error) = answer
            && applies(error)
        {
            self.fall_back(rule, 0, error);
        }
    }

    async fn ask(&self, rule: &Rule, costs: &[u64]) {
        let core = &self.core;
        let asked = Instant::now();
        let forgets = core.state().line.forgets;
        let runs = costs.chunk_by(|one, next| one == next);
        let runs = runs.flat_map(|run| [run[0], run.len() as u64]);
        let arguments = rule.arguments("take").numbers(runs);
        match core.ask(rule, arguments).await {
            Ok(reply) => {
                let source = Source::for_so_many(costs.len());
                let charges = Core::charges(rule, costs, &reply, source);
                let denied = costs.get(charges.len()).map(|cost| {
                    let Options { recheck, .. } = core.options;
                    Denied {
                        cost: *cost,
                        until: asked + reply.wait,
                        believed: asked + reply.wait.min(recheck),
                        again: core.jittered(Instant::now() + reply.wait.min(recheck.max(SOON))),
                    }
                });
                core.change(|state| {
                    if let Some(ahead) = &core.ahead {
                        state.batches.learn(ahead, reply.free);
                    }
                    // Of before something came back nothing is known.
                    let denied = denied.filter(|_| state.line.forgets == forgets);
                    answer(state, rule, charges, denied, source, costs.len());
                });
            }
            Err(error) if applies(error) => self.fall_back(rule, costs.len(), error),
            Err(error) => {
                let error = AcquireError::from(error);
                core.change(|state| state.line.fail(costs.len(), &error));
            }
        }
    }

    /// For all who are in line by now, although it was asked for the first ones alone: nobody waits
    /// for one deadline after another.
    fn fall_back(&self, rule: &Rule, asked: usize, error: StoreError) {
        let core = &self.core;
        match core.options.fallback {
            Fallback::FailClosed => {
                // For the others nothing was sent.
                let unsent = if error.is_perhaps_charged() {
                    StoreError::Unavailable
                } else {
                    error
                };
                core.change(|state| {
                    state.line.fail(asked, &AcquireError::from(error));
                    state.line.fail_all(&AcquireError::from(unsent));
                });
            }
            Fallback::FailOpen => {
                core.change(|state| {
                    let open = |cost| Charge::open(cost, Source::Fallback);
                    let charges = state.line.costs().map(open).collect();
                    answer(state, rule, charges, None, Source::Fallback, 0);
                });
            }
            Fallback::Local { .. } => self.decide_alone(rule),
        }
    }

    fn decide_alone(&self, rule: &Rule) {
        let core = &self.core;
        let (stand_in, costs) = {
            let state = core.state();
            let costs: Vec<u64> = state.line.costs().collect();
            (state.stand_in.clone(), costs)
        };
        let Some(stand_in) = stand_in else {
            return;
        };
        let (now, mut charges, mut denied) = (Instant::now(), Vec::new(), None);
        for cost in &costs {
            match stand_in.try_acquire_many(*cost) {
                Ok(local) => charges.push(Charge {
                    ticket: Ticket::Local(local),
                    ..Charge::open(*cost, Source::Fallback)
                }),
                Err(refused) => {
                    let wait = refused.retry_after().unwrap_or(AGAIN);
                    // The server may be back long before the share is.
                    let again = core.store.again(&core.key);
                    let again = again.unwrap_or(now).max(now + AGAIN).min(now + wait);
                    denied = Some(Denied {
                        cost: *cost,
                        until: now + wait,
                        believed: again,
                        again,
                    });
                    break;
                }
            }
        }
        let source = Source::Fallback;
        core.change(|state| answer(state, rule, charges, denied, source, costs.len()));
    }
}

/// Grants to those in front, and keeps what is known of the next one. So many were asked for.
fn answer(
    state: &mut State,
    rule: &Rule,
    charges: Vec<Charge>,
    denied: Option<Denied>,
    source: Source,
    asked: usize,
) {
    let left = asked.saturating_sub(charges.len());
    state.line.grant(charges);
    // Of another rule nothing is known.
    state.line.learn(denied.filter(|_| state.rule == *rule));
    state.line.refuse(rule, Instant::now(), left, source);
}

/// Those in front, out of what was taken ahead.
fn serve(ahead: &Ahead, state: &mut State) {
    while let Some(cost) = state.line.first() {
        let Some(taken) = ahead.purse.take_shut(cost, ahead.now().as_nanos()) else {
            return;
        };
        state.line.grant([ahead.charge(cost, taken)]);
    }
}

impl Core {
    fn has_ended(&self, state: &State) -> bool {
        let abandoned = self.abandoned.load(Ordering::Acquire);
        state.closed || abandoned && state.line.is_empty()
    }

    /// What to do for what is held when nobody is in line.
    fn keep(&self, ahead: &Ahead, state: &State) -> Next {
        if self.has_ended(state) {
            return Next::Nothing;
        }
        ahead.purse.shut(false);
        if let Some(n) = state.batches.wanted(ahead) {
            return Next::TakeAhead(n);
        }
        match state.batches.over_in(ahead) {
            Some(over) => Next::Wait(Instant::now() + over),
            None => Next::Nothing,
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if !self.done {
            self.core.change(|state| {
                state.driven = Driven::No;
                let error = if state.closed {
                    AcquireError::new(ErrorKind::Closed)
                } else {
                    AcquireError::from(StoreError::NoRuntime)
                };
                state.line.fail_all(&error);
            });
        }
    }
}
