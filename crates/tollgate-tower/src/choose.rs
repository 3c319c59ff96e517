//! Finds the throttle of a request: the same for all requests, or chosen by a closure.

use std::fmt;

use http::Request;
use tollgate::Throttle;

use super::Head;

/// Chooses the throttle of a request.
///
/// Only bounds of generic code need its name.
pub trait Choose<R, T>: Clone {
    /// The choice that a request keeps: its throttle, or nothing if all requests have the same.
    type Chosen;

    /// Chooses the throttle of this request.
    fn choose(&self, request: &R) -> Self::Chosen;

    /// Returns the chosen throttle.
    fn throttle<'a>(&'a self, chosen: &'a Self::Chosen) -> &'a T;
}

/// Chooses a throttle by the head of a request. See [`ThrottleLayer::by`](super::ThrottleLayer::by).
#[derive(Clone)]
pub struct ByHead<F>(pub(super) F);

/// Chooses a throttle by a request of any type. See
/// [`ThrottleLayer::by_request`](super::ThrottleLayer::by_request).
#[derive(Clone)]
pub struct ByRequest<F>(pub(super) F);

/// Uses the same throttle for all requests. See [`ThrottleLayer::new`](super::ThrottleLayer::new).
impl<R, T: Throttle> Choose<R, T> for T {
    type Chosen = ();

    #[inline]
    fn choose(&self, _: &R) {}

    #[inline]
    fn throttle<'a>(&'a self, (): &'a ()) -> &'a T {
        self
    }
}

impl<B, T, F: Fn(Head<'_>) -> T + Clone> Choose<Request<B>, T> for ByHead<F> {
    type Chosen = T;

    #[inline]
    fn choose(&self, request: &Request<B>) -> T {
        (self.0)(Head::from(request))
    }

    #[inline]
    fn throttle<'a>(&'a self, chosen: &'a T) -> &'a T {
        chosen
    }
}

impl<R, T, F: Fn(&R) -> T + Clone> Choose<R, T> for ByRequest<F> {
    type Chosen = T;

    #[inline]
    fn choose(&self, request: &R) -> T {
        (self.0)(request)
    }

    #[inline]
    fn throttle<'a>(&'a self, chosen: &'a T) -> &'a T {
        chosen
    }
}

impl<F> fmt::Debug for ByHead<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ByHead")
    }
}

impl<F> fmt::Debug for ByRequest<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ByRequest")
    }
}
