//! [`Wait`]: how a caller waits for a limit on a server. It is the only way there is: `acquire`,
//! `try_acquire` and their like, of rate limits and of semaphores.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::sync::oneshot;
use tollgate::throttle::budget;
use tollgate::{AcquireError, ErrorKind};

use super::shared::{Limit, Newcomer, Shared};
use super::wait_queue::{Answer, Waiter};

pub(crate) struct Wait<L: Limit> {
    shared: Arc<Shared<L>>,
    cost: u64,
    tries: bool,
    progress: Progress<L::Permit>,
    /// The number by which this polls the driver, if it does.
    drives: Option<u64>,
}

enum Progress<P> {
    New,
    Queued(oneshot::Receiver<Answer<P>>),
    Over,
}

/// A place in the queue, or the answer that is known already.
type Joined<P> = Result<oneshot::Receiver<Answer<P>>, Answer<P>>;

impl<L: Limit> Wait<L> {
    pub(crate) fn new(shared: &Arc<Shared<L>>, cost: u64, tries: bool) -> Self {
        Self {
            shared: Arc::clone(shared),
            cost,
            tries,
            progress: Progress::New,
            drives: None,
        }
    }

    /// # Panics
    ///
    /// If it is polled again after it was ready.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Answer<L::Permit>> {
        if let Progress::New = self.progress {
            self.progress = Progress::Over;
            if let Some(permit) = L::take_cached(&self.shared, self.cost) {
                return Poll::Ready(Ok(permit));
            }
            match self.join() {
                Ok(receiver) => self.progress = Progress::Queued(receiver),
                Err(answer) => return Poll::Ready(answer),
            }
        }
        if let Some(number) = self.drives
            && !self.shared.poll_driver(number, context)
        {
            self.drives = None;
        }
        let Progress::Queued(receiver) = &mut self.progress else {
            panic!("polled again after it was ready");
        };
        let Poll::Ready(answer) = Pin::new(receiver).poll(context) else {
            return Poll::Pending;
        };
        self.progress = Progress::Over;
        Poll::Ready(answer.unwrap_or(Err(AcquireError::new(ErrorKind::Closed))))
    }

    fn join(&mut self) -> Joined<L::Permit> {
        let (shared, cost, tries) = (&self.shared, self.cost, self.tries);
        let mut state = shared.state();
        if state.closed {
            return Err(Err(AcquireError::new(ErrorKind::Closed)));
        }
        if cost == 0 {
            return Err(Ok(L::free_permit()));
        }
        let capacity = shared.limit.capacity(&state.own);
        if cost > capacity {
            return Err(Err(AcquireError::exceeds_capacity(capacity)));
        }
        let newcomer = Newcomer {
            cost,
            tries,
            timeout: budget(),
            now: Instant::now(),
        };
        let request = shared.limit.join(&state, newcomer).map_err(Err)?;
        let (answer, receiver) = oneshot::channel();
        state.queue.push(Waiter {
            cost,
            tries,
            deadline: newcomer.timeout.and_then(|it| newcomer.now.checked_add(it)),
            request,
            answer,
        });
        self.drives = shared.drive(state, true);
        Ok(receiver)
    }
}

impl<L: Limit> Drop for Wait<L> {
    fn drop(&mut self) {
        if let Progress::Queued(receiver) = &mut self.progress {
            receiver.close();
            match receiver.try_recv() {
                Ok(Ok(permit)) => L::give_back(&self.shared, vec![permit]),
                Ok(Err(_)) => {}
                // The waiters behind it may move up.
                Err(_) => self.shared.notify(),
            }
        }
        if let Some(number) = self.drives {
            // The driver goes on: others wait for it, and what it is granted goes back.
            self.shared.hand_over(number);
        }
    }
}

impl<L: Limit> fmt::Debug for Wait<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait")
            .field("shared", &self.shared)
            .field("cost", &self.cost)
            .finish_non_exhaustive()
    }
}

/// Implements a public future, of one field `Wait`, with the combinators that all waits have.
macro_rules! wait_future {
    ($future:ty, $permit:ty) => {
        impl $future {
            /// Ends the wait when the token is cancelled.
            ///
            /// A token that is cancelled already wins at once. A permit that was granted by then goes
            /// back.
            ///
            /// # Errors
            ///
            /// `Cancelled`; otherwise as awaiting it.
            pub fn cancel_on<C>(self, token: C) -> tollgate::CancelOn<Self, C>
            where
                C: std::borrow::Borrow<tokio_util::sync::CancellationToken>,
            {
                tollgate::CancelOn::new(self, token)
            }

            /// Ends the wait after a time, and at once if it is known that the wait would be longer. A
            /// permit that was granted by then goes back.
            ///
            /// # Errors
            ///
            /// `TimedOut`, with a [`retry_after`](tollgate::AcquireError::retry_after) if it was
            /// refused at once; otherwise as awaiting it.
            pub fn timeout(self, duration: std::time::Duration) -> tollgate::Timeout<Self> {
                tollgate::Timeout::new(self, duration)
            }

            /// Blocks the thread until the answer is there. Do not use it inside asynchronous code.
            ///
            /// # Errors
            ///
            /// As awaiting it.
            pub fn wait(self) -> Result<$permit, tollgate::AcquireError> {
                tollgate::Timeout::new(self, std::time::Duration::MAX).wait()
            }
        }

        impl std::future::Future for $future {
            type Output = Result<$permit, tollgate::AcquireError>;

            fn poll(
                mut self: std::pin::Pin<&mut Self>,
                context: &mut std::task::Context<'_>,
            ) -> std::task::Poll<Self::Output> {
                self.0.poll(context)
            }
        }
    };
}
pub(crate) use wait_future;
