//! Limits on how many run at once: permits that are held, and returned when they are dropped.

pub(crate) mod acquire;
#[cfg(feature = "channel")]
pub(crate) mod channel_semaphore;
pub(crate) mod condvar_semaphore;
pub(crate) mod permit;
pub(crate) mod pool;
mod semaphore;

pub use self::acquire::{Acquire, AcquireOwned};
pub use self::permit::{OwnedPermit, Permit};
pub use self::semaphore::{Semaphore, WaitIdle};
