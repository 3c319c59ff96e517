//! Permits on a server: leases, which end by themselves if their holder does.
//!
//! Flow is one way: [`line`](self::line) (who waits, no clock and no server) -> [`core`](self::core)
//! (calls) -> [`keeper`](self::keeper) (what renews a lease) -> [`driver`](self::driver) (what asks
//! for the line) -> the public types.

mod acquire;
mod core;
mod driver;
mod guard;
mod keeper;
mod keys;
mod line;
mod reply;
mod semaphore;
mod throttle;

pub use self::acquire::AcquireLease;
pub use self::guard::Lease;
pub use self::semaphore::Semaphore;
