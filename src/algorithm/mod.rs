//! The algorithms: they decide which calls are admitted, and when. They are pure values without a
//! clock, a lock or a waiter.
//!
//! 1. Every algorithm has one interface, [`Rule`]. The holder of a limiter's lock has a
//!    [`Ledger`], which adds what time does not pay off.
//! 2. The conversion of a quota by an algorithm, and its bound, are its
//!    [`Promise`](promise::Promise). Only [`Algorithm`] and [`RuleState`](rule_state::RuleState) distinguish algorithms.
//! 3. If a charge changes only a [`Tat`], it can be decided without a lock, with one
//!    compare-exchange: the limiter keeps that word, and lends it to the rule while it holds the
//!    lock. For a sliding window this is true while the window lasts.

mod choice;
mod gcra;
mod ledger;
mod log_rule;
mod params;
mod promise;
mod quota_change;
mod refunds;
mod rule;
mod rule_state;
pub(crate) mod sliding_log;
mod sliding_window;
mod state;

pub use self::choice::{Algorithm, AlgorithmError};
pub(crate) use self::gcra::{Gcra, Origin, Tat};
pub(crate) use self::ledger::{HeldCharge, Ledger};
pub(crate) use self::params::{LAST_TICK, MAX_TAT, Params, tick_or_never};
pub use self::quota_change::QuotaChange;
pub(crate) use self::rule::{Receipt, Rule, fresh_generation};
pub(crate) use self::sliding_window::SlidingWindow;
pub(crate) use self::state::Restored;
pub use self::state::{LimiterState, RestoreError};
