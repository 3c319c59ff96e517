//! Defines the service inside tower's `ConcurrencyLimit`.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};

use tower::Service;

/// A service that answers at once. The permit is held from `call` until the answer's future is dropped.
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
