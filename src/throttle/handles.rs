//! `handles!`: a trait for `&T` and for `Arc<T>`, with the same methods.

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
