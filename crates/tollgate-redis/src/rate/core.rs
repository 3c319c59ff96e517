//! What the handles of a limiter share.
//!
//! Lock order: the state, then the [seat](super::seat) of the driver. Neither is held while one waits or
//! wakes somebody.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Context;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio_util::task::TaskTracker;
use tollgate::{AcquireError, Algorithm, Oversize, Quota};

use super::ahead::{Ahead, Batches, Rest};
use super::charge::{Charge, Source, Ticket};
use super::driver::{Begin, Driven, Running, drive};
use super::fallback::{Fallback, applies};
use super::line::Line;
use super::reply::Reply;
use super::rule::Rule;
use super::seat::Seat;
use crate::carried::Carried;
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
    /// For how long a denial is believed at most.
    pub(super) recheck: Duration,
    /// How many to take ahead, and for how long.
    pub(super) ahead: Option<(u64, Duration)>,
}

pub(super) struct Core {
    pub(super) store: Store,
    pub(super) key: String,
    pub(super) options: Options,
    /// What was taken ahead, if that is done.
    pub(super) ahead: Option<Ahead>,
    state: Mutex<State>,
    /// Where the driver is, if it is no task.
    pub(super) seat: Seat<Running>,
    /// Nobody has the limiter any more.
    pub(super) abandoned: AtomicBool,
    /// Something has changed that whoever drives the line must look at.
    pub(super) stirred: Notify,
    pub(super) tasks: TaskTracker,
}

pub(super) struct State {
    pub(super) quota: Quota,
    pub(super) rule: Rule,
    pub(super) line: Line,
    pub(super) batches: Batches,
    pub(super) driven: Driven,
    /// Whoever looks after the line waits for a time, or until it is told.
    pub(super) asleep: bool,
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
        stand_in: Option<tollgate::RateLimiter>,
    ) -> Self {
        Self {
            store,
            key,
            options,
            ahead: options
                .ahead
                .map(|(chunk, hold)| Ahead::new(chunk, hold, rule.burst)),
            seat: Seat::new(),
            abandoned: AtomicBool::new(false),
            state: Mutex::new(State {
                quota,
                rule,
                line: Line::new(options.jitter, options.max_waiters),
                batches: Batches::default(),
                driven: Driven::No,
                asleep: false,
                closed: false,
                stand_in: stand_in.map(Arc::new),
            }),
            stirred: Notify::new(),
            tasks: TaskTracker::new(),
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

    /// Polls the driver by its number, if it is not a task. Says whether it is here still.
    pub(super) fn poll_driver(&self, number: u64, context: &mut Context<'_>) -> bool {
        if !self.store.is_inside() {
            self.hand_over(number);
            return false;
        }
        let (stays, handed_over) = self.seat.poll(number, context);
        if let Some(driver) = handed_over {
            self.spawn(driver);
        }
        stays
    }

    /// Does what is to be done once the lock is gone. Says by which number the driver is to be
    /// polled, if it is.
    pub(super) fn begin(&self, begin: Begin) -> Option<u64> {
        if let Some(driver) = begin.driver {
            self.spawn(driver);
        }
        if begin.stirs {
            self.stirred.notify_one();
        }
        begin.number
    }

    /// Makes the driver of that number a task, if it is none.
    pub(super) fn hand_over(&self, number: u64) {
        let driver = {
            let state = &mut *self.state();
            let driver = self.seat.hand_over(Some(number));
            if driver.is_some() && state.driven == Driven::Here {
                state.driven = Driven::Apart;
            }
            driver
        };
        if let Some(driver) = driver {
            self.spawn(driver);
        }
    }

    /// In a task, which [`shutdown`](super::RateLimiter::shutdown) waits for.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.tasks.spawn_on(task, self.store.runtime()));
    }

    /// Charges one alone, and says how long until that is paid for. By the fallback, if the server
    /// does not decide: then what goes at once.
    pub(super) fn charge_alone(
        self: &Arc<Self>,
        rule: Rule,
        arguments: Arguments,
        n: u64,
        least: u64,
    ) -> Carried<(Charge, Duration), AcquireError> {
        let (this, back) = (Arc::clone(self), Arc::clone(self));
        // A shutdown waits for it, and for what goes back.
        let (asking, giving) = (self.tasks.token(), self.tasks.token());
        let decide = async move {
            let _asking = asking;
            let reply = match this.ask(&rule, arguments).await {
                Ok(reply) => reply,
                Err(error) if applies(error) => return this.stand_in(n, least, error),
                Err(error) => return Err(error.into()),
            };
            if reply.done == 0 {
                let wait = this.state().line.jittered(reply.wait);
                return Err(Source::Store.limited(wait));
            }
            // Of what may be less, how much it was.
            let cost = if least < n { reply.done.min(n) } else { n };
            let once = Reply { done: 1, ..reply };
            let charge = Self::charges(&rule, &[cost], &once, Source::Store).pop();
            let charge = charge.ok_or(StoreError::Script)?;
            Ok((charge, reply.wait))
        };
        let carried = self.store.carry(decide);
        carried.untaken(move |(charge, _)| {
            back.give_later(vec![charge]);
            drop(giving);
        })
    }

    /// Decides by the fallback: at least so much, at most `n`.
    fn stand_in(
        &self,
        n: u64,
        least: u64,
        error: StoreError,
    ) -> Result<(Charge, Duration), AcquireError> {
        let open = |cost| Charge::open(cost, Source::Fallback);
        let stand_in = self.state().stand_in.clone();
        let charge = match (self.options.fallback, stand_in) {
            (Fallback::FailOpen, _) => open(n),
            (Fallback::Local { .. }, Some(stand_in)) => {
                let cost = stand_in.available().min(n).max(least);
                let local = stand_in.try_acquire_many(cost).map_err(|refused| {
                    let wait = refused.retry_after().unwrap_or_default();
                    Source::Fallback.limited(self.state().line.jittered(wait))
                })?;
                Charge {
                    ticket: Ticket::Local(local),
                    ..open(cost)
                }
            }
            _ => return Err(error.into()),
        };
        Ok((charge, Duration::ZERO))
    }

    /// Asks the server, for nobody in the line.
    pub(super) async fn ask(&self, rule: &Rule, arguments: Arguments) -> Result<Reply, StoreError> {
        let keys = [self.key.as_str()];
        let value = self.store.call(rule.script(), &keys, &arguments).await?;
        Reply::read(rule, &value)
    }

    /// Gives back so much of what was charged.
    pub(super) async fn give(self: &Arc<Self>, ticket: &Ticket, n: u64) -> Result<(), StoreError> {
        match ticket {
            Ticket::Store {
                rule,
                position,
                made,
            } => {
                let arguments = rule.arguments("give");
                let arguments = arguments.numbers([n, *position, *made]);
                self.ask(rule, arguments).await?;
                self.forget_denied();
            }
            Ticket::Ahead(end) => {
                for rest in self.put_back(*end, n) {
                    Box::pin(self.give(&rest.ticket(), rest.count)).await?;
                }
            }
            Ticket::Local(_) | Ticket::Open => {}
        }
        Ok(())
    }

    /// Puts back the `n` tokens before that number. What must go back to the server instead.
    fn put_back(self: &Arc<Self>, end: u64, n: u64) -> Vec<Rest> {
        let Some(ahead) = &self.ahead else {
            return Vec::new();
        };
        let (rests, begin) = {
            let state = &mut *self.state();
            let rests = state.batches.give(ahead, end, n);
            // Somebody must see that it is not held for too long.
            (rests, drive(self, state, false))
        };
        self.begin(begin);
        rests
    }

    /// Gives back what was taken ahead and not used.
    pub(super) fn return_rests(self: &Arc<Self>, rests: Vec<Rest>) {
        let charges = rests.into_iter().map(|rest| Charge {
            ticket: rest.ticket(),
            ..Charge::open(rest.count, Source::Ahead)
        });
        self.give_later(charges.collect());
    }

    /// Something came back, or the quota is another one.
    pub(super) fn forget_denied(&self) {
        let mut state = self.state();
        state.line.forget();
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
        self.spawn(async move {
            for charge in charges {
                // If that fails, it stays charged, and time pays it off.
                let _ = this.give_back(charge).await;
            }
        });
    }

    pub(super) async fn give_back(self: &Arc<Self>, charge: Charge) -> Result<(), StoreError> {
        let Charge { ticket, cost, .. } = charge;
        match ticket {
            Ticket::Local(local) => {
                let stand_in = self.state().stand_in.clone();
                if let Some(stand_in) = stand_in {
                    stand_in.refund(local);
                }
                Ok(())
            }
            ticket => self.give(&ticket, cost).await,
        }
    }

    /// What a call charged to those in front.
    pub(super) fn charges(
        rule: &Rule,
        costs: &[u64],
        reply: &Reply,
        source: Source,
    ) -> Vec<Charge> {
        let granted = &costs[..costs.len().min(reply.done as usize)];
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
