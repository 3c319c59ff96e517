//! Names the throttles to choose from, and the maximum number of permits of each.
//!
//! [`app::run`](crate::app::run) makes them. They have only one trait in common, so the choice makes no
//! difference to the code that uploads.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::thread::{self, JoinHandle};

use clap::ValueEnum;
use serde::Serialize;
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};
use tollgate::semaphore::Permit;
use tollgate::wait::Waiting;
use tollgate::{AcquireError, CondvarSemaphore, Semaphore, Throttle};

/// The throttle that admits requests. `--help` shows the comments on the variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum ThrottleKind {
    /// `tollgate::Semaphore`, strictly first-in first-out
    Semaphore,
    /// `tollgate::Pool`, a channel of idle slots; at most 65536
    Pool,
    /// `tollgate::ChannelSemaphore`, a channel of busy slots; at most 65536
    Channel,
    /// `tokio::sync::Semaphore`
    Tokio,
    /// `async_lock::Semaphore`
    AsyncLock,
    /// `tollgate::CondvarSemaphore`, in which threads wait for the requests; at most 1024
    Condvar,
    /// `tollgate_redis::Semaphore`, on the server that `--redis` names
    #[value(skip)]
    Redis,
}

impl ThrottleKind {
    /// Returns the maximum number of permits of this throttle here.
    pub fn max_permits(self) -> usize {
        match self {
            // `AsyncLock` has no limit of its own.
            ThrottleKind::Semaphore | ThrottleKind::AsyncLock => Semaphore::MAX_PERMITS,
            ThrottleKind::Tokio => tokio::sync::Semaphore::MAX_PERMITS,
            // They can have more, but allocate a slot for each permit at the start.
            ThrottleKind::Pool | ThrottleKind::Channel => 65_536,
            // Each permit needs a thread.
            ThrottleKind::Condvar => 1_024,
            // Each permit is an entry on the server.
            ThrottleKind::Redis => 65_536,
        }
    }
}

/// Formats the name that the command line uses.
impl fmt::Display for ThrottleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_possible_value() {
            Some(value) => f.pad(value.get_name()),
            // `--redis` selects this variant.
            None => f.pad("redis"),
        }
    }
}

// A semaphore for threads, used by tasks: its own threads wait in their place.
//
// [`CondvarSemaphore`] blocks, so a task must not wait for it. In a shared pool of blocking threads,
// such as that of `spawn_blocking`, the waiting threads could leave none for reading files.
//
// 1. There are as many threads as permits. Each thread takes a request off the queue, blocks for a permit
//    and hands it over to the task that sent the request.
// 2. A thread blocks only while a task waits for the answer: dropping the wait cancels the token
//    of its request. So tasks that have left cannot occupy all threads.
// 3. A permit always has a holder or is free: an answer that no task receives drops its permit.
// 4. The threads share the semaphore and the queue, but not the throttle. When the throttle's last clone
//    is dropped, the semaphore is closed and the queue ends. The threads end after they have
//    answered the remaining waiters.
//
// A thread holds the lock of the queue while it waits for a request, but not while it waits for a
// permit.

/// Admits at most N requests at once, with N threads that wait. The order is not defined.
#[derive(Clone, Debug)]
pub struct CondvarThrottle(Arc<Owner>);

/// The state that all clones share. The threads end when it is dropped.
#[derive(Debug)]
struct Owner {
    semaphore: Arc<CondvarSemaphore>,
    requests: Sender<Request>,
}

/// A request from a task to a thread.
#[derive(Debug)]
struct Request {
    /// A token that is cancelled when no task waits for the answer any more.
    left: CancellationToken,
    answer: oneshot::Sender<Result<Permit<Arc<CondvarSemaphore>>, AcquireError>>,
}

/// The wait for a permit of a [`CondvarThrottle`].
///
/// It ends with [`Closed`](tollgate::ErrorKind::Closed) if all clones of the throttle are dropped
/// during the wait.
///
/// # Panics
///
/// If polled again after completion.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct EnterCondvar(State);

#[derive(Debug)]
enum State {
    Asking(CondvarThrottle),
    Waiting {
        answer: oneshot::Receiver<Result<Permit<Arc<CondvarSemaphore>>, AcquireError>>,
        #[allow(
            dead_code,
            reason = "cancels the token of the request when it is dropped"
        )]
        left: DropGuard,
    },
    Done,
}

impl CondvarThrottle {
    /// Makes a throttle with this many permits, all of them free, and as many threads.
    ///
    /// # Errors
    ///
    /// If a thread cannot be started. The threads that were already started end.
    ///
    /// # Panics
    ///
    /// If `permits` is 0.
    pub fn new(permits: usize) -> io::Result<CondvarThrottle> {
        // The threads end by themselves.
        CondvarThrottle::start(permits).map(|(throttle, _)| throttle)
    }

    fn start(permits: usize) -> io::Result<(CondvarThrottle, Vec<JoinHandle<()>>)> {
        let semaphore = Arc::new(CondvarSemaphore::new(permits));
        let (requests, queue) = mpsc::channel();
        let queue = Arc::new(Mutex::new(queue));
        let throttle = CondvarThrottle(Arc::new(Owner {
            semaphore: Arc::clone(&semaphore),
            requests,
        }));
        let threads = (0..permits).map(|index| {
            let (semaphore, queue) = (Arc::clone(&semaphore), Arc::clone(&queue));
            thread::Builder::new()
                .name(format!("condvar-{index}"))
                .spawn(move || serve(&semaphore, &queue))
        });
        let threads = threads.collect::<io::Result<_>>()?;
        Ok((throttle, threads))
    }
}

/// Serves requests until the queue ends. Every thread runs this function.
fn serve(semaphore: &Arc<CondvarSemaphore>, queue: &Mutex<Receiver<Request>>) {
    while let Some(Request { left, answer }) = next(queue) {
        let permit = Arc::clone(semaphore).acquire_owned().cancel_on(left).wait();
        // A permit that comes back was for a task that has left.
        drop(answer.send(permit));
    }
}

/// Returns the next request. A separate function releases the lock before the thread waits for a permit.
fn next(queue: &Mutex<Receiver<Request>>) -> Option<Request> {
    let queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
    queue.recv().ok()
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.semaphore.close();
    }
}

impl Throttle for CondvarThrottle {
    type Permit = Permit<Arc<CondvarSemaphore>>;
    type Enter = EnterCondvar;

    fn enter(&self) -> Waiting<EnterCondvar> {
        Waiting::new(EnterCondvar(State::Asking(self.clone())))
    }
}

impl State {
    /// Puts a request into the queue.
    fn ask(throttle: &CondvarThrottle) -> State {
        let left = CancellationToken::new();
        let (sender, answer) = oneshot::channel();
        let request = Request {
            left: left.clone(),
            answer: sender,
        };
        let asked = throttle.0.requests.send(request);
        asked.expect("the threads do not end before the throttle");
        State::Waiting {
            answer,
            left: left.drop_guard(),
        }
    }
}

impl Future for EnterCondvar {
    type Output = Result<Permit<Arc<CondvarSemaphore>>, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let State::Asking(throttle) = &self.0 {
            self.0 = State::ask(throttle);
        }
        let State::Waiting { answer, .. } = &mut self.0 else {
            panic!("polled again after it was ready");
        };
        let answer = ready!(Pin::new(answer).poll(context));
        self.0 = State::Done;
        Poll::Ready(answer.expect("a thread answers what it takes off the queue"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use tollgate::ErrorKind;

    #[test]
    fn name_is_the_same_on_the_command_line_and_in_the_report() {
        let mut names = Vec::new();
        for kind in ThrottleKind::value_variants() {
            assert_eq!(serde_json::json!(kind), kind.to_string());
            names.push(kind.to_string());
        }
        let expected = [
            "semaphore",
            "pool",
            "channel",
            "tokio",
            "async-lock",
            "condvar",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn help_tells_the_bounds_that_are_not_out_of_reach() {
        for kind in ThrottleKind::value_variants() {
            let bound = kind.max_permits();
            let value = kind.to_possible_value().unwrap();
            let help = value.get_help().unwrap().to_string();
            let told = help.ends_with(&format!("at most {bound}"));
            assert_eq!(told, bound < usize::MAX >> 8, "{help}");
        }
    }

    /// Sends a request, and returns once this many threads are blocked.
    fn ask(throttle: &CondvarThrottle, blocked: usize) -> Waiting<EnterCondvar> {
        let mut enter = throttle.enter();
        assert!((&mut enter).now_or_never().is_none());
        until(|| throttle.0.semaphore.snapshot().waiting == blocked);
        enter
    }

    fn until(reached: impl Fn() -> bool) {
        while !reached() {
            thread::yield_now();
        }
    }

    /// Returns a throttle with one permit, and that permit.
    async fn taken() -> (CondvarThrottle, Permit<Arc<CondvarSemaphore>>) {
        let throttle = CondvarThrottle::new(1).unwrap();
        let held = throttle.enter().await.unwrap();
        (throttle, held)
    }

    #[tokio::test]
    async fn permit_goes_from_hand_to_hand() {
        let (throttle, held) = taken().await;
        let mut first = ask(&throttle, 1);
        let mut second = ask(&throttle, 1);
        assert!((&mut first).now_or_never().is_none(), "one at once");
        drop(held);
        drop(first.await.unwrap());
        let held = (&mut second).await.unwrap();
        assert_eq!(throttle.0.semaphore.snapshot().available, 0);
        drop(held);
        assert_eq!(throttle.0.semaphore.snapshot().available, 1);
    }

    #[tokio::test]
    async fn nobody_asks_before_the_first_poll() {
        let throttle = CondvarThrottle::new(1).unwrap();
        let _lazy = throttle.enter();
        drop(throttle.enter().await.unwrap());
        assert_eq!(throttle.0.semaphore.snapshot().available, 1);
    }

    #[tokio::test]
    async fn a_dropped_request_unblocks_its_thread() {
        let (throttle, held) = taken().await;
        let request = ask(&throttle, 1);
        drop(request);
        until(|| throttle.0.semaphore.snapshot().waiting == 0);
        // The only thread serves the next one.
        let next = ask(&throttle, 1);
        drop(held);
        drop(next.await.unwrap());
        assert_eq!(throttle.0.semaphore.snapshot().available, 1);
    }

    #[tokio::test]
    async fn a_request_that_was_dropped_in_the_queue_blocks_no_thread() {
        let (throttle, held) = taken().await;
        let first = ask(&throttle, 1);
        let queued = ask(&throttle, 1);
        // Everything is dropped except the answer.
        let State::Waiting { answer, left } = queued.into_inner().0 else {
            panic!("it has asked")
        };
        drop(left);
        drop(first);
        let refused = answer.await.unwrap().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Cancelled);
        drop(held);
    }

    #[tokio::test]
    async fn a_permit_that_nobody_takes_goes_back() {
        let (throttle, held) = taken().await;
        let request = ask(&throttle, 1);
        drop(held);
        // The thread has the permit, or has handed it over.
        until(|| throttle.0.semaphore.snapshot().waiting == 0);
        drop(request);
        until(|| throttle.0.semaphore.snapshot().available == 1);
        drop(throttle.enter().await.unwrap());
    }

    #[tokio::test]
    async fn dropping_the_throttle_ends_its_threads_and_tells_those_who_wait() {
        let (throttle, threads) = CondvarThrottle::start(2).unwrap();
        let held = (
            throttle.enter().await.unwrap(),
            throttle.enter().await.unwrap(),
        );
        let waiting = [ask(&throttle, 1), ask(&throttle, 2), ask(&throttle, 2)];
        drop(throttle);
        for wait in waiting {
            assert_eq!(wait.await.unwrap_err().kind(), ErrorKind::Closed);
        }
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(held.0.semaphore().snapshot().available, 0, "still valid");
    }

    #[test]
    fn idle_threads_end_with_the_last_clone() {
        let (throttle, threads) = CondvarThrottle::start(3).unwrap();
        let clone = throttle.clone();
        drop(throttle);
        assert!(!clone.0.semaphore.is_closed());
        drop(clone);
        for thread in threads {
            thread.join().unwrap();
        }
    }
}
