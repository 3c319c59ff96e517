//! [`Several`]: more than one limit in one call, all or none.
//!
//! What is charged is taken by whoever asked for it, or given back: a call that charges goes on to
//! its end if its caller leaves.

mod outcome;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tollgate::throttle::remaining_timeout;
use tollgate::{AcquireError, Algorithm, Decision, Quota, Throttle, Tick, Waiting};

pub use self::outcome::{Charges, Outcome};
use crate::carried::Carried;
use crate::error::StoreError;
use crate::rate::Rule;
use crate::script::{Arguments, SEVERAL, numbers};
use crate::slot::tag;
use crate::store::{Call, Store};

/// A script counts up to there, and no burst is more.
const MOST: u64 = 1 << 52;

/// Several limits that are decided in one call, at one moment: all are charged, or none is.
///
/// Calls are not put together, nothing is taken ahead, and a failure of the store is an error. What
/// was denied is not remembered: every call is made.
///
/// Cheap to clone. The keys are those of [`RateLimiter`](crate::RateLimiter)s of the same quota and
/// algorithm, so each limit can be used by itself as well.
///
/// # Order
///
/// None: who waits asks again when the limit that lacked most may have enough, and whoever asks
/// first then goes first. With a [jitter](Self::jitter) a fleet that was refused together does not
/// ask again together. For an order within the process put a [`RateLimiter`](crate::RateLimiter)
/// or a [`Semaphore`](tollgate::Semaphore) in front, by [`all`](tollgate::all).
///
/// # Clusters
///
/// The keys of a call must be in one slot of a cluster: give them the same part in braces, as in
/// `{acme}:user:42` and `{acme}:all`. Others are refused when the limit is added.
///
/// Limits in several slots can be had one after the other: that is [`all`](tollgate::all) of several
/// [`RateLimiter`](crate::RateLimiter)s, or of some of these. It waits for the first, then for the
/// second, and so on; what was charged already is given back, in the background, when a later one
/// refuses, the store fails, or the wait is given up. So each of them may be charged for a while for
/// nothing, and others be refused meanwhile, as they never are by a call that decides at one moment.
///
/// # Examples
///
/// ```no_run
/// use tollgate::Quota;
/// use tollgate_redis::{Several, Store};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::time::Duration;
/// # use tollgate::Waiting;
/// let store = Store::new("redis://127.0.0.1/")?;
/// let limits = Several::new(&store)
///     .limit("{acme}:user:42", Quota::per_second(5))
///     .limit("{acme}:all", Quota::per_minute(1000).burst(100));
///
/// let outcome = limits.try_acquire_many(2).await?;
/// for index in outcome.violated() {
///     println!("{} has too little", limits.key(index));
/// }
///
/// // Waiting, at most so long.
/// Waiting::new(Box::pin(limits.acquire())).timeout(Duration::from_millis(500)).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Several {
    store: Store,
    parts: Arc<Vec<Part>>,
    jitter: Duration,
}

#[derive(Clone)]
struct Part {
    key: String,
    rule: Rule,
}

impl Several {
    /// None yet, which admits everybody. Makes no call.
    pub fn new(store: &Store) -> Self {
        Self {
            store: store.clone(),
            parts: Arc::new(Vec::new()),
            jitter: Duration::ZERO,
        }
    }

    /// And this limit, by GCRA. How many there are is up to the caller: a call costs as much more
    /// with each.
    ///
    /// # Panics
    ///
    /// As [`RateLimiter::new`](crate::RateLimiter::new); if the key was given before; and on a
    /// cluster, if the key is not in the slot of the others, since its part in braces is another
    /// one.
    #[track_caller]
    pub fn limit(self, key: impl Into<String>, quota: Quota) -> Self {
        self.limit_by(Algorithm::Gcra, key, quota)
    }

    /// And this limit, by an algorithm.
    ///
    /// # Panics
    ///
    /// As [`limit`](Self::limit) and [`RateLimiter::algorithm`](crate::RateLimiter::algorithm).
    #[track_caller]
    pub fn limit_by(mut self, algorithm: Algorithm, key: impl Into<String>, quota: Quota) -> Self {
        let key = key.into();
        let rule = match Rule::new(quota, algorithm) {
            Ok(rule) => rule,
            Err(error) => panic!("{error}"),
        };
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

    /// Asks again for whoever waits by up to so much later than the server said, at random, so that
    /// a fleet does not ask all at once; never sooner. None by default.
    pub fn jitter(mut self, most: Duration) -> Self {
        self.jitter = most;
        self
    }

    /// The key of a limit, in the order in which they were given.
    ///
    /// # Panics
    ///
    /// If there are not so many.
    #[track_caller]
    pub fn key(&self, index: usize) -> &str {
        &self.parts[index].key
    }

    /// Charges one of each, if each has one now.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// How the store failed. That there is too little is no error here, but an outcome.
    pub async fn try_acquire(&self) -> Result<Outcome, StoreError> {
        self.try_acquire_many(1).await
    }

    /// Charges so many of each, if each has as many now. With more than the burst of one of them
    /// nothing is charged, and the outcome says that it would take for ever.
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
        // It never will be admitted, but one is told how the limits stand.
        let mut outcome = self.ask("peek", n).await?;
        for (part, decision) in self.parts.iter().zip(&mut outcome.decisions) {
            if n > part.rule.burst {
                decision.retry_after = Duration::MAX;
            }
        }
        Ok(outcome)
    }

    /// How the limits stand, for a call that costs so much, in the order in which they were given.
    /// Charges nothing.
    ///
    /// # Cancel safety
    ///
    /// It changes nothing, and can be dropped.
    ///
    /// # Errors
    ///
    /// How the store failed.
    pub async fn peek(&self, n: u64) -> Result<Vec<Decision>, StoreError> {
        Ok(self.ask("peek", n).await?.decisions)
    }

    /// Waits until one of each can be had, and charges it.
    ///
    /// In no [order](Self#order). A call is made at once, and another one each time when there may
    /// be enough.
    ///
    /// # Cancel safety
    ///
    /// Dropped while the server is being asked, what it is charged is given back when the answer
    /// is there. If that fails, it stays charged, and time pays it off.
    ///
    /// # Errors
    ///
    /// `TimedOut` at once inside a [`Timeout`](tollgate::Timeout) that is shorter than the wait;
    /// `Store` if the store fails; `ExceedsCapacity` as [`acquire_many`](Self::acquire_many).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use tollgate::{Quota, Throttle};
    /// use tollgate_redis::{Several, Store};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let store = Store::new("redis://127.0.0.1/")?;
    /// let limits = Several::new(&store)
    ///     .limit("{acme}:user:42", Quota::per_second(5))
    ///     .limit("{acme}:all", Quota::per_minute(1000).burst(100))
    ///     .jitter(Duration::from_millis(20));
    /// let charges = limits.enter().timeout(Duration::from_secs(1)).await?;
    /// // It was not needed after all.
    /// limits.refund(charges).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire(&self) -> Result<Charges, AcquireError> {
        self.acquire_many(1).await
    }

    /// Waits until so many of each can be had together, and charges them.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire); `ExceedsCapacity`, with the smallest burst as the
    /// [capacity](AcquireError::capacity), if that is less.
    pub async fn acquire_many(&self, n: u64) -> Result<Charges, AcquireError> {
        let least = self.parts.iter().map(|part| part.rule.burst).min();
        if let Some(least) = least.filter(|least| n > *least) {
            return Err(AcquireError::exceeds_capacity(least));
        }
        let mut budget = remaining_timeout();
        loop {
            let outcome = self.taken(n).await?;
            let wait = outcome.retry_after();
            if let Some(charges) = outcome.charges {
                return Ok(charges);
            }
            if budget.take().is_some_and(|budget| wait > budget) {
                return Err(AcquireError::would_take(wait));
            }
            self.store.sleep(jittered(wait, self.jitter)).await?;
        }
    }

    /// What nobody is there to take goes back.
    fn taken(&self, n: u64) -> Carried<Outcome> {
        let (this, back) = (self.clone(), self.clone());
        let asked = self.store.carry(async move { this.ask("take", n).await });
        asked.untaken(move |outcome| {
            if let Some(charges) = outcome.charges {
                back.rollback(charges);
            }
        })
    }

    /// Gives back what was charged, as far as it is not paid off; as exactly as
    /// [`RateLimiter::refund`](crate::RateLimiter::refund), for each limit.
    ///
    /// To be asked of those that charged it: others have other keys.
    ///
    /// # Cancel safety
    ///
    /// Dropped after it was begun, it is given back in the background.
    ///
    /// # Errors
    ///
    /// How the store failed: then it stays charged, and time pays it off.
    pub async fn refund(&self, charges: Charges) -> Result<(), StoreError> {
        let this = self.clone();
        let give = async move {
            let mut arguments = Arguments::new("give");
            for (part, ticket) in this.parts.iter().zip(&charges.tickets) {
                arguments = part.rule.tell_which(arguments);
                arguments = arguments.number(charges.cost).numbers(*ticket);
            }
            this.call(&arguments).await.map(drop)
        };
        self.store.carry(give).await
    }

    async fn ask(&self, what: &'static str, n: u64) -> Result<Outcome, StoreError> {
        let mut arguments = Arguments::new(what);
        for part in self.parts.iter() {
            arguments = part.rule.tell_which(arguments).number(n.min(MOST));
        }
        let value = self.call(&arguments).await?;
        self.read(what, n, &value).ok_or(StoreError::Script)
    }

    fn call(&self, arguments: &Arguments) -> Call {
        let keys: Vec<&str> = self.parts.iter().map(|part| part.key.as_str()).collect();
        self.store.call(&SEVERAL, &keys, arguments)
    }

    fn read(&self, what: &str, n: u64, value: &Value) -> Option<Outcome> {
        let numbers = numbers(value)?;
        let [done, now, each @ ..] = &numbers[..] else {
            return None;
        };
        let (each, []) = each.as_chunks::<5>() else {
            return None;
        };
        if each.len() != self.parts.len() {
            return None;
        }
        let at = Tick::from_nanos(now.saturating_mul(1000));
        let decisions = self.parts.iter().zip(each);
        let decisions = decisions.map(|(part, [wait, free, reset, ..])| {
            let [wait, reset] = [*wait, *reset].map(Duration::from_micros);
            Decision::from_parts(part.rule.burst, *free, wait, reset, at)
        });
        let charged = *done == 1 && what == "take";
        Some(Outcome {
            decisions: decisions.collect(),
            charges: charged.then(|| Charges {
                cost: n,
                tickets: each.iter().map(|it| [it[3], it[4]]).collect(),
            }),
        })
    }
}

/// That long, or by up to so much longer.
fn jittered(wait: Duration, most: Duration) -> Duration {
    wait.saturating_add(most.mul_f64(fastrand::f64()))
}

impl Throttle for Several {
    type Permit = Charges;
    type Enter = Pin<Box<dyn Future<Output = Result<Charges, AcquireError>> + Send>>;

    fn enter(&self) -> Waiting<Self::Enter> {
        let this = self.clone();
        Waiting::new(Box::pin(async move { this.acquire().await }))
    }

    fn rollback(&self, charges: Charges) {
        let this = self.clone();
        self.store.spawn(async move {
            // If that fails, it stays charged, and time pays it off.
            let _ = this.refund(charges).await;
        });
    }
}

impl fmt::Debug for Several {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.parts.iter().map(|part| &part.key);
        f.debug_list().entries(keys).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_is_upward_only() {
        let (wait, most) = (Duration::from_millis(20), Duration::from_millis(5));
        for _ in 0..1000 {
            assert!((wait..=wait + most).contains(&jittered(wait, most)));
        }
        assert_eq!(jittered(wait, Duration::ZERO), wait);
        assert_eq!(jittered(Duration::MAX, most), Duration::MAX);
    }
}
