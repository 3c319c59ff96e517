//! Limit each tenant: the same limit for each tenant, user or address, in bounded memory.
//!
//! A [`Keyed`](crate::Keyed) has a rate limiter or a semaphore for each key. Keys need no registration,
//! and a key that owes nothing makes room for another.
//!
//! ```toml
//! [dependencies]
//! tollgate = { path = "../tollgate" }
//! ```
//!
//! ```
//! use std::collections::HashMap;
//! use std::sync::{Arc, RwLock};
//! use std::time::Duration;
//!
//! use tollgate::{AcquireError, Clock, Keyed, Quota, RateLimiter};
//!
//! fn main() -> Result<(), AcquireError> {
//!     let free = Quota::per_second(10).burst(20);
//!     let paid = Quota::per_second(100).burst(200);
//!     let plans = Arc::new(RwLock::new(HashMap::from([(String::from("acme"), paid)])));
//!
//!     let clock = Clock::manual(); // Leave it out in a program that is no test.
//!     let tenants = Keyed::<String, _>::new(RateLimiter::new(free).clock(&clock))
//!         .max_keys(10_000)
//!         .quotas({
//!             let plans = Arc::clone(&plans);
//!             move |tenant| plans.read().unwrap().get(tenant).copied().unwrap_or(free)
//!         });
//!
//!     // One tenant uses up its burst, and no other notices.
//!     for _ in 0..20 {
//!         tenants.key("hooli").try_acquire()?;
//!     }
//!     let refused = tenants.key("hooli").try_acquire().unwrap_err();
//!     assert_eq!(refused.retry_after(), Some(Duration::from_millis(100)));
//!     tenants.key("acme").try_acquire_many(200)?;
//!
//!     // Another plan: its quota holds at once, and what was spent stays spent.
//!     plans.write().unwrap().insert("hooli".into(), paid);
//!     tenants.requota("hooli");
//!     clock.advance(Duration::from_millis(100));
//!     tenants.key("hooli").try_acquire_many(10)?;
//!     assert_eq!(tenants.len(), 2);
//!     Ok(())
//! }
//! ```
//!
//! # Choices
//!
//! - *At most so many at once for each*: [`Keyed::semaphores(4)`](crate::Keyed::semaphores).
//! - *Waiting*: `tenants.key(&tenant).acquire()` waits like the limiter itself, with a timeout or a token.
//! - *User, team and everyone*: `all((users.key(&user), teams.key(&team), &everyone))` takes all of them or
//!   none; [`all`](crate::all) says in which order to list them.
//! - *In tasks, streams and layers*: [`key_owned`](crate::Keyed::key_owned) of an `Arc` of the map.
//! - *Another algorithm, a bounded queue*: [`Keyed::new`](crate::Keyed::new) with a limiter that has them, such as
//!   `RateLimiter::new(quota).algorithm(Algorithm::FixedWindow).max_waiters(3)`. A sliding window and a log keep
//!   more than a word, so there is none by key; sub-intervals are the exact limit of any window there.
//! - *In a `static`*: [`rate_limiters`](crate::Keyed::rate_limiters), [`max_keys`](crate::Keyed::max_keys)
//!   and [`when_full`](crate::Keyed::when_full) are `const`.
//! - *One resource that tenants share evenly*, whatever each sends: [a fair queue](super::who_goes_first).
//! - *Who is limited now*: [`keys`](crate::Keyed::keys), and the `snapshot()` of a key.
//!
//! # With a total that tenants share evenly
//!
//! ```
//! use std::sync::Arc;
//! use tollgate::fair::{Class, FairQueue, Share};
//! use tollgate::{Keyed, Quota, RateLimiter, all};
//!
//! # fn main() -> Result<(), tollgate::AcquireError> {
//! let slots = Keyed::<String, _>::semaphores(4);
//! let rates = Keyed::<String, _>::rate_limiters(Quota::per_second(10).burst(20));
//! let total = Arc::new(RateLimiter::new(Quota::per_second(100)));
//! let queue = FairQueue::new(total) // A class for each key.
//!     .share(Share::ByCost)
//!     .classes(|tenant: &&str| Class::new().weight(if *tenant == "acme" { 3 } else { 1 }));
//! let limits = all((slots.key("acme"), rates.key("acme"), queue.class("acme")));
//! let _permit = limits.acquire().wait()?; // Hold it for the slot; without slots, drop it at once.
//! # Ok(())
//! # }
//! ```
//!
//! A key of a map is borrowed. A class takes the key itself, of the exact type, so real tenants are a `String`, a
//! number or an enum there: `queue.class(tenant.clone())`.
//!
//! For a call that costs more, `rates.key("acme").cost(5)` and `queue.class("acme").cost(5)`. In tests, the
//! map, the total and the queue need the same clock.
//!
//! # Traps
//!
//! - Classes whose key is a `&'static str`, in a composition that a spawned task enters: the compiler finds that
//!   `Hash` "is not general enough". Use a key type that borrows nothing.
//! - A key that a caller made up gets a limit of its own, and so no limit. Use a key that was
//!   checked, such as an account or the address of the connection.
//! - A map that is full of tenants in debt rejects new ones, or forgives the debt of one:
//!   [`WhenFull`](crate::WhenFull). Allow for twice the keys that you expect in the time that a burst takes
//!   to come back.
//! - [`requota`](crate::Keyed::requota) is necessary after a change: a key in use keeps its quota.
