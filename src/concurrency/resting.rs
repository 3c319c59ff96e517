//! [`Resting`]: a throttle whose permits are released only some time after the work has ended.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::ReleaseAfter;
use crate::error::AcquireError;
use crate::status::LimitStatus;
use crate::throttle::{Inspect, Polling, Throttle, TryThrottle};
use crate::time::Clock;
use crate::wait::Waiting;

/// A throttle whose permits are [released only some time after](ReleaseAfter) the work has ended, for example the
/// slot of a host that has to rest between two requests. In a composition, only the permit of this part is kept for so
/// long.
///
/// A permit that is [rolled back](Throttle::rollback), because its work has not begun, is returned at once. The
/// holder of a permit can [change](ReleaseAfter::set_duration) its duration. `T` is any throttle whose permit can move
/// into a task.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tollgate::semaphore::Resting;
/// use tollgate::{Clock, Semaphore, all};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate::AcquireError> {
/// let clock = Clock::manual();
/// let (host, total) = (Arc::new(Semaphore::new(1)), Arc::new(Semaphore::new(64)));
/// let slow = Resting::new(Arc::clone(&host), Duration::from_secs(2)).clock(&clock);
///
/// drop(all((slow, Arc::clone(&total))).acquire().await?);
/// assert_eq!((host.available_permits(), total.available_permits()), (0, 64));
/// clock.advance(Duration::from_secs(2));
/// assert_eq!(host.available_permits(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a throttle does nothing until it is entered"]
pub struct Resting<T> {
    throttle: T,
    duration: Duration,
    clock: Clock,
}

impl<T> Resting<T> {
    /// Keeps the permits of a throttle for `duration` after the end of their work.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    pub fn new(throttle: T, duration: Duration) -> Self {
        Self {
            throttle,
            duration,
            clock: Clock::default(),
        }
    }

    /// Sets the clock that measures the time after the end of the work, in place of [`Clock::default`].
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.clock = clock.into();
        self
    }

    fn keep<P: Send + 'static>(&self, permit: P) -> ReleaseAfter<P> {
        ReleaseAfter::new(permit, self.duration).clock(self.clock.clone())
    }
}

impl<T: Throttle<Permit: Send + 'static>> Throttle for Resting<T> {
    type Permit = ReleaseAfter<T::Permit>;
    type Enter = EnterResting<T>;

    fn enter(&self) -> Waiting<Self::Enter> {
        let (enter, resting) = (self.throttle.enter().into_inner(), self.clone());
        Waiting::new(EnterResting { enter, resting })
    }

    fn rollback(&self, permit: Self::Permit) {
        self.throttle.rollback(permit.into_inner());
    }

    fn enter_now(&self) -> Option<Self::Permit> {
        let permit = self.throttle.enter_now();
        permit.map(|permit| self.keep(permit))
    }

    fn polling(&self) -> Polling {
        self.throttle.polling()
    }
}

impl<T: TryThrottle<Permit: Send + 'static>> TryThrottle for Resting<T> {
    fn try_enter(&self) -> Result<Self::Permit, AcquireError> {
        let permit = self.throttle.try_enter();
        permit.map(|permit| self.keep(permit))
    }
}

impl<T: Inspect<Permit: Send + 'static>> Inspect for Resting<T> {
    const LIMITS: usize = T::LIMITS;

    fn inspect(&self, permit: Option<&Self::Permit>, each: &mut dyn FnMut(usize, LimitStatus)) {
        self.throttle.inspect(permit.map(|permit| &**permit), each);
    }
}

pin_project! {
    /// The wait for a [`Resting`].
    #[derive(Debug)]
    #[must_use = "a future does nothing unless it is awaited"]
    pub struct EnterResting<T: Throttle> {
        #[pin]
        enter: T::Enter,
        resting: Resting<T>,
    }
}

impl<T: Throttle<Permit: Send + 'static>> Future for EnterResting<T> {
    type Output = Result<ReleaseAfter<T::Permit>, AcquireError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let polled = this.enter.poll(context);
        polled.map_ok(|permit| this.resting.keep(permit))
    }
}
