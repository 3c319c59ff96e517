//! x
mod pauses;
pub use self::pauses::*;
