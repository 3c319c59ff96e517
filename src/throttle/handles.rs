//! `handles!` implements a trait for `&T` and for `Arc<T>`, with the same methods; with it, a reference to a
//! throttle and an `Arc` of one are themselves throttles. [`forward!`](crate::forward) forwards the methods
//! that a wrapper of a throttle does not change.

use super::{Adaptive, Inspect, Throttle, TryThrottle, Weighted};
use crate::error::AcquireError;
use crate::feedback::Feedback;
use crate::status::LimitStatus;

/// Generates the implementations that follow from the others when a type is a throttle, so that its table
/// contains only the parts specific to it.
///
/// * `impl [..] Trait for T { .. }`, any number of times, implements traits for `&T` and `Arc<T>`, the
///   two handles of a type. Further generic parameters are between the brackets. `Self` is the handle, so
///   code that is generic over it is written once.
/// * `impl [..] Throttle, TryThrottle for Cost<T> { .. }` implements both for a [`Cost`](super::Cost)
///   of each handle. The methods are `try_enter`, which comes first, `enter`; everything else is
///   taken from the handle.
/// * `cost [..] H { .. }` does the same for a `Cost` of one handle, such as a
///   [`Key`](crate::keyed::Key).
/// * `limit [..] T, self { type Permit = ..; type Enter = ..; enter: ..; try_enter: ..; status: ..; .. }`
///   implements `Throttle`, `TryThrottle` and `Inspect` for the two handles of a type with one limit, from
///   the future of an entry, the outcome of a try, and the status of the limit. Further methods of `Throttle`
///   may follow.
/// * Within an `impl`, the name `enter_now` generates that method for a throttle that can be tried, and
///   `polled_by_wakers` generates `polling` for a throttle that calls no waker under its locks.
macro_rules! handles {
    (enter_now) => {
        #[inline(always)]
        fn enter_now(&self) -> Option<Self::Permit> {
            self.try_enter().ok()
        }
    };
    (polled_by_wakers) => {
        #[inline]
        fn polling(&self) -> $crate::throttle::Polling {
            $crate::throttle::Polling::BY_WAKERS
        }
    };
    (impl [$($generics:tt)*] Throttle, TryThrottle for Cost<$type:ty> $methods:tt) => {
        handles! { cost ['a, $($generics)*] &'a $type $methods }
        handles! { cost [$($generics)*] std::sync::Arc<$type> $methods }
    };
    (cost [$($generics:tt)*] $handle:ty { $try_enter:item $($enter:item)* }) => {
        impl<$($generics)*> Throttle for Cost<$handle> {
            type Permit = <$handle as Throttle>::Permit;
            type Enter = <$handle as Throttle>::Enter;

            $($enter)*
            handles!(enter_now);
            crate::forward!(Throttle, self => self.throttle, except enter, enter_now);
        }
        impl<$($generics)*> TryThrottle for Cost<$handle> {
            $try_enter
        }
    };
    (limit [$($generics:tt)*] $type:ty, $this:ident {
        type Permit = $permit:ty;
        type Enter = $wait:ty;
        enter: $enter:expr;
        try_enter: $try_enter:expr;
        status: $status:expr;
        $($more:tt)*
    }) => {
        handles! {
            impl [$($generics)*] Throttle for $type {
                type Permit = $permit;
                type Enter = $wait;

                #[inline]
                fn enter(&$this) -> Waiting<$wait> {
                    Waiting::new($enter)
                }

                handles!(enter_now);
                $($more)*
            }
            impl [$($generics)*] TryThrottle for $type {
                #[inline]
                fn try_enter(&$this) -> Result<$permit, AcquireError> {
                    $try_enter
                }
            }
            impl [$($generics)*] Inspect for $type {
                fn inspect(&$this, _: Option<&$permit>, each: &mut dyn FnMut(usize, LimitStatus)) {
                    each(0, $status);
                }
            }
        }
    };
    ($(impl [$($generics:tt)*] $trait:ident for $type:ty { $($body:tt)* })*) => {$(
        impl<'a, $($generics)*> $trait for &'a $type {
            $($body)*
        }
        impl<$($generics)*> $trait for std::sync::Arc<$type> {
            $($body)*
        }
    )*};
}

pub(crate) use handles;

// For a type whose references and `Arc`s are throttles, but not the type itself, such as `Semaphore`,
// this adds a second layer: `&Arc<Semaphore>`.
handles! {
    impl [T: Throttle] Throttle for T {
        type Permit = T::Permit;
        type Enter = T::Enter;

        crate::forward!(Throttle, self => **self);
    }

    impl [T: TryThrottle] TryThrottle for T {
        #[inline]
        fn try_enter(&self) -> Result<T::Permit, AcquireError> {
            (**self).try_enter()
        }
    }

    impl [T: Weighted] Weighted for T {
        type Many = T::Many;

        crate::forward!(Weighted, self => **self);
    }

    impl [T: Inspect] Inspect for T {
        const LIMITS: usize = T::LIMITS;

        fn inspect(&self, permit: Option<&Self::Permit>, each: &mut dyn FnMut(usize, LimitStatus)) {
            (**self).inspect(permit, each);
        }
    }

    impl [T: Adaptive] Adaptive for T {
        fn learn(&self, permit: &mut Self::Permit, feedback: Feedback) {
            (**self).learn(permit, feedback);
        }
    }
}

/// Forwards the methods of a trait of [`throttle`](crate::throttle) that a wrapper does not change, so
/// that it cannot forget one.
///
/// Use it inside an `impl`. It takes the name of the trait, [`Throttle`](crate::Throttle) or
/// [`Weighted`](crate::throttle::Weighted), the inner throttle of `self`, and, after `except`, the methods
/// that the wrapper implements itself. The forwarded methods have the permits of the inner throttle, so a wrapper
/// with another permit also excepts `enter_now` and `rollback`.
///
/// A method that is added to the trait in a later version is forwarded as well. Write out the other traits by
/// hand: they have one method each, and [`Inspect`](crate::throttle::Inspect) also has the constant `LIMITS`.
///
/// # Examples
///
/// ```
/// use tollgate::wait::Waiting;
/// use tollgate::{Semaphore, Throttle, forward};
///
/// /// Is another name for a throttle.
/// #[derive(Clone)]
/// struct Named<T>(&'static str, T);
///
/// impl<T: Throttle> Throttle for Named<T> {
///     type Permit = T::Permit;
///     type Enter = T::Enter;
///
///     forward!(Throttle, self => self.1, except enter);
///
///     fn enter(&self) -> Waiting<T::Enter> {
///         println!("{} is entered", self.0);
///         self.1.enter()
///     }
/// }
///
/// let uploads = Semaphore::new(1);
/// let named = Named("uploads", &uploads);
/// let permit = named.enter_now();
/// assert!(permit.is_some() && named.enter_now().is_none());
/// ```
#[macro_export]
macro_rules! forward {
    (Throttle, $this:ident => $inner:expr $(, except $($changed:ident),+)?) => {
        $crate::forward!(@each [$($($changed)+)?] $crate::Throttle, $this => $inner;
            enter() -> $crate::wait::Waiting<Self::Enter>;
            enter_now() -> ::core::option::Option<Self::Permit>;
            rollback(permit: Self::Permit) -> ();
            polling() -> $crate::throttle::Polling;
        );
    };
    (Weighted, $this:ident => $inner:expr $(, except $($changed:ident),+)?) => {
        $crate::forward!(@each [$($($changed)+)?] $crate::throttle::Weighted, $this => $inner;
            cost(n: u64) -> Self::Many;
            settle(permit: Self::Permit, used: u64) -> ();
            max_units() -> u64;
            chunk_units() -> u64;
        );
    };
    (
        @each $changed:tt $trait:path, $this:ident => $inner:expr;
        $($name:ident($($argument:ident: $type:ty),*) -> $output:ty;)*
    ) => {$(
        $crate::forward!(@$name $changed {
            fn $name(&$this, $($argument: $type),*) -> $output {
                <_ as $trait>::$name(&$inner, $($argument),*)
            }
        });
    )*};
    // A method in the list is left out.
    (@enter [enter $($rest:ident)*] $method:tt) => {};
    (@enter_now [enter_now $($rest:ident)*] $method:tt) => {};
    (@rollback [rollback $($rest:ident)*] $method:tt) => {};
    (@polling [polling $($rest:ident)*] $method:tt) => {};
    (@cost [cost $($rest:ident)*] $method:tt) => {};
    (@settle [settle $($rest:ident)*] $method:tt) => {};
    (@max_units [max_units $($rest:ident)*] $method:tt) => {};
    (@chunk_units [chunk_units $($rest:ident)*] $method:tt) => {};
    (@$name:ident [$other:ident $($rest:ident)*] $method:tt) => {
        $crate::forward!(@$name [$($rest)*] $method);
    };
    (@$name:ident [] { $($method:tt)* }) => {
        #[inline]
        $($method)*
    };
}
