//! `handles!`: a trait for `&T` and for `Arc<T>`, with the same methods; and by it, a reference to a
//! throttle, and an `Arc` of one, are that throttle.

use super::{Adaptive, Inspect, Throttle, TryThrottle, Weighted};
use crate::error::AcquireError;
use crate::feedback::Feedback;
use crate::limit_status::LimitStatus;

/// Implements traits for `&T` and `Arc<T>`, the two handles of a type, and for a
/// [`Cost`](super::Cost) of each, which has the permits and the futures of the handle. Between
/// brackets are further generic parameters. `Self` is the handle, so what is generic over it is
/// written once.
macro_rules! handles {
    () => {};
    (impl [$($generics:tt)*] Throttle for Cost<$type:ty> { $($body:tt)* } $($rest:tt)*) => {
        impl<'a, $($generics)*> Throttle for Cost<&'a $type> {
            type Permit = <&'a $type as Throttle>::Permit;
            type Enter = <&'a $type as Throttle>::Enter;

            $($body)*
        }
        impl<$($generics)*> Throttle for Cost<std::sync::Arc<$type>> {
            type Permit = <std::sync::Arc<$type> as Throttle>::Permit;
            type Enter = <std::sync::Arc<$type> as Throttle>::Enter;

            $($body)*
        }
        crate::throttle::handles! { $($rest)* }
    };
    (impl [$($generics:tt)*] $trait:ident for Cost<$type:ty> { $($body:tt)* } $($rest:tt)*) => {
        impl<'a, $($generics)*> $trait for Cost<&'a $type> {
            $($body)*
        }
        impl<$($generics)*> $trait for Cost<std::sync::Arc<$type>> {
            $($body)*
        }
        crate::throttle::handles! { $($rest)* }
    };
    (impl [$($generics:tt)*] $trait:ident for $type:ty { $($body:tt)* } $($rest:tt)*) => {
        impl<'a, $($generics)*> $trait for &'a $type {
            $($body)*
        }
        impl<$($generics)*> $trait for std::sync::Arc<$type> {
            $($body)*
        }
        crate::throttle::handles! { $($rest)* }
    };
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
