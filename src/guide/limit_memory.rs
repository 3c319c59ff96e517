//! Limit memory: a budget of bytes that all requests share.
//!
//! Eight slots say nothing of memory if one request takes a kilobyte and the next one a gigabyte. Make the
//! permits of a [`Semaphore`](crate::Semaphore) bytes. A request takes as many as it may need, and returns what
//! it does not need as soon as it knows.
//!
//! ```toml
//! [dependencies]
//! futures = "0.3"
//! tokio = { version = "1.49", features = ["full"] }
//! tollgate = { path = "../tollgate" }
//! ```
//!
//! ```no_run
#![doc = include_str!("programs/limit_memory.rs")]
//! ```
//!
//! - *The estimate comes first*: the size of the file, `Content-Length`, a bound of the format. To ask for more bytes
//!   while some are held can deadlock: two requests that hold half of the budget each, and wait for more, wait forever.
//! - *An estimate that was too low*, as of a body without a length: try for more without waiting,
//!   `Arc::clone(&memory).cost_owned(more).try_acquire()`, and [merge](crate::semaphore::Permit::merge) the permits. If that is
//!   refused, write the rest to disk, or refuse the request.
//! - *What turned out unneeded* is [split](crate::semaphore::Permit::split) from the permit and dropped. The
//!   first waiter gets it.
//! - *A request above the whole budget* is refused with [`ExceedsCapacity`](crate::ErrorKind::ExceedsCapacity),
//!   because it would wait forever. Refuse it too, or ask for the whole budget, as the program does: then it
//!   runs alone.
//! - *The order is first-in first-out*, also for large requests: while one waits, smaller ones behind it wait too, and
//!   bytes that are returned gather for it. So a large request is never passed over, and the budget is not full for
//!   that time. For shares of users, put a [fair queue](super::who_goes_first) in front.
//!
//! # Choices
//!
//! - *Slots too*, for example because each request has a connection:
//!   [`all((per_call(&slots), &memory)).weighted()`](crate::throttle::All::weighted) takes one slot and the bytes,
//!   also behind a fair queue or a sink; by hand it is `all((&slots, memory.cost(bytes)))`.
//! - *More than 4 GiB*: costs are `u64` ([tokio#4446]).
//! - *A budget that changes*: [`set_permits`](crate::Semaphore::set_permits). What is held above it counts as debt.
//! - *Bytes a second* are another limit: the guide of the crate [`tollgate-io`].
//!
//! # Traps
//!
//! - The budget knows only what it is told. Buffers of libraries, and the allocator's overhead, come on top.
//! - Keep the permit with the memory: in the struct that has the buffer, not in the function that filled it.
//!
//! [tokio#4446]: https://github.com/tokio-rs/tokio/issues/4446
//! [`tollgate-io`]: https://docs.rs/tollgate-io/latest/tollgate_io/
