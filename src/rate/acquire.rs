//! [`Acquire`]: the future of a rate limiter. It is a [`Call`], which starts as a request and may
//! become a [`Waiter`] in the queue.
//!
//! 1. A waker is cloned before the lock and dropped after it, because it is foreign code.
//! 2. A waiter that looks serves the queue first, because the timer may be late: if it is due, a
//!    deadline that is polled at the same time must not win.
//! 3. The forecast for the first [`FORESEEN`] waiters is exact. For those behind them only two sums
//!    are known, and it takes the smaller one; neither sum is less than their total cost.
//! 4. A waiter keeps the [state](super::runtimes) in whose queue it is: wherever it is polled, it
//!    waits there, and it can leave or collect its grant after the runtime has ended.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use super::charge::Charge;
use super::locked::Locked;
use super::runtimes::States;
use super::shared::{Decided, Shared};
use crate::algorithm::Receipt;
use crate::error::{AcquireError, ErrorKind};
use crate::time::{Tick, wait_for};
use crate::wait::{
    Polled, arrival_on, is_entrant, remaining_timeout, report_arrival, report_clock,
};
use crate::wait_queue::{WaiterId, lock_if_served};

/// The number of waiters in front whose times are computed one by one.
const FORESEEN: usize = 1024;

/// A limiter on which calls can wait.
pub trait Limiter {
    fn states(&self) -> &States;

    /// Returns the only state, or that of callers outside of all runtimes.
    #[inline(always)]
    fn outside(&self) -> &Arc<Shared> {
        &self.states().outside
    }

    /// Calls `run` with the state that decides here.
    #[inline(always)]
    fn here<R>(&self, run: impl FnOnce(&Arc<Shared>) -> R) -> R {
        let states = self.states();
        let runtimes = states.runtimes.as_ref();
        let own = runtimes.and_then(|runtimes| states.in_runtime(runtimes));
        run(own.as_ref().unwrap_or(&states.outside))
    }
}

/// The future of `acquire` and `acquire_many` of a rate limiter or a leaky bucket. `S` derefs to the limiter: it is a
/// reference, or an `Arc` for the `_owned` methods, or [any pointer](Self::new).
///
/// It joins the queue when it is first polled. [The limiter](crate::RateLimiter#cancel-safety)
/// describes the effect of dropping it.
///
/// # Panics
///
/// Panics if it is polled again after it was ready.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Acquire<S: Deref<Target: Limiter>> {
    source: S,
    call: Call,
}

impl<S: Deref<Target: Limiter>> Acquire<S> {
    /// Creates the wait of [`RateLimiter::acquire_many`](crate::RateLimiter::acquire_many) for a limiter behind any
    /// pointer: not only a reference or an `Arc` of the limiter, but also one of a value that contains it. A throttle
    /// that contains a limiter polls this future in its own; for a wait with a timeout or a token, put it into a
    /// [`Waiting`](crate::wait::Waiting::new). The pointer must always lead to the same limiter.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::ops::Deref;
    /// use std::sync::Arc;
    /// use tollgate::rate::Acquire;
    /// use tollgate::wait::Waiting;
    /// use tollgate::{Quota, RateLimiter};
    ///
    /// struct Api {
    ///     key: &'static str,
    ///     requests: RateLimiter,
    /// }
    ///
    /// /// The requests to a shared API.
    /// struct Requests(Arc<Api>);
    ///
    /// impl Deref for Requests {
    ///     type Target = RateLimiter;
    ///
    ///     fn deref(&self) -> &RateLimiter {
    ///         &self.0.requests
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let requests = RateLimiter::new(Quota::per_second(50).burst(5));
    /// let api = Arc::new(Api { key: "k", requests });
    /// let charge = Waiting::new(Acquire::new(Requests(Arc::clone(&api)), 2)).await?;
    /// assert_eq!((api.key, charge.cost()), ("k", 2));
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn new(limiter: S, cost: u64) -> Self {
        Self {
            source: limiter,
            call: Call::new(cost),
        }
    }

    /// Returns whether the caller is in the queue: it has been polled, and has to wait.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::rate::Acquire;
    /// use tollgate::{Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::new(Quota::per_second(50));
    /// assert!(!Acquire::new(&limiter, 1).is_waiting());
    /// ```
    #[inline]
    pub fn is_waiting(&self) -> bool {
        self.call.is_waiting()
    }

    /// Returns the pointer to the limiter.
    #[inline]
    pub fn limiter(&self) -> &S {
        &self.source
    }

    // These two are not inlined, so that a poll that `decide_now` decides keeps nothing across a
    // call. They return no charge, so that its charge does not go through the memory of their result.
    #[inline(never)]
    fn decide(&mut self, context: &Context<'_>) -> Polled<Receipt> {
        let call = &mut self.call;
        self.source.here(|state| call.poll(state, context.waker()))
    }

    #[inline(never)]
    fn wait(&mut self, context: &Context<'_>) -> Polled<Receipt> {
        if !self.call.is_new() {
            return self.call.wait(context.waker());
        }
        let call = &mut self.call;
        self.source.here(|state| call.join(state, context.waker()))
    }
}

impl<S: Deref<Target: Limiter> + Unpin> Future for Acquire<S> {
    type Output = Result<Charge, AcquireError>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.call.is_new() && !is_entrant() {
            let (cost, state) = (self.call.cost, self.source.outside());
            match state.decide_now(cost) {
                Decided::Charged(charge) => {
                    self.call.stage = Stage::Over;
                    return Poll::Ready(Ok(charge));
                }
                Decided::Limited { .. } => {}
                Decided::Undecided | Decided::Contended => {
                    let receipt = ready!(self.decide(context))?;
                    return Poll::Ready(Ok(Charge(receipt)));
                }
            }
        }
        let receipt = ready!(self.wait(context))?;
        Poll::Ready(Ok(Charge(receipt)))
    }
}

impl<S: Deref<Target: Limiter>> fmt::Debug for Acquire<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire")
            .field("cost", &self.call.cost)
            .field("waiting", &self.call.is_waiting())
            .finish_non_exhaustive()
    }
}

/// A call of a limiter.
pub(super) struct Call {
    pub(super) cost: u64,
    pub(super) stage: Stage,
}

/// The stage of a call.
pub(super) enum Stage {
    New,
    Waiting(Waiter),
    Over,
}

impl Call {
    #[inline]
    pub(super) fn new(cost: u64) -> Self {
        let stage = Stage::New;
        Self { cost, stage }
    }

    #[inline(always)]
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.stage, Stage::Waiting(_))
    }

    #[inline(always)]
    fn is_new(&self) -> bool {
        matches!(self.stage, Stage::New)
    }

    /// Charges a new call now if it need not wait, by any rule and on any clock; otherwise joins
    /// the queue of the state.
    pub(super) fn poll(&mut self, state: &Arc<Shared>, waker: &Waker) -> Polled<Receipt> {
        if let Decided::Charged(charge) = state.decide_without_lock(self.cost) {
            self.stage = Stage::Over;
            return Poll::Ready(Ok(charge.0));
        }
        self.join(state, waker)
    }

    /// Checks whether the call was served in its queue.
    pub(super) fn wait(&mut self, waker: &Waker) -> Polled<Receipt> {
        let Stage::Waiting(Waiter { id, state }) = &mut self.stage else {
            panic!("polled again after it was ready");
        };
        let outcome = match lock_if_served(&state.queue, |it| &mut it.waiters, id, waker) {
            Some((mut queue, id)) => queue.collect(&id),
            None => {
                // The waiter may be due while the timer is late.
                let mut locked = Locked::new(state);
                locked.lock_on_time();
                let Some(id) = id.take_if(|id| locked.request(id).is_none()) else {
                    drop(locked);
                    report_clock(&state.config.clock);
                    return Poll::Pending;
                };
                locked.collect(&id)
            }
        };
        match outcome {
            Ok(receipt) if is_entrant() => Charge(receipt).report(&state.config.clock),
            _ => {}
        }
        self.stage = Stage::Over;
        Poll::Ready(outcome)
    }

    /// Charges a new call now, or refuses it, or joins the queue of the state.
    #[inline(never)]
    pub(super) fn join(&mut self, state: &Arc<Shared>, waker: &Waker) -> Polled<Receipt> {
        let (cost, config) = (self.cost, &state.config);
        let waker = waker.clone();
        let is_entrant = is_entrant();
        // The guard is large, and a block drops it where it is.
        let (came, alone) = {
            let mut locked = Locked::new(state);
            locked.lock_on_time();
            let now = locked.now;
            self.stage = Stage::Over;
            let mut came = now;
            // A caller that costs nothing is never late.
            if is_entrant && cost > 0 {
                came = arrival_on(&config.clock).map_or(now, |tick| now.min(tick));
            }
            locked.check(cost)?;
            let admitted = if came < now {
                locked.admit_as_of(cost, came)
            } else {
                locked.admit(cost)
            };
            let due = match admitted {
                Ok(charge) => {
                    drop(locked);
                    if is_entrant {
                        charge.report(&config.clock);
                    }
                    return Poll::Ready(Ok(charge.0));
                }
                Err(due) => due,
            };
            let waiting = locked.waiters.len();
            if waiting >= config.max_waiters {
                // The time until the head is due; or, if no call may wait, until this call is due.
                let free = locked.next_due().unwrap_or(due);
                let refused = locked.refusal(ErrorKind::QueueFull, free);
                return Poll::Ready(Err(refused));
            }
            // A hold may be settled while the call waits.
            let soonest = if locked.ledger.has_holds() {
                locked.ledger.due_without_holds(locked.queued, cost)
            } else {
                due
            };
            let after = wait_for(soonest, now);
            if remaining_timeout().is_some_and(|budget| after > budget) {
                return Poll::Ready(Err(AcquireError::would_take(after)));
            }
            if config.clock.has_ended() {
                return Poll::Ready(Err(AcquireError::new(ErrorKind::RuntimeEnded)));
            }
            let id = locked.push(cost, came, waker);
            // This comes before anything that may panic, so that drop finds the slot.
            self.stage = Stage::Waiting(Waiter {
                id: Some(id),
                state: Arc::clone(state),
            });
            // Nobody else waits, so it is due when it was refused.
            let alone = (waiting == 0).then(|| locked.ledger.not_after_hold(due));
            (came, alone)
        };
        report_clock(&config.clock);
        if is_entrant {
            report_arrival(&config.clock, came);
        }
        if let Some(due) = alone {
            state.arm(due);
        }
        Poll::Pending
    }
}

/// A call in a queue. Dropping it leaves the queue, or gives back the grant.
pub(super) struct Waiter {
    /// `None` after the waiter was served and has collected its outcome.
    id: Option<WaiterId>,
    /// The state whose queue has the waiter.
    state: Arc<Shared>,
}

impl Waiter {
    /// Returns the time until its turn, for the present queue; `None` if it has been served.
    pub(super) fn delay(&self) -> Option<Duration> {
        let mut locked = Locked::new(&self.state);
        locked.lock_on_time();
        let id = self.id.as_ref()?;
        let own = locked.request(id)?;
        let (mut due, mut charged, mut last) = (Tick::default(), 0, 0);
        let mut forecast = locked.ledger.forecast();
        let mut front = locked.before(id);
        for other in front.by_ref().take(FORESEEN) {
            last = other.joined;
            due = forecast.due(0, other.cost).max(due);
            forecast.grant(due, other.cost);
            charged += u128::from(other.cost);
        }
        // For the waiters between the last of these and this one, two upper bounds are known: the
        // sum at which they joined, and the sum of all that still wait.
        let behind = front.next().map_or(0, |_| {
            let joined = own.joined - last - u128::from(own.cost);
            joined.min(locked.queued - charged - u128::from(own.cost))
        });
        let own_due = forecast.due(behind, own.cost);
        Some(wait_for(own_due.max(due), locked.now))
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else {
            return;
        };
        // No waiter is granted first: one that is due but was not granted leaves like any other.
        let mut locked = Locked::new(&self.state);
        locked.lock();
        let Some(request) = locked.request(&id) else {
            let collected = locked.collect(&id);
            drop(locked);
            if let Ok(receipt) = collected {
                self.state.give_back(&Charge(receipt), receipt.cost);
            }
            return;
        };
        let waker = locked.leave(&id, request.cost);
        drop(locked);
        drop(waker);
    }
}
