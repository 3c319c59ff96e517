//! [`QuotaError`]: why a quota is invalid. A constructor that panics has the same text as the error
//! of `try_new`, without the values.

use std::fmt;
use std::time::Duration;

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
///     "at byte 4: expected a unit of time (d, h, min, s, ms, us or ns)",
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaError {
    /// The limit that a quota exceeds, or what is expected in a text.
    pub(super) rule: &'static str,
    pub(super) found: Found,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The count, the period and the burst.
    Quota(u64, Duration, u64),
    /// The rest of a text, from this byte on.
    Text(usize),
}

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = self.rule;
        match self.found {
            Found::Quota(count, period, burst) => {
                write!(f, "{rule}: {count} in {period:?}, burst {burst}")
            }
            Found::Text(at) => write!(f, "at byte {at}: expected {rule}"),
        }
    }
}

impl std::error::Error for QuotaError {}
