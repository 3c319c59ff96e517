//! [`WaitQueue`]: the waiters of one limit in this process, first-in first-out.
//!
//! Replies are collected under the lock, and sent after it, because they wake callers.

use std::collections::VecDeque;
use std::ops::Deref;
use std::time::Instant;

use tokio::sync::oneshot;
use tollgate::AcquireError;

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
    pub(super) replies: Vec<(oneshot::Sender<Answer<P>>, Answer<P>)>,
}

/// The waiters can be looked at; only [`push`](WaitQueue::push) and [`answer`](WaitQueue::answer)
/// change them.
impl<R, P> Deref for WaitQueue<R, P> {
    type Target = VecDeque<Waiter<R, P>>;

    fn deref(&self) -> &Self::Target {
        &self.waiters
    }
}

impl<R, P> WaitQueue<R, P> {
    pub(super) fn new() -> Self {
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

    /// Visits all waiters in their order. Waiters that get an answer leave the queue.
    pub(crate) fn answer(
        &mut self,
        mut answer: impl FnMut(usize, &mut Waiter<R, P>) -> Option<Answer<P>>,
    ) {
        // All waiters move from the front to the back once, so their order stays.
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
