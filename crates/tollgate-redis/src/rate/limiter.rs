//! [`RateLimiter`]: at most so many in a time, over all machines.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use tollgate::{AcquireError, Algorithm, CancelOn, Decision, ErrorKind, Oversize, Quota};

use super::acquire::Acquire;
use super::charge::{Charge, Source};
use super::core::{Core, Options};
use super::fallback::Fallback;
use super::reservation::Reservation;
use super::rule::Rule;
use crate::error::StoreError;
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
        let stand_in = options.fallback.stand_in(quota, options.algorithm);
        Self {
            handle: Arc::new(Handle {
                core: Arc::new(Core::new(store, key, quota, rule, options, stand_in)),
            }),
        }
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
    #[track_caller]
    pub fn algorithm(self, algorithm: Algorithm) -> Self {
        self.with(|options| options.algorithm = algorithm)
    }

    /// What to do while the store cannot decide. By default everybody gets the error.
    ///
    /// # Panics
    ///
    /// If the share of a [`Local`](Fallback::Local) is one of none, or too small for the algorithm.
    #[track_caller]
    pub fn fallback(self, fallback: Fallback) -> Self {
        self.with(|options| options.fallback = fallback)
    }

    /// What to do with a call that asks for more than the burst. By default it is refused.
    pub fn oversize(self, oversize: Oversize) -> Self {
        self.with(|options| options.oversize = oversize)
    }

    /// Adds up to so much, at random, to what the server said: asks later for whoever waits, and
    /// tells who is refused to come again later, so that a fleet does not come all at once. By
    /// default nothing.
    pub fn jitter(self, most: Duration) -> Self {
        self.with(|options| options.jitter = most)
    }

    /// How many may wait in this process; who comes then gets `QueueFull` at once.
    pub fn max_waiters(self, max_waiters: usize) -> Self {
        self.with(|options| options.max_waiters = max_waiters)
    }

    /// For how long a denial is believed, if it holds for longer: after that the server is asked
    /// again, for whoever waits and for whoever comes. By default one second. So what another process
    /// gives back, or a key that was deleted, is noticed within that time.
    pub fn recheck(self, most: Duration) -> Self {
        self.with(|options| options.recheck = most)
    }

    /// Whether callers who come together are asked for in one call, as they are by default.
    pub fn coalesce(self, coalesce: bool) -> Self {
        self.with(|options| options.coalesce = coalesce)
    }

    /// Takes up to `chunk` tokens ahead, as long as the server has as many to spare, and decides out
    /// of them without a call; holds them for at most `hold`, and gives back what is left, also
    /// when the last clone is dropped: in the background, so not if the process ends at once. Await
    /// [`shutdown`](Self::shutdown) before that.
    ///
    /// The limit holds by the times at which the server charged, of which [`Charge::at`] is the last
    /// one here, perhaps of a later chunk. By those at which
    /// `p` processes let callers go, it is at most burst + rate·`w` + min(`p·chunk`, rate·`hold`) in
    /// any time `w`, as what is held may be let go later. What is held is not there for others. A process
    /// that dies leaves what it held charged.
    ///
    /// # Panics
    ///
    /// If `chunk` is 0, more than the burst, or more than 4 million (2^22); or if `hold` is zero.
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

    /// Waits until one more may go.
    ///
    /// # Errors
    ///
    /// `Closed`; `QueueFull`; `Store` if the store fails, and the [fallback](Self::fallback) does
    /// not decide.
    pub fn acquire(&self) -> Acquire {
        self.acquire_many(1)
    }

    /// Waits until so many may go together.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire); `ExceedsCapacity` if that is more than the burst.
    pub fn acquire_many(&self, n: u64) -> Acquire {
        Acquire::new(Arc::clone(&self.handle.core), n, false)
    }

    /// As [`acquire`](Self::acquire), until the token is cancelled.
    pub fn acquire_cancellable<'a>(
        &self,
        token: &'a CancellationToken,
    ) -> CancelOn<Acquire, &'a CancellationToken> {
        self.acquire().cancel_on(token)
    }

    /// One more, if it may go now.
    ///
    /// # Errors
    ///
    /// `Limited`, with the time after which it might be admitted; otherwise as
    /// [`acquire`](Self::acquire).
    pub fn try_acquire(&self) -> Acquire {
        self.try_acquire_many(1)
    }

    /// So many, if they may go together now.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire); `ExceedsCapacity` if that is more than the burst.
    pub fn try_acquire_many(&self, n: u64) -> Acquire {
        Acquire::new(Arc::clone(&self.handle.core), n, true)
    }

    /// As much as may go now, at most `n`: [`Charge::cost`] says how much that is.
    ///
    /// # Order
    ///
    /// Nobody who waits in this process is overtaken: while somebody does, this is refused.
    ///
    /// # Cancel safety
    ///
    /// Dropped while the server is being asked, what it is charged is given back when the answer is
    /// there.
    ///
    /// # Errors
    ///
    /// `Limited` if not even one may go; otherwise as [`acquire`](Self::acquire).
    pub async fn try_acquire_up_to(&self, n: u64) -> Result<Charge, AcquireError> {
        let core = &self.handle.core;
        let rule = {
            let state = core.state();
            if state.closed {
                return Err(AcquireError::new(ErrorKind::Closed));
            }
            if n == 0 {
                return Ok(Charge::open(0, Source::Nobody));
            }
            if let Some(wait) = state.line.wait(&state.rule, 1, Instant::now()) {
                return Err(Source::Known.limited(state.line.jittered(wait)));
            }
            if !state.line.is_empty() {
                return Err(AcquireError::new(ErrorKind::Limited));
            }
            state.rule
        };
        let arguments = rule.arguments("upto").number(n);
        let (charge, _) = core.charge_alone(rule, arguments, n, 1).await?;
        Ok(charge)
    }

    /// Charges one now, to be paid for after a delay of at most `most`, and says how long that is.
    ///
    /// # Order
    ///
    /// As if another process had asked: it is charged before those who wait in this one, who wait
    /// for as much longer.
    ///
    /// # Cancel safety
    ///
    /// Dropped while the server is being asked, what it is charged is given back when the answer is
    /// there.
    ///
    /// # Errors
    ///
    /// `Limited` if it would be longer, and nothing is charged then; `Closed`; `Store` if the store
    /// fails, and the [fallback](Self::fallback) does not decide: that charges what goes at once.
    pub async fn reserve(&self, most: Duration) -> Result<Reservation, AcquireError> {
        self.reserve_many(1, most).await
    }

    /// Charges so many now, to be paid for after a delay of at most `most`.
    ///
    /// # Cancel safety
    ///
    /// As [`reserve`](Self::reserve).
    ///
    /// # Errors
    ///
    /// As [`reserve`](Self::reserve); `ExceedsCapacity` if that is more than the burst.
    pub async fn reserve_many(&self, n: u64, most: Duration) -> Result<Reservation, AcquireError> {
        let core = &self.handle.core;
        let rule = self.admissible(n)?;
        let most = u64::try_from(most.as_micros()).unwrap_or(u64::MAX);
        let arguments = rule.arguments("reserve").numbers([n, most.min(1 << 52)]);
        let (charge, wait) = core.charge_alone(rule, arguments, n, n).await?;
        let due = core.jittered(Instant::now() + wait);
        Ok(Reservation::new(Arc::clone(core), charge, due))
    }

    fn admissible(&self, n: u64) -> Result<Rule, AcquireError> {
        let core = &self.handle.core;
        let state = core.state();
        if state.closed {
            return Err(AcquireError::new(ErrorKind::Closed));
        }
        if n > state.rule.burst && core.options.oversize != Oversize::Debt {
            return Err(AcquireError::exceeds_capacity(state.rule.burst));
        }
        Ok(state.rule)
    }

    /// Charges so much in any case: for work that is done already, or that others let in.
    ///
    /// # Cancel safety
    ///
    /// Dropped while the server is being asked, it is charged nevertheless.
    ///
    /// # Errors
    ///
    /// How the store failed.
    pub async fn charge(&self, n: u64) -> Result<Charge, StoreError> {
        let core = &self.handle.core;
        let rule = core.state().rule;
        let arguments = rule.arguments("charge").number(n);
        let reply = core.ask(&rule, arguments).await?;
        Core::charges(&rule, &[n], &reply, Source::Store)
            .pop()
            .ok_or(StoreError::Script)
    }

    /// Gives back what was charged, as far as it is not paid off.
    ///
    /// Exactly, if charges are given back in the order in which they were made, or in the opposite
    /// one. In another order less may come back, never more. A log and a window know their charges,
    /// and give back exactly in any order.
    ///
    /// # Errors
    ///
    /// How the store failed: then it stays charged, and time pays it off.
    ///
    /// # Cancel safety
    ///
    /// Dropped while the server is being asked, it may be given back or not.
    pub async fn refund(&self, charge: Charge) -> Result<(), StoreError> {
        self.handle.core.give_back(charge).await
    }

    /// As [`refund`](Self::refund), without waiting for it, or hearing how it went.
    pub fn refund_later(&self, charge: Charge) {
        self.handle.core.give_later(vec![charge]);
    }

    /// Makes of a charge what the call really cost: gives back the rest, or charges more.
    ///
    /// # Errors
    ///
    /// How the store failed.
    pub async fn settle(&self, charge: Charge, actual: u64) -> Result<(), StoreError> {
        if actual > charge.cost {
            self.charge(actual - charge.cost).await?;
        } else if actual < charge.cost {
            let over = charge.cost - actual;
            let charge = Charge {
                cost: over,
                ..charge
            };
            self.handle.core.give_back(charge).await?;
        }
        Ok(())
    }

    /// How the limit stands, for a call that costs so much. Charges nothing.
    ///
    /// # Errors
    ///
    /// How the store failed.
    pub async fn peek(&self, n: u64) -> Result<Decision, StoreError> {
        let rule = self.handle.core.state().rule;
        let arguments = rule.arguments("peek").number(n);
        let reply = self.handle.core.ask(&rule, arguments).await?;
        Ok(reply.decision(rule.burst))
    }

    /// Goes on by another quota, which this limiter tells the server with its next call.
    ///
    /// What was spent stays spent: as many tokens are owed as before.
    ///
    /// # Panics
    ///
    /// As [`new`](Self::new) and [`algorithm`](Self::algorithm).
    #[track_caller]
    pub fn set_quota(&self, quota: Quota) {
        let core = &self.handle.core;
        let Options {
            algorithm,
            fallback,
            ..
        } = core.options;
        let rule = Self::rule(quota, algorithm);
        let stand_in = fallback.stand_in(quota, algorithm).map(Arc::new);
        {
            let mut state = core.state();
            state.quota = quota;
            state.rule = rule;
            state.stand_in = stand_in;
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

    /// How many wait in this process.
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
