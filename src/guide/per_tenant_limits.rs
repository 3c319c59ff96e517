//! Limit each tenant: the same limit for each tenant, user or address, in bounded memory.
//!
//! A [`Keyed`](crate::Keyed) has a rate limiter, a semaphore or a gate for each key. Keys need no registration,
//! and a key without debt makes room for another. A map has at most 100,000 keys, unless
//! [`max_keys`](crate::Keyed::max_keys) sets another maximum. The simplest limit, by address:
//!
//! ```toml
//! [dependencies]
//! tokio = { version = "1.49", features = ["full"] } # for the second program
//! tollgate = { path = "../tollgate" }
//! ```
//!
//! ```
#![doc = include_str!("programs/limit_each_address.rs")]
//! ```
//!
//! # With plans
//!
//! Each tenant has the quota of its plan, which changes while the program runs:
//!
//! ```no_run
#![doc = include_str!("programs/per_tenant_limits.rs")]
//! ```
//!
//! # Choices
//!
//! - *At most N at once for each*: [`Keyed::semaphores(4)`](crate::Keyed::semaphores).
//! - *Pause one tenant*: a map of [gates](crate::Keyed::gates), with its key [before](crate::keyed::Key::before) the limits.
//! - *Waiting*: `tenants.key(&tenant).acquire()` waits like the limiter itself, with a timeout or a token.
//! - *User, team and everyone*: `all((users.key(&user), teams.key(&team), &everyone))` takes all of them or
//!   none; [`all`](crate::all) says in which order to list them.
//! - *In tasks, streams and layers*: [`key_owned`](crate::Keyed::key_owned) of an `Arc` of the map.
//! - *Another algorithm, a bounded queue*: [`Keyed::new`](crate::Keyed::new) with a limiter that has them, such as
//!   `RateLimiter::new(quota).algorithm(Algorithm::FixedWindow).max_waiters(3)`. A sliding window and a log keep
//!   more than a word, so they are not available by key; use sub-intervals for an exact limit in any window.
//! - *In a `static`*: [`rate_limiters`](crate::Keyed::rate_limiters), [`max_keys`](crate::Keyed::max_keys)
//!   and [`when_full`](crate::Keyed::when_full) are `const`.
//! - *One resource that tenants share evenly*, however many requests each sends: [a fair queue](super::who_goes_first).
//! - *Observing*: [`keys`](crate::Keyed::keys), and the `snapshot()` of a key.
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
//! A map borrows its key. A class takes the key itself, of the exact type, so use a `String`, a number or an enum for
//! real tenants there: `queue.class(tenant.clone())`.
//!
//! For a call that costs more, `rates.key("acme").cost(5)` and `queue.class("acme").cost(5)`. In tests, the
//! map, the total and the queue need the same clock.
//!
//! # Traps
//!
//! - Classes whose key is a `&'static str`, in a composition that a spawned task enters: the compiler finds that
//!   `Hash` "is not general enough". Use a key type that borrows nothing.
//! - Never key a limit by an unverified API key: a client can invent keys and get a fresh limit for each. Use an
//!   account, or the address of the connection. A client with IPv6 has a whole network of addresses:
//!   `ClientIp` of the crate [`tollgate-http`] makes them one key, also behind proxies.
//! - A map that is full of tenants in debt rejects new ones, or forgives the debt of one:
//!   [`WhenFull`](crate::keyed::WhenFull). Allow for twice the keys that you expect in the time that a burst takes
//!   to refill.
//! - [`requota`](crate::Keyed::requota) is necessary after a change: a key in use keeps its quota.
//! - Without [`quota_change`](crate::Keyed::quota_change), a tenant that has spent its burst has nothing of a larger
//!   one either, and a tenant that goes back and forth between two plans gets more than either allows: the default
//!   keeps the spent part in proportion. See [which of the two](crate::rate::QuotaChange#which-of-the-two).
//!
//! [`tollgate-http`]: https://docs.rs/tollgate-http/latest/tollgate_http/
