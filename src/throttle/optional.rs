//! A throttle that may be missing.

use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::{Adaptive, Inspect, Polling, Throttle, TryThrottle, Weighted};
use crate::error::AcquireError;
use crate::feedback::Feedback;
use crate::status::LimitStatus;
use crate::wait::Waiting;

/// `None` admits every caller.
///
/// # Examples
///
/// ```
/// use tollgate::{Semaphore, all};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate::AcquireError> {
/// let slots = Semaphore::new(8);
/// let quota: Option<&Semaphore> = None;
/// let (slot, nothing) = all((&slots, quota)).acquire().await?;
/// assert!(nothing.is_none());
/// # Ok(())
/// # }
/// ```
impl<T: Throttle> Throttle for Option<T> {
    type Permit = Option<T::Permit>;
    type Enter = EnterOption<T::Enter>;

    #[inline]
    fn enter(&self) -> Waiting<Self::Enter> {
        let enter = self.as_ref().map(|throttle| throttle.enter().into_inner());
        Waiting::new(EnterOption { enter })
    }

    #[inline]
    fn rollback(&self, permit: Self::Permit) {
        if let (Some(throttle), Some(permit)) = (self, permit) {
            throttle.rollback(permit);
        }
    }

    #[inline]
    fn enter_now(&self) -> Option<Self::Permit> {
        match self {
            Some(throttle) => throttle.enter_now().map(Some),
            None => Some(None),
        }
    }

    fn polling(&self) -> Polling {
        self.as_ref().map_or(Polling::BY_WAKERS, T::polling)
    }
}

impl<T: TryThrottle> TryThrottle for Option<T> {
    #[inline]
    fn try_enter(&self) -> Result<Self::Permit, AcquireError> {
        self.as_ref().map(T::try_enter).transpose()
    }
}

/// `None` admits any number of units.
impl<T: Weighted> Weighted for Option<T> {
    type Many = Option<T::Many>;

    #[inline]
    fn cost(&self, n: u64) -> Self::Many {
        self.as_ref().map(|throttle| throttle.cost(n))
    }

    #[inline]
    fn settle(&self, permit: Self::Permit, used: u64) {
        if let (Some(throttle), Some(permit)) = (self, permit) {
            throttle.settle(permit, used);
        }
    }

    #[inline]
    fn max_units(&self) -> u64 {
        self.as_ref().map_or(u64::MAX, T::max_units)
    }

    fn chunk_units(&self) -> u64 {
        self.as_ref().map_or(u64::MAX, T::chunk_units)
    }
}

/// `None` has no status.
impl<T: Inspect> Inspect for Option<T> {
    const LIMITS: usize = T::LIMITS;

    fn inspect(&self, permit: Option<&Self::Permit>, each: &mut dyn FnMut(usize, LimitStatus)) {
        match self {
            Some(throttle) => throttle.inspect(permit.and_then(Option::as_ref), each),
            None => (0..T::LIMITS).for_each(|_| each(0, LimitStatus::Unknown)),
        }
    }
}

/// A missing limit learns nothing.
impl<T: Adaptive> Adaptive for Option<T> {
    fn learn(&self, permit: &mut Self::Permit, feedback: Feedback) {
        if let (Some(throttle), Some(permit)) = (self, permit) {
            throttle.learn(permit, feedback);
        }
    }
}

pin_project! {
    /// The wait for a throttle that may be missing.
    #[derive(Debug)]
    #[must_use = "a future does nothing unless it is awaited"]
    pub struct EnterOption<E> {
        #[pin]
        enter: Option<E>,
    }
}

impl<P, E: Future<Output = Result<P, AcquireError>>> Future for EnterOption<E> {
    type Output = Result<Option<P>, AcquireError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().enter.as_pin_mut() {
            Some(enter) => enter.poll(context).map_ok(Some),
            None => Poll::Ready(Ok(None)),
        }
    }
}
