//! The algorithms: what is admitted, and when. They are pure values without a clock, a lock or a
//! waiter.
//!
//! 1. Every algorithm has one interface, [`Rule`], and the holder of a limiter's lock calls nothing
//!    else. Only [`RuleState`] distinguishes algorithms.
//! 2. If the whole state of a rule is a [`Tat`], it can be decided without a lock, with one
//!    compare-exchange: the limiter keeps that word, and lends it to the rule while it holds the
//!    lock.

mod choice;
mod gcra;
mod params;
mod quota_change;
mod refunds;
mod rule;
pub(crate) mod sliding_log;
mod sliding_window;

pub use self::choice::{Algorithm, AlgorithmError};
pub(crate) use self::gcra::{MAX_TAT, Tat};
pub(crate) use self::params::{InverseParams, LAST_TICK, Params, tick_or_never};
pub use self::quota_change::QuotaChange;
pub(crate) use self::rule::{Receipt, RuleState, fresh_generation};
