//! [`Shared`], and `handles!`, which implements the traits of throttles for the two handles of a limit: a reference and a
//! [`Shared`].

use std::ops::Deref;
use std::sync::Arc;

/// An `Arc` of an [`AdaptiveSemaphore`](crate::AdaptiveSemaphore) or an
/// [`AdaptiveRate`](crate::AdaptiveRate), as a [`Throttle`](tollgate::Throttle).
///
/// A reference to a limit is a throttle, and so is an `Arc` of a limit of `tollgate`. This crate cannot implement
/// the trait for an `Arc`, so it has this type instead. It derefs to the limit, and its permits own a clone of it.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use tollgate::fair::FairQueue;
/// use tollgate_adaptive::{AdaptiveSemaphore, Shared};
///
/// let backend = Arc::new(AdaptiveSemaphore::default());
/// let queue = FairQueue::new(Shared(Arc::clone(&backend)));
/// let permit = queue.class("acme").try_acquire()?;
/// assert_eq!(backend.snapshot().permits.in_use, 1);
/// # drop(permit);
/// # Ok::<_, tollgate::AcquireError>(())
/// ```
#[derive(Debug)]
pub struct Shared<T>(
    /// The limit.
    pub Arc<T>,
);

impl<T> Clone for Shared<T> {
    #[inline]
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> From<T> for Shared<T> {
    fn from(limit: T) -> Self {
        Self(Arc::new(limit))
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// Implements the traits for `&T` and `Shared<T>`, the two handles of a limit `T`, from the future of an entry, the outcome
/// of a try, the limit inside that has the status, and further methods of `Throttle`.
macro_rules! handles {
    ($limit:ty, $this:ident {
        type Permit = $permit:ty;
        type Enter = $wait:ty;
        enter: $enter:expr;
        try_enter: $try_enter:expr;
        status: $inner:expr;
        $($more:tt)*
    }) => {
        handles! {
            impl Throttle for $limit {
                type Permit = $permit;
                type Enter = $wait;

                #[inline]
                fn enter(&$this) -> Waiting<$wait> {
                    Waiting::new($enter)
                }

                #[inline(always)]
                fn enter_now(&$this) -> Option<$permit> {
                    $this.try_enter().ok()
                }

                $($more)*
            }
            impl TryThrottle for $limit {
                #[inline]
                fn try_enter(&$this) -> Result<$permit, AcquireError> {
                    $try_enter
                }
            }
            impl Inspect for $limit {
                fn inspect(&$this, _: Option<&$permit>, each: &mut dyn FnMut(usize, LimitStatus)) {
                    $inner.inspect(None, each);
                }
            }
            impl Adaptive for $limit {
                fn learn(&self, permit: &mut $permit, feedback: Feedback) {
                    permit.learn(feedback);
                }
            }
        }
    };
    ($(impl $trait:ident for $limit:ty { $($body:tt)* })*) => {$(
        impl<'a> $trait for &'a $limit {
            $($body)*
        }
        impl $trait for Shared<$limit> {
            $($body)*
        }
    )*};
}

pub(super) use handles;
