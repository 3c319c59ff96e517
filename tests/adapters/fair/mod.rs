//! Fair queues: who goes next, who is refused, and what is lost, which is nothing.

mod bounds;
mod figures;
mod handed_on;
mod model;
mod naive;
mod overload;
mod random;
mod rates;
mod scenarios;
mod shares;
#[cfg(feature = "channel")]
mod throttles;
mod world;
