//! The methods that streams get.

use std::future::Future;

use futures_util::Stream;

use super::{BufferLimited, ForEachLimited};
use crate::throttle::Throttle;
use crate::wait::Waiting;

/// What every stream can do behind a throttle. See [the module](crate::stream) for what the methods
/// have in common.
pub trait LimitStreamExt: Stream {
    /// Does something for each item, with as many items at once, or per time, as the throttle lets
    /// in.
    ///
    /// As `for_each_concurrent` of `futures`, with any throttle in place of a number. Items are
    /// started in the order of the stream and finish in any.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops what has been started, together with its permits, and the item that
    /// waits. That is also what `cancel_on` and [`timeout`](Waiting::timeout) do. To stop
    /// without losing anything, end the stream, for example with
    /// `stream.take_until(token.cancelled())` of `futures`: the items that it has yielded are still
    /// worked on, the one that waits included.
    ///
    /// # Errors
    ///
    /// When the throttle refuses; then no further item is taken, what has been started is finished,
    /// and the error is that of the throttle. The item that was refused is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::cell::Cell;
    ///
    /// use futures::stream;
    /// use tollgate::Semaphore;
    /// use tollgate::stream::LimitStreamExt;
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

    /// Runs the futures that the stream yields, as many at once, or per time, as the throttle lets
    /// in, and yields their results.
    ///
    /// As `buffer_unordered` of `futures`, with any throttle in place of a number: the results come
    /// in the order in which the futures finish, so one that is slow holds nobody up.
    ///
    /// # Cancel safety
    ///
    /// Dropping a wait for the next result loses nothing. Dropping the stream drops what has been
    /// started, together with its permits, and the future that waits. To stop without losing
    /// anything, end the stream that it is made of, for example with
    /// `stream.take_until(token.cancelled())` of `futures`.
    ///
    /// # Errors
    ///
    /// When the throttle refuses; then no further future is taken, the results of those that have
    /// been started come first, and the last item is the error of the throttle. The future that was
    /// refused is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use futures::{StreamExt, TryStreamExt, stream};
    /// use tollgate::Semaphore;
    /// use tollgate::stream::LimitStreamExt;
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
    fn buffer_limited<T>(self, throttle: T) -> BufferLimited<Self, T>
    where
        Self: Stream<Item: Future> + Sized,
        T: Throttle,
    {
        BufferLimited::new(self, throttle)
    }
}

impl<S: Stream + ?Sized> LimitStreamExt for S {}
