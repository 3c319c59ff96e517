//! [`ReleaseAfter`]: a guard that is dropped some time after the work has ended, without a task.
//!
//! 1. The guard always has one owner. At first that is the [`ReleaseAfter`], whose drop moves it into a
//!    waker. Dropping the last handle of the waker releases the guard. That happens when the timer expires,
//!    when the clock is dropped, or when the timer could not be started.
//! 2. The waker owns its timer entry. No timer keeps a waker beyond the expiry of its entry, so
//!    neither keeps the other forever.
//!
//! This module has no protocol of its own, and so no loom model: the drop that starts the timer has a handle
//! of the waker as well, and if the timer expires meanwhile, the count of the `Arc` decides which of the two
//! drops the guard. The mutex around the guard is never locked; it makes the waker `Sync`.

use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::task::Wake;
use std::time::Duration;

use crate::panic::contain_panic;
use crate::time::{Clock, Deadline};

/// A permit, or another guard, that is dropped only some time after this value was dropped: for politeness
/// towards a server, or to let a connection rest.
///
/// [`Permit::release_after`](crate::semaphore::Permit::release_after) wraps a permit, and [`new`](Self::new) wraps any
/// other guard; [`Resting`](super::Resting) is a throttle with such permits. Bound to a variable for the time of the work, it keeps the permit for `duration` after the
/// work has ended, also if the work panics or its future is dropped. As a statement,
/// `permit.release_after(duration);`, it keeps the permit for `duration` from now.
///
/// Meanwhile the permit is held like any other: [`Semaphore::wait_idle`](crate::Semaphore::wait_idle) waits
/// for it, [`close`](crate::Semaphore::close) leaves it alone, and the key of a [`Keyed`](crate::Keyed) stays
/// in the map. No task runs and no thread is blocked; the wait is an entry of the timer of a
/// [clock](Self::clock). It never ends early on that clock. A `duration` of zero drops the guard at once.
///
/// # When time cannot pass
///
/// The guard is never lost. If the runtime of the clock is dropped, the guard is dropped at once, however
/// much time remains. The same happens if no handle of a [manual clock](crate::time::ManualClock) exists any more.
/// If the runtime has no timer, the system clock measures the time. If the timer thread cannot be started,
/// the guard is dropped at once. None of this panics in the drop.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tollgate::{Clock, Semaphore};
///
/// let clock = Clock::manual();
/// let semaphore = Arc::new(Semaphore::new(1));
/// let permit = Arc::clone(&semaphore).try_acquire_owned()?;
///
/// let permit = permit.release_after(Duration::from_secs(2)).clock(&clock);
/// clock.advance(Duration::from_secs(60)); // The work.
/// drop(permit);
/// clock.advance(Duration::from_nanos(1_999_999_999));
/// assert_eq!(semaphore.available_permits(), 0);
/// clock.advance(Duration::from_nanos(1));
/// assert_eq!(semaphore.available_permits(), 1);
/// # Ok::<_, tollgate::AcquireError>(())
/// ```
#[derive(Debug)]
pub struct ReleaseAfter<G: Send + 'static> {
    /// `Some` until the drop.
    guard: Option<G>,
    duration: Duration,
    clock: Clock,
}

impl<G: Send + 'static> ReleaseAfter<G> {
    /// Holds `guard`, for example the permits of a composition, until `duration` after this is dropped.
    ///
    /// On the system clock, the timer thread drops the guard, so its drop must not block. A panic in that
    /// drop is caught.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use tollgate::semaphore::ReleaseAfter;
    /// use tollgate::{Clock, Semaphore, all};
    ///
    /// let clock = Clock::manual();
    /// let (host, total) = (Arc::new(Semaphore::new(1)), Arc::new(Semaphore::new(64)));
    /// let both = all((Arc::clone(&host), Arc::clone(&total))).try_acquire()?;
    ///
    /// drop(ReleaseAfter::new(both, Duration::from_secs(2)).clock(&clock));
    /// assert_eq!((host.available_permits(), total.available_permits()), (0, 63));
    /// clock.advance(Duration::from_secs(2));
    /// assert_eq!((host.available_permits(), total.available_permits()), (1, 64));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn new(guard: G, duration: Duration) -> Self {
        Self {
            guard: Some(guard),
            duration,
            clock: Clock::default(),
        }
    }

    /// Sets the clock that measures the time after the drop; [`Clock::default`] otherwise. On tokio's
    /// time, that is the time of the runtime in which this is dropped, as long as it is driven.
    #[expect(clippy::return_self_not_must_use, reason = "dropping it is its use")]
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.clock = clock.into();
        self
    }

    /// Returns how long the guard is held after the drop.
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// Changes how long the guard is held after the drop, for example to a multiple of the time that a server took.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use tollgate::{Clock, Semaphore};
    ///
    /// let clock = Clock::manual();
    /// let semaphore = Arc::new(Semaphore::new(1));
    /// let permit = Arc::clone(&semaphore).try_acquire_owned()?;
    /// let mut permit = permit.release_after(Duration::from_secs(2)).clock(&clock);
    /// permit.set_duration(permit.duration() + Duration::from_secs(7));
    /// drop(permit);
    /// clock.advance(Duration::from_secs(9));
    /// assert_eq!(semaphore.available_permits(), 1);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn set_duration(&mut self, duration: Duration) {
        self.duration = duration;
    }

    /// Returns the guard, to be dropped at any time.
    pub(crate) fn into_inner(mut self) -> G {
        self.guard.take().expect("it is there until the drop")
    }
}

/// Dropping the last handle drops the guard, and then cancels the timer, which has expired.
struct Release<G> {
    guard: Mutex<Option<G>>,
    timer: Deadline,
}

impl<G> Drop for Release<G> {
    fn drop(&mut self) {
        let guard = self.guard.get_mut().map(Option::take);
        contain_panic(|| drop(guard));
    }
}

impl<G: Send + 'static> Wake for Release<G> {
    fn wake(self: Arc<Self>) {}
}

impl<G: Send + 'static> Drop for ReleaseAfter<G> {
    fn drop(&mut self) {
        let Some(guard) = self.guard.take() else {
            return;
        };
        let release = Arc::new(Release {
            guard: Mutex::new(Some(guard)),
            timer: Deadline::new(),
        });
        let start = |clock: &Clock| {
            contain_panic(|| {
                let due = clock.now().saturating_add(self.duration);
                release.timer.arm(clock, due, Arc::clone(&release).into());
            })
        };
        if !self.duration.is_zero() && start(&self.clock).is_none() {
            start(&Clock::system());
        }
    }
}

impl<G: Send + 'static> Deref for ReleaseAfter<G> {
    type Target = G;

    fn deref(&self) -> &G {
        self.guard.as_ref().expect("it is there until the drop")
    }
}
