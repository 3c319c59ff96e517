//! Crawl politely: one request at a time to each host, a pause between two of them, and a limit for all hosts.
//!
//! A [`Keyed`](crate::Keyed) has a semaphore for each host, and
//! [`release_after`](crate::semaphore::Permit::release_after) returns its permit only some time after the request has
//! ended. A rate limit cannot promise that pause: it spaces the starts of requests, so a slow host gets the next
//! request while it still answers the previous one.
//!
//! ```toml
//! [dependencies]
//! reqwest = "0.13"
//! tokio = { version = "1.49", features = ["full"] }
//! tollgate = { path = "../tollgate" }
//! ```
//!
//! ```no_run
#![doc = include_str!("programs/crawl_politely.rs")]
//! ```
//!
//! # As middleware of reqwest
//!
//! The crate [`tollgate-reqwest`] puts the same limits into the client, and waits as long as a host asks for with
//! `Retry-After`. A permit is held until the body has been read or dropped:
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
//! use tollgate::semaphore::Resting;
//! use tollgate::{Keyed, Semaphore, all};
//! use tollgate_reqwest::{Pauses, PausesMiddleware, origin};
//!
//! const REST: Duration = Duration::from_secs(2);
//!
//! fn polite(client: reqwest::Client) -> ClientWithMiddleware {
//!     let hosts = Arc::new(Keyed::semaphores(1).max_keys(1_000_000));
//!     let total = Arc::new(Semaphore::new(64));
//!     // Up to a million hosts that ask for a pause, and ten minutes for one of them.
//!     let pauses = Pauses::new().max_origins(1_000_000).max_wait(Duration::from_secs(600));
//!     let polite = PausesMiddleware::new(pauses)
//!         .behind_by(move |request| {
//!             let host = Arc::clone(&hosts).key_owned(origin(request.url()));
//!             all((Resting::new(host, REST), Arc::clone(&total)))
//!         })
//!         // A slow host rests for as long as a success took; Scrapy's AutoThrottle averages these times.
//!         .on_answer(|(host, _total), response, latency| {
//!             if response.status().is_success() {
//!                 host.set_duration(latency.max(host.duration()));
//!             }
//!         });
//!     ClientBuilder::new(client).with(polite).build()
//! }
//! # drop(polite(reqwest::Client::new()));
//! ```
//!
//! A request waits until its host is not paused, then for its host, and then for a slot of the total, so that a paused
//! host holds none of them. Before it is sent, the pause is checked once more. A request that is sent again waits
//! as long as the host asks, and for the rest of the host. A request that would wait for
//! longer than `max_wait` in pauses fails with `Paused`, which has the remaining time: put the link back, and visit it
//! then.
//!
//! # Choices
//!
//! - *A different pause for each host*, such as the `Crawl-delay` of its `robots.txt`: pass it to `release_after`, or to
//!   [`Resting`](crate::semaphore::Resting). The closure of `behind_by` looks it up in a map by `origin(request.url())`.
//! - *Several requests at once to each host*: `Keyed::semaphores(2)`; each of the two permits has its own pause.
//! - *A rate for each host as well*: [`rate_limiters`](crate::Keyed::rate_limiters), after the host's semaphore:
//!   `all((host, host_rate, total))`.
//! - *Fewer bytes per second*: the guide of the crate [`tollgate-io`].
//! - *Stop*: `cancel_on(&token)` ends the waits, see [cancel and shut
//!   down](super::cancel_and_shut_down).
//!
//! # Traps
//!
//! - The host comes before the total. In the other order, requests that wait for one host hold the slots of all.
//! - A key is one limit. `example.com` and `www.example.com` are two keys, and so are two ports of one server.
//! - reqwest follows redirects by itself, below the limits, also to a host that rests or is paused. Set
//!   `redirect::Policy::none()`, and visit the `Location` as a link of its own.
//! - A wait without a timeout keeps its task. With millions of links, keep those of each host in a queue and
//!   spawn the next one when a visit has ended; or bound the waiters, with
//!   `Keyed::new(Semaphore::new(1).max_waiters(100))`, and put back the links that are refused with
//!   [`QueueFull`](crate::ErrorKind::QueueFull).
//! - A host stays in the map while a visit to it waits or runs, and for two more seconds. With more hosts than
//!   [`max_keys`](crate::Keyed::max_keys), new ones are refused with
//!   [`TooManyKeys`](crate::ErrorKind::TooManyKeys).
//!
//! [`tollgate-io`]: https://docs.rs/tollgate-io/latest/tollgate_io/
//! [`tollgate-reqwest`]: https://docs.rs/tollgate-reqwest/latest/tollgate_reqwest/
