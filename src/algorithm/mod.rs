//! Pure rules: what is admitted, and when. No I/O, no clock, no lock, no waiting.

mod gcra;
mod units;

pub(crate) use self::gcra::{Debt, MOST_DEBT};
pub(crate) use self::units::{Inverse, Limits};
