#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod detector;
mod error;
mod fallback;
mod keyed;
mod keys;
mod lease;
mod limit_set;
mod memory;
#[cfg(feature = "metrics")]
mod metrics;
mod queue;
mod rate;
mod refunds;
mod script;
mod store;
mod sync;
mod unique;

pub use crate::detector::{Detector, DetectorStatistics};
pub use crate::error::StoreError;
pub use crate::fallback::Fallback;
pub use crate::keyed::{Keyed, Kind};
pub use crate::lease::{AcquireLease, Lease, Semaphore};
pub use crate::limit_set::{Charges, LimitSet, Outcome};
pub use crate::queue::LimitStatistics;
pub use crate::rate::{Acquire, Charge, Cost, RateLimiter, Reservation, Source};
#[cfg(feature = "credentials")]
pub use crate::store::Credentials;
#[cfg(feature = "tls")]
#[cfg_attr(docsrs, doc(cfg(feature = "tls")))]
pub use crate::store::Tls;
pub use crate::store::{Latency, Store, StoreStatistics, Warning};
