//! Servers that count, written in the most obvious way.

use std::collections::VecDeque;

use crate::{Counts, MINUTE, Nanos, World};

/// A server with a quota per minute.
pub(crate) struct Server {
    counts: Counts,
    quota: u64,
    /// The capacity of a bucket.
    most: u64,
    /// For a fixed window: where its windows begin.
    offset: Nanos,
    window: u64,
    count: u64,
    /// For a bucket: the tokens, in nanoseconds of a minute each, and the time of that count. Below zero,
    /// there are debts from requests that always pass.
    tokens: i128,
    at: Nanos,
    /// For a log: the arrivals of the last minute.
    log: VecDeque<Nanos>,
}

/// The answer of a server to a request.
#[derive(Clone, Copy, Default)]
pub(crate) struct Said {
    pub(crate) admitted: bool,
    pub(crate) remaining: u64,
    pub(crate) reset_after: Nanos,
    pub(crate) retry_after: Nanos,
}

impl Server {
    pub(crate) fn new(world: &World) -> Self {
        Self {
            counts: world.counts,
            quota: world.quota,
            most: world.most(),
            // Not where the windows of an uninformed limiter begin.
            offset: 17_300_000_000,
            window: 0,
            count: 0,
            tokens: i128::from(world.most()) * i128::from(MINUTE),
            at: 0,
            log: VecDeque::new(),
        }
    }

    /// Counts a request if there is room, and returns what remains.
    pub(crate) fn ask(&mut self, now: Nanos) -> Said {
        let admitted = self.remaining(now) > 0;
        if admitted {
            self.count(now);
        }
        Said {
            admitted,
            remaining: self.remaining(now),
            reset_after: self.reset(now) - now,
            retry_after: self.next(now) - now,
        }
    }

    /// Counts a request of others, with or without room.
    pub(crate) fn count(&mut self, now: Nanos) {
        self.pass(now);
        match self.counts {
            Counts::Window => self.count += 1,
            Counts::Bucket => self.tokens -= i128::from(MINUTE),
            Counts::Log => self.log.push_back(now),
        }
    }

    pub(crate) fn remaining(&mut self, now: Nanos) -> u64 {
        self.pass(now);
        match self.counts {
            Counts::Window => self.quota.saturating_sub(self.count),
            Counts::Bucket => (self.tokens.max(0) / i128::from(MINUTE)) as u64,
            Counts::Log => self.quota.saturating_sub(self.log.len() as u64),
        }
    }

    /// Returns when the next request is admitted if none is now, and otherwise when one more remains.
    pub(crate) fn next(&mut self, now: Nanos) -> Nanos {
        self.pass(now);
        match self.counts {
            Counts::Window => self.reset(now),
            Counts::Bucket => {
                let token = i128::from(MINUTE);
                let lacking = if self.tokens < 0 {
                    token - self.tokens
                } else {
                    token - self.tokens % token
                };
                now + (lacking / i128::from(self.quota)) as Nanos + 1
            }
            Counts::Log => {
                let over = (self.log.len() as u64).saturating_sub(self.quota);
                // Nothing leaves an empty log.
                let leaves = self.log.get(over as usize).copied();
                leaves.unwrap_or(now) + MINUTE
            }
        }
    }

    /// Returns when the window ends, or when all is available.
    fn reset(&mut self, now: Nanos) -> Nanos {
        match self.counts {
            Counts::Window => (self.window + 1) * MINUTE - self.offset,
            Counts::Bucket => {
                let full = i128::from(self.most) * i128::from(MINUTE);
                now + ((full - self.tokens) / i128::from(self.quota)) as Nanos
            }
            Counts::Log => self.log.back().map_or(now, |at| at + MINUTE),
        }
    }

    fn pass(&mut self, now: Nanos) {
        match self.counts {
            Counts::Window => {
                let window = (now + self.offset) / MINUTE;
                if window != self.window {
                    (self.window, self.count) = (window, 0);
                }
            }
            Counts::Bucket => {
                let full = i128::from(self.most) * i128::from(MINUTE);
                let refilled = i128::from(self.quota) * i128::from(now - self.at);
                (self.tokens, self.at) = (full.min(self.tokens + refilled), now);
            }
            Counts::Log => {
                let is_past = |at: &Nanos| at + MINUTE <= now;
                while self.log.front().is_some_and(is_past) {
                    self.log.pop_front();
                }
            }
        }
    }
}
