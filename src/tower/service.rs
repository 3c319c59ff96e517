//! The service behind the throttle.

use std::mem;
use std::task::{Context, Poll};

use http::Response;
use http_body::Body;
use tower_service::Service;

use super::{ResponseFuture, ThrottleLayer, ThrottledBody};
use crate::throttle::Throttle;

/// A service behind a throttle, created by a [`ThrottleLayer`]. Clones share the throttle.
///
/// It is ready when the inner service is ready. The response future enters the throttle, so a ready
/// service, and a future that was never polled, hold no permit.
#[derive(Clone, Debug)]
pub struct ThrottleService<S, T: Throttle> {
    pub(super) inner: S,
    pub(super) layer: ThrottleLayer<T>,
}

impl<S, T, R, B> Service<R> for ThrottleService<S, T>
where
    S: Service<R, Response = Response<B>> + Clone,
    T: Throttle,
    B: Body,
{
    type Response = Response<ThrottledBody<B, T::Permit>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, T, R>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        // The ready service moves into the future; the clone need not be ready.
        let clone = self.inner.clone();
        let inner = mem::replace(&mut self.inner, clone);
        let entering = self.layer.patience.enter(&self.layer.throttle);
        ResponseFuture::new(entering, inner, request, self.layer.status)
    }
}
