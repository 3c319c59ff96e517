//! [`Drivers`]: one task that runs the drivers of all semaphores of a [group](super::group).
//!
//! 1. A driver that waits, for a message or a time, is here, so a key that is waited for has no task.
//! 2. The task ends when there are no drivers, and the next driver starts another one.
//! 3. Drivers of keys that are woken together make their calls together, in [batches](super::batches). A semaphore
//!    without keys makes its call at once.
//! 4. A driver that panics ends alone. When the task is dropped with its runtime, so are all drivers.

use std::future::{Future, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::batches::Batches;
use crate::queue::Running;
use crate::sync::{Mutex, lock};

pub(super) struct Drivers {
    batches: Arc<Batches>,
    runtime: Handle,
    state: Mutex<State>,
    /// Notified when there is a new driver.
    added: Notify,
}

#[derive(Default)]
struct State {
    new: Vec<Running>,
    is_running: bool,
}

impl Drivers {
    /// Creates the drivers of a group that makes these calls.
    pub(super) fn new(batches: &Arc<Batches>, runtime: &Handle) -> Arc<Self> {
        Arc::new(Self {
            batches: Arc::clone(batches),
            runtime: runtime.clone(),
            state: Mutex::default(),
            added: Notify::new(),
        })
    }

    /// Runs a driver in the task of the group.
    pub(super) fn add(self: &Arc<Self>, driver: Running) {
        let mut state = lock(&self.state);
        state.new.push(driver);
        let was_running = std::mem::replace(&mut state.is_running, true);
        drop(state);
        self.added.notify_one();
        if !was_running {
            let task = Task {
                drivers: Arc::clone(self),
                is_done: false,
            };
            drop(self.runtime.spawn(task.run()));
        }
    }

    /// Takes the new drivers. Returns `None` at the end of the task, if there are none.
    fn take(&self, is_last: bool) -> Option<Vec<Running>> {
        let state = &mut *lock(&self.state);
        state.is_running = !(is_last && state.new.is_empty());
        state.is_running.then(|| std::mem::take(&mut state.new))
    }
}

struct Task {
    drivers: Arc<Drivers>,
    is_done: bool,
}

impl Task {
    async fn run(mut self) {
        let mut all = FuturesUnordered::new();
        while let Some(new) = self.drivers.take(all.is_empty()) {
            // A driver is dropped with its panic, so nobody sees what it has left half done.
            let new = new.into_iter();
            all.extend(new.map(|driver| AssertUnwindSafe(driver).catch_unwind()));
            let mut added = pin!(self.drivers.added.notified());
            poll_fn(|context| {
                let _gathering = self.drivers.batches.gather();
                let is_over = poll_all(&mut all, context);
                let is_added = added.as_mut().poll(context).is_ready();
                (is_over || is_added)
                    .then_some(())
                    .map_or(Poll::Pending, Poll::Ready)
            })
            .await;
        }
        // Another task may run by now.
        self.is_done = true;
    }
}

/// Polls the drivers that are woken. Returns whether none is left.
fn poll_all(all: &mut FuturesUnordered<impl Future>, context: &mut Context<'_>) -> bool {
    loop {
        match all.poll_next_unpin(context) {
            Poll::Pending => return false,
            Poll::Ready(None) => return true,
            Poll::Ready(Some(_)) => {}
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if !self.is_done {
            let mut state = lock(&self.drivers.state);
            state.is_running = false;
            let new = std::mem::take(&mut state.new);
            drop(state);
            // Their waiters learn that there is no runtime.
            drop(new);
        }
    }
}
