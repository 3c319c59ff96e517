//! Limit messages: those that a chat bot sends, those of a websocket, or the records of a Kafka consumer.
//!
//! # A chat bot
//!
//! The API of a chat limits the messages to each chat and those of a bot in all, and answers 429 with a pause
//! for one chat. A [`Keyed`](crate::Keyed) has the rates of the chats, another one has their gates, and a third one
//! has a slot for each. [`before`](crate::keyed::Key::before) puts a gate in front of the limits, and looks at it again
//! when they have admitted a message:
//!
//! ```toml
//! [dependencies]
//! futures = "0.3"
//! tokio = { version = "1.49", features = ["full"] }
//! tollgate = { path = "../tollgate" }
//! ```
//!
//! ```
#![doc = include_str!("programs/limit_a_bot.rs")]
//! ```
//!
//! After the pause, the messages of the chat leave at its rate, in the order in which they came to the gate.
//!
//! # A websocket
//!
//! To limit a stream of messages, stop reading it: unread messages wait on the other side, and no messages pile up
//! here.
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
//! # Batches
//!
//! "Up to 100 records, or what came in 100 ms, but at most 5 batches a second": the stream collects, and the
//! limiter counts batches. While a batch waits for the rate, records wait in the stream, and the next batch is
//! larger.
//!
//! ```toml
//! [dependencies]
//! futures = "0.3"
//! tokio = { version = "1.49", features = ["full"] }
//! tokio-stream = "0.1"
//! tollgate = { path = "../tollgate" }
//! tollgate-io = { path = "../tollgate/crates/tollgate-io" }
//! ```
//!
//! ```no_run
#![doc = include_str!("programs/limit_batches.rs")]
//! ```
//!
//! # Choices
//!
//! - *A pause of the whole bot*, if the API answers 429 without a chat: [`total.pause_for(..)`](crate::RateLimiter::pause_for).
//! - *A message that is not worth a long wait*: `limits.acquire().timeout(..)` refuses it at once if the pause is longer.
//! - *A chat and its owner*: a gate of each, `owner.before(chat.before(limits))`.
//! - *Close the connection instead*: [`try_acquire`](crate::RateLimiter::try_acquire), and a close frame with the code
//!   1008 if it fails.
//! - *Large messages cost more*: `limit.acquire_many(bytes)` of a quota of
//!   [bytes](crate::Quota::bytes_per_second), or `records.for_each_limited_by(limit, |record| bytes, handle)`.
//!   With slots too, in front of which is a fair queue or a sink:
//!   [`all((per_call(&slots), &bytes)).weighted()`](crate::throttle::All::weighted).
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
//! - A bot's message that was refused goes to the end of the queue of its chat. If the order of messages matters, send those
//!   of a chat from one task, each after the answer to the last one.
//! - In `all`, the chat comes before the total: a message that waits for its chat takes nothing of the total.
//! - A message that waits for the total has been charged to its chat already. Without the slot, the messages of a chat
//!   gather there while the total is full, and then [leave together](crate::all#order). With it, only one of them
//!   waits there, and the next one may follow it at once: at most two within a second.
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
