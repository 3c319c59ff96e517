//! [`RateLimiter`]: the construction and the options of a rate limit on a server.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tollgate::rate::Oversize;
use tollgate::{Algorithm, Quota};

use super::charging::{Charging, Common};
use super::denied::DeniedCache;
use super::options::Options;
use super::prefetch::{Batches, Prefetch};
use super::rule::Rule;
use super::state::{Rate, RateState, Shared};
use super::turns::Turns;
use crate::fallback::Fallback;
use crate::keys;
use crate::queue::{LimitCounters, LimitStatistics};
use crate::refunds::Refunds;
use crate::script::MOST;
use crate::store::Store;
use crate::unique::unique;

/// A rate limit that a server keeps under a name, for all processes that use that name.
///
/// The server decides, by its own clock, in one round trip. Calls that arrive while a request is in
/// flight are combined into the next one, in their order; so a hot key needs few requests. After a denial,
/// calls of that cost or more are denied without a request until the time at which the denial ends.
///
/// A limiter is cheap to clone, and clones are the same limiter. Other limiters with the same
/// name, in this process or another one, share only the name, so they may have other quotas.
///
/// # Order
///
/// First-in first-out within a limiter, among the calls of one cost. With GCRA and at least one unit in 5 seconds, the
/// server reserves a *turn* for each call that has to wait, in the request that finds nothing: the microsecond at which the
/// call is due, which is charged then. The process sends nothing until that time, and admits the call. Processes get equal
/// shares, whatever their distance to the server: each holds at most its part of what the rate admits within the
/// [`horizon`](Self::horizon), and at least one turn. A waiter that leaves passes its turn to the next waiter of the same
/// cost, in this process or another one. Turns count as used in `try_acquire` and `remaining`.
///
/// With other algorithms and slower limits, waiters ask again when there may be enough, and the first request that reaches
/// the server then is admitted.
///
/// # Runtime
///
/// Turns are driven by a task of the store's [runtime](crate::Store#runtime). If that runtime ends, waiters fail with
/// [`NoRuntime`](crate::StoreError::NoRuntime), and their turns stay charged.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
/// use tollgate::Quota;
/// use tollgate_redis::{RateLimiter, Store};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Store::new("redis://127.0.0.1/")?;
/// let user = RateLimiter::new(&store, "requests:42", Quota::per_minute(100).burst(10));
///
/// user.acquire().timeout(Duration::from_secs(2)).await?;
/// if let Err(refused) = user.try_acquire_many(5).await {
///     println!("again in {:?}", refused.retry_after());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RateLimiter {
    handle: Arc<Handle>,
}

/// Dropped with the last clone.
#[derive(Debug)]
struct Handle(Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        // In that case the driver returns prefetched tokens.
        self.0.state().own.is_abandoned = true;
        self.0.notify();
    }
}

impl RateLimiter {
    /// Creates the limit with this name. Makes no call.
    ///
    /// # Panics
    ///
    /// Panics if a script cannot count this quota: its burst times its period, in microseconds, is
    /// more than 2^52, and no common divisor reduces it enough.
    #[track_caller]
    pub fn new(store: &Store, name: impl Into<String>, quota: Quota) -> Self {
        Self::with_key(store, keys::rate(&name.into()), quota)
    }

    #[track_caller]
    pub(crate) fn with_key(store: &Store, key: String, quota: Quota) -> Self {
        let options = Options::default();
        Self::made(store.clone(), key, quota, options, Arc::default())
    }

    #[track_caller]
    fn made(
        store: Store,
        key: String,
        quota: Quota,
        options: Options,
        counters: Arc<LimitCounters>,
    ) -> Self {
        let rule = Rule::of(quota, options.algorithm);
        let prefetch = options.prefetch;
        let rate = Rate {
            key,
            id: unique() % MOST,
            prefetch: prefetch
                .map(|(chunk, hold)| Prefetch::new(chunk, hold, rule.burst, store.time().clock())),
            common: Common {
                options,
                shares: options.shares([(quota, options.algorithm)]),
                refunds: Refunds::default(),
                counters: Arc::clone(&counters),
            },
        };
        let state = RateState {
            is_abandoned: false,
            quota,
            rule,
            denied: DeniedCache::default(),
            batches: Batches::default(),
            turns: Turns::new(Arc::clone(&counters)),
        };
        Self {
            handle: Arc::new(Handle(Arc::new(Shared::new(store, rate, state)))),
        }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.handle.0
    }

    /// Returns a limiter on the same store, with the same quota.
    #[track_caller]
    fn beside(&self, key: String, options: Options) -> Self {
        let Shared { store, limit, .. } = &**self.shared();
        let counters = Arc::clone(&limit.common.counters);
        Self::made(store.clone(), key, self.quota(), options, counters)
    }

    #[track_caller]
    fn with(self, change: impl FnOnce(&mut Options)) -> Self {
        let mut options = self.shared().limit.common.options;
        change(&mut options);
        self.beside(self.key().to_owned(), options)
    }

    /// Returns a limiter like this one, for one of many keys.
    pub(crate) fn of_key(&self, key: &str) -> Self {
        let key = keys::keyed(self.key(), key);
        self.beside(key, self.shared().limit.common.options)
    }

    /// Returns whether this is the only handle, and another limiter of the key would decide in the same way.
    pub(crate) fn is_at_rest(&self) -> bool {
        let Handle(shared) = &*self.handle;
        // Whoever waits, calls or refunds has a reference to the state.
        let is_alone = Arc::strong_count(&self.handle) == 1 && Arc::strong_count(shared) == 1;
        is_alone
            && shared.breaker.is_closed()
            && shared.limit.common.refunds.lost() == 0
            && shared.limit.common.shares.are_unused()
            && {
                let state = shared.state();
                !state.closed && state.own.is_at_rest(self.shared().now())
            }
    }

    /// Sets the algorithm, which is GCRA by default.
    ///
    /// Algorithms that keep a debt (`Gcra`, `TokenBucket`, `FixedWindow`, `SubInterval`) can
    /// replace each other under a name. The others need a name of their own.
    ///
    /// # Panics
    ///
    /// Panics if the quota does not fit the algorithm, see [`Algorithm::check`]; if a script cannot
    /// count it, or there is no script for the algorithm; and for a log, if the count is more than
    /// 65,536.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use tollgate::{Algorithm, Quota};
    /// use tollgate_redis::RateLimiter;
    ///
    /// # async fn example(store: tollgate_redis::Store) {
    /// let mails = RateLimiter::new(&store, "mails:42", Quota::per_day(500))
    ///     .algorithm(Algorithm::SlidingLog);
    /// # }
    /// ```
    #[must_use]
    #[track_caller]
    pub fn algorithm(self, algorithm: Algorithm) -> Self {
        self.with(|options| options.algorithm = algorithm)
    }

    /// Sets the behavior while the store cannot decide. By default every call gets the error.
    ///
    /// # Panics
    ///
    /// Panics if the share of a [`Local`](Fallback::Local) is 0, or too small for the algorithm.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use tollgate::Quota;
    /// use tollgate_redis::{Fallback, RateLimiter};
    ///
    /// # async fn example(store: tollgate_redis::Store) {
    /// // Four processes: each continues with a quarter of the quota while the server is away.
    /// let calls = RateLimiter::new(&store, "calls", Quota::per_second(100).burst(20))
    ///     .fallback(Fallback::Local { share: 4 });
    /// # }
    /// ```
    #[must_use]
    #[track_caller]
    pub fn fallback(self, fallback: Fallback) -> Self {
        self.with(|options| options.fallback = fallback)
    }

    /// Sets the handling of a call for more than the burst. By default it is rejected.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use tollgate::Quota;
    /// use tollgate::rate::Oversize;
    /// use tollgate_redis::RateLimiter;
    ///
    /// # async fn example(store: tollgate_redis::Store) {
    /// // A file larger than the burst is admitted too; the files after it wait longer.
    /// let bytes = RateLimiter::new(&store, "bytes", Quota::per_second(1_000_000).burst(65_536))
    ///     .oversize(Oversize::Overdraft);
    /// # }
    /// ```
    #[must_use]
    pub fn oversize(self, oversize: Oversize) -> Self {
        self.with(|options| options.oversize = oversize)
    }

    /// Adds a random delay of at most `max` to the time of the next request for waiters, and to the
    /// `retry_after` of denials, so that the processes of a fleet do not all retry at once. The
    /// default is zero. Waiters with [turns](Self#order) need none, and get none.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use tollgate::Quota;
    /// use tollgate_redis::RateLimiter;
    ///
    /// # async fn example(store: tollgate_redis::Store) {
    /// let calls = RateLimiter::new(&store, "calls", Quota::per_minute(100))
    ///     .jitter(Duration::from_millis(200));
    /// # }
    /// ```
    #[must_use]
    pub fn jitter(self, max: Duration) -> Self {
        self.with(|options| options.jitter = max)
    }

    /// Sets the maximum number of calls that wait in this process, without a maximum by default. A further call that
    /// would have to wait gets `QueueFull`: at once while others have [turns](Self#order) or a denial is
    /// [trusted](Self::recheck), and otherwise with the reply of the server or the failure of the call, also in an
    /// outage. Calls that wait for their first reply may be more. Calls that try are not counted. In an outage that
    /// is known, a [fallback](Self::fallback) that admits the call comes first.
    #[must_use]
    pub fn max_waiters(self, max_waiters: usize) -> Self {
        self.with(|options| options.max_waiters = max_waiters)
    }

    /// Sets the maximum time for which a denial is trusted, one second by default. After that the server is called
    /// again. So if another process refunds a charge, or a key is deleted, this process notices it within that
    /// time. A process whose waiters have [turns](Self#order) that are more than 5 seconds away asks after 5 seconds, or
    /// after a tenth of what is left if that is longer, whether it can be earlier.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use tollgate::Quota;
    /// use tollgate_redis::RateLimiter;
    ///
    /// # async fn example(store: tollgate_redis::Store) {
    /// // At most one request a minute for a denied key.
    /// let exports = RateLimiter::new(&store, "exports:42", Quota::per_day(10))
    ///     .recheck(Duration::from_secs(60));
    /// # }
    /// ```
    #[must_use]
    pub fn recheck(self, max: Duration) -> Self {
        self.with(|options| options.recheck = max)
    }

    /// Sets how far ahead the waiters of all processes together reserve their turns, 250 milliseconds by default: each
    /// process holds at most what the rate admits within this time, divided by the number of processes that hold turns, but
    /// at least one turn.
    ///
    /// It should be ten times the longest round trip: a process with a round trip of 100 milliseconds gets its share with
    /// one second. With a longer one there are fewer requests, and more turns stay unused when a process dies. All processes
    /// should have the same horizon.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use tollgate::Quota;
    /// use tollgate_redis::RateLimiter;
    ///
    /// # async fn example(store: tollgate_redis::Store) {
    /// // The server is on another continent.
    /// let calls = RateLimiter::new(&store, "calls", Quota::per_second(100))
    ///     .horizon(Duration::from_secs(1));
    /// # }
    /// ```
    #[must_use]
    pub fn horizon(self, horizon: Duration) -> Self {
        self.with(|options| options.horizon = horizon)
    }

    /// Returns the errors of the store to callers that wait, too. By default only calls that ask for an answer
    /// now get them, such as [`try_acquire`](Self::try_acquire), and those whose
    /// [timeout](tollgate::wait::Waiting::timeout) ends before the next attempt. A caller that waits keeps its
    /// place and its timeout through an outage, and is admitted when the server is back, or earlier by the
    /// [fallback](Self::fallback). [Mistakes](crate::StoreError::is_mistake) are always errors.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use tollgate::Quota;
    /// use tollgate_redis::RateLimiter;
    ///
    /// # async fn example(store: tollgate_redis::Store) {
    /// // Fails within the deadline of a call when the server is gone.
    /// let calls = RateLimiter::new(&store, "calls", Quota::per_second(100)).fail_waiting();
    /// # }
    /// ```
    #[must_use]
    pub fn fail_waiting(self) -> Self {
        self.with(|options| options.fail_waiting = true)
    }

    /// Sets whether concurrent calls share a request, as they do by default.
    #[must_use]
    pub fn coalesce(self, coalesce: bool) -> Self {
        self.with(|options| options.coalesce = coalesce)
    }

    /// Takes up to `chunk` tokens in advance while the server has that many to spare, and decides
    /// with them without a call. Each token is held for at most `hold`.
    ///
    /// Unused tokens are returned in the background, also when the last clone is dropped; but not
    /// if the process ends at once, so await [`shutdown`](Self::shutdown) before that. After a
    /// chunk was returned, another one may be taken without a call in between. A server rarely has a chunk to
    /// spare if the chunk is nearly as large as the burst.
    ///
    /// The limit holds by the times at which the server charged. [`Charge::at`](super::Charge::at)
    /// is the last such time of this process, perhaps of a later chunk. By the times at which `p`
    /// processes admit callers, the bound in any time `w` is burst + rate·`w` + min(`p·chunk`,
    /// rate·`hold`). Tokens that a process holds are not available to others, and those of a
    /// process that dies stay charged.
    ///
    /// # Panics
    ///
    /// Panics if `chunk` is 0, more than the burst, or more than 4 million (2^22); or if `hold` is
    /// zero.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use tollgate::Quota;
    /// use tollgate_redis::{RateLimiter, Store};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = Store::new("redis://127.0.0.1/")?;
    /// let hot = RateLimiter::new(&store, "hot", Quota::per_second(50_000).burst(10_000))
    ///     .prefetch(500, Duration::from_millis(100));
    ///
    /// hot.acquire().await?;
    /// hot.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    #[track_caller]
    pub fn prefetch(self, chunk: u64, hold: Duration) -> Self {
        let burst = self.shared().state().own.rule.burst;
        assert!(
            (1..=burst).contains(&chunk),
            "a chunk of {chunk} is not between 1 and the burst of {burst}"
        );
        assert!(chunk <= 1 << 22, "a chunk of {chunk} is more than 2^22");
        assert!(hold > Duration::ZERO, "tokens cannot be held for {hold:?}");
        self.with(|options| options.prefetch = Some((chunk, hold)))
    }

    /// Sets the quota, which this limiter sends to the server with its next call.
    ///
    /// The debt does not change: it is the same number of tokens as before. With GCRA and the
    /// sliding window, another period converts the state on the server, and a charge from before cannot
    /// be [refunded](Self::refund) any more; newer charges can.
    ///
    /// # Panics
    ///
    /// Panics in the cases of [`new`](Self::new) and [`algorithm`](Self::algorithm).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use tollgate::Quota;
    ///
    /// # async fn example(limiter: tollgate_redis::RateLimiter) -> Result<(), Box<dyn std::error::Error>> {
    /// limiter.set_quota(Quota::per_second(100).burst(20));
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn set_quota(&self, quota: Quota) {
        if self.quota() == quota {
            return;
        }
        let shared = self.shared();
        let options = &shared.limit.common.options;
        let rule = Rule::of(quota, options.algorithm);
        let shares = options.shares([(quota, options.algorithm)]);
        {
            let state = &mut shared.state().own;
            (state.quota, state.rule) = (quota, rule);
            Rate::forget(state);
        }
        shared.limit.common.shares.follow(&shares);
        if let Some(prefetch) = &shared.limit.prefetch {
            prefetch.burst.store(rule.burst, Ordering::Relaxed);
        }
        shared.notify();
    }

    /// Returns the quota.
    pub fn quota(&self) -> Quota {
        self.shared().state().own.quota
    }

    /// Returns the [key](crate#keys-on-the-server), which is the name unless the name contains special
    /// characters.
    pub fn key(&self) -> &str {
        &self.shared().limit.key
    }

    /// Returns the number of calls that wait in this process, including those that are being
    /// decided.
    pub fn waiting(&self) -> usize {
        let state = self.shared().state();
        state.queue.len() + state.own.turns.waiters()
    }

    /// Returns what this limiter and its clones have done, and all limiters that were made from it: by an option, or for the
    /// keys of a [`Keyed`](crate::Keyed). A snapshot; with the feature `metrics`, `LimitStatistics::record` reports it.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(limiter: tollgate_redis::RateLimiter) -> Result<(), Box<dyn std::error::Error>> {
    /// limiter.acquire().await?;
    /// let statistics = limiter.statistics();
    /// println!("{} admitted, {} by the fallback", statistics.admitted, statistics.fallbacks);
    /// # Ok(())
    /// # }
    /// ```
    pub fn statistics(&self) -> LimitStatistics {
        self.shared().limit.common.counters.snapshot()
    }

    /// Returns the number of units whose refund in the background failed or is uncertain, because the store
    /// failed or more than 65,536 refunds waited. Such refunds are those for callers that have left, and for
    /// prefetched tokens that were not used. Prefetched tokens of a charge that is refunded too late, 16
    /// batches after its own was used up, are also counted. All of these units stay charged, and time pays
    /// them off.
    ///
    /// Refunds that the server received and ignored are not counted: time has paid the charge off, the server
    /// has lost the key since, its clock was set back, or the [quota has changed](Self::set_quota).
    pub fn unrefunded(&self) -> u64 {
        self.shared().limit.common.refunds.lost()
    }

    /// Closes the limiter in this process: every waiter and every later call gets `Closed`.
    pub fn close(&self) {
        self.shared().close();
    }

    /// [Closes](Self::close) the limiter, and waits until everything has been returned to the
    /// server: [prefetched](Self::prefetch) tokens, and charges of callers that have left. If the
    /// store fails, the rest stays charged, and is [counted](Self::unrefunded).
    ///
    /// The calls are made one after the other, and each ends by the [deadline](crate::Store::deadline);
    /// the first failure of the store ends the wait. One call refunds up to 1,024 charges, of a sliding
    /// log up to 1,024 units. So 65,536 waiting refunds of single units are 64 calls: about 3 seconds at
    /// most with the default deadline.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the limiter is closed, and the rest is returned in the background.
    pub async fn shutdown(&self) {
        self.close();
        let tasks = &self.shared().tasks;
        tasks.close();
        tasks.wait().await;
    }

    /// Returns whether the limiter was [closed](Self::close).
    pub fn is_closed(&self) -> bool {
        self.shared().state().closed
    }
}
