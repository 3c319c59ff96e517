//! Defines the head of a request: all of it except the body.

use http::request::Parts;
use http::{Extensions, HeaderMap, Method, Request, Uri};

/// The borrowed head of a request, on which a throttle, a cost or a key may depend. It does not include
/// the body, because the body has not been read yet.
///
/// It converts from an `http::Request` with any body, and from its `Parts`.
///
/// # Examples
///
/// ```
/// use http::{Method, Request};
/// use tollgate_http::Head;
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
/// # Ok::<_, http::Error>(())
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
