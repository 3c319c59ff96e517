//! [`Observed`]: a throttle whose entries are reported.
//!
//! 1. An entry begins with the first poll of its future, or with a try. It is reported once: when the
//!    throttle decides, or when the future is dropped while it waits.
//! 2. The clock is read only by an entry that waits: after the first poll that is pending, and at
//!    the report. A ready entry reads no clock here; an observer may read its own.
//! 3. A permit is reported before the throttle gets it back, so an observer never sees more holders
//!    than the throttle admits.
//! 4. No lock is held here. Reports of drops are foreign code inside `Drop`, so panics are caught.
//!
//! Inlining is forced, as in [`all`](tollgate::all): an observer that does nothing then costs nothing.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::{Observer, Place};
use crate::contain_panic;
use tollgate::throttle::{Adaptive, Feedback, Inspect, LimitStatus, Weighted};
use tollgate::time::Tick;
use tollgate::wait::Waiting;
use tollgate::{AcquireError, Clock, Throttle, TryThrottle, forward};

/// A throttle that reports each entry to an [`Observer`]: when it is admitted, refused or
/// abandoned, how long it waited, where it was called, and when its permit comes back.
///
/// It is a [`Throttle`] itself. Order, cancel safety and errors are those of the inner throttle.
/// Several observers are a tuple. A permit derefs to the inner permit.
///
/// # Places
///
/// The reported [`Place`] is the call of [`acquire`](Self::acquire) or
/// [`try_acquire`](Self::try_acquire). An entry through a trait, such as
/// [`enter`](Throttle::enter), is reported with the call of [`new`](Self::new): compositions and adapters
/// enter in this way, and their own location does not identify the caller. A holder in a layer then points to
/// the line that put the throttle there. In the closure of a layer over HTTP, an observer can be made [for
/// each request](Observer#examples).
///
/// # Costs and keys
///
/// For more than one unit, wrap a throttle with a cost: `Observed::new(limiter.cost(n), observer)`.
/// For a key, wrap the key: `Observed::new(users.key_owned(user), observer)`. To refund a charge,
/// take it [out of its permit](ObservedPermit::into_inner).
///
/// # Timeouts and tokens
///
/// A timeout or a token that is added to the wait is outside of it: when it ends the wait, the
/// entry is reported as abandoned. An entry that the throttle refuses at once because it would not
/// fit into the timeout is reported as refused.
///
/// # Cost
///
/// A ready entry makes the calls of the observer and, where it clones an `Arc`, two atomic
/// operations; it reads no clock, unless the observer does. An entry that waits reads the clock
/// twice.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use tollgate_observe::{Holders, Observed};
/// use tollgate::{Semaphore, all};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate::AcquireError> {
/// let (users, disk) = (Arc::new(Semaphore::new(4)), Arc::new(Semaphore::new(1)));
/// let (of_users, of_disk) = (Holders::new("users"), Holders::new("disk"));
///
/// let both = all((Observed::new(users, &of_users), Observed::new(disk, &of_disk)));
/// let permits = both.acquire().await?;
/// // The second part refuses, so the first one is rolled back.
/// assert!(both.try_acquire().is_err());
/// assert_eq!((of_users.list().len(), of_disk.list().len()), (1, 1));
/// drop(permits);
/// assert_eq!((of_users.list().len(), of_disk.list().len()), (0, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a throttle does nothing until it is entered"]
pub struct Observed<T, O> {
    throttle: T,
    observer: O,
    clock: Clock,
    /// The place of entries through a trait.
    created: Place,
}

impl<T: Throttle, O> Observed<T, O> {
    /// Creates a throttle that reports to `observer`, on [`Clock::default`]. This call is the
    /// [place](Self#places) of its entries through a trait.
    #[track_caller]
    pub fn new(throttle: T, observer: O) -> Self {
        Self {
            throttle,
            observer,
            clock: Clock::default(),
            created: Location::caller(),
        }
    }

    /// Sets the clock that measures waits.
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.clock = clock.into();
        self
    }

    /// Returns the inner throttle, for example to take its snapshot. Entries through it are not
    /// reported.
    pub fn throttle(&self) -> &T {
        &self.throttle
    }

    /// Returns the observer.
    pub fn observer(&self) -> &O {
        &self.observer
    }
}

impl<T: Throttle, O: Observer + Clone> Observed<T, O> {
    /// Waits until the throttle admits the caller.
    ///
    /// # Cancel safety, errors
    ///
    /// Those of the inner throttle.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::Semaphore;
    /// use tollgate_observe::{Holders, Observed};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let (slots, holders) = (Semaphore::new(1), Holders::new("slots"));
    /// let slots = Observed::new(&slots, &holders);
    /// let permit = slots.acquire().await?;
    /// assert_eq!(permit.count(), 1);
    /// assert_eq!(holders.list()[0].place.file(), file!());
    /// # Ok(())
    /// # }
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn acquire(&self) -> Waiting<EnterObserved<T::Enter, O>> {
        self.observe(self.throttle.enter().into_inner(), Location::caller())
    }

    /// Enters without waiting, or fails.
    ///
    /// # Errors
    ///
    /// Those of the inner throttle.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::Semaphore;
    /// use tollgate_observe::{Holders, Observed};
    ///
    /// let (slots, holders) = (Semaphore::new(1), Holders::new("slots"));
    /// let slots = Observed::new(&slots, &holders);
    /// let permit = slots.try_acquire()?;
    /// assert_eq!(holders.list().len(), 1);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn try_acquire(&self) -> Result<ObservedPermit<T::Permit, O>, AcquireError>
    where
        T: TryThrottle,
    {
        report(
            self.throttle.try_enter(),
            self.observer.clone(),
            Location::caller(),
            None,
        )
    }

    /// Observes another throttle in the same way.
    fn around<M>(&self, throttle: M) -> Observed<M, O> {
        Observed {
            throttle,
            observer: self.observer.clone(),
            clock: self.clock.clone(),
            created: self.created,
        }
    }

    /// Reports the outcome of a wait.
    #[inline(always)]
    fn observe<F>(&self, enter: F, place: Place) -> Waiting<EnterObserved<F, O>> {
        Waiting::new(EnterObserved {
            enter,
            observer: Some(self.observer.clone()),
            clock: self.clock.clone(),
            place,
            since: None,
        })
    }
}

/// Reports the decision of a throttle.
#[inline(always)]
fn report<P, O: Observer>(
    entered: Result<P, AcquireError>,
    observer: O,
    place: Place,
    waited: Option<Duration>,
) -> Result<ObservedPermit<P, O>, AcquireError> {
    match entered {
        Ok(permit) => {
            let entry = Entry::new(observer, place, waited);
            Ok(ObservedPermit { entry, permit })
        }
        Err(error) => {
            observer.refused(place, &error, waited);
            Err(error)
        }
    }
}

impl<T: Throttle, O: Observer + Clone> Throttle for Observed<T, O> {
    type Permit = ObservedPermit<T::Permit, O>;
    type Enter = EnterObserved<T::Enter, O>;

    #[inline(always)]
    fn enter(&self) -> Waiting<Self::Enter> {
        self.observe(self.throttle.enter().into_inner(), self.created)
    }

    /// Reports an admission, and nothing otherwise.
    #[inline(always)]
    fn enter_now(&self) -> Option<Self::Permit> {
        let permit = self.throttle.enter_now()?;
        report(Ok(permit), self.observer.clone(), self.created, None).ok()
    }

    #[inline(always)]
    fn rollback(&self, permit: Self::Permit) {
        let ObservedPermit { mut entry, permit } = permit;
        if let Some((observer, held)) = entry.0.take() {
            contain_panic(|| observer.undone(held));
        }
        self.throttle.rollback(permit);
    }

    forward!(Throttle, self => self.throttle, except enter, enter_now, rollback);
}

impl<T: TryThrottle, O: Observer + Clone> TryThrottle for Observed<T, O> {
    #[inline(always)]
    fn try_enter(&self) -> Result<Self::Permit, AcquireError> {
        report(
            self.throttle.try_enter(),
            self.observer.clone(),
            self.created,
            None,
        )
    }
}

/// An entry of any number of units is one entry, and is reported as such.
impl<T: Weighted, O: Observer + Clone> Weighted for Observed<T, O> {
    type Many = Observed<T::Many, O>;

    #[inline]
    fn cost(&self, n: u64) -> Observed<T::Many, O> {
        self.around(self.throttle.cost(n))
    }

    /// Reports that the permit is released, however much of it was used.
    #[inline]
    fn settle(&self, permit: Self::Permit, used: u64) {
        self.throttle.settle(permit.into_inner(), used);
    }

    forward!(Weighted, self => self.throttle, except cost, settle);
}

impl<T: Adaptive, O: Observer + Clone> Adaptive for Observed<T, O> {
    fn learn(&self, permit: &mut Self::Permit, feedback: Feedback) {
        self.throttle.learn(permit, feedback);
    }
}

impl<T: Inspect, O: Observer + Clone> Inspect for Observed<T, O> {
    const LIMITS: usize = T::LIMITS;

    fn inspect(&self, permit: Option<&Self::Permit>, each: &mut dyn FnMut(usize, LimitStatus)) {
        let permit = permit.map(|permit| &**permit);
        self.throttle.inspect(permit, each);
    }
}

pin_project! {
    /// The future of [`Observed::acquire`].
    ///
    /// # Panics
    ///
    /// Panics if it is polled again after completion.
    #[must_use = "a future does nothing unless it is awaited"]
    pub struct EnterObserved<F, O: Observer> {
        #[pin]
        enter: F,
        // `None` after completion.
        observer: Option<O>,
        clock: Clock,
        place: Place,
        // `Some` once a poll had to wait, and until the report.
        since: Option<Tick>,
    }

    impl<F, O: Observer> PinnedDrop for EnterObserved<F, O> {
        #[inline]
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if let Some(since) = *this.since {
                abandoned(this.observer, this.clock, this.place, since);
            }
        }
    }
}

/// Reports a wait that is dropped.
#[inline(never)]
fn abandoned<O: Observer>(observer: &mut Option<O>, clock: &Clock, place: Place, since: Tick) {
    if let Some(observer) = observer {
        let waited = clock.now().saturating_since(since);
        contain_panic(|| observer.abandoned(place, waited));
    }
}

impl<P, F, O> Future for EnterObserved<F, O>
where
    F: Future<Output = Result<P, AcquireError>>,
    O: Observer,
{
    type Output = Result<ObservedPermit<P, O>, AcquireError>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let polled = this.enter.poll(context);
        let Poll::Ready(entered) = polled else {
            this.since.get_or_insert_with(|| this.clock.now());
            return Poll::Pending;
        };
        let observer = this.observer.take();
        let observer = observer.expect("polled again after it was ready");
        let since = this.since.take();
        let waited = since.map(|since| this.clock.now().saturating_since(since));
        Poll::Ready(report(entered, observer, this.place, waited))
    }
}

impl<F: fmt::Debug, O: Observer> fmt::Debug for EnterObserved<F, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnterObserved")
            .field("enter", &self.enter)
            .field("place", &format_args!("{}", self.place))
            .finish_non_exhaustive()
    }
}

/// A permit of an [`Observed`] throttle. It derefs to the inner permit.
///
/// Dropping it reports that it is released, and then drops the inner permit.
#[must_use = "a permit limits nothing once it is dropped: bind it, as in `let _permit = ..`"]
pub struct ObservedPermit<P, O: Observer> {
    // Dropped first.
    entry: Entry<O>,
    permit: P,
}

/// The report of a release; `None` if there is nothing to report.
pub(super) struct Entry<O: Observer>(Option<(O, O::Held)>);

impl<O: Observer> Entry<O> {
    /// Reports an admission.
    #[inline(always)]
    pub(super) fn new(observer: O, place: Place, waited: Option<Duration>) -> Self {
        let held = observer.admitted(place, waited);
        Self(Some((observer, held)))
    }

    /// Returns the value that the observer keeps, for a release that is reported elsewhere.
    #[inline(always)]
    pub(super) fn into_held(mut self) -> O::Held {
        let (_, held) = self.0.take().expect("nothing else takes it");
        held
    }
}

impl<O: Observer> Drop for Entry<O> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some((observer, held)) = self.0.take() {
            contain_panic(|| observer.released(held));
        }
    }
}

impl<P, O: Observer> ObservedPermit<P, O> {
    /// Returns the inner permit, for methods that take it by value. It is reported as released now.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::Pool;
    /// use tollgate_observe::{Holders, Observed};
    ///
    /// let (pool, holders) = (Pool::with_factory(1, || "a connection"), Holders::new("pool"));
    /// let connection = Observed::new(&pool, &holders).try_acquire()?;
    /// connection.into_inner().discard();
    /// assert!(holders.list().is_empty());
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn into_inner(self) -> P {
        self.permit
    }
}

impl<P, O: Observer> Deref for ObservedPermit<P, O> {
    type Target = P;

    #[inline]
    fn deref(&self) -> &P {
        &self.permit
    }
}

impl<P, O: Observer> DerefMut for ObservedPermit<P, O> {
    #[inline]
    fn deref_mut(&mut self) -> &mut P {
        &mut self.permit
    }
}

impl<P: fmt::Debug, O: Observer> fmt::Debug for ObservedPermit<P, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ObservedPermit").field(&self.permit).finish()
    }
}
