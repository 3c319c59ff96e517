//! The calls that the driver of a rate limit makes to the server, and the handling of failures.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::Value;
use tollgate::rate::Oversize;
use tollgate::time::Tick;
use tollgate::{AcquireError, Algorithm, Decision, Quota, RateLimiter};

use super::charge::{Charge, Denied, Source, Ticket, jittered};
use super::rule::Rule;
use super::state::{Options, Shared, State};
use crate::error::StoreError;
use crate::script::numbers;

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

    /// Handles a call that failed to decide for the first `asked` waiters. The fallback decides for
    /// all current waiters, so no caller waits for one deadline after another.
    pub(super) fn fail(self: &Arc<Self>, asked: usize, error: StoreError) {
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
            own.turns.lose_line();
            queue.answer(|index, waiter| {
                let error = if index < asked { error } else { unsent };
                if own.denied.is_some() || index >= asked && !applies(error) {
                    return None;
                }
                let answer = self.fall_back(waiter.cost, waiter.cost, error);
                let Some(wait) = answer.as_ref().err().and_then(AcquireError::retry_after) else {
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
                    // The server may be back, and admit a call that the local share never would.
                    let wait = refused.retry_after().filter(|wait| *wait < Duration::MAX);
                    Source::Fallback.limited(wait.unwrap_or(AFTER_FALLBACK))
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

/// The reply of a script about a rate limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
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
        if let Value::Array(parts) = value
            && let [
                Value::Int(done),
                Value::Int(wait),
                Value::BulkString(written),
            ] = &parts[..]
        {
            return Self::quick(rule, *done, *wait, written).ok_or(StoreError::Script);
        }
        match Self::read_each(value)?[..] {
            [reply] => Ok(reply),
            _ => Err(StoreError::Script),
        }
    }

    /// Reads the replies about several limits, which share `done` and `now`.
    pub(crate) fn read_each(value: &Value) -> Result<Vec<Self>, StoreError> {
        Self::of_each(&numbers(value)?)
    }

    pub(super) fn of_each(numbers: &[u64]) -> Result<Vec<Self>, StoreError> {
        let [done, now, each @ ..] = numbers else {
            return Err(StoreError::Script);
        };
        let (each, []) = each.as_chunks() else {
            return Err(StoreError::Script);
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

    /// Reads the reply of `quick.lua`: the rest follows from the value that it wrote.
    fn quick(rule: &Rule, done: i64, wait: i64, written: &[u8]) -> Option<Self> {
        let written = std::str::from_utf8(written).ok()?.strip_prefix("d:")?;
        let mut numbers = written.split(':').map(|number| number.parse::<u64>().ok());
        let mut next = || numbers.next()?;
        let [now, owed, unit, position, made] = [next()?, next()?, next()?, next()?, next()?];
        let most = rule.burst.checked_mul(unit)?;
        Some(Self {
            done: u64::try_from(done).ok()?,
            now,
            wait: Duration::from_micros(u64::try_from(wait).ok()?),
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

/// The behavior of a rate limit while its store cannot decide.
///
/// Some failures are errors with every fallback, because they are mistakes: a key that holds a
/// value of another kind, keys in several slots, a server that does not admit this client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fallback {
    /// Returns the error for every call, of the kind [`Store`](tollgate::ErrorKind::Store).
    #[default]
    FailClosed,
    /// Admits every call.
    FailOpen,
    /// Decides in this process, with an equal share of the quota and the same algorithm. While at
    /// most `share` processes do so, they keep the quota together, apart from earlier admissions. A
    /// call for more than the share, but not for more than the burst, is admitted when there is no
    /// debt, and leaves a debt.
    Local {
        /// The number of shares: the number of processes.
        share: u32,
    },
}

/// Returns whether the fallback decides after this error.
pub(super) fn applies(error: StoreError) -> bool {
    error.is_outage()
        || matches!(
            error,
            StoreError::BreakerOpen | StoreError::OutOfMemory | StoreError::TryAgain
        )
}

impl Fallback {
    /// Returns the limiter that decides in this process, if there is one.
    ///
    /// # Panics
    ///
    /// Panics if the quota cannot be split into that many shares, or a share is too small for the
    /// algorithm.
    #[track_caller]
    pub(super) fn limiter(self, quota: Quota, algorithm: Algorithm) -> Option<RateLimiter> {
        let Self::Local { share } = self else {
            return None;
        };
        let limiter = RateLimiter::new(part(quota, algorithm, share));
        Some(limiter.algorithm(algorithm).oversize(Oversize::Overdraft))
    }
}

/// Returns one of `share` equal parts.
#[track_caller]
fn part(quota: Quota, algorithm: Algorithm, share: u32) -> Quota {
    let parts = u64::from(share);
    if algorithm == Algorithm::Gcra || parts == 0 {
        return quota.split(share);
    }
    // Steps return the whole count at once, so the count is divided.
    let count = quota.count() / parts;
    let most = match (algorithm, quota.max_burst()) {
        // A burst of 1 stands for the count.
        (Algorithm::TokenBucket, burst @ 2..) => burst / parts,
        _ => count,
    };
    if count > 0 && most > 1 {
        return Quota::new(count, quota.period()).burst(most);
    }
    // One unit at a time.
    let seldom = quota.period().as_nanos() * u128::from(share);
    let seldom = seldom.div_ceil(u128::from(quota.count()));
    let seldom = Duration::from_nanos(u64::try_from(seldom).unwrap_or(u64::MAX));
    Quota::new(1, seldom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_of_each_algorithm_divides_rate_and_burst() {
        let part =
            |algorithm, share| part(Quota::per_second(10).burst(6), algorithm, share).to_string();
        assert_eq!(part(Algorithm::Gcra, 4), "10/4s");
        assert_eq!(part(Algorithm::FixedWindow, 4), "2/s burst 2");
        assert_eq!(part(Algorithm::TokenBucket, 3), "3/s burst 2");
        assert_eq!(part(Algorithm::SlidingLog, 20), "1/2s");
        assert_eq!(part(Algorithm::TokenBucket, 4), "1/400ms");
        assert_eq!(part(Algorithm::TokenBucket, 100), "1/10s");
    }
}
