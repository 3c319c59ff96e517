//! Flag, then throttle: the [`Gate`], which is open or shut, and the [`Detector`], which finds out
//! for whom to shut it.
//!
//! A rate limiter decides each call exactly, and each call pays for it. Here a call pays for one
//! look at a [gate](Gate) of its caller, and for a [record](Detector::record). What was recorded is
//! counted apart from the calls, by a [pass](Detector::pass) every now and then, in memory that does
//! not grow with the number of callers; whoever has made too many over a long period is shut out for
//! a penalty time. It is for callers that are seldom stopped, and then for long: abuse, a noisy
//! neighbour. Between an excess and its penalty there is up to the time between two passes.
//!
//! What one usually needs is in the crate's root as well.

mod acquire;
mod analysis;
mod buffers;
mod detector;
mod gates;
mod handle;
mod state;
mod summary;
mod table;
mod word;

pub use self::acquire::{Acquire, AcquireOwned};
pub use self::analysis::{Count, Pass};
pub use self::detector::Detector;
pub use self::handle::Gate;
