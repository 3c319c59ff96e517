//! The use of [`Pushes`](super::pushes::Pushes) by listeners: a store subscribes its channel when somebody listens.

use std::sync::Arc;

use super::Store;
use super::pushes::{Listener, Listening};

impl Store {
    /// Calls a listener with the messages whose first word is that name.
    pub(crate) fn listen(&self, name: &str, listener: Listener) -> Listening {
        self.shared.link.pushes.listen(name, listener)
    }

    /// Returns the channel, if it is subscribed on the current connection.
    pub(crate) fn channel(&self) -> Option<&str> {
        let link = &self.shared.link;
        let current = link.current()?.number();
        let is_open = link.pushes.is_open(current);
        is_open.then(|| link.pushes.channel())
    }

    /// Subscribes the channel on the current connection, unless that was tried lately. Its listeners are called
    /// when it is subscribed.
    pub(crate) fn subscribe(&self) {
        let link = Arc::clone(&self.shared.link);
        let Some(mut connection) = link.current() else {
            return;
        };
        let number = connection.number();
        let Some(is_first) = link.pushes.begin(number) else {
            return;
        };
        self.runtime().spawn(async move {
            match connection.subscribe(link.pushes.channel()).await {
                Ok(true) => link.pushes.ended(number, true),
                Ok(false) => {}
                Err(error) => {
                    link.pushes.ended(number, false);
                    if is_first {
                        link.failed(&error);
                    }
                }
            }
        });
    }
}
