//! Rate limiters beside the most obvious models of them, under the same calls.
//!
//! Random steps run on both, on a manual clock, and the whole observable state is compared for
//! equality: admissions, their ticks, the errors of refusals, and the rest. The [`naive`] limiter
//! knows the queue; a [`model::Model`] knows the debt, and ignores waiters. A new algorithm is a
//! new `Model`, or a row of [`schedule::Rule::by`].

mod agree;
pub(crate) mod kept;
#[cfg(feature = "tokio")]
mod late;
mod many;
mod model;
mod naive;
mod schedule;
pub(crate) mod steps;
pub(crate) mod world;

/// The last tick that a limiter distinguishes from later ones.
pub(crate) const LAST_TICK: u64 = (1 << 58) - 1;

/// The last unit that passes, whatever the number of units per nanosecond.
pub(crate) const LAST_UNIT: u64 = (1 << 60) - 1 - LARGEST_BURST;

/// The largest burst of a quota of two per nanosecond or more.
pub(crate) const LARGEST_BURST: u64 = 1 << 56;
