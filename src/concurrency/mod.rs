//! How many at once: permits that are held, and come back when they are dropped.

#[cfg(feature = "channel")]
pub(crate) mod channel_semaphore;
pub(crate) mod condvar_semaphore;
pub(crate) mod pool;
mod semaphore;

pub use self::semaphore::{Acquire, AcquireOwned, OwnedPermit, Permit, Semaphore, WaitIdle};
