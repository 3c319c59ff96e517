//! The service of a client that waits as long as servers ask it to.

use std::mem;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower_service::Service;

use super::{RetryAfterFuture, RetryAfterLayer};

/// A service that waits as long as servers ask it to, created by a [`RetryAfterLayer`]. Clones
/// share the gates.
///
/// It is ready when the inner service is ready. A request that has to wait uses a clone of the
/// inner service instead, and makes it ready after the wait, so that requests to one server do not
/// hold what requests to another one need.
#[derive(Debug)]
pub struct RetryAfterService<S, B> {
    pub(super) inner: S,
    pub(super) layer: RetryAfterLayer<B>,
}

impl<S: Clone, B> Clone for RetryAfterService<S, B> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            layer: self.layer.clone(),
        }
    }
}

impl<S, B, R> Service<Request<B>> for RetryAfterService<S, B>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = RetryAfterFuture<S, B>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The ready service moves into the future; the clone need not be ready.
        let clone = self.inner.clone();
        let inner = mem::replace(&mut self.inner, clone);
        RetryAfterFuture::new(inner, self.layer.clone(), request)
    }
}
