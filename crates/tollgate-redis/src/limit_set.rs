//! [`LimitSet`]: several limits in one call, all or none; [`Outcome`]: the decision about them; and
//! [`Charges`]: the charges of that decision.

use std::convert::identity;
use std::fmt;
use std::future::Future;
use std::iter::repeat;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{ToRedisArgs, Value};
use tokio::sync::Mutex;
use tollgate::wait::Waiting;
use tollgate::{AcquireError, Algorithm, Decision, Quota, Throttle};

use crate::error::StoreError;
use crate::keys;
use crate::rate::{Charge, RateLimiter, Reply, Rule, jittered};
use crate::refunds::{Refund, Refunds};
use crate::script::{LIMIT_SET, MOST, slot};
use crate::store::{Call, LimitBreaker, Store, joined};

/// Several limits that are decided in one call, at one moment: the call charges all of them, or
/// none.
///
/// A set does not combine calls, prefetches no tokens, has no fallback, and does not cache denials:
/// every call reaches the server.
///
/// A set is cheap to clone. Its limits are [`RateLimiter`](crate::RateLimiter)s of the same names, so
/// each can be used by itself as well, with the same quota and algorithm.
///
/// # Order
///
/// There is no order: a waiter retries when the limit that lacked most may have enough, and then the
/// first call that reaches the server is admitted first. If that limit has a line of
/// [turns](crate::RateLimiter#order), one waiter of the set at a time reserves a turn there, and charges the other
/// limits when it is due; if one of these refuses then, the turn is unused. With a [jitter](Self::jitter) the
/// processes of a fleet that were denied together do not retry together. For an order within the
/// process put a [`RateLimiter`](crate::RateLimiter) or a [`Semaphore`](tollgate::Semaphore) in
/// front, with [`all`](tollgate::all).
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
    store: Store,
    parts: Arc<Vec<Part>>,
    jitter: Duration,
    breaker: Arc<LimitBreaker>,
    /// Shared by this set and its clones, which have the same parts.
    refunds: Arc<Refunds<Charges>>,
    /// Held by the waiter that has a turn.
    turn: Arc<Mutex<()>>,
}

#[derive(Clone)]
struct Part {
    key: String,
    rule: Rule,
    quota: Quota,
}

impl LimitSet {
    /// Creates an empty set, which admits every call. Makes no call of the store.
    pub fn new(store: &Store) -> Self {
        Self {
            store: store.clone(),
            parts: Arc::default(),
            jitter: Duration::ZERO,
            breaker: Arc::new(store.limit_breaker()),
            refunds: Arc::default(),
            turn: Arc::default(),
        }
    }

    pub(crate) fn push(&mut self, key: String, rule: Rule, quota: Quota) {
        Arc::make_mut(&mut self.parts).push(Part { key, rule, quota });
        // Those of an earlier clone are about other limits.
        self.breaker = Arc::new(self.store.limit_breaker());
        self.refunds = Arc::default();
        self.turn = Arc::default();
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
    pub fn limit_by(mut self, algorithm: Algorithm, name: impl Into<String>, quota: Quota) -> Self {
        let key = keys::rate(&name.into());
        let rule = Rule::of(quota, algorithm);
        if let Some(first) = self.parts.first().filter(|_| self.store.is_cluster()) {
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
        self.push(key, rule, quota);
        self
    }

    /// Adds a random delay of at most `max` to the time at which a waiter retries, so that the
    /// processes of a fleet do not all retry at once. The default is zero.
    #[must_use]
    pub fn jitter(mut self, max: Duration) -> Self {
        self.jitter = max;
        self
    }

    /// Returns the [key](crate#keys-on-the-server) of the limit that was added at this index.
    ///
    /// # Panics
    ///
    /// Panics if there are fewer limits.
    #[track_caller]
    pub fn key(&self, index: usize) -> &str {
        &self.parts[index].key
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
        let fits = self.parts.iter().all(|part| n <= part.rule.burst);
        if fits {
            return self.taken(n, None).await;
        }
        // The call is never admitted, but the outcome shows the state of the limits.
        Ok(Outcome {
            decisions: self.peek(n).await?,
            charges: None,
        })
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
        let value = self.call("peek", repeat(n.min(MOST))).await?;
        Ok(self.outcome(n, &value)?.decisions)
    }

    /// Acquires one unit of each limit, and waits for them.
    ///
    /// Waits in no [order](Self#order). It calls the server at once, and again whenever there may
    /// be enough.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped during a call of the server, the charges are refunded in the
    /// background when the reply arrives, with the accuracy of [`refund`](Self::refund), in the order in
    /// which this process notices the replies. If the refund fails, they stay, and are
    /// [counted](Self::unrefunded); time pays them off. A set has no `shutdown`: refunds that wait when
    /// the runtime or the process ends are lost.
    ///
    /// # Errors
    ///
    /// `TimedOut` at once with a [timeout](Waiting::timeout) that is shorter than the wait; `Store`
    /// if the store fails; `ExceedsCapacity` as for [`acquire_many`](Self::acquire_many).
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
    /// See [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// The errors of [`acquire`](Self::acquire); `ExceedsCapacity`, with the smallest burst as the
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
        let begin = Instant::now();
        let most = timeout.unwrap_or(Duration::MAX);
        loop {
            let outcome = self.taken(n, None).await?;
            let wait = outcome.retry_after().unwrap_or(Duration::MAX);
            if let Some(charges) = outcome.charges {
                return Ok(charges);
            }
            if timeout.take().is_some_and(|timeout| wait > timeout) {
                return Err(AcquireError::would_take(wait));
            }
            let Some(index) = self.behind(n, &outcome) else {
                self.store.sleep(jittered(wait, self.jitter)).await?;
                continue;
            };
            let _alone = self.turn.lock().await;
            let left = most.saturating_sub(begin.elapsed());
            if let Some(charges) = self.taken_in_turn(n, index, left).await? {
                return Ok(charges);
            }
        }
    }

    /// Returns the limit that lacks most, if the call would have to stand in a line of turns there, where a call that only
    /// asks never finds anything.
    fn behind(&self, n: u64, outcome: &Outcome) -> Option<usize> {
        let waits = outcome.decisions.iter().enumerate();
        let (index, decision) = waits.max_by_key(|(_, decision)| decision.retry_after)?;
        let rule = &self.parts[index].rule;
        let alone = rule.lasting(n.into()) + Duration::from_micros(1);
        (rule.is_reserved() && decision.retry_after? > alone).then_some(index)
    }

    /// Reserves a turn of one limit, and charges the others when it is due. `None` if one of them refuses; then the turn is
    /// lost.
    async fn taken_in_turn(
        &self,
        n: u64,
        index: usize,
        most: Duration,
    ) -> Result<Option<Charges>, AcquireError> {
        let Part { key, quota, .. } = &self.parts[index];
        let limiter = RateLimiter::with_key(&self.store, key.clone(), *quota);
        let reserved = limiter.reserve_many(n, most).await;
        let reserved = reserved.map_err(|error| match error.retry_after() {
            Some(wait) => AcquireError::would_take(wait),
            None => error,
        })?;
        let mut turn = Turn(Some(reserved.ready().await?), limiter);
        let outcome = self.taken(n, Some(index)).await?;
        let Some(mut charges) = outcome.charges else {
            return Ok(None);
        };
        if let Some(ticket) = turn.0.take().and_then(|charge| charge.ticket()) {
            charges.tickets[index] = ticket;
        }
        Ok(Some(charges))
    }

    /// Charges all limits or none, without the one that has been charged already. Charges that the caller does not take
    /// are refunded.
    async fn taken(&self, n: u64, charged: Option<usize>) -> Result<Outcome, StoreError> {
        let this = self.clone();
        let costs = (0..).map(|index| if Some(index) == charged { 0 } else { n });
        let call = self.call("take", costs).on_abandoned(move |value| {
            let outcome = this.outcome(n, &value);
            if let Some(charges) = outcome.ok().and_then(Outcome::into_charges) {
                this.refund_later(charges.without(charged));
            }
        });
        let read = async { self.outcome(n, &call.await?) };
        let mut outcome = self.breaker.guard(read).await?;
        outcome.charges = outcome.charges.map(|charges| charges.without(charged));
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
        if !self.has_made(&charges) {
            return Err(StoreError::Script);
        }
        let this = self.clone();
        let given = async move { this.give(vec![charges]).await };
        joined(self.store.runtime().spawn(given).await).and_then(identity)
    }

    /// Returns the number of units whose refund in the background, for callers that have left, failed or is
    /// uncertain: the store failed, more than 65,536 refunds waited, or another set made the charges. These
    /// units stay charged, and time pays them off. Clones share one count.
    ///
    /// Refunds that the server received and ignored are not counted, as for
    /// [`RateLimiter::unrefunded`](crate::RateLimiter::unrefunded).
    pub fn unrefunded(&self) -> u64 {
        self.refunds.lost()
    }

    fn refund_later(&self, charges: Charges) {
        if !self.has_made(&charges) {
            self.refunds.lose(charges.cost);
        } else if self.refunds.add([charges]) {
            let this = self.clone();
            let sends = async move { this.refunds.send(|all| this.give(all)).await };
            drop(self.store.runtime().spawn(sends));
        }
    }

    /// Returns whether this set can have made these charges: those of another set may be too few.
    fn has_made(&self, charges: &Charges) -> bool {
        charges.tickets.len() >= self.parts.len()
    }

    async fn give(&self, all: Vec<Charges>) -> Result<(), StoreError> {
        let arguments = (0..self.parts.len()).map(|index| {
            let each = all.iter().flat_map(|charges| {
                let [position, made, at] = charges.tickets[index];
                [charges.cost, position, made, at]
            });
            each.collect::<Vec<u64>>()
        });
        self.call("give", arguments).await.map(drop)
    }

    /// Calls the script with an operation, and these arguments for each limit.
    pub(crate) fn call(
        &self,
        what: &str,
        arguments: impl IntoIterator<Item = impl ToRedisArgs>,
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

    /// Decodes the reply to a call of cost `n`.
    pub(crate) fn outcome(&self, n: u64, value: &Value) -> Result<Outcome, StoreError> {
        let replies = Reply::read_each(value)?;
        if replies.len() != self.parts.len() {
            return Err(StoreError::Unknown);
        }
        let decisions = self.parts.iter().zip(&replies);
        let decisions = decisions.map(|(Part { rule, .. }, reply)| {
            let mut decision = reply.decision(rule.burst);
            if n > rule.burst {
                decision.retry_after = None;
            }
            decision
        });
        let is_charged = replies.iter().all(|reply| reply.done == 1);
        Ok(Outcome {
            decisions: decisions.collect(),
            charges: is_charged.then(|| Charges {
                cost: n,
                work: self.parts.iter().map(|part| part.rule.work(n)).sum(),
                tickets: replies
                    .iter()
                    .map(|it| [it.position, it.made, it.now])
                    .collect(),
            }),
        })
    }
}

/// The decision of a [`LimitSet`]: whether all limits were charged, and the state of each.
///
/// Dropping it keeps the charges.
///
/// # Examples
///
/// ```no_run
/// use tollgate::Quota;
/// use tollgate_redis::{LimitSet, Store};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let store = Store::new("redis://127.0.0.1/")?;
/// let limits = LimitSet::new(&store).limit("{acme}:all", Quota::per_minute(1000));
/// let outcome = limits.try_acquire().await?;
/// let least = outcome.decisions().iter().map(|decision| decision.remaining).min();
/// if outcome.is_admitted() {
///     println!("{least:?} are left");
/// } else {
///     println!("again in {:?}", outcome.retry_after());
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "it says whether the call is admitted"]
#[derive(Debug)]
pub struct Outcome {
    /// `None` if the call was denied.
    charges: Option<Charges>,
    decisions: Vec<Decision>,
}

/// The charges of a [`LimitSet`] for a call. They are plain data, like a [`Charge`](crate::Charge):
/// dropping them keeps the charges; [`refund`](LimitSet::refund) refunds them.
#[derive(Debug)]
pub struct Charges {
    cost: u64,
    /// What a refund is for the server.
    work: u64,
    /// The position of each charge, the key's identity, and the microsecond of the server's clock.
    tickets: Vec<[u64; 3]>,
}

/// A charge whose turn has come; it is refunded if the call does not use it.
struct Turn(Option<Charge>, RateLimiter);

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(charge) = self.0.take() {
            self.1.refund_later(charge);
        }
    }
}

impl Outcome {
    /// Returns whether all limits were charged; otherwise none was.
    pub fn is_admitted(&self) -> bool {
        self.charges.is_some()
    }

    /// Returns the indices of the limits that denied the call, in the order in which they were
    /// added.
    pub fn violated(&self) -> impl Iterator<Item = usize> {
        let decisions = self.decisions.iter().enumerate();
        decisions
            .filter(|(_, decision)| decision.retry_after != Some(Duration::ZERO))
            .map(|(index, _)| index)
    }

    /// Returns the state of each limit after the charge, if there was one, in the order in which
    /// the limits were added, for the headers of a response.
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// Returns the time after which the limit that lacks most may have enough. Before that, the call is
    /// denied again; after it, it may be denied if other calls were faster.
    ///
    /// It is zero if all limits were charged, and `None` if a limit can never admit the cost. It is exact to the microsecond of the server's clock, without the
    /// [jitter](LimitSet::jitter).
    pub fn retry_after(&self) -> Option<Duration> {
        let mut waits = self.decisions.iter().map(|decision| decision.retry_after);
        waits.try_fold(Duration::ZERO, |longest, wait| Some(longest.max(wait?)))
    }

    /// Returns the charges, if all limits were charged.
    pub fn into_charges(self) -> Option<Charges> {
        self.charges
    }
}

/// In the order of the first limit.
impl Refund for Charges {
    /// A key that is created later has a greater number.
    type Order = Option<(u64, u64)>;

    fn order(&self) -> Self::Order {
        self.tickets
            .first()
            .map(|[position, made, _]| (*made, *position))
    }

    fn units(&self) -> u64 {
        self.cost
    }

    fn work(&self) -> u64 {
        self.work
    }
}

impl Charges {
    /// Returns the charges without the one of that limit, which refunds nothing.
    fn without(mut self, index: Option<usize>) -> Self {
        if let Some(index) = index {
            self.tickets[index] = [0; 3];
        }
        self
    }

    /// Returns the cost that was charged to each limit.
    pub fn cost(&self) -> u64 {
        self.cost
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
        self.refund_later(charges);
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
