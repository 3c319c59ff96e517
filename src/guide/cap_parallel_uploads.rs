//! Cap parallel uploads: at most N at once.
//!
//! A [`Semaphore`](crate::Semaphore) has permits. An upload holds one while it runs; the others wait
//! in first-in first-out order.
//!
//! ```toml
//! [dependencies]
//! tokio = { version = "1.49", features = ["full"] }
//! tollgate = { path = "../tollgate" }
//! ```
//!
//! ```no_run
#![doc = include_str!("programs/cap_parallel_uploads.rs")]
//! ```
//!
//! # Choices
//!
//! - *Shared by the whole program*: `static SLOTS: Semaphore = Semaphore::new(8);` needs no `Arc`, and
//!   [`acquire`](crate::Semaphore::acquire) borrows it.
//! - *Large uploads count more*: [`cost_owned(n).acquire()`](crate::Semaphore::cost_owned) takes `n`
//!   permits, all or none. For slots and memory together, [`all`](crate::all):
//!   `all((Arc::clone(&slots), Arc::clone(&memory).cost_owned(kilobytes)))`.
//! - *A stream of files*: `files.map(upload).buffer_limited(&slots)` of the crate [`tollgate-io`] wraps the output of each
//!   `upload` in a `Result` of the limiter.
//! - *Threads*: [`acquire().wait()`](crate::wait::Waiting::wait) blocks the thread.
//! - *A new cap while it runs*: [`set_permits`](crate::Semaphore::set_permits), up or down; 0 pauses. If you
//!   don't know the right cap, use [an adaptive one].
//! - *Requests or bytes per second*: [limit an API client](super::limit_an_api_client), or the guide of the
//!   crate [`tollgate-io`].
//! - *An object store, such as S3*: the crate [`tollgate-object-store`] limits the HTTP requests of a store,
//!   including retries and the parts of a large upload.
//!
//! # Traps
//!
//! - `?` in these loops drops the `JoinSet`, which aborts the running uploads. To stop and drain, `break` on
//!   [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled), then join; see
//!   [cancel and shut down](super::cancel_and_shut_down). The loop sees an error only with its next permit:
//!   to stop at once, let the failing task cancel a token, and pass that token to the `acquire` of the loop.
//! - `let _ = slots.acquire().await?;` returns the permit at once. Name it: `let _permit`.
//! - A task that acquires a second permit of the same semaphore while it holds one can deadlock with
//!   others that do the same. Take both at once with `acquire_many(2)`.
//! - A request for more permits than the limit fails with
//!   [`ExceedsCapacity`](crate::ErrorKind::ExceedsCapacity); it does not wait for ever.
//!
//! [`tollgate-io`]: https://docs.rs/tollgate-io/latest/tollgate_io/
//! [`tollgate-object-store`]: https://docs.rs/tollgate-object-store/latest/tollgate_object_store/
//! [an adaptive one]: https://docs.rs/tollgate-adaptive/latest/tollgate_adaptive/guide/index.html
