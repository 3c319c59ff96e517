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
        $crate::forward!(@enter [$($($changed)+)?] {
            fn enter(&$this) -> $crate::Waiting<Self::Enter> {
                $crate::Throttle::enter(&$inner)
            }
        });
        $crate::forward!(@enter_now [$($($changed)+)?] {
            fn enter_now(&$this) -> ::core::option::Option<Self::Permit> {
                $crate::Throttle::enter_now(&$inner)
            }
        });
        $crate::forward!(@tick [$($($changed)+)?] {
            fn tick(
                &$this,
                permit: ::core::option::Option<&Self::Permit>,
            ) -> ::core::option::Option<$crate::Tick> {
                $crate::Throttle::tick(&$inner, permit)
            }
        });
        $crate::forward!(@enter_as_of [$($($changed)+)?] {
            fn enter_as_of(&$this, tick: $crate::Tick) -> $crate::Waiting<Self::Enter> {
                $crate::Throttle::enter_as_of(&$inner, tick)
            }
        });
        $crate::forward!(@rollback [$($($changed)+)?] {
            fn rollback(&$this, permit: Self::Permit) {
                $crate::Throttle::rollback(&$inner, permit);
            }
        });
        $crate::forward!(@wakes_outside_locks [$($($changed)+)?] {
            fn wakes_outside_locks(&$this) -> bool {
                $crate::Throttle::wakes_outside_locks(&$inner)
            }
        });
    };
    (Weighted, $this:ident => $inner:expr $(, except $($changed:ident),+)?) => {
        $crate::forward!(@cost [$($($changed)+)?] {
            fn cost(&$this, n: u64) -> Self::Many {
                $crate::throttle::Weighted::cost(&$inner, n)
            }
        });
        $crate::forward!(@settle [$($($changed)+)?] {
            fn settle(&$this, permit: Self::Permit, used: u64) {
                $crate::throttle::Weighted::settle(&$inner, permit, used);
            }
        });
        $crate::forward!(@max_units [$($($changed)+)?] {
            fn max_units(&$this) -> u64 {
                $crate::throttle::Weighted::max_units(&$inner)
            }
        });
        $crate::forward!(@chunk_units [$($($changed)+)?] {
            fn chunk_units(&$this) -> u64 {
                $crate::throttle::Weighted::chunk_units(&$inner)
            }
        });
    };
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
