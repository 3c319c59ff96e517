//! [`UriOrigin`]: the server of a request.

use std::fmt::{self, Display, Write};

use http::Uri;
use http::uri::{Authority, Scheme};

/// The origin of a request: scheme, host and port, in lower case, with the default port of the scheme if the URI has
/// none. It is the name of the server for [`Pauses`](crate::Pauses).
///
/// All URIs without a host have one origin. A clone of it, and of its parts in a URI, usually allocates nothing.
///
/// # Examples
///
/// ```
/// use tollgate_http::UriOrigin;
///
/// let uri = "https://Example.com/page".parse()?;
/// assert_eq!(UriOrigin::of(&uri).to_string(), "https://example.com:443");
/// # Ok::<_, http::uri::InvalidUri>(())
/// ```
#[derive(Clone, Debug)]
pub struct UriOrigin {
    scheme: Option<Scheme>,
    authority: Option<Authority>,
}

impl UriOrigin {
    /// Returns the origin of a URI.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    pub fn of(uri: &Uri) -> Self {
        Self {
            scheme: uri.scheme().cloned(),
            authority: uri.authority().cloned(),
        }
    }
}

impl Display for UriOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme, authority } = self;
        write_lower_case(f, scheme.as_ref().map_or("", Scheme::as_str))?;
        f.write_str("://")?;
        write_lower_case(f, authority.as_ref().map_or("", Authority::host))?;
        let default_port = match scheme {
            Some(scheme) if *scheme == Scheme::HTTP => Some(80),
            Some(scheme) if *scheme == Scheme::HTTPS => Some(443),
            _ => None,
        };
        let port = authority.as_ref().and_then(Authority::port_u16);
        match port.or(default_port) {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

/// Writes a text in lower case.
fn write_lower_case(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    for part in text.split_inclusive(|it: char| it.is_ascii_uppercase()) {
        match part.char_indices().last() {
            Some((last, upper)) if upper.is_ascii_uppercase() => {
                f.write_str(&part[..last])?;
                f.write_char(upper.to_ascii_lowercase())?;
            }
            _ => f.write_str(part)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_is_scheme_host_and_port() {
        let cases = [
            ("http://example.com/a?b", "http://example.com:80"),
            ("http://example.com:80", "http://example.com:80"),
            ("HTTPS://Example.COM/", "https://example.com:443"),
            (
                "https://user:word@example.com:8443/",
                "https://example.com:8443",
            ),
            ("http://[::1]:3000/", "http://[::1]:3000"),
            ("ws://example.com/", "ws://example.com"),
            ("WS://example.com/", "ws://example.com"),
            ("example.com:443", "://example.com:443"),
            ("/a", "://"),
            ("*", "://"),
        ];
        for (uri, expected) in cases {
            let uri = uri.parse().expect("a URI");
            assert_eq!(UriOrigin::of(&uri).to_string(), expected, "{uri}");
        }
    }
}
