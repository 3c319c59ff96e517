//! The calls that the driver of a rate limit makes to the server, and the handling of failures.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::Value;
use tollgate::time::Tick;
use tollgate::{AcquireError, Decision};

use super::charge::{Charge, Denied, MOST_VISITED, Source, Ticket, jittered};
use super::rule::Rule;
use super::share::Fallback;
use super::state::{Options, Shared, State};
use crate::error::StoreError;
use crate::script::numbers;

/// The shortest time until the next call for waiters that must wait longer, and until a retry behind
/// a queue.
pub(super) const SOON: Duration = Duration::from_millis(1);

/// The shortest time until the next call for waiters after a failure.
const AFTER_FALLBACK: Duration = Duration::from_millis(50);

impl Shared {
    /// Calls the server for the first waiters, which have these costs.
    pub(super) async fn ask_for_waiters(self: Arc<Self>, rule: Rule, costs: Vec<u64>) {
        let asked = Instant::now();
        let forgotten = self.state().own.forgotten;
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
            Err(error) => return self.fail(costs.len(), error),
        };
        let answered = Instant::now();
        let source = if costs.len() > 1 {
            Source::Coalesced
        } else {
            Source::Store
        };
        let admitted = &costs[..costs.len().min(reply.done as usize)];
        self.charge_share(admitted.iter().sum());
        let Options { recheck, .. } = self.limit.options;
        let denied = costs.get(admitted.len()).map(|cost| Denied {
            cost: *cost,
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
                self.jittered(answered + reply.wait.min(recheck.max(SOON)))
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
            // A denial by another rule, or from before a refund, is not valid any more.
            let is_valid = own.rule == rule && own.forgotten == forgotten;
            own.denied = denied.filter(|_| is_valid);
            own.turns.learn_line(denied.map(|denied| denied.until));
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
        let call = async {
            self.repay(&rule).await?;
            self.ask(&rule, "upto", &[n]).await
        };
        let answer = self.breaker.guard(call).await;
        if let Ok(reply) = &answer {
            self.charge_share(reply.done.min(n));
        }
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

    /// Handles a call that failed to decide for the first `asked` waiters. The fallback decides for all current
    /// waiters, so no caller waits for one deadline after another. Those that it neither admits nor denies wait
    /// on, if they do not fail and have the time.
    pub(super) fn fail(self: &Arc<Self>, asked: usize, error: StoreError) {
        // Nothing was sent for the other waiters.
        let unsent = if error.is_perhaps_charged() {
            StoreError::Unavailable
        } else {
            error
        };
        self.change(|state| {
            let State { queue, own, .. } = state;
            let options = &self.limit.options;
            let now = Instant::now();
            // With jitter, so that the processes of a fleet do not call together.
            let again = now + AFTER_FALLBACK.mul_f64(1.0 + fastrand::f64());
            own.denied = None;
            let waits_on = options.fallback == Fallback::FailClosed && !options.fail_waiting;
            let waits_on = waits_on && !error.is_mistake();
            if waits_on {
                queue.answer_first(MOST_VISITED, |index, waiter| {
                    let has_time = waiter.deadline.is_none_or(|deadline| deadline > again);
                    let error = if index < asked { error } else { unsent };
                    (waiter.tries || !has_time).then(|| Err(error.into()))
                });
                queue.answer_tries(|_| Err(unsent.into()));
            } else {
                let mut index = 0;
                queue.answer_until(|waiter| {
                    let error = if index < asked { error } else { unsent };
                    if index >= asked && error.is_mistake() {
                        return None;
                    }
                    index += 1;
                    let answer = self.fall_back(waiter.cost, waiter.cost, error);
                    let denied = answer.as_ref().err().and_then(AcquireError::retry_after);
                    let Some(wait) = denied else {
                        return Some(answer);
                    };
                    // The server may be back long before the local share has enough tokens.
                    let again = now + wait.min(AFTER_FALLBACK);
                    own.denied = Some(Denied {
                        cost: waiter.cost,
                        until: now + wait,
                        believed: again,
                        again,
                    });
                    None
                });
            }
            own.turns
                .lose_line(if queue.is_empty() { now } else { again });
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
        match (self.limit.options.fallback, &self.limit.share) {
            _ if error.is_mistake() => Err(error.into()),
            (Fallback::FailOpen, _) => Ok(open(n)),
            (Fallback::Local { .. }, Some(share)) => {
                let local = share.acquire(n, least).map_err(|refused| {
                    // The server may be back, and admit a call that the local share never would.
                    let wait = refused.retry_after().filter(|wait| *wait < Duration::MAX);
                    Source::Fallback.limited(wait.unwrap_or(AFTER_FALLBACK))
                })?;
                let cost = local.cost();
                Ok(Charge {
                    ticket: Ticket::Local(local),
                    ..open(cost)
                })
            }
            _ => Err(error.into()),
        }
    }

    /// Charges the share for what the server has admitted.
    pub(super) fn charge_share(&self, n: u64) {
        if let Some(share) = &self.limit.share {
            share.charge(n);
        }
    }

    /// After a call that has failed, finds out with a call that charges nothing whether the outage is over: a
    /// server that was stopped executes all calls that it got. Then charges on the server what the share has
    /// admitted meanwhile.
    pub(super) async fn repay(&self, rule: &Rule) -> Result<(), StoreError> {
        let share = self.limit.share.as_ref().filter(|share| share.owes());
        let is_lost = self.state().own.turns.lost().is_some();
        if share.is_some() || is_lost {
            self.ask(rule, "peek", &[0]).await?;
        }
        let Some(share) = share else {
            return Ok(());
        };
        let owed = share.take_owed();
        if owed > 0
            && let Err(error) = self.ask(rule, "charge", &[owed]).await
        {
            if !error.is_perhaps_charged() {
                share.put_back(owed);
            }
            return Err(error);
        }
        Ok(())
    }

    /// Adds a random delay of at most the jitter, so that the processes of a fleet do not all call
    /// at once.
    pub(super) fn jittered(&self, time: Instant) -> Instant {
        let later = jittered(Duration::ZERO, self.limit.options.jitter);
        time.checked_add(later).unwrap_or(time)
    }
}

/// The reply of a script about a rate limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// The result; at most `u64::MAX`, which stands for all that was asked for.
    pub(crate) done: u64,
    /// Microseconds of the server's clock.
    pub(crate) now: u64,
    pub(crate) wait: Duration,
    pub(crate) free: u64,
    pub(crate) reset: Duration,
    pub(crate) position: u64,
    pub(crate) made: u64,
}

impl Reply {
    pub(crate) fn read(rule: &Rule, value: &Value) -> Result<Self, StoreError> {
        if let Value::BulkString(written) = value {
            return Self::of_written(rule, written).ok_or(StoreError::Unknown);
        }
        match Self::read_each(value)?[..] {
            [reply] => Ok(reply),
            _ => Err(StoreError::Unknown),
        }
    }

    /// Reads the replies about several limits, which share `done` and `now`.
    pub(crate) fn read_each(value: &Value) -> Result<Vec<Self>, StoreError> {
        Self::of_each(&numbers(value)?)
    }

    pub(super) fn of_each(numbers: &[u64]) -> Result<Vec<Self>, StoreError> {
        let [done, now, each @ ..] = numbers else {
            return Err(StoreError::Unknown);
        };
        let (each, []) = each.as_chunks() else {
            return Err(StoreError::Unknown);
        };
        let replies = each
            .iter()
            .map(|&[wait, free, reset, position, made]| Self {
                done: *done,
                now: *now,
                wait: Duration::from_micros(wait),
                free,
                reset: Duration::from_micros(reset),
                position,
                made,
            });
        Ok(replies.collect())
    }

    /// Returns the reply to a call that was charged as a whole, from the value that `head.lua` has written.
    fn of_written(rule: &Rule, written: &[u8]) -> Option<Self> {
        let written = std::str::from_utf8(written).ok()?.strip_prefix("d:")?;
        let mut numbers = written.split(':').map(|number| number.parse::<u64>().ok());
        let mut next = || numbers.next()?;
        let [now, owed, unit, position, made] = [next()?, next()?, next()?, next()?, next()?];
        let most = rule.burst.checked_mul(unit)?;
        Some(Self {
            done: u64::MAX,
            now,
            wait: Duration::ZERO,
            free: most.saturating_sub(owed).checked_div(unit)?,
            reset: Duration::from_micros(owed.div_ceil(rule.count.max(1))),
            position,
            made,
        })
    }

    /// Returns this reply as of the microsecond at which its charge is due.
    pub(super) fn when_due(self) -> Self {
        let micros = u64::try_from(self.wait.as_micros()).unwrap_or(u64::MAX);
        Self {
            now: self.now.saturating_add(micros),
            ..self
        }
    }

    /// Returns the time by the server's clock.
    pub(crate) fn at(&self) -> Tick {
        Tick::from_nanos(self.now.saturating_mul(1000))
    }

    pub(crate) fn decision(&self, limit: u64) -> Decision {
        Decision::from_parts(limit, self.free, Some(self.wait), self.reset, self.at())
    }
}
