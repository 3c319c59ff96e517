//! Share a limit: one quota for several processes or machines.
//!
//! Give each of them an equal part of the quota, which needs no communication; or keep the limit on
//! Redis or Valkey with the crate `tollgate-redis`, which gives each what the others leave.
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
//! - *Parts* suit load that is spread evenly and a number of nodes that is known. What one node does not
//!   use, no other gets. When nodes come and go, call
//!   [`set_quota`](crate::RateLimiter::set_quota) with the new part.
//! - *A server* costs a round trip for a decision, or less with `prefetch`. Its README says what holds when
//!   the server fails, and how each limit falls back.
//! - *In a layer*, a limit on a server can only be waited for: `ThrottleLayer::by` with a `timeout` of more than
//!   a round trip.
//! - *The limit of a backend that all of them load*: each process [finds its
//!   part](super::find_the_right_limit) with no number at all.
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
//!   also with `token()`: let what it writes to reject a `fencing()` number below one that it has seen.
//! - The types of both crates have the same names. Import one of the two `RateLimiter`s.
