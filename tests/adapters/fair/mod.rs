//! Fair queues: who goes next, who is refused, and what is lost, which is nothing.

mod bounds;
mod figures;
mod naive;
mod random;
mod rates;
mod scenarios;
#[cfg(feature = "channel")]
mod throttles;
mod world;
