//! The worlds: what counts, how long an answer takes, and who else is there.

use std::fmt::{self, Display};
use std::time::Duration;

use tollgate::{Algorithm, Quota, RateLimiter};

pub(crate) type Nanos = u64;

pub(crate) const SECOND: Nanos = 1_000_000_000;

pub(crate) const MINUTE: Nanos = 60 * SECOND;

/// How a server counts.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Counts {
    Window,
    Bucket,
    Log,
}

/// How long an answer takes. The way to the server is a small part of it.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Latency {
    Constant(Nanos),
    /// Log-uniform, from 50 ms to 30 s.
    Spread,
}

/// Who else uses the quota. Together they take half of it, whatever remains.
#[derive(Clone, Copy)]
pub(crate) enum Others {
    Nobody,
    /// Evenly, up to a tenth earlier or later.
    Steady,
    /// A twelfth of the quota at once, each 5 to 15 seconds.
    Bursts,
}

#[derive(Clone, Copy)]
pub(crate) struct World {
    pub(crate) counts: Counts,
    /// A minute.
    pub(crate) quota: u64,
    /// What a bucket holds, in percent of the quota.
    pub(crate) percent: u64,
    pub(crate) latency: Latency,
    pub(crate) others: Others,
}

impl World {
    /// All of them.
    pub(crate) fn all() -> Vec<Self> {
        let servers = [
            (Counts::Window, 100),
            (Counts::Log, 100),
            (Counts::Bucket, 10),
            (Counts::Bucket, 100),
        ];
        let latencies = [
            Latency::Constant(SECOND / 20),
            Latency::Constant(5 * SECOND),
            Latency::Spread,
        ];
        let mut worlds = Vec::new();
        for (counts, percent) in servers {
            for quota in [60, 500, 5000] {
                for latency in latencies {
                    for others in [Others::Nobody, Others::Steady, Others::Bursts] {
                        worlds.push(Self {
                            counts,
                            quota,
                            percent,
                            latency,
                            others,
                        });
                    }
                }
            }
        }
        worlds
    }

    /// The most that is available at once.
    pub(crate) fn most(&self) -> u64 {
        self.quota * self.percent / 100
    }

    /// Returns a limiter that counts as the server does, with `part` of its count less, and at least `least`,
    /// for others who come while an answer is under way. It is slower by what the ways to the server differ:
    /// a request may arrive up to 20 ms sooner after it was sent than the one whose place it takes. A window
    /// ends when the server says so.
    pub(crate) fn limiter(&self, part: u64, least: u64) -> RateLimiter {
        let less = |count: u64| count - (count / part).max(least);
        let slower = match self.counts {
            Counts::Window => 0,
            Counts::Bucket | Counts::Log => MINUTE / 1000,
        };
        let quota = Quota::new(less(self.quota), Duration::from_nanos(MINUTE + slower));
        let (quota, algorithm) = match self.counts {
            Counts::Window => (quota, Algorithm::FixedWindow),
            Counts::Bucket => (quota.burst(less(self.most())), Algorithm::Gcra),
            Counts::Log => (quota, Algorithm::SlidingLog),
        };
        RateLimiter::new(quota).algorithm(algorithm)
    }
}

impl Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.counts {
            Counts::Window => write!(f, "window")?,
            Counts::Log => write!(f, "log")?,
            Counts::Bucket => write!(f, "bucket {} %", self.percent)?,
        }
        write!(f, " {}/min, ", self.quota)?;
        match self.latency {
            Latency::Constant(latency) => write!(f, "{} ms", latency * 1000 / SECOND)?,
            Latency::Spread => write!(f, "50 ms..30 s")?,
        }
        f.write_str(match self.others {
            Others::Nobody => ", alone",
            Others::Steady => ", steady",
            Others::Bursts => ", bursts",
        })
    }
}
