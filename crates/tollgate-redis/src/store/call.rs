//! [`Call`]: a call of the store, which its caller polls, and which a task finishes if the caller
//! drops it; and its [progress](Progress).
//!
//! 1. Inside the store's runtime, the caller polls the call in place.
//! 2. Outside of it, where timers and sockets do not work, a task of that runtime runs the call.
//! 3. A call that is dropped after its first poll and before its end continues in such a task. It
//!    ends by its deadline, so the breaker and the link get the result of every call that was sent.
//! 4. A value that the caller does not take is passed to [`on_abandoned`](Call::on_abandoned).
//! 5. A call is not sent after its caller has left. So if two calls are made inside the runtime,
//!    and the first was dropped before the second was made, the first is not executed after the
//!    second.
//! 6. If the runtime is gone, the caller gets [`NoRuntime`](StoreError::NoRuntime). If the call panics
//!    in a task, the caller gets [`Disconnected`](StoreError::Disconnected).

use std::convert::identity;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use redis::Value;
use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinHandle};

use crate::error::StoreError;

/// A call in progress.
#[must_use = "a future does nothing unless it is awaited"]
pub(crate) struct Call {
    state: State,
    runtime: Handle,
    wanted: Arc<AtomicBool>,
    on_abandoned: Option<Box<dyn FnOnce(Value) + Send>>,
}

type Answer = Result<Value, StoreError>;
type Running = Pin<Box<dyn Future<Output = Answer> + Send>>;

enum State {
    New(Running),
    InPlace(Running),
    InTask(JoinHandle<Answer>),
    Over,
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

/// Returns whether the caller is inside that runtime.
pub(crate) fn is_inside(runtime: &Handle) -> bool {
    Handle::try_current().is_ok_and(|current| current.id() == runtime.id())
}

/// Returns the result of a task. There is none if its runtime ended, or if the task panicked: then its call
/// may have been executed.
pub(crate) fn joined<T>(joined: Result<T, JoinError>) -> Result<T, StoreError> {
    joined.map_err(|error| {
        if error.is_panic() {
            StoreError::Disconnected
        } else {
            StoreError::NoRuntime
        }
    })
}

impl Call {
    pub(super) fn new<F>(runtime: &Handle, make: impl FnOnce(Progress) -> F) -> Self
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        let wanted = Arc::new(AtomicBool::new(true));
        let progress = Progress {
            sent: Err(StoreError::Unavailable),
            repeats: true,
            wanted: Arc::clone(&wanted),
        };
        Self {
            state: State::New(Box::pin(make(progress))),
            runtime: runtime.clone(),
            wanted,
            on_abandoned: None,
        }
    }

    /// Calls `call` with the value if the caller has dropped the future by then. `call` must not
    /// block.
    pub(crate) fn on_abandoned(mut self, call: impl FnOnce(Value) + Send + 'static) -> Self {
        self.on_abandoned = Some(Box::new(call));
        self
    }
}

impl Future for Call {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            // If the future panics, the state is already over.
            match mem::replace(&mut this.state, State::Over) {
                State::New(mut rest) | State::InPlace(mut rest) if is_inside(&this.runtime) => {
                    let poll = rest.as_mut().poll(context);
                    if poll.is_pending() {
                        this.state = State::InPlace(rest);
                    }
                    return poll;
                }
                State::New(rest) | State::InPlace(rest) => {
                    this.state = State::InTask(this.runtime.spawn(rest));
                }
                State::InTask(mut task) => {
                    let Poll::Ready(joined) = Pin::new(&mut task).poll(context) else {
                        this.state = State::InTask(task);
                        return Poll::Pending;
                    };
                    return Poll::Ready(self::joined(joined).and_then(identity));
                }
                State::Over => panic!("polled again after it was ready"),
            }
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.wanted.store(false, Ordering::Release);
        let on_abandoned = self.on_abandoned.take();
        let task = match mem::replace(&mut self.state, State::Over) {
            State::New(_) | State::Over => return,
            State::InPlace(rest) => self.runtime.spawn(rest),
            State::InTask(task) => task,
        };
        if let Some(on_abandoned) = on_abandoned {
            self.runtime.spawn(async move {
                if let Ok(Ok(value)) = task.await {
                    on_abandoned(value);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::task::Waker;

    use tokio::runtime::{Builder, Runtime};
    use tokio::sync::Notify;

    use super::*;

    fn runtime() -> Runtime {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).enable_time().build().unwrap()
    }

    /// Returns a future that completes with 7 after the notification, and sends abandoned values.
    fn future(runtime: &Runtime) -> (Arc<Notify>, Call, mpsc::Receiver<Value>) {
        let notify = Arc::new(Notify::new());
        let waits = Arc::clone(&notify);
        let future = Call::new(runtime.handle(), |_| async move {
            // Outside of a runtime this panics.
            tokio::time::sleep(std::time::Duration::ZERO).await;
            waits.notified().await;
            Ok(Value::Int(7))
        });
        let (sender, abandoned) = mpsc::channel();
        let future = future.on_abandoned(move |value| sender.send(value).unwrap());
        (notify, future, abandoned)
    }

    fn poll(future: &mut Call) -> Poll<Answer> {
        Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn poll_inside_and_outside_of_the_runtime_completes() {
        let runtime = runtime();
        let other = Builder::new_current_thread().build().unwrap();
        for polls in [&runtime, &other] {
            let (notify, future, abandoned) = future(&runtime);
            notify.notify_one();
            assert_eq!(polls.block_on(future), Ok(Value::Int(7)));
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
            assert_eq!(abandoned.recv(), Ok(Value::Int(7)), "inside: {inside}");
        }
        let (_, never_polled, abandoned) = future(&runtime);
        drop(never_polled);
        abandoned.recv().unwrap_err();
    }

    #[test]
    fn poll_of_a_call_that_panics_in_a_task_is_another_error() {
        let runtime = runtime();
        let call = Call::new(runtime.handle(), |_| async {
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
