//! [`Request`]: a request to a server, and [`Progress`]: the progress of a call.
//!
//! 1. A call ends by its deadline, also if its caller has left: so the breaker and the link get the
//!    result of every call that was sent.
//! 2. A call is not sent after its caller has left. So if two calls are made inside the runtime,
//!    and the first was dropped before the second was made, the first is not executed after the
//!    second.

use redis::{Cmd, RedisResult, Value};

use super::link::Connection;
use crate::detach::Wanted;
use crate::error::StoreError;
use crate::script::Script;

/// A request to a server.
pub(super) struct Request {
    pub(super) command: Cmd,
    /// The script that the command calls by its digest, if any.
    pub(super) script: Option<&'static Script>,
}

impl Request {
    pub(super) async fn send(
        &self,
        connection: &mut Connection,
        progress: &mut Progress,
    ) -> RedisResult<Value> {
        let answer = connection.call(&self.command, progress).await;
        match self.script {
            Some(script) if Script::is_unknown(&answer) && progress.wanted.get() => {
                let by_text = script.by_text(&self.command);
                connection.call(&by_text, progress).await
            }
            _ => answer,
        }
    }
}

/// The progress of a call.
pub(super) struct Progress {
    pub(super) stage: Stage,
    /// If the caller has left, nothing more is sent.
    pub(super) wanted: Wanted,
}

/// The connection on which a call may have been sent, or the reason why it was not.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stage {
    Unsent(StoreError),
    Sent(u64),
}
