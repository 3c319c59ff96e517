//! Watch limits in production: permits in use, waiters, and code that holds a permit for too long.
//!
//! `snapshot()` of every limit returns its state. [`Observed`](crate::Observed) wraps a throttle
//! and reports each entry to observers: counters and histograms, a list of holders, events.
//!
//! ```toml
//! [dependencies]
//! metrics-exporter-prometheus = { version = "0.18", default-features = false }
//! tollgate = { path = "../tollgate" }
//! tollgate-observe = { path = "../tollgate/crates/tollgate-observe", features = ["metrics"] }
//! ```
//!
#![cfg_attr(feature = "metrics", doc = "```")]
#![cfg_attr(not(feature = "metrics"), doc = "```text")]
#![doc = include_str!("guide/programs/watch_connections.rs")]
//! ```
//!
//! # Choices
//!
//! - *Events*: `Traced` (feature `tracing`) reports waits, and warns of waits and permits that
//!   take long.
//! - *Other data*, such as the path of a request that holds a slot: write your own
//!   [`Observer`](crate::Observer), and create one for each request if necessary.
//! - *Keys*: `snapshot()` of a key, and [`keys`](tollgate::Keyed::keys) for those in use. All keys share one
//!   `Metrics`.
//! - *Classes*: [`snapshot`](tollgate::fair::FairQueue::snapshot) of a fair queue lists the holders and waiters of each class.
//! - *Adaptive limits*: their [snapshot](tollgate_adaptive::AdaptiveSemaphore::snapshot) has the limit, its last
//!   window, why it is what it is, and the `permits` for `record`. An [`ObservedController`](crate::ObservedController)
//!   reports each decision, so that a probe does not look like an overload. To report the outcome of a call, take the inner permit with
//!   [`into_inner`](crate::ObservedPermit::into_inner).
//!
//! # Try a limit before it refuses anybody
//!
//! A [`Shadow`](crate::Shadow) is a throttle for layers and middleware like any other, and admits every caller.
//! Its reports are those of the limit on trial; give its `Metrics` a name of their own, such as `api-trial`.
//! For a rate, [`retry_after`](tollgate::AcquireError::retry_after) of a refusal is the least time that the
//! caller would have waited. When the figures are right, put the limit in its place.
//! ([envoyproxy/ratelimit#218] asks for the same.)
//!
//! [envoyproxy/ratelimit#218]: https://github.com/envoyproxy/ratelimit/issues/218
//!
//! # What to watch
//!
//! - `tollgate_wait_seconds` and `tollgate_waiting` grow: the limit is too small, or the resource that it
//!   protects is slow.
//! - `tollgate_refused_total` by `kind`, and `tollgate_abandoned_total`: `queue_full`, `timed_out` and abandoned
//!   waits mean overload; `exceeds_capacity` is a mistake of the caller, which asks for more than the limit has.
//! - `tollgate_held_seconds` grows while the duration of the work does not: permits are held for longer than the work takes.
//!
//! # Traps
//!
//! - Gauges change only by `record`: call it for each page, or every few seconds.
//! - `install_recorder` starts no upkeep: without `run_upkeep()`, the samples of histograms accumulate while
//!   nobody renders the page. `install()` starts upkeep, and serves the page with the feature `http-listener`.
//! - Entries of adapters and compositions are reported with the line that created the `Observed`, see
//!   [places](crate::Observed#places).
//! - A wait that is ended by a timeout or a token around it counts as abandoned, not as refused. Only a limiter
//!   that knows in advance that the wait would take longer refuses it, as `timed_out`.
