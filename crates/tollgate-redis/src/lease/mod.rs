//! Permits on a server: leases, which end by themselves if their holder does.
//!
//! Flow: [`semaphore`] (the public type) -> [`state`] (the [queue](crate::queue) of a semaphore) ->
//! [`guard`] (a lease, and the task that renews it) -> [`calls`] (what the script is asked) ->
//! [`keys`].

mod calls;
mod guard;
mod keys;
mod semaphore;
mod state;

pub use self::guard::Lease;
pub use self::semaphore::{AcquireLease, Semaphore};
