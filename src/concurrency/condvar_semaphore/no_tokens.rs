//! Replaces the tokens where the crate is built without tokio: nothing ends a wait.

use std::task::Waker;

/// No tokens.
pub(super) struct Tokens(());

/// No registration.
pub(super) struct Registered(());

impl Tokens {
    pub(super) fn new() -> Self {
        Self(())
    }

    #[inline]
    pub(super) fn is_cancelled(&self) -> bool {
        false
    }

    pub(super) fn register(&self, _waker: &Waker) -> Registered {
        Registered(())
    }
}
