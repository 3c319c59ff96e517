//! [`Carried`]: what is asked of a server, by whoever waits for it, and to the end if they do not.
//!
//! 1. Inside of the runtime that it needs, it is polled by its caller, in place.
//! 2. Anywhere else, where timers and sockets do not work, it moves into a task of that runtime,
//!    and its caller waits for that.
//! 3. Dropped after it was begun and before it is over, it moves into such a task as well, and ends
//!    there: so whoever must hear how it went does.
//! 4. What it comes to is taken by the caller, or goes to [`untaken`](Carried::untaken).
//! 5. If the runtime is gone, so is what moves there, and the caller hears that.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::error::StoreError;

/// Comes to a `T`, or to an error.
#[must_use = "a future does nothing unless it is awaited"]
pub(crate) struct Carried<T, E = StoreError>
where
    T: Send + 'static,
    E: Send + 'static,
{
    state: State<T, E>,
    runtime: Handle,
    untaken: Option<Untaken<T>>,
}

type Rest<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

type Untaken<T> = Box<dyn FnOnce(T) + Send>;

enum State<T, E> {
    New(Rest<T, E>),
    Here(Rest<T, E>),
    There(oneshot::Receiver<Result<Found<T>, E>>),
    Over,
}

/// What it came to in a task: taken, or dropped on any of the ways to who waits.
struct Found<T> {
    value: Option<T>,
    untaken: Option<Untaken<T>>,
}

impl<T> Found<T> {
    fn take(mut self) -> Option<T> {
        self.value.take()
    }
}

impl<T> Drop for Found<T> {
    fn drop(&mut self) {
        if let (Some(value), Some(untaken)) = (self.value.take(), self.untaken.take()) {
            untaken(value);
        }
    }
}

/// Whether this is called in that runtime.
pub(crate) fn is_inside(runtime: &Handle) -> bool {
    Handle::try_current().is_ok_and(|current| current.id() == runtime.id())
}

impl<T: Send + 'static, E: Send + 'static> Carried<T, E> {
    /// To be polled by its caller, on this runtime.
    pub(crate) fn new(
        runtime: &Handle,
        future: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Self {
        Self {
            state: State::New(Box::pin(future)),
            runtime: runtime.clone(),
            untaken: None,
        }
    }

    /// What to do with what it comes to if the caller is gone by then. Must not block.
    pub(crate) fn untaken(mut self, untaken: impl FnOnce(T) + Send + 'static) -> Self {
        self.untaken = Some(Box::new(untaken));
        self
    }

    fn carry_on(&mut self, rest: Rest<T, E>) -> oneshot::Receiver<Result<Found<T>, E>> {
        let (sender, receiver) = oneshot::channel();
        let untaken = self.untaken.take();
        let task = async move {
            let found = rest.await.map(|value| Found {
                value: Some(value),
                untaken,
            });
            let _ = sender.send(found);
        };
        drop(self.runtime.spawn(task));
        receiver
    }
}

impl<T: Send + 'static, E: Send + From<StoreError> + 'static> Future for Carried<T, E> {
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            // Over, if what it polls panics.
            match mem::replace(&mut this.state, State::Over) {
                State::New(mut rest) | State::Here(mut rest) if is_inside(&this.runtime) => {
                    let poll = rest.as_mut().poll(context);
                    if poll.is_pending() {
                        this.state = State::Here(rest);
                    }
                    return poll;
                }
                State::New(rest) | State::Here(rest) => {
                    this.state = State::There(this.carry_on(rest));
                }
                State::There(mut receiver) => {
                    let Poll::Ready(found) = Pin::new(&mut receiver).poll(context) else {
                        this.state = State::There(receiver);
                        return Poll::Pending;
                    };
                    // Gone without a word: the task was dropped with its runtime.
                    let gone = || E::from(StoreError::NoRuntime);
                    let found = found.unwrap_or_else(|_| Err(gone()));
                    return Poll::Ready(found.and_then(|found| found.take().ok_or_else(gone)));
                }
                State::Over => panic!("polled again after it was ready"),
            }
        }
    }
}

impl<T: Send + 'static, E: Send + 'static> Drop for Carried<T, E> {
    fn drop(&mut self) {
        if let State::Here(rest) = mem::replace(&mut self.state, State::Over) {
            drop(self.carry_on(rest));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::task::Waker;
    use std::time::Duration;

    use tokio::runtime::{Builder, Runtime};
    use tokio::sync::Notify;

    use super::*;

    fn runtime() -> Runtime {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).enable_time().build().unwrap()
    }

    /// Comes to 7 once somebody lets it.
    fn slow() -> (
        std::sync::Arc<Notify>,
        impl Future<Output = Result<u32, StoreError>> + Send + 'static,
    ) {
        let let_go = std::sync::Arc::new(Notify::new());
        let waits = std::sync::Arc::clone(&let_go);
        let future = async move {
            tokio::time::sleep(Duration::ZERO).await;
            waits.notified().await;
            Ok(7)
        };
        (let_go, future)
    }

    fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
        Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn inside_it_is_polled_in_place() {
        let runtime = runtime();
        let _inside = runtime.enter();
        let thread = std::thread::current().id();
        let mut carried = Carried::new(runtime.handle(), async move {
            assert_eq!(std::thread::current().id(), thread);
            Ok::<_, StoreError>(7)
        });
        assert_eq!(poll(&mut carried), Poll::Ready(Ok(7)));
    }

    #[test]
    fn outside_it_is_polled_by_the_runtime() {
        let runtime = runtime();
        let (let_go, future) = slow();
        let mut carried = Carried::new(runtime.handle(), future);
        assert!(poll(&mut carried).is_pending());
        let_go.notify_one();
        // By another one.
        let other = Builder::new_current_thread().build().unwrap();
        assert_eq!(other.block_on(carried), Ok(7));
    }

    #[test]
    fn what_was_begun_ends_and_what_nobody_takes_is_told() {
        let runtime = runtime();
        for inside in [true, false] {
            let (sender, untaken) = mpsc::channel();
            let (let_go, future) = slow();
            let mut carried = Carried::new(runtime.handle(), future)
                .untaken(move |value| sender.send(value).unwrap());
            {
                let _inside = inside.then(|| runtime.enter());
                assert!(poll(&mut carried).is_pending());
            }
            drop(carried);
            untaken.try_recv().unwrap_err();
            let_go.notify_one();
            assert_eq!(untaken.recv(), Ok(7), "inside: {inside}");
        }
    }

    #[test]
    fn what_is_there_when_the_caller_leaves_is_told_as_well() {
        let runtime = runtime();
        let (sender, untaken) = mpsc::channel();
        let (done, is_done) = mpsc::channel();
        let mut carried = Carried::new(runtime.handle(), async move { Ok::<_, StoreError>(7) })
            .untaken(move |value| sender.send(value).unwrap());
        assert!(poll(&mut carried).is_pending());
        // The only thread of the runtime comes to it afterwards.
        runtime.spawn(async move { done.send(()).unwrap() });
        is_done.recv().unwrap();
        drop(carried);
        assert_eq!(untaken.recv(), Ok(7));
    }

    #[test]
    fn what_was_taken_or_never_begun_is_told_to_nobody() {
        let runtime = runtime();
        let (sender, untaken) = mpsc::channel();
        let carried = |sender: mpsc::Sender<u32>| {
            Carried::new(runtime.handle(), async { Ok::<_, StoreError>(7) })
                .untaken(move |value| sender.send(value).unwrap())
        };
        drop(carried(sender.clone()));
        let other = Builder::new_current_thread().build().unwrap();
        assert_eq!(other.block_on(carried(sender.clone())), Ok(7));
        assert_eq!(runtime.block_on(carried(sender)), Ok(7));
        untaken.recv().unwrap_err();
    }

    #[test]
    fn without_its_runtime_it_says_so() {
        let gone = runtime();
        let runtime = gone.handle().clone();
        let (_let_go, future) = slow();
        let mut waits = Carried::new(&runtime, future);
        assert!(poll(&mut waits).is_pending());
        let (_let_go, future) = slow();
        let mut new = Carried::new(&runtime, future);
        drop(gone);
        assert_eq!(poll(&mut waits), Poll::Ready(Err(StoreError::NoRuntime)));
        assert_eq!(poll(&mut new), Poll::Ready(Err(StoreError::NoRuntime)));
    }
}
