//! What stands for tokens without tokio: nothing that could end a wait.

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
