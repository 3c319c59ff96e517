//! [`Call`]: one call, how far it has come, and whether the caller still waits for it.
//!
//! 1. A call works anywhere, and ends by its deadline, also if its caller has left: so the breaker and
//!    the link hear of every call that was sent.
//! 2. A call whose caller has left is not sent any more. So of two calls that are made inside the
//!    runtime, of which the first was dropped before the second was made, the first is not executed
//!    after the second.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use redis::{Cmd, RedisResult, Value};
use tokio::runtime::Handle;

use super::link::Connection;
use crate::detach::DetachOnDrop;
use crate::error::StoreError;
use crate::script::Script;

/// What is asked of a server.
pub(super) enum Request {
    Script {
        script: &'static Script,
        by_digest: Cmd,
    },
    /// A command without a key.
    Command(Cmd),
}

impl Request {
    pub(super) async fn send(
        &self,
        connection: &mut Connection,
        progress: &mut Progress,
    ) -> RedisResult<Value> {
        let (script, by_digest) = match self {
            Self::Command(command) => return connection.call(command, progress).await,
            Self::Script { script, by_digest } => (script, by_digest),
        };
        match connection.call(by_digest, progress).await {
            Err(error) if Script::is_unknown(&error) && progress.is_wanted() => {
                let by_text = script.by_text(by_digest);
                connection.call(&by_text, progress).await
            }
            answer => answer,
        }
    }
}

/// How far a call has come.
pub(super) struct Progress {
    pub(super) stage: Stage,
    wanted: Arc<AtomicBool>,
}

/// On which connection a call may have been sent, or why it was not.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stage {
    Unsent(StoreError),
    Sent(u64),
}

impl Progress {
    /// Whether the caller still waits. If not, nothing more is sent.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }
}

/// A call on its way.
///
/// # Cancel safety
///
/// Dropped before it is sent, it is not sent. Dropped later, it may be executed all the same.
#[must_use = "a future does nothing unless it is awaited"]
pub(crate) struct Call {
    // In this order: the call is not wanted any more when the rest goes on in a task.
    _wanted: Wanted,
    rest: DetachOnDrop<Value>,
}

/// While it is there, the caller waits.
struct Wanted(Arc<AtomicBool>);

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Call {
    pub(super) fn new<F>(runtime: &Handle, make: impl FnOnce(Progress) -> F) -> Self
    where
        F: Future<Output = Result<Value, StoreError>> + Send + 'static,
    {
        let wanted = Arc::new(AtomicBool::new(true));
        let progress = Progress {
            stage: Stage::Unsent(StoreError::Unavailable),
            wanted: Arc::clone(&wanted),
        };
        Self {
            _wanted: Wanted(wanted),
            rest: DetachOnDrop::new(runtime, make(progress)),
        }
    }

    /// Calls this with the reply if the caller has left by then. It must not block.
    pub(crate) fn on_abandoned(mut self, call: impl FnOnce(Value) + Send + 'static) -> Self {
        self.rest = self.rest.on_abandoned(call);
        self
    }
}

impl Future for Call {
    type Output = Result<Value, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.rest).poll(context)
    }
}
