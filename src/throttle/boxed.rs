//! A throttle whose type is erased.

use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::{Inspect, Polling, Throttle};
use crate::debug::debug_as;
use crate::error::AcquireError;
use crate::status::LimitStatus;
use crate::wait::{Polled, Waiting};

/// A throttle of any type, erased; created by [`BoxThrottle::new`].
///
/// Its permit is erased as well, so the item of a pool, for example, cannot be used through it. Calls can
/// wait for the throttle, or enter it [without a wait](Throttle::enter_now); there is no `try_enter`, which
/// would report why it fails. Each entry costs one allocation, for its wait and then its permit. Clones share
/// the throttle.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use tollgate::throttle::BoxThrottle;
/// use tollgate::{Semaphore, all};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate::AcquireError> {
/// let (slots, memory) = (Arc::new(Semaphore::new(8)), Arc::new(Semaphore::new(1024)));
/// let one = BoxThrottle::new(Arc::clone(&slots));
/// let both = all((Arc::clone(&slots), Arc::clone(&memory).cost_owned(64)));
/// let both = BoxThrottle::new(both);
///
/// let permits = (one.acquire().await?, both.acquire().await?);
/// assert_eq!((slots.available_permits(), memory.available_permits()), (6, 960));
/// drop(permits);
/// assert_eq!((slots.available_permits(), memory.available_permits()), (8, 1024));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct BoxThrottle(Arc<dyn Erased>);

/// The permit of a [`BoxThrottle`]; dropping it returns the permit that is inside.
#[must_use = "a permit limits nothing once it is dropped: bind it, as in `let _permit = ..`"]
pub struct BoxPermit(Pin<Box<dyn ErasedEntry>>);

trait Erased: Send + Sync {
    fn enter(&self) -> EnterBoxed;
    fn enter_now(&self) -> Option<BoxPermit>;
    fn rollback(&self, permit: BoxPermit);
    fn polling(&self) -> Polling;
}

impl<T> Erased for T
where
    T: Throttle<Permit: Send, Enter: Send> + Send + Sync + 'static,
{
    fn enter(&self) -> EnterBoxed {
        let (wait, permit) = (Some(Throttle::enter(self).into_inner()), None::<T::Permit>);
        EnterBoxed(Some(Box::pin(Entry { wait, permit })))
    }

    fn enter_now(&self) -> Option<BoxPermit> {
        let permit = Some(Throttle::enter_now(self)?);
        let wait = None::<T::Enter>;
        Some(BoxPermit(Box::pin(Entry { wait, permit })))
    }

    fn rollback(&self, mut permit: BoxPermit) {
        // A permit of another throttle's type can only be dropped.
        let permit = permit.0.as_mut().permit_mut();
        let permit = permit.downcast_mut::<Option<T::Permit>>();
        if let Some(permit) = permit.and_then(Option::take) {
            Throttle::rollback(self, permit);
        }
    }

    fn polling(&self) -> Polling {
        Throttle::polling(self)
    }
}

/// The wait for a [`BoxThrottle`].
#[must_use = "a future does nothing unless it is awaited"]
pub struct EnterBoxed(Option<Pin<Box<dyn ErasedEntry>>>);

pin_project! {
    /// The contents of the box.
    struct Entry<E, P> {
        // `None` once the wait has ended.
        #[pin]
        wait: Option<E>,
        // `Some` from the end of the wait until the permit is rolled back.
        permit: Option<P>,
    }
}

/// An [`Entry`] of any throttle.
trait ErasedEntry: Send {
    /// Polls the wait, and keeps its permit.
    fn poll_entry(self: Pin<&mut Self>, context: &mut Context<'_>) -> Polled<()>;

    /// Returns the permit, in its `Option`.
    fn permit_mut(self: Pin<&mut Self>) -> &mut dyn Any;
}

impl<P, E> ErasedEntry for Entry<E, P>
where
    P: Send + 'static,
    E: Future<Output = Result<P, AcquireError>> + Send,
{
    fn poll_entry(self: Pin<&mut Self>, context: &mut Context<'_>) -> Polled<()> {
        let mut this = self.project();
        let wait = this.wait.as_mut().as_pin_mut();
        let permit = ready!(wait.expect("it has no permit yet").poll(context))?;
        *this.permit = Some(permit);
        this.wait.set(None);
        Poll::Ready(Ok(()))
    }

    fn permit_mut(self: Pin<&mut Self>) -> &mut dyn Any {
        self.project().permit
    }
}

impl Future for EnterBoxed {
    type Output = Result<BoxPermit, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let entry = self.0.as_mut().expect("polled again after it was ready");
        let entered = ready!(entry.as_mut().poll_entry(context));
        let entry = self.0.take().expect("it was there");
        Poll::Ready(entered.map(|()| BoxPermit(entry)))
    }
}

debug_as! { [] BoxPermit, self => BoxPermit { .. } }

debug_as! { [] EnterBoxed, self => EnterBoxed { .. } }

impl BoxThrottle {
    /// Erases the type of a throttle, which must be `'static`: an `Arc`, or a reference to a `static`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::throttle::BoxThrottle;
    /// use tollgate::{Semaphore, Throttle};
    ///
    /// /// Does not mind what it is throttled by.
    /// struct Client {
    ///     throttle: BoxThrottle,
    /// }
    ///
    /// impl Client {
    ///     fn new<T>(throttle: T) -> Self
    ///     where
    ///         T: Throttle<Permit: Send, Enter: Send> + Send + Sync + 'static,
    ///     {
    ///         Client { throttle: BoxThrottle::new(throttle) }
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let semaphore = Arc::new(Semaphore::new(1));
    /// let client = Client::new(Arc::clone(&semaphore));
    /// let permit = client.throttle.acquire().await?;
    /// assert_eq!(semaphore.available_permits(), 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn new<T>(throttle: T) -> Self
    where
        T: Throttle<Permit: Send, Enter: Send> + Send + Sync + 'static,
    {
        Self(Arc::new(throttle))
    }

    /// Waits until the throttle admits the caller.
    ///
    /// # Cancel safety
    ///
    /// The cancel safety of the inner throttle.
    ///
    /// # Errors
    ///
    /// The errors of the inner throttle.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::Semaphore;
    /// use tollgate::throttle::BoxThrottle;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let throttle = BoxThrottle::new(Arc::new(Semaphore::new(1)));
    /// let permit = throttle.acquire().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire(&self) -> Waiting<<Self as Throttle>::Enter> {
        Throttle::enter(self)
    }
}

impl Throttle for BoxThrottle {
    type Permit = BoxPermit;
    type Enter = EnterBoxed;

    fn enter(&self) -> Waiting<EnterBoxed> {
        Waiting::new(self.0.enter())
    }

    fn enter_now(&self) -> Option<BoxPermit> {
        self.0.enter_now()
    }

    fn rollback(&self, permit: BoxPermit) {
        self.0.rollback(permit);
    }

    fn polling(&self) -> Polling {
        self.0.polling()
    }
}

/// An erased throttle does not report its status.
impl Inspect for BoxThrottle {
    fn inspect(&self, _: Option<&BoxPermit>, each: &mut dyn FnMut(usize, LimitStatus)) {
        each(0, LimitStatus::Unknown);
    }
}

debug_as! { [] BoxThrottle, self => BoxThrottle { .. } }
