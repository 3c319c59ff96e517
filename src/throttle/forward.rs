//! [`forward!`](crate::forward): what a wrapper of a throttle does not change.

/// Forwards the methods of a trait of [`throttle`](crate::throttle) that a wrapper does not change, so
/// that it cannot forget one.
///
/// It stands inside of an `impl` and takes the name of the trait, [`Throttle`](crate::Throttle) or
/// [`Weighted`](crate::throttle::Weighted), the throttle inside of `self`, and after `except` the
/// methods that the wrapper writes itself. The permits and the futures of the methods that it
/// forwards are those of the throttle inside.
///
/// A method that is added to the trait in a later version is forwarded as well. The other traits have one
/// method each, and [`Inspect`](crate::throttle::Inspect) a constant, `LIMITS`, to write out.
///
/// # Examples
///
/// ```
/// use tollgate::{Semaphore, Throttle, Waiting, forward};
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
            enter() -> $crate::Waiting<Self::Enter>;
            enter_now() -> ::core::option::Option<Self::Permit>;
            tick(permit: ::core::option::Option<&Self::Permit>) -> ::core::option::Option<$crate::Tick>;
            enter_as_of(tick: $crate::Tick) -> $crate::Waiting<Self::Enter>;
            rollback(permit: Self::Permit) -> ();
            wakes_outside_locks() -> bool;
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
    // A method that is in the list is left out.
    (@enter [enter $($rest:ident)*] $method:tt) => {};
    (@enter_now [enter_now $($rest:ident)*] $method:tt) => {};
    (@tick [tick $($rest:ident)*] $method:tt) => {};
    (@enter_as_of [enter_as_of $($rest:ident)*] $method:tt) => {};
    (@rollback [rollback $($rest:ident)*] $method:tt) => {};
    (@wakes_outside_locks [wakes_outside_locks $($rest:ident)*] $method:tt) => {};
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
