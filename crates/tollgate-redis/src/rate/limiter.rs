//! [`RateLimiter`]: at most so many in a time, over all machines.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tollgate::{Algorithm, Oversize, Quota};

use super::core::{Core, Options};
use super::fallback::{Fallback, stand_in};
use super::rule::Rule;
use crate::store::Store;

/// A rate limit that is kept on a server, under a key, and so holds for all who use that key.
///
/// The server decides, by its own clock, in one trip. Callers in this process who come while a call
/// is on its way are put into the next one, in their order; so a hot key needs few calls. What
/// was denied until a time is denied without a call until then, but for what waits.
///
/// Cheap to clone; clones are the same limiter. Others of the same key, in this process or another
/// one, share nothing but the key; so the quota can be another one for each call.
///
/// # Order
///
/// First-in first-out within a limiter. Between processes, whoever asks first when there is enough.
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
#[derive(Clone)]
pub struct RateLimiter {
    handle: Arc<Handle>,
}

/// What all clones have, so that the last one is told from the others.
struct Handle {
    core: Arc<Core>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        // What was taken ahead goes back.
        self.core.abandoned.store(true, Ordering::Release);
        self.core.stirred.notify_one();
    }
}

impl RateLimiter {
    /// A limit under a key, which nothing else may use. Makes no call.
    ///
    /// # Panics
    ///
    /// If a script cannot count by this quota: its burst times its period, in microseconds, is more
    /// than 2^52, and they have no common divisor that helps.
    #[track_caller]
    pub fn new(store: &Store, key: impl Into<String>, quota: Quota) -> Self {
        let options = Options {
            algorithm: Algorithm::Gcra,
            fallback: Fallback::default(),
            oversize: Oversize::default(),
            jitter: Duration::ZERO,
            max_waiters: usize::MAX,
            coalesce: true,
            recheck: Duration::from_secs(1),
            ahead: None,
        };
        Self::made(store.clone(), key.into(), quota, options)
    }

    #[track_caller]
    fn made(store: Store, key: String, quota: Quota, options: Options) -> Self {
        let rule = Self::rule(quota, options.algorithm);
        let part = options.fallback.part(quota, options.algorithm);
        let stand_in = part.map(|part| stand_in(part, options.algorithm));
        Self {
            handle: Arc::new(Handle {
                core: Arc::new(Core::new(store, key, quota, rule, options, stand_in)),
            }),
        }
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        &self.handle.core
    }

    /// As this one, of a key behind its own.
    pub(super) fn of_key(&self, key: &str) -> Self {
        let core = &self.handle.core;
        let quota = core.state().quota;
        let key = format!("{}:{key}", core.key);
        Self::made(core.store.clone(), key, quota, core.options)
    }

    #[track_caller]
    fn rule(quota: Quota, algorithm: Algorithm) -> Rule {
        match Rule::new(quota, algorithm) {
            Ok(rule) => rule,
            Err(error) => panic!("{error}"),
        }
    }

    #[track_caller]
    fn with(self, change: impl FnOnce(&mut Options)) -> Self {
        let core = &self.handle.core;
        let mut options = core.options;
        change(&mut options);
        let quota = core.state().quota;
        Self::made(core.store.clone(), core.key.clone(), quota, options)
    }

    /// Decides by another algorithm than GCRA.
    ///
    /// A compact log is one like the other here. A key is of one algorithm: those that keep a debt
    /// (`Gcra`, `TokenBucket`, `FixedWindow`, `SubInterval`) can follow each other, and others need
    /// another key.
    ///
    /// # Panics
    ///
    /// If the quota is none for it, as [`Algorithm::check`] says; if a script cannot count by it;
    /// and for a log, if the count is more than 65,536.
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
    #[track_caller]
    pub fn algorithm(self, algorithm: Algorithm) -> Self {
        self.with(|options| options.algorithm = algorithm)
    }

    /// What to do while the store cannot decide. By default everybody gets the error.
    ///
    /// # Panics
    ///
    /// If the share of a [`Local`](Fallback::Local) is one of none, or too small for the algorithm.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use tollgate::Quota;
    /// use tollgate_redis::{Fallback, RateLimiter};
    ///
    /// # async fn example(store: tollgate_redis::Store) {
    /// // Four processes: each goes on by a quarter while the server is away.
    /// let calls = RateLimiter::new(&store, "calls", Quota::per_second(100).burst(20))
    ///     .fallback(Fallback::Local { share: 4 });
    /// # }
    /// ```
    #[track_caller]
    pub fn fallback(self, fallback: Fallback) -> Self {
        self.with(|options| options.fallback = fallback)
    }

    /// What to do with a call that asks for more than the burst. By default it is refused.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use tollgate::{Oversize, Quota};
    /// use tollgate_redis::RateLimiter;
    ///
    /// # async fn example(store: tollgate_redis::Store) {
    /// // A file that is larger than the burst goes too; those after it wait for longer.
    /// let bytes = RateLimiter::new(&store, "bytes", Quota::per_second(1_000_000).burst(65_536))
    ///     .oversize(Oversize::Overdraft);
    /// # }
    /// ```
    pub fn oversize(self, oversize: Oversize) -> Self {
        self.with(|options| options.oversize = oversize)
    }

    /// Adds up to so much, at random, to what the server said: asks later for whoever waits, and
    /// tells who is refused to come again later, so that a fleet does not come all at once. By
    /// default nothing.
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
    pub fn jitter(self, most: Duration) -> Self {
        self.with(|options| options.jitter = most)
    }

    /// How many may wait in this process; who would have to wait as well gets `QueueFull`, as soon as
    /// that is known.
    pub fn max_waiters(self, max_waiters: usize) -> Self {
        self.with(|options| options.max_waiters = max_waiters)
    }

    /// For how long a denial is believed, if it holds for longer: after that the server is asked
    /// again, for whoever waits and for whoever comes. By default one second. So what another process
    /// gives back, or a key that was deleted, is noticed within that time.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use tollgate::Quota;
    /// use tollgate_redis::RateLimiter;
    ///
    /// # async fn example(store: tollgate_redis::Store) {
    /// // A call a minute for each key that is denied, and no more.
    /// let exports = RateLimiter::new(&store, "exports:42", Quota::per_day(10))
    ///     .recheck(Duration::from_secs(60));
    /// # }
    /// ```
    pub fn recheck(self, most: Duration) -> Self {
        self.with(|options| options.recheck = most)
    }

    /// Whether callers who come together are asked for in one call, as they are by default.
    pub fn coalesce(self, coalesce: bool) -> Self {
        self.with(|options| options.coalesce = coalesce)
    }

    /// Takes up to `chunk` tokens ahead, as long as the server has as many to spare, and decides out
    /// of them without a call; holds each for at most `hold`, and gives back what is left of it, also
    /// when the last clone is dropped: in the background, so not if the process ends at once. Await
    /// [`shutdown`](Self::shutdown) before that. A chunk that was given back may be followed by another
    /// one, though nobody asked meanwhile. A chunk that is nearly the burst is hardly ever to spare.
    ///
    /// The limit holds by the times at which the server charged, of which [`Charge::at`](super::Charge::at) is the last
    /// one here, perhaps of a later chunk. By those at which
    /// `p` processes let callers go, it is at most burst + rate·`w` + min(`p·chunk`, rate·`hold`) in
    /// any time `w`, as what is held may be let go later. What is held is not there for others. A process
    /// that dies leaves what it held charged.
    ///
    /// # Panics
    ///
    /// If `chunk` is 0, more than the burst, or more than 4 million (2^22); or if `hold` is zero.
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
    ///     .ahead(500, Duration::from_millis(100));
    ///
    /// hot.acquire().await?;
    /// hot.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn ahead(self, chunk: u64, hold: Duration) -> Self {
        let burst = self.handle.core.state().rule.burst;
        assert!(
            (1..=burst).contains(&chunk),
            "a chunk of {chunk} is none of a burst of {burst}"
        );
        assert!(chunk <= 1 << 22, "a chunk of {chunk} is more than 2^22");
        assert!(hold > Duration::ZERO, "tokens cannot be held for {hold:?}");
        self.with(|options| options.ahead = Some((chunk, hold)))
    }

    /// Goes on by another quota, which this limiter tells the server with its next call.
    ///
    /// What was spent stays spent: as many tokens are owed as before.
    ///
    /// # Panics
    ///
    /// As [`new`](Self::new) and [`algorithm`](Self::algorithm).
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
        let core = &self.handle.core;
        let Options {
            algorithm,
            fallback,
            ..
        } = core.options;
        let rule = Self::rule(quota, algorithm);
        let part = fallback.part(quota, algorithm);
        let stand_in = {
            let mut state = core.state();
            if state.quota == quota {
                return;
            }
            state.quota = quota;
            state.rule = rule;
            state.stand_in.clone()
        };
        if let (Some(stand_in), Some(part)) = (stand_in, part) {
            // Of its share what was spent stays spent as well.
            stand_in.set_quota(part);
        }
        if let Some(ahead) = &core.ahead {
            ahead.burst.store(rule.burst, Ordering::Relaxed);
        }
        core.forget_denied();
    }

    /// The quota.
    pub fn quota(&self) -> Quota {
        self.handle.core.state().quota
    }

    /// The key.
    pub fn key(&self) -> &str {
        &self.handle.core.key
    }

    /// How many wait in this process, with those who are being decided, and who have just left.
    pub fn waiting(&self) -> usize {
        self.handle.core.state().line.len()
    }

    /// Admits nobody any more, in this process: who waits and who comes gets `Closed`.
    pub fn close(&self) {
        {
            let core = &self.handle.core;
            core.state().closed = true;
            if let Some(ahead) = &core.ahead {
                ahead.purse.shut(true);
            }
        }
        self.handle.core.stirred.notify_one();
    }

    /// [Closes](Self::close) it, and returns once nothing is on its way back to the server any more: what
    /// was [taken ahead](Self::ahead) and not used, and what was charged to those who
    /// had left. What cannot be given back by the store's deadline stays charged.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it is closed all the same, and what is left goes back in the background.
    pub async fn shutdown(&self) {
        self.close();
        let tasks = &self.handle.core.tasks;
        tasks.close();
        tasks.wait().await;
    }

    /// Whether it was [closed](Self::close).
    pub fn is_closed(&self) -> bool {
        self.handle.core.state().closed
    }
}

impl fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimiter")
            .field("key", &self.handle.core.key)
            .field("quota", &self.quota())
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}
