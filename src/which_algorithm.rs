//! Which [`Algorithm`](crate::Algorithm) to take.
//!
//! # The simple answer
//!
//! Take the default, [`Gcra`](crate::Algorithm::Gcra), and give the [`Quota`](crate::Quota) a
//! [burst](crate::Quota::burst) if calls come in groups. It lets through most evenly, which is what
//! whoever is behind it likes best, in a single word of memory.
//!
//! ```
//! use tollgate::{Quota, RateLimiter};
//!
//! static API: RateLimiter = RateLimiter::new(Quota::per_second(50).burst(5));
//! # assert!(API.try_acquire().is_ok());
//! ```
//!
//! There is one good reason to take another: somebody else counts, in another way, and you are to
//! stay within what they count, without giving away any of it.
//!
//! # What is to be kept?
//!
//! `N` and `T` are the count and the period of the quota.
//!
//! | | take |
//! |---|---|
//! | even load on a database, on an API, on your own service | [`Gcra`](self#gcra), the default |
//! | the provider says: 10,000 a day, in any 24 hours | [`SlidingLog`](self#slidinglog); [`SubInterval`](self#subinterval), or [`Gcra` with less](self#within-n-in-any-t), in a word |
//! | the provider counts per calendar minute | the same: what is kept in any minute is kept in theirs, wherever it begins |
//! | whole batches at an interval, as "a thousand credits on the hour", and what is not used is saved up | [`TokenBucket`](self#tokenbucket) |
//! | what others are told is "so many in each window", and twice that across an edge does no harm | [`FixedWindow`](self#fixedwindow) |
//! | about `N` in any `T` for a very large `N`, and somewhat more does no harm | [`SlidingWindow`](self#slidingwindow) |
//! | a queue in front of a slow service: nobody is refused, but waits, and not too many | [`LeakyBucket`](self#leakybucket) |
//! | the same for each user, each address, each tenant | `Gcra`, `TokenBucket`, `FixedWindow` or `SubInterval` in a [`Keyed`](crate::Keyed), which has a word for each; for exactly `N` in any `T` that is `SubInterval` |
//! | to stop who calls far too much over a long time, without a decision for each call | a [`Gate`](crate::Gate), shut by a [`Detector`](crate::Detector) |
//!
//! Whichever it is, [`acquire`](crate::RateLimiter::acquire) waits in a strict first-in first-out
//! line, and everything else that a [`RateLimiter`](crate::RateLimiter) can do is the same.
//!
//! # What each promises, and costs
//!
//! The promise is kept by the ticks of the [charges](crate::Charge::at), whatever the load. Memory
//! is that of a limiter of 10,000 a day, beside what every limiter has, some 300 bytes.
//!
//! | | at most, in any `T` | so long as it is asked for more | memory | avoid it |
//! |---|---|---|---|---|
//! | `Gcra` | the burst + `N` | one each `T/N`, evenly | a word | where nobody may ever count more than `N`, and all of it is wanted |
//! | `TokenBucket` | the burst + `N` | `N` at once, each `T` | a word | in front of what suffers from crowds |
//! | `FixedWindow` | `2N` | `N` at once, each `T` | a word | where `2N` in hardly any time does harm |
//! | `SlidingWindow` | less than `2N`, by estimate `N` | evenly, once a window has been used up | three words | where `N` must be exact |
//! | `SlidingLog` | `N` | each time as before, `T` later | 80 kB | for very large `N`, or a limiter for each of very many users |
//! | `SubInterval` | `N`, and `⌊N/(k+1)⌋` in each part | `⌊N/(k+1)⌋` at once, each `T/k` | a word | where more than `k/(k+1)` of the rate is wanted |
//! | `LeakyBucket` | 1 + `N` | one each `T/N`, evenly | a word, and those that wait | where whoever is late need not come any more |
//!
//! # The same calls, by each
//!
//! All are set to 10 a second, and get the same calls: a crowd at the end of a second and another
//! one at the beginning of the next, five times too many for two seconds, nobody, and then forty at
//! once. The pale area is what was let through in the last second, which is what somebody would see
//! who counts that.
//!
//! <div style="overflow-x: auto">
#![doc = include_str!("../docs/algorithms.svg")]
//! </div>
//!
//! - `gcra` lets one through each 100 ms, with a burst of 10 after a pause also ten at once.
//! - `token-bucket` gets ten at each full second. It had saved up twenty, so there were thirty in a
//!   second.
//! - `fixed-window` lets ten through just before a full second and ten just after it, which are
//!   twenty in 100 ms.
//! - `sliding-window` has the ten of the window before fade, and so becomes even.
//! - `sliding-log` has ten in each second, wherever it begins; and repeats a crowd, whenever it came,
//!   after exactly a second.
//! - `sub-interval/4` has two in each quarter, as if they were small windows: any second touches
//!   five of them.
//! - `leaky-bucket` refuses only who finds ten waiting; the others come later, evenly.
//!
//! # Gcra
//!
//! The generic cell rate algorithm: what is charged is owed, time pays it off evenly, and no more
//! than the burst may be owed. The bucket of tokens that is filled evenly is the same thing.
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Clock, Quota, RateLimiter};
//!
//! let clock = Clock::manual();
//! let limiter = RateLimiter::new(Quota::per_second(10).burst(5)).clock(&clock);
//! let crowd = || (0..100).filter(|_| limiter.try_acquire().is_ok()).count();
//!
//! assert_eq!(crowd(), 5);
//! clock.advance(Duration::from_millis(100));
//! assert_eq!(crowd(), 1);
//! clock.advance(Duration::from_millis(200));
//! assert_eq!(crowd(), 2);
//! ```
//!
//! ## Within `N` in any `T`
//!
//! A burst of `b`, and `N - b` per period, are at most `N` in any `T`, still in a word. So one can
//! choose what to do without: of 10,000 a day, a tenth less in the long run for a thousand at once.
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
//! `N` tokens at each multiple of `T`, into a bucket that holds the burst. If it holds one batch, as
//! it does unless the quota says otherwise, this is the [fixed window](self#fixedwindow); the use of
//! it is a larger one, in which batches are saved up.
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Algorithm, Clock, Quota, RateLimiter};
//!
//! let clock = Clock::manual();
//! let credits = RateLimiter::new(Quota::per_hour(10).burst(20))
//!     .algorithm(Algorithm::TokenBucket)
//!     .clock(&clock);
//! let crowd = || (0..100).filter(|_| credits.try_acquire().is_ok()).count();
//!
//! assert_eq!(crowd(), 20);
//! clock.advance(Duration::from_secs(3599));
//! assert_eq!(crowd(), 0);
//! clock.advance(Duration::from_secs(1));
//! assert_eq!(crowd(), 10);
//! ```
//!
//! # FixedWindow
//!
//! `N` in each window. It is simple to explain, and it is what many services do to others; here is
//! what they get:
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Algorithm, Clock, Quota, RateLimiter};
//!
//! let clock = Clock::manual();
//! let limiter = RateLimiter::new(Quota::per_second(10))
//!     .algorithm(Algorithm::FixedWindow)
//!     .clock(&clock);
//! let crowd = || (0..100).filter(|_| limiter.try_acquire().is_ok()).count();
//!
//! clock.advance(Duration::from_millis(999));
//! assert_eq!(crowd(), 10);
//! clock.advance(Duration::from_millis(1));
//! assert_eq!(crowd(), 10);
//! ```
//!
//! Windows begin at the multiples of their length since the epoch of the limiter's clock, which for
//! that of the system is when the process first used it. They are not the minutes of the calendar,
//! nor the windows of somebody else, of which each may then see up to `2N`. To stay within those,
//! take what holds in any window.
//!
//! # SlidingWindow
//!
//! `N` by an estimate, from the number in this window and the one in the window before, as if that
//! had come evenly. If it had not, there may be more:
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Algorithm, Clock, Quota, RateLimiter};
//!
//! let clock = Clock::manual();
//! let limiter = RateLimiter::new(Quota::per_second(10))
//!     .algorithm(Algorithm::SlidingWindow)
//!     .clock(&clock);
//! let crowd = || (0..100).filter(|_| limiter.try_acquire().is_ok()).count();
//!
//! clock.advance(Duration::from_millis(990));
//! assert_eq!(crowd(), 10);
//! clock.advance(Duration::from_millis(10));
//! assert_eq!(crowd(), 0);
//! // By now half of them count no more, though all of them are 510 ms old.
//! clock.advance(Duration::from_millis(500));
//! assert_eq!(crowd(), 5);
//! ```
//!
//! # SlidingLog
//!
//! Exactly `N` in any `T`, with nothing given away, by the times of the last `N`. So a crowd comes
//! back as a crowd.
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
//! # Ok::<_, tollgate::AcquireError>(())
//! ```
//!
//! # SubInterval
//!
//! Exactly `N` in any `T`, in a word: the period is cut into `k` parts, of which any time `T`
//! touches at most `k + 1`, and each gets `⌊N/(k+1)⌋`. So more parts give smaller crowds, and more of
//! the rate as far as `k + 1` divides `N`: of 10 a second, 4 parts let 8 through, 5 parts 5, and 9
//! parts 9.
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
//! [`LeakyBucket`](crate::LeakyBucket) is a type of its own: a call joins its queue, which is let
//! go evenly, or is refused if that is full. A [`RateLimiter`](crate::RateLimiter) without a burst,
//! with [`max_waiters`](crate::RateLimiter::max_waiters), is the same.
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
//! let Poll::Ready(Err(refused)) = pin!(bucket.acquire()).poll(&mut context) else {
//!     panic!("there is room for one");
//! };
//! assert_eq!(refused.kind(), ErrorKind::QueueFull);
//!
//! clock.advance(Duration::from_millis(100));
//! let Poll::Ready(charge) = second.poll(&mut context) else {
//!     panic!("it has not been let go");
//! };
//! assert_eq!(charge?.at().as_nanos(), 100_000_000);
//! # Ok::<_, tollgate::AcquireError>(())
//! ```
