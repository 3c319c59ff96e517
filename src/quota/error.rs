//! [`QuotaError`]: why a quota is invalid. A `const fn` builds the text, so that the panic of a
//! constructor has the same text as the error of `try_new`.

use std::fmt;

use crate::const_panic::Text;

/// Why a [`Quota`](crate::Quota) is invalid: it exceeds the [limits](crate::Quota#limits), or its
/// text cannot be parsed. The message contains the values, or the position in the text.
///
/// # Examples
///
/// ```
/// use tollgate::Quota;
///
/// let error = "100/fortnight".parse::<Quota>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "unknown unit of time at byte 4, expected d, h, min, s, ms, us or ns",
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaError {
    pub(super) reason: Reason,
}

/// Periods are in nanoseconds; `at` counts bytes from the beginning of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    NoCount,
    NoPeriod,
    NoBurst,
    PeriodTooLong {
        period: u128,
    },
    TooMany {
        count: u64,
        period: u128,
    },
    TooSlow {
        burst: u64,
        count: u64,
        period: u128,
    },
    Empty,
    NumberTooLarge {
        at: usize,
    },
    UnknownUnit {
        at: usize,
    },
    Expected {
        what: &'static str,
        at: usize,
    },
}

impl QuotaError {
    pub(super) const fn text(self) -> Text {
        let quota = Text::new("a quota cannot have ");
        match self.reason {
            Reason::NoCount => quota.and("a count of 0"),
            Reason::NoPeriod => quota.and("a period of 0ns"),
            Reason::NoBurst => quota.and("a burst of 0"),
            Reason::PeriodTooLong { period } => {
                let text = quota
                    .and("a period of ")
                    .number(period)
                    .and("ns, but at most ");
                text.number(u64::MAX as u128).and("ns")
            }
            Reason::TooMany { count, period } => {
                let text = quota.number(count as u128).and(" in ").number(period);
                text.and("ns, but at most one per nanosecond")
            }
            Reason::TooSlow {
                burst,
                count,
                period,
            } => {
                let text = quota.and("a burst of ").number(burst as u128);
                let text = text.and(" at ").number(count as u128);
                let text = text.and(" in ").number(period).and("ns");
                text.and(", which takes more than 2^58ns to come back")
            }
            Reason::Empty => Text::new("an empty text is no quota, expected one such as 100/s"),
            Reason::NumberTooLarge { at } => {
                let text = Text::new("the number at byte ").number(at as u128);
                text.and(" is above ").number(u64::MAX as u128)
            }
            Reason::UnknownUnit { at } => {
                let text = Text::new("unknown unit of time at byte ").number(at as u128);
                text.and(", expected d, h, min, s, ms, us or ns")
            }
            Reason::Expected { what, at } => {
                let text = Text::new("expected ").and(what);
                text.and(" at byte ").number(at as u128)
            }
        }
    }
}

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text().as_str())
    }
}

impl std::error::Error for QuotaError {}
