//! The address in an element of a forwarding header. Everything is a slice: nothing is allocated.

use std::net::{IpAddr, Ipv6Addr};

use crate::quoted::RightSplit;

/// Returns the address in an element of `X-Forwarded-For`: an IP address, with or without a port,
/// in brackets or not.
pub(super) fn address(element: &[u8]) -> Option<IpAddr> {
    let text = str::from_utf8(element).ok()?.trim_matches([' ', '\t']);
    if let Some(text) = text.strip_prefix('[') {
        let (address, rest) = text.split_once(']')?;
        let port_is_fine = rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port);
        let address: Ipv6Addr = address.parse().ok()?;
        return port_is_fine.then_some(IpAddr::V6(address));
    }
    match text.split_once(':') {
        // One colon; an IPv6 address has more.
        Some((address, port)) if is_port(port) => Some(IpAddr::V4(address.parse().ok()?)),
        _ => text.parse().ok(),
    }
}

/// Returns whether this is a port as RFC 7239 has it: a number, or an obfuscated one like `_a1`.
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
pub(super) fn forwarded_for(element: &[u8]) -> Option<IpAddr> {
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
        // What an address is made of needs no backslash, so a string with one is no address.
        [b'"', text @ .., b'"'] => address(text),
        token => address(token),
    }
}
