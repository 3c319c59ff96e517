//! The limits of [tollgate] across machines, on Redis or Valkey.

mod error;
mod rate;
mod script;
mod store;

pub use crate::error::StoreError;
pub use crate::rate::{Acquire, Charge, Fallback, RateLimiter, Reservation, Source};
pub use crate::store::{Store, Warning};
