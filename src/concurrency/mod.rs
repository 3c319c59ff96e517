//! Limits concurrency: callers hold permits, and return them by dropping them.

pub(crate) mod acquire;
#[cfg(feature = "channel")]
pub(crate) mod channel_semaphore;
pub(crate) mod condvar_semaphore;
#[cfg(any(feature = "tokio", feature = "async-lock"))]
mod foreign;
mod idle;
pub(crate) mod permit;
pub(crate) mod pool;
mod release_after;
mod resting;
pub(crate) mod semaphore;
mod throttle;

pub use self::acquire::Acquire;
pub use self::idle::WaitIdle;
pub use self::permit::Permit;
pub use self::release_after::ReleaseAfter;
pub use self::resting::Resting;
pub use self::semaphore::OwnedPermit;
pub(crate) use self::semaphore::Semaphore;
