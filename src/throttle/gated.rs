//! [`Gated`]: a throttle behind a gate that is looked at once more after the entry.
//!
//! The wait goes round the gate and the throttle:
//!
//! 1. It holds no permit between two polls. A permit that it receives is returned to the caller in that poll,
//!    or rolled back in it. So dropping the wait only leaves the queue of the gate, or of the throttle.
//! 2. A caller that is stopped at the second look joins the queue of the gate before its permit is rolled
//!    back. The rollback may admit the next caller, on another thread, which joins after it.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::{Adaptive, Inspect, LimitStatus, Polling, RollbackGuard, Throttle, TryThrottle};
use crate::debug::debug_as;
use crate::error::AcquireError;
use crate::feedback::Feedback;
use crate::wait::{Polled, Waiting};

/// A throttle behind a gate, which admits nobody while the gate is blocked, not even callers that passed the
/// gate before. Created by [`Gate::before`](crate::Gate::before) and
/// [`Key::before`](crate::keyed::Key::before).
///
/// A caller waits at the gate, enters the throttle, and looks at the gate again. If the gate is blocked now,
/// the caller's permit is [rolled back](Throttle::rollback), and it waits at the gate again. So a
/// caller that waits for the gate holds no slot and no charge. In [`all`](crate::all)`((&gate, &rate))`, a
/// caller that has passed the gate is admitted by the rate during the block.
///
/// The permit is that of the throttle. A key of a map of gates pauses one user, chat or host alone:
/// `pauses.key(&chat).before(all((rates.key(&chat), &total)))`.
///
/// # Order
///
/// The gate releases its waiters in the order of their arrival, and the throttle admits them in its own
/// order. The block stops a caller that waits in the throttle when the throttle admits it. Then it goes to the
/// end of the gate's queue: behind the callers that came to the gate earlier in this block. It returns its
/// permit to the next caller in the throttle, which is stopped behind it; so they keep their order.
///
/// A rate admits callers after the block like after any idle time: its burst at once, and the others at its
/// rate. A charge that was rolled back is not counted.
///
/// While a caller waits for a later part of [`all`](crate::all#order), it holds the earlier parts, also if the
/// gate is blocked meanwhile. If the last part admits it only after the block, its older charges count.
///
/// # Cancel safety
///
/// Dropping a waiting future removes it from the queue of the gate or of the throttle, and loses nothing.
///
/// # Errors
///
/// Those of the gate and of the throttle. With a [timeout](Waiting::timeout) that ends before the gate
/// opens, a caller is refused at once, also at the second look.
///
/// # Examples
///
/// A chat bot is answered with 429 and `retry_after: 5` for one chat:
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Clock, Gate, Keyed, Quota, RateLimiter};
///
/// let clock = Clock::manual();
/// let pauses = Keyed::<u64, _>::new(Gate::new().clock(&clock));
/// let rate = RateLimiter::new(Quota::per_second(30)).clock(&clock);
///
/// pauses.key(&7).pause_for(Duration::from_secs(5))?;
/// let refused = pauses.key(&7).before(&rate).try_acquire().unwrap_err();
/// assert_eq!(refused.retry_after(), Some(Duration::from_secs(5)));
/// // Other chats go on.
/// pauses.key(&8).before(&rate).try_acquire()?;
///
/// clock.advance(Duration::from_secs(5));
/// pauses.key(&7).before(&rate).try_acquire()?;
/// # Ok::<_, tollgate::AcquireError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a throttle does nothing until it is entered"]
pub struct Gated<G, T> {
    gate: G,
    throttle: T,
}

impl<G, T> Gated<G, T> {
    #[inline]
    pub(crate) fn new(gate: G, throttle: T) -> Self {
        Self { gate, throttle }
    }
}

impl<G: Throttle<Permit = ()>, T: Throttle> Gated<G, T> {
    /// Waits until the gate is open and the throttle has admitted the caller.
    ///
    /// # Cancel safety, errors
    ///
    /// See [the type](Self#cancel-safety).
    #[inline]
    pub fn acquire(&self) -> Waiting<<Self as Throttle>::Enter> {
        self.enter()
    }

    /// Enters without waiting, or fails.
    ///
    /// # Errors
    ///
    /// [`RateLimited`](crate::ErrorKind::RateLimited) while the gate is blocked, with the time until it opens;
    /// otherwise the errors of the throttle.
    #[inline]
    pub fn try_acquire(&self) -> Result<T::Permit, AcquireError>
    where
        Self: TryThrottle + Throttle<Permit = T::Permit>,
    {
        self.try_enter()
    }
}

impl<G: Throttle<Permit = ()>, T: Throttle> Throttle for Gated<G, T> {
    type Permit = T::Permit;
    type Enter = EnterGated<G, T>;

    crate::forward!(Throttle, self => self.throttle, except enter, enter_now, polling);

    #[inline]
    fn enter(&self) -> Waiting<Self::Enter> {
        Waiting::new(EnterGated {
            gated: Some(self.clone()),
            stage: Stage::Start,
        })
    }

    /// There is no wait after the first look, so there is no second one.
    #[inline]
    fn enter_now(&self) -> Option<T::Permit> {
        self.gate.enter_now()?;
        self.throttle.enter_now()
    }

    fn polling(&self) -> Polling {
        self.gate.polling().and(self.throttle.polling())
    }
}

impl<G: TryThrottle<Permit = ()>, T: TryThrottle> TryThrottle for Gated<G, T> {
    #[inline]
    fn try_enter(&self) -> Result<T::Permit, AcquireError> {
        self.gate.try_enter()?;
        self.throttle.try_enter()
    }
}

/// The gate has no status.
impl<G: Throttle<Permit = ()>, T: Inspect> Inspect for Gated<G, T> {
    const LIMITS: usize = T::LIMITS;

    fn inspect(&self, permit: Option<&T::Permit>, each: &mut dyn FnMut(usize, LimitStatus)) {
        self.throttle.inspect(permit, each);
    }
}

impl<G: Throttle<Permit = ()>, T: Adaptive> Adaptive for Gated<G, T> {
    fn learn(&self, permit: &mut T::Permit, feedback: Feedback) {
        self.throttle.learn(permit, feedback);
    }
}

pin_project! {
    /// The wait of a [`Gated`] throttle.
    #[must_use = "a future does nothing unless it is awaited"]
    pub struct EnterGated<G: Throttle, T: Throttle> {
        // `None` once the future has completed.
        gated: Option<Gated<G, T>>,
        #[pin]
        stage: Stage<G::Enter, T::Enter>,
    }
}

pin_project! {
    #[project = StageProjection]
    enum Stage<G, T> {
        // The state before the first poll; without a gate, also the state after the end.
        Start,
        AtGate { #[pin] enter: G },
        InThrottle { #[pin] enter: T },
    }
}

impl<G: Throttle<Permit = ()>, T: Throttle> Future for EnterGated<G, T> {
    type Output = Result<T::Permit, AcquireError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let gated = (this.gated.as_ref()).expect("polled again after it was ready");
        let entered = ready!(this.stage.as_mut().poll(gated, context));
        this.stage.set(Stage::Start);
        *this.gated = None;
        Poll::Ready(entered)
    }
}

impl<G, T> Stage<G, T> {
    /// Goes round the gate and the throttle.
    fn poll<Gate, Throttled>(
        mut self: Pin<&mut Self>,
        Gated { gate, throttle }: &Gated<Gate, Throttled>,
        context: &mut Context<'_>,
    ) -> Polled<Throttled::Permit>
    where
        Gate: Throttle<Permit = (), Enter = G>,
        Throttled: Throttle<Enter = T>,
        G: Future<Output = Result<(), AcquireError>>,
        T: Future<Output = Result<Throttled::Permit, AcquireError>>,
    {
        // The permit of a caller that was stopped at the second look, until it has joined the queue of the gate.
        let mut held = None::<RollbackGuard<&Throttled>>;
        loop {
            match self.as_mut().project() {
                StageProjection::Start => {
                    if gate.enter_now().is_none() {
                        let enter = gate.enter().into_inner();
                        self.set(Self::AtGate { enter });
                        continue;
                    }
                    let enter = throttle.enter().into_inner();
                    self.set(Self::InThrottle { enter });
                }
                StageProjection::AtGate { enter } => {
                    ready!(enter.poll(context))?;
                    if let Some(permit) = held {
                        // The gate has opened since the second look.
                        return Poll::Ready(Ok(permit.disarm()));
                    }
                    let enter = throttle.enter().into_inner();
                    self.set(Self::InThrottle { enter });
                }
                StageProjection::InThrottle { enter } => {
                    let permit = RollbackGuard::new(throttle, ready!(enter.poll(context))?);
                    if gate.enter_now().is_some() {
                        return Poll::Ready(Ok(permit.disarm()));
                    }
                    held = Some(permit);
                    let enter = gate.enter().into_inner();
                    self.set(Self::AtGate { enter });
                }
            }
        }
    }
}

debug_as! { [G: Throttle, T: Throttle] EnterGated<G, T>, self => EnterGated { .. } }
