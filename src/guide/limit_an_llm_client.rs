//! Limit an LLM client: requests and tokens per minute together, although the tokens of a call are only known
//! afterwards.
//!
//! Before a call is sent, the program holds its estimate: the tokens of the prompt plus `max_tokens`. When the response
//! reports the usage, the rest is returned. The response also reports the provider's count, which includes other
//! users of the key.
//!
//! ```toml
//! [dependencies]
//! http = "1"
//! tokio = { version = "1.49", features = ["full"] }
//! tollgate = { path = "../tollgate" }
//! tollgate-http = { path = "../tollgate/crates/tollgate-http" }
//! ```
//!
//! ```
#![doc = include_str!("programs/llm_client.rs")]
//!
//! // For each call.
//! # async fn example(limits: &Limits, client: &Client) -> Result<(), AcquireError> {
//! let text = loop {
//!     let call = limits.begin(500 + 1_000).await?;
//!     // With reqwest, async-openai or any other client. Clone the fields before the body is read.
//!     let answer = client.send("a prompt of 500 tokens", "max_tokens: 1000").await;
//!     limits.end(call, answer.status, &answer.headers, answer.used);
//!     if answer.status != StatusCode::TOO_MANY_REQUESTS {
//!         break answer.text;
//!     }
//! };
//! # drop(text);
//! # Ok(())
//! # }
//! # struct Client;
//! # struct Answer { status: StatusCode, headers: HeaderMap, used: u64, text: String }
//! # impl Client {
//! #     async fn send(&self, _: &str, _: &str) -> Answer {
//! #         Answer { status: StatusCode::OK, headers: HeaderMap::new(), used: 700, text: String::new() }
//! #     }
//! # }
//! # fn main() {
//! # let limits = Limits::new(500, 90_000, Algorithm::Gcra);
//! # drop(example(&limits, &Client));
//! # }
//! ```
//!
//! In the simulation `llm_client`, an example of the repository, with 64 callers on a key of their own and providers that count in
//! three ways, this program uses 96 to 99 % of the tokens of an ideal client that knows the provider's state,
//! and less than 0.5 % of its calls are refused.
//!
//! # Choices
//!
//! - *The algorithm*: [`Gcra`](crate::Algorithm::Gcra) for a bucket that refills evenly, as OpenAI and
//!   Anthropic describe theirs; [`FixedWindow`](crate::Algorithm::FixedWindow) for one that restarts each
//!   minute. For a limit in any minute, [`SlidingLog`](crate::Algorithm::SlidingLog) counts requests. Do not
//!   count tokens with it: it takes memory and time for each of them, and a hold there is a charge that ages
//!   while its call runs. `Gcra` with a burst of `b` and `N - b` a minute admits at most `N` in any minute.
//! - *The margin*: the limiters have 2 % less than the provider, and their minute is 100 ms longer, because the
//!   provider counts with its own clock, and calls do not all take equally long to arrive. A log with exactly the
//!   provider's quota is refused several times.
//! - *Other users of the same key* appear in the provider's count, but only when a response arrives. If they use
//!   much of the quota, space the calls for each limit, as [`follow`](crate::RateLimiter::follow) shows; otherwise
//!   the provider refuses many of them. For tokens, give the second limiter a burst of the largest estimate.
//! - *A limit per second or per day*: change the period and the margin in `Limits::new`.
//! - *Calls that fail*: dropping a [`Hold`](crate::rate::Hold) counts its estimate. If the provider counts nothing for
//!   a failed call, `settle(0)`.
//! - *Streamed responses*: keep the `Call` until the stream ends, because its end reports the usage. Follow the
//!   fields as soon as they arrive: [`Hold::charge`](crate::rate::Hold::charge) is the charge that they belong to.
//! - *At most N at once*: put a [`Semaphore`](crate::Semaphore) first into [`all`](crate::all).
//! - *A key for each user*: use a `Limits` for each, or limit tokens by [key](crate::Keyed) without holds.
//!
//! # Traps
//!
//! - An estimate above the limit, less its margin, is refused with
//!   [`ExceedsCapacity`](crate::ErrorKind::ExceedsCapacity).
//! - A pause spends the burst of the requests: after it, they start at the rate.
//! - The sum of all holds is at most the burst. With a burst below `callers * estimate`, calls wait for
//!   one another's responses.
//! - A [`settle`](crate::RateLimiter::settle) without a hold returns only the part that time has not paid off yet: nothing,
//!   for calls that take seconds.
//! - Each process follows on its own. Several processes see each other only through the provider's count.
