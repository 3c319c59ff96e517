//! Items of a stream, made into work and run as the throttle lets them in: what both adapters are.
//!
//! 1. At most one item waits outside: the next one is taken when it has been let in.
//! 2. Work is made of an item when it has been let in, and not before.
//! 3. A permit is held beside its work, and dropped when that is done, before its result is yielded.
//! 4. After a refusal nothing is taken any more, and the error comes when all that runs is done.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use futures_util::stream::{Fuse, FuturesUnordered, StreamExt};
use pin_project::pin_project;

use crate::error::AcquireError;
use crate::throttle::Throttle;
use crate::wait::Waiting;

/// The stream, who waits outside, and what runs.
#[pin_project]
pub(super) struct Limited<S: Stream, T: Throttle, W> {
    #[pin]
    stream: Fuse<S>,
    throttle: T,
    /// The item that waits to be let in.
    outside: Option<S::Item>,
    /// Its wait.
    #[pin]
    enter: Option<Waiting<T::Enter>>,
    running: FuturesUnordered<Running<W, T::Permit>>,
    /// Whether anybody can still be let in.
    open: bool,
    /// Why the throttle refused, until that has been told.
    refused: Option<AcquireError>,
}

/// Work on an item that was let in, and its permit. The work is dropped first, when it is done as well
/// as when it is given up. Both are `None` once it is done.
#[pin_project]
struct Running<W, P> {
    #[pin]
    work: Option<W>,
    permit: Option<P>,
}

impl<W: Future, P> Future for Running<W, P> {
    type Output = W::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<W::Output> {
        let mut this = self.project();
        let Some(work) = this.work.as_mut().as_pin_mut() else {
            panic!("polled again after it was ready");
        };
        let output = ready!(work.poll(context));
        this.work.set(None);
        *this.permit = None;
        Poll::Ready(output)
    }
}

impl<S: Stream, T: Throttle, W: Future> Limited<S, T, W> {
    pub(super) fn new(stream: S, throttle: T) -> Self {
        Self {
            stream: stream.fuse(),
            throttle,
            outside: None,
            enter: None,
            running: FuturesUnordered::new(),
            open: true,
            refused: None,
        }
    }

    /// The next result. `make` makes work of an item.
    pub(super) fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        make: &mut impl FnMut(S::Item) -> W,
    ) -> Poll<Option<Result<W::Output, AcquireError>>> {
        // In turns, so that a stream that always has more cannot keep what runs from going on.
        loop {
            let started = self.as_mut().start_next(context, make);
            let this = self.as_mut().project();
            match this.running.poll_next_unpin(context) {
                Poll::Ready(Some(output)) => return Poll::Ready(Some(Ok(output))),
                Poll::Ready(None) | Poll::Pending if started => {}
                Poll::Ready(None) if self.takes_no_more() => {
                    let refused = self.as_mut().project().refused.take();
                    return Poll::Ready(refused.map(Err));
                }
                Poll::Ready(None) | Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Starts work on one item, if there is one and the throttle lets it in; whether it has.
    fn start_next(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        make: &mut impl FnMut(S::Item) -> W,
    ) -> bool {
        if !self.open {
            return false;
        }
        let mut this = self.project();
        if this.outside.is_none() {
            let Poll::Ready(Some(item)) = this.stream.as_mut().poll_next(context) else {
                return false;
            };
            // Made before the item is kept: if it panics, nobody waits outside.
            let enter = this.throttle.enter();
            *this.outside = Some(item);
            this.enter.set(Some(enter));
        }
        let Some(enter) = this.enter.as_mut().as_pin_mut() else {
            return false;
        };
        let Poll::Ready(entered) = enter.poll(context) else {
            return false;
        };
        this.enter.set(None);
        match (entered, this.outside.take()) {
            (Ok(permit), Some(item)) => {
                let permit = Some(permit);
                let work = Some(make(item));
                this.running.push(Running { work, permit });
                true
            }
            (Ok(_), None) => unreachable!("a wait has its item beside it"),
            (Err(error), _) => {
                *this.open = false;
                *this.refused = Some(error);
                false
            }
        }
    }

    /// Whether nothing will be started any more.
    fn takes_no_more(&self) -> bool {
        let ended = self.stream.is_done() && self.outside.is_none();
        ended || !self.open
    }

    /// Whether the end has been told, or is all that is left to be told.
    pub(super) fn is_terminated(&self) -> bool {
        self.takes_no_more() && self.running.is_empty() && self.refused.is_none()
    }

    /// How many items are being worked on.
    pub(super) fn running(&self) -> usize {
        self.running.len()
    }
}
