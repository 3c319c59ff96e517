//! [`Gate`]: open, or shut for a while.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::acquire::{Acquire, AcquireOwned};
use super::state::{Home, State};
use crate::error::AcquireError;
use crate::time::{Clock, Tick};

/// Lets everybody through while it is open, and nobody while it is shut. Cheap to clone; clones are
/// handles of one gate.
///
/// While it is open a [check](Self::check) is one relaxed load and a branch: no clock is read, and
/// nothing is written that other threads would have to fetch. It does not count; somebody else says
/// when it is to be [shut](Self::shut_for), for example a [`Detector`](crate::Detector), or an
/// operator. It reopens by itself, at the exact tick.
///
/// It is a [`Throttle`](crate::Throttle), by value and by reference, to be put in front of others
/// with [`all`](crate::all).
///
/// # Fairness
///
/// There is nothing to be fair about: when it opens, all who wait are let go. Whoever was let go
/// goes through, also if the gate is shut again before it is polled.
///
/// # Cancel safety
///
/// Dropping a waiting future takes it out of those who wait, and loses nothing.
///
/// # Memory ordering
///
/// Shutting and opening publish nothing but themselves. A check on another thread sees them as soon
/// as that thread sees what was done before, and otherwise soon.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Clock, ErrorKind, Gate};
///
/// let clock = Clock::manual();
/// let gate = Gate::new().clock(&clock);
/// let connection = gate.clone();
/// connection.check()?;
///
/// gate.shut_for(Duration::from_secs(60));
/// clock.advance(Duration::from_secs(20));
/// let refused = connection.check().unwrap_err();
/// assert_eq!(refused.kind(), ErrorKind::RateLimited);
/// assert_eq!(refused.retry_after(), Some(Duration::from_secs(40)));
///
/// clock.advance(Duration::from_secs(40));
/// connection.check()?;
/// # Ok::<_, tollgate::AcquireError>(())
/// ```
#[derive(Clone)]
pub struct Gate(Arc<State>);

/// Making one.
impl Gate {
    /// A gate that is open.
    pub fn new() -> Self {
        Self(Arc::new(State::new(Clock::unchosen().resolved(), None)))
    }

    /// A gate that is open, and lives by this clock. It has nothing to do with the one that it is
    /// made from, nor with clones of that.
    ///
    /// Without it, the clock is the [system](Clock::system), or, with the feature `test-util` and if
    /// the gate is made inside a tokio runtime, tokio's. On tokio's time a gate is for one runtime,
    /// as the times of two need not agree.
    #[must_use]
    pub fn clock(self, clock: impl Into<Clock>) -> Self {
        Self::with_home(&clock.into(), None)
    }

    /// One of those that somebody keeps.
    pub(super) fn with_home(clock: &Clock, home: Option<Box<dyn Home>>) -> Self {
        Self(Arc::new(State::new(clock.resolved(), home)))
    }

    pub(super) fn of(state: Arc<State>) -> Self {
        Self(state)
    }

    pub(super) fn state(&self) -> &Arc<State> {
        &self.0
    }
}

/// Going through.
impl Gate {
    /// Goes through now, or not at all.
    ///
    /// # Errors
    ///
    /// [`RateLimited`](crate::ErrorKind::RateLimited), with the time until it reopens: exactly, one
    /// nanosecond earlier it is still shut.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    #[inline(always)]
    pub fn check(&self) -> Result<(), AcquireError> {
        self.0.check()
    }

    /// Waits until it is open.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing, see [the type](Self#cancel-safety).
    ///
    /// # Errors
    ///
    /// None of its own, unless some four billion wait:
    /// [`QueueFull`](crate::ErrorKind::QueueFull). With a [timeout](Acquire::timeout) that is shorter
    /// than the gate is shut, [`TimedOut`](crate::ErrorKind::TimedOut) at once.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{ErrorKind, Gate};
    ///
    /// let gate = Gate::new();
    /// gate.shut_for(Duration::from_millis(2));
    /// gate.acquire().wait()?;
    ///
    /// gate.shut_for(Duration::from_secs(600));
    /// let refused = gate.acquire().timeout(Duration::from_secs(5)).wait();
    /// assert_eq!(refused.unwrap_err().kind(), ErrorKind::TimedOut);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline]
    pub fn acquire(&self) -> Acquire<'_> {
        Acquire::new(&self.0)
    }

    /// As [`acquire`](Self::acquire), with a future that may move into a task.
    #[inline]
    pub fn acquire_owned(&self) -> AcquireOwned {
        AcquireOwned::new(Arc::clone(&self.0))
    }

    /// Waits until it is open, or until `token` is cancelled.
    ///
    /// Short for `acquire().cancel_on(token)`. Needs the feature `tokio`, a default.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing, see [the type](Self#cancel-safety).
    ///
    /// # Errors
    ///
    /// [`Cancelled`](crate::ErrorKind::Cancelled), also if the token is cancelled already and the
    /// gate is open.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tokio_util::sync::CancellationToken;
    /// use tollgate::{ErrorKind, Gate};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (gate, token) = (Gate::new(), CancellationToken::new());
    /// gate.shut_for(Duration::from_secs(600));
    /// let (waited, ()) =
    ///     tokio::join!(gate.acquire_cancellable(&token), async { token.cancel() });
    /// assert_eq!(waited.unwrap_err().kind(), ErrorKind::Cancelled);
    /// # }
    /// ```
    #[cfg(feature = "tokio")]
    #[inline]
    pub fn acquire_cancellable<'a>(
        &'a self,
        token: &'a tokio_util::sync::CancellationToken,
    ) -> crate::wait::CancelOn<Acquire<'a>, &'a tokio_util::sync::CancellationToken> {
        self.acquire().cancel_on(token)
    }
}

/// Shutting and opening it.
impl Gate {
    /// Shuts it for so long from now; or longer, if it is shut for longer already. It takes effect
    /// at once, also for those who wait. For a duration of zero it does nothing, and
    /// [`Duration::MAX`] is until somebody [opens](Self::open) it.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Gate};
    ///
    /// let gate = Gate::new().clock(Clock::manual());
    /// gate.shut_for(Duration::from_secs(60));
    /// gate.shut_for(Duration::from_secs(5));
    /// assert_eq!(gate.reopens_at().unwrap().as_nanos(), 60_000_000_000);
    /// ```
    pub fn shut_for(&self, duration: Duration) {
        self.0.shut_for(duration);
    }

    /// Opens it now, and lets everybody go who waits.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let gate = tollgate::Gate::new();
    /// gate.shut_for(Duration::MAX);
    /// gate.open();
    /// gate.check()?;
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn open(&self) {
        self.0.open();
    }

    /// Whether it is open now.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.0.is_open()
    }

    /// The tick of its clock at which it will reopen; `None` if it is open.
    pub fn reopens_at(&self) -> Option<Tick> {
        self.0.shut().map(|shut| shut.until)
    }

    /// How many wait until it opens.
    pub fn waiting(&self) -> usize {
        self.0.waiting()
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("open", &self.is_open())
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}
