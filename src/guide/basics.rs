//! Explains what all throttles have in common: waiting, errors, composition and features.
//!
//! # Waiting
//!
//! Every acquire returns a future, [`Waiting`](crate::wait::Waiting), with three methods: `cancel_on(&token)`,
//! `timeout(duration)` and `wait()`, which blocks the thread. They combine in any order. If a
//! cancelled token, a permit and a deadline coincide, the token wins over the permit, and the
//! permit wins over the deadline. A future joins the queue when it is first polled and leaves it
//! when it is dropped; a grant that it has not received passes to the next waiter.
//! [`CondvarSemaphore`](crate::CondvarSemaphore) has the three methods, but its requests are not futures.
//!
//! # Errors
//!
//! Every acquire returns [`AcquireError`](crate::AcquireError); match on its
//! [`kind`](crate::AcquireError::kind). For numbers that may be invalid,
//! [`Quota::try_new`](crate::Quota::try_new) and [`Algorithm::check`](crate::Algorithm::check) return
//! errors; other constructors panic. Errors never allocate, except that the process keeps each distinct
//! failure of a pool's factory once.
//!
//! # Several limits at once
//!
//! [`all`](crate::all)`((&user, &everyone, memory.cost(64)))` enters its parts from left to right. When
//! one part refuses, `all` drops the permits and refunds the charges of the other parts. A charge that
//! all parts admitted stays, regardless of the outcome of the work, unless you
//! [refund](crate::RateLimiter::refund) it. The hierarchy of user, team and everyone is
//! `all((users.key(&user), teams.key(&team), &everyone))`. [`semaphore.cost(n)`](crate::Semaphore::cost) and
//! [`limiter.cost(n)`](crate::RateLimiter::cost) take `n`; an `Option` is an optional part. Two callers that
//! list the same two semaphores in opposite orders can deadlock; [`all`](crate::all) says which order to
//! choose.
//!
//! # Generic code
//!
//! Adapters take a [`Throttle`](crate::Throttle), whose method is `enter`. It is implemented for `&T` and
//! `Arc<T>` of every type here that can be awaited and shared, for their compositions, and for the
//! semaphores of tokio and async-lock. Direct calls need no trait.
//! [`BoxThrottle`](crate::throttle::BoxThrottle) erases the type for a struct field.
//!
//! # Observing
//!
//! `snapshot()` of every limit, and of each key of a [`Keyed`](crate::Keyed), returns a
//! [`Snapshot`](crate::Snapshot): the limit, how much of it is in use, and how many callers wait. The
//! snapshot of an adaptive limit has more, and that of a fair queue has a row for each class. A composition
//! has none: keep handles of its parts. `Observed` of the crate [`tollgate-observe`] wraps a throttle and
//! reports each entry.
//!
//! # Features
//!
//! - `tokio` (default): `cancel_on` with the `CancellationToken` of tokio-util, timeouts on tokio's
//!   time, and tokio's semaphore as a throttle. Without it the crate still runs on any executor,
//!   and the timer thread serves timeouts.
//! - `channel` (default): `ChannelSemaphore`.
//! - `tsc` (default): rate limiters read the processor's time-stamp counter where it is reliable,
//!   which takes a third of the time of a system call.
//! - `async-lock`: async-lock's semaphore as a throttle.
//! - `serde`: serializes and parses [`Quota`](crate::Quota), [`Algorithm`](crate::Algorithm) and
//!   [`LimiterState`](crate::rate::LimiterState).
//! - `test-util`: makes limiters without an explicit clock follow tokio's time.
//!
//! [`tollgate-observe`]: https://docs.rs/tollgate-observe/latest/tollgate_observe/
