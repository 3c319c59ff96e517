//! Defines the head of a request: all of it except the body.

use std::fmt;

use http::request::Parts;
use http::{Extensions, HeaderMap, Method, Request, Uri};
use tollgate::Throttle;

/// The borrowed head of a request, on which a throttle, a cost or a key may depend. It does not include
/// the body, because the body has not been read yet.
///
/// It converts from an `http::Request` with any body, and from its `Parts`.
///
/// # Examples
///
/// ```
/// use axum::http::{Method, Request};
/// use tollgate_tower::Head;
///
/// /// Reports cost more than everything else.
/// fn cost(head: Head<'_>) -> u64 {
///     if *head.method == Method::GET && head.uri.path() == "/report" { 10 } else { 1 }
/// }
///
/// let report = Request::get("/report").body("")?;
/// assert_eq!(cost(Head::from(&report)), 10);
/// let (parts, _body) = Request::get("/users").body("")?.into_parts();
/// assert_eq!(cost(Head::from(&parts)), 1);
/// # Ok::<_, axum::http::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Head<'a> {
    /// The method.
    pub method: &'a Method,
    /// The target: usually only path and query on a server, and the whole URI on a client.
    pub uri: &'a Uri,
    /// The header fields, as the client and the proxies in between sent them.
    pub headers: &'a HeaderMap,
    /// The data that the server and outer layers attach to the request, such as the address of the peer.
    pub extensions: &'a Extensions,
}

impl<'a, B> From<&'a Request<B>> for Head<'a> {
    fn from(request: &'a Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            extensions: request.extensions(),
        }
    }
}

impl<'a> From<&'a Parts> for Head<'a> {
    fn from(parts: &'a Parts) -> Self {
        Self {
            method: &parts.method,
            uri: &parts.uri,
            headers: &parts.headers,
            extensions: &parts.extensions,
        }
    }
}

// Finds the throttle of a request: the same for all requests, or chosen by a closure.

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
