//! [`Wait`]: the wait of a caller for a limit on a server. All of `acquire`, `try_acquire` and
//! similar methods, of rate limits and of semaphores, use it.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::sync::oneshot;
use tollgate::{AcquireError, ErrorKind, Waiting};

use super::shared::{Limit, Shared};
use super::wait_queue::{Answer, Waiter};

pub(crate) struct Wait<L: Limit> {
    shared: Arc<Shared<L>>,
    pub(crate) cost: u64,
    /// The caller does not wait.
    pub(crate) tries: bool,
    progress: Progress<L::Permit>,
    /// The number with which this wait polls the driver, if it does.
    drives: Option<u64>,
}

enum Progress<P> {
    New,
    Queued(oneshot::Receiver<Answer<P>>),
    Over,
}

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
    /// Panics if it is polled again after completion.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Answer<L::Permit>> {
        if let Progress::New = self.progress {
            self.progress = Progress::Over;
            let permit = match L::take_cached(&self.shared, self.cost) {
                None => self.join()?,
                cached => cached,
            };
            if let Some(permit) = permit {
                return Poll::Ready(Ok(permit));
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

    /// Joins the queue, unless the call costs nothing.
    fn join(&mut self) -> Result<Option<L::Permit>, AcquireError> {
        let (shared, cost, tries) = (&self.shared, self.cost, self.tries);
        let mut state = shared.state();
        shared.check(state.closed, &state.own, cost)?;
        if cost == 0 {
            return Ok(Some(L::free_permit()));
        }
        let request = shared.limit.join(&state, self)?;
        shared.limit.stop_cached();
        let (answer, receiver) = oneshot::channel();
        state.queue.push(Waiter {
            cost,
            tries,
            deadline: Waiting::remaining_timeout()
                .and_then(|time| Instant::now().checked_add(time)),
            request,
            answer,
        });
        self.drives = shared.drive(state, true);
        self.progress = Progress::Queued(receiver);
        Ok(None)
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
            // The driver continues: other callers wait for it, and its grant for this caller is
            // returned.
            self.shared.hand_over(Some(number));
        }
    }
}

impl<L: Limit> fmt::Debug for Wait<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.fmt(f)
    }
}
