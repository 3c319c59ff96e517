//! [`LimitedSink`]: charges a limiter for each item before it passes the item on.
//!
//! 1. At most one item is kept, the last that was sent. It is passed on before the next one is accepted, and
//!    before the sink is flushed or closed.
//! 2. The limiter is asked for an item when the inner sink is ready for it. The item is passed on in the poll
//!    that finds both the item admitted and the inner sink ready. If the inner sink refuses it, the charge is
//!    given back.
//! 3. Items already passed on do not wait for the kept item: while that item waits for the limiter, the inner
//!    sink is flushed.
//! 4. The cost of an item is computed once, when it is sent.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_sink::Sink;
use pin_project::pin_project;

use crate::turn::Turn;
use tollgate::AcquireError;
use tollgate::throttle::Weighted;

/// Extension methods that put a sink behind a throttle.
#[doc(alias = "SinkRateLimitExt")]
pub trait LimitSinkExt<I>: Sink<I> + Sized {
    /// Charges `limiter` for each item before it goes to the sink. `cost` returns the charge: the number of bytes
    /// of a message, or 1 for a limit on items.
    ///
    /// Items are passed on in the order in which they were sent. The last one is kept until the limiter
    /// admits it, and the inner sink is flushed meanwhile. So send and then [flush](Sink::poll_flush), as
    /// `SinkExt::send` of `futures` does. An item that costs more than the limiter gives at once waits for [the
    /// maximum](Weighted::max_units). A rate limiter is charged for the rest as a debt, and the next items wait
    /// until it is paid off. An item that costs 0 does not wait.
    ///
    /// # Cancel safety
    ///
    /// Dropping a wait loses no item: the sink keeps the item and its place in the queue. Dropping the sink
    /// drops the kept item, which is not charged.
    ///
    /// # Errors
    ///
    /// Returns a [`SinkError`] of the inner sink or of the limiter. An item that the limiter refused stays kept and
    /// must not be sent again: the next call retries it, and [`into_parts`](LimitedSink::into_parts)
    /// returns it. The inner sink can then be flushed or closed through
    /// [`get_mut`](LimitedSink::get_mut).
    ///
    /// # Panics
    ///
    /// `start_send` panics if `poll_ready` was not ready before it, as the contract of [`Sink`] allows.
    ///
    /// # Examples
    ///
    /// ```
    /// use futures::SinkExt;
    /// use tollgate_io::stream::LimitSinkExt;
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let bytes = RateLimiter::new(Quota::per_second(1000).burst(1000)).clock(Clock::manual());
    /// let messages: Vec<&str> = Vec::new();
    /// let mut messages = messages.limited(&bytes, |message: &&str| message.len() as u64);
    /// messages.send("12 bytes out").await?;
    /// messages.send("3 s").await?;
    /// assert_eq!(bytes.snapshot().available, 1000 - 15);
    /// assert_eq!(messages.into_inner(), ["12 bytes out", "3 s"]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "ratelimit_sink")]
    #[doc(alias = "ratelimit_sink_with_jitter")]
    fn limited<T: Weighted, F: FnMut(&I) -> u64>(
        self,
        limiter: T,
        cost: F,
    ) -> LimitedSink<Self, I, T, F> {
        LimitedSink {
            sink: self,
            limiter,
            cost,
            item: None,
            turn: Turn::new(),
        }
    }
}

impl<I, S: Sink<I>> LimitSinkExt<I> for S {}

/// The sink returned by [`LimitSinkExt::limited`].
#[doc(alias = "RatelimitedSink")]
#[pin_project]
#[must_use = "sinks do nothing unless they are polled"]
pub struct LimitedSink<S, I, T: Weighted, F> {
    #[pin]
    sink: S,
    limiter: T,
    cost: F,
    /// The kept item, and its cost.
    item: Option<(I, u64)>,
    #[pin]
    turn: Turn<T>,
}

impl<S, I, T: Weighted, F> LimitedSink<S, I, T, F> {
    /// Returns the inner sink.
    pub fn get_ref(&self) -> &S {
        &self.sink
    }

    /// Returns the inner sink. Items that are sent through it directly are not charged, and may
    /// overtake the kept item.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.sink
    }

    /// Returns the inner sink. A kept item is lost: [flush](Sink::poll_flush) first, or use
    /// [`into_parts`](Self::into_parts).
    pub fn into_inner(self) -> S {
        self.sink
    }

    /// Returns the inner sink and the kept item, if there is one. The item is not charged: its wait leaves
    /// the queue.
    pub fn into_parts(self) -> (S, Option<I>) {
        (self.sink, self.item.map(|(item, _)| item))
    }
}

impl<S: Sink<I>, I, T: Weighted, F> LimitedSink<S, I, T, F> {
    /// Passes on the kept item, if there is one.
    fn poll_send(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), SinkError<S::Error>>> {
        let mut this = self.project();
        let Some((_, cost)) = *this.item else {
            return Poll::Ready(Ok(()));
        };
        ready!(this.sink.as_mut().poll_ready(context)).map_err(SinkError::Inner)?;
        let entered = if cost > 0 {
            // This requests the whole cost at once, as far as the limiter can give it.
            match (this.turn).poll_enter(context, this.limiter, Some(u64::MAX), cost) {
                Poll::Ready(entered) => Some(entered.map_err(SinkError::Limiter)?),
                Poll::Pending => {
                    let _flushed = this.sink.poll_flush(context).map_err(SinkError::Inner)?;
                    return Poll::Pending;
                }
            }
        } else {
            None
        };
        if let Some((item, _)) = this.item.take() {
            // An error drops the permit, which gives the units back.
            this.sink.start_send(item).map_err(SinkError::Inner)?;
        }
        if let Some((entered, _)) = entered {
            entered.settle(cost);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: Sink<I>, I, T: Weighted, F: FnMut(&I) -> u64> Sink<I> for LimitedSink<S, I, T, F> {
    type Error = SinkError<S::Error>;

    fn poll_ready(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Self::Error>> {
        self.poll_send(context)
    }

    fn start_send(self: Pin<&mut Self>, item: I) -> Result<(), Self::Error> {
        let this = self.project();
        assert!(
            this.item.is_none(),
            "an item was sent to a sink that was not ready"
        );
        let cost = (this.cost)(&item);
        *this.item = Some((item, cost));
        Ok(())
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Self::Error>> {
        ready!(self.as_mut().poll_send(context))?;
        self.project()
            .sink
            .poll_flush(context)
            .map_err(SinkError::Inner)
    }

    fn poll_close(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Self::Error>> {
        ready!(self.as_mut().poll_send(context))?;
        self.project()
            .sink
            .poll_close(context)
            .map_err(SinkError::Inner)
    }
}

impl<S: fmt::Debug, I, T: Weighted, F> fmt::Debug for LimitedSink<S, I, T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitedSink")
            .field("sink", &self.sink)
            .field("keeps_item", &self.item.is_some())
            .field("waits", &self.turn.is_waiting())
            .finish_non_exhaustive()
    }
}

/// The error of a limited sink.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SinkError<E> {
    /// The inner sink failed.
    Inner(E),
    /// The limiter refused.
    Limiter(AcquireError),
}

impl<E: fmt::Display> fmt::Display for SinkError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inner(error) => error.fmt(f),
            Self::Limiter(_) => f.write_str("the limiter of the sink rejected the item"),
        }
    }
}

impl<E: Error + 'static> Error for SinkError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            // This error displays the inner one in its place, so the source is that of the inner one.
            Self::Inner(error) => error.source(),
            Self::Limiter(error) => Some(error),
        }
    }
}
