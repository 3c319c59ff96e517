//! The algorithms: what is admitted, and when. Pure values without a clock, a lock or a waiter.
//!
//! 1. Every algorithm has one face, [`Rule`], and whoever holds the lock of a limiter calls nothing
//!    else. [`RuleState`] is the only place that tells algorithms apart.
//! 2. Those whose whole state is a [`Tat`] can be decided without a lock, by one compare-exchange:
//!    the limiter keeps that word, and lends it to the rule while it holds the lock.

mod choice;
mod gcra;
mod log_rule;
mod params;
mod quota_change;
mod refunds;
mod rule;
pub(crate) mod sliding_log;
mod sliding_window;
mod tat;

pub use self::choice::{Algorithm, AlgorithmError};
pub(crate) use self::params::{InverseParams, LAST_TICK, Params, tick_or_never};
pub use self::quota_change::QuotaChange;
pub(crate) use self::rule::{Receipt, RuleState};
pub(crate) use self::tat::{MAX_TAT, Tat};
