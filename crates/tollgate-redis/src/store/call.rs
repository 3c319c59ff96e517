//! [`Request`]: what is asked of a server, and [`Progress`]: how far a call has come.
//!
//! 1. A call ends by its deadline, also if its caller has left: so the breaker and the link hear of
//!    every call that was sent.
//! 2. A call whose caller has left is not sent any more. So of two calls that are made inside the
//!    runtime, of which the first was dropped before the second was made, the first is not executed
//!    after the second.

use redis::{Cmd, RedisResult, Value};

use super::link::Connection;
use crate::detach::Wanted;
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
            Err(error) if Script::is_unknown(&error) && progress.wanted.get() => {
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
    /// If the caller has left, nothing more is sent.
    pub(super) wanted: Wanted,
}

/// On which connection a call may have been sent, or why it was not.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stage {
    Unsent(StoreError),
    Sent(u64),
}
