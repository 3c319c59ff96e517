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
//! When a response is 429, 503 or 403 and asks for a pause, nothing is sent during the pause, however long it is: an
//! hour, for example, with GitHub. Then the requests go step by step, first one and then more, and the refused one is
//! sent again, up to twice: after a 429 any that can be cloned, otherwise a GET, PUT, DELETE or another method that is
//! safe to repeat. A caller that would wait for longer than `max_wait`, 90 s by default, gets the error `Paused`
//! at once, with the remaining time; `Paused::in_chain(&error)` finds it. The requests that were refused get the response
//! itself. The waits for the slots and the rate do not count, and have no bound: put `tokio::time::timeout` around `send`
//! for one. A 429 that does not say how long pauses for a second, then two, and up to a minute.
//!
//! ```text
//! // For a job that has all night:
//! PausesMiddleware::new(Pauses::new().max_wait(Duration::from_secs(8 * 3600)))
//! ```
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
//! - *A server whose limit you don't know*: [`AdaptiveRate`] adapts to it.
//! - *Limits by host or route of reqwest*: `ThrottleMiddleware::by(|request| ..)`; a crawler has [a page of its
//!   own](super::crawl_politely).
//! - *Paths with limits of their own*, such as the search of GitHub: `.gate_by(|url| ..)` names what a refusal
//!   pauses, in place of the whole server. A refusal that is about all paths then pauses each of them only when it
//!   meets it, too.
//! - *A wait in the body of a refusal*, as the secondary limits of GitHub and the bots of Telegram have it:
//!   `.refusals(Refusals::github())`, or `Refusals::by_body(..)` for others.
//! - *Clients of hyper and tower*: `PausesLayer` of the crate [`tollgate-tower`] does the same, and repeats requests
//!   without a body, or those whose body it can copy:
//!
//!   ```text
//!   let client = PausesLayer::new(Pauses::new()).behind(all((slots, rate))).layer(client);
//!   ```
//!
//! - *Any other client*: `Pauses::call` of the crate [`tollgate-http`](https://docs.rs/tollgate-http/latest/tollgate_http/).
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
//! [`AdaptiveRate`]: https://docs.rs/tollgate-adaptive/latest/tollgate_adaptive/struct.AdaptiveRate.html
