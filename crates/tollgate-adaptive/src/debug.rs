//! `debug_as!`: a `Debug` implementation that shows some values of a type, or none.

/// Implements `Debug` for a type as if it had these fields, and others:
///
/// `[generics] Type, self => Name { field: value, .. }`
///
/// Values that must belong together are read at once: `self, let snapshot = self.snapshot() => ..`.
macro_rules! debug_as {
    (
        [$($generics:tt)*] $type:ty, $this:ident $(, let $read:ident = $init:expr)?
        => $name:ident { $($field:ident: $value:expr,)* .. }
    ) => {
        impl<$($generics)*> std::fmt::Debug for $type {
            fn fmt(&$this, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $(let $read = $init;)?
                f.debug_struct(stringify!($name))
                    $(.field(stringify!($field), &$value))*
                    .finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use debug_as;
