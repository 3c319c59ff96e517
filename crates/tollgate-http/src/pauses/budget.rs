//! [`Budget`]: bounds the repeats to an origin, as in Finagle and the SDKs of AWS.
//!
//! Each call of a client gives back a tenth of a repeat, and each second a whole one.

use tollgate::time::Tick;

/// The most repeats at once.
const MOST: u64 = 100;

/// What one repeat takes: the nanoseconds in which it comes back.
const REPEAT: u64 = 1_000_000_000;

/// What one call gives back.
const CALL: u64 = REPEAT / 10;

/// The repeats that may still be sent to an origin. It is full at the start.
#[derive(Default)]
pub(super) struct Budget {
    /// The missing part, in nanoseconds.
    missing: u64,
    /// The number of calls, which wraps, and the tick when it was last computed.
    calls: u32,
    at: Tick,
}

impl Budget {
    /// Takes a repeat, if there is one. `calls` is the number of calls until now.
    pub(super) fn take(&mut self, calls: u32, now: Tick) -> bool {
        let by_calls = u64::from(calls.wrapping_sub(self.calls)) * CALL;
        let by_time = now.as_nanos().saturating_sub(self.at.as_nanos());
        let missing = self
            .missing
            .saturating_sub(by_calls.saturating_add(by_time));
        let is_left = missing + REPEAT <= MOST * REPEAT;
        self.missing = if is_left { missing + REPEAT } else { missing };
        (self.calls, self.at) = (calls, self.at.max(now));
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn take_is_bounded_and_comes_back_with_calls_and_time() {
        let mut budget = Budget::default();
        let at = |millis: u64| Tick::from_nanos(millis * 1_000_000);
        for _ in 0..100 {
            assert!(budget.take(0, at(0)));
        }
        assert!(!budget.take(9, at(0)));
        // Ten calls since the start.
        assert!(budget.take(10, at(0)));
        assert!(!budget.take(10, at(999)));
        assert!(budget.take(10, at(1000)));
        // A part of a second is not lost.
        assert!(!budget.take(15, at(1499)));
        assert!(budget.take(15, at(1500)));
    }
}
