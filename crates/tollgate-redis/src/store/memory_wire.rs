//! [`InMemory`]: what takes the calls of a store in memory, where others have a connection.

use std::sync::Arc;

use redis::{Cmd, RedisResult, Value};

use super::time::StoreTime;
use crate::memory::Memory;
use crate::script::micros;

#[derive(Clone)]
pub(super) struct InMemory {
    memory: Arc<Memory>,
    time: StoreTime,
}

impl InMemory {
    pub(super) fn new(memory: &Arc<Memory>, time: &StoreTime) -> Self {
        Self {
            memory: Arc::clone(memory),
            time: time.clone(),
        }
    }

    /// Executes a call now.
    pub(super) fn call(&self, command: &Cmd) -> RedisResult<Value> {
        let passed = self.time.passed().unwrap_or_default();
        self.memory.call(command, micros(passed))
    }
}
