//! The head of a request: all of it except the body.

use std::fmt;

use http::request::Parts;
use http::{Extensions, HeaderMap, Method, Request, Uri};
use tollgate::Throttle;

/// The head of a request, borrowed: what a throttle, a cost or a key may depend on. The body is not
/// part of it, because nothing of the body has been read yet.
///
/// It converts from an `http::Request`, whatever its body, and from its `Parts`.
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
    /// The target: usually only path and query on a server, and the whole address on a client.
    pub uri: &'a Uri,
    /// The header fields, as the client and the proxies in between sent them.
    pub headers: &'a HeaderMap,
    /// What the server and outer layers know about the request, such as the address of the peer.
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

// How the throttle of a request is found: the same for all of them, or by a closure.

/// Returns the throttle of a request.
///
/// Only bounds of generic code need its name.
pub trait Choose<R, T>: Clone {
    /// What a request keeps of the choice: its throttle, or nothing if all requests have the same.
    type Chosen;

    /// Chooses the throttle of this request.
    fn choose(&self, request: &R) -> Self::Chosen;

    /// Returns the throttle that was chosen.
    fn throttle<'a>(&'a self, chosen: &'a Self::Chosen) -> &'a T;
}

/// A throttle by the head of a request. See [`ThrottleLayer::by`](super::ThrottleLayer::by).
#[derive(Clone)]
pub struct ByHead<F>(pub(super) F);

/// A throttle by a request of any type. See
/// [`ThrottleLayer::by_request`](super::ThrottleLayer::by_request).
#[derive(Clone)]
pub struct ByRequest<F>(pub(super) F);

/// The same throttle for all requests. See [`ThrottleLayer::new`](super::ThrottleLayer::new).
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
