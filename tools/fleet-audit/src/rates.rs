//! Compares the admissions with the promise of a rate.

use std::fmt;

use crate::faults::{Uptime, Used};
use crate::fleet::seconds;
use crate::recount::{Bound, Load, Recount};

/// A bound, and the window that came closest to it.
#[derive(Debug)]
pub(crate) struct Kept {
    bound: Bound,
    /// The additional number that processes may admit later than the server charged it, or after it lost the charges.
    beyond: u64,
    losses: usize,
    worst: Load,
    worst_end: u64,
}

impl Kept {
    /// Checks admissions at these ticks, which must rise. Admissions before one of these losses of the server's
    /// data do not count after it.
    pub(crate) fn of(ticks: &[u64], bound: Bound, beyond: u64, losses: &[u64]) -> Self {
        let mut recount = Recount::new(bound);
        let (mut worst, mut worst_end) = (Load::default(), 0);
        let mut left = losses.iter().peekable();
        for tick in ticks {
            while left.next_if(|loss| *loss <= tick).is_some() {
                recount.forget();
            }
            let load = recount.admit(*tick);
            if load.parts > worst.parts {
                (worst, worst_end) = (load, *tick);
            }
        }
        Self {
            bound,
            beyond,
            losses: losses.len(),
            worst,
            worst_end,
        }
    }

    pub(crate) fn is_kept(&self) -> bool {
        let most = u128::from(self.bound.most() + self.beyond);
        self.worst.parts <= most * self.bound.unit()
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bound: {}", self.bound)?;
        if self.beyond > 0 {
            write!(
                f,
                ", and {} that were taken ahead or reserved before a loss",
                self.beyond
            )?;
        }
        writeln!(f, "; again after each of {} losses", self.losses)?;
        write!(
            f,
            "worst window: {} in {:.6} s, which makes {:.3} of {}: {}",
            self.worst.count,
            seconds(self.worst_end.saturating_sub(self.worst.from)),
            self.worst.parts as f64 / self.bound.unit() as f64,
            self.bound.most() + self.beyond,
            if self.is_kept() {
                "kept"
            } else {
                "NOT KEPT: more was admitted than was promised"
            }
        )
    }
}

/// Returns how many were admitted while the store could answer, relative to the number that the narrowest bound
/// admits in each of these intervals, or to the demand per microsecond if that is less.
pub(crate) fn used(ticks: &[u64], bounds: &[Bound], demand: f64, uptime: &Uptime) -> Used {
    let least =
        |each: &dyn Fn(&Bound) -> f64| bounds.iter().map(each).fold(f64::INFINITY, f64::min);
    let mut whole = uptime.clone();
    for (from, to) in &mut whole.times {
        for bound in bounds {
            (*from, *to) = bound.whole(*from, *to);
        }
    }
    let used = ticks.iter().filter(|tick| whole.contains(**tick)).count();
    let times = whole.times.iter();
    let flows = times.map(|(from, to)| {
        let asked = demand * (to - from) as f64;
        asked.min(least(&|bound| bound.flows(*from, *to)))
    });
    let mut promised: f64 = flows.sum();
    if uptime.is_from_the_first() && demand.is_infinite() {
        promised += least(&Bound::at_first);
    }
    let share = least(&Bound::share);
    Used::new("admissions", used as f64, promised, share, &whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::Outage;

    /// One per millisecond, and three at once.
    const BOUND: Bound = Bound::Even {
        count: 1,
        period: 1000,
        burst: 3,
    };

    fn is_kept(ticks: &[u64], losses: &[u64]) -> bool {
        Kept::of(ticks, BOUND, 0, losses).is_kept()
    }

    #[test]
    fn as_much_as_was_promised_is_kept_and_one_more_is_not() {
        assert!(is_kept(&[5, 5, 5], &[]));
        assert!(!is_kept(&[5, 5, 5, 5], &[]));
        assert!(Kept::of(&[5, 5, 5, 5], BOUND, 1, &[]).is_kept());
        assert!(is_kept(&[5, 5, 5, 1005], &[]));
        assert!(!is_kept(&[5, 5, 5, 1004], &[]));
        // The excess is in the middle of other admissions.
        assert!(!is_kept(&[5, 5, 5, 1004, 9_000_000], &[]));
    }

    #[test]
    fn a_loss_allows_one_more_burst() {
        assert!(is_kept(&[5, 5, 5, 6, 6, 6], &[6]));
        assert!(!is_kept(&[5, 5, 5, 6, 6, 6, 6], &[6]));
        assert!(!is_kept(&[5, 5, 5, 6, 6, 6], &[7]));
    }

    #[test]
    fn process_that_stops_after_a_fault_has_not_used_enough() {
        let outage = Outage {
            from: 20_000,
            to: 30_000,
        };
        let uptime = Uptime::new(0, 100_000, &[outage]);
        let all: Vec<u64> = (0..100).map(|tick| tick * 1000).collect();
        let slower = Bound::Steps {
            count: 4,
            period: 5000,
            capacity: 4,
        };
        let all_used = used(&all, &[BOUND], f64::INFINITY, &uptime);
        assert_eq!((all_used.used, all_used.promised), (90.0, 93.0));
        assert!(all_used.is_enough());
        assert!(!used(&all[..80], &[BOUND], f64::INFINITY, &uptime).is_enough());
        assert_eq!(
            used(&all, &[BOUND, slower], f64::INFINITY, &uptime).promised,
            72.0
        );
        let short = Uptime::new(11_000, 19_000, &[]);
        assert_eq!(used(&all, &[slower], f64::INFINITY, &short).promised, 0.0);
        let whole = Uptime::new(11_000, 21_000, &[]);
        assert_eq!(used(&all, &[slower], f64::INFINITY, &whole).used, 5.0);
        assert_eq!(used(&all, &[BOUND], 0.0005, &uptime).promised, 45.0);
        // During the outage nothing counts.
        let late: Vec<u64> = all.iter().map(|tick| tick / 10 + 20_000).collect();
        assert_eq!(used(&late, &[BOUND], f64::INFINITY, &uptime).used, 0.0);
        // Without any uptime, nothing is shown.
        let down = Uptime::new(
            0,
            100_000,
            &[Outage {
                from: 0,
                to: 100_000,
            }],
        );
        assert!(!used(&all, &[BOUND], f64::INFINITY, &down).is_enough());
    }
}
