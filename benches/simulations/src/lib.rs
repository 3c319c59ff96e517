//! The shared parts of the simulations: their events, their figures, and how they are drawn. `peers` also uses `picture`.

pub mod events;
pub mod figures;
pub mod picture;
pub mod spread;
