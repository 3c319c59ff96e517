//! Tests streams behind a throttle: taken items, started items, yielded results, and returned permits.

mod scenarios;
mod throttles;
mod ticks;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures::{FutureExt, Stream, StreamExt};
use tollgate::Throttle;
use tollgate_io::stream::{BufferLimited, LimitStreamExt};

use crate::support::Counter;
use crate::support::scripted::Log;

// A stream and work that the test controls by hand, and a log of the events.
//
// In the log, for item 3: `take 3` (it was taken from the stream), `make 3` (its work was created),
// `run 3` (the work was polled for the first time), `end 3` (the work finished), `drop 3` (the work was
// dropped); and `no more` (the stream ended).

/// The state that the stream and the work share with the test.
#[derive(Clone, Default)]
struct Jobs {
    log: Log,
    state: Rc<RefCell<State>>,
}

#[derive(Default)]
struct State {
    items: VecDeque<usize>,
    ended: bool,
    source_polls: usize,
    source_waker: Option<Waker>,
    done: HashSet<usize>,
    work_wakers: HashMap<usize, Waker>,
    /// The results of work that yields nothing.
    results: Vec<usize>,
    /// The item whose work panics, and the one whose work cannot be created.
    panics: Option<usize>,
    fails_to_make: Option<usize>,
}

impl Jobs {
    fn note(&self, event: &str, item: usize) {
        self.log.add(format!("{event} {item}"));
    }

    /// Returns how often the stream was polled.
    fn source_polls(&self) -> usize {
        self.state.borrow().source_polls
    }

    fn wake(waker: Option<Waker>) {
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Adds these items to the stream.
    fn supply(&self, items: impl IntoIterator<Item = usize>) {
        let waker = {
            let mut state = self.state.borrow_mut();
            state.items.extend(items);
            state.source_waker.take()
        };
        Self::wake(waker);
    }

    /// Ends the stream after its current items.
    fn end(&self) {
        let waker = {
            let mut state = self.state.borrow_mut();
            state.ended = true;
            state.source_waker.take()
        };
        Self::wake(waker);
    }

    /// Finishes the work on an item at its next poll.
    fn finish(&self, item: usize) {
        let waker = {
            let mut state = self.state.borrow_mut();
            state.done.insert(item);
            state.work_wakers.remove(&item)
        };
        Self::wake(waker);
    }

    /// Returns a stream with these items, and no end yet.
    fn source(&self, items: impl IntoIterator<Item = usize>) -> Source {
        self.supply(items);
        Source(self.clone())
    }

    /// Returns a stream that consists of these items.
    fn whole(&self, items: impl IntoIterator<Item = usize>) -> Source {
        self.end();
        self.source(items)
    }

    /// Creates the work of an item, which yields the item when it is finished.
    fn work(&self, item: usize) -> Work {
        assert_ne!(self.state.borrow().fails_to_make, Some(item), "on purpose");
        self.note("make", item);
        Work {
            jobs: self.clone(),
            item,
            ran: false,
        }
    }

    /// Returns the results of the work on each item of a stream, behind a throttle.
    fn limited<T: Throttle>(
        &self,
        source: Source,
        throttle: T,
    ) -> Polled<BufferLimited<impl Stream<Item = Work> + use<T>, T>> {
        let jobs = self.clone();
        Polled::new(
            source
                .map(move |item| jobs.work(item))
                .buffer_limited(throttle),
        )
    }

    /// Creates the same work, which yields nothing.
    fn silent_work(&self, item: usize) -> impl Future<Output = ()> + use<> {
        self.work(item).map(|_| ())
    }
}

/// The stream of items.
struct Source(Jobs);

impl Stream for Source {
    type Item = usize;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<usize>> {
        let jobs = &self.0;
        jobs.state.borrow_mut().source_polls += 1;
        let mut state = jobs.state.borrow_mut();
        if let Some(item) = state.items.pop_front() {
            jobs.note("take", item);
            return Poll::Ready(Some(item));
        }
        if state.ended {
            jobs.log.add("no more");
            return Poll::Ready(None);
        }
        state.source_waker = Some(context.waker().clone());
        Poll::Pending
    }
}

/// The work on an item.
struct Work {
    jobs: Jobs,
    item: usize,
    ran: bool,
}

impl Future for Work {
    type Output = usize;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<usize> {
        if !self.ran {
            self.ran = true;
            self.jobs.note("run", self.item);
        }
        let mut state = self.jobs.state.borrow_mut();
        assert_ne!(state.panics, Some(self.item), "on purpose");
        if state.done.contains(&self.item) {
            self.jobs.note("end", self.item);
            return Poll::Ready(self.item);
        }
        state.work_wakers.insert(self.item, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.jobs.note("drop", self.item);
    }
}

/// A stream that is polled by hand, with a count of its wakes.
struct Polled<S> {
    stream: Pin<Box<S>>,
    counter: Arc<Counter>,
}

impl<S: Stream> Polled<S> {
    fn new(stream: S) -> Self {
        Self {
            stream: Box::pin(stream),
            counter: Arc::default(),
        }
    }

    fn poll(&mut self) -> Poll<Option<S::Item>> {
        let waker = Waker::from(Arc::clone(&self.counter));
        self.stream
            .as_mut()
            .poll_next(&mut Context::from_waker(&waker))
    }

    /// Returns the next yield, which must be ready.
    #[track_caller]
    fn next(&mut self) -> Option<S::Item> {
        match self.poll() {
            Poll::Ready(item) => item,
            Poll::Pending => panic!("still waiting"),
        }
    }

    /// Polls until it waits and has not woken itself meanwhile.
    #[track_caller]
    fn assert_pending(&mut self) {
        loop {
            let seen = self.wakes();
            assert!(self.poll().is_pending(), "it is ready");
            if self.wakes() == seen {
                break;
            }
        }
    }

    /// Returns how often it was woken.
    fn wakes(&self) -> usize {
        self.counter.count()
    }
}
