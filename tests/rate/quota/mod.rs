//! `Quota`: which ones there are, how they are written and read, and how one is split.

mod edges;
mod limits;
#[cfg(feature = "serde")]
mod serialized;
mod split;
mod text;
