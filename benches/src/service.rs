//! The service that tower's `ConcurrencyLimit` is put around.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};

use tower::Service;

/// Answers at once. The permit is held from `call` until the answer's future is gone.
#[derive(Clone, Copy, Debug)]
pub struct Immediate;

impl Service<()> for Immediate {
    type Response = ();
    type Error = Infallible;
    type Future = Ready<Result<(), Infallible>>;

    #[inline]
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    #[inline]
    fn call(&mut self, (): ()) -> Self::Future {
        ready(Ok(()))
    }
}
