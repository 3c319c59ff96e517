//! [`Pushes`]: messages that the server sends without a request, on the connection of the store.
//!
//! 1. A store has a channel of its own. It is subscribed at most once on each connection, in a task, when somebody
//!    waits for messages. A connection on which that fails gets none: in the second version of the protocol, in
//!    a cluster, without the right for the channel, or through a proxy. The reason is the store's last failure.
//! 2. A message may be lost, late or doubled, so it is only a hint to make a call.
//! 3. Listeners learn of a new subscription and of the loss of a connection, because messages were lost before.
//!
//! The lock is held briefly, never while a listener is called.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use redis::{PushInfo, PushKind, Value};

use super::Store;
use crate::sync::{Mutex, lock};

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
    /// The number of the connection on which it is subscribed.
    subscribed: u64,
}

impl Pushes {
    pub(super) fn new() -> Self {
        // Random: the state of a new hasher.
        let number = RandomState::new().build_hasher().finish();
        Self {
            channel: format!("tollgate:{number:016x}"),
            state: Mutex::default(),
        }
    }

    /// Handles a push of any connection.
    pub(super) fn received(&self, push: &PushInfo) {
        match (&push.kind, push.data.as_slice()) {
            (PushKind::Message, [_, Value::BulkString(text)]) => {
                let text = String::from_utf8_lossy(text);
                if let Some((name, rest)) = text.split_once(' ') {
                    self.call(name, Some(rest));
                }
            }
            (PushKind::Disconnection, _) => self.may_have_lost(),
            _ => {}
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

impl Store {
    /// Calls a listener with the messages whose first word is that name.
    pub(crate) fn listen(&self, name: &str, listener: Listener) -> Listening {
        let (pushes, name) = (Arc::clone(&self.shared.link.pushes), name.to_owned());
        let mut state = lock(&pushes.state);
        state.listeners.insert(name.clone(), listener);
        drop(state);
        Listening { pushes, name }
    }

    /// Returns the channel, if it is subscribed on the current connection.
    pub(crate) fn channel(&self) -> Option<&str> {
        let link = &self.shared.link;
        let current = link.current()?.number();
        let is_open = lock(&link.pushes.state).subscribed == current;
        is_open.then_some(&link.pushes.channel)
    }

    /// Subscribes the channel on the current connection, unless that was tried before. Its listeners are called
    /// when it is subscribed.
    pub(crate) fn subscribe(&self) {
        let link = Arc::clone(&self.shared.link);
        let Some(mut connection) = link.current() else {
            return;
        };
        let number = connection.number();
        if std::mem::replace(&mut lock(&link.pushes.state).tried, number) == number {
            return;
        }
        self.runtime().spawn(async move {
            match connection.subscribe(&link.pushes.channel).await {
                Ok(()) => {
                    lock(&link.pushes.state).subscribed = number;
                    link.pushes.may_have_lost();
                }
                Err(error) => drop(link.failed(&error)),
            }
        });
    }
}
