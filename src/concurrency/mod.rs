//! How many at once: permits that are held, and come back when they are dropped.

mod semaphore;

pub use self::semaphore::{Acquire, AcquireOwned, OwnedPermit, Permit, Semaphore, WaitIdle};
