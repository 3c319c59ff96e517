//! [`LimitSet`]: several limits in one call, all or none.

mod outcome;

use std::fmt;
use std::future::Future;
use std::iter::repeat;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tollgate::{AcquireError, Algorithm, Decision, Quota, Throttle, Waiting};

pub use self::outcome::{Charges, Outcome};
use crate::error::StoreError;
use crate::rate::{MOST, Reply, Rule, jittered};
use crate::script::LIMIT_SET;
use crate::slot::tag;
use crate::store::{Call, Store};

/// Several limits that are decided in one call, at one moment: all are charged, or none is.
///
/// Calls are not combined, no tokens are prefetched, there is no fallback, and denials are not
/// remembered: every call asks the server.
///
/// A set is cheap to clone. The keys are those of [`RateLimiter`](crate::RateLimiter)s with the same
/// quota and algorithm, so each limit can be used by itself as well.
///
/// # Order
///
/// None: a waiter asks again when the limit that lacked most may have enough, and the first one that
/// asks then goes first. With a [jitter](Self::jitter) a fleet that was denied together does not ask
/// again together. For an order within the process put a [`RateLimiter`](crate::RateLimiter) or a
/// [`Semaphore`](tollgate::Semaphore) in front, with [`all`](tollgate::all).
///
/// # Clusters
///
/// The keys of a call must be in one slot of a cluster: give them the same tag in braces, as in
/// `{acme}:user:42` and `{acme}:all`. A key in another slot is refused when the limit is added.
///
/// For limits in several slots use [`all`](tollgate::all) of several
/// [`RateLimiter`](crate::RateLimiter)s or sets. It waits for the first, then for the second, and so
/// on. What was charged is given back, in the background, when a later limit refuses, the store fails,
/// or the wait is cancelled. So a limit may be charged for a while for nothing, and deny others
/// meanwhile, which a call that decides at one moment never does.
///
/// # Examples
///
/// ```no_run
/// use tollgate::Quota;
/// use tollgate_redis::{LimitSet, Store};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::time::Duration;
/// let store = Store::new("redis://127.0.0.1/")?;
/// let limits = LimitSet::new(&store)
///     .limit("{acme}:user:42", Quota::per_second(5))
///     .limit("{acme}:all", Quota::per_minute(1000).burst(100));
///
/// let outcome = limits.try_acquire_many(2).await?;
/// for index in outcome.violated() {
///     println!("{} denied it", limits.key(index));
/// }
///
/// // Waits for at most half a second.
/// limits.acquire().timeout(Duration::from_millis(500)).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LimitSet {
    store: Store,
    parts: Arc<Vec<Part>>,
    jitter: Duration,
}

#[derive(Clone)]
struct Part {
    key: String,
    rule: Rule,
}

impl LimitSet {
    /// Creates an empty set, which admits every call. Makes no call.
    pub fn new(store: &Store) -> Self {
        Self {
            store: store.clone(),
            parts: Arc::new(Vec::new()),
            jitter: Duration::ZERO,
        }
    }

    /// Adds a limit by GCRA. Each limit makes a call more expensive.
    ///
    /// # Panics
    ///
    /// As [`RateLimiter::new`](crate::RateLimiter::new); if the key was added before; and in a
    /// cluster, if the key is not in the slot of the others because its tag in braces is another one.
    #[track_caller]
    pub fn limit(self, key: impl Into<String>, quota: Quota) -> Self {
        self.limit_by(Algorithm::Gcra, key, quota)
    }

    /// Adds a limit by an algorithm.
    ///
    /// # Panics
    ///
    /// As [`limit`](Self::limit) and [`RateLimiter::algorithm`](crate::RateLimiter::algorithm).
    #[track_caller]
    pub fn limit_by(mut self, algorithm: Algorithm, key: impl Into<String>, quota: Quota) -> Self {
        let key = key.into();
        let rule = Rule::of(quota, algorithm);
        if let Some(first) = self.parts.first().filter(|_| self.store.is_cluster()) {
            let slot = |key: &str| tag(key).unwrap_or(key).to_owned();
            assert!(
                slot(&first.key) == slot(&key),
                "the keys {:?} and {key:?} are not in one slot of a cluster",
                first.key
            );
        }
        assert!(
            self.parts.iter().all(|part| part.key != key),
            "the key {key:?} is given twice"
        );
        Arc::make_mut(&mut self.parts).push(Part { key, rule });
        self
    }

    /// Adds a random delay of at most `max` to the time at which a waiter asks again, so that a fleet
    /// does not ask all at once. By default nothing.
    pub fn jitter(mut self, max: Duration) -> Self {
        self.jitter = max;
        self
    }

    /// Returns the key of the limit that was added at this index.
    ///
    /// # Panics
    ///
    /// If there are fewer limits.
    #[track_caller]
    pub fn key(&self, index: usize) -> &str {
        &self.parts[index].key
    }

    /// Charges one unit of each limit if each has one now.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// How the store failed. A denial is no error, but an outcome.
    pub async fn try_acquire(&self) -> Result<Outcome, StoreError> {
        self.try_acquire_many(1).await
    }

    /// Charges `n` units of each limit if each has as many now. If `n` is more than the burst of one of
    /// them, nothing is charged, and `retry_after` is [`Duration::MAX`].
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
    pub async fn try_acquire_many(&self, n: u64) -> Result<Outcome, StoreError> {
        let fits = self.parts.iter().all(|part| n <= part.rule.burst);
        if fits {
            return self.taken(n).await;
        }
        // It is never admitted, but the outcome shows the state of the limits.
        let mut decisions = self.peek(n).await?;
        for (part, decision) in self.parts.iter().zip(&mut decisions) {
            if n > part.rule.burst {
                decision.retry_after = Duration::MAX;
            }
        }
        Ok(Outcome {
            decisions,
            charges: None,
        })
    }

    /// Returns the decisions that a call of cost `n` would get, in the order of the limits, without
    /// charging it.
    ///
    /// # Cancel safety
    ///
    /// It changes nothing, and can be dropped.
    ///
    /// # Errors
    ///
    /// How the store failed.
    pub async fn peek(&self, n: u64) -> Result<Vec<Decision>, StoreError> {
        let value = self.call("peek", repeat([n.min(MOST)])).await?;
        Ok(self.outcome(false, n, &value)?.decisions)
    }

    /// Acquires one unit of each limit, and waits for them.
    ///
    /// In no [order](Self#order). It asks at once, and again each time when there may be enough.
    ///
    /// # Cancel safety
    ///
    /// Dropped while the server is being asked, it gives back what it is charged when the reply is
    /// there. If that fails, it stays charged, and time pays it off.
    ///
    /// # Errors
    ///
    /// `TimedOut` at once with a [timeout](Waiting::timeout) that is shorter than the wait;
    /// `Store` if the store fails; `ExceedsCapacity` as [`acquire_many`](Self::acquire_many).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use tollgate::Quota;
    /// use tollgate_redis::{LimitSet, Store};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let store = Store::new("redis://127.0.0.1/")?;
    /// let limits = LimitSet::new(&store)
    ///     .limit("{acme}:user:42", Quota::per_second(5))
    ///     .limit("{acme}:all", Quota::per_minute(1000).burst(100))
    ///     .jitter(Duration::from_millis(20));
    /// let charges = limits.acquire().timeout(Duration::from_secs(1)).await?;
    /// // It was not needed after all.
    /// limits.refund(charges).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire(&self) -> Waiting<impl Future<Output = Result<Charges, AcquireError>> + Send> {
        self.acquire_many(1)
    }

    /// Acquires `n` units of each limit together, and waits for them.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire); `ExceedsCapacity`, with the smallest burst as the
    /// [capacity](AcquireError::capacity), if `n` is more.
    pub fn acquire_many(
        &self,
        n: u64,
    ) -> Waiting<impl Future<Output = Result<Charges, AcquireError>> + Send> {
        Waiting::new(self.take_or_wait(n))
    }

    async fn take_or_wait(&self, n: u64) -> Result<Charges, AcquireError> {
        let least = self.parts.iter().map(|part| part.rule.burst).min();
        if let Some(least) = least.filter(|least| n > *least) {
            return Err(AcquireError::exceeds_capacity(least));
        }
        let mut timeout = Waiting::remaining_timeout();
        loop {
            let outcome = self.taken(n).await?;
            let wait = outcome.retry_after();
            if let Some(charges) = outcome.charges {
                return Ok(charges);
            }
            if timeout.take().is_some_and(|timeout| wait > timeout) {
                return Err(AcquireError::would_take(wait));
            }
            self.store.sleep(jittered(wait, self.jitter)).await?;
        }
    }

    /// Charges all or none. What the caller is not there to take goes back.
    async fn taken(&self, n: u64) -> Result<Outcome, StoreError> {
        let this = self.clone();
        let call = self.call("take", repeat([n])).on_abandoned(move |value| {
            let outcome = this.outcome(true, n, &value);
            if let Some(charges) = outcome.ok().and_then(Outcome::into_charges) {
                this.rollback(charges);
            }
        });
        self.outcome(true, n, &call.await?)
    }

    /// Gives back what was charged, as far as it is not paid off, for each limit as exactly as
    /// [`RateLimiter::refund`](crate::RateLimiter::refund).
    ///
    /// Use the set that charged it: another one has other keys.
    ///
    /// # Cancel safety
    ///
    /// Dropped after its first poll, it goes on in the background.
    ///
    /// # Errors
    ///
    /// How the store failed: then it stays charged, and time pays it off.
    pub async fn refund(&self, charges: Charges) -> Result<(), StoreError> {
        let this = self.clone();
        let give = async move {
            let tickets = charges.tickets.into_iter();
            let arguments = tickets.map(|[position, made]| [charges.cost, position, made]);
            this.call("give", arguments).await.map(drop)
        };
        // A task without a result was dropped with its runtime.
        let given = self.store.runtime().spawn(give).await;
        given.unwrap_or(Err(StoreError::NoRuntime))
    }

    /// Asks the server what to do, with these arguments for each limit.
    fn call<const N: usize>(
        &self,
        what: &str,
        arguments: impl IntoIterator<Item = [u64; N]>,
    ) -> Call {
        let keys: Vec<&str> = self.parts.iter().map(|part| part.key.as_str()).collect();
        self.store.call(&LIMIT_SET, &keys, |command| {
            command.arg(what);
            for (Part { rule, .. }, arguments) in self.parts.iter().zip(arguments) {
                command
                    .arg(rule.name())
                    .arg(&rule.numbers())
                    .arg(&arguments);
            }
        })
    }

    /// What a reply says about a call that charges, or does not.
    fn outcome(&self, charges: bool, n: u64, value: &Value) -> Result<Outcome, StoreError> {
        let replies = Reply::read_each(value)?;
        if replies.len() != self.parts.len() {
            return Err(StoreError::Script);
        }
        let decisions = self.parts.iter().zip(&replies);
        let decisions = decisions.map(|(part, reply)| reply.decision(part.rule.burst));
        let is_charged = charges && replies.iter().all(|reply| reply.done == 1);
        Ok(Outcome {
            decisions: decisions.collect(),
            charges: is_charged.then(|| Charges {
                cost: n,
                tickets: replies.iter().map(|it| [it.position, it.made]).collect(),
            }),
        })
    }
}

impl Throttle for LimitSet {
    type Permit = Charges;
    type Enter = Pin<Box<dyn Future<Output = Result<Charges, AcquireError>> + Send>>;

    fn enter(&self) -> Waiting<Self::Enter> {
        let this = self.clone();
        Waiting::new(Box::pin(async move { this.take_or_wait(1).await }))
    }

    fn rollback(&self, charges: Charges) {
        let this = self.clone();
        self.store.runtime().spawn(async move {
            // If that fails, it stays charged, and time pays it off.
            let _ = this.refund(charges).await;
        });
    }
}

impl fmt::Debug for LimitSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.parts.iter().map(|part| &part.key);
        f.debug_list().entries(keys).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jittered_of_any_wait_is_not_shorter() {
        let (wait, most) = (Duration::from_millis(20), Duration::from_millis(5));
        for _ in 0..1000 {
            assert!((wait..=wait + most).contains(&jittered(wait, most)));
        }
        assert_eq!(jittered(wait, Duration::ZERO), wait);
        assert_eq!(jittered(Duration::MAX, most), Duration::MAX);
    }
}
