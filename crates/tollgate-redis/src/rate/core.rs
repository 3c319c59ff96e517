//! What the handles of a limiter share.
//!
//! Lock order: none. One lock is held at a time, and never while one waits or wakes somebody.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tollgate::{Algorithm, Oversize, Quota};

use super::ahead::{Batches, Purse, Rest, Taken};
use super::charge::{Charge, Source, Ticket};
use super::fallback::Fallback;
use super::line::Line;
use super::reply::Reply;
use super::rule::Rule;
use crate::error::StoreError;
use crate::script::Arguments;
use crate::store::Store;

/// What is chosen when a limiter is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub(super) algorithm: Algorithm,
    pub(super) fallback: Fallback,
    pub(super) oversize: Oversize,
    pub(super) jitter: Duration,
    pub(super) max_waiters: usize,
    pub(super) coalesce: bool,
    /// How many to take ahead, and for how long.
    pub(super) ahead: Option<(u64, Duration)>,
}

pub(super) struct Core {
    pub(super) store: Store,
    pub(super) key: String,
    pub(super) options: Options,
    /// What was taken ahead, if that is done.
    pub(super) purse: Option<Purse>,
    state: Mutex<State>,
    /// Nobody has the limiter any more.
    pub(super) abandoned: AtomicBool,
    /// Something has changed that whoever drives the line must look at.
    pub(super) stirred: Notify,
}

pub(super) struct State {
    pub(super) quota: Quota,
    pub(super) rule: Rule,
    pub(super) line: Line,
    pub(super) batches: Batches,
    /// A task is looking after the line.
    pub(super) driven: bool,
    pub(super) closed: bool,
    pub(super) stand_in: Option<Arc<tollgate::RateLimiter>>,
}

impl Core {
    pub(super) fn new(
        store: Store,
        key: String,
        quota: Quota,
        rule: Rule,
        options: Options,
    ) -> Self {
        Self {
            store,
            key,
            options,
            purse: options.ahead.map(|(chunk, hold)| Purse::new(chunk, hold)),
            abandoned: AtomicBool::new(false),
            state: Mutex::new(State {
                quota,
                rule,
                line: Line::default(),
                batches: Batches::default(),
                driven: false,
                closed: false,
                stand_in: options.fallback.stand_in(quota).map(Arc::new),
            }),
            stirred: Notify::new(),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes something under the lock, and then tells those whom it answers. What nobody takes any
    /// more is given back.
    pub(super) fn change<R>(self: &Arc<Self>, change: impl FnOnce(&mut State) -> R) -> R {
        let (result, told) = {
            let state = &mut *self.state();
            (change(state), std::mem::take(&mut state.line.told))
        };
        let sent = told.into_iter().map(|(sender, answer)| sender.send(answer));
        let returned = sent.filter_map(|sent| sent.err()?.ok());
        self.give_later(returned.collect());
        result
    }

    /// Asks the server, for nobody in the line.
    pub(super) async fn ask(&self, rule: &Rule, arguments: Arguments) -> Result<Reply, StoreError> {
        let keys = [self.key.as_str()];
        let value = self.store.call(rule.script(), &keys, &arguments).await?;
        Reply::read(&value)
    }

    /// Gives back so much of what was charged.
    pub(super) async fn give(&self, charge: &Charge, n: u64) -> Result<(), StoreError> {
        match &charge.ticket {
            Ticket::Store {
                rule,
                position,
                made,
            } => {
                let arguments = rule.arguments("give");
                let arguments = arguments.numbers([n, *position, *made]);
                self.ask(rule, arguments).await?;
            }
            Ticket::Ahead => {
                let state = self.state();
                if let Some(purse) = &self.purse {
                    state.batches.put_back(purse, charge.at, n);
                }
            }
            Ticket::Local(_) | Ticket::Open => {}
        }
        self.forget_denied();
        Ok(())
    }

    /// Gives back what was taken ahead and not used.
    pub(super) fn return_rests(self: &Arc<Self>, rests: Vec<Rest>) {
        let charges = rests.into_iter().map(|Rest { batch, count }| Charge {
            ticket: Ticket::Store {
                rule: batch.rule,
                position: batch.position,
                made: batch.made,
            },
            ..Charge::open(count, Source::Ahead)
        });
        self.give_later(charges.collect());
    }

    /// A charge out of what was taken ahead.
    pub(super) fn taken(limit: u64, cost: u64, taken: Taken) -> Charge {
        Charge {
            cost,
            at: taken.at,
            source: Source::Ahead,
            ticket: Ticket::Ahead,
            limit,
            remaining: taken.left,
            reset: Duration::ZERO,
        }
    }

    /// Something came back, or the quota is another one.
    pub(super) fn forget_denied(&self) {
        let mut state = self.state();
        state.line.denied = None;
        state.line.forgets += 1;
        state.batches.forget();
        drop(state);
        self.stirred.notify_one();
    }

    /// Gives back what nobody took, without anybody waiting for it.
    pub(super) fn give_later(self: &Arc<Self>, charges: Vec<Charge>) {
        if charges.is_empty() {
            return;
        }
        let this = Arc::clone(self);
        self.store.spawn(async move {
            for charge in charges {
                // If that fails, it stays charged, and time pays it off.
                let _ = this.give_back(charge).await;
            }
        });
    }

    pub(super) async fn give_back(&self, mut charge: Charge) -> Result<(), StoreError> {
        if let Ticket::Local(_) = charge.ticket {
            let Ticket::Local(local) = std::mem::replace(&mut charge.ticket, Ticket::Open) else {
                return Ok(());
            };
            let stand_in = self.state().stand_in.clone();
            if let Some(stand_in) = stand_in {
                stand_in.refund(local);
            }
            return Ok(());
        }
        let cost = charge.cost;
        self.give(&charge, cost).await
    }

    /// What a call charged to those in front.
    pub(super) fn charges(rule: &Rule, costs: &[u64], reply: &Reply) -> Vec<Charge> {
        let granted = &costs[..costs.len().min(reply.done as usize)];
        let source = if costs.len() > 1 {
            Source::Coalesced
        } else {
            Source::Store
        };
        let mut after: u64 = granted.iter().sum();
        granted
            .iter()
            .map(|cost| {
                after -= cost;
                Charge {
                    cost: *cost,
                    at: reply.now,
                    source,
                    ticket: Ticket::Store {
                        rule: *rule,
                        position: rule.position(reply.position, after),
                        made: reply.made,
                    },
                    limit: rule.burst,
                    remaining: reply.free.saturating_add(after),
                    reset: reply.reset,
                }
            })
            .collect()
    }

    /// Somewhat later than that, so that a fleet does not ask all at once.
    pub(super) fn jittered(&self, time: Instant) -> Instant {
        let jitter = self.options.jitter.mul_f64(fastrand::f64());
        time.checked_add(jitter).unwrap_or(time)
    }
}
