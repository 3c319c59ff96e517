//! [`FirstUse`]: fixes the options of a value at its first use, with one rule and one message for all types.
//!
//! An option takes `self` by value, so no other code uses the value meanwhile: the option can read the state of the
//! last use without a race, and all accesses are relaxed. An option that is a `const fn` cannot look into a
//! [`OnceLock`](std::sync::OnceLock), but it can destructure an atomic. So a type that creates its state at the
//! first use records that here as well.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a value has been used.
pub(crate) struct FirstUse(AtomicBool);

impl FirstUse {
    /// Returns the state of a value that was not used yet.
    pub(crate) const fn ahead() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Fixes the options. Call it where the value creates its state, and not for every call.
    pub(crate) fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns the value unchanged, for an option.
    ///
    /// # Panics
    ///
    /// Panics after the first use.
    #[track_caller]
    pub(crate) const fn assert_ahead(self) -> Self {
        if self.0.into_inner() {
            too_late();
        }
        Self::ahead()
    }
}

/// Panics, because an option is set after the first use.
#[track_caller]
#[cold]
pub(crate) const fn too_late() -> ! {
    panic!("an option must be set before the first use")
}
