//! A channel as a token machine, in both directions.
//!
//! 1. *Idle* tokens: the channel is filled at first. A caller takes a token out to go on, and puts it
//!    back when it is done. An empty channel makes callers wait.
//! 2. *Busy* tokens: the channel is empty at first. A caller puts a token in to go on, and takes one
//!    out when it is done; it does not matter which. A full channel makes callers wait.
//! 3. The channel calls wakers under a lock of its own, and is broken by one that panics. So it is only
//!    ever given a [`Contained`] one.
//! 4. What was received from a closed channel admits nobody: an idle token may still have been in it.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use async_channel::{Receiver, Sender};

use super::Permit;
use super::permit::PermitSource;
use crate::error::{AcquireError, ErrorKind};
use crate::panic::catch_waker_panic;
use crate::wait::{BoxFuture, Waiting};

/// At most N at once: a channel of N tokens, the simplest throttle that there is.
///
/// A channel of *idle* tokens is filled when it is [made](Self::new): a caller takes a token to go on,
/// and puts it back when it is done. A channel of *busy* tokens, the [reverse](Self::reversed), is
/// empty when it is made: a caller puts a token in to go on, and takes one out when it is done; a full
/// channel makes callers wait. To a caller the two are the same.
///
/// [`Semaphore`](crate::Semaphore) has a strict order, weights and a limit that changes; a
/// [`Pool`](crate::Pool) hands out items. [The table](crate::guarantees) has what each type guarantees.
///
/// # Fairness
///
/// Roughly in the order in which they came, and no more: the order is the channel's. A permit that
/// comes back can be taken by a newcomer before the waiter that was woken for it has run. Each admitted
/// waiter wakes the next one as well, mostly in vain, and a waiter that was woken in vain waits
/// again behind all others, so a task can starve while others come back again and again.
///
/// # Cancel safety
///
/// Dropping a future that has not finished loses nothing: if it had been woken for a token, the next
/// waiter is woken for it.
///
/// # Wakers
///
/// The channel calls wakers under a lock of its own: one that itself calls this semaphore, instead of
/// scheduling a task that does, waits for itself. One that panics disturbs nobody else; the panic is
/// reported by the panic hook and goes no further.
///
/// # Memory ordering
///
/// Whatever a holder did before it gave its permit back happens before whatever the next holder of
/// that token, or that place, does.
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
///     assert_eq!(semaphore.available_permits(), 1);
///     drop(permit);
///     assert_eq!(semaphore.available_permits(), 2);
/// }
/// # Ok(())
/// # }
/// ```
pub struct ChannelSemaphore {
    channel: Channel,
    permits: usize,
}

/// Both ends of the channel.
#[derive(Clone)]
struct Channel {
    sender: Sender<()>,
    receiver: Receiver<()>,
    tokens: Tokens,
    /// Idle tokens that a closed channel does not take.
    outside: Arc<AtomicUsize>,
}

/// What the tokens in the channel are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tokens {
    Idle,
    Busy,
}

impl Channel {
    fn try_enter(&self) -> Result<(), AcquireError> {
        let entered = match self.tokens {
            Tokens::Idle => self.receiver.try_recv().is_ok(),
            Tokens::Busy => self.sender.try_send(()).is_ok(),
        };
        self.unless_closed(entered)
    }

    async fn enter(self) -> Result<(), AcquireError> {
        let entered = match self.tokens {
            Tokens::Idle => self.receiver.recv().await.is_ok(),
            Tokens::Busy => self.sender.send(()).await.is_ok(),
        };
        self.unless_closed(entered)
    }

    fn unless_closed(&self, entered: bool) -> Result<(), AcquireError> {
        let closed = self.sender.is_closed();
        if entered && closed {
            self.leave();
        }
        match (entered, closed) {
            (true, false) => Ok(()),
            (false, false) => Err(AcquireError::new(ErrorKind::NoPermits)),
            (_, true) => Err(AcquireError::new(ErrorKind::Closed)),
        }
    }

    fn leave(&self) {
        match self.tokens {
            Tokens::Idle if self.sender.try_send(()).is_ok() => {}
            Tokens::Idle => drop(self.outside.fetch_add(1, Ordering::Relaxed)),
            Tokens::Busy => drop(self.receiver.try_recv()),
        }
    }

    fn free(&self, permits: usize) -> usize {
        let inside = self.receiver.len();
        match self.tokens {
            Tokens::Idle => inside + self.outside.load(Ordering::Relaxed),
            Tokens::Busy => permits.saturating_sub(inside),
        }
    }
}

/// Making one.
impl ChannelSemaphore {
    /// Makes a channel of `permits` idle tokens. It is filled here, 8 bytes for each permit.
    ///
    /// # Panics
    ///
    /// If `permits` is 0, since then nobody could ever be let in, or more than 2^31 - 1.
    #[track_caller]
    pub fn new(permits: usize) -> Self {
        let semaphore = Self::with(permits, Tokens::Idle);
        // There is a place for each.
        (0..permits).for_each(|_| semaphore.channel.leave());
        semaphore
    }

    /// Makes a channel of busy tokens with `permits` places, the reverse of [`new`](Self::new).
    ///
    /// # Panics
    ///
    /// As [`new`](Self::new).
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
        let channel = Channel {
            sender,
            receiver,
            tokens,
            outside: Arc::default(),
        };
        Self { channel, permits }
    }
}

/// Acquiring.
impl ChannelSemaphore {
    /// Waits for a permit. A future that has to wait is boxed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing, see [the type](Self#cancel-safety).
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
    /// assert_eq!(semaphore.available_permits(), 0);
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
        self.channel.try_enter()?;
        Ok(Permit::new(self, 1))
    }

    /// Waits for a permit that shares the semaphore and so may move into a task.
    ///
    /// # Cancel safety, errors
    ///
    /// As [`acquire`](Self::acquire).
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
    /// assert_eq!(semaphore.available_permits(), 1);
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
    /// As [`try_acquire`](Self::try_acquire).
    #[inline]
    pub fn try_acquire_owned(self: Arc<Self>) -> Result<Permit<Arc<Self>>, AcquireError> {
        self.channel.try_enter()?;
        Ok(Permit::new(self, 1))
    }
}

/// Closing and observing.
impl ChannelSemaphore {
    /// Returns the limit: how many permits there are, free or held. It does not change.
    pub fn permits(&self) -> usize {
        self.permits
    }

    /// Returns how many permits are free.
    ///
    /// # Examples
    ///
    /// ```
    /// let semaphore = tollgate::ChannelSemaphore::new(3);
    /// let _permit = semaphore.try_acquire()?;
    /// assert_eq!(semaphore.available_permits(), 2);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn available_permits(&self) -> usize {
        self.channel.free(self.permits)
    }

    /// Admits nobody any more. Everyone who waits, and everyone who comes, gets
    /// [`Closed`](ErrorKind::Closed). Permits that are held stay valid. Closing again does nothing.
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
        self.channel.sender.close();
    }

    /// Returns whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.channel.sender.is_closed()
    }
}

impl fmt::Debug for ChannelSemaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelSemaphore")
            .field("permits", &self.permits())
            .field("available_permits", &self.available_permits())
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

impl PermitSource for ChannelSemaphore {
    #[inline]
    fn give_back(&self, permits: usize) {
        (0..permits).for_each(|_| self.channel.leave());
    }
}

/// The future of [`ChannelSemaphore::acquire`] and [`ChannelSemaphore::acquire_owned`]. `S` leads to
/// the semaphore. It is boxed when it has to wait.
///
/// # Panics
///
/// If it is polled again after it was ready.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Acquire<S: Deref<Target = ChannelSemaphore>> {
    /// `None` once it is over.
    semaphore: Option<S>,
    /// The wait and the waker that the channel has, since a poll that had to wait.
    waiting: Option<(BoxFuture<'static, ()>, Arc<Contained>)>,
}

impl<S: Deref<Target = ChannelSemaphore>> Acquire<S> {
    #[inline]
    fn new(semaphore: S) -> Self {
        Self {
            semaphore: Some(semaphore),
            waiting: None,
        }
    }

    fn poll_channel(&mut self, channel: &Channel, waker: &Waker) -> Poll<Result<(), AcquireError>> {
        // Dropped after the poll: the channel drops its clone under a lock, and the last one would drop
        // the caller's waker there, with whatever that owns.
        let mut _stale = None;
        let (waiting, contained) = match &mut self.waiting {
            Some((waiting, contained)) => {
                if !contained.wakes(waker) {
                    _stale = Some(std::mem::replace(contained, Contained::new(waker)));
                }
                (waiting, contained)
            }
            first => {
                match channel.try_enter() {
                    Err(error) if error.kind() == ErrorKind::NoPermits => {}
                    entered => return Poll::Ready(entered),
                }
                let waiting = Box::pin(channel.clone().enter());
                let (waiting, contained) = first.insert((waiting, Contained::new(waker)));
                (waiting, contained)
            }
        };
        let contained = Waker::from(Arc::clone(contained));
        waiting.as_mut().poll(&mut Context::from_waker(&contained))
    }
}

impl<S: Deref<Target = ChannelSemaphore>> Future for Acquire<S> {
    type Output = Result<Permit<S>, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(semaphore) = self.semaphore.take() else {
            panic!("polled again after it was ready");
        };
        let polled = self.poll_channel(&semaphore.channel, context.waker());
        let Poll::Ready(entered) = polled else {
            self.semaphore = Some(semaphore);
            return Poll::Pending;
        };
        // It is dropped as soon as it is ready: what else it was woken for goes to others then.
        self.waiting = None;
        Poll::Ready(entered.map(|()| Permit::new(semaphore, 1)))
    }
}

// Nothing in it is ever pinned.
impl<S: Deref<Target = ChannelSemaphore>> Unpin for Acquire<S> {}

impl<S: Deref<Target = ChannelSemaphore>> fmt::Debug for Acquire<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire").finish_non_exhaustive()
    }
}

/// A waker that never panics when it is called or dropped. `None` only while it is dropped.
struct Contained(Option<Waker>);

impl Contained {
    fn new(waker: &Waker) -> Arc<Self> {
        Arc::new(Self(Some(waker.clone())))
    }

    fn wakes(&self, waker: &Waker) -> bool {
        self.0.as_ref().is_some_and(|own| own.will_wake(waker))
    }
}

impl Wake for Contained {
    fn wake(self: Arc<Self>) {
        catch_waker_panic(|| self.0.iter().for_each(Waker::wake_by_ref));
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        let waker = self.0.take();
        catch_waker_panic(|| drop(waker));
    }
}
