//! Send webhooks: a rate and slots for each receiver, repeated events within a budget, and no receiver that holds up the
//! others.
//!
//! A sender has thousands of receivers, of which some are slow, down, or refuse events for a while. The middleware of the
//! crate [`tollgate-reqwest`] keeps them apart: an event waits first until its receiver is not paused, then for a slot and
//! the rate of the receiver, and only then for one of the slots of all.
//!
//! ```toml
//! [dependencies]
//! reqwest = "0.13"
//! reqwest-middleware = "0.5"
//! tokio = { version = "1.49", features = ["full"] }
//! tollgate = { path = "../tollgate" }
//! tollgate-reqwest = { path = "../tollgate/crates/tollgate-reqwest" }
//! ```
//!
//! ```no_run
#![doc = include_str!("programs/send_webhooks.rs")]
//! ```
//!
//! A receiver that refuses events with 429, or 503 and `Retry-After`, is paused for as long as it asks, or for a second that
//! doubles to a minute. No event is sent to it meanwhile. Afterwards its events go step by step, in their order. A refused
//! event is repeated up to four times, within a
//! [budget](https://docs.rs/tollgate-http/latest/tollgate_http/struct.Pauses.html) for each receiver, so an outage does not
//! multiply the requests.
//!
//! # Choices
//!
//! - *Order*: `Keyed::semaphores(1)` for a receiver sends its events one after the other. Later ones overtake an event that
//!   is put back into the queue, and one that waits to be repeated after a 503 or 529 without `Retry-After`, which
//!   pauses nobody. For a strict order, send the events of a receiver from one task.
//! - *Events that wait*: each waits in its task. Bound them, with a task for each receiver that takes its events from a
//!   queue, or with `Keyed::new(Semaphore::new(2).max_waiters(100))`, which refuses more with
//!   [`QueueFull`](crate::ErrorKind::QueueFull).
//! - *A customer with several receivers*: the customer's name as the key, in place of the origin.
//! - *Receivers that time out*: `reqwest::ClientBuilder::timeout`. Such an event is not repeated by the middleware, because
//!   the receiver may have handled it: `deliver` returns `Later`.
//!
//! # Traps
//!
//! - A receiver that does not answer is not paused by itself: each of its events holds a slot of all until it times
//!   out. With 32 such receivers, two events of each take all 64 slots, and the others wait. So set a short timeout, and
//!   pause a receiver after such an error: `pauses.pause(origin(&url), a_while)`, with a clone of the `Pauses`.
//! - Without `retry_if`, a POST is repeated only after a 429: a 503 may come from a proxy behind which the event was
//!   handled.
//! - An event that was delivered may be sent again, after a crash or a timeout. Receivers need its id.
//! - Two receivers on one host and port share its pauses. `gate_by` tells them apart, for example by the path.
//!
//! [`tollgate-reqwest`]: https://docs.rs/tollgate-reqwest/latest/tollgate_reqwest/
