//! [`ClientIp`]: finds the address of a request's client, as a key for its limit.
//!
//! 1. The result is the peer's address, or one that a trusted proxy wrote: the walk through the
//!    header begins at its right end and never goes past an element that is not an address.
//! 2. An IPv4 address in IPv6 form is converted to IPv4 before it is compared or masked.
//! 3. Nothing is allocated, and at most [`MAX_ELEMENTS`] elements are read.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use http::header::{FORWARDED, HeaderName};
use http::{Extensions, HeaderMap};
use ipnet::{IpNet, Ipv4Net};

use super::Head;
use super::right_split::RightSplit;

/// The maximum number of elements that are read, from the right.
const MAX_ELEMENTS: usize = 64;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Finds the IP address of a request's client, behind proxies or not, as a key for limits.
///
/// By default it is the address of the peer, the other end of the connection. Behind
/// proxies the peer is the last proxy, and a header names the client. Clients can send that header
/// too, so **trust only proxies that exist**, by [their number](Self::behind) or by [their
/// networks](Self::trusting). Each proxy must append the address of its own peer to [the
/// header](Self::header), and clients must not be able to connect past the proxies.
///
/// The result is a network rather than an address, because a client with IPv6 has at least 2^64
/// addresses, all of one /64; see [`prefixes`](Self::prefixes).
///
/// # Elements
///
/// All lines of the header are one list, in order. An element is an IPv4 address, or an IPv6 address
/// with or without brackets. It may have a port if it is IPv4 or has brackets. For `Forwarded`, the element
/// is the value of `for`, quoted or not. An IPv4 address in IPv6 form (`::ffff:1.2.3.4`) counts as
/// that IPv4 address, in the header, at the peer and in trusted networks.
///
/// Any other text is not an address: an empty element, `unknown`, an obfuscated identifier like
/// `_hidden`, a zone (`fe80::1%eth0`), bytes that are not ASCII, an element of `Forwarded` without
/// `for` or with two of them. Such an element ends the list, because it is unknown which proxy wrote
/// the elements before it. At most 64 elements are read, from the right.
///
/// If no address is known, because the peer has none (a Unix socket) and the header does not
/// help, the client is the unspecified address `0.0.0.0`, and all such requests share one key.
///
/// # Examples
///
/// Requests per client with axum, behind one proxy:
///
/// ```
/// use std::net::SocketAddr;
///
/// use axum::extract::ConnectInfo;
/// use http::Request;
/// use tollgate_http::{ClientIp, IpNet};
/// use tollgate::{Keyed, Quota};
///
/// let client_ip = ClientIp::peer(|extensions| {
///     let ConnectInfo(peer) = extensions.get::<ConnectInfo<SocketAddr>>()?;
///     Some(*peer)
/// })
/// .behind(1);
/// let clients = Keyed::<IpNet, _>::rate_limiters(Quota::per_second(1)).max_keys(100_000);
///
/// let forged = "6.6.6.6, 1.2.3.4";
/// let request = Request::get("/").header("x-forwarded-for", forged).body(())?;
/// let client = client_ip.of(&request);
/// assert_eq!(client, "1.2.3.4/32".parse()?);
/// assert!(clients.key(&client).try_acquire().is_ok());
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a `ClientIp` does nothing until its method `of` is called"]
#[doc(alias = "PeerIpKeyExtractor")]
#[doc(alias = "SmartIpKeyExtractor")]
pub struct ClientIp {
    peer: fn(&Extensions) -> Option<SocketAddr>,
    proxies: Proxies,
    header: ClientIpHeader,
    v4_prefix: u8,
    v6_prefix: u8,
}

/// Reads the address in an element.
type ReadElement = fn(&[u8]) -> Option<IpAddr>;

/// The trusted proxies.
#[derive(Clone, Debug)]
enum Proxies {
    Number(usize),
    Networks(Arc<[IpNet]>),
}

/// The header in which proxies pass on the address of their client, for [`ClientIp::header`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientIpHeader {
    /// `X-Forwarded-For`, a list of addresses.
    XForwardedFor,
    /// `Forwarded` of RFC 7239, a list whose elements have a parameter `for`.
    Forwarded,
    /// Another header with a list of addresses, often of one, such as `X-Real-IP`.
    Named(HeaderName),
}

impl ClientIp {
    /// Creates a `ClientIp` that trusts no proxy: the client is the peer. `peer` finds the peer's
    /// address in the extensions of the request, where the server put it.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    pub fn peer(peer: fn(&Extensions) -> Option<SocketAddr>) -> Self {
        Self {
            peer,
            proxies: Proxies::Number(0),
            header: ClientIpHeader::XForwardedFor,
            v4_prefix: 32,
            v6_prefix: 64,
        }
    }

    /// Trusts this many proxies: the client is the `proxies`-th element of the header from the
    /// right, or the peer if the header has fewer. With 0 it is the peer.
    ///
    /// The peer's own address does not matter if there are enough elements, so this also works for
    /// a proxy that connects through a Unix socket. It replaces [`trusting`](Self::trusting).
    ///
    /// # Panics
    ///
    /// Panics if there are more than 64 proxies.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::Request;
    /// use tollgate_http::ClientIp;
    ///
    /// let list = "6.6.6.6, 1.2.3.4, 10.0.0.2";
    /// let request = Request::get("/").header("x-forwarded-for", list).body(())?;
    /// let client_ip = ClientIp::peer(|_| Some(([10, 0, 0, 1], 80).into())).behind(2);
    /// assert_eq!(client_ip.of(&request).to_string(), "1.2.3.4/32");
    /// # Ok::<_, http::Error>(())
    /// ```
    #[track_caller]
    pub fn behind(mut self, proxies: usize) -> Self {
        assert!(
            proxies <= MAX_ELEMENTS,
            "a client cannot be behind {proxies} proxies, at most {MAX_ELEMENTS}"
        );
        self.proxies = Proxies::Number(proxies);
        self
    }

    /// Trusts the proxies in these networks: the client is the first address from the right that is
    /// in none of them. The peer counts as the element to the right of the header.
    ///
    /// So the client is the peer if the peer is not a trusted proxy, and the header does not matter. A peer
    /// without an address is not trusted. If all elements are trusted, or one is not an address, the
    /// client is the last known proxy. It replaces [`behind`](Self::behind).
    ///
    /// # Examples
    ///
    /// ```
    /// use http::Request;
    /// use tollgate_http::ClientIp;
    ///
    /// let list = "6.6.6.6, 1.2.3.4, 10.0.0.2";
    /// let request = Request::get("/").header("x-forwarded-for", list).body(())?;
    /// let client_ip = ClientIp::peer(|_| Some(([10, 0, 0, 1], 80).into()));
    /// let ours = client_ip.trusting(["10.0.0.0/8".parse()?, "fd00::/8".parse()?]);
    /// assert_eq!(ours.of(&request).to_string(), "1.2.3.4/32");
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn trusting(mut self, networks: impl IntoIterator<Item = IpNet>) -> Self {
        let networks = networks.into_iter().map(unmapped);
        self.proxies = Proxies::Networks(networks.collect());
        self
    }

    /// Sets the header that the proxies write, in place of `X-Forwarded-For`. No other header is read.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::{HeaderName, Request};
    /// use tollgate_http::{ClientIp, ClientIpHeader};
    ///
    /// let request = Request::get("/")
    ///     .header("forwarded", r#"for="[2001:db8:1:2::3]:4711";proto=https"#)
    ///     .header("x-real-ip", "1.2.3.4")
    ///     .body(())?;
    /// let client_ip = ClientIp::peer(|_| None).behind(1);
    ///
    /// let standard = client_ip.clone().header(ClientIpHeader::Forwarded);
    /// assert_eq!(standard.of(&request).to_string(), "2001:db8:1:2::/64");
    ///
    /// let name = HeaderName::from_static("x-real-ip");
    /// let custom = client_ip.header(ClientIpHeader::Named(name));
    /// assert_eq!(custom.of(&request).to_string(), "1.2.3.4/32");
    /// # Ok::<_, http::Error>(())
    /// ```
    pub fn header(mut self, header: ClientIpHeader) -> Self {
        self.header = header;
        self
    }

    /// Sets the lengths, in bits, of the prefixes that distinguish addresses. The defaults are 32 for IPv4
    /// and 64 for IPv6. The other bits are 0 in the result.
    ///
    /// Many providers give a customer a /56 or a /48 of IPv6.
    ///
    /// All IPv4 clients behind a NAT64 with the well-known prefix `64:ff9b::/96` are in one /64, and
    /// so share one limit. A client with 6to4, in `2002::/16`, has a /48 for each IPv4 address. That is
    /// 65,536 /64s, and so the same number of limits.
    ///
    /// # Panics
    ///
    /// Panics if `v4` is more than 32, or `v6` is more than 128.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::Request;
    /// use tollgate_http::ClientIp;
    ///
    /// let client_ip = ClientIp::peer(|_| Some(([1, 2, 3, 4], 80).into())).prefixes(24, 56);
    /// assert_eq!(client_ip.of(&Request::new(())).to_string(), "1.2.3.0/24");
    /// ```
    #[track_caller]
    pub fn prefixes(mut self, v4: u8, v6: u8) -> Self {
        assert!(
            v4 <= 32,
            "a prefix of IPv4 cannot have {v4} bits, at most 32"
        );
        assert!(
            v6 <= 128,
            "a prefix of IPv6 cannot have {v6} bits, at most 128"
        );
        (self.v4_prefix, self.v6_prefix) = (v4, v6);
        self
    }

    /// Returns the network of the request's client. It never fails, and allocates nothing.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    #[expect(clippy::missing_panics_doc, reason = "the prefixes were checked")]
    pub fn of<'a>(&self, head: impl Into<Head<'a>>) -> IpNet {
        let address = self.address(head.into());
        let address = address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let prefix = match address {
            IpAddr::V4(_) => self.v4_prefix,
            IpAddr::V6(_) => self.v6_prefix,
        };
        let network = IpNet::new(address, prefix);
        network.expect("the prefixes were checked").trunc()
    }

    fn address(&self, head: Head<'_>) -> Option<IpAddr> {
        let peer = (self.peer)(head.extensions).map(|peer| peer.ip().to_canonical());
        match &self.proxies {
            Proxies::Number(0) => peer,
            Proxies::Number(proxies) => self.listed(head.headers).nth(proxies - 1).or(peer),
            Proxies::Networks(networks) => {
                let mut known = peer?;
                for address in self.listed(head.headers) {
                    if !networks.iter().any(|network| network.contains(&known)) {
                        break;
                    }
                    known = address;
                }
                Some(known)
            }
        }
    }

    /// Returns the addresses in the header, from the right to the first element without one.
    fn listed<'a>(&self, headers: &'a HeaderMap) -> impl Iterator<Item = IpAddr> + use<'a> {
        let (name, read): (_, ReadElement) = match &self.header {
            ClientIpHeader::XForwardedFor => (&X_FORWARDED_FOR, address),
            ClientIpHeader::Forwarded => (&FORWARDED, forwarded_for),
            ClientIpHeader::Named(name) => (name, address),
        };
        let lines = headers.get_all(name).into_iter().rev();
        let elements = lines.flat_map(|line| RightSplit::new(line.as_bytes(), b','));
        let addresses = elements.take(MAX_ELEMENTS).map_while(read);
        addresses.map(|address| address.to_canonical())
    }
}

/// Converts a network of IPv4 addresses in IPv6 form to an IPv4 network.
fn unmapped(network: IpNet) -> IpNet {
    let IpNet::V6(v6) = network else {
        return network;
    };
    match (v6.addr().to_ipv4_mapped(), v6.prefix_len().checked_sub(96)) {
        (Some(address), Some(prefix)) => IpNet::V4(Ipv4Net::new_assert(address, prefix)),
        _ => network,
    }
}

// Reads the address in an element of a forwarding header. Every value is a slice, so nothing is allocated.

/// Returns the address in an element of `X-Forwarded-For`: an IP address, with or without a port,
/// in brackets or not.
pub(crate) fn address(element: &[u8]) -> Option<IpAddr> {
    let text = str::from_utf8(element).ok()?.trim_matches([' ', '\t']);
    if let Some(text) = text.strip_prefix('[') {
        let (address, rest) = text.split_once(']')?;
        let port_is_fine = rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port);
        let address: Ipv6Addr = address.parse().ok()?;
        return port_is_fine.then_some(IpAddr::V6(address));
    }
    match text.split_once(':') {
        // There is one colon; an IPv6 address has more.
        Some((address, port)) if is_port(port) => Some(IpAddr::V4(address.parse().ok()?)),
        _ => text.parse().ok(),
    }
}

/// Returns whether this is a port in the format of RFC 7239: a number, or an obfuscated one like `_a1`.
fn is_port(port: &str) -> bool {
    let obfuscated = |rest: &str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        !rest.is_empty() && rest.bytes().all(allowed)
    };
    match port.strip_prefix('_') {
        Some(rest) => obfuscated(rest),
        None => port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok(),
    }
}

/// Returns the address in an element of `Forwarded`, RFC 7239: that of its only parameter `for`.
pub(crate) fn forwarded_for(element: &[u8]) -> Option<IpAddr> {
    let mut values = RightSplit::new(element, b';').filter_map(|parameter| {
        let parameter = parameter.trim_ascii();
        let (name, value) = parameter.split_at_checked(4)?;
        name.eq_ignore_ascii_case(b"for=").then_some(value)
    });
    let value = values.next()?;
    if values.next().is_some() {
        return None;
    }
    match value {
        // No character of an address needs a backslash, so a string with one is not an address.
        [b'"', text @ .., b'"'] => address(text),
        token => address(token),
    }
}
