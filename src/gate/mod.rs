//! The [`Gate`]: open, or blocked for a while.
//!
//! The crate `tollgate-detector` finds out whose gates to block: it counts calls over a long period in
//! fixed memory.

mod acquire;
mod handle;
mod state;
mod word;

pub use self::acquire::{Acquire, AcquireOwned};
pub use self::handle::Gate;
