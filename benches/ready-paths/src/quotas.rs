//! Quotas that allow or refuse every call of a benchmark.

use std::time::Duration;

use tollgate::Quota;

/// Never exhausted: a burst of a second, and a refill faster than any decision. A token is not a whole
/// number of nanoseconds, which is the slower path of a `RateLimiter`.
pub const PLENTY: Quota = Quota::per_second(900_000_000).burst(1_000_000_000);

/// The same, where a token is a whole number of nanoseconds.
pub const PLENTY_EVEN: Quota = Quota::per_second(1_000_000_000).burst(1_000_000_000);

/// More than callers can take from a log: it has come back before it is used up.
pub const PLENTY_LOGGED: Quota = Quota::new(1_000, Duration::from_micros(2)).burst(1_000);

/// Exhausted by the first call, for an hour.
pub const SCARCE: Quota = Quota::per_hour(1);

/// Used up; even a single token comes back only after most of an hour.
pub const SCARCE_LOGGED: Quota = Quota::new(1_000, Duration::from_secs(30 * 86_400)).burst(1_000);
