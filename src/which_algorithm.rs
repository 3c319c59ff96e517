//! Which [`Algorithm`](crate::Algorithm) to choose.
//!
//! # The simple answer
//!
//! Choose the default, [`Gcra`](crate::Algorithm::Gcra), and give the [`Quota`](crate::Quota) a
//! [burst](crate::Quota::burst) if calls come in groups. It spaces calls most evenly, which is
//! easiest on the service behind it, in a single word of memory.
//!
//! ```
//! use tollgate::{Quota, RateLimiter};
//!
//! static API: RateLimiter = RateLimiter::new(Quota::per_second(50).burst(5));
//! # assert!(API.try_acquire().is_ok());
//! ```
//!
//! There is one good reason to choose another: a provider counts in another way, and you want to
//! use all of its limit without exceeding it.
//!
//! # Which limit must hold?
//!
//! `N` and `T` are the count and the period of the quota.
//!
//! | | choose |
//! |---|---|
//! | even load on a database, on an API, on your own service | [`Gcra`](self#gcra), the default |
//! | the provider says: 10,000 a day, in any 24 hours | [`SlidingLog`](self#slidinglog); in one word, [`SubInterval`](self#subinterval) or [`Gcra` with a lower rate](self#within-n-in-any-t) |
//! | the provider counts per calendar minute | the same: a limit that holds in any minute holds in theirs, wherever it begins |
//! | whole batches at an interval, such as "a thousand credits on the hour", where unused credits accumulate | [`TokenBucket`](self#tokenbucket) |
//! | a documented limit of "so many in each window", where twice that across a boundary does no harm | [`FixedWindow`](self#fixedwindow) |
//! | about `N` in any `T` for a very large `N`, where somewhat more does no harm | [`SlidingWindow`](self#slidingwindow) |
//! | a bounded queue in front of a slow service | [`LeakyBucket`](self#leakybucket) |
//! | the same for each user, each address, each tenant | `Gcra`, `TokenBucket`, `FixedWindow` or `SubInterval` in a [`Keyed`](crate::Keyed), which has a word for each; for exactly `N` in any `T` that is `SubInterval` |
//! | to block callers with far too many calls over a long time, without a decision for each call | a [`Gate`](crate::Gate), blocked by the `Detector` of the crate `tollgate-detector` |
//!
//! With every algorithm, [`acquire`](crate::RateLimiter::acquire) waits in a strict first-in
//! first-out queue, and all other methods of [`RateLimiter`](crate::RateLimiter) are the same.
//!
//! # What each promises, and costs
//!
//! The promise holds by the ticks of the [charges](crate::Charge::at), whatever the load. Memory is
//! that of a limiter of 10,000 a day, in addition to the 300 bytes of every limiter.
//!
//! | | at most, in any `T` | under constant demand | memory | avoid it |
//! |---|---|---|---|---|
//! | `Gcra` | the burst + `N` | one each `T/N`, evenly | a word | where no observer may count more than `N`, and all of `N` is needed |
//! | `TokenBucket` | the burst + `N` | `N` at once, each `T` | a word | in front of a service that suffers from bursts |
//! | `FixedWindow` | `2N` | `N` at once, each `T` | a word | where `2N` in an instant does harm |
//! | `SlidingWindow` | less than `2N`, by estimate `N` | evenly, once a window has been used up | three words | where `N` must be exact |
//! | `SlidingLog` | `N` | each time as before, `T` later | 80 kB | for very large `N`, or a limiter for each of very many users |
//! | `SubInterval` | `N`, and `⌊N/(k+1)⌋` in each part | `⌊N/(k+1)⌋` at once, each `T/k` | a word | where more than `k/(k+1)` of the rate is needed |
//! | `LeakyBucket` | 1 + `N` | one each `T/N`, evenly | a word, and the waiters | where a late call is useless |
//!
//! # The same calls with each algorithm
//!
//! All limiters are set to 10 a second, and get the same calls: a burst at the end of a second and
//! another one at the beginning of the next, five times too many for two seconds, none, and then
//! forty at once. The pale area is the number of calls admitted in the last second, which is what
//! an observer counts.
//!
//! <div style="overflow-x: auto">
#![doc = include_str!("../docs/algorithms.svg")]
//! </div>
//!
//! - `gcra` admits one call each 100 ms, and, with a burst of 10, ten at once after a pause.
//! - `token-bucket` gets ten tokens at each full second. It had saved twenty, so it admits thirty
//!   in a second.
//! - `fixed-window` admits ten just before a full second and ten just after it: twenty in 100 ms.
//! - `sliding-window` lets the ten calls of the previous window fade, and so becomes even.
//! - `sliding-log` admits ten in each second, wherever the second begins. It repeats a burst
//!   exactly a second later.
//! - `sub-interval/4` admits two in each quarter, like small windows: any second touches five of
//!   them.
//! - `leaky-bucket` rejects a call only if ten are waiting; the others are released later, evenly.
//!
//! # Gcra
//!
//! The generic cell rate algorithm: each call moves the theoretical arrival time (TAT) on by one
//! emission interval, and the TAT may be ahead of the clock by at most the burst. A token bucket
//! with continuous refill is equivalent.
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Clock, Quota, RateLimiter};
//!
//! let clock = Clock::manual();
//! let limiter = RateLimiter::new(Quota::per_second(10).burst(5)).clock(&clock);
//! let admitted = || (0..100).filter(|_| limiter.try_acquire().is_ok()).count();
//!
//! assert_eq!(admitted(), 5);
//! clock.advance(Duration::from_millis(100));
//! assert_eq!(admitted(), 1);
//! clock.advance(Duration::from_millis(200));
//! assert_eq!(admitted(), 2);
//! ```
//!
//! ## Within `N` in any `T`
//!
//! A burst of `b` and `N - b` per period are at most `N` in any `T`, still in a word. So you choose
//! what to give up: of 10,000 a day, a tenth of the rate buys a burst of a thousand.
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Clock, Quota, RateLimiter};
//!
//! let clock = Clock::manual();
//! let mails = RateLimiter::new(Quota::per_day(9_000).burst(1_000)).clock(&clock);
//! let mut sent = 0;
//! for _minute in 0..24 * 60 {
//!     while mails.try_acquire().is_ok() {
//!         sent += 1;
//!     }
//!     clock.advance(Duration::from_secs(60));
//! }
//! assert_eq!(sent, 9_993);
//! ```
//!
//! # TokenBucket
//!
//! `N` tokens at each multiple of `T`, in a bucket that holds the burst. A bucket of one batch, the
//! default, is the [fixed window](self#fixedwindow). Use it with a larger bucket, in which batches
//! accumulate.
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Algorithm, Clock, Quota, RateLimiter};
//!
//! let clock = Clock::manual();
//! let credits = RateLimiter::new(Quota::per_hour(10).burst(20))
//!     .algorithm(Algorithm::TokenBucket)
//!     .clock(&clock);
//! let admitted = || (0..100).filter(|_| credits.try_acquire().is_ok()).count();
//!
//! assert_eq!(admitted(), 20);
//! clock.advance(Duration::from_secs(3599));
//! assert_eq!(admitted(), 0);
//! clock.advance(Duration::from_secs(1));
//! assert_eq!(admitted(), 10);
//! ```
//!
//! # FixedWindow
//!
//! `N` in each window. It is simple to explain, and many services use it. This is its weakness:
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Algorithm, Clock, Quota, RateLimiter};
//!
//! let clock = Clock::manual();
//! let limiter = RateLimiter::new(Quota::per_second(10))
//!     .algorithm(Algorithm::FixedWindow)
//!     .clock(&clock);
//! let admitted = || (0..100).filter(|_| limiter.try_acquire().is_ok()).count();
//!
//! clock.advance(Duration::from_millis(999));
//! assert_eq!(admitted(), 10);
//! clock.advance(Duration::from_millis(1));
//! assert_eq!(admitted(), 10);
//! ```
//!
//! Windows begin at multiples of their length since the epoch of the limiter's clock. The epoch of
//! the system clock is its first use in the process. So these windows are not the calendar's, nor
//! those of a provider, each of which may see up to `2N`. For those, choose an algorithm that holds
//! in any window.
//!
//! # SlidingWindow
//!
//! `N` by an estimate from the counts of this window and the previous one, as if the previous calls
//! had been spread evenly. If they were not, it admits more:
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Algorithm, Clock, Quota, RateLimiter};
//!
//! let clock = Clock::manual();
//! let limiter = RateLimiter::new(Quota::per_second(10))
//!     .algorithm(Algorithm::SlidingWindow)
//!     .clock(&clock);
//! let admitted = || (0..100).filter(|_| limiter.try_acquire().is_ok()).count();
//!
//! clock.advance(Duration::from_millis(990));
//! assert_eq!(admitted(), 10);
//! clock.advance(Duration::from_millis(10));
//! assert_eq!(admitted(), 0);
//! // Half of them no longer count, though all of them are 510 ms old.
//! clock.advance(Duration::from_millis(500));
//! assert_eq!(admitted(), 5);
//! ```
//!
//! # SlidingLog
//!
//! Exactly `N` in any `T`, without giving up any of it, by the times of the last `N` calls. So a
//! burst returns as a burst.
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Algorithm, Clock, Quota, RateLimiter};
//!
//! let clock = Clock::manual();
//! let mails = RateLimiter::new(Quota::per_day(10_000))
//!     .algorithm(Algorithm::SlidingLog)
//!     .clock(&clock);
//!
//! clock.advance(Duration::from_secs(23 * 3600));
//! mails.try_acquire_many(10_000)?;
//! clock.advance(Duration::from_secs(24 * 3600) - Duration::from_nanos(1));
//! assert!(mails.try_acquire().is_err());
//! clock.advance(Duration::from_nanos(1));
//! mails.try_acquire_many(10_000)?;
//! # Ok::<_, tollgate::AcquireError>(())
//! ```
//!
//! # SubInterval
//!
//! At most `N` in any `T`, in a word: the period is divided into `k` parts, any time `T` touches at
//! most `k + 1` of them, and each part gets `⌊N/(k+1)⌋`. More parts give smaller bursts, and more
//! of the rate if `k + 1` divides `N`: of 10 a second, 4 parts admit 8, 5 parts 5, and 9 parts 9.
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Algorithm, Clock, Quota, RateLimiter};
//!
//! let clock = Clock::manual();
//! let mails = RateLimiter::new(Quota::per_day(10_000))
//!     .algorithm(Algorithm::SubInterval { parts: 24 })
//!     .clock(&clock);
//!
//! // 25 times 400 are 10,000; 24 times 400, which are 9,600, are a day's.
//! mails.try_acquire_many(400)?;
//! assert!(mails.try_acquire().is_err());
//! clock.advance(Duration::from_secs(3600));
//! mails.try_acquire_many(400)?;
//! # Ok::<_, tollgate::AcquireError>(())
//! ```
//!
//! # LeakyBucket
//!
//! [`LeakyBucket`](crate::LeakyBucket) is a type of its own: a call joins its queue, which is
//! released evenly, or is rejected if the queue is full. A [`RateLimiter`](crate::RateLimiter)
//! without a burst and with [`max_waiters`](crate::RateLimiter::max_waiters) does the same.
//!
//! ```
//! use std::future::Future;
//! use std::pin::pin;
//! use std::task::{Context, Poll, Waker};
//! use std::time::Duration;
//! use tollgate::{Clock, ErrorKind, LeakyBucket, Quota};
//!
//! let clock = Clock::manual();
//! let bucket = LeakyBucket::new(Quota::per_second(10), 1).clock(&clock);
//! let mut context = Context::from_waker(Waker::noop());
//!
//! bucket.try_acquire()?;
//! let mut second = pin!(bucket.acquire());
//! assert!(second.as_mut().poll(&mut context).is_pending());
//! let Poll::Ready(Err(rejected)) = pin!(bucket.acquire()).poll(&mut context) else {
//!     panic!("the queue has room for one");
//! };
//! assert_eq!(rejected.kind(), ErrorKind::QueueFull);
//!
//! clock.advance(Duration::from_millis(100));
//! let Poll::Ready(charge) = second.poll(&mut context) else {
//!     panic!("it has not been released");
//! };
//! assert_eq!(charge?.at().as_nanos(), 100_000_000);
//! # Ok::<_, tollgate::AcquireError>(())
//! ```
