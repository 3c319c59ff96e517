//! Rate limiters beside the most obvious models of them, to which the same is done.
//!
//! What is the same whatever the algorithm is stands here: the line, the steps, and the comparison
//! of all that can be seen, for equality. A [`model::Model`] knows what is owed, and nothing of
//! those who wait.

#![allow(
    dead_code,
    reason = "every test file is a crate of its own and uses a part"
)]

pub(crate) mod amounts;
pub(crate) mod model;
pub(crate) mod naive;
pub(crate) mod steps;
pub(crate) mod world;

/// The last tick that a limiter tells apart from later ones.
pub(crate) const LAST_TICK: u64 = (1 << 58) - 1;
