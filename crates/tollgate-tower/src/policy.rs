//! [`Policy`]: the name of a limit, and on whose account it is.

use std::fmt;

/// The name of a limit for clients, and whether it is theirs or the server's. See
/// [`ThrottleLayer::policies`](super::ThrottleLayer::policies).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The name as a string of structured fields, with its quotes. A string of JSON is the same,
    /// because the name is of printable ASCII.
    pub(super) quoted: String,
    pub(super) is_server: bool,
}

impl Policy {
    /// Creates the policy of a limit that belongs to one client, such as requests by address. A rejection
    /// by it is 429 Too Many Requests, or [another status](super::ThrottleLayer::status), and 413 Content
    /// Too Large if the request costs more than the limit gives now.
    ///
    /// # Panics
    ///
    /// Panics if the name is empty, or has a character that is not printable ASCII, which fields of
    /// HTTP cannot carry.
    ///
    /// # Examples
    ///
    /// See [`ThrottleLayer::policies`](super::ThrottleLayer::policies).
    #[track_caller]
    pub fn client(name: &str) -> Self {
        Self::new(name, false)
    }

    /// Creates the policy of a limit that all clients share, such as requests in total. A rejection
    /// by it is 503 Service Unavailable.
    ///
    /// # Panics
    ///
    /// Panics where [`client`](Self::client) does.
    ///
    /// # Examples
    ///
    /// See [`ThrottleLayer::policies`](super::ThrottleLayer::policies).
    #[track_caller]
    pub fn server(name: &str) -> Self {
        Self::new(name, true)
    }

    #[track_caller]
    fn new(name: &str, is_server: bool) -> Self {
        let is_printable = |byte: u8| (b' '..=b'~').contains(&byte);
        assert!(
            !name.is_empty() && name.bytes().all(is_printable),
            "the name of a policy must be of printable ASCII, not {name:?}"
        );
        let escaped = name.replace('\\', r"\\").replace('"', r#"\""#);
        Self {
            quoted: format!("\"{escaped}\""),
            is_server,
        }
    }

    /// Returns whether this is how limits without a policy are named.
    pub(super) fn is_reserved(&self) -> bool {
        let number = self.quoted.strip_prefix("\"default-");
        number.is_some_and(|number| number.trim_end_matches('"').parse::<u64>().is_ok())
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.quoted)
    }
}
