//! The common part of all limits on a server: the waiters in this process, and the driver that
//! calls the server for them.
//!
//! Flow: [`Wait`] (the future of a caller) -> [`Shared`] (the state under a lock) -> [`WaitQueue`]
//! -> the driver (calls the server) -> [`Limit`] (the differences between a rate limit
//! and a semaphore).

mod driver_slot;
mod shared;

use std::collections::VecDeque;
use std::fmt;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::sync::oneshot;
use tollgate::wait::Waiting;
use tollgate::{AcquireError, ErrorKind};

pub(crate) use self::shared::{Limit, Next, Shared, State};

/// The wait of a caller for a limit on a server. The methods `acquire`, `try_acquire` and similar ones of
/// rate limits and semaphores use it.
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

// [`WaitQueue`]: the waiters of one limit in this process, first-in first-out.
//
// Replies are collected under the lock, and sent after it, because they wake callers.

pub(crate) type Answer<P> = Result<P, AcquireError>;

/// A caller in the queue. `R` is the limit's data about it, `P` is the permit.
pub(crate) struct Waiter<R, P> {
    pub(crate) cost: u64,
    /// The caller does not wait.
    pub(crate) tries: bool,
    /// The caller waits no longer than this.
    pub(crate) deadline: Option<Instant>,
    pub(crate) request: R,
    pub(crate) answer: oneshot::Sender<Answer<P>>,
}

pub(crate) struct WaitQueue<R, P> {
    waiters: VecDeque<Waiter<R, P>>,
    /// The sum of all costs.
    total: u128,
    /// Replies to be sent without the lock.
    pub(crate) replies: Vec<(oneshot::Sender<Answer<P>>, Answer<P>)>,
}

/// Other code can read the waiters; only the methods here change them.
impl<R, P> Deref for WaitQueue<R, P> {
    type Target = VecDeque<Waiter<R, P>>;

    fn deref(&self) -> &Self::Target {
        &self.waiters
    }
}

impl<R, P> WaitQueue<R, P> {
    pub(crate) fn new() -> Self {
        Self {
            waiters: VecDeque::new(),
            total: 0,
            replies: Vec::new(),
        }
    }

    pub(crate) fn total(&self) -> u128 {
        self.total
    }

    pub(crate) fn push(&mut self, waiter: Waiter<R, P>) {
        self.total += u128::from(waiter.cost);
        self.waiters.push_back(waiter);
    }

    /// Inserts a waiter that was [removed](Self::remove), at an index that is at most the number of waiters.
    pub(crate) fn insert(&mut self, index: usize, waiter: Waiter<R, P>) {
        self.total += u128::from(waiter.cost);
        self.waiters.insert(index, waiter);
    }

    /// Removes the waiter at an index, without an answer.
    pub(crate) fn remove(&mut self, index: usize) -> Option<Waiter<R, P>> {
        let waiter = self.waiters.remove(index)?;
        self.total -= u128::from(waiter.cost);
        Some(waiter)
    }

    /// Answers a waiter that was [removed](Self::remove).
    pub(crate) fn reply(&mut self, waiter: Waiter<R, P>, answer: Answer<P>) {
        self.replies.push((waiter.answer, answer));
    }

    /// Returns the first waiters, in their order.
    pub(crate) fn first(&mut self, count: usize) -> impl Iterator<Item = &mut Waiter<R, P>> {
        self.waiters.iter_mut().take(count)
    }

    /// Visits the first waiters. Waiters that get an answer leave the queue.
    pub(crate) fn answer_first(
        &mut self,
        count: usize,
        mut answer: impl FnMut(&mut Waiter<R, P>) -> Option<Answer<P>>,
    ) {
        let mut stay = Vec::new();
        for mut waiter in self.waiters.drain(..count.min(self.waiters.len())) {
            match answer(&mut waiter) {
                Some(answer) => {
                    self.total -= u128::from(waiter.cost);
                    self.replies.push((waiter.answer, answer));
                }
                None => stay.push(waiter),
            }
        }
        for waiter in stay.into_iter().rev() {
            self.waiters.push_front(waiter);
        }
    }

    /// Visits all waiters in their order. Waiters that get an answer leave the queue.
    pub(crate) fn answer(
        &mut self,
        mut answer: impl FnMut(usize, &mut Waiter<R, P>) -> Option<Answer<P>>,
    ) {
        // All waiters move from the front to the back once, so their order is kept.
        for index in 0..self.waiters.len() {
            let Some(mut waiter) = self.waiters.pop_front() else {
                return;
            };
            match answer(index, &mut waiter) {
                Some(answer) => {
                    self.total -= u128::from(waiter.cost);
                    self.replies.push((waiter.answer, answer));
                }
                None => self.waiters.push_back(waiter),
            }
        }
    }

    /// Rejects the first `count` waiters.
    pub(crate) fn fail(&mut self, count: usize, error: &AcquireError) {
        self.answer(|index, _| (index < count).then(|| Err(error.clone())));
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn push(queue: &mut WaitQueue<(), u64>, cost: u64) -> oneshot::Receiver<Answer<u64>> {
        let (answer, receiver) = oneshot::channel();
        queue.push(Waiter {
            cost,
            tries: false,
            deadline: None,
            request: (),
            answer,
        });
        receiver
    }

    #[test]
    fn answer_of_some_keeps_the_order_and_the_total_of_the_others() {
        let mut queue = WaitQueue::new();
        let mut receivers = [1, 2, 3, 4].map(|cost| push(&mut queue, cost));
        queue.answer(|index, waiter| (index % 2 == 1).then_some(Ok(waiter.cost)));
        assert_eq!(
            queue.iter().map(|waiter| waiter.cost).collect::<Vec<_>>(),
            [1, 3]
        );
        assert_eq!((queue.len(), queue.total()), (2, 4));
        assert!(receivers[1].try_recv().is_err(), "not while it is locked");
        for (sender, answer) in std::mem::take(&mut queue.replies) {
            sender.send(answer).unwrap();
        }
        assert_eq!(receivers[1].try_recv().unwrap().unwrap(), 2);
        assert_eq!(receivers[3].try_recv().unwrap().unwrap(), 4);
    }
}
