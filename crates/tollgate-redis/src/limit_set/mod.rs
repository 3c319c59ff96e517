//! [`LimitSet`]: several limits in one call, all or none.
//!
//! Flow: [`LimitSet`] -> [`in_line`] (the wait of a caller) -> [`waiting`] (the [queue](crate::queue) of a set) ->
//! [`parts`] (the calls about all limits) -> [`outcome`] (decisions and charges).

mod in_line;
mod outcome;
mod parts;
mod waiting;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tollgate::wait::Waiting;
use tollgate::{AcquireError, Algorithm, Decision, ErrorKind, Quota, Throttle};

pub use self::outcome::{Charges, Outcome};
pub(crate) use self::parts::Parts;
use self::waiting::{SetState, Shared, Step, Waits};
use crate::error::StoreError;
use crate::fallback::Fallback;
use crate::keys;
use crate::queue::{Limit, LimitStatistics, Origin};
use crate::rate::{Options, Rule};
use crate::script::{MOST, slot};
use crate::store::Store;

/// Several limits that are decided in one call, at one moment: the call charges all of them, or
/// none.
///
/// Callers that wait share calls, and follow the [fallback](Self::fallback) of the set. Calls that do not wait
/// ([`try_acquire`](Self::try_acquire), [`peek`](Self::peek)) are each a call of the server, and get its errors.
/// A set prefetches no tokens.
///
/// A set is cheap to clone. Its limits are [`RateLimiter`](crate::RateLimiter)s of the same names, so
/// each can be used by itself as well, with the same quota and algorithm.
///
/// # Order
///
/// Callers of a process that wait are admitted about in the order of their arrival, as far as a later one needs no
/// more than the first. They send nothing while they wait for a limit that reserves [turns](crate::RateLimiter#order):
/// each has a turn of that limit, as a waiter of a [`RateLimiter`](crate::RateLimiter) has, and is charged to the
/// other limits when it is due. A set has the same share of such a limit as a limiter of the process that waits
/// for it. If several limits lack something, the caller has a turn of each, so that they are due at about the
/// same time; the earlier one is used at most 50 ms, the time of one cost or the
/// [`horizon`](Self::horizon) late, whichever is longest. If another limit refuses then, the
/// caller waits for that one, too, and an older turn may be unused.
///
/// Waiters of limits with other algorithms, or of less than a unit in 5 seconds, retry when the limit that lacked
/// most may have enough: one call of each process for all of its waiters. With a [jitter](Self::jitter) the
/// processes of a fleet that were denied together do not retry together.
///
/// # Clusters
///
/// The keys of a call must be in one slot of a cluster: give the names the same tag in braces, as in
/// `{acme}:user:42` and `{acme}:all`. Adding a limit with a key in another slot panics.
///
/// For limits in several slots use [`all`](tollgate::all) of several
/// [`RateLimiter`](crate::RateLimiter)s or sets. It waits for the first, then for the second, and
/// so on. Charges are refunded in the background when a later limit rejects the call, the store fails, or the
/// wait is cancelled. So a limit may keep a charge until it is refunded, and deny other calls meanwhile. That
/// cannot happen with a single call, because it decides at one moment.
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
    shared: Arc<Shared>,
}

impl LimitSet {
    /// Creates an empty set, which admits every call. Makes no call of the store.
    pub fn new(store: &Store) -> Self {
        Self::made(Parts::new(store), Options::default())
    }

    fn made(parts: Parts, options: Options) -> Self {
        let store = parts.store.clone();
        let waits = Waits::new(parts, options);
        Self {
            shared: Arc::new(Shared::new(store, waits, SetState::default())),
        }
    }

    /// A set with changed options has waiters and charges of its own.
    fn with(self, change: impl FnOnce(&mut Options)) -> Self {
        let mut options = self.shared.limit.common.options;
        change(&mut options);
        Self::made(self.parts().clone(), options)
    }

    fn parts(&self) -> &Parts {
        &self.shared.limit.parts
    }

    /// Adds a GCRA limit. Each limit makes a call more expensive.
    ///
    /// # Panics
    ///
    /// Panics in the cases of [`RateLimiter::new`](crate::RateLimiter::new); if the name was added
    /// before; and in a cluster, if its key is in another slot than the others because its tag in braces
    /// differs.
    #[must_use]
    #[track_caller]
    pub fn limit(self, name: impl Into<String>, quota: Quota) -> Self {
        self.limit_by(Algorithm::Gcra, name, quota)
    }

    /// Adds a limit with an algorithm.
    ///
    /// # Panics
    ///
    /// Panics in the cases of [`limit`](Self::limit) and
    /// [`RateLimiter::algorithm`](crate::RateLimiter::algorithm).
    #[must_use]
    #[track_caller]
    pub fn limit_by(self, algorithm: Algorithm, name: impl Into<String>, quota: Quota) -> Self {
        let (key, rule) = (keys::rate(&name.into()), Rule::of(quota, algorithm));
        let mut parts = self.parts().clone();
        if let Some(first) = parts.each.first().filter(|_| parts.store.is_cluster()) {
            assert!(
                slot(&first.key) == slot(&key),
                "the keys {:?} and {key:?} are not in one slot of a cluster",
                first.key
            );
        }
        assert!(
            parts.each.iter().all(|part| part.key != key),
            "the key {key:?} is given twice"
        );
        parts.push(key, rule, quota, algorithm);
        Self::made(parts, self.shared.limit.common.options)
    }

    /// Adds a random delay of at most `max` to the time at which a waiter retries, so that the processes of a
    /// fleet do not all retry at once. The default is zero. Waiters with [turns](Self#order) do not retry.
    #[must_use]
    pub fn jitter(self, max: Duration) -> Self {
        self.with(|options| options.jitter = max)
    }

    /// Sets the decision about callers that wait while the store fails. The default is
    /// [`FailClosed`](Fallback::FailClosed): they keep their places until it is back. With
    /// [`Local`](Fallback::Local), the process has a share of each limit.
    ///
    /// # Panics
    ///
    /// Panics if a share of one of the limits cannot be counted, as
    /// [`RateLimiter::fallback`](crate::RateLimiter::fallback) does.
    #[must_use]
    #[track_caller]
    pub fn fallback(self, fallback: Fallback) -> Self {
        self.with(|options| options.fallback = fallback)
    }

    /// Returns the errors of the store to callers that wait, too, as
    /// [`RateLimiter::fail_waiting`](crate::RateLimiter::fail_waiting) does.
    #[must_use]
    pub fn fail_waiting(self) -> Self {
        self.with(|options| options.fail_waiting = true)
    }

    /// Sets the maximum number of callers of this process that wait. Others that would have to wait are rejected with
    /// [`QueueFull`](tollgate::ErrorKind::QueueFull): at once behind callers that wait for [turns](Self#order) of one
    /// limit or several, and otherwise as soon as a reply or the failure of a call tells that they wait, also in an
    /// outage. Callers that wait for their first reply may be more. The default is no maximum.
    #[must_use]
    pub fn max_waiters(self, max_waiters: usize) -> Self {
        self.with(|options| options.max_waiters = max_waiters)
    }

    /// Sets how far ahead waiters reserve turns, as [`RateLimiter::horizon`](crate::RateLimiter::horizon) does.
    /// The default is 250 ms.
    #[must_use]
    pub fn horizon(self, horizon: Duration) -> Self {
        self.with(|options| options.horizon = horizon)
    }

    /// Returns the number of callers of this process that wait.
    pub fn waiting(&self) -> usize {
        self.shared.waiting()
    }

    /// Returns the [key](crate#keys-on-the-server) of the limit that was added at this index.
    ///
    /// # Panics
    ///
    /// Panics if there are fewer limits.
    #[track_caller]
    pub fn key(&self, index: usize) -> &str {
        &self.parts().each[index].key
    }

    /// Charges one unit of each limit if every limit has one now.
    ///
    /// # Cancel safety
    ///
    /// See [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// The failure of the store. A denial is an outcome, not an error.
    pub async fn try_acquire(&self) -> Result<Outcome, StoreError> {
        self.try_acquire_many(1).await
    }

    /// Charges `n` units of each limit if every limit has that many now. If `n` is more than the
    /// burst of one of them, nothing is charged, and `retry_after` is `None`.
    ///
    /// # Cancel safety
    ///
    /// See [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// The errors of [`try_acquire`](Self::try_acquire).
    pub async fn try_acquire_many(&self, n: u64) -> Result<Outcome, StoreError> {
        let fits = n <= self.shared.limit.capacity(&SetState::default());
        let call = async {
            if fits {
                return self.taken(n).await;
            }
            // The call is never admitted, but the outcome shows the state of the limits.
            Ok(Outcome {
                decisions: self.peek(n).await?,
                charges: None,
            })
        };
        let decided = |answer: &Result<Outcome, StoreError>| match answer {
            Ok(outcome) if outcome.is_admitted() => Ok(Origin::Alone),
            Ok(_) if fits => Err(AcquireError::limited(Duration::ZERO)),
            Ok(_) => Err(AcquireError::new(ErrorKind::ExceedsCapacity)),
            Err(error) => Err((*error).into()),
        };
        self.shared
            .limit
            .common
            .counters
            .counted(call, decided)
            .await
    }

    /// Returns the decisions that a call of cost `n` would get, in the order of the limits, without
    /// charging it. If `n` is more than the burst of a limit, its `retry_after` is `None`.
    ///
    /// # Cancel safety
    ///
    /// The call changes nothing, so dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// The failure of the store.
    pub async fn peek(&self, n: u64) -> Result<Vec<Decision>, StoreError> {
        let value = self.parts().call_each("peek", n.min(MOST)).await?;
        Ok(self.parts().outcome(n, &value)?.decisions)
    }

    /// Acquires one unit of each limit, and waits for them.
    ///
    /// Calls the server at once, unless others of this process wait in front, or a call of at most that cost was
    /// denied within the last second and would be denied still. See [order](Self#order).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped during a call of the server, the charges are refunded in the background when the
    /// reply arrives, with the accuracy of [`refund`](Self::refund), in the order in which this process notices
    /// the replies. If the refund fails, they stay, and are [counted](Self::unrefunded); time pays them off.
    /// Turns of a caller that leaves pass to others that wait, or are given back; [`shutdown`](Self::shutdown)
    /// waits for that.
    ///
    /// # Errors
    ///
    /// `TimedOut` at once with a [timeout](Waiting::timeout) that is shorter than the wait; `Store` for a
    /// [mistake](StoreError::is_mistake), or if the store fails with [`fail_waiting`](Self::fail_waiting) or with
    /// a timeout that ends before the next attempt; `QueueFull`; `Closed` after a [`shutdown`](Self::shutdown);
    /// `ExceedsCapacity` as for [`acquire_many`](Self::acquire_many).
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
    pub fn acquire(
        &self,
    ) -> Waiting<impl Future<Output = Result<Charges, AcquireError>> + Send + use<>> {
        self.acquire_many(1)
    }

    /// Acquires `n` units of each limit together, and waits for them.
    ///
    /// # Cancel safety
    ///
    /// See [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// The errors of [`acquire`](Self::acquire); `ExceedsCapacity`, with the smallest burst as the
    /// [capacity](AcquireError::capacity), if `n` is more.
    pub fn acquire_many(
        &self,
        n: u64,
    ) -> Waiting<impl Future<Output = Result<Charges, AcquireError>> + Send + use<>> {
        Waiting::new(Arc::clone(&self.shared).acquire(n))
    }

    /// Charges all limits or none. Charges that the caller does not take are refunded.
    async fn taken(&self, n: u64) -> Result<Outcome, StoreError> {
        // A shutdown waits for the call, and for its refund.
        let (this, token) = (Arc::clone(&self.shared), self.shared.tasks.token());
        let call = self
            .parts()
            .call_each("take", n)
            .on_abandoned(move |value| {
                let outcome = this.limit.parts.outcome(n, &value);
                if let Some(charges) = outcome.ok().and_then(Outcome::into_charges) {
                    this.refund_later(vec![Step::Admitted(charges)]);
                }
                drop(token);
            });
        let read = async { self.parts().outcome(n, &call.await?) };
        let outcome = self.shared.breaker.guard(read).await?;
        if outcome.is_admitted() {
            self.shared.limit.common.shares.charge(n);
        }
        Ok(outcome)
    }

    /// Refunds the charges that are not paid off. For each limit, the accuracy is that of
    /// [`RateLimiter::refund`](crate::RateLimiter::refund).
    ///
    /// Use the set that made the charges: another set has other keys.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped after its first poll, the refund continues in the background.
    ///
    /// # Errors
    ///
    /// The failure of the store. The charges then stay, and time pays them off.
    pub async fn refund(&self, charges: Charges) -> Result<(), StoreError> {
        // Those of another set may be too few or too many.
        if !charges.tickets.is_empty() && !self.shared.limit.has_made(&charges) {
            return Err(StoreError::Script);
        }
        self.shared.refund(Step::Admitted(charges)).await
    }

    /// Returns what this set and its clones have done. A call of a set is one call, however many limits the set has;
    /// `turns` are those of all its limits. With the feature `metrics`, `LimitStatistics::record` reports it.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(limits: tollgate_redis::LimitSet) -> Result<(), Box<dyn std::error::Error>> {
    /// limits.acquire().await?;
    /// let statistics = limits.statistics();
    /// println!("{} admitted, {} wait", statistics.admitted, statistics.waiting);
    /// # Ok(())
    /// # }
    /// ```
    pub fn statistics(&self) -> LimitStatistics {
        let mut all = self.shared.limit.common.counters.snapshot();
        for limiter in self.shared.limit.limiters() {
            let of_limit = limiter.statistics();
            all.turns += of_limit.turns;
            all.unused_turns += of_limit.unused_turns;
        }
        all
    }

    /// Returns the number of units whose refund in the background, for callers that have left, failed or is
    /// uncertain: the store failed, more than 65,536 refunds waited, or another set made the charges. These
    /// units stay charged, and time pays them off. Clones share one count.
    ///
    /// Refunds that the server received and ignored are not counted, as for
    /// [`RateLimiter::unrefunded`](crate::RateLimiter::unrefunded).
    pub fn unrefunded(&self) -> u64 {
        self.shared.limit.common.refunds.lost()
    }

    /// Rejects all callers that wait and all later ones that would, and waits until their turns, and the calls
    /// and the refunds of callers that have left, are sent. Clones are closed, too. A caller that has turns of
    /// some limits, and is neither polled nor dropped, keeps them: the call does not wait for it.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the set stays closed, and the rest continues in the background.
    pub async fn shutdown(&self) {
        self.shared.close();
        let tasks = &self.shared.tasks;
        tasks.close();
        tasks.wait().await;
        // After the tasks, which give charges back to these.
        for limiter in self.shared.limit.limiters() {
            limiter.shutdown().await;
        }
    }
}

impl Throttle for LimitSet {
    type Permit = Charges;
    type Enter = Pin<Box<dyn Future<Output = Result<Charges, AcquireError>> + Send>>;

    fn enter(&self) -> Waiting<Self::Enter> {
        Waiting::new(Box::pin(Arc::clone(&self.shared).acquire(1)))
    }

    fn rollback(&self, charges: Charges) {
        self.shared.refund_later(vec![Step::Admitted(charges)]);
    }
}

impl fmt::Debug for LimitSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.parts().each.iter().map(|part| &part.key);
        f.debug_list().entries(keys).finish()
    }
}
