//! Limits on how many run at once: permits that are held, and returned when they are dropped.

pub(crate) mod acquire;
#[cfg(feature = "channel")]
pub(crate) mod channel_semaphore;
pub(crate) mod condvar_semaphore;
pub(crate) mod permit;
pub(crate) mod pool;
mod release_after;
mod semaphore;
mod throttle;

pub(crate) use self::acquire::Acquire;
pub use self::permit::Permit;
pub use self::release_after::ReleaseAfter;
pub use self::semaphore::{OwnedPermit, Semaphore, WaitIdle};
