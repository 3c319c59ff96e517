//! Cancel and shut down: end waits without losing a permit, and drain the running work.
//!
//! A token ends all waits at once, `close` refuses new callers, and
//! [`wait_idle`](crate::Semaphore::wait_idle) waits for the work that holds permits.
//!
//! ```toml
//! [dependencies]
//! tokio = { version = "1.49", features = ["full"] }
//! tokio-util = "0.7"
//! tollgate = { path = "../tollgate" }
//! ```
//!
#![cfg_attr(feature = "tokio", doc = "```no_run")]
#![cfg_attr(not(feature = "tokio"), doc = "```text")]
#![doc = include_str!("programs/cancel_and_shut_down.rs")]
//! ```
//!
//! # Choices
//!
//! - *One wait*: drop its future, as `select!` and `tokio::time::timeout` do. It leaves the queue, and a
//!   permit that it was granted goes to the next waiter.
//! - *A timeout*: [`timeout`](crate::wait::Waiting::timeout) returns an error of its own kind, and a rate limiter
//!   refuses at once a wait that cannot end in time. It combines with `cancel_on` in any order.
//! - *All waits of a request, including those of other libraries*: one `CancellationToken` (feature `tokio`, a default).
//! - *Without a token*: `close()` also ends the waits, with [`Closed`](crate::ErrorKind::Closed). It cannot
//!   be undone; to stop for a while, use [`set_permits(0)`](crate::Semaphore::set_permits),
//!   [`pause_for`](crate::RateLimiter::pause_for) and [`resume`](crate::RateLimiter::resume), or a
//!   [`Gate`](crate::Gate). After a resume with fewer permits, [`reject_impossible`](crate::Semaphore::reject_impossible) refuses the waiters that ask for more.
//! - *Requests of reqwest*: `token.run_until_cancelled(..)` around the request and the reading of its body; the page of
//!   the crate [`tollgate-reqwest`] has the other ways.
//! - *Work with several limits*: `all((..)).acquire().cancel_on(&token)` returns the permits of its other parts.
//! - *Behind a fair queue or in a composition*: keep the `Arc` of the semaphore; close it, and await its
//!   `wait_idle`. Waits for a rate beside it end by the token, or by `close` of the rate.
//!
//! # Traps
//!
//! - `?` after `wait_idle().timeout(..)` drops the `JoinSet`, which aborts the running tasks, as in the loop of
//!   [parallel uploads](super::cap_parallel_uploads). If it times out,
//!   [`snapshot().in_use`](crate::Semaphore::snapshot) is the number of tasks that still run, or hold a slot while they wait
//!   for a later part of a composition; abort them or exit.
//! - A second Ctrl-C should exit: wait for `ctrl_c()` again beside `wait_idle`. Once it has been called, tokio
//!   catches the signal for ever. The example `ctrl_c` of the repository handles the first one.
//! - A cancelled wait has charged a rate limiter nothing. A call that was admitted and then cancelled
//!   stays charged; [`refund`](crate::RateLimiter::refund) gives the charge back.
//! - `wait_idle` ends when all permits have been dropped. The crate [`tollgate-observe`] finds a permit that
//!   is held too long.
//! - `wait_idle` without a token or `close` may not end while callers come and go.
//! - A rate limiter has no `wait_idle`, because its callers hold nothing: wait for their tasks.
//!
//! [`tollgate-observe`]: https://docs.rs/tollgate-observe/latest/tollgate_observe/
//! [`tollgate-reqwest`]: https://docs.rs/tollgate-reqwest/latest/tollgate_reqwest/
