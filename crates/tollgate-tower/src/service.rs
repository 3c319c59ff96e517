//! The service behind the throttle.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use tower_service::Service;

use super::choose::{Choose, Same};
use super::entering::{Entering, Patience};
use super::respond::Respond;
use super::{ResponseFuture, Responses, ThrottleLayer};
use tollgate::throttle::Throttle;

/// A service behind a throttle, created by a [`ThrottleLayer`]. Clones share the throttle.
///
/// It is ready when the inner service is ready. The response future enters the throttle, so a ready
/// service, and a future that was never polled, hold no permit. A layer that rejects at once decides
/// when the service is called.
#[derive(Debug)]
pub struct ThrottleService<S, T: Throttle, F = Same<T>, A = Responses<T>> {
    pub(super) inner: S,
    /// Shared, because servers clone the service for each request.
    pub(super) layer: Arc<ThrottleLayer<T, F, A>>,
}

impl<S, T, F, A, R> Service<R> for ThrottleService<S, T, F, A>
where
    S: Service<R> + Clone,
    T: Throttle,
    F: Choose<R, T>,
    A: Respond<T, S::Response, S::Error>,
{
    type Response = A::Response;
    type Error = A::Error;
    type Future = ResponseFuture<S, T, R, A>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), A::Error>> {
        self.inner.poll_ready(context).map_err(A::failed)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let throttle = self.layer.choose.choose(&request);
        let answers = self.layer.answers.clone();
        let entering = match self.layer.patience {
            Patience::Waits => Entering::Waits(throttle.enter()),
            Patience::WaitsFor(duration) => Entering::WaitsFor(throttle.enter().timeout(duration)),
            Patience::Leaves(try_enter) => {
                return match try_enter(&throttle) {
                    Ok(permit) => {
                        let answer = self.inner.call(request);
                        ResponseFuture::admitted(permit, answer, throttle, answers)
                    }
                    Err(error) => ResponseFuture::refused(error, throttle, answers),
                };
            }
        };
        // The ready service moves into the future; the clone need not be ready.
        let clone = self.inner.clone();
        let inner = mem::replace(&mut self.inner, clone);
        ResponseFuture::waiting(entering, (inner, request), throttle, answers)
    }
}

impl<S: Clone, T: Throttle, F, A> Clone for ThrottleService<S, T, F, A> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            layer: Arc::clone(&self.layer),
        }
    }
}
