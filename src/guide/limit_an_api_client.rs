//! Limit an API client, such as reqwest: at most N calls per second, and a pause when the server asks for one.
//!
//! A [`RateLimiter`](crate::RateLimiter) delays each call until the quota admits it, in first-in
//! first-out order. All tasks of the client share it.
//!
//! # With reqwest
//!
//! The crate [`tollgate-reqwest`] offers limits as middleware. Callers use the client like reqwest's own:
//!
//! ```toml
//! [dependencies]
//! reqwest = "0.13"
//! reqwest-middleware = "0.5" # its features `json`, `form` and `query` are those of reqwest
//! tokio = { version = "1.49", features = ["full"] }
//! tollgate = { path = "../tollgate" }
//! tollgate-reqwest = { path = "../tollgate/crates/tollgate-reqwest" }
//! ```
//!
//! ```no_run
#![doc = include_str!("programs/limit_reqwest.rs")]
//! ```
//!
//! When a response is 429, 503 or 403 and asks for a pause, nothing is sent during the pause, which is up to 10 % longer
//! than the server asks for. Then the request is sent again, up to twice, if it is a GET, PUT, DELETE or another
//! method that is safe to repeat. The middleware does not wait for a pause longer than `max_wait`, a minute by default:
//! it returns the response at once, and sends requests each minute until the server refuses one of them.
//!
//! # With any other client
//!
//! ```toml
//! [dependencies]
//! futures = "0.3"
//! tokio = { version = "1.49", features = ["full"] }
//! tollgate = { path = "../tollgate" }
//! ```
//!
//! ```no_run
#![doc = include_str!("programs/limit_an_api_client.rs")]
//! ```
//!
//! A client over HTTP that sends requests by itself, to one server or many, keeps the pauses of each with
//! `tollgate_http::Pauses`: they last as long as asked, and afterwards the server is not flooded. Its `Call` has a loop to
//! copy.
//!
//! # Choices
//!
//! - *The quota*: `Quota::per_minute(100)`, or `"100/60s burst 20".parse()` from a configuration. The default
//!   [`burst`](crate::Quota::burst) is 1, so calls are evenly spaced. With `per_second(20).burst(5)`, the first
//!   second may have 25. A provider that counts per window or per day may need
//!   [another algorithm](super::choose_an_algorithm).
//! - *Calls of different cost*: [`acquire_many(n)`](crate::RateLimiter::acquire_many); when the cost is known
//!   later, [`settle`](crate::RateLimiter::settle) corrects it.
//! - *Now or never*: [`try_acquire`](crate::RateLimiter::try_acquire) returns an error whose
//!   [`retry_after`](crate::AcquireError::retry_after) is exact.
//! - *A server whose limit you don't know*: [`AdaptiveRate`](crate::adaptive::AdaptiveRate) adapts to it.
//! - *Limits by host or route of reqwest*: `ThrottleMiddleware::by(|request| ..)`; a crawler has [a page of its
//!   own](super::crawl_politely).
//! - *Clients of hyper and tower*: `RetryAfterLayer` of the crate [`tollgate-tower`] waits as long as the server asks
//!   for, with `Retry-After` or an exhausted limit, up to its `max_wait`, a minute by default, and repeats idempotent
//!   requests without a body up to twice. Its innermost clone goes directly around the client, so that no request that
//!   waits for the rate is sent during a pause:
//!
//!   ```text
//!   let client = ThrottleLayer::new(rate).errors().layer(retry.innermost().layer(client));
//!   let client = ThrottleLayer::new(slots).errors().layer(retry.layer(client));
//!   ```
//!
//! # Traps
//!
//! - A wait that cannot end within its timeout is refused at once, with `TimedOut` and the remaining time
//!   as `retry_after`: choose a timeout above the longest pause.
//! - A pause spends the burst: calls then leave one by one. Requests already admitted are still sent.
//! - Repeat only requests that are safe to repeat. A failed call stays charged; [`refund`](crate::RateLimiter::refund)
//!   it if nothing was sent.
//! - Each process has the whole quota. To divide it among several, [share it](super::share_a_limit).
//!
//! [`tollgate-reqwest`]: https://docs.rs/tollgate-reqwest/latest/tollgate_reqwest/
//! [`tollgate-tower`]: https://docs.rs/tollgate-tower/latest/tollgate_tower/
