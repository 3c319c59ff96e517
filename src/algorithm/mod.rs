//! Pure rules: what is admitted, and when. No I/O, no clock, no lock, no waiting.

mod choice;
mod gcra;
pub mod sliding_log;
mod sliding_window;
mod units;

pub use self::choice::{Algorithm, AlgorithmError};
pub(crate) use self::gcra::{Debt, MOST_DEBT};
pub(crate) use self::sliding_window::{WindowRule, Windows};
pub(crate) use self::units::{Inverse, LAST_TICK, Limits};
