//! `Quota`: which ones there are, how they are written and read, and how one is split.

mod limits;
mod text;
