//! The extension methods of streams.

use futures_util::Stream;

use super::{BufferLimited, ForEachLimited};
use tollgate::Waiting;
use tollgate::throttle::Throttle;

/// Extension methods that put a stream behind a throttle. See [the module](crate::stream) for their
/// common behavior.
#[doc(alias = "StreamRateLimitExt")]
pub trait LimitStreamExt: Stream {
    /// Runs `work` for each item. The throttle limits how many items run at once, or per time.
    ///
    /// Like `for_each_concurrent` of `futures`, with any throttle in place of a number. Items start
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
    /// The error of the throttle when it rejects an item. No further item is taken after that, and
    /// all running work is finished. The rejected item is dropped.
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
        Waiting::new(ForEachLimited::new(self, throttle, work))
    }

    /// Runs the futures of the stream and yields their results. The throttle limits how many run at
    /// once, or per time.
    ///
    /// Like `buffer_unordered` of `futures`, with any throttle in place of a number. Results come
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
    /// The error of the throttle when it rejects a future. No further future is taken after that,
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
        BufferLimited::new(self, throttle)
    }
}

impl<S: Stream + ?Sized> LimitStreamExt for S {}
