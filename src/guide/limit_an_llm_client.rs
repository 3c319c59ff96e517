//! Limit an LLM client: requests and tokens per minute together, as the provider counts them, although the tokens of a
//! request are only known afterwards.
//!
//! A provider has a limit of requests, and one of tokens or two, of input and of output. A request enters all of them
//! together when the last one has room. Its response has fields that say what remains of each limit; they include
//! other users of the key.
//!
//! ```toml
//! [dependencies]
//! reqwest = "0.13"
//! reqwest-middleware = "0.5"
//! serde_json = "1"
//! tokio = { version = "1.49", features = ["full"] }
//! tollgate-reqwest = { path = "../tollgate/crates/tollgate-reqwest" }
//! ```
//!
//! ```no_run
#![doc = include_str!("programs/llm_client.rs")]
//! ```
//!
//! After a 429, nothing is sent for as long as the provider asks, and then the request is repeated, up to twice. A POST
//! that is refused with 503 or 529 is not repeated, because it may have been handled, unless `.retry_if(..)` says
//! otherwise. See [Limit an API client](super::limit_an_api_client).
//!
//! # What does a provider charge?
//!
//! What counts is what the *provider* charges, and not what the model has used:
//!
//! | the provider charges | the limit |
//! |---|---|
//! | a number that is known when a request is sent, such as the larger of the prompt and `max_tokens` | `.cost(..)` |
//! | an estimate, and returns the unused part; or what was used | `.hold(..)` with the most that a request may use; the `Usage` of the response settles it |
//! | failed requests, too, as OpenAI documents | `.charged(..)`, which returns `Charged::Estimate`. By default a refusal costs nothing. |
//! | nothing for a request that fails in another way | `.charged(..)`, which returns `Charged::Exactly(0)` for its status |
//!
//! In the simulation `llm` of the repository, 64 callers use 95 % and more of what an ideal client would, and less than 0.5 % of
//! their calls are refused, with and without fields, whether the provider counts by a bucket or by windows, the maximum, an
//! estimate or the usage. Beside another user of 30 %, with fields, at most 2 % are refused, and 93 % are used where a bucket is
//! counted.
//!
//! # Choices
//!
//! - *The algorithm*: a bucket that refills evenly, as OpenAI and Anthropic describe theirs; `.algorithm(..)` with
//!   [`FixedWindow`](crate::Algorithm::FixedWindow) for one that restarts each minute, or with
//!   [`SlidingLog`](crate::Algorithm::SlidingLog) if its responses do not say when.
//! - *A limit per second or per day*: the period of `ApiLimit::new`. If a provider reports several windows of one unit, choose
//!   one by `.follow(..)`.
//! - *Other users of the same key* appear in the fields of the responses. If they use up what remains, add
//!   `.spaced()`. Without such fields nobody tells you: set the limit to your share.
//! - *Streamed responses*: keep the `Usage` until the stream ends, because its last event reports the usage. OpenAI sends
//!   that event if the request has `"stream_options": {"include_usage": true}`.
//! - *At most N at once*: `.behind(slots)` of the middleware, with a [`Semaphore`](crate::Semaphore).
//! - *A self-hosted server* has a limit of requests at once, and none of a minute: `.behind(slots)` alone.
//! - *async-openai*: it takes a service of tower that sends its requests, so a client with this middleware fits in. `tools/clients`
//!   in the repository has it in 26 lines.
//! - *Any other client*: `ApiLimits` of the crate [`tollgate-http`]: enter `limits.call(&request)`, send the
//!   request, and pass the head of the response to the charges.
//! - *A key for each user*: use `ApiLimits` for each, or limit tokens by [key](crate::Keyed) without holds.
//!
//! # Traps
//!
//! - A provider limits each model, or each group of models, apart, and its fields are about the one of the request. So
//!   make a client with limits of its own for each. The limits apply to all requests of a client, to any server.
//! - The program reads `max_tokens`. Some models have another field, such as `max_completion_tokens`. A body that is a
//!   stream has no bytes to read, and its estimate is that of an empty one.
//! - An estimate above the limit, less its margin of 2 %, is refused with
//!   [`ExceedsCapacity`](crate::ErrorKind::ExceedsCapacity).
//! - The sum of all holds is at most the limit. If calls are slow and their estimates are high, they wait for one
//!   another's responses. A lower `max_tokens` lets more of them run.
//! - A `Usage` that is dropped unsettled counts as the estimate; so does a request that was cancelled.
//! - Each process follows on its own. Several processes see each other only through the provider's count.
//!
//! [`tollgate-http`]: https://docs.rs/tollgate-http/latest/tollgate_http/
