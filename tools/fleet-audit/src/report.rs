//! Defines the reports of a process of the fleet, one line each, written immediately: all its actions are
//! known when it is killed.

use std::fmt;
use std::str::FromStr;

/// A report. All times are microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// The process can begin.
    Ready,
    /// One call was admitted, at this tick of the server, perhaps out of permits taken in advance.
    Admitted { tick: u64, ahead: bool },
    /// A call failed, and was perhaps charged nevertheless.
    Failed {
        at: u64,
        perhaps: bool,
        /// A word for the failure.
        how: String,
    },
    /// A lease is held.
    Held {
        id: String,
        fencing: u64,
        /// The time of the request.
        asked: u64,
        /// The time of the answer.
        granted: u64,
    },
    /// A lease was certainly held until then, and is not held any more.
    Left {
        id: String,
        until: u64,
        /// Whether the lease was lost instead of given back.
        lost: bool,
    },
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => write!(f, "ready"),
            Self::Admitted { tick, ahead } => write!(f, "admitted {tick} {ahead}"),
            Self::Failed { at, perhaps, how } => write!(f, "failed {at} {perhaps} {how}"),
            Self::Held {
                id,
                fencing,
                asked,
                granted,
            } => write!(f, "held {id} {fencing} {asked} {granted}"),
            Self::Left { id, until, lost } => write!(f, "left {id} {until} {lost}"),
        }
    }
}

impl FromStr for Report {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        read(line).ok_or_else(|| format!("a process of the fleet said {line:?}"))
    }
}

fn read(line: &str) -> Option<Report> {
    let mut words = line.split(' ');
    let first = words.next()?;
    let mut next = || words.next();
    Some(match first {
        "ready" => Report::Ready,
        "admitted" => Report::Admitted {
            tick: next()?.parse().ok()?,
            ahead: next()?.parse().ok()?,
        },
        "failed" => Report::Failed {
            at: next()?.parse().ok()?,
            perhaps: next()?.parse().ok()?,
            how: next()?.to_owned(),
        },
        "held" => Report::Held {
            id: next()?.to_owned(),
            fencing: next()?.parse().ok()?,
            asked: next()?.parse().ok()?,
            granted: next()?.parse().ok()?,
        },
        "left" => Report::Left {
            id: next()?.to_owned(),
            until: next()?.parse().ok()?,
            lost: next()?.parse().ok()?,
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_read() {
        let id = || "4f".to_owned();
        let reports = [
            Report::Ready,
            Report::Admitted {
                tick: 7,
                ahead: true,
            },
            Report::Failed {
                at: 8,
                perhaps: true,
                how: "Timeout".to_owned(),
            },
            Report::Held {
                id: id(),
                fencing: 1,
                asked: 2,
                granted: 3,
            },
            Report::Left {
                id: id(),
                until: 4,
                lost: false,
            },
        ];
        for report in reports {
            assert_eq!(report.to_string().parse(), Ok(report));
        }
        assert!("held 4f 1".parse::<Report>().is_err());
    }
}
