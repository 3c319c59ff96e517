//! Which limit to choose, how it finds itself, and who goes first.
//!
//! # The simple answer
//!
//! | you know | choose |
//! |---|---|
//! | the number: it is in a contract, or is the size of a pool | [`Semaphore`](crate::Semaphore), [`RateLimiter`](crate::RateLimiter) |
//! | that a backend gets slow when too many calls run at once | [`AdaptiveSemaphore`](crate::adaptive::AdaptiveSemaphore) with its default controller |
//! | that a server refuses calls above a rate that it does not tell | [`AdaptiveRate`](crate::adaptive::AdaptiveRate) |
//! | that some callers matter more than others, or share evenly | a [`FairQueue`](crate::fair::FairQueue) in front of any of these |
//!
//! ```
//! use std::sync::Arc;
//! use tollgate::adaptive::{AdaptiveSemaphore, Feedback};
//! use tollgate::fair::FairQueue;
//! use tollgate::throttle::Adaptive;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tollgate::AcquireError> {
//! let database = Arc::new(AdaptiveSemaphore::default());
//! let tenants = FairQueue::new(Arc::clone(&database));
//!
//! let acme = tenants.class("acme");
//! let permit = acme.acquire().await?;
//! // Query the database. If it answers:
//! drop(permit);
//!
//! // If it has too much to do, or does not answer in time, say so:
//! let permit = acme.acquire().await?;
//! acme.finish(permit, Feedback::OVERLOADED);
//! // Or with the methods of the inner permit:
//! let permit = acme.acquire().await?;
//! permit.into_inner().overloaded();
//! # assert_eq!(database.snapshot().window.overloaded(), 2);
//! # Ok(())
//! # }
//! ```
//!
//! # Why a limit that is right today is wrong tomorrow
//!
//! A backend that works on `c` calls at once, each for a time `S`, answers at most `c/S` calls per
//! second. With fewer than `c` calls in flight, some of its workers are idle. With more than `c`, the
//! others wait in a queue of the backend, where no one can reorder or cancel them, and every call takes
//! longer: with `L` calls in flight, by Little's law, `L·S/c`. So the right limit is a little
//! above `c`, and `c` moves: with each deployment, with the work of other clients, and with a disk that
//! is slow today.
//!
//! # How a concurrency limit finds itself
//!
//! The limiter watches the only thing that it can see, how long calls take. The default controller,
//! [`Gradient`](crate::adaptive::Gradient), compares the latency at the present limit with a baseline, the
//! latency without a queue. If calls take as long as the baseline, the limit grows; if they take
//! longer, it shrinks in proportion.
//!
//! The difficult part is the baseline. A controller that remembers the shortest latency it has ever
//! seen is wrong as soon as the calls themselves become slower: it takes that for a queue, and
//! shrinks without end. One that forgets the baseline slowly takes a queue that lasts for the new normal,
//! and grows without end. `Gradient` therefore measures the baseline again and again, at half of the
//! limit: if half of the calls in flight take as long each, the difference was no queue. It costs half
//! of the throughput for one window of samples, one to three percent in all.
//!
//! This is what the controllers do in a simulation, beside the best fixed limit, while the number of
//! workers of a server changes, and while its calls become slower and faster again:
//!
//! <div style="overflow-x: auto">
#![doc = include_str!("../docs/adaptive-workers.svg")]
//! </div>
//!
//! <div style="overflow-x: auto">
#![doc = include_str!("../docs/adaptive-service.svg")]
//! </div>
//!
//! # What you tell it
//!
//! - *One limiter for each resource.* Latencies of two databases have nothing in common. For calls of very
//!   different size to one resource, the mean of the logarithms keeps a few long ones from dominating.
//! - *The permit is the call.* Acquire it just before the request is sent and drop it when the answer is
//!   there. What else the caller does with the permit looks like latency, and so does a wait for
//!   another limit: in [`all`](crate::all), put an `AdaptiveSemaphore` last, also behind rates.
//! - *Overload is not latency.* A refusal is fast, so a backend that refuses everything looks like
//!   one with nothing to do. Say [`overloaded`](crate::adaptive::AdaptivePermit::overloaded) after a
//!   timeout, 429 or 503, and to a rate [`throttled`](crate::adaptive::RatePermit::throttled), with the
//!   wait that the server asks for. Say [`ignore`](crate::adaptive::AdaptivePermit::ignore) after a call
//!   that says nothing: rejected input, an answer from a cache. With the feature `tower`,
//!   `tower::ThrottleLayer::classify` does it for each answer of a client.
//! - *A limit that nobody reaches does not move.* Below 80 % of the limit, latencies say nothing about more.
//!
//! # The queue in front of it
//!
//! A limit moves the queue from the backend to the caller, where something can be done about it. Under
//! overload a first-in first-out queue is the worst choice: every caller waits for nearly as long
//! as it is willing to, and is served when that is over. Bound it
//! ([`max_waiters`](crate::adaptive::AdaptiveSemaphore::max_waiters)), add a
//! [`timeout`](crate::Waiting::timeout), or put a [`FairQueue`](crate::fair::FairQueue) in front, in which a
//! class of callers can be served [newest first](crate::fair::Order::AdaptiveLifo) while there is too much
//! to do, and refuses those that have waited [too long](crate::fair::Class::max_queue_time) without
//! using a permit.
//!
//! # Several processes
//!
//! Each process finds its own share: all see the same latency, and all shrink when it rises. They need
//! no coordination, and no process knows the number of the others. The shares need not be even.
//! Where they must be, or where a number is known, use a limit across machines of the crate
//! `tollgate-redis`.
