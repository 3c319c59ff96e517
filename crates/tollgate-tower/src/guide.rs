//! Limit an HTTP service: by client and in total, with answers that tell clients their limits.
//!
//! A [`ThrottleLayer`](crate::ThrottleLayer) puts a router of axum, or any service of hyper or tonic,
//! behind limits that a closure chooses for each request. The simplest limit, by address:
//!
//! ```toml
//! [dependencies]
//! axum = "0.8"
//! tokio = { version = "1.49", features = ["full"] }
//! tollgate = { path = "../tollgate" }
//! tollgate-tower = { path = "../tollgate/crates/tollgate-tower" }
//! ```
//!
//! ```no_run
#![doc = include_str!("guide/programs/limit_each_address.rs")]
//! ```
//!
//! # In total, at once, and with fields that tell the limits
//!
//! ```no_run
#![doc = include_str!("guide/programs/limit_in_total.rs")]
//! ```
//!
//! In tests, requests go to the router by `oneshot` of `tower::ServiceExt`, with a `ConnectInfo` in their extensions.
//! With the feature `test-util` of tollgate, limits follow [the paused time of
//! tokio](tollgate::guide::test_code_that_waits).
//!
//! # Choices
//!
//! - *Waiting*: [`by`](crate::ThrottleLayer::by) with a
//!   [`timeout`](crate::ThrottleLayer::timeout). The order of the second program is for `refusing`: requests that
//!   wait for slots after a rate leave together, so with `by` put both slots [first](tollgate::all). One limit
//!   for all requests: [`new`](crate::ThrottleLayer::new).
//! - *Behind a proxy*: [`behind(1)`](crate::ClientIp::behind) takes the last element of
//!   `X-Forwarded-For` ([other headers, networks of proxies](crate::ClientIp)); without the header,
//!   all share the proxy's limit. Close the port to everyone but the proxy.
//! - *By user*: take the key from an extension that your authentication has set:
//!   `ThrottleLayer::by(move |head| head.extensions.get::<User>().map(|user| Arc::clone(&users).key_owned(user.id)))`.
//!   A request for which the closure returns `None` is not limited.
//! - *Only failures count*, such as wrong passwords: [`refund_if`](crate::ThrottleLayer::refund_if).
//! - *Change it live*: [`set_quota`](tollgate::RateLimiter::set_quota) of an `Arc` in the router's state, as in
//!   `axum_full`; `tonic_limit` is for gRPC. *A backend that gets slow*: an [adaptive
//!   limit](tollgate::guide::find_the_right_limit), with [`overloaded_if`](crate::ThrottleLayer::overloaded_if).
//!
//! # Traps
//!
//! - Never key a limit by an unverified API key: a client can invent keys and get a fresh limit for each.
//! - Routes that are added after the layer are not behind it. A permit is held until the body has been sent,
//!   so without `client_slots` a client that reads slowly can take all slots.
//! - A refusal by slots has no `Retry-After`: nobody knows when one is free.
//! - A cost above the burst is answered with 413. In the fields, `q` is the count without the burst, and `r` (what is
//!   left) is never more than `q`.
//! - Each map has [100,000 keys](tollgate::Keyed::max_keys) at most; a full one answers with 503. A client with
//!   IPv6 is a [whole network](crate::ClientIp::prefixes).
