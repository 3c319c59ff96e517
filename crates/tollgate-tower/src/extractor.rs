//! Finds the throttle of a request: the same for all requests, or the one that a closure returns.

use std::fmt;

use http::Request;
use tollgate::Throttle;

use super::RequestParts;

/// Extracts the throttle from a request.
///
/// Only bounds of generic code need its name.
pub trait ThrottleExtractor<R, T>: Clone {
    /// The part that a request keeps: its throttle, or nothing if all requests have the same.
    type Extracted;

    /// Extracts the throttle of this request.
    fn extract(&self, request: &R) -> Self::Extracted;

    /// Returns the extracted throttle.
    fn throttle<'a>(&'a self, extracted: &'a Self::Extracted) -> &'a T;
}

/// Extracts a throttle from the parts of a request. See [`ThrottleLayer::by`](super::ThrottleLayer::by).
#[derive(Clone)]
pub struct ByParts<F>(pub(super) F);

/// Extracts a throttle from a request of any type. See
/// [`ThrottleLayer::by_request`](super::ThrottleLayer::by_request).
#[derive(Clone)]
pub struct ByRequest<F>(pub(super) F);

/// Uses the same throttle for all requests. See [`ThrottleLayer::new`](super::ThrottleLayer::new).
impl<R, T: Throttle> ThrottleExtractor<R, T> for T {
    type Extracted = ();

    #[inline]
    fn extract(&self, _: &R) {}

    #[inline]
    fn throttle<'a>(&'a self, (): &'a ()) -> &'a T {
        self
    }
}

impl<B, T, F: Fn(RequestParts<'_>) -> T + Clone> ThrottleExtractor<Request<B>, T> for ByParts<F> {
    type Extracted = T;

    #[inline]
    fn extract(&self, request: &Request<B>) -> T {
        (self.0)(RequestParts::from(request))
    }

    #[inline]
    fn throttle<'a>(&'a self, extracted: &'a T) -> &'a T {
        extracted
    }
}

impl<R, T, F: Fn(&R) -> T + Clone> ThrottleExtractor<R, T> for ByRequest<F> {
    type Extracted = T;

    #[inline]
    fn extract(&self, request: &R) -> T {
        (self.0)(request)
    }

    #[inline]
    fn throttle<'a>(&'a self, extracted: &'a T) -> &'a T {
        extracted
    }
}

impl<F> fmt::Debug for ByParts<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ByParts")
    }
}

impl<F> fmt::Debug for ByRequest<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ByRequest")
    }
}
