//! The right to be one of N at once, given back on drop.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::CondvarSemaphore;

/// A permit of a [`CondvarSemaphore`], given back when dropped; also when the holder panics.
/// Leaking it takes the permit out of circulation.
#[must_use = "a permit that is dropped at once caps nothing"]
pub struct Permit<'a>(Held<&'a CondvarSemaphore>);

/// A permit of a shared [`CondvarSemaphore`], given back when dropped; also when the holder
/// panics. Leaking it takes the permit out of circulation.
#[must_use = "a permit that is dropped at once caps nothing"]
pub struct OwnedPermit(Held<Arc<CondvarSemaphore>>);

/// A permit that goes back when this is dropped.
struct Held<S: Deref<Target = CondvarSemaphore>>(S);

impl<S: Deref<Target = CondvarSemaphore>> Drop for Held<S> {
    #[inline]
    fn drop(&mut self) {
        self.0.monitor.give();
    }
}

macro_rules! permit {
    ([$($generics:tt)*] $permit:ty, $name:literal, $source:ty) => {
        impl<$($generics)*> $permit {
            #[inline]
            pub(super) fn new(semaphore: $source) -> Self {
                Self(Held(semaphore))
            }

            /// The semaphore that it belongs to.
            pub fn semaphore(&self) -> &$source {
                &self.0.0
            }
        }

        impl<$($generics)*> fmt::Debug for $permit {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple($name).field(&*self.0.0).finish()
            }
        }
    };
}

permit!(['a] Permit<'a>, "Permit", &'a CondvarSemaphore);
permit!([] OwnedPermit, "OwnedPermit", Arc<CondvarSemaphore>);
