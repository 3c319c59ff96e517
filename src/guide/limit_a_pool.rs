//! Limit work that has a pool of its own: threads of rayon, connections of sqlx.
//!
//! A pool bounds all work together. A [`Semaphore`](crate::Semaphore) or a
//! [`RateLimiter`](crate::RateLimiter) bounds one kind of work, so that the rest of the pool stays free for other work.
//!
//! # sqlx
//!
//! ```toml
//! [dependencies]
//! tokio = { version = "1.49", features = ["full"] }
//! tollgate = { path = "../tollgate" }
//! ```
//!
//! ```no_run
#![doc = include_str!("programs/limit_sqlx.rs")]
//! ```
//!
//! `run` takes the future of any query: `sqlx::query(SQL).fetch_all(&pool)`, or a block that begins a transaction.
//! The same holds for the pools of deadpool and bb8.
//!
//! # rayon
//!
//! Threads wait with [`wait`](crate::wait::Waiting::wait):
//!
//! ```toml
//! [dependencies]
//! rayon = "1"
//! tollgate = { path = "../tollgate" }
//! ```
//!
//! ```no_run
#![doc = include_str!("programs/limit_rayon.rs")]
//! ```
//!
//! A thread that waits does nothing else. With 8 threads and 2 slots, up to 6 threads are blocked when most of the
//! time goes into `write`. That is fine for short work, such as a write to a disk between long computations.
//! Otherwise give the limited work a pool of its own, `ThreadPoolBuilder::new().num_threads(2)`, or acquire the permit
//! before the work goes to rayon:
//!
//! ```
//! use std::sync::Arc;
//!
//! use tollgate::{AcquireError, Semaphore};
//!
//! /// Waits as a task, and then computes on a thread of rayon.
//! async fn compute(slots: Arc<Semaphore>, number: u64) -> Result<(), AcquireError> {
//!     let permit = slots.acquire_owned().await?;
//!     rayon::spawn(move || {
//!         let _permit = permit; // Returned when the work has ended.
//!         println!("{}", number * number);
//!     });
//!     Ok(())
//! }
//! # drop(compute);
//! ```
//!
//! # Choices
//!
//! - *A rate*: `limiter.acquire().wait()`, for example for calls of a licensed service.
//! - *Now or never*: `slots.try_acquire()`; do something else if it fails.
//! - *A database that slows down*: [an adaptive limit] instead of a fixed one.
//! - *Tenants that share the connections evenly*: [a fair queue](super::who_goes_first) in front of the semaphore.
//!
//! # Traps
//!
//! - **Do not call rayon while you hold a permit that its threads wait for.** A thread that waits in `join`,
//!   `scope` or a parallel iterator runs other work meanwhile, which may wait for the permit that its own
//!   thread holds: a deadlock, as with a mutex (rayon #592).
//! - Do not `wait` on a thread of tokio: it blocks all tasks of that thread. Use `await`, or `spawn_blocking`.
//! - Acquire the permit before the connection. In the other order, reports that wait for a slot hold connections, and
//!   the pool is empty.
//! - The timeout of a pool, `acquire_timeout` of sqlx, begins after the wait for the limits. A caller waits at
//!   most for the sum of both.
//! - A query whose future is dropped may still run on the server after its permit was returned. Bound it there, with
//!   `statement_timeout` in PostgreSQL.
//!
//! [an adaptive limit]: https://docs.rs/tollgate-adaptive/latest/tollgate_adaptive/guide/index.html
