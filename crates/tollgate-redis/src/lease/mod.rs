//! Permits on a server: leases, which expire if their holder dies.
//!
//! Flow: [`semaphore`] (the public type) -> [`state`] (the [queue](crate::queue) of a semaphore) ->
//! [`guard`] (a lease, and the task that renews it) -> [`calls`] (calls of the script) -> [`keys`].

mod calls;
mod guard;
mod semaphore;
mod state;

pub use self::guard::Lease;
pub use self::semaphore::{AcquireLease, Semaphore};
