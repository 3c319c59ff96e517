//! A semaphore made of a channel of tokens, in two variants.
//!
//! 1. *Idle* tokens: the channel is full at first. A caller takes a token out to acquire, and puts
//!    it back to release. An empty channel makes callers wait.
//! 2. *Busy* tokens: the channel is empty at first. A caller puts a token in to acquire, and takes
//!    any token out to release. A full channel makes callers wait.
//! 3. The channel calls wakers under its own lock, and a waker that panics breaks it. So it only
//!    ever gets a [`Contained`] waker.
//! 4. A token that was received from a closed channel admits no caller: an idle token may still
//!    have been in it.

use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use async_channel::{Receiver, Sender};

use super::permit::{Permit, PermitSource};
use crate::debug::debug_as;
use crate::error::{AcquireError, ErrorKind};
use crate::panic::contain_panic;
use crate::status::Snapshot;
use crate::wait::Waiting;

/// Limits callers to at most N at once with a channel of N tokens: the simplest throttle.
///
/// A channel of *idle* tokens is full when it is [created](Self::new): a caller takes a token out
/// to acquire, and puts it back to release. A channel of *busy* tokens, the
/// [reverse](Self::reversed), is empty when it is created: a caller puts a token in to acquire, and
/// takes one out to release; a full channel makes callers wait. For callers the two behave the
/// same.
///
/// [`Semaphore`](crate::Semaphore) has a strict order, weights and a limit that can change; a
/// [`Pool`](crate::Pool) hands out items. [The table](crate::guarantees) lists what each type
/// guarantees.
///
/// # Fairness
///
/// Waiters are served only roughly in the order of arrival: the order is the channel's. A newcomer
/// can take a returned permit before the waiter that was woken for it has run. Each admitted waiter
/// also wakes the next one, which mostly finds no token. A waiter that finds no token waits again
/// behind all others, so a task can starve while others return repeatedly.
///
/// # Cancel safety
///
/// Dropping an unfinished future loses nothing: if the waiter had been woken for a token, the next
/// waiter is woken for that token.
///
/// # Wakers
///
/// The channel calls wakers under its own lock. A waker that calls this semaphore directly, instead
/// of scheduling a task that does, deadlocks. A waker that panics affects no other waiter; the
/// panic hook reports the panic, which is then caught.
///
/// # Memory ordering
///
/// Everything that a holder does before it returns its permit happens before everything that the
/// next holder of that token, or of that slot, does.
///
/// # Examples
///
/// ```
/// use tollgate::ChannelSemaphore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate::AcquireError> {
/// for semaphore in [ChannelSemaphore::new(2), ChannelSemaphore::reversed(2)] {
///     let permit = semaphore.acquire().await?;
///     assert_eq!(semaphore.snapshot().available, 1);
///     drop(permit);
///     assert_eq!(semaphore.snapshot().available, 2);
/// }
/// # Ok(())
/// # }
/// ```
pub struct ChannelSemaphore {
    sender: Sender<()>,
    receiver: Receiver<()>,
    tokens: Tokens,
    /// Idle tokens that a closed channel does not take.
    outside: AtomicUsize,
}

/// The meaning of a token in the channel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tokens {
    Idle,
    Busy,
}

/// Construction.
impl ChannelSemaphore {
    /// Creates a channel of `permits` idle tokens, and fills it, at 8 bytes per permit.
    ///
    /// # Panics
    ///
    /// Panics if `permits` is 0, which would admit no caller ever, or more than 2^31 - 1.
    #[track_caller]
    pub fn new(permits: usize) -> Self {
        let semaphore = Self::with(permits, Tokens::Idle);
        // The channel has a slot for each token.
        semaphore.give_back(permits);
        semaphore
    }

    /// Creates a channel of busy tokens with `permits` slots, the reverse of [`new`](Self::new).
    ///
    /// # Panics
    ///
    /// The same as for [`new`](Self::new).
    #[track_caller]
    pub fn reversed(permits: usize) -> Self {
        Self::with(permits, Tokens::Busy)
    }

    #[track_caller]
    fn with(permits: usize, tokens: Tokens) -> Self {
        assert!(
            (1..=i32::MAX as usize).contains(&permits),
            "a channel semaphore cannot have {permits} permits, but 1 to 2^31 - 1"
        );
        let (sender, receiver) = async_channel::bounded(permits);
        Self {
            sender,
            receiver,
            tokens,
            outside: AtomicUsize::new(0),
        }
    }
}

/// Acquiring.
impl ChannelSemaphore {
    /// Waits for a permit. The future allocates only if it has to wait.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing; see [the type](Self#cancel-safety).
    ///
    /// # Errors
    ///
    /// [`Closed`](ErrorKind::Closed), when the semaphore is or gets closed.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let semaphore = tollgate::ChannelSemaphore::new(1);
    /// let permit = semaphore.acquire().await?;
    /// assert_eq!(semaphore.snapshot().available, 0);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn acquire(&self) -> Waiting<Acquire<&Self>> {
        Waiting::new(Acquire::new(self))
    }

    /// Takes a permit if one is free now.
    ///
    /// # Errors
    ///
    /// [`NoPermits`](ErrorKind::NoPermits), when none is free; [`Closed`](ErrorKind::Closed).
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{ChannelSemaphore, ErrorKind};
    ///
    /// let semaphore = ChannelSemaphore::new(1);
    /// let permit = semaphore.try_acquire()?;
    /// assert_eq!(semaphore.try_acquire().unwrap_err().kind(), ErrorKind::NoPermits);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline]
    pub fn try_acquire(&self) -> Result<Permit<&Self>, AcquireError> {
        self.try_take()?;
        Ok(Permit::new(self, 1))
    }

    /// Waits for a permit that shares the semaphore, so it can move into a task.
    ///
    /// # Cancel safety, errors
    ///
    /// The same as for [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::ChannelSemaphore;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let semaphore = Arc::new(ChannelSemaphore::new(1));
    /// let permit = Arc::clone(&semaphore).acquire_owned().await?;
    /// tokio::spawn(async move { drop(permit) }).await?;
    /// assert_eq!(semaphore.snapshot().available, 1);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn acquire_owned(self: Arc<Self>) -> Waiting<Acquire<Arc<Self>>> {
        Waiting::new(Acquire::new(self))
    }

    /// Takes a permit that shares the semaphore, if one is free now.
    ///
    /// # Errors
    ///
    /// The same as for [`try_acquire`](Self::try_acquire).
    #[inline]
    pub fn try_acquire_owned(self: Arc<Self>) -> Result<Permit<Arc<Self>>, AcquireError> {
        self.try_take()?;
        Ok(Permit::new(self, 1))
    }
}

/// The tokens.
impl ChannelSemaphore {
    /// Takes a permit without waiting.
    pub(super) fn try_take(&self) -> Result<(), AcquireError> {
        let moved = match self.tokens {
            Tokens::Idle => self.receiver.try_recv().is_ok(),
            Tokens::Busy => self.sender.try_send(()).is_ok(),
        };
        self.admit(moved)
    }

    /// Waits until a token has been moved, or the channel is closed.
    fn wait(&self) -> impl Future<Output = bool> + use<> {
        let (sender, receiver, tokens) = (self.sender.clone(), self.receiver.clone(), self.tokens);
        async move {
            match tokens {
                Tokens::Idle => receiver.recv().await.is_ok(),
                Tokens::Busy => sender.send(()).await.is_ok(),
            }
        }
    }

    /// Admits a caller whose token has been moved, unless the channel is closed.
    fn admit(&self, moved: bool) -> Result<(), AcquireError> {
        match self.is_closed() {
            false if moved => return Ok(()),
            false => return Err(AcquireError::new(ErrorKind::NoPermits)),
            true if moved => self.give_back(1),
            true => {}
        }
        Err(AcquireError::new(ErrorKind::Closed))
    }
}

impl PermitSource for ChannelSemaphore {
    #[inline]
    fn give_back(&self, permits: usize) {
        for _ in 0..permits {
            match self.tokens {
                Tokens::Idle if self.sender.try_send(()).is_ok() => {}
                Tokens::Idle => drop(self.outside.fetch_add(1, Ordering::Relaxed)),
                Tokens::Busy => drop(self.receiver.try_recv()),
            }
        }
    }
}

/// Closing and observing.
impl ChannelSemaphore {
    /// Returns the state of the semaphore. The numbers are read one after the other, so they may
    /// belong to different moments. A caller whose future has been woken but not polled since
    /// counts as waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// let semaphore = tollgate::ChannelSemaphore::new(3);
    /// let _permit = semaphore.try_acquire()?;
    /// let snapshot = semaphore.snapshot();
    /// assert_eq!((snapshot.limit, snapshot.in_use, snapshot.waiting), (3, 1, 0));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        let limit = self.sender.capacity().unwrap_or_default();
        let inside = self.receiver.len();
        let held = match self.tokens {
            Tokens::Idle => limit.saturating_sub(inside + self.outside.load(Ordering::Relaxed)),
            Tokens::Busy => inside,
        };
        // Every wait has a clone of both ends of the channel.
        let waiting = self.sender.sender_count() - 1;
        Snapshot::of_permits(limit, held, waiting)
    }

    /// Closes the semaphore: every waiter and every later caller gets
    /// [`Closed`](ErrorKind::Closed). Held permits stay valid. Closing it again does nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{ChannelSemaphore, ErrorKind};
    ///
    /// let semaphore = ChannelSemaphore::new(1);
    /// semaphore.close();
    /// assert_eq!(semaphore.try_acquire().unwrap_err().kind(), ErrorKind::Closed);
    /// ```
    pub fn close(&self) {
        self.sender.close();
    }

    /// Returns whether the semaphore is closed.
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

debug_as! {
    [] ChannelSemaphore, self, let snapshot = self.snapshot() => ChannelSemaphore {
        permits: snapshot.limit, available_permits: snapshot.available, closed: self.is_closed(),
        ..
    }
}

/// The future of [`ChannelSemaphore::acquire`] and [`ChannelSemaphore::acquire_owned`]. `S` derefs
/// to the semaphore. It allocates if it has to wait.
///
/// # Panics
///
/// Panics if it is polled again after it has completed.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Acquire<S: Deref<Target = ChannelSemaphore>> {
    /// `None` once the future has completed.
    semaphore: Option<S>,
    /// The wait, if a poll had to wait.
    wait: Option<Pin<Box<dyn Future<Output = bool> + Send>>>,
    /// The waker that the channel has then.
    waker: Option<Arc<Contained>>,
}

impl<S: Deref<Target = ChannelSemaphore>> Acquire<S> {
    #[inline]
    pub(super) fn new(semaphore: S) -> Self {
        Self {
            semaphore: Some(semaphore),
            wait: None,
            waker: None,
        }
    }

    fn poll_wait(&mut self, semaphore: &ChannelSemaphore, waker: &Waker) -> Poll<bool> {
        let wait = self.wait.get_or_insert_with(|| Box::pin(semaphore.wait()));
        // The stale waker is dropped after the poll. The channel drops its clone under a lock; if
        // that were the last clone, it would drop the caller's waker there, with everything that
        // the waker owns.
        let wakes = |own: &Contained| own.0.as_ref().is_some_and(|own| own.will_wake(waker));
        let _stale = self.waker.take_if(|own| !wakes(own));
        let contain = || Arc::new(Contained(Some(waker.clone())));
        let contained = Waker::from(Arc::clone(self.waker.get_or_insert_with(contain)));
        wait.as_mut().poll(&mut Context::from_waker(&contained))
    }
}

impl<S: Deref<Target = ChannelSemaphore>> Future for Acquire<S> {
    type Output = Result<Permit<S>, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let semaphore = self.semaphore.take();
        let semaphore = semaphore.expect("polled again after it was ready");
        if self.wait.is_none() {
            match semaphore.try_take() {
                Err(error) if error.kind() == ErrorKind::NoPermits => {}
                taken => return Poll::Ready(taken.map(|()| Permit::new(semaphore, 1))),
            }
        }
        let Poll::Ready(moved) = self.poll_wait(&semaphore, context.waker()) else {
            self.semaphore = Some(semaphore);
            return Poll::Pending;
        };
        // The wait is dropped as soon as it is ready, so other wakeups that it consumed pass to
        // others. The channel drops its waker first.
        self.wait = None;
        self.waker = None;
        semaphore.admit(moved)?;
        Poll::Ready(Ok(Permit::new(semaphore, 1)))
    }
}

// No field is ever pinned.
impl<S: Deref<Target = ChannelSemaphore>> Unpin for Acquire<S> {}

debug_as! { [S: Deref<Target = ChannelSemaphore>] Acquire<S>, self => Acquire { .. } }

/// A waker that never panics when it is called or dropped. It is `None` only during `drop`.
struct Contained(Option<Waker>);

impl Wake for Contained {
    fn wake(self: Arc<Self>) {
        contain_panic(|| self.0.iter().for_each(Waker::wake_by_ref));
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        let waker = self.0.take();
        contain_panic(|| drop(waker));
    }
}
