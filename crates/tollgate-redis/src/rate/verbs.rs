//! What a [`RateLimiter`] is asked for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use tollgate::{AcquireError, CancelOn, Decision, ErrorKind, Oversize};

use super::acquire::Acquire;
use super::charge::{Charge, Source};
use super::core::Core;
use super::limiter::RateLimiter;
use super::reservation::Reservation;
use super::rule::{MOST, Rule};
use crate::error::StoreError;

impl RateLimiter {
    /// Waits until one more may go.
    ///
    /// # Errors
    ///
    /// `Closed`; `QueueFull`; `Store` if the store fails, and the [fallback](Self::fallback) does
    /// not decide.
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
    pub fn acquire(&self) -> Acquire {
        self.acquire_many(1)
    }

    /// Waits until so many may go together.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire); `ExceedsCapacity` if that is more than the burst.
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
    pub fn acquire_many(&self, n: u64) -> Acquire {
        Acquire::new(Arc::clone(self.core()), n, false)
    }

    /// As [`acquire`](Self::acquire), until the token is cancelled.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use tokio_util::sync::CancellationToken;
    ///
    /// # async fn example(limiter: tollgate_redis::RateLimiter) -> Result<(), Box<dyn std::error::Error>> {
    /// let token = CancellationToken::new();
    /// limiter.acquire_cancellable(&token).await?;
    /// # Ok(())
    /// # }
    /// ```
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
    pub fn try_acquire(&self) -> Acquire {
        self.try_acquire_many(1)
    }

    /// So many, if they may go together now.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire); `ExceedsCapacity` if that is more than the burst.
    pub fn try_acquire_many(&self, n: u64) -> Acquire {
        Acquire::new(Arc::clone(self.core()), n, true)
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
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(limiter: tollgate_redis::RateLimiter) -> Result<(), Box<dyn std::error::Error>> {
    /// // As many rows as may be sent now.
    /// let rows = limiter.try_acquire_up_to(500).await?.cost();
    /// println!("{rows} of 500");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_acquire_up_to(&self, n: u64) -> Result<Charge, AcquireError> {
        let core = self.core();
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
                return Err(Source::Known.limited(Duration::ZERO));
            }
            state.rule
        };
        let n = n.min(rule.burst);
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
        let core = self.core();
        let rule = self.admissible(n)?;
        let most = u64::try_from(most.as_micros()).unwrap_or(u64::MAX);
        let arguments = rule.arguments("reserve").numbers([n, most.min(MOST)]);
        let (charge, wait) = core.charge_alone(rule, arguments, n, n).await?;
        let due = core.jittered(Instant::now() + wait);
        Ok(Reservation::new(Arc::clone(core), charge, due))
    }

    fn admissible(&self, n: u64) -> Result<Rule, AcquireError> {
        let core = self.core();
        let state = core.state();
        if state.closed {
            return Err(AcquireError::new(ErrorKind::Closed));
        }
        let most = state.rule.most_at_once(core.options.oversize);
        if n > most {
            return Err(AcquireError::exceeds_capacity(most));
        }
        Ok(state.rule)
    }

    /// Charges so much in any case: for work that is done already, or that others let in.
    ///
    /// # Cancel safety
    ///
    /// Dropped while the server is being asked, it may be charged or not.
    ///
    /// # Errors
    ///
    /// How the store failed.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(limiter: tollgate_redis::RateLimiter) -> Result<(), Box<dyn std::error::Error>> {
    /// // It was sent already.
    /// limiter.charge(4096).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn charge(&self, n: u64) -> Result<Charge, StoreError> {
        let core = self.core();
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
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(limiter: tollgate_redis::RateLimiter) -> Result<(), Box<dyn std::error::Error>> {
    /// let charge = limiter.acquire().await?;
    /// // It was found in a cache after all.
    /// limiter.refund(charge).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn refund(&self, charge: Charge) -> Result<(), StoreError> {
        self.core().give_back(charge).await
    }

    /// As [`refund`](Self::refund), without waiting for it, or hearing how it went.
    pub fn refund_later(&self, charge: Charge) {
        self.core().give_later(vec![charge]);
    }

    /// Makes of a charge what the call really cost: gives back the rest, or charges more.
    ///
    /// # Cancel safety
    ///
    /// Dropped while the server is being asked, that may be done or not.
    ///
    /// # Errors
    ///
    /// How the store failed.
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
            let over = charge.cost - actual;
            let charge = Charge {
                cost: over,
                ..charge
            };
            self.core().give_back(charge).await?;
        }
        Ok(())
    }

    /// How the limit stands, for a call that costs so much. Charges nothing, so it can be dropped at
    /// any time. Of a call that is never admitted the time to come again is [`Duration::MAX`]. The
    /// [fallback](Self::fallback) is not asked.
    ///
    /// # Errors
    ///
    /// How the store failed.
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
        let core = self.core();
        let rule = core.state().rule;
        let arguments = rule.arguments("peek").number(n.min(MOST));
        let reply = core.ask(&rule, arguments).await?;
        let mut decision = reply.decision(rule.burst);
        if n > rule.burst && core.options.oversize != Oversize::Overdraft {
            decision.retry_after = Duration::MAX;
        }
        Ok(decision)
    }
}
