//! Microseconds of the clock that all processes of a machine share, the server's too.

use std::time::{Duration, SystemTime};

pub(crate) fn now() -> u64 {
    of(SystemTime::now())
}

pub(crate) fn of(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    micros(since.unwrap_or_default())
}

pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// How long it is until then.
pub(crate) fn until(micros: u64) -> Duration {
    Duration::from_micros(micros.saturating_sub(now()))
}

pub(crate) fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}
