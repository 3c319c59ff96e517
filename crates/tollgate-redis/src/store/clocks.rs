//! [`ServerClocks`]: the times of the servers' clocks, as known from replies, so that a call can carry the
//! deadline of its execution.
//!
//! When a server that was stopped continues, it executes the calls that it had received, although their
//! callers have left. A call with a deadline in the server's own time is refused then, whichever connection or
//! process it came from.
//!
//! 1. A reply tells the time at which the call was executed, which was after the call was sent. So the
//!    time that is calculated from it is never too early, and too late by at most a round trip, unless
//!    the clock has changed since.
//! 2. If the clock was set forward, is not known yet, or has gained more than the deadline of a call
//!    since the last reply, the first call is refused. Its reply tells the time, and the call is
//!    repeated. If the clock was set back, calls are executed later than they
//!    should be, until the next reply.
//!
//! Each slot of a cluster has its own entry, because it may be on another node. Times are arguments:
//! nothing here reads a clock.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::script::micros;
use crate::sync::{Mutex, lock};

#[derive(Debug, Default)]
pub(super) struct ServerClocks {
    /// A microsecond of the clock of each part, and the time here that is not after it.
    parts: Mutex<HashMap<u16, (u64, Instant)>>,
}

impl ServerClocks {
    /// Records that a call that was sent at `sent` was executed in the microsecond `now`.
    pub(super) fn learn(&self, part: u16, now: u64, sent: Instant) {
        lock(&self.parts).insert(part, (now, sent));
    }

    /// Returns the last microsecond in which a call that is sent at `sent` is executed before
    /// `deadline` has passed; 0 if the clock is not known.
    pub(super) fn last(&self, part: u16, sent: Instant, deadline: Duration) -> u64 {
        let known = lock(&self.parts).get(&part).copied();
        known.map_or(0, |(now, then)| {
            let passed = sent.saturating_duration_since(then);
            now.saturating_add(micros(passed.saturating_add(deadline)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn last_of_an_unknown_part_is_zero_and_of_others_never_too_early() {
        let (clocks, start) = (ServerClocks::default(), Instant::now());
        assert_eq!(clocks.last(1, start, SECOND), 0);
        // Sent at 0, executed at 700 ms, which was 10 s on the server.
        clocks.learn(1, 10_000_000, start);
        let sent = start + 5 * SECOND;
        let truth = 10_000_000 - 700_000 + 5_000_000 + 1_000_000;
        assert_eq!(clocks.last(1, sent, SECOND), truth + 700_000);
        assert_eq!(clocks.last(2, sent, SECOND), 0);
        // The last reply counts, also after the clock was set back.
        clocks.learn(1, 3_000_000, sent);
        assert_eq!(clocks.last(1, sent, SECOND), 4_000_000);
        // Exact in a script, with any deadline.
        assert!(clocks.last(1, sent, Duration::MAX) < 1 << 53);
    }
}
