//! Rate limiters against the most obvious model of them, with integers of any size.
//!
//! Random steps are done to both, on a manual clock, and whatever can be seen is compared, for
//! equality: who is admitted, at which tick, what the others are told, and what is left.

pub(crate) mod any;
pub(crate) mod charges;
mod exact;
#[cfg(feature = "tokio")]
mod late;
mod limits;
mod line;
pub(crate) mod owed;
mod refunds;
pub(crate) mod rule;
pub(crate) mod schedule;
mod tries;
