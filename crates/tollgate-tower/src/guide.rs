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
//! In tests, requests go to the router through `oneshot` of `tower::ServiceExt`, with a `ConnectInfo` in their
//! extensions. With the feature `test-util` of tollgate, limits follow [the paused time of
//! tokio](tollgate::guide::test_code_that_waits).
//!
//! # Choices
//!
//! - *Waiting*: use [`by`](crate::ThrottleLayer::by) with a
//!   [`timeout`](crate::ThrottleLayer::timeout). The order in the second program suits `refusing`: requests that
//!   wait for slots after a rate leave together. So with `by`, put both slots [first](tollgate::all). For one
//!   limit for all requests, use [`new`](crate::ThrottleLayer::new).
//! - *Behind a proxy*: [`behind(1)`](crate::ClientIp::behind) takes the last element of
//!   `X-Forwarded-For` ([other headers, networks of proxies](crate::ClientIp)). Without the header,
//!   all clients share the proxy's limit. Close the port to everyone except the proxy.
//! - *By user*: take the key from an extension that your authentication has set:
//!   `ThrottleLayer::by(move |parts| parts.extensions.get::<User>().map(|user| Arc::clone(&users).key_owned(user.id)))`.
//!   A request for which the closure returns `None` is not limited.
//! - *Count only failures*, such as wrong passwords: use [`refund_if`](crate::ThrottleLayer::refund_if).
//! - *Live changes*: call [`set_quota`](tollgate::RateLimiter::set_quota) of an `Arc` in the router's state, as in
//!   `axum_full`; `tonic_limit` is for gRPC. *A backend that slows down*: use an [adaptive
//!   limit](https://docs.rs/tollgate-adaptive/latest/tollgate_adaptive/guide/), with [`overloaded_if`](crate::ThrottleLayer::overloaded_if).
//!
//! # Traps
//!
//! - Never key a limit by an unverified API key: a client can invent keys and get a fresh limit for each.
//! - Routes that are added after the layer are not behind it. A permit is held until the body has been sent,
//!   so without `client_slots` a client that reads slowly can take all slots.
//! - A refusal by slots has no `Retry-After`, because the time of the next free slot is not known.
//! - A cost above the burst is answered with 413. In the fields, `q` is the count without the burst, and `r` (the
//!   remaining part) is never more than `q`.
//! - Each map has at most [100,000 keys](tollgate::Keyed::max_keys); a full map answers with 503. A client with
//!   IPv6 counts as a [whole network](crate::ClientIp::prefixes).
