//! Rate limiters beside the most obvious models of them, to which the same is done.
//!
//! Random steps are done to both, on a manual clock, and whatever can be seen is compared, for
//! equality: who is admitted, at which tick, with which error the others are refused, and what is
//! left. The [`naive`] limiter knows the queue; a [`model::Model`] knows what is owed, and nothing
//! of waiters. A new algorithm is a new `Model`, or a row of [`schedule::Rule::by`].

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

/// The last tick that a limiter tells apart from later ones.
pub(crate) const LAST_TICK: u64 = (1 << 58) - 1;

/// The last unit that passes, however many a nanosecond has.
pub(crate) const LAST_UNIT: u64 = (1 << 60) - 1 - LARGEST_BURST;

/// The largest burst of a quota of two per nanosecond or more.
pub(crate) const LARGEST_BURST: u64 = 1 << 56;
