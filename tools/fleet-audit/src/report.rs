//! What a process of the fleet says, a line for each, as soon as it is so: nothing that it did is
//! unknown when it is killed.

use std::fmt;
use std::str::FromStr;

/// All times are microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// It can begin.
    Ready,
    /// One was let go, at this tick of the server, perhaps out of what was taken ahead.
    Admitted { tick: u64, ahead: bool },
    /// A call failed, and was perhaps charged all the same.
    Failed {
        at: u64,
        perhaps: bool,
        /// A word for how.
        how: String,
    },
    /// A lease is held.
    Held {
        id: String,
        fencing: u64,
        /// When it was asked for.
        asked: u64,
        /// When there was an answer.
        granted: u64,
    },
    /// A lease was held until then for sure, and is not any more.
    Left {
        id: String,
        until: u64,
        /// Not given back, but lost.
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
