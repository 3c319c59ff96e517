//! Stores the gates of the origins that have asked for a pause, in bounded memory.
//!
//! 1. An origin has a gate while its pause lasts, so most clients have no gate at all. A gate leaves the
//!    table after it has opened: each request that finds gates in the table drops up to [`DROPPED`] open
//!    ones, and a request that finds none takes no lock.
//! 2. The lock guards the table. A gate is blocked under it, so that no eviction can happen in
//!    between. Only the code of the table and of the gate runs under it, and no waker is called. The work
//!    under it is logarithmic in the number of gates, even while the table grows: hence the ordered maps.
//! 3. A request that waits has a handle of its gate, and does not notice the eviction. It checks the
//!    table again when its gate has opened.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Uri;
use http::uri::Scheme;

use tollgate::time::Tick;
use tollgate::{Clock, Gate};

/// More than one open gate is dropped per request, so that the table shrinks while new origins join.
const DROPPED: usize = 2;

/// The gates of the origins that have asked for a pause.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::Clock;
/// use tollgate_http::Origins;
///
/// let clock = Clock::manual();
/// let origins = Origins::new(1024, Clock::from(&clock));
/// origins.block("https://example.com:443", Duration::from_secs(5), Duration::ZERO);
/// assert!(origins.blocked("https://example.com:443").is_some());
/// clock.advance(Duration::from_secs(5));
/// assert!(origins.blocked("https://example.com:443").is_none());
/// ```
pub struct Origins {
    table: Mutex<Table>,
    /// The number of gates. It is written under the lock, and publishes no other data.
    len: AtomicUsize,
    max: usize,
    clock: Clock,
}

/// Locks the table. No foreign code runs under the lock, so no panic leaves it half changed.
fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The gates of the origins. Each gate is in both maps.
#[derive(Default)]
struct Table {
    gates: BTreeMap<Arc<str>, (Tick, Gate)>,
    by_opening: BTreeMap<(Tick, Arc<str>), Gate>,
}

impl Origins {
    /// Creates a table for at most `max` gates, whose pauses end by this clock.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    pub fn new(max: usize, clock: Clock) -> Self {
        Self {
            table: Mutex::new(Table::default()),
            len: AtomicUsize::new(0),
            max,
            clock,
        }
    }

    /// Returns the maximum number of gates.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    pub fn max(&self) -> usize {
        self.max
    }

    /// Returns the clock of the pauses.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the gate of an origin if it is blocked now.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    pub fn blocked(&self, origin: &str) -> Option<Gate> {
        if self.len.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut table = lock(&self.table);
        let gate = table.gates.get(origin).map(|(_, gate)| gate.clone());
        let dropped = table.drop_open();
        self.len.store(table.gates.len(), Ordering::Relaxed);
        drop(table);
        drop(dropped);
        gate.filter(|gate| !gate.is_open())
    }

    /// Blocks the gate of an origin for the wait and the jitter, unless it is already blocked for the
    /// wait, and returns it. So all answers of one moment, and an answer that two layers see, share one
    /// jitter. If the table is full, the gate that opens first is evicted.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    pub fn block(&self, origin: &str, wait: Duration, jitter: Duration) -> Gate {
        let mut evicted = None;
        let mut table = lock(&self.table);
        let known = table.remove(origin);
        let gate = known.unwrap_or_else(|| Gate::new().clock(&self.clock));
        let asked = self.clock.now().saturating_add(wait);
        if gate.blocked_until() < Some(asked) {
            gate.block_for(wait.saturating_add(jitter));
        }
        let dropped = table.drop_open();
        if let Some(until) = gate.blocked_until() {
            if table.gates.len() >= self.max {
                evicted = table.pop_if(|_| true);
            }
            table.insert(origin, until, gate.clone());
        }
        self.len.store(table.gates.len(), Ordering::Relaxed);
        drop(table);
        drop((dropped, evicted));
        gate
    }
}

impl Table {
    fn insert(&mut self, origin: &str, until: Tick, gate: Gate) {
        let origin = Arc::<str>::from(origin);
        let key = (until, Arc::clone(&origin));
        self.by_opening.insert(key, gate.clone());
        self.gates.insert(origin, (until, gate));
    }

    fn remove(&mut self, origin: &str) -> Option<Gate> {
        let (origin, (until, gate)) = self.gates.remove_entry(origin)?;
        self.by_opening.remove(&(until, origin));
        Some(gate)
    }

    /// Removes the gate that opens first if `condition` holds for it.
    fn pop_if(&mut self, condition: impl Fn(&Gate) -> bool) -> Option<Gate> {
        let first = self.by_opening.first_entry();
        let first = first.filter(|first| condition(first.get()))?;
        let ((_, origin), gate) = first.remove_entry();
        self.gates.remove(&origin);
        Some(gate)
    }

    /// Removes open gates. The caller drops them after the lock.
    fn drop_open(&mut self) -> [Option<Gate>; DROPPED] {
        [(); DROPPED].map(|()| self.pop_if(Gate::is_open))
    }
}

/// Returns the origin of a request: scheme, host and port, in lower case, with the default port of
/// the scheme if the URI has none.
///
/// # Examples
///
/// ```
/// let uri = "https://Example.com/page".parse()?;
/// assert_eq!(tollgate_http::origin(&uri), "https://example.com:443");
/// # Ok::<_, http::uri::InvalidUri>(())
/// ```
pub fn origin(uri: &Uri) -> String {
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
    use tollgate::time::ManualClock;

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

    impl Origins {
        /// Blocks without jitter.
        fn block_exactly(&self, origin: &str, wait: Duration) -> Gate {
            self.block(origin, wait, Duration::ZERO)
        }
    }

    fn origins(max: usize) -> (Origins, ManualClock) {
        let clock = Clock::manual();
        (Origins::new(max, Clock::from(&clock)), clock)
    }

    /// Returns the number of gates. It checks that both maps have the same gates and that the number is published.
    fn gates(origins: &Origins) -> usize {
        let table = lock(&origins.table);
        let ordered = table
            .by_opening
            .keys()
            .map(|(until, origin)| (origin, until));
        let mut ordered: Vec<_> = ordered.collect();
        ordered.sort();
        let gates = table
            .gates
            .iter()
            .map(|(origin, (until, _))| (origin, until));
        assert_eq!(gates.collect::<Vec<_>>(), ordered);
        assert_eq!(origins.len.load(Ordering::Relaxed), ordered.len());
        ordered.len()
    }

    #[test]
    fn block_of_a_new_origin_evicts_the_gate_that_opens_first() {
        let (origins, clock) = origins(2);
        let waits = |origin| origins.blocked(origin).is_some();
        origins.block_exactly("a", 3 * SECOND);
        let evicted = origins.block_exactly("b", 2 * SECOND);
        // An origin that already has a gate needs no more space.
        origins.block_exactly("a", 4 * SECOND);
        assert!(waits("a") && waits("b"));

        origins.block_exactly("c", SECOND);
        assert!(waits("a") && !waits("b") && waits("c"));
        assert!(!evicted.is_open());

        // An open gate leaves, and none is evicted.
        clock.advance(SECOND);
        assert!(!waits("c"));
        origins.block_exactly("d", 5 * SECOND);
        assert!(waits("a") && waits("d"));
        assert_eq!(gates(&origins), 2);
        clock.advance(3 * SECOND);
        assert!(!waits("a") && waits("d"));
    }

    #[test]
    fn block_after_pauses_end_drops_two_open_gates_for_each_new_one() {
        let (origins, clock) = origins(100);
        for origin in 0..100 {
            origins.block_exactly(&origin.to_string(), SECOND);
        }
        assert_eq!(gates(&origins), 100);
        clock.advance(SECOND);
        for left in (50..100).rev() {
            origins.block_exactly(&format!("new {left}"), SECOND);
            assert_eq!(gates(&origins), left);
        }
    }

    #[test]
    fn blocked_after_pauses_end_drops_two_open_gates() {
        let (origins, clock) = origins(100);
        for origin in 0..100 {
            origins.block_exactly(&origin.to_string(), SECOND);
        }
        clock.advance(SECOND);
        for left in (0..50).rev() {
            assert!(origins.blocked("other").is_none());
            assert_eq!(gates(&origins), 2 * left);
        }
    }

    #[test]
    fn block_for_a_wait_that_the_gate_covers_adds_no_jitter() {
        let (origins, clock) = origins(1);
        let blocked = |wait, jitter| {
            let gate = origins.block("a", wait * SECOND, jitter * SECOND);
            gate.blocked_until().expect("blocked").as_nanos() / 1_000_000_000
        };
        assert_eq!(blocked(10, 1), 11);
        assert_eq!(blocked(10, 5), 11);
        clock.advance(SECOND);
        assert_eq!(blocked(10, 9), 11);
        clock.advance(SECOND);
        assert_eq!(blocked(10, 3), 15);
    }

    /// If it took the lock, it would not return, because the test already holds the lock.
    #[test]
    fn blocked_without_gates_takes_no_lock() {
        let (origins, clock) = origins(1);
        let free = || {
            let _table = lock(&origins.table);
            origins.blocked("a").is_none()
        };
        assert!(free());
        origins.block_exactly("a", SECOND);
        clock.advance(SECOND);
        assert!(origins.blocked("b").is_none());
        assert!(free());
    }

    #[test]
    fn block_for_no_time_takes_no_room() {
        let (origins, _clock) = origins(1);
        origins.block_exactly("a", SECOND);
        assert!(origins.block_exactly("b", Duration::ZERO).is_open());
        assert!(!origins.block_exactly("a", Duration::ZERO).is_open());
        assert!(origins.blocked("a").is_some() && gates(&origins) == 1);
    }

    /// The model is a list of the current pauses, which is searched from end to end.
    #[test]
    fn random_pauses_block_what_a_list_of_them_says() {
        const MAX: usize = 5;
        let mut state = 7_u64;
        let mut next = |bound| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % bound
        };
        let (origins, clock) = origins(MAX);
        let mut pauses: Vec<(Tick, String)> = Vec::new();
        let (mut evicted, mut most) = (0, 0);
        for _ in 0..100_000 {
            let origin = next(12).to_string();
            pauses.retain(|(until, _)| *until > clock.now());
            let known = pauses.iter().position(|(_, known)| *known == origin);
            match next(3) {
                0 => clock.advance(Duration::from_secs(next(3))),
                1 => assert_eq!(origins.blocked(&origin).is_some(), known.is_some()),
                _ => {
                    let wait = Duration::from_secs(next(9));
                    let until = clock.now().saturating_add(wait);
                    let gate = origins.block_exactly(&origin, wait);
                    let until = known.map_or(until, |known| pauses.swap_remove(known).0.max(until));
                    assert_eq!(
                        gate.blocked_until(),
                        Some(until).filter(|_| until > clock.now())
                    );
                    if until > clock.now() {
                        if pauses.len() == MAX {
                            let first = (0..MAX).min_by_key(|at| &pauses[*at]);
                            pauses.swap_remove(first.expect("a pause"));
                            evicted += 1;
                        }
                        pauses.push((until, origin));
                    }
                }
            }
            most = most.max(gates(&origins));
        }
        assert!(most == MAX && evicted > 1000, "{most}, {evicted}");
    }
}
