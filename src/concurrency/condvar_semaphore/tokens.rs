//! The tokens that can end a wait.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};

use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Tokens that can each end the wait.
pub(super) struct Tokens(Vec<CancellationToken>);

/// Keeps the waker registered with the tokens until it is dropped.
pub(super) struct Registered(#[allow(dead_code, reason = "kept")] Vec<Registration>);

type Registration = Pin<Box<WaitForCancellationFutureOwned>>;

impl Tokens {
    #[inline]
    pub(super) fn new() -> Self {
        Self(Vec::new())
    }

    pub(super) fn add(&mut self, token: CancellationToken) {
        self.0.push(token);
    }

    #[inline]
    pub(super) fn is_cancelled(&self) -> bool {
        self.0.iter().any(CancellationToken::is_cancelled)
    }

    /// Registers a waker that they call when they are cancelled.
    pub(super) fn register(&self, waker: &Waker) -> Registered {
        let register = |token: &CancellationToken| {
            let mut cancelled = Box::pin(token.clone().cancelled_owned());
            // The caller's next check finds a token that is already cancelled.
            let _ = cancelled.as_mut().poll(&mut Context::from_waker(waker));
            cancelled
        };
        Registered(self.0.iter().map(register).collect())
    }
}
