//! The calls of a [`RateLimiter`], and their results: [`Acquire`], the future of calls that wait, and
//! [`Reservation`], a charge that becomes due later.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tollgate::rate::Oversize;
use tollgate::throttle::{Inspect, LimitStatus, Weighted};
use tollgate::wait::Waiting;
use tollgate::{AcquireError, Decision, Throttle};

use super::charge::{Charge, Source};
use super::limiter::RateLimiter;
use super::options::SOON;
use super::state::{Rate, Shared};
use crate::error::StoreError;
use crate::queue::{Origin, Wait};
use crate::script::{MOST, micros};

impl RateLimiter {
    /// Acquires one unit, and waits for it.
    ///
    /// # Errors
    ///
    /// `Closed`; `QueueFull`; `TimedOut` at once with a [timeout](Waiting::timeout) that is shorter than the
    /// wait. A caller waits through an outage of the store, unless the [fallback](Self::fallback) admits it:
    /// `Store` is the error for a [mistake](StoreError::is_mistake), with [`fail_waiting`](Self::fail_waiting),
    /// and with a timeout that ends before the next attempt.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// # async fn example(limiter: tollgate_redis::RateLimiter) -> Result<(), Box<dyn std::error::Error>> {
    /// limiter.acquire().timeout(Duration::from_millis(500)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire(&self) -> Waiting<Acquire> {
        self.acquire_many(1)
    }

    /// Acquires `n` units together, and waits for them.
    ///
    /// # Errors
    ///
    /// The errors of [`acquire`](Self::acquire); `ExceedsCapacity` if `n` is more than the burst.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(limiter: tollgate_redis::RateLimiter) -> Result<(), Box<dyn std::error::Error>> {
    /// let charge = limiter.acquire_many(3).await?;
    /// println!("charged {} at {:?}", charge.cost(), charge.at());
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire_many(&self, n: u64) -> Waiting<Acquire> {
        Waiting::new(Acquire::new(Wait::new(self.shared(), n, false)))
    }

    /// Acquires one unit if there is one now. Calls the server once.
    ///
    /// # Errors
    ///
    /// `RateLimited`, with the time after which to retry, which is never zero; `Store` if the store fails and the
    /// [fallback](Self::fallback) does not decide; `Closed`. The time is that of the server, counted from its
    /// reply, so a retry after it is not too early. It may be denied again if other calls were faster, or if
    /// callers of this limiter wait: behind a queue, the time is a lower bound.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use tollgate_redis::Source;
    ///
    /// # async fn example(limiter: tollgate_redis::RateLimiter) -> Result<(), Box<dyn std::error::Error>> {
    /// if let Err(refused) = limiter.try_acquire().await {
    ///     println!("again in {:?}", refused.retry_after());
    ///     println!("{:?}", Source::of(&refused));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_acquire(&self) -> Waiting<Acquire> {
        self.try_acquire_many(1)
    }

    /// Acquires `n` units together if that many are available now.
    ///
    /// # Errors
    ///
    /// The errors of [`try_acquire`](Self::try_acquire); `ExceedsCapacity` if `n` is more than the
    /// burst.
    pub fn try_acquire_many(&self, n: u64) -> Waiting<Acquire> {
        Waiting::new(Acquire::new(Wait::new(self.shared(), n, true)))
    }

    /// Acquires the units that are available now, at most `n`. [`Charge::cost`] returns their number.
    ///
    /// # Order
    ///
    /// The call overtakes no waiter of this process: while there is one, it is denied.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped during a call of the server, its charge is refunded in the background
    /// when the reply arrives, as for [`acquire`](Acquire#cancel-safety).
    ///
    /// # Errors
    ///
    /// `RateLimited` if no unit is available; otherwise the errors of [`try_acquire`](Self::try_acquire).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(limiter: tollgate_redis::RateLimiter) -> Result<(), Box<dyn std::error::Error>> {
    /// // The number of rows that may be sent now.
    /// let rows = limiter.try_acquire_up_to(500).await?.cost();
    /// println!("{rows} of 500");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_acquire_up_to(&self, n: u64) -> Result<Charge, AcquireError> {
        let charged = self.charge_up_to(n).await;
        self.shared().limit.common.counters.ended(&charged, origin);
        charged
    }

    async fn charge_up_to(&self, n: u64) -> Result<Charge, AcquireError> {
        let shared = self.shared();
        let rule = {
            let state = shared.state();
            shared.check(state.closed, &state.own, 0)?;
            if n == 0 {
                return Ok(Charge::open(0, Source::Nobody));
            }
            if let Some(wait) = state.own.denied.wait(&state.queue, 1, shared.now()) {
                return Err(shared
                    .limit
                    .common
                    .options
                    .denial(Source::DeniedCache, wait));
            }
            if state.queue.len() + state.own.turns.waiters() > 0 {
                let wait = state.own.rule.lasting(state.queue.total()).max(SOON);
                return Err(shared
                    .limit
                    .common
                    .options
                    .denial(Source::DeniedCache, wait));
            }
            state.own.rule
        };
        let n = n.min(rule.burst);
        let (charge, _) = shared.charge_alone(rule, "upto", &[n], n, 1).await?;
        Ok(charge)
    }

    /// Charges one unit now, which becomes due after a delay of at most `max_delay`.
    ///
    /// # Order
    ///
    /// A reservation is like a call of another process: it is charged before the waiters of this
    /// process, and they wait longer.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped during a call of the server, its charge is refunded in the background
    /// when the reply arrives, as for [`acquire`](Acquire#cancel-safety).
    ///
    /// # Errors
    ///
    /// `RateLimited` if the delay would be longer, and nothing is charged; `Closed`; `Store` if the
    /// store fails and the [fallback](Self::fallback) does not decide. The fallback charges without
    /// a delay.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// # async fn example(limiter: tollgate_redis::RateLimiter) -> Result<(), Box<dyn std::error::Error>> {
    /// let reserved = limiter.reserve(Duration::from_secs(2)).await?;
    /// println!("in {:?}", reserved.delay());
    /// reserved.ready().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn reserve(&self, max_delay: Duration) -> Result<Reservation, AcquireError> {
        self.reserve_many(1, max_delay).await
    }

    /// Charges `n` units now, which become due after a delay of at most `max_delay`.
    ///
    /// # Cancel safety
    ///
    /// See [`reserve`](Self::reserve).
    ///
    /// # Errors
    ///
    /// The errors of [`reserve`](Self::reserve); `ExceedsCapacity` if `n` is more than the burst.
    pub async fn reserve_many(
        &self,
        n: u64,
        max_delay: Duration,
    ) -> Result<Reservation, AcquireError> {
        let shared = self.shared();
        let charged = self.charge_later(n, max_delay).await;
        let counters = &shared.limit.common.counters;
        counters.ended(&charged, |it| origin(it.map(|(charge, _)| charge)));
        let (charge, delay) = charged?;
        Ok(Reservation {
            shared: Arc::clone(shared),
            charge: Some(charge),
            due: shared.limit.common.options.jittered(shared.now() + delay),
        })
    }

    async fn charge_later(
        &self,
        n: u64,
        max_delay: Duration,
    ) -> Result<(Charge, Duration), AcquireError> {
        let shared = self.shared();
        let rule = {
            let state = shared.state();
            shared.check(state.closed, &state.own, n)?;
            state.own.rule
        };
        let arguments = [n, micros(max_delay)];
        let charged = shared.charge_alone(rule, "reserve", &arguments, n, n);
        charged.await
    }

    /// Charges `n` units in any case, for work that is already done or was admitted elsewhere.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped during a call of the server, the units may or may not be charged.
    ///
    /// # Errors
    ///
    /// The failure of the store.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(limiter: tollgate_redis::RateLimiter) -> Result<(), Box<dyn std::error::Error>> {
    /// // The mail has already been sent.
    /// limiter.charge(4096).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn charge(&self, n: u64) -> Result<Charge, StoreError> {
        let rule = self.shared().state().own.rule;
        let reply = self.shared().ask(&rule, "charge", &[n]).await?;
        self.shared().limit.common.shares.charge(n);
        Ok(Charge::granted(&rule, &reply, n, 0, Source::Store))
    }

    /// Refunds a charge, as far as it is not paid off.
    ///
    /// This is exact if charges are refunded in the order in which they were made, or in the
    /// opposite one. In another order the refund may be less, by at most the amount that time could pay off
    /// since the charge, and never more. The refund may be zero if the server's clock was set back since the
    /// charge, or if another [quota](Self::set_quota) was set since then. Logs and windows distinguish their
    /// charges, and are exact in any order.
    ///
    /// While [turns](Self#order) or reservations are to come, only the last charge is refunded: the turns keep their times, so
    /// nobody could use what is refunded. A saturated limit whose callers refund half of each charge uses half of its rate.
    ///
    /// A charge of [prefetched](Self::prefetch) tokens is not refunded if 16 batches were used up after
    /// its own; [`unrefunded`](Self::unrefunded) counts it.
    ///
    /// # Errors
    ///
    /// The failure of the store. The charge then stays, and time pays it off.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped after its first poll, the refund continues in the background, and
    /// [`shutdown`](Self::shutdown) waits for it.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(limiter: tollgate_redis::RateLimiter) -> Result<(), Box<dyn std::error::Error>> {
    /// let charge = limiter.acquire().await?;
    /// // The result was in a cache, so the call is not needed.
    /// limiter.refund(charge).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn refund(&self, charge: Charge) -> Result<(), StoreError> {
        self.shared().refund(charge).await
    }

    /// Refunds a charge in the background, after the refunds that already wait.
    /// [`unrefunded`](Self::unrefunded) counts failures.
    pub fn refund_later(&self, charge: Charge) {
        self.shared().refund_later(vec![charge]);
    }

    /// Changes a charge to the actual cost of the call: refunds the rest, or charges more.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped after its first poll, a refund continues in the background, as that of
    /// [`refund`](Self::refund); a further charge may or may not be made.
    ///
    /// # Errors
    ///
    /// The failure of the store.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(limiter: tollgate_redis::RateLimiter) -> Result<(), Box<dyn std::error::Error>> {
    /// let charge = limiter.acquire_many(1000).await?;
    /// let tokens = 640;
    /// limiter.settle(charge, tokens).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn settle(&self, charge: Charge, actual: u64) -> Result<(), StoreError> {
        if actual > charge.cost {
            self.charge(actual - charge.cost).await?;
        } else if actual < charge.cost {
            let cost = charge.cost - actual;
            self.refund(Charge { cost, ..charge }).await?;
        }
        Ok(())
    }

    /// Returns the decision that a call of cost `n` would get, without charging it.
    ///
    /// For a call that is never admitted, `retry_after` is `None`. The
    /// [fallback](Self::fallback) is not used.
    ///
    /// # Cancel safety
    ///
    /// The call changes nothing, so dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// The failure of the store.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(limiter: tollgate_redis::RateLimiter) -> Result<(), Box<dyn std::error::Error>> {
    /// let decision = limiter.peek(1).await?;
    /// println!("{} of {}", decision.remaining, decision.limit);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn peek(&self, n: u64) -> Result<Decision, StoreError> {
        let shared = self.shared();
        let rule = self.shared().state().own.rule;
        let reply = shared.ask(&rule, "peek", &[n.min(MOST)]).await?;
        let mut decision = reply.decision(rule.burst);
        if n > rule.burst && shared.limit.common.options.oversize != Oversize::Overdraft {
            decision.retry_after = None;
        }
        Ok(decision)
    }
}

impl Throttle for RateLimiter {
    type Permit = Charge;
    type Enter = Acquire;

    fn enter(&self) -> Waiting<Acquire> {
        self.acquire()
    }

    fn rollback(&self, charge: Charge) {
        self.refund_later(charge);
    }
}

/// A [`RateLimiter`] with a cost: each entry is charged this much. Created by [`Weighted::cost`].
#[derive(Clone, Debug)]
#[must_use = "a throttle does nothing until it is entered"]
pub struct Cost {
    limiter: RateLimiter,
    cost: u64,
}

impl Throttle for Cost {
    type Permit = Charge;
    type Enter = Acquire;

    tollgate::forward!(Throttle, self => self.limiter, except enter, enter_now);

    fn enter(&self) -> Waiting<Acquire> {
        self.limiter.acquire_many(self.cost)
    }
}

impl Weighted for RateLimiter {
    type Many = Cost;

    fn cost(&self, n: u64) -> Cost {
        let limiter = self.clone();
        Cost { limiter, cost: n }
    }

    /// Charges more in the background, and ignores failures; or [refunds](RateLimiter::refund_later)
    /// the rest.
    fn settle(&self, charge: Charge, used: u64) {
        let this = self.clone();
        if used > charge.cost {
            self.shared().spawn(async move {
                // If that fails, the charge stays as it was.
                let _ = this.settle(charge, used).await;
            });
        } else if used < charge.cost {
            let cost = charge.cost - used;
            self.refund_later(Charge { cost, ..charge });
        }
    }

    fn max_units(&self) -> u64 {
        match self.shared().limit.common.options.oversize {
            Oversize::Overdraft => u64::MAX,
            _ => self.shared().state().own.rule.burst,
        }
    }

    fn chunk_units(&self) -> u64 {
        let quota = self.quota();
        let chunk = u128::from(quota.count()) * 10_000_000 / quota.period().as_nanos();
        let chunk = u64::try_from(chunk).unwrap_or(u64::MAX).max(1024);
        let burst = self.shared().state().own.rule.burst;
        chunk.min(burst.div_ceil(2)).max(1)
    }
}

/// Not available without a charge, because asking the server takes time.
impl Inspect for RateLimiter {
    fn inspect(&self, charge: Option<&Charge>, each: &mut dyn FnMut(usize, LimitStatus)) {
        // When no capacity remains, the charge does not contain the time of the next admission, which is at
        // the latest when the whole debt is paid off. For prefetched tokens neither time is known.
        let known = charge.map(|charge| charge.decision);
        let known = known.filter(|known| known.remaining > 0 || !known.reset_after.is_zero());
        let status = match known {
            Some(mut decision) => {
                if decision.remaining == 0 {
                    decision.retry_after = Some(decision.reset_after);
                }
                LimitStatus::Rate {
                    quota: self.quota(),
                    decision,
                }
            }
            None => LimitStatus::Unknown,
        };
        each(0, status);
    }
}

/// The future of `acquire`, `try_acquire` and similar methods of a [`RateLimiter`].
///
/// It joins the queue when it is first polled. It can be polled anywhere, also outside of the
/// store's runtime.
///
/// # Cancel safety
///
/// If the future is dropped while it waits, it leaves the queue, and the waiters behind it move up.
/// If it is dropped during a call of the server, its charge is refunded in the background when the
/// reply arrives. A limiter sends such refunds in the order of the charges, many in one call, with the
/// accuracy of [`refund`](RateLimiter::refund); [`shutdown`](RateLimiter::shutdown) waits for them. If the store fails, or more than 65,536 refunds wait, charges stay, and time pays them off:
/// [`unrefunded`](RateLimiter::unrefunded) counts them. A call whose reply did not arrive by the
/// deadline may have been charged, and is neither refunded nor counted.
///
/// # Panics
///
/// Panics if it is polled again after completion.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Acquire {
    wait: Wait<Rate>,
    /// Whether it is counted as waiting.
    is_waiting: bool,
}

impl Acquire {
    fn new(wait: Wait<Rate>) -> Self {
        Self {
            wait,
            is_waiting: false,
        }
    }
}

impl Future for Acquire {
    type Output = Result<Charge, AcquireError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { wait, is_waiting } = self.get_mut();
        let poll = wait.poll(context);
        wait.limit()
            .common
            .counters
            .polled(is_waiting, &poll, origin);
        poll
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        let Self { wait, is_waiting } = self;
        wait.limit().common.counters.dropped(is_waiting);
    }
}

/// Returns the origin of a charge or a denial, for statistics.
fn origin(decided: Result<&Charge, &AcquireError>) -> Origin {
    match decided.map_or_else(Source::of, |charge| Some(charge.source)) {
        Some(Source::Coalesced) => Origin::Coalesced,
        Some(Source::TokenCache | Source::DeniedCache) => Origin::Cached,
        Some(Source::Fallback) => Origin::Fallback,
        _ => Origin::Alone,
    }
}

/// A charge that has been made, and becomes due after a [delay](Self::delay). Created by
/// [`reserve`](RateLimiter::reserve).
///
/// [`ready`](Self::ready) waits for the delay. It does not call the server again, so neither a
/// refund nor a change of the quota moves the time.
///
/// # Cancel safety
///
/// A reservation that is dropped before `ready` has returned is refunded, if it is the last one. With GCRA, the time of
/// another one is kept for the next reservation or waiter of at most that cost: up to 64 such times. With other algorithms
/// it stays charged: the reservations behind it keep their times, so the next one would get a time that is taken. The same
/// holds for refunds of charges that were used, while reservations are to come.
#[derive(Debug)]
#[must_use = "a reservation that is dropped is given back"]
pub struct Reservation {
    shared: Arc<Shared>,
    charge: Option<Charge>,
    due: Instant,
}

impl Reservation {
    /// Returns the remaining time until the charge is due.
    pub fn delay(&self) -> Duration {
        self.due.saturating_duration_since(self.shared.now())
    }

    /// Returns the cost that was charged.
    pub fn cost(&self) -> u64 {
        self.charge.as_ref().map_or(0, Charge::cost)
    }

    /// Waits for the delay, and returns the charge.
    ///
    /// # Errors
    ///
    /// `Store` if the runtime of the store is gone.
    #[expect(clippy::missing_panics_doc, reason = "the charge is taken once")]
    pub async fn ready(mut self) -> Result<Charge, AcquireError> {
        self.shared.store.sleep(self.delay()).await?;
        Ok(self.charge.take().expect("it is taken once"))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(charge) = self.charge.take() {
            self.shared.refund_later(vec![charge]);
        }
    }
}
