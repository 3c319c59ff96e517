//! Observation: an [`Observed`] throttle reports each entry to an [`Observer`], and an [`ObservedController`] each
//! decision of an adaptive limit.
//!
//! - [`Holders`] lists the permits that are held, since when, and where each was acquired.
//! - `Metrics` (feature `metrics`) counts entries and measures waits.
//! - `Traced` (feature `tracing`) reports waits and permits that take long.
//!
//! [`Observed`] wraps any throttle of [tollgate]; the throttle itself knows nothing about it. To read the state of
//! a limit instead, such as the amount in use, take its [`Snapshot`](tollgate::Snapshot).
//!
//! A [`Shadow`] admits every caller, and reports what a new limit would have done.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![warn(missing_docs, clippy::missing_errors_doc, clippy::missing_panics_doc)]

/// Tests the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod decisions;
pub mod guide;
mod holders;
#[cfg(feature = "metrics")]
mod metrics;
mod observed;
mod shadow;
#[cfg(feature = "tracing")]
mod traced;

use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

pub use self::decisions::{Decision, ObservedController};
pub use self::holders::{Holder, Holders};
#[cfg(feature = "metrics")]
pub use self::metrics::Metrics;
use self::observed::Entry;
pub use self::observed::{EnterObserved, Observed, ObservedPermit};
pub use self::shadow::{EnterShadow, Shadow};
#[cfg(feature = "tracing")]
pub use self::traced::Traced;
use tollgate::AcquireError;

/// Calls an observer, and contains its panic, because it runs inside of `Drop` of permits and futures, where it
/// would abort the process.
fn contain_panic(report: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(report)) {
        // The payload is not dropped: its destructor could panic again.
        std::mem::forget(payload);
    }
}

/// The place of a reported entry: see [`Observed`](Observed#places).
pub type Place = &'static Location<'static>;

/// A receiver of the reports of an [`Observed`] throttle, and of the decisions of an
/// [`ObservedController`].
///
/// Each entry is reported exactly once: it is admitted, refused or abandoned. An admitted entry is
/// later released or undone, also exactly once, unless its permit is leaked.
///
/// An observer is cloned for each entry, so it should be cheap to clone: a reference, an `Arc` or a
/// handle such as [`Holders`]. References and `Arc`s of observers are observers, and so are tuples
/// of two to four, and `()`, which ignores everything.
///
/// # Calls
///
/// The methods run inside the caller's poll, or inside the drop of its future or permit, under no
/// lock of the throttle. They must not block. A panic in `admitted` or `refused` propagates to the
/// caller, and the permit is dropped; a panic in the other methods is reported by the panic hook
/// and then caught. `decided` runs in the drop of the permit whose call ends a window. When an observer of a tuple panics in `admitted`, the observers before it get `released`.
/// A caught panic does not prevent the reports to the other observers.
///
/// # Examples
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::time::Duration;
///
/// use tollgate_observe::{Observed, Observer, Place};
/// use tollgate::{AcquireError, Semaphore};
///
/// /// Counts refusals.
/// #[derive(Default)]
/// struct Refusals(AtomicU64);
///
/// impl Observer for Refusals {
///     type Held = ();
///
///     fn admitted(&self, _: Place, _: Option<Duration>) {}
///
///     fn refused(&self, _: Place, _: &AcquireError, _: Option<Duration>) {
///         self.0.fetch_add(1, Ordering::Relaxed);
///     }
/// }
///
/// let (slots, refusals) = (Semaphore::new(1), Refusals::default());
/// let observed = Observed::new(&slots, &refusals);
/// let permit = observed.try_acquire()?;
/// assert!(observed.try_acquire().is_err());
/// assert_eq!(refusals.0.load(Ordering::Relaxed), 1);
/// # Ok::<_, AcquireError>(())
/// ```
///
/// The closure of `ThrottleLayer::by` of [`tollgate-tower`] can make an observer for each request, from its
/// head. This one lists the requests that hold a slot:
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use std::time::Duration;
///
/// use tollgate_observe::{Observed, Observer, Place};
/// use tollgate::{AcquireError, Semaphore};
///
/// #[derive(Clone)]
/// struct Request {
///     path: Arc<str>,
///     holding: Arc<Mutex<Vec<Arc<str>>>>,
/// }
///
/// impl Observer for Request {
///     type Held = ();
///
///     fn admitted(&self, _: Place, _: Option<Duration>) {
///         self.holding.lock().unwrap().push(Arc::clone(&self.path));
///     }
///
///     fn released(&self, _: ()) {
///         let mut holding = self.holding.lock().unwrap();
///         let place = holding.iter().position(|path| Arc::ptr_eq(path, &self.path));
///         holding.swap_remove(place.expect("it was admitted"));
///     }
///
///     fn undone(&self, _: ()) {
///         self.released(());
///     }
/// }
///
/// let (slots, holding) = (Arc::new(Semaphore::new(8)), Arc::default());
/// let by_path = |path: &str| {
///     let request = Request { path: path.into(), holding: Arc::clone(&holding) };
///     Observed::new(Arc::clone(&slots), request)
/// };
/// let permit = by_path("/slow").try_acquire()?;
/// assert_eq!(*holding.lock().unwrap(), ["/slow".into()]);
/// drop(permit);
/// assert!(holding.lock().unwrap().is_empty());
/// # Ok::<_, AcquireError>(())
/// ```
///
/// [`tollgate-tower`]: https://docs.rs/tollgate-tower/latest/tollgate_tower/
#[doc(alias = "RateLimitingMiddleware")]
pub trait Observer {
    /// The value that the observer keeps in a permit, to recognise it when it is released.
    type Held;

    /// Reports an entry that was admitted. `waited` is how long it waited; `None` if it did not
    /// have to wait.
    fn admitted(&self, place: Place, waited: Option<Duration>) -> Self::Held;

    /// Reports an entry that was refused, at once (`waited` is `None`) or after a wait. Does nothing
    /// by default.
    fn refused(&self, _place: Place, _error: &AcquireError, _waited: Option<Duration>) {}

    /// Reports a wait whose future was dropped before it ended: by its owner, by a timeout, or by a
    /// token that was added to it. Does nothing by default.
    fn abandoned(&self, _place: Place, _waited: Duration) {}

    /// Reports that a permit is dropped. This comes just before the throttle gets the permit back.
    /// Does nothing by default.
    fn released(&self, _held: Self::Held) {}

    /// Reports that an unused permit is [rolled back](tollgate::Throttle::rollback), for example
    /// because the next part of [`all`](tollgate::all) refused the caller. Does nothing by default.
    fn undone(&self, _held: Self::Held) {}

    /// Reports a decision of an [`ObservedController`]. Does nothing by default.
    fn decided(&self, _decision: &Decision) {}
}

/// Ignores everything.
impl Observer for () {
    type Held = ();

    #[inline]
    fn admitted(&self, _: Place, _: Option<Duration>) {}
}

macro_rules! through {
    ($([$($generics:tt)*] $reference:ty;)*) => {$(
        impl<$($generics)*> Observer for $reference {
            type Held = O::Held;

            #[inline]
            fn admitted(&self, place: Place, waited: Option<Duration>) -> O::Held {
                (**self).admitted(place, waited)
            }

            #[inline]
            fn refused(&self, place: Place, error: &AcquireError, waited: Option<Duration>) {
                (**self).refused(place, error, waited);
            }

            #[inline]
            fn abandoned(&self, place: Place, waited: Duration) {
                (**self).abandoned(place, waited);
            }

            #[inline]
            fn released(&self, held: O::Held) {
                (**self).released(held);
            }

            #[inline]
            fn undone(&self, held: O::Held) {
                (**self).undone(held);
            }

            #[inline]
            fn decided(&self, decision: &Decision) {
                (**self).decided(decision);
            }
        }
    )*};
}

through! {
    [O: Observer + ?Sized] &O;
    [O: Observer + ?Sized] Arc<O>;
}

/// Each observer of a tuple gets every report, in the order of the tuple. Panics in the reports of ends are
/// caught one by one, so that when one observer panics, no other one is left with a permit that is never
/// released.
macro_rules! tuples {
    ($($($observer:ident $field:tt),+;)*) => {$(
        impl<$($observer: Observer),+> Observer for ($($observer,)+) {
            type Held = ($($observer::Held,)+);

            #[inline]
            fn admitted(&self, place: Place, waited: Option<Duration>) -> Self::Held {
                // If one panics, the entries before it are dropped, and so released.
                let entries = ($(Entry::new(&self.$field, place, waited),)+);
                ($(entries.$field.into_held(),)+)
            }

            #[inline]
            fn refused(&self, place: Place, error: &AcquireError, waited: Option<Duration>) {
                $(self.$field.refused(place, error, waited);)+
            }

            #[inline]
            fn abandoned(&self, place: Place, waited: Duration) {
                $(contain_panic(|| self.$field.abandoned(place, waited));)+
            }

            #[inline]
            fn released(&self, held: Self::Held) {
                $(contain_panic(|| self.$field.released(held.$field));)+
            }

            #[inline]
            fn undone(&self, held: Self::Held) {
                $(contain_panic(|| self.$field.undone(held.$field));)+
            }

            #[inline]
            fn decided(&self, decision: &Decision) {
                $(contain_panic(|| self.$field.decided(decision));)+
            }
        }
    )*};
}

tuples! {
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, D 3;
}
