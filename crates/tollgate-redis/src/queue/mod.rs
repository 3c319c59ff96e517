//! The common part of all limits on a server: the waiters in this process, and the driver that
//! calls the server for them.
//!
//! Flow: [`Wait`] (the future of a caller) -> [`Shared`] (the state under a lock) -> [`WaitQueue`]
//! -> the [`driver`] (calls the server) -> [`Limit`] (the differences between a rate limit
//! and a semaphore).

mod driver;
mod driver_slot;
mod shared;
mod statistics;

use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::sync::oneshot;
use tollgate::wait::Waiting;
use tollgate::{AcquireError, ErrorKind};

pub(crate) use self::shared::{Limit, Next, Running, Shared, State};
pub use self::statistics::LimitStatistics;
pub(crate) use self::statistics::{LimitCounters, Origin};

/// The wait of a caller for a limit on a server. The methods `acquire`, `try_acquire` and similar ones of
/// rate limits and semaphores use it.
pub(crate) struct Wait<L: Limit> {
    shared: Arc<Shared<L>>,
    pub(crate) cost: u64,
    /// The caller needs an answer now.
    pub(crate) tries: bool,
    pub(crate) brought: L::Brought,
    /// The place of the caller, if it has had one in the queue.
    pub(crate) place: Option<u64>,
    progress: Progress<L::Permit>,
    /// The number with which this wait polls the driver, if it does.
    drives: Option<u64>,
}

enum Progress<P> {
    New,
    /// With the number in the queue.
    Queued(oneshot::Receiver<Answer<P>>, u64),
    Over,
}

impl<L: Limit> Wait<L> {
    pub(crate) fn new(shared: &Arc<Shared<L>>, cost: u64, tries: bool) -> Self {
        let mut wait = Self::bringing(shared, cost, L::Brought::default());
        wait.tries = tries;
        wait
    }

    /// The wait of a caller that brings something along.
    pub(crate) fn bringing(shared: &Arc<Shared<L>>, cost: u64, brought: L::Brought) -> Self {
        Self {
            shared: Arc::clone(shared),
            cost,
            tries: false,
            brought,
            place: None,
            progress: Progress::New,
            drives: None,
        }
    }

    pub(crate) fn limit(&self) -> &L {
        &self.shared.limit
    }

    pub(crate) fn now(&self) -> Instant {
        self.shared.now()
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
        let Progress::Queued(receiver, _) = &mut self.progress else {
            panic!("polled again after it was ready");
        };
        let Poll::Ready(answer) = Pin::new(receiver).poll(context) else {
            self.shared.store.time().report();
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
        let number = self.place.unwrap_or_else(|| state.queue.next_number());
        state.queue.insert(Waiter {
            number,
            cost,
            tries,
            deadline: Waiting::remaining_timeout().and_then(|time| shared.now().checked_add(time)),
            request,
            answer,
        });
        self.place = Some(number);
        self.drives = shared.drive(state, true);
        self.progress = Progress::Queued(receiver, number);
        Ok(None)
    }
}

impl<L: Limit> Drop for Wait<L> {
    fn drop(&mut self) {
        if let Progress::Queued(receiver, number) = &mut self.progress {
            receiver.close();
            match receiver.try_recv() {
                Ok(Ok(permit)) => L::give_back(&self.shared, vec![permit]),
                Ok(Err(_)) => {}
                // The waiters behind it may move up.
                Err(_) => self.shared.leave(*number),
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
// 1. A waiter has a number, which is its place: one that was taken out returns to it. So no step depends on the
//    number of waiters: each visits a bounded number of those in front, and those that try, which it answers.
// 2. A waiter that leaves stays until the driver takes it out, so that the waiters of a call keep their indices.
// 3. Replies are collected under the lock, and sent after it, because they wake callers.

pub(crate) type Answer<P> = Result<P, AcquireError>;

/// The number of waiters whose deadlines a denial or a failure is compared with. Those behind them come to the
/// front, or their time passes.
pub(crate) const MOST_VISITED: usize = 1024;

/// A caller in the queue. `R` is the limit's data about it, `P` is the permit.
pub(crate) struct Waiter<R, P> {
    /// Its place, given by [`next_number`](WaitQueue::next_number).
    pub(crate) number: u64,
    pub(crate) cost: u64,
    /// The caller needs an answer now.
    pub(crate) tries: bool,
    /// The caller waits no longer than this.
    pub(crate) deadline: Option<Instant>,
    pub(crate) request: R,
    pub(crate) answer: oneshot::Sender<Answer<P>>,
}

pub(crate) struct WaitQueue<R, P> {
    /// By their numbers.
    waiters: BTreeMap<u64, Waiter<R, P>>,
    /// The numbers of those that try.
    tries: BTreeSet<u64>,
    /// The number of the next waiter.
    next: u64,
    /// The sum of all costs.
    total: u128,
    /// The numbers of callers that have left since the driver last looked.
    left: Vec<u64>,
    /// The number of those that do not try.
    leaving: usize,
    /// Replies to be sent without the lock.
    pub(crate) replies: Vec<(oneshot::Sender<Answer<P>>, Answer<P>)>,
}

impl<R, P> WaitQueue<R, P> {
    pub(crate) fn new() -> Self {
        Self {
            waiters: BTreeMap::new(),
            tries: BTreeSet::new(),
            next: 0,
            total: 0,
            left: Vec::new(),
            leaving: 0,
            replies: Vec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiters.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    pub(crate) fn front(&self) -> Option<&Waiter<R, P>> {
        self.waiters.values().next()
    }

    pub(crate) fn iter(&self) -> btree_map::Values<'_, u64, Waiter<R, P>> {
        self.waiters.values()
    }

    pub(crate) fn total(&self) -> u128 {
        self.total
    }

    /// Returns whether a caller tries.
    pub(crate) fn has_tries(&self) -> bool {
        !self.tries.is_empty()
    }

    /// Returns the number of callers that try.
    pub(crate) fn tried(&self) -> usize {
        self.tries.len()
    }

    /// Returns the callers that try, in their order.
    pub(crate) fn tries(&self) -> impl Iterator<Item = &Waiter<R, P>> {
        self.tries
            .iter()
            .filter_map(|number| self.waiters.get(number))
    }

    /// Records that a caller has left. Its waiter stays until the driver takes it out.
    fn leave(&mut self, number: u64) {
        self.left.push(number);
        self.leaving += usize::from(!self.tries.contains(&number));
    }

    fn take_left(&mut self) -> Vec<u64> {
        self.leaving = 0;
        std::mem::take(&mut self.left)
    }

    /// Returns the number of callers that have left and did not try, and whose waiters may still be counted.
    pub(crate) fn leaving(&self) -> usize {
        self.leaving
    }

    /// Returns the number of a new waiter, which comes behind all others.
    pub(crate) fn next_number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }

    /// Puts a waiter to its place.
    pub(crate) fn insert(&mut self, waiter: Waiter<R, P>) {
        self.total += u128::from(waiter.cost);
        if waiter.tries {
            self.tries.insert(waiter.number);
        }
        self.waiters.insert(waiter.number, waiter);
    }

    /// Removes the waiter with this number, without an answer.
    pub(crate) fn remove(&mut self, number: u64) -> Option<Waiter<R, P>> {
        let waiter = self.waiters.remove(&number)?;
        self.total -= u128::from(waiter.cost);
        if waiter.tries {
            self.tries.remove(&number);
        }
        Some(waiter)
    }

    /// Answers a waiter that was [removed](Self::remove).
    pub(crate) fn reply(&mut self, waiter: Waiter<R, P>, answer: Answer<P>) {
        self.replies.push((waiter.answer, answer));
    }

    /// Returns the first waiters, in their order.
    pub(crate) fn first(&mut self, count: usize) -> impl Iterator<Item = &mut Waiter<R, P>> {
        self.waiters.values_mut().take(count)
    }

    /// Visits all waiters in their order. Waiters that get an answer leave the queue.
    pub(crate) fn answer(
        &mut self,
        answer: impl FnMut(usize, &mut Waiter<R, P>) -> Option<Answer<P>>,
    ) {
        self.answer_first(usize::MAX, answer);
    }

    /// Visits the first `count` waiters in their order. Waiters that get an answer leave the queue.
    pub(crate) fn answer_first(
        &mut self,
        count: usize,
        mut answer: impl FnMut(usize, &mut Waiter<R, P>) -> Option<Answer<P>>,
    ) {
        let waiters = self.waiters.values_mut().take(count).enumerate();
        let answers = waiters.filter_map(|(index, it)| Some((it.number, answer(index, it)?)));
        for (number, answer) in answers.collect::<Vec<_>>() {
            if let Some(waiter) = self.remove(number) {
                self.reply(waiter, answer);
            }
        }
    }

    /// Answers waiters in their order, until one gets no answer.
    pub(crate) fn answer_until(
        &mut self,
        mut answer: impl FnMut(&mut Waiter<R, P>) -> Option<Answer<P>>,
    ) {
        while let Some((&number, waiter)) = self.waiters.iter_mut().next()
            && let Some(answer) = answer(waiter)
            && let Some(waiter) = self.remove(number)
        {
            self.reply(waiter, answer);
        }
    }

    /// Answers all callers that try.
    pub(crate) fn answer_tries(&mut self, answer: impl FnMut(&Waiter<R, P>) -> Answer<P>) {
        self.answer_tries_from(0, answer);
    }

    /// Answers the callers that try and whose number is at least this one.
    pub(crate) fn answer_tries_from(
        &mut self,
        number: u64,
        mut answer: impl FnMut(&Waiter<R, P>) -> Answer<P>,
    ) {
        for number in self.tries.split_off(&number) {
            if let Some(waiter) = self.remove(number) {
                let answer = answer(&waiter);
                self.reply(waiter, answer);
            }
        }
    }

    /// Rejects the last `count` waiters, except those that try.
    pub(crate) fn fail_last(&mut self, count: usize, error: &AcquireError) {
        let last = self.waiters.values().rev().filter(|waiter| !waiter.tries);
        let last: Vec<u64> = last.take(count).map(|waiter| waiter.number).collect();
        for number in last {
            if let Some(waiter) = self.remove(number) {
                self.reply(waiter, Err(error.clone()));
            }
        }
    }

    /// Rejects the first `count` waiters.
    pub(crate) fn fail(&mut self, count: usize, error: &AcquireError) {
        self.answer_first(count, |_, _| Some(Err(error.clone())));
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn push(queue: &mut WaitQueue<(), u64>, cost: u64) -> oneshot::Receiver<Answer<u64>> {
        let (answer, receiver) = oneshot::channel();
        let number = queue.next_number();
        queue.insert(Waiter {
            number,
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

    #[test]
    fn insert_of_a_removed_waiter_returns_it_to_its_place() {
        let mut queue = WaitQueue::new();
        let _receivers = [1, 2, 3].map(|cost| push(&mut queue, cost));
        let second = queue.remove(1).unwrap();
        assert!(queue.remove(1).is_none());
        assert_eq!((queue.len(), queue.total()), (2, 4));
        queue.insert(second);
        let costs = queue.iter().map(|waiter| waiter.cost);
        assert_eq!(costs.collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn answer_tries_answers_no_other_waiter() {
        let mut queue = WaitQueue::new();
        let _receivers = [1, 2, 3, 4].map(|cost| push(&mut queue, cost));
        for number in [1, 3] {
            let mut waiter = queue.remove(number).unwrap();
            waiter.tries = true;
            queue.insert(waiter);
        }
        assert!(queue.has_tries());
        queue.answer_tries(|waiter| Ok(waiter.cost));
        let answers: Vec<_> = queue
            .replies
            .iter()
            .map(|(_, answer)| answer.as_ref().unwrap())
            .collect();
        assert_eq!(answers, [&2, &4]);
        assert!(!queue.has_tries());
        queue.fail_last(1, &AcquireError::new(ErrorKind::QueueFull));
        let costs = queue.iter().map(|waiter| waiter.cost);
        assert_eq!(costs.collect::<Vec<_>>(), [1]);
    }

    /// They are callers of a set that have charges.
    #[test]
    fn fail_last_passes_those_that_try() {
        let mut queue = WaitQueue::new();
        let _receivers = [1, 2, 3, 4].map(|cost| push(&mut queue, cost));
        for number in [0, 3] {
            let mut waiter = queue.remove(number).unwrap();
            waiter.tries = true;
            queue.insert(waiter);
        }
        let full = AcquireError::new(ErrorKind::QueueFull);
        queue.fail_last(1, &full);
        let costs = |queue: &WaitQueue<(), u64>| queue.iter().map(|it| it.cost).collect::<Vec<_>>();
        assert_eq!(costs(&queue), [1, 2, 4]);
        queue.fail_last(usize::MAX, &full);
        assert_eq!(costs(&queue), [1, 4]);
    }
}
