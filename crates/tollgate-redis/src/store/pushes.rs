//! [`Pushes`]: messages that the server sends without a request, on the connection of the store.
//!
//! 1. A store has a channel of its own. It is subscribed at most once on each connection, in a task, when somebody
//!    waits for messages. A cluster has no messages. Elsewhere, a connection on which that fails gets none for ten
//!    seconds: in the second version of the protocol, without the right for the channel, through a proxy, or while
//!    the server is busy. The first reason on each connection is the store's last failure.
//! 2. A message may be lost, late or doubled, so it is only a hint to make a call.
//! 3. Listeners learn of a new subscription and of the loss of a connection, because messages were lost before.
//!
//! The lock is held briefly, never while a listener is called.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{PushInfo, PushKind, Value};

use crate::sync::{Mutex, lock};
use crate::unique::unique;

/// Called with the rest of a message to that listener, or with `None` when messages may have been lost.
pub(crate) type Listener = Arc<dyn Fn(Option<&str>) + Send + Sync>;

/// Removes its listener when it is dropped.
pub(crate) struct Listening {
    pushes: Arc<Pushes>,
    name: String,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let listener = lock(&self.pushes.state).listeners.remove(&self.name);
        drop(listener);
    }
}

pub(super) struct Pushes {
    channel: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By the first word of their messages.
    listeners: HashMap<String, Listener>,
    /// The number of the connection on which the channel was subscribed, or is being subscribed.
    tried: u64,
    /// When it may be tried again there, after a failure.
    again: Option<Instant>,
    /// The number of the newest connection on which it is subscribed.
    subscribed: u64,
}

/// The time from a failure until the next attempt on that connection.
const RETRY: Duration = Duration::from_secs(10);

impl State {
    /// Begins an attempt on a connection, unless one is under way, or has succeeded or failed lately. Returns
    /// whether it is the first one there.
    fn begin(&mut self, number: u64, now: Instant) -> Option<bool> {
        let is_first = self.tried != number;
        if !is_first && self.again.is_none_or(|again| now < again) {
            return None;
        }
        (self.tried, self.again) = (number, None);
        Some(is_first)
    }

    fn succeeded(&mut self, number: u64) {
        // Attempts on an older connection may end later.
        self.subscribed = self.subscribed.max(number);
    }

    fn failed(&mut self, number: u64, now: Instant) {
        if self.tried == number {
            self.again = Some(now + RETRY);
        }
    }
}

impl Pushes {
    pub(super) fn new() -> Self {
        Self {
            channel: format!("tollgate:{:016x}", unique()),
            state: Mutex::default(),
        }
    }

    /// Calls a listener with the messages whose first word is that name.
    pub(super) fn listen(self: &Arc<Self>, name: &str, listener: Listener) -> Listening {
        let (pushes, name) = (Arc::clone(self), name.to_owned());
        lock(&self.state).listeners.insert(name.clone(), listener);
        Listening { pushes, name }
    }

    /// Returns the channel.
    pub(super) fn channel(&self) -> &str {
        &self.channel
    }

    /// Returns whether the channel is subscribed on the connection with this number.
    pub(super) fn is_open(&self, connection: u64) -> bool {
        lock(&self.state).subscribed == connection
    }

    /// Begins an attempt on the connection with this number, unless that was tried lately. Returns whether it is the
    /// first one there.
    pub(super) fn begin(&self, connection: u64) -> Option<bool> {
        lock(&self.state).begin(connection, Instant::now())
    }

    /// Ends an attempt.
    pub(super) fn ended(&self, connection: u64, is_subscribed: bool) {
        if is_subscribed {
            lock(&self.state).succeeded(connection);
            self.may_have_lost();
        } else {
            lock(&self.state).failed(connection, Instant::now());
        }
    }

    /// Handles a push of any connection.
    pub(super) fn received(&self, push: &PushInfo) {
        match (&push.kind, push.data.as_slice()) {
            (PushKind::Message, [_, Value::BulkString(text)]) => {
                self.heard(&String::from_utf8_lossy(text));
            }
            (PushKind::Disconnection, _) => self.may_have_lost(),
            _ => {}
        }
    }

    /// Handles a message.
    pub(super) fn heard(&self, message: &str) {
        if let Some((name, rest)) = message.split_once(' ') {
            self.call(name, Some(rest));
        }
    }

    fn call(&self, name: &str, rest: Option<&str>) {
        let listener = lock(&self.state).listeners.get(name).cloned();
        if let Some(listener) = listener {
            listener(rest);
        }
    }

    fn may_have_lost(&self) {
        let names: Vec<_> = lock(&self.state).listeners.keys().cloned().collect();
        for name in names {
            self.call(&name, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begin_after_a_failure_is_refused_for_ten_seconds_on_that_connection() {
        let (mut state, now) = (State::default(), Instant::now());
        assert_eq!(state.begin(1, now), Some(true));
        assert_eq!(state.begin(1, now + 2 * RETRY), None, "it is under way");
        state.failed(1, now);
        assert_eq!(state.begin(1, now + RETRY - Duration::from_nanos(1)), None);
        assert_eq!(state.begin(1, now + RETRY), Some(false));
        assert_eq!(state.begin(2, now + RETRY), Some(true));
        state.failed(1, now);
        assert_eq!(state.begin(2, now + 2 * RETRY), None, "it is under way");
    }

    #[test]
    fn succeeded_on_an_older_connection_keeps_the_newer_one() {
        let mut state = State::default();
        state.succeeded(2);
        state.succeeded(1);
        assert_eq!(state.subscribed, 2);
    }
}
