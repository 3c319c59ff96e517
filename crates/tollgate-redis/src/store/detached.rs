//! [`Detached`]: an operation that goes on without its caller: a call of the store, a refund, a release.
//!
//! 1. The runtime of the store owns it. Inside that runtime the caller polls it in place; outside, where timers and
//!    sockets do not work, a task of the runtime runs it.
//! 2. If the caller is dropped before the first poll, nothing happens. Later, the operation continues in a task, and
//!    [`on_abandoned`](Detached::on_abandoned) gets its result.
//! 3. It has references to the store and the limit, so it also goes on when they are dropped elsewhere.
//! 4. If the runtime ends, the operation is dropped: the caller gets [`NoRuntime`](StoreError::NoRuntime), and nobody
//!    gets the result.
//! 5. If it panics in a task, the caller gets [`Disconnected`](StoreError::Disconnected), because its call may have been
//!    executed, and nobody gets the result. If it panics in place, so does the caller.
//!
//! Work that no caller waits for is a task of its limit; see [`Shared::spawn`](crate::queue::Shared::spawn).

use std::convert::identity;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinHandle};

use crate::error::StoreError;

#[must_use = "a future does nothing unless it is awaited"]
pub(crate) struct Detached<T: Send + 'static> {
    state: State<T>,
    runtime: Handle,
    on_abandoned: Option<Box<dyn FnOnce(T) + Send>>,
}

type Answer<T> = Result<T, StoreError>;
type Running<T> = Pin<Box<dyn Future<Output = Answer<T>> + Send>>;

enum State<T> {
    New(Running<T>),
    InPlace(Running<T>),
    InTask(JoinHandle<Answer<T>>),
    Over,
}

/// Returns whether the caller is inside that runtime.
pub(crate) fn is_inside(runtime: &Handle) -> bool {
    Handle::try_current().is_ok_and(|current| current.id() == runtime.id())
}

/// Returns the result of a task. There is none if its runtime ended, or if the task panicked.
pub(crate) fn joined<T>(joined: Result<T, JoinError>) -> Result<T, StoreError> {
    joined.map_err(|error| {
        if error.is_panic() {
            StoreError::Disconnected
        } else {
            StoreError::NoRuntime
        }
    })
}

impl<T: Send + 'static> Detached<T> {
    pub(crate) fn new(
        runtime: &Handle,
        operation: impl Future<Output = Answer<T>> + Send + 'static,
    ) -> Self {
        Self {
            state: State::New(Box::pin(operation)),
            runtime: runtime.clone(),
            on_abandoned: None,
        }
    }

    /// Starts the operation in a task, so that it is made even if this future is dropped before its first poll.
    pub(crate) fn start(mut self) -> Self {
        self.move_to_task();
        self
    }

    /// Calls `call` with the result if the caller has dropped the future by then, and there is no error. `call`
    /// must not block.
    pub(super) fn on_abandoned(&mut self, call: impl FnOnce(T) + Send + 'static) {
        self.on_abandoned = Some(Box::new(call));
    }

    fn move_to_task(&mut self) {
        self.state = match mem::replace(&mut self.state, State::Over) {
            State::New(rest) | State::InPlace(rest) => State::InTask(self.runtime.spawn(rest)),
            other => other,
        };
    }
}

impl<T: Send + 'static> Future for Detached<T> {
    type Output = Answer<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if !is_inside(&this.runtime) {
            this.move_to_task();
        }
        // If the future panics, the state is already over.
        match mem::replace(&mut this.state, State::Over) {
            State::New(mut rest) | State::InPlace(mut rest) => {
                let poll = rest.as_mut().poll(context);
                if poll.is_pending() {
                    this.state = State::InPlace(rest);
                }
                poll
            }
            State::InTask(mut task) => {
                let poll = Pin::new(&mut task).poll(context);
                if poll.is_pending() {
                    this.state = State::InTask(task);
                }
                poll.map(|ended| joined(ended).and_then(identity))
            }
            State::Over => panic!("polled again after it was ready"),
        }
    }
}

impl<T: Send + 'static> Drop for Detached<T> {
    fn drop(&mut self) {
        if let State::InPlace(_) = self.state {
            self.move_to_task();
        }
        if let State::InTask(task) = mem::replace(&mut self.state, State::Over)
            && let Some(on_abandoned) = self.on_abandoned.take()
        {
            self.runtime.spawn(async move {
                if let Ok(Ok(result)) = task.await {
                    on_abandoned(result);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::task::Waker;

    use tokio::runtime::{Builder, Runtime};
    use tokio::sync::Notify;

    use super::*;

    fn runtime() -> Runtime {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).enable_time().build().unwrap()
    }

    /// Returns a future that completes with 7 after the notification, and sends abandoned values.
    fn future(runtime: &Runtime) -> (Arc<Notify>, Detached<u32>, mpsc::Receiver<u32>) {
        let notify = Arc::new(Notify::new());
        let waits = Arc::clone(&notify);
        let mut future = Detached::new(runtime.handle(), async move {
            // Outside of a runtime this panics.
            tokio::time::sleep(std::time::Duration::ZERO).await;
            waits.notified().await;
            Ok(7)
        });
        let (sender, abandoned) = mpsc::channel();
        future.on_abandoned(move |value| sender.send(value).unwrap());
        (notify, future, abandoned)
    }

    fn poll(future: &mut Detached<u32>) -> Poll<Answer<u32>> {
        Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn poll_inside_and_outside_of_the_runtime_completes() {
        let runtime = runtime();
        let other = Builder::new_current_thread().build().unwrap();
        for polls in [&runtime, &other] {
            let (notify, future, abandoned) = future(&runtime);
            notify.notify_one();
            assert_eq!(polls.block_on(future), Ok(7));
            abandoned.recv().unwrap_err();
        }
    }

    #[test]
    fn drop_after_first_poll_runs_to_the_end_and_calls_on_abandoned() {
        let runtime = runtime();
        for inside in [true, false] {
            let (notify, mut future, abandoned) = future(&runtime);
            {
                let _inside = inside.then(|| runtime.enter());
                assert!(poll(&mut future).is_pending());
            }
            drop(future);
            abandoned.try_recv().unwrap_err();
            notify.notify_one();
            assert_eq!(abandoned.recv(), Ok(7), "inside: {inside}");
        }
        let (_, never_polled, abandoned) = future(&runtime);
        drop(never_polled);
        abandoned.recv().unwrap_err();
    }

    #[test]
    fn start_runs_an_operation_that_nobody_polls() {
        let runtime = runtime();
        let (notify, future, abandoned) = future(&runtime);
        drop(future.start());
        notify.notify_one();
        assert_eq!(abandoned.recv(), Ok(7));
    }

    #[test]
    fn poll_of_a_call_that_panics_in_a_task_is_another_error() {
        let runtime = runtime();
        let call = Detached::<u32>::new(runtime.handle(), async {
            panic!("a mistake of the client")
        });
        let other = Builder::new_current_thread().build().unwrap();
        assert_eq!(other.block_on(call), Err(StoreError::Disconnected));
    }

    #[test]
    fn poll_without_the_runtime_is_an_error() {
        let gone = runtime();
        let (_notify, mut waits, _) = future(&gone);
        assert!(poll(&mut waits).is_pending());
        let (_notify, new, _) = future(&gone);
        drop(gone);
        let other = Builder::new_current_thread().build().unwrap();
        for future in [waits, new] {
            assert_eq!(other.block_on(future), Err(StoreError::NoRuntime));
        }
    }
}
