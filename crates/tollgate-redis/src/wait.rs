//! What the futures that wait for a server share: how they are polled and left, and what can be added
//! to them.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;
use tollgate::{AcquireError, ErrorKind};

/// A wait for an answer, which the task that looks after the line gives.
pub(crate) enum Wait<T> {
    New,
    InLine(oneshot::Receiver<Answer<T>>),
    Over,
}

pub(crate) type Answer<T> = Result<T, AcquireError>;

/// A place in line, or an answer that is there at once.
pub(crate) type Joined<T> = Result<oneshot::Receiver<Answer<T>>, Answer<T>>;

impl<T> Wait<T> {
    pub(crate) fn is_new(&self) -> bool {
        matches!(self, Self::New)
    }

    /// Sets down what has become of [joining](Joined). The answer, if it is there at once.
    pub(crate) fn joined(&mut self, joined: Joined<T>) -> Option<Answer<T>> {
        match joined {
            Ok(receiver) => {
                *self = Self::InLine(receiver);
                None
            }
            Err(answer) => {
                *self = Self::Over;
                Some(answer)
            }
        }
    }

    /// Once it has joined.
    ///
    /// # Panics
    ///
    /// If it is over.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Answer<T>> {
        let Self::InLine(receiver) = self else {
            panic!("polled again after it was ready");
        };
        let Poll::Ready(received) = Pin::new(receiver).poll(context) else {
            return Poll::Pending;
        };
        *self = Self::Over;
        Poll::Ready(received.unwrap_or(Err(AcquireError::new(ErrorKind::Closed))))
    }

    /// Leaves the line: none if it was in none; otherwise the answer, if it was there already.
    pub(crate) fn leave(&mut self) -> Option<Option<Answer<T>>> {
        let Self::InLine(receiver) = self else {
            return None;
        };
        receiver.close();
        let answer = receiver.try_recv().ok();
        *self = Self::Over;
        Some(answer)
    }
}

/// Polls a future by its `wait`, `join` and `drive`.
macro_rules! future {
    ($future:ty, $output:ty) => {
        impl std::future::Future for $future {
            type Output = crate::wait::Answer<$output>;

            fn poll(
                mut self: std::pin::Pin<&mut Self>,
                context: &mut std::task::Context<'_>,
            ) -> std::task::Poll<Self::Output> {
                if self.wait.is_new() {
                    let joined = self.join();
                    if let Some(answer) = self.wait.joined(joined) {
                        return std::task::Poll::Ready(answer);
                    }
                }
                self.drive(context);
                self.wait.poll(context)
            }
        }
    };
}
pub(crate) use future;
