//! Decide who goes first: priorities and fair shares instead of first-in first-out.
//!
//! A [`FairQueue`](crate::fair::FairQueue) stands in front of any throttle. It decides by priority and by
//! weighted shares which class of callers gets the next permit.
//!
//! ```toml
//! [dependencies]
//! futures = "0.3"
//! # `test-util` is for the paused time of this program.
//! tokio = { version = "1.49", features = ["full", "test-util"] }
//! tollgate = { path = "../tollgate" }
//! ```
//!
#![cfg_attr(feature = "tokio", doc = "```")]
#![cfg_attr(not(feature = "tokio"), doc = "```text")]
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use futures::future::join_all;
//! use tokio::time::{Instant, sleep};
//! use tollgate::fair::{Class, FairQueue};
//! use tollgate::{Clock, Semaphore};
//!
//! #[tokio::main(flavor = "current_thread", start_paused = true)]
//! async fn main() {
//!     // The clock is for the paused time of this program.
//!     let slots = FairQueue::new(Arc::new(Semaphore::new(4)))
//!         .classes(|class: &&str| match *class {
//!             "interactive" => Class::new().priority(1),
//!             "acme" => Class::new().weight(3),
//!             _ => Class::new(),
//!         })
//!         .clock(Clock::tokio());
//!     let start = Instant::now();
//!     let request = async |class, at| {
//!         sleep(Duration::from_millis(at)).await;
//!         let _slot = slots.class(class).acquire().await.unwrap();
//!         sleep(Duration::from_millis(10)).await;
//!         start.elapsed().as_millis()
//!     };
//!
//!     // Two tenants send 100 requests each at once, and a person sends one a little later.
//!     let (acme, hooli, person) = tokio::join!(
//!         join_all((0..100).map(|_| request("acme", 0))),
//!         join_all((0..100).map(|_| request("hooli", 0))),
//!         request("interactive", 15),
//!     );
//!     // The person gets the first slot that comes back.
//!     assert_eq!(person, 30);
//!     // While both tenants wait, acme holds three slots and hooli one, minus the person's.
//!     let by_200_ms = |ends: Vec<u128>| ends.iter().filter(|&&end| end <= 200).count();
//!     assert_eq!((by_200_ms(acme), by_200_ms(hooli)), (60, 19));
//! }
//! ```
//!
//! # Choices
//!
//! - *Even shares among tenants*: no settings at all; each key is a class of weight 1.
//! - *Shares of a rate*, whose permits are not held:
//!   [`share(Share::ByCost)`](crate::fair::FairQueue::share). An entry counts what it asked for, also if it is
//!   settled for less.
//! - *Weights with few permits*: also `Share::ByCost`. By default classes share the permits that they hold, so
//!   weights of 3 and 1 are 75 : 25 of one permit and of multiples of four, 50 : 50 of two, and 67 : 33 of
//!   three and of six.
//! - *No starvation*: with [`aging`](crate::fair::FairQueue::aging), a class rises by one priority for each
//!   such period that its oldest waiter waits.
//! - *Overload*: bound each class with [`max_waiters`](crate::fair::Class::max_waiters), since a full queue
//!   refuses callers of every priority; give each wait a [`timeout`](crate::Waiting::timeout); and serve the
//!   [newest first](crate::fair::Class::adaptive_lifo) while the queue is long.
//! - *A reserve*: [`max_concurrency`](crate::fair::Class::max_concurrency) of a class leaves the other
//!   permits to the others.
//! - *Also a limit for each tenant*: [in one composition](super::per_tenant_limits). `queue.class(tenant)`
//!   takes the key
//!   itself: an owned one, such as a `String`, a number or an enum.
//! - *In front of*: a semaphore, a rate, an [adaptive limit](super::find_the_right_limit), or a
//!   composition, as an `Arc`.
//! - *Fast rates*: put the queue in front of the rate itself, as in
//!   `all((slots, queue.class(tenant)))`. In a composition behind the queue, a rate of more than 1,000/s
//!   needs [a burst](crate::fair::FairQueue#rates) to keep its pace.
//!
//! # Traps
//!
//! - Bind the permit of a semaphore: `let _permit`. In front of a rate, `drop` it at once.
//! - The settings of a class are read when it is first used, and again when the queue has forgotten it. For a
//!   weight that changes, put the plan into the key: `queue.class((tenant, plan))`.
//! - Callers that use the throttle directly compete with the whole queue as with one waiter.
//! - A permit that is held is not taken back: a priority shortens the wait, not the work ahead of it.
//! - A class for each of millions of keys is bounded by
//!   [`max_classes`](crate::fair::FairQueue::max_classes).
