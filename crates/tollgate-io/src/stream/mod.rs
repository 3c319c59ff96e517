//! Limits streams by a throttle: any [`Throttle`] limits how many items of a stream
//! are processed at once, or per time. It needs the feature `stream`.
//!
//! [`Ticks`] does the reverse and turns a rate limiter into a stream. [`LimitSinkExt`] limits the items of a sink.
//!
//! [`LimitStreamExt`] has the methods. Their common behavior:
//!
//! - Items start in the order of the stream, each when the throttle admits it. An item holds its permit
//!   until its future is done. Results come in the order in which the futures finish.
//! - *Back-pressure*: the next item is taken from the stream after the admission of the previous
//!   one, so at most one item waits for the throttle.
//! - All work happens in the task that polls. While that task does not poll, no item is taken, and
//!   running work makes no progress and keeps its permits. The waiting item may be granted its
//!   permit meanwhile, and keeps it too. So a task that waits for the same throttle between two
//!   results may deadlock with itself.
//! - *Cooperation*: after 64 started items in one poll, or 64 results of `for_each_limited`, the adapter
//!   wakes its task and yields. So a token, a timeout and other tasks are noticed even while every item
//!   is ready.
//! - When the throttle rejects an item, for example because it was closed, that item is dropped and
//!   no further item is taken. Running work finishes first, and then the error is returned. The throttle can
//!   reject only items: while the stream has none, a closed throttle goes unnoticed.

mod item;
mod sink;
mod ticks;

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use futures_util::stream::{Fuse, FusedStream, FuturesUnordered, StreamExt};
use pin_project::pin_project;
use tollgate::throttle::Weighted;
use tollgate::wait::Waiting;
use tollgate::{AcquireError, Throttle};

use self::item::{ByCost, EnterItem};
pub use self::sink::{LimitSinkExt, LimitedSink, SinkError};
pub use self::ticks::{ThrottleStreamExt, Ticks};

// [`LimitStreamExt`] with [`BufferLimited`] and [`ForEachLimited`], and their core, [`Limited`]. The core takes
// items from a stream, starts the work of each item when the throttle admits it, and runs that work.
//
// 1. At most one item waits for the throttle: the next item is taken after the admission of the
//    previous one.
// 2. The work of an item is created only after its admission.
// 3. A permit is held beside its work, and dropped when the work is done, before its result is
//    yielded.
// 4. After a rejection no more items are taken. The error is yielded when all running work is done.
// 5. One poll of an adapter has at most [`MAX_TURNS`] turns; each turn starts at most one item and
//    yields at most one result. Then the adapter wakes its task and yields, so a token, a timeout and
//    other tasks get their turn while everything here is ready.

/// The maximum number of turns in one poll of an adapter.
const MAX_TURNS: u32 = 64;

/// Extension methods that put a stream behind a throttle. See [the module](crate::stream) for their
/// common behavior.
#[doc(alias = "StreamRateLimitExt")]
pub trait LimitStreamExt: Stream {
    /// Runs `work` for each item. The throttle limits how many items run at once, or per time.
    ///
    /// It is like `for_each_concurrent` of `futures`, with any throttle in place of a number. Items start
    /// in the order of the stream and finish in any order.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops all running work, together with its permits, and the waiting item.
    /// `cancel_on` and [`timeout`](Waiting::timeout) do the same. To stop without losing items, end
    /// the stream, for example with `stream.take_until(token.cancelled())` of `futures`: the items
    /// that it has already yielded, including the waiting one, are still processed.
    ///
    /// # Errors
    ///
    /// Returns the error of the throttle when it rejects an item. No further item is taken after that, and
    /// all running work finishes first. The rejected item is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::cell::Cell;
    ///
    /// use futures::stream;
    /// use tollgate::Semaphore;
    /// use tollgate_io::stream::LimitStreamExt;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let slots = Semaphore::new(2);
    /// let sum = Cell::new(0);
    /// stream::iter(1..=10)
    ///     .for_each_limited(&slots, |n| {
    ///         let sum = &sum;
    ///         async move { sum.set(sum.get() + n) }
    ///     })
    ///     .await?;
    /// assert_eq!(sum.get(), 55);
    /// # Ok(())
    /// # }
    /// ```
    fn for_each_limited<T, F, W>(
        self,
        throttle: T,
        work: F,
    ) -> Waiting<ForEachLimited<Self, T, F, W>>
    where
        Self: Sized,
        T: Throttle,
        F: FnMut(Self::Item) -> W,
        W: Future<Output = ()>,
    {
        let limited = Limited::new(self, throttle);
        Waiting::new(ForEachLimited { limited, work })
    }

    /// Does the same as [`for_each_limited`](Self::for_each_limited) with a cost for each item: of bytes, of rows, of
    /// tokens. `cost` is called once for each item, before it waits.
    ///
    /// # Cancel safety
    ///
    /// The same as for [`for_each_limited`](Self::for_each_limited).
    ///
    /// # Errors
    ///
    /// The same as for [`for_each_limited`](Self::for_each_limited). An item above the
    /// [largest amount](Weighted::max_units) of the throttle is refused with
    /// [`ExceedsCapacity`](tollgate::ErrorKind::ExceedsCapacity).
    ///
    /// # Examples
    ///
    /// ```
    /// use futures::stream;
    /// use tollgate::throttle::per_call;
    /// use tollgate::{Semaphore, all};
    /// use tollgate_io::stream::LimitStreamExt;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// // At most 4 at once, and 100 bytes of them.
    /// let (slots, memory) = (Semaphore::new(4), Semaphore::new(100));
    /// let limits = all((per_call(&slots), &memory)).weighted();
    /// stream::iter(["a small one", "a larger one, which takes more of the budget"])
    ///     .for_each_limited_by(limits, |text| text.len() as u64, async |text| println!("{text}"))
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    fn for_each_limited_by<T, C, F, W>(
        self,
        throttle: T,
        cost: C,
        work: F,
    ) -> Waiting<ForEachLimited<Self, ByCost<T, C>, F, W>>
    where
        Self: Sized,
        T: Weighted,
        C: FnMut(&Self::Item) -> u64,
        F: FnMut(Self::Item) -> W,
        W: Future<Output = ()>,
    {
        let limited = Limited::new(self, ByCost::new(throttle, cost));
        Waiting::new(ForEachLimited { limited, work })
    }

    /// Runs the futures of the stream and yields their results. The throttle limits how many run at
    /// once, or per time.
    ///
    /// It is like `buffer_unordered` of `futures`, with any throttle in place of a number. Results come
    /// in the order in which the futures finish, so a slow one delays no other.
    ///
    /// # Cancel safety
    ///
    /// Dropping a wait for the next result loses nothing. Dropping the stream drops all running
    /// futures, together with their permits, and the waiting one. To stop without losing futures,
    /// end the inner stream, for example with `stream.take_until(token.cancelled())` of `futures`.
    ///
    /// # Errors
    ///
    /// Yields the error of the throttle when it rejects a future. No further future is taken after that,
    /// the results of the running ones come first, and the error is the last item. The rejected
    /// future is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use futures::{StreamExt, TryStreamExt, stream};
    /// use tollgate::Semaphore;
    /// use tollgate_io::stream::LimitStreamExt;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let slots = Semaphore::new(2);
    /// let mut squares: Vec<_> = stream::iter(1..=5)
    ///     .map(|n| async move { n * n })
    ///     .buffer_limited(&slots)
    ///     .try_collect()
    ///     .await?;
    /// squares.sort();
    /// assert_eq!(squares, [1, 4, 9, 16, 25]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "ratelimit_stream")]
    #[doc(alias = "ratelimit_stream_with_jitter")]
    fn buffer_limited<T>(self, throttle: T) -> BufferLimited<Self, T>
    where
        Self: Stream<Item: Future> + Sized,
        T: Throttle,
    {
        BufferLimited(Limited::new(self, throttle))
    }
}

impl<S: Stream + ?Sized> LimitStreamExt for S {}

/// The stream returned by [`LimitStreamExt::buffer_limited`].
#[doc(alias = "RatelimitedStream")]
#[pin_project]
#[must_use = "a stream does nothing unless it is polled"]
pub struct BufferLimited<S: Stream<Item: Future>, T: Throttle>(#[pin] Limited<S, T, S::Item>);

impl<S: Stream<Item: Future>, T: Throttle> Stream for BufferLimited<S, T> {
    type Item = Result<<S::Item as Future>::Output, AcquireError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut turns = MAX_TURNS;
        let limited = self.project().0;
        limited.poll_next(context, &mut |future| future, &mut turns)
    }
}

impl<S: Stream<Item: Future>, T: Throttle> FusedStream for BufferLimited<S, T> {
    fn is_terminated(&self) -> bool {
        self.0.is_terminated()
    }
}

impl<S: Stream<Item: Future>, T: Throttle> fmt::Debug for BufferLimited<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferLimited")
            .field("running", &self.0.running.len())
            .finish_non_exhaustive()
    }
}

/// The future returned by [`LimitStreamExt::for_each_limited`] and
/// [`for_each_limited_by`](LimitStreamExt::for_each_limited_by).
#[pin_project]
#[must_use = "a future does nothing unless it is awaited"]
pub struct ForEachLimited<S: Stream, T: EnterItem<S::Item>, F, W> {
    #[pin]
    limited: Limited<S, T, W>,
    work: F,
}

impl<S, T, F, W> Future for ForEachLimited<S, T, F, W>
where
    S: Stream,
    T: EnterItem<S::Item>,
    F: FnMut(S::Item) -> W,
    W: Future<Output = ()>,
{
    type Output = Result<(), AcquireError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let mut turns = MAX_TURNS;
        loop {
            let limited = this.limited.as_mut();
            match ready!(limited.poll_next(context, this.work, &mut turns)) {
                Some(Ok(())) => {}
                Some(Err(error)) => return Poll::Ready(Err(error)),
                None => return Poll::Ready(Ok(())),
            }
        }
    }
}

impl<S: Stream, T: EnterItem<S::Item>, F, W: Future> fmt::Debug for ForEachLimited<S, T, F, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForEachLimited")
            .field("running", &self.limited.running.len())
            .finish_non_exhaustive()
    }
}

/// The stream, the waiting item, and the running work.
#[pin_project]
struct Limited<S: Stream, T: EnterItem<S::Item>, W> {
    #[pin]
    stream: Fuse<S>,
    throttle: T,
    /// The item that waits for admission.
    waiting: Option<S::Item>,
    /// The wait of that item.
    #[pin]
    enter: Option<Waiting<T::Enter>>,
    running: FuturesUnordered<Running<W, T::Permit>>,
    /// Whether items can still be admitted.
    open: bool,
    /// The error with which the throttle rejected an item, until it has been yielded.
    refused: Option<AcquireError>,
}

/// The work on an admitted item, and its permit. The work is dropped first, both when it is done
/// and when it is abandoned. Both fields are `None` once the work is done.
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

impl<S: Stream, T: EnterItem<S::Item>, W: Future> Limited<S, T, W> {
    fn new(stream: S, throttle: T) -> Self {
        Self {
            stream: stream.fuse(),
            throttle,
            waiting: None,
            enter: None,
            running: FuturesUnordered::new(),
            open: true,
            refused: None,
        }
    }

    /// Polls for the next result. `make` creates the work of an item; `turns` is the remaining number of
    /// [`MAX_TURNS`] in this poll of the adapter.
    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        make: &mut impl FnMut(S::Item) -> W,
        turns: &mut u32,
    ) -> Poll<Option<Result<W::Output, AcquireError>>> {
        // Items and running work alternate, so that a stream that is always ready cannot starve
        // running work.
        while *turns > 0 {
            *turns -= 1;
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
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Starts the work of one item, if the stream has one and the throttle admits it. Returns whether it
    /// started any.
    fn start_next(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        make: &mut impl FnMut(S::Item) -> W,
    ) -> bool {
        if !self.open {
            return false;
        }
        let mut this = self.project();
        if this.enter.is_none() {
            let Poll::Ready(Some(item)) = this.stream.as_mut().poll_next(context) else {
                return false;
            };
            // The throttle is entered before the item is kept: if `enter` panics, no item waits.
            let enter = this.throttle.enter_for(&item);
            *this.waiting = Some(item);
            this.enter.set(Some(enter));
        }
        let enter = this.enter.as_mut().as_pin_mut();
        let Some(Poll::Ready(entered)) = enter.map(|enter| enter.poll(context)) else {
            return false;
        };
        this.enter.set(None);
        match (entered, this.waiting.take()) {
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

    /// Returns whether no more items will be started.
    fn takes_no_more(&self) -> bool {
        let ended = self.stream.is_done() && self.waiting.is_none();
        ended || !self.open
    }

    /// Returns whether the end has been yielded, or nothing else is left to yield.
    fn is_terminated(&self) -> bool {
        self.takes_no_more() && self.running.is_empty() && self.refused.is_none()
    }
}
