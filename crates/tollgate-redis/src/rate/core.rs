//! What the handles of a limiter share.
//!
//! Lock order: none. One lock is held at a time, and never while one waits or wakes somebody.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tollgate::{Algorithm, Oversize, Quota};

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
}

pub(super) struct Core {
    pub(super) store: Store,
    pub(super) key: String,
    pub(super) options: Options,
    state: Mutex<State>,
    /// Something has changed that whoever drives the line must look at.
    pub(super) stirred: Notify,
}

pub(super) struct State {
    pub(super) quota: Quota,
    pub(super) rule: Rule,
    pub(super) line: Line,
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
            state: Mutex::new(State {
                quota,
                rule,
                line: Line::default(),
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

    /// Asks the server, for nobody in the line.
    pub(super) async fn ask(&self, rule: &Rule, arguments: Arguments) -> Result<Reply, StoreError> {
        let value = self
            .store
            .call(rule.script(), &[&self.key], &arguments)
            .await?;
        Reply::read(&value)
    }

    /// Gives back so much of what was charged.
    pub(super) async fn give(&self, charge: &Charge, n: u64) -> Result<(), StoreError> {
        if let Ticket::Store {
            rule,
            position,
            made,
        } = &charge.ticket
        {
            let arguments = rule.arguments("give");
            let arguments = arguments.numbers([n, *position, *made]);
            self.ask(rule, arguments).await?;
        }
        self.forget_denied();
        Ok(())
    }

    /// Something came back, or the quota is another one.
    pub(super) fn forget_denied(&self) {
        self.state().line.denied = None;
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
        time + self.options.jitter.mul_f64(fastrand::f64())
    }
}
