//! Compares the holders of leases over time with the promises.
//!
//! 1. At no instant are there more holders than permits. A holder holds from the answer until the
//!    last check before the release that found the lease not lost. There is one clock for all.
//! 2. Fencing numbers are unique, and rise: if a lease was held before another one was requested,
//!    the later one has the greater number.

use std::collections::{HashMap, HashSet};
use std::fmt;

use crate::faults::{Uptime, Used};
use crate::fleet::seconds;
use crate::report::Report;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) fencing: u64,
    pub(crate) asked: u64,
    pub(crate) granted: u64,
    /// The last time at which the lease was certainly held.
    pub(crate) until: u64,
}

/// Returns the leases of a process with these reports, until it ended.
pub(crate) fn held(reports: &[Report], ended: u64) -> Vec<Held> {
    let left: HashMap<&str, u64> = reports
        .iter()
        .filter_map(|report| match report {
            Report::Left { id, until, .. } => Some((id.as_str(), *until)),
            _ => None,
        })
        .collect();
    let held = reports.iter().filter_map(|report| match report {
        Report::Held {
            id,
            fencing,
            asked,
            granted,
        } => Some(Held {
            fencing: *fencing,
            asked: *asked,
            granted: *granted,
            until: left.get(id.as_str()).copied().unwrap_or(ended),
        }),
        _ => None,
    });
    held.collect()
}

#[derive(Debug)]
pub(crate) struct Kept {
    permits: usize,
    leases: usize,
    most: usize,
    /// The time at which `most` leases were held.
    at: u64,
    twice: usize,
    /// The first pair in which a number is less than an earlier one.
    fallen: Option<(u64, u64)>,
}

impl Kept {
    pub(crate) fn of(held: &[Held], permits: usize) -> Self {
        let (most, at) = most(held);
        let mut numbers = HashSet::new();
        let twice = held.iter().filter(|one| !numbers.insert(one.fencing));
        Self {
            permits,
            leases: held.len(),
            most,
            at,
            twice: twice.count(),
            fallen: fallen(held),
        }
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.most <= self.permits && self.twice == 0 && self.fallen.is_none()
    }
}

/// Returns the maximum number held at once, and the time of it.
fn most(held: &[Held]) -> (usize, u64) {
    let held = held.iter().filter(|one| one.granted < one.until);
    let mut edges: Vec<(u64, bool)> = held
        .flat_map(|one| [(one.granted, true), (one.until, false)])
        .collect();
    // At one instant, leaving holders come first.
    edges.sort_unstable();
    let (mut now, mut most, mut at) = (0_usize, 0, 0);
    for (when, comes) in edges {
        if comes {
            now += 1;
        } else {
            now -= 1;
        }
        if now > most {
            (most, at) = (now, when);
        }
    }
    (most, at)
}

/// Finds a lease whose number is less than that of a lease held before it was requested.
fn fallen(held: &[Held]) -> Option<(u64, u64)> {
    let (mut by_answer, mut by_question) = (held.to_vec(), held.to_vec());
    by_answer.sort_unstable_by_key(|one| one.granted);
    by_question.sort_unstable_by_key(|one| one.asked);
    let (mut before, mut greatest) = (by_answer.iter().peekable(), 0);
    for one in &by_question {
        while let Some(earlier) = before.next_if(|earlier| earlier.granted < one.asked) {
            greatest = greatest.max(earlier.fencing);
        }
        if one.fencing < greatest {
            return Some((greatest, one.fencing));
        }
    }
    None
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "bound: {} held at once", self.permits)?;
        write!(
            f,
            "worst instant: {} of {} leases are held at {:.6}: ",
            self.most,
            self.leases,
            seconds(self.at)
        )?;
        if self.most > self.permits {
            writeln!(f, "NOT KEPT: more were held than was promised")?;
        } else {
            writeln!(f, "kept")?;
        }
        match self.fallen {
            Some((before, after)) => write!(f, "fencing: NOT KEPT: {after} came after {before}"),
            None if self.twice > 0 => {
                write!(f, "fencing: NOT KEPT: {} came twice", self.twice)
            }
            None => write!(f, "fencing: unique and rising: kept"),
        }
    }
}

/// Returns how long permits were held while the store could answer, relative to all that time. For each lease
/// that began in it, two times `poll` are deducted, because a permit that was given back
/// is requested again after at most that time.
pub(crate) fn used(held: &[Held], permits: usize, poll: u64, uptime: &Uptime) -> Used {
    let used = held.iter().map(|one| uptime.shared(one.granted, one.until));
    let begun = held.iter().filter(|one| uptime.contains(one.granted));
    let idle = begun.count() as u64 * 2 * poll;
    let whole = uptime.micros() * permits as u64;
    let promised = seconds(whole.saturating_sub(idle));
    Used::new(
        "permit seconds",
        seconds(used.sum()),
        promised,
        0.95,
        uptime,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(fencing: u64, asked: u64, granted: u64, until: u64) -> Held {
        Held {
            fencing,
            asked,
            granted,
            until,
        }
    }

    #[test]
    fn one_more_than_there_are_permits_is_noticed() {
        let two = [one(1, 0, 10, 20), one(2, 0, 15, 30), one(3, 0, 20, 25)];
        let kept = Kept::of(&two, 2);
        assert!(kept.is_kept(), "{kept}");
        assert_eq!((kept.most, kept.at), (2, 15));
        assert!(!Kept::of(&two, 1).is_kept());
        let mut three = two;
        three[2].granted = 19;
        assert!(!Kept::of(&three, 2).is_kept());
        // A process that had lost the lease when the answer arrived held nothing.
        three[2].until = 19;
        assert!(Kept::of(&three, 2).is_kept());
    }

    #[test]
    fn fencing_numbers_come_once_and_rise() {
        assert!(!Kept::of(&[one(1, 0, 10, 20), one(1, 30, 40, 50)], 1).is_kept());
        assert!(!Kept::of(&[one(2, 0, 10, 20), one(1, 11, 40, 50)], 1).is_kept());
        // It is not known which of them was granted first.
        assert!(Kept::of(&[one(2, 0, 10, 20), one(1, 10, 40, 50)], 1).is_kept());
    }

    #[test]
    fn process_that_is_killed_holds_until_then() {
        let id = || "a".to_owned();
        let granted = Report::Held {
            id: id(),
            fencing: 7,
            asked: 1,
            granted: 2,
        };
        let left = Report::Left {
            id: id(),
            until: 5,
            lost: false,
        };
        assert_eq!(held(std::slice::from_ref(&granted), 9), [one(7, 1, 2, 9)]);
        assert_eq!(held(&[granted, left], 9), [one(7, 1, 2, 5)]);
    }

    #[test]
    fn what_is_held_is_used() {
        let uptime = Uptime::new(0, 1_000_000, &[]);
        let two = [one(1, 0, 0, 500_000), one(2, 0, 510_000, 1_000_000)];
        let all = used(&two, 1, 5000, &uptime);
        assert!((all.promised - 0.98).abs() < 1e-9 && all.is_enough());
        assert!(!used(&two, 2, 5000, &uptime).is_enough());
        assert!(!used(&two[..1], 1, 5000, &uptime).is_enough());
    }
}
