#![doc = include_str!("../README.md")]

mod carried;
mod detector;
mod error;
mod lease;
mod rate;
mod script;
mod several;
mod slot;
mod store;
mod sync;
mod wait;

pub use crate::detector::Detector;
pub use crate::error::StoreError;
pub use crate::lease::{AcquireLease, Lease, Semaphore};
pub use crate::rate::{Acquire, Charge, Fallback, Keyed, RateLimiter, Reservation, Source};
pub use crate::several::{Charges, Outcome, Several};
pub use crate::store::{Store, Warning};
