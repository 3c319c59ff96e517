//! [`Shadow`]: a throttle that admits every caller, and reports what another one would have done.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use tollgate::throttle::{Adaptive, Feedback, Inspect, LimitStatus, Polling, Weighted};
use tollgate::wait::Waiting;
use tollgate::{AcquireError, Throttle, TryThrottle};

use crate::{Observed, ObservedPermit, Observer};

/// A throttle that admits every caller at once, and reports to an [`Observer`] what a limit would have done: a
/// trial of a new limit under real traffic.
///
/// `twin` is the limit on trial, which only the shadow enters. A caller that the twin admits holds its permit for
/// as long as it holds the permit of the shadow. Every other caller is reported as refused, with the
/// [kind](AcquireError::kind) and the [`retry_after`](AcquireError::retry_after) of the error, and holds `None`.
/// The [place](Observed#places) of an entry is that of an [`Observed`] throttle.
///
/// # What the figures mean
///
/// Refusals are those of the same limit with `try_acquire`, as long as callers do not change what they do when
/// they are refused.
///
/// Nobody waits in the twin, so waits are not simulated. For a rate limit, `retry_after` is **a lower bound**
/// of the wait that the caller would have had: each caller that would have waited holds nothing here, and so
/// the next one does not stand behind it. A semaphore reports no time, and a permit that would have been
/// granted later is not held later.
///
/// # Errors, cancel safety, cost
///
/// An entry never fails and never waits, also if the twin is closed or the request is larger than the whole
/// limit; a panic of the observer propagates as in [`Observed`]. A future that is dropped before its first poll
/// has reported nothing. The cost is that of [`try_enter`](TryThrottle::try_enter) of the twin, and of the
/// calls of the observer.
///
/// Readers and writers ask in the same [chunks](Weighted::chunk_units) as with the twin, and may ask for more
/// than the whole limit. [`Inspect`] shows no limit, so that a response has no headers of a limit that is not
/// in force.
///
/// # Examples
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::time::Duration;
///
/// use tollgate::{AcquireError, Clock, Quota, RateLimiter};
/// use tollgate_observe::{Observer, Place, Shadow};
///
/// #[derive(Default)]
/// struct WouldRefuse(AtomicU64);
///
/// impl Observer for WouldRefuse {
///     type Held = ();
///
///     fn admitted(&self, _: Place, _: Option<Duration>) {}
///
///     fn refused(&self, _: Place, _: &AcquireError, _: Option<Duration>) {
///         self.0.fetch_add(1, Ordering::Relaxed);
///     }
/// }
///
/// let twin = RateLimiter::new(Quota::per_second(50).burst(2)).clock(&Clock::manual());
/// let would_refuse = WouldRefuse::default();
/// let shadow = Shadow::new(&twin, &would_refuse);
///
/// let calls: Vec<_> = (0..5).map(|_| shadow.admit()).collect();
/// assert_eq!(calls.iter().flatten().count(), 2);
/// assert_eq!(would_refuse.0.load(Ordering::Relaxed), 3);
/// ```
#[doc(alias("dry run", "shadow mode", "report only"))]
#[derive(Clone, Debug)]
#[must_use = "a throttle does nothing until it is entered"]
pub struct Shadow<T: Throttle, O: Observer> {
    twin: Observed<T, O>,
    cost: u64,
    /// Enters the twin, for the cost if the twin has costs.
    try_enter: TryEnter<T, O>,
}

type Permit<T, O> = ObservedPermit<<T as Throttle>::Permit, O>;
type TryEnter<T, O> = fn(&Observed<T, O>, cost: u64) -> Option<Permit<T, O>>;

impl<T: TryThrottle, O: Observer + Clone> Shadow<T, O> {
    /// Creates a shadow of `twin` that reports to `observer`. This call is the [place](Observed#places) of its
    /// entries through a trait.
    #[track_caller]
    pub fn new(twin: T, observer: O) -> Self {
        Self {
            twin: Observed::new(twin, observer),
            cost: 1,
            try_enter: |twin, _| twin.try_enter().ok(),
        }
    }

    /// Returns the limit on trial, for example to change it or to take its snapshot.
    pub fn twin(&self) -> &T {
        self.twin.throttle()
    }

    /// Returns the observer.
    pub fn observer(&self) -> &O {
        self.twin.observer()
    }

    /// Admits the caller, and reports what the twin does. `None` if the twin refuses.
    #[track_caller]
    #[must_use = "a permit of the twin is returned when it is dropped: bind it, as in `let _permit = ..`"]
    pub fn admit(&self) -> Option<ObservedPermit<T::Permit, O>> {
        self.twin.try_acquire().ok()
    }
}

impl<T: TryThrottle, O: Observer + Clone> Throttle for Shadow<T, O> {
    type Permit = Option<ObservedPermit<T::Permit, O>>;
    type Enter = EnterShadow<T, O>;

    fn enter(&self) -> Waiting<Self::Enter> {
        Waiting::new(EnterShadow {
            shadow: Some(self.clone()),
        })
    }

    fn enter_now(&self) -> Option<Self::Permit> {
        Some((self.try_enter)(&self.twin, self.cost))
    }

    fn rollback(&self, permit: Self::Permit) {
        if let Some(permit) = permit {
            self.twin.rollback(permit);
        }
    }

    fn polling(&self) -> Polling {
        self.twin.polling()
    }
}

impl<T: TryThrottle, O: Observer + Clone> TryThrottle for Shadow<T, O> {
    fn try_enter(&self) -> Result<Self::Permit, AcquireError> {
        Ok((self.try_enter)(&self.twin, self.cost))
    }
}

/// The amount is asked of the twin in one piece, and is admitted whatever it is.
impl<T: Weighted<Many: TryThrottle> + TryThrottle, O: Observer + Clone> Weighted for Shadow<T, O> {
    type Many = Self;

    fn cost(&self, n: u64) -> Self {
        Self {
            cost: n,
            try_enter: |twin, cost| twin.cost(cost).try_enter().ok(),
            ..self.clone()
        }
    }

    fn settle(&self, permit: Self::Permit, used: u64) {
        if let Some(permit) = permit {
            self.twin.settle(permit, used);
        }
    }

    /// No adapter refuses a caller in place of the twin.
    fn max_units(&self) -> u64 {
        u64::MAX
    }

    fn chunk_units(&self) -> u64 {
        self.twin.chunk_units()
    }
}

/// A twin that learns does so from the calls that it admits.
impl<T: Adaptive + TryThrottle, O: Observer + Clone> Adaptive for Shadow<T, O> {
    fn learn(&self, permit: &mut Self::Permit, feedback: Feedback) {
        if let Some(permit) = permit {
            self.twin.learn(permit, feedback);
        }
    }
}

/// A shadow limits nothing.
impl<T: TryThrottle, O: Observer + Clone> Inspect for Shadow<T, O> {
    const LIMITS: usize = 0;

    fn inspect(&self, _: Option<&Self::Permit>, _: &mut dyn FnMut(usize, LimitStatus)) {}
}

/// The future of an entry of a [`Shadow`]: it is ready in its first poll.
///
/// # Panics
///
/// Panics if it is polled again after completion.
#[must_use = "a future does nothing unless it is awaited"]
pub struct EnterShadow<T: Throttle, O: Observer> {
    // `None` after completion.
    shadow: Option<Shadow<T, O>>,
}

// Nothing in it is pinned.
impl<T: Throttle, O: Observer> Unpin for EnterShadow<T, O> {}

impl<T: TryThrottle, O: Observer + Clone> Future for EnterShadow<T, O> {
    type Output = Result<Option<Permit<T, O>>, AcquireError>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let shadow = self.get_mut().shadow.take();
        let shadow = shadow.expect("polled again after it was ready");
        Poll::Ready(shadow.try_enter())
    }
}

impl<T: Throttle, O: Observer> fmt::Debug for EnterShadow<T, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnterShadow").finish_non_exhaustive()
    }
}
