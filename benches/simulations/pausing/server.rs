//! Servers.

use std::fmt::{self, Display};

use tollgate_http::ResponseClass;

/// The answer to a request: the status, what it means, and the seconds until it comes.
pub(crate) type Answer = (u16, ResponseClass, f64);

/// A field of a refusal that says how long to wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Field {
    No,
    /// In whole seconds, rounded up.
    Ceil,
    /// In whole seconds, rounded down: it may be zero.
    Floor,
}

impl Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::No => "no field",
            Self::Ceil => "field rounded up",
            Self::Floor => "field rounded down",
        })
    }
}

pub(crate) trait Server {
    /// Answers a request at a time in seconds. `path` is a random number from 0 to 1.
    fn answer(&mut self, now: f64, path: f64) -> Answer;

    /// The head of an answer has left.
    fn done(&mut self, _status: u16) {}
}

fn refused(field: Field, wait: f64, latency: f64) -> Answer {
    let asked = match field {
        Field::No => None,
        Field::Ceil => Some(wait.ceil()),
        Field::Floor => Some(wait.floor()),
    };
    let asked = asked.map(std::time::Duration::from_secs_f64);
    (429, ResponseClass::Refused(asked), latency)
}

/// A token bucket.
pub(crate) struct Bucket {
    rate: f64,
    burst: f64,
    left: f64,
    at: f64,
    field: Field,
    latency: f64,
}

impl Bucket {
    pub(crate) fn new(rate: f64, burst: f64, field: Field, latency: f64) -> Self {
        Self {
            rate,
            burst,
            left: burst,
            at: 0.0,
            field,
            latency,
        }
    }
}

impl Server for Bucket {
    fn answer(&mut self, now: f64, _path: f64) -> Answer {
        self.left = self.burst.min(self.left + (now - self.at) * self.rate);
        self.at = now;
        if self.left >= 1.0 {
            self.left -= 1.0;
            (200, ResponseClass::Success, self.latency)
        } else {
            refused(self.field, (1.0 - self.left) / self.rate, self.latency)
        }
    }
}

/// So many requests in each window.
pub(crate) struct Window {
    count: u32,
    seconds: f64,
    field: Field,
    latency: f64,
    window: f64,
    used: u32,
}

impl Window {
    pub(crate) fn new(count: u32, seconds: f64, field: Field, latency: f64) -> Self {
        Self {
            count,
            seconds,
            field,
            latency,
            window: -1.0,
            used: 0,
        }
    }
}

impl Server for Window {
    fn answer(&mut self, now: f64, _path: f64) -> Answer {
        let window = (now / self.seconds).floor();
        if window != self.window {
            (self.window, self.used) = (window, 0);
        }
        if self.used < self.count {
            self.used += 1;
            (200, ResponseClass::Success, self.latency)
        } else {
            refused(
                self.field,
                (window + 1.0) * self.seconds - now,
                self.latency,
            )
        }
    }
}

/// So many requests at once.
pub(crate) struct Slots {
    pub(crate) count: u32,
    pub(crate) busy: u32,
    pub(crate) latency: f64,
}

impl Server for Slots {
    fn answer(&mut self, _now: f64, _path: f64) -> Answer {
        if self.busy >= self.count {
            return (429, ResponseClass::Refused(None), 0.02);
        }
        self.busy += 1;
        (200, ResponseClass::Success, self.latency)
    }

    fn done(&mut self, status: u16) {
        self.busy -= u32::from(status == 200);
    }
}

/// A healthy server that refuses from one time to another, and answers with another status from then on.
pub(crate) struct Outage {
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) refusal: (u16, ResponseClass),
    pub(crate) after: u16,
    pub(crate) latency: f64,
}

impl Server for Outage {
    fn answer(&mut self, now: f64, _path: f64) -> Answer {
        if (self.from..self.to).contains(&now) {
            return (self.refusal.0, self.refusal.1, self.latency);
        }
        let status = if now < self.from { 200 } else { self.after };
        (status, ResponseClass::Success, self.latency)
    }
}

/// A server one of whose paths answers differently.
pub(crate) struct Path<S> {
    pub(crate) share: f64,
    pub(crate) path: S,
    pub(crate) latency: f64,
}

impl<S: Server> Server for Path<S> {
    fn answer(&mut self, now: f64, path: f64) -> Answer {
        if path < self.share {
            self.path.answer(now, path)
        } else {
            (200, ResponseClass::Success, self.latency)
        }
    }
}
