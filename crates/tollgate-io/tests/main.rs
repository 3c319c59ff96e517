//! Bytes and streams behind a throttle.

mod bytes;
#[cfg(feature = "net")]
mod listener;
#[cfg(feature = "stream")]
mod stream;
#[path = "../../../tests/support/mod.rs"]
mod support;

use std::sync::Arc;

use support::scenarios::Words;
use tollgate::rate::Oversize;
use tollgate::time::ManualClock;
use tollgate::{Clock, Quota, RateLimiter};

/// The limiter of a row, and its clock.
struct Limits {
    limiter: Arc<RateLimiter>,
    clock: ManualClock,
}

impl Limits {
    /// Creates the limiter of a set-up; `other` takes the words that are not about the limiter:
    ///
    /// - `of RATE BURST`: the quota, in place of 1,000 per second and 1,000;
    /// - `left N`: so much of the burst remains;
    /// - `queue N`: so many may wait; `overdraft`: a request above the burst is allowed.
    fn new(setup: &str, mut other: impl FnMut(&str, &mut Words<'_>)) -> Self {
        let clock = Clock::manual();
        let mut limiter = RateLimiter::new(Quota::per_second(1000).burst(1000)).clock(&clock);
        let (mut words, mut left) = (Words::new(setup), None);
        while let Some(word) = words.maybe::<String>() {
            match word.as_str() {
                "of" => {
                    let quota = Quota::per_second(words.parse()).burst(words.parse());
                    limiter = RateLimiter::new(quota).clock(&clock);
                }
                "left" => left = Some(words.parse()),
                "queue" => limiter = limiter.max_waiters(words.parse()),
                "overdraft" => limiter = limiter.oversize(Oversize::Overdraft),
                word => other(word, &mut words),
            }
        }
        let limits = Self {
            limiter: limiter.into(),
            clock,
        };
        if let Some(left) = left {
            limits.leave(left);
        }
        limits
    }

    /// Charges the limiter so that `left` remains.
    fn leave(&self, left: u64) {
        self.limiter
            .charge(self.limiter.snapshot().available - left);
    }

    /// Does a call that is not about an adapter:
    ///
    /// - `left`: the capacity that remains; `waiting`: how many wait;
    /// - `pass TIME`, `leave N`, `close`, `quota RATE BURST` and `unlimited`.
    fn call(&self, name: &str, words: &mut Words<'_>) -> String {
        match name {
            "left" => return self.limiter.snapshot().available.to_string(),
            "waiting" => return self.limiter.snapshot().waiting.to_string(),
            "pass" => self.clock.advance(words.time()),
            "leave" => self.leave(words.parse()),
            "close" => self.limiter.close(),
            "quota" => {
                let quota = Quota::per_second(words.parse()).burst(words.parse());
                self.limiter.set_quota(quota);
            }
            "unlimited" => self.limiter.set_quota(Quota::UNLIMITED),
            name => panic!("no call: {name}"),
        }
        String::new()
    }
}

/// Joins numbers by blanks.
fn listed<N: ToString>(numbers: &[N]) -> String {
    let numbers: Vec<_> = numbers.iter().map(N::to_string).collect();
    numbers.join(" ")
}
