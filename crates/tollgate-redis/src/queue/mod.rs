//! The common part of all limits on a server: the waiters in this process, and the driver that
//! calls the server for them.
//!
//! Flow: [`Wait`] (the future of a caller) -> [`Shared`] (the state under a lock) -> [`WaitQueue`]
//! -> [`driver`] (calls the server) -> [`Limit`] (the differences between a rate limit and a
//! semaphore).

mod driver;
mod driver_slot;
mod shared;
mod wait;
mod wait_queue;

pub(crate) use self::shared::{Limit, Next, Shared, State};
pub(crate) use self::wait::Wait;
pub(crate) use self::wait_queue::{WaitQueue, Waiter};
