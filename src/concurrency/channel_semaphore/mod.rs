//! A channel of busy ones: whoever wants to go on puts a mark into it, and takes one out again when
//! it is done. A full channel makes one wait.
//!
//! 1. There are as many marks in the channel as permits are out. So a permit that comes back always
//!    finds one, and it does not matter which.
//! 2. Nothing can be put into a closed channel, and what is in it can be taken out.

mod acquire;

use std::fmt;
use std::sync::Arc;

use async_channel::{Receiver, Sender, TrySendError};

pub use self::acquire::{Acquire, AcquireOwned};
use super::permits::permits;
use crate::error::{AcquireError, ErrorKind};
use crate::foreign::contain;
use crate::wait::Waiting;

/// At most N at once: a channel with N places, which is full when all permits are out.
///
/// It is the reverse of a [`Pool`](crate::Pool): the channel holds the busy ones instead of the idle
/// ones. [`Semaphore`](crate::Semaphore) can do more, is faster, and strict about the order; prefer it.
/// This one is there to compare the two designs. [The table](crate::guarantees) has what each type
/// guarantees.
///
/// # Fairness
///
/// Roughly in the order in which they came, and no more: the order is the channel's. A permit that
/// comes back can be taken by a newcomer before the one who was woken for it has run. Whoever is let
/// in wakes the next one as well, mostly in vain, and who is woken in vain waits again behind all
/// others, so a task can starve while others come back again and again. Each waits for one.
///
/// Wakers are called under a lock of the channel: one that itself calls the throttle, instead of
/// scheduling a task that does, waits for itself.
///
/// # Cancel safety
///
/// Dropping a future that has not finished loses nothing: if it had been woken for a place, the next
/// one in line is woken for it.
///
/// # Memory ordering
///
/// Whatever a holder did before it gave its permit back happens before whatever the next holder
/// does who takes that place.
///
/// # Examples
///
/// ```
/// use tollgate::ChannelSemaphore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate::AcquireError> {
/// let semaphore = ChannelSemaphore::new(2);
/// let permit = semaphore.acquire().await?;
/// assert_eq!(semaphore.available_permits(), 1);
/// drop(permit);
/// assert_eq!(semaphore.available_permits(), 2);
/// # Ok(())
/// # }
/// ```
pub struct ChannelSemaphore {
    enter: Sender<()>,
    leave: Receiver<()>,
    permits: usize,
}

/// Making one.
impl ChannelSemaphore {
    /// The most permits that it can have: 2^31 - 1.
    pub const MAX_PERMITS: usize = (u32::MAX >> 1) as usize;

    /// A semaphore with this many permits, all of them free. The channel's places are allocated here,
    /// 8 bytes for each permit.
    ///
    /// # Panics
    ///
    /// If `permits` is 0, since then nobody could ever be let in, or more than
    /// [`MAX_PERMITS`](Self::MAX_PERMITS).
    #[track_caller]
    pub fn new(permits: usize) -> Self {
        assert!(
            (1..=Self::MAX_PERMITS).contains(&permits),
            "a channel semaphore cannot have {permits} permits, but 1 to MAX_PERMITS"
        );
        let (enter, leave) = async_channel::bounded(permits);
        Self {
            enter,
            leave,
            permits,
        }
    }
}

/// Acquiring.
impl ChannelSemaphore {
    /// Waits for a permit.
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
    pub fn acquire(&self) -> Waiting<Acquire<'_>> {
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
    pub fn try_acquire(&self) -> Result<Permit<'_>, AcquireError> {
        self.try_put()?;
        Ok(Permit::new(self))
    }

    /// Waits for a permit that shares the semaphore and so may move into a task.
    ///
    /// A future that has to wait is boxed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing, see [the type](Self#cancel-safety).
    ///
    /// # Errors
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
    pub fn acquire_owned(self: Arc<Self>) -> Waiting<AcquireOwned> {
        Waiting::new(AcquireOwned::new(self))
    }

    /// Takes a permit that shares the semaphore, if one is free now.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::ChannelSemaphore;
    ///
    /// let semaphore = Arc::new(ChannelSemaphore::new(1));
    /// let permit = Arc::clone(&semaphore).try_acquire_owned()?;
    /// std::thread::spawn(move || drop(permit)).join().unwrap();
    /// assert_eq!(semaphore.available_permits(), 1);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline]
    pub fn try_acquire_owned(self: Arc<Self>) -> Result<OwnedPermit, AcquireError> {
        self.try_put()?;
        Ok(OwnedPermit::new(self))
    }
}

/// Closing and observing.
impl ChannelSemaphore {
    /// The limit: how many permits there are, free or held. It does not change.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(tollgate::ChannelSemaphore::new(3).permits(), 3);
    /// ```
    pub fn permits(&self) -> usize {
        self.permits
    }

    /// How many permits are free.
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
        self.permits.saturating_sub(self.enter.len())
    }

    /// Lets nobody in any more. Everyone who waits, and everyone who comes, gets
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
        contain(|| {
            self.enter.close();
        });
    }

    /// Whether it was closed.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(!tollgate::ChannelSemaphore::new(1).is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.enter.is_closed()
    }

    #[inline]
    fn try_put(&self) -> Result<(), AcquireError> {
        self.enter.try_send(()).map_err(|error| match error {
            TrySendError::Full(()) => AcquireError::new(ErrorKind::NoPermits),
            TrySendError::Closed(()) => AcquireError::new(ErrorKind::Closed),
        })
    }

    /// Takes a permit back.
    #[inline]
    fn take_out(&self) {
        // The waker that it calls is foreign. There is a mark for each permit.
        contain(|| {
            let _ = self.leave.try_recv();
        });
    }
}

permits!(ChannelSemaphore, take_out);

impl fmt::Debug for ChannelSemaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelSemaphore")
            .field("permits", &self.permits())
            .field("available_permits", &self.available_permits())
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}
