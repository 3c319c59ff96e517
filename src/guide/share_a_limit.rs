//! Share a limit: one quota for several processes or machines.
//!
//! Give each process an equal part of the quota, which needs no communication; or keep the limit on
//! Redis or Valkey with the crate [`tollgate-redis`], so that each process can use the capacity that the others leave.
//! The processes of one machine keep it in a file, with the crate [`tollgate-file`], and need no server.
//!
//! ```toml
//! [dependencies]
//! tokio = { version = "1.49", features = ["full"] }
//! tollgate = { path = "../tollgate" }
//! ```
//!
//! ```no_run
#![doc = include_str!("programs/share_a_limit.rs")]
//! ```
//!
//! # On Redis or Valkey
//!
//! ```toml
//! [dependencies]
//! tokio = { version = "1.49", features = ["full"] }
//! tollgate = { path = "../tollgate" }
//! tollgate-redis = { path = "../tollgate/crates/tollgate-redis" }
//! ```
//!
//! ```ignore
#![doc = include_str!("programs/share_on_redis.rs")]
//! ```
//!
//! # Choices
//!
//! - *Parts* suit evenly spread load and a known number of nodes. Capacity that one node does not use is lost
//!   to the others. When nodes come and go, call
//!   [`set_quota`](crate::RateLimiter::set_quota) with the new part.
//! - *A file* serves command-line tools, build jobs and agents of one machine: a decision takes some microseconds, the
//!   state survives restarts, and a killed process leaves nothing behind. Waiters of several processes are served in a
//!   rough order.
//! - *A server* costs a round trip for a decision, or less with `prefetch`. Its README describes the guarantees when
//!   the server fails, and how each limit falls back. [Tests](crate::guide::test_code_that_waits) need none.
//! - *In a layer*, calls must wait for a limit on a server: use `ThrottleLayer::by` with a `timeout` of more than
//!   a round trip.
//! - *A backend that all processes load*: each process [finds its
//!   share][find] without any number.
//! - *One process, many threads*: share one limiter; threads need no parts. For millions of decisions a
//!   second, give each thread a [`local`](crate::RateLimiter::local) batch.
//!
//! # Traps
//!
//! - A burst smaller than the number of nodes is rounded up to 1 for each. A part has the same count and a
//!   longer period, so it does not equal a quota of the smaller count.
//! - With windows and logs every part admits the whole count at once; divide the count instead, see
//!   [`split`](crate::Quota::split).
//! - A holder whose whole process is paused for longer than the ttl notices the loss of its lease late,
//!   even with `token()`: let the storage that it writes to reject a `fencing()` number below the highest one that
//!   it has seen.
//! - The types of both crates have the same names. Import one of the two `RateLimiter`s.
//!
//! [`tollgate-file`]: https://docs.rs/tollgate-file/latest/tollgate_file/
//! [`tollgate-redis`]: https://docs.rs/tollgate-redis/latest/tollgate_redis/
//! [find]: https://docs.rs/tollgate-adaptive/latest/tollgate_adaptive/guide/index.html
