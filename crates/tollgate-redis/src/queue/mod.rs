//! What all limits on a server share: waiters in this process, and the driver that asks for them.
//!
//! Flow: [`Wait`] (the future of a caller) -> [`Shared`] (the state under a lock) -> [`WaitQueue`]
//! -> [`driver`] (asks the server) -> [`Limit`] (what a rate limit and a semaphore do differently).

mod driver;
mod driver_slot;
mod shared;
mod wait;
mod wait_queue;

pub(crate) use self::shared::{Limit, Next, Shared, State};
pub(crate) use self::wait::Wait;
pub(crate) use self::wait_queue::{WaitQueue, Waiter};
