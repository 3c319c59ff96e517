//! Rate limiters of other crates beside ours, for the pictures of this package and the rows of `tollgate-bench`.

pub mod floor;
pub mod limiters;
pub mod pacing;
