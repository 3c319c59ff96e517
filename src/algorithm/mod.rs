//! The algorithms: what is admitted, and when. They are pure values without a clock, a lock or a
//! waiter.
//!
//! 1. Every algorithm has one interface, [`Rule`](rule::Rule), and the holder of a limiter's lock calls
//!    nothing else.
//! 2. An algorithm has a file, which states its name, what it makes of a quota and its bound
//!    ([`definition`]). Only [`Algorithm`] and [`RuleState`] distinguish algorithms.
//! 3. If the whole state of a rule is a [`Tat`], it can be decided without a lock, with one
//!    compare-exchange: the limiter keeps that word, and lends it to the rule while it holds the
//!    lock.

mod choice;
mod definition;
mod fixed_window;
mod gcra;
mod log_rule;
mod params;
mod quota_change;
mod receipt;
mod refunds;
mod rule;
mod rule_state;
pub(crate) mod sliding_log;
mod sliding_window;
mod sub_interval;
mod tat;
mod token_bucket;

pub use self::choice::{Algorithm, AlgorithmError};
pub(crate) use self::gcra::Gcra;
pub(crate) use self::params::{InverseParams, LAST_TICK, MAX_TAT, Params, tick_or_never};
pub use self::quota_change::QuotaChange;
pub(crate) use self::receipt::{Receipt, fresh_generation};
pub(crate) use self::rule::Rule;
pub(crate) use self::rule_state::RuleState;
pub(crate) use self::tat::Tat;
