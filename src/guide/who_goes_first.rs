//! Decide who goes first: priorities and fair shares instead of first-in first-out.
//!
//! A [`FairQueue`](crate::fair::FairQueue) stands in front of any throttle. It decides by priority and by
//! weighted shares which class of callers gets the next permit.
//!
//! ```toml
//! [dependencies]
//! tokio = { version = "1.49", features = ["full"] }
//! tollgate = { path = "../tollgate" }
//! ```
//!
//! ```no_run
#![doc = include_str!("programs/who_goes_first.rs")]
//! ```
//!
//! The example `interactive_before_batch` of the repository gives priority to interactive requests.
//!
//! # Choices
//!
//! - *Even shares among tenants*: need no settings; each key is a class of weight 1.
//! - *Shares of a rate*, whose permits are not held:
//!   [`share(Share::ByCost)`](crate::fair::FairQueue::share). An entry counts the cost that it asked for, even if it is
//!   settled for less.
//! - *Weights with few permits*: `Share::ByCost` as well. By default classes share the permits that they hold, so
//!   weights of 3 and 1 are 75 : 25 of one permit and of multiples of four, 50 : 50 of two, and 67 : 33 of
//!   three and of six.
//! - *No starvation*: with [`aging`](crate::fair::FairQueue::aging), a class counts as one priority higher
//!   for each period that its oldest waiter has waited. Without it, priorities are strict: lower ones wait as
//!   long as higher ones keep the throttle busy. Weights starve nobody: a class pays [for its dearest call in
//!   advance](crate::fair::FairQueue#new-keys), so callers with a new key for each call gain nothing by it.
//! - *Keys that clients choose*, such as addresses and sessions: `N` keys that wait together have `N` shares.
//!   Group them by account or network, or add a limit for each of these with `all`.
//! - *Overload*: bound each class with [`max_waiters`](crate::fair::Class::max_waiters), since a full queue
//!   refuses callers of every priority; give each wait a [`timeout`](crate::wait::Waiting::timeout); and serve the
//!   [newest first](crate::fair::Class::adaptive_lifo) while the queue is long.
//! - *A reserve*: [`max_concurrency`](crate::fair::Class::max_concurrency) of a class leaves the remaining
//!   permits to other classes.
//! - *A limit for each tenant as well*: [in one composition](super::per_tenant_limits). `queue.class(tenant)`
//!   takes the key itself: an owned one, such as a `String`, a number or an enum.
//! - *In front of*: an `Arc` of a semaphore or a rate, a `Shared` [adaptive limit], or a composition of these, such as
//!   `FairQueue::new(all((slots, rate)))`.
//! - *Fast rates*: put the queue in front of the rate itself, as in
//!   `all((slots.key(&tenant), queue.class(tenant)))`. Slots that all tenants share go behind a queue
//!   themselves, because a noisy tenant would fill their line: `all((queue_of_slots.class(tenant), rate))`. In a composition behind the queue, a rate of more than 1,000/s
//!   needs [a burst](crate::fair::FairQueue#rates) to keep its pace.
//!
//! # Traps
//!
//! - A class with a `&'static str` as its key does not compile in a composition that a spawned task enters: use an
//!   owned key there.
//! - Bind the permit of a semaphore: `let _permit`. In front of a rate, `drop` it at once.
//! - The settings of a class are read when it is first used, and again when the queue has forgotten it. For a
//!   weight that changes, put the plan into the key: `queue.class((tenant, plan))`.
//! - To the throttle, the whole queue is one waiter; callers that bypass it compete with it as equals.
//! - A held permit is not taken back: a higher priority shortens the wait in the queue, not the work that is
//!   already running.
//! - A class for each of millions of keys is bounded by
//!   [`max_classes`](crate::fair::FairQueue::max_classes).
//!
//! [adaptive limit]: https://docs.rs/tollgate-adaptive/latest/tollgate_adaptive/guide/index.html
