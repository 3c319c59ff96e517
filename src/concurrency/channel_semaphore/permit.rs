//! The right to be one of N at once, given back on drop.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::ChannelSemaphore;

/// A permit of a [`ChannelSemaphore`], given back when dropped; also when the holder panics.
/// Leaking it takes the permit out of circulation.
#[must_use = "a permit that is dropped at once caps nothing"]
pub struct Permit<'a>(Held<&'a ChannelSemaphore>);

/// A permit of a shared [`ChannelSemaphore`], given back when dropped; also when the holder
/// panics. Leaking it takes the permit out of circulation.
#[must_use = "a permit that is dropped at once caps nothing"]
pub struct OwnedPermit(Held<Arc<ChannelSemaphore>>);

/// A permit that goes back when this is dropped.
struct Held<S: Deref<Target = ChannelSemaphore>>(S);

impl<S: Deref<Target = ChannelSemaphore>> Drop for Held<S> {
    #[inline]
    fn drop(&mut self) {
        self.0.take_out();
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

permit!(['a] Permit<'a>, "Permit", &'a ChannelSemaphore);
permit!([] OwnedPermit, "OwnedPermit", Arc<ChannelSemaphore>);
