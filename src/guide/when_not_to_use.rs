//! Explains when not to use tollgate, and what to use instead.
//!
//! Each section names a need. If it is your whole need, use what the section names. `COMPARE.md` in the
//! repository lists what each of these crates has and lacks, and `BENCHMARKS.md` where tollgate is slower.
//!
//! # At most N tasks at once, with tokio
//!
//! If a program uses tokio anyway, and a fixed number of tasks may do something at once, use
//! [`tokio::sync::Semaphore`](https://docs.rs/tokio/latest/tokio/sync/struct.Semaphore.html). It is first-in
//! first-out too. It has weights, owned permits, `close` and a `const` constructor.
//! `tokio::time::timeout(d, semaphore.acquire())` is a deadline, `token.run_until_cancelled(semaphore.acquire())`
//! is cancelled by a token, and neither loses a permit.
//!
//! Less is often enough:
//!
//! - If the work is an iterator or a stream, use
//!   [`buffer_unordered(n)`](https://docs.rs/futures/latest/futures/stream/trait.StreamExt.html#method.buffer_unordered) or
//!   [`for_each_concurrent(n, ..)`](https://docs.rs/futures/latest/futures/stream/trait.StreamExt.html#method.for_each_concurrent)
//!   of `futures`. They need no semaphore.
//! - If N is 1, use a mutex: tokio's, if a guard is held across an `.await`.
//! - If the limit is for one tower service and its clones, and callers should wait in `poll_ready`, use tower's
//!   [`ConcurrencyLimit`](https://docs.rs/tower/latest/tower/limit/concurrency/struct.ConcurrencyLimit.html).
//! - If threads do the work, use the number of threads of their pool.
//!
//! Use [`Semaphore`](crate::Semaphore) if you also lower the limit while permits are held, bound the queue, read the limit
//! or the number of waiters, want an error for a request that can never fit, take several limits at once, or have no tokio. A
//! semaphore of tokio that exists can stay: it is a [`Throttle`](crate::Throttle), also in [`all`](crate::all).
//!
//! # Allow or refuse, by rate
//!
//! If a call over the rate is refused at once, and you need no more than that decision, in total or for each key, use
//! [governor](https://docs.rs/governor/latest/governor/): `limiter.check()`, `limiter.check_key(&key)`. For axum there is
//! [tower_governor](https://docs.rs/tower_governor/latest/tower_governor/). As `BENCHMARKS.md`
//! shows, governor refuses faster, its first decision for a key takes about half the time of ours, and a key two thirds
//! of our memory. You then call `retain_recent` from time to time, because its map of
//! keys has no bound. Its `until_ready` waits, and is enough if the order of the waiters does not matter.
//!
//! If you need one token bucket without waiting, whose rate may change, use
//! [ratelimit](https://docs.rs/ratelimit/latest/ratelimit/).
//!
//! Use [`RateLimiter`](crate::RateLimiter) if callers wait in order, or if you refund, pause, close, change the quota under
//! waiters, follow the count of a server, or take the rate with other limits. Use [`Keyed`](crate::Keyed) if clients
//! can invent keys, because its number of keys is bounded.
//!
//! # A number that nobody waits for
//!
//! If nobody waits, no time is involved, or only whole seconds, and no one changes the limit, use an `AtomicU64`.
//! A limit on calls in progress is a number and a guard, and "at most once a second" is the last second:
//!
//! ```
//! use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
//!
//! static RUNNING: AtomicU64 = AtomicU64::new(0);
//!
//! struct Running;
//!
//! impl Running {
//!     /// Returns a guard, or `None` while `limit` guards exist.
//!     fn try_new(limit: u64) -> Option<Self> {
//!         let next = |running| (running < limit).then_some(running + 1);
//!         RUNNING.fetch_update(Relaxed, Relaxed, next).ok().map(|_| Running)
//!     }
//! }
//!
//! impl Drop for Running {
//!     fn drop(&mut self) {
//!         RUNNING.fetch_sub(1, Relaxed);
//!     }
//! }
//!
//! /// Returns true at most once for each second of a clock that starts at second 1.
//! fn first_in(second: u64) -> bool {
//!     static LAST: AtomicU64 = AtomicU64::new(0);
//!     LAST.fetch_max(second, Relaxed) < second
//! }
//!
//! fn main() {
//!     let guards = [Running::try_new(2), Running::try_new(2), Running::try_new(2)];
//!     assert_eq!(guards.each_ref().map(Option::is_some), [true, true, false]);
//!     drop(guards);
//!     assert!(Running::try_new(2).is_some());
//!
//!     assert_eq!([1, 1, 2, 4, 3].map(first_in), [true, false, true, true, false]);
//! }
//! ```
//!
//! The second function may return true twice within a moment, at the end of a second and at the beginning of the
//! next. Use [`Semaphore::try_acquire`](crate::Semaphore::try_acquire) and
//! [`RateLimiter::try_acquire`](crate::RateLimiter::try_acquire) if that matters, or as soon as one caller waits.
//!
//! # Protect a service from its clients
//!
//! If all requests pass a proxy, and the proxy sees all that the limit depends on (an address, a header, a path),
//! limit there: nginx has `limit_req` and `limit_conn`, HAProxy stick tables, Envoy its local and its global rate limit. A
//! request that the proxy refuses costs the service nothing, and the limit changes without a new version of the service. If
//! the proxy is Envoy and several instances share the counts, use [limitador](https://github.com/Kuadrant/limitador)
//! or another service for Envoy's protocol; it reads limits from a file and reloads them. A program with tollgate reads its
//! file by itself, with serde, and tollgate does not speak that protocol.
//!
//! Limit in the service what the proxy does not see: the user after the login, a cost that is known only from the response,
//! calls to other services, background work. Both together are usual: a high limit by address at the proxy, and the exact
//! ones in the service.
//!
//! # A client that is rarely refused
//!
//! If one process calls an API and seldom reaches its limit, wait as long as a `Retry-After` says, and send the request
//! again. A retry policy does that without a limiter. `PausesLayer` of
//! [`tollgate-tower`](https://docs.rs/tollgate-tower/latest/tollgate_tower/) is one that also holds back the other requests
//! to that server.
//!
//! # Other needs
//!
//! | If you need | Use |
//! |---|---|
//! | a target without `std` | [maitake-sync](https://docs.rs/maitake-sync/latest/maitake_sync/) or [embassy-sync](https://docs.rs/embassy-sync/latest/embassy_sync/) for semaphores; governor, ratelimit or the `Gcra` of [rate-net](https://docs.rs/rate-net/latest/rate_net/) for rates |
//! | a circuit breaker, retries with a shared budget, hedging | [throttle-net](https://docs.rs/throttle-net/latest/throttle_net/); for services, the layers `retry` and `hedge` of tower |
//! | connections that are dropped in the background when they are idle, or by age | [bb8](https://docs.rs/bb8/latest/bb8/), or the pool of a driver, such as that of sqlx |
//! | an estimate of the rate of any number of keys, in memory of a fixed size | [pingora-limits](https://docs.rs/pingora-limits/latest/pingora_limits/) |
//! | at most some log lines a second | `if LINES.try_acquire().is_ok() { .. }` with a [`RateLimiter`](crate::RateLimiter) in a static around the macro, and a [`Keyed`](crate::Keyed) if each message has its own; a filter for a whole subscriber is the job of a crate for `tracing` |
//! | to lend permits to the tasks of a request, and have them back before it ends | [`split`](crate::semaphore::Permit::split) a permit, move the parts into the tasks, and [`merge`](crate::semaphore::Permit::merge) what they return |
//! | the same limit in programs of several languages | a service with its own protocol, such as limitador or Envoy's ratelimit; the scripts of `tollgate-redis` have no other client |
//! | bandwidth of a whole machine | the operating system, such as `tc` on Linux |
