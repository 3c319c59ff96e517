//! When the store could answer.
//!
//! From the time of the whole run is taken each fault by which it could not, and as long after it
//! as clients are promised to need until they are back. What is left is what the fleet must have
//! used.

use crate::time::seconds;

/// In microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outage {
    pub(crate) from: u64,
    /// Everybody is back by then.
    pub(crate) to: u64,
}

/// Times, one after the other, that do not overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Uptime {
    pub(crate) times: Vec<(u64, u64)>,
    begin: u64,
    end: u64,
}

impl Uptime {
    pub(crate) fn new(begin: u64, end: u64, outages: &[Outage]) -> Self {
        let mut outages = outages.to_vec();
        outages.sort_unstable_by_key(|outage| outage.from);
        let (mut times, mut from) = (Vec::new(), begin);
        for outage in outages {
            if outage.from > from {
                times.push((from, outage.from.min(end)));
            }
            from = from.max(outage.to);
        }
        if from < end {
            times.push((from, end));
        }
        times.retain(|(from, to)| from < to);
        Self { times, begin, end }
    }

    /// Whether there was no outage at the beginning.
    pub(crate) fn is_from_the_first(&self) -> bool {
        self.times
            .first()
            .is_some_and(|(from, _)| *from == self.begin)
    }

    pub(crate) fn contains(&self, micros: u64) -> bool {
        let after = self.times.partition_point(|(from, _)| *from <= micros);
        after > 0 && micros < self.times[after - 1].1
    }

    /// How much of an interval is in it.
    pub(crate) fn shared(&self, from: u64, to: u64) -> u64 {
        let times = self.times.iter();
        times
            .map(|(start, end)| to.min(*end).saturating_sub(from.max(*start)))
            .sum()
    }

    pub(crate) fn micros(&self) -> u64 {
        self.times.iter().map(|(from, to)| to - from).sum()
    }
}

/// How much was used of what there was, and how much must have been.
#[derive(Clone, Debug)]
pub(crate) struct Used {
    /// Of what: "admissions", "permit seconds".
    pub(crate) what: &'static str,
    pub(crate) used: f64,
    pub(crate) promised: f64,
    /// The least part of it.
    pub(crate) share: f64,
    pub(crate) up: f64,
    pub(crate) whole: f64,
}

impl Used {
    pub(crate) fn new(
        what: &'static str,
        used: f64,
        promised: f64,
        share: f64,
        uptime: &Uptime,
    ) -> Self {
        Self {
            what,
            used,
            promised,
            share,
            up: seconds(uptime.micros()),
            whole: seconds(uptime.end - uptime.begin),
        }
    }

    /// Where nothing was promised nothing was seen either.
    pub(crate) fn is_enough(&self) -> bool {
        self.promised > 0.0 && self.used >= self.share * self.promised
    }
}

impl std::fmt::Display for Used {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "used: {:.1} of {:.1} {} in the {:.3} of {:.3} s in which the store could answer: \
             {:.1} %, of at least {:.0} %: {}",
            self.used,
            self.promised,
            self.what,
            self.up,
            self.whole,
            100.0 * self.used / self.promised,
            100.0 * self.share,
            if self.is_enough() {
                "enough"
            } else {
                "NOT USED: less was let go than was promised"
            }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_between_the_outages() {
        let outage = |from, to| Outage { from, to };
        let uptime = Uptime::new(
            10,
            100,
            &[
                outage(50, 60),
                outage(20, 30),
                outage(25, 40),
                outage(95, 120),
            ],
        );
        assert_eq!(uptime.times, [(10, 20), (40, 50), (60, 95)]);
        assert_eq!(uptime.micros(), 55);
        let inside = [10, 19, 40, 94].map(|micros| uptime.contains(micros));
        assert_eq!(inside, [true; 4]);
        let outside = [9, 20, 39, 50, 95, 200].map(|micros| uptime.contains(micros));
        assert_eq!(outside, [false; 6]);
        assert_eq!(uptime.shared(15, 65), 5 + 10 + 5);
        assert_eq!(Uptime::new(10, 100, &[outage(0, 200)]).times, []);
        assert_eq!(Uptime::new(10, 100, &[]).times, [(10, 100)]);
    }
}
