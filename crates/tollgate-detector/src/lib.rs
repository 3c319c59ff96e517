//! Flag first, then throttle: the [`Detector`] finds callers that make too many calls over a long
//! period, and blocks their [`Gate`]s.
//!
//! A rate limiter decides every call exactly, and every call pays for it. Here a call pays for one
//! check of the [gate](Gate) of its caller, and for a [record](Detector::record). A
//! [pass](Detector::pass) counts the records periodically, in memory that does not grow with the
//! number of callers, and blocks each caller that has made too many calls for a penalty time. Use
//! it for callers that are rarely blocked, and then for long: abuse, noisy neighbours. The penalty
//! follows the excess by up to the time between two passes.
//!
//! See [`Detector`] for an example, its accuracy and its memory.

#![forbid(unsafe_code)]
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod analysis;
mod buffers;
mod detector;
mod gates;
mod sync;

pub use tollgate::Gate;

pub use self::analysis::{Count, Pass};
pub use self::detector::Detector;
