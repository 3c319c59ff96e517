//! [`Call`]: a call of the store, which is [`Detached`] from its caller; and its [progress](Progress).
//!
//! 1. It ends by its deadline, so the breaker and the link get the result of every call that was sent.
//! 2. A call is not sent after its caller has left. So if two calls are made inside the runtime,
//!    and the first was dropped before the second was made, the first is not executed after the
//!    second.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use redis::Value;
use tokio::runtime::Handle;

use super::detached::Detached;
use crate::error::StoreError;

/// A call in progress.
#[must_use = "a future does nothing unless it is awaited"]
pub(crate) struct Call {
    running: Detached<Value>,
    wanted: Arc<AtomicBool>,
}

/// The progress of a call.
pub(super) struct Progress {
    /// The number of the connection on which the call may have been sent, or the reason why it was
    /// not.
    pub(super) sent: Result<u64, StoreError>,
    /// Whether the call is repeated while its keys are being moved.
    pub(super) repeats: bool,
    wanted: Arc<AtomicBool>,
}

impl Progress {
    /// Returns whether the caller still waits. If it has left, nothing more is sent.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }
}

impl Call {
    pub(super) fn new<F>(runtime: &Handle, make: impl FnOnce(Progress) -> F) -> Self
    where
        F: Future<Output = Result<Value, StoreError>> + Send + 'static,
    {
        let wanted = Arc::new(AtomicBool::new(true));
        let progress = Progress {
            sent: Err(StoreError::Unavailable),
            repeats: true,
            wanted: Arc::clone(&wanted),
        };
        Self {
            running: Detached::new(runtime, make(progress)),
            wanted,
        }
    }

    /// Calls `call` with the [value](Detached::on_abandoned) if the caller has left by then.
    pub(crate) fn on_abandoned(mut self, call: impl FnOnce(Value) + Send + 'static) -> Self {
        self.running.on_abandoned(call);
        self
    }
}

impl Future for Call {
    type Output = Result<Value, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.running).poll(context)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        // Before `running` is dropped.
        self.wanted.store(false, Ordering::Release);
    }
}
