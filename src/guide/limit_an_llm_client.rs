//! Limit an LLM client: requests and tokens a minute together, where the tokens of a call are known
//! afterwards.
//!
//! Before a call is sent, its estimate is held: the tokens of the prompt and `max_tokens`. When the answer
//! says what was used, the rest comes back. The answer also says what the provider has counted, so other
//! users of the key are seen.
//!
//! ```toml
//! [dependencies]
//! http = "1"
//! tokio = { version = "1.49", features = ["full"] }
//! tollgate = { path = "../tollgate" }
//! tollgate-tower = { path = "../tollgate/crates/tollgate-tower" }
//! ```
//!
//! ```
#![doc = include_str!("programs/llm_client.rs")]
//!
//! # async fn example(limits: &Limits) -> Result<(), AcquireError> {
//! // For each call; `send` is yours, with reqwest, async-openai or any other client.
//! let call = limits.begin(500 + 1_000).await?;
//! let (status, headers, used) = send().await;
//! limits.end(call, status, &headers, used);
//! # Ok(())
//! # }
//! # async fn send() -> (StatusCode, HeaderMap, u64) { (StatusCode::OK, HeaderMap::new(), 700) }
//! # fn main() {
//! # let limits = Limits::new(500, 90_000, Algorithm::Gcra);
//! # drop(example(&limits));
//! # }
//! ```
//!
//! In the simulation `examples/llm_client`, with 64 callers and providers that count in three ways, this
//! program uses 96 to 98 % of the tokens that a client would get that knew all that the provider knows, and
//! less than 0.5 % of its calls are refused.
//!
//! # Choices
//!
//! - *The algorithm*: [`Gcra`](crate::Algorithm::Gcra) for a bucket that refills evenly, as OpenAI and
//!   Anthropic describe theirs; [`SlidingLog`](crate::Algorithm::SlidingLog) for a limit in any minute;
//!   [`FixedWindow`](crate::Algorithm::FixedWindow) for one that begins anew each minute. A log takes memory
//!   and time for each of its tokens: count in tens above 100,000.
//! - *The margin*: the limiters have 2 % less than the provider, and their minute is 100 ms longer, because the
//!   provider counts by its own clock, and calls do not all take equally long to it. A log with exactly the
//!   provider's quota is refused several times.
//! - *Calls that fail*: dropping a [`Hold`](crate::Hold) counts its estimate. If the provider counts nothing for
//!   a failed call, `settle(0)`.
//! - *Streamed answers*: keep the `Call` until the stream ends, where its usage is. Follow the fields as soon
//!   as they are there: [`Hold::charge`](crate::Hold::charge) is the charge that they belong to.
//! - *At most so many at once*: put a [`Semaphore`](crate::Semaphore) first into [`all`](crate::all).
//! - *A key for each user*: a `Limits` for each, or tokens by [key](crate::Keyed) without holds.
//!
//! # Traps
//!
//! - All that is held at once is at most the burst. With a burst below `callers * estimate`, calls wait for
//!   one another's answers.
//! - An estimate that is far too high costs tokens in a log, which counts it until the answer.
//! - A [`settle`](crate::RateLimiter::settle) without a hold gives back only what time has not paid off: for
//!   calls of seconds, nothing.
//! - Each process follows for itself. Several processes see one another only in what the provider says.
