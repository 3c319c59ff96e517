//! The right to be one of N at once, given back on drop: of the semaphores that give one at a time.

/// Makes `Permit` and `OwnedPermit` of a semaphore, which takes one back by the method `give_back`.
macro_rules! permits {
    ($semaphore:ident, $give_back:ident) => {
        #[doc = concat!("A permit of a [`", stringify!($semaphore), "`], given back when dropped; also when")]
        /// the holder panics. Leaking it takes the permit out of circulation.
        #[must_use = "a permit that is dropped at once caps nothing"]
        pub struct Permit<'a>(Held<&'a $semaphore>);

        #[doc = concat!("A permit of a shared [`", stringify!($semaphore), "`], given back when dropped; also")]
        /// when the holder panics. Leaking it takes the permit out of circulation.
        #[must_use = "a permit that is dropped at once caps nothing"]
        pub struct OwnedPermit(Held<std::sync::Arc<$semaphore>>);

        /// A permit that goes back when this is dropped.
        struct Held<S: std::ops::Deref<Target = $semaphore>>(S);

        impl<S: std::ops::Deref<Target = $semaphore>> Drop for Held<S> {
            #[inline]
            fn drop(&mut self) {
                self.0.$give_back();
            }
        }

        permits!(impl ['a] Permit<'a>, "Permit", &'a $semaphore);
        permits!(impl [] OwnedPermit, "OwnedPermit", std::sync::Arc<$semaphore>);
    };
    (impl [$($generics:tt)*] $permit:ty, $name:literal, $source:ty) => {
        impl<$($generics)*> $permit {
            #[inline]
            fn new(semaphore: $source) -> Self {
                Self(Held(semaphore))
            }

            /// The semaphore that it belongs to.
            pub fn semaphore(&self) -> &$source {
                &self.0.0
            }
        }

        impl<$($generics)*> std::fmt::Debug for $permit {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_tuple($name).field(&*self.0.0).finish()
            }
        }
    };
}
pub(super) use permits;
