//! Limit messages: those of a websocket, or the records of a Kafka consumer.
//!
//! To limit a stream of messages, stop reading it: unread messages wait on the other side, and no messages pile up
//! here.
//!
//! # A websocket
//!
//! ```toml
//! [dependencies]
//! futures = "0.3"
//! tokio = { version = "1.49", features = ["full"] }
//! tollgate = { path = "../tollgate" }
//! ```
//!
//! ```no_run
#![doc = include_str!("programs/limit_a_websocket.rs")]
//! ```
//!
//! `messages` is the `WebSocketStream` of tokio-tungstenite, or the `WebSocket` of axum.
//!
//! # A Kafka consumer
//!
//! `for_each_limited` of the crate [`tollgate-io`] takes the next record from the stream when the limits have
//! admitted the last one.
//!
//! ```toml
//! [dependencies]
//! futures = "0.3"
//! tokio = { version = "1.49", features = ["full"] }
//! tollgate = { path = "../tollgate" }
//! tollgate-io = { path = "../tollgate/crates/tollgate-io" }
//! ```
//!
//! ```no_run
#![doc = include_str!("programs/limit_kafka.rs")]
//! ```
//!
//! `records` is `consumer.stream()` of rdkafka's `StreamConsumer`, or any other stream of messages.
//!
//! # Choices
//!
//! - *Close the connection instead*: [`try_acquire`](crate::RateLimiter::try_acquire), and a close frame with the code
//!   1008 if it fails.
//! - *Large messages cost more*: `limit.acquire_many(bytes)` of a quota of
//!   [bytes](crate::Quota::bytes_per_second).
//! - *A limit for each user, not for each connection*: [a key](super::per_tenant_limits), made for the user when
//!   the connection is accepted.
//! - *Messages that are sent*: `sink.limited(&limiter, |message| 1)`, of [`tollgate_io::stream::LimitSinkExt`].
//! - *Results*: `records.map(handle).buffer_limited(limits)` is a stream of the outputs of `handle`, in the
//!   order in which the calls ended.
//! - *One record at a time of each partition or key*, in order: spawn a task for each partition, or use
//!   `rdkafka`'s `split_partition_queue`. A semaphore does not keep an order that was lost before it.
//!
//! # Traps
//!
//! - While a websocket is not read, its pings are not answered, and its close is not seen. Choose a burst and a rate
//!   whose waits are shorter than the ping timeout of the other side.
//! - rdkafka continues to fetch up to `queued.max.messages.kbytes` while the stream is not read. A consumer that
//!   reads nothing for `max.poll.interval.ms`, five minutes by default, loses its partitions: keep the wait for one
//!   record far below.
//! - With several records at once, a later one may end first. Store the offset of a record only when all earlier ones
//!   have ended; otherwise a restart skips those that have not.
//! - Dropping the future of `for_each_limited` drops the work in progress. To stop, end the stream, for example
//!   with `take_until`, and let it finish.
//!
//! [`tollgate-io`]: https://docs.rs/tollgate-io/latest/tollgate_io/
//! [`tollgate_io::stream::LimitSinkExt`]: https://docs.rs/tollgate-io/latest/tollgate_io/stream/trait.LimitSinkExt.html
