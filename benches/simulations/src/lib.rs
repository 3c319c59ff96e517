//! The shared parts of the simulations: their events, their figures, and how they are drawn. `peers` draws, too.

pub mod events;
pub mod picture;
pub mod spread;
