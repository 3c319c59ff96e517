//! The gates of the origins that have asked for a pause, in bounded memory.
//!
//! 1. An origin has a gate once it has asked for a pause, so most clients have none at all.
//! 2. The lock guards the table. A gate is blocked under it, so that its eviction cannot come in
//!    between; no code but the table's and the gate's runs under it, and nothing wakes.
//! 3. A request that waits has a handle of its gate, and does not notice the eviction.

use std::collections::HashMap;
use std::fmt::Write;
use std::time::Duration;

use http::Uri;
use http::uri::Scheme;

use crate::gate::Gate;
use crate::sync::{Mutex, lock};
use crate::time::Clock;

pub(super) struct Origins {
    gates: Mutex<HashMap<String, Gate>>,
    max: usize,
    pub(super) clock: Clock,
}

impl Origins {
    pub(super) fn new(max: usize, clock: Clock) -> Self {
        let gates = Mutex::new(HashMap::new());
        Self { gates, max, clock }
    }

    pub(super) fn max(&self) -> usize {
        self.max
    }

    /// Returns the gate of an origin if it is blocked now.
    pub(super) fn blocked(&self, origin: &str) -> Option<Gate> {
        let gate = lock(&self.gates).get(origin).cloned();
        gate.filter(|gate| !gate.is_open())
    }

    /// Blocks the gate of an origin, and returns it.
    pub(super) fn block(&self, origin: &str, duration: Duration) -> Gate {
        let mut evicted = None;
        let mut gates = lock(&self.gates);
        if gates.len() >= self.max && !gates.contains_key(origin) {
            // Those that are open come first, because `None` is less than any tick.
            let first = gates.iter().min_by_key(|(_, gate)| gate.blocked_until());
            let first = first.map(|(origin, _)| origin.clone());
            evicted = first.and_then(|origin| gates.remove_entry(&origin));
        }
        let new = || Gate::new().clock(&self.clock);
        let gate = gates.entry(origin.to_owned()).or_insert_with(new).clone();
        gate.block_for(duration);
        drop(gates);
        drop(evicted);
        gate
    }
}

/// Returns the origin of a request: scheme, host and port, in lower case, with the default port of
/// the scheme if there is none.
pub(super) fn origin(uri: &Uri) -> String {
    let (scheme, host) = (uri.scheme_str(), uri.host());
    let default_port = match uri.scheme() {
        Some(scheme) if *scheme == Scheme::HTTP => Some(80),
        Some(scheme) if *scheme == Scheme::HTTPS => Some(443),
        _ => None,
    };
    let mut origin = format!(
        "{}://{}",
        scheme.unwrap_or_default(),
        host.unwrap_or_default()
    );
    if let Some(port) = uri.port_u16().or(default_port) {
        let _ = write!(origin, ":{port}");
    }
    origin.make_ascii_lowercase();
    origin
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn origin_is_scheme_host_and_port() {
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
            ("example.com:443", "://example.com:443"),
            ("/a", "://"),
            ("*", "://"),
        ];
        for (uri, expected) in cases {
            let uri = uri.parse().expect("a URI");
            assert_eq!(origin(&uri), expected, "{uri}");
        }
    }

    #[test]
    fn block_of_a_new_origin_evicts_the_gate_that_opens_first() {
        let clock = Clock::manual();
        let origins = Origins::new(2, Clock::from(&clock));
        let waits = |origin| origins.blocked(origin).is_some();
        origins.block("a", 3 * SECOND);
        let evicted = origins.block("b", 2 * SECOND);
        // One that is there already has room.
        origins.block("a", 4 * SECOND);
        assert!(waits("a") && waits("b"));

        origins.block("c", SECOND);
        assert!(waits("a") && !waits("b") && waits("c"));
        assert!(!evicted.is_open());

        // An open one first.
        clock.advance(SECOND);
        assert!(!waits("c"));
        origins.block("d", 5 * SECOND);
        assert!(waits("a") && waits("d"));
        assert_eq!(lock(&origins.gates).len(), 2);
        clock.advance(3 * SECOND);
        assert!(!waits("a") && waits("d"));
    }
}
