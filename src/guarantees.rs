//! What each throttle guarantees.
//!
//! # How many at once
//!
//! - [`Semaphore`](crate::Semaphore) is the one to begin with: fair, resizable, with weights, for tasks
//!   and for threads.
//! - [`Pool<T>`](crate::Pool) is for when each permit comes with an item: a buffer, a connection.
//! - `ChannelSemaphore` is the channel of tokens: the simplest throttle there is, in both directions.
//! - [`CondvarSemaphore`](crate::CondvarSemaphore) is for threads only, with somewhat more throughput
//!   where they queue, if it does not matter that one of them may starve.
//! - The semaphores of tokio and async-lock can be used as they are where a
//!   [`Throttle`](crate::Throttle) is taken. The last two columns are about that.
//!
//! This is held true by the tests, most of it by a conformance suite that all types go through.
//!
//! | | `Semaphore` | `Pool<T>` | `ChannelSemaphore` | `CondvarSemaphore` | tokio's | async-lock's |
//! |---|---|---|---|---|---|---|
//! | order of waiters | first-in first-out | first-in first-out | roughly: each that is let in wakes the next, and a waiter that is woken in vain goes to the end | none | first-in first-out | as `ChannelSemaphore` |
//! | overtaking: a newcomer can get ahead of those who wait | never | never | when a permit comes back | when a permit comes back | never | when a permit comes back |
//! | weight: permits at once | any number; large requests do not starve | 1 | 1 | 1 | 1 | 1 |
//! | the limit can be changed | yes, both ways | yes, both ways | no | no | by its own methods | by its own methods |
//! | a limit of 0 | pauses | pauses | panics in `new` | panics in `new` | waits | waits |
//! | `close` | yes | yes; drops idle items | yes | yes | by its own method | no |
//! | ended by dropping the future | yes, in constant time | yes, in constant time | yes | no future | yes | yes |
//! | ended by a token, ended by a timeout | yes | yes | yes | yes | yes | yes |
//! | permit arrives, but the wait was ended meanwhile | goes to the next | goes to the next | goes to the next, or to a newcomer | goes to another, or to a newcomer | goes to the next | goes to the next, or to a newcomer |
//! | two permits come back at once | two are woken | two are woken | two are woken | two are woken | two are woken | one is woken, and when it has run, the second |
//! | bounded queue, `wait_idle` | yes | no | no | no | no | no |
//! | blocks a thread | with `.wait()` | with `.wait()` | with `.wait()` | always | with `.wait()` | with `.wait()` |
//! | in a `static` without `LazyLock` | yes | no | no | no | yes | yes |
//! | a [`Throttle`](crate::Throttle), for [`all`](crate::all) and streams | yes | yes | yes | no | yes | yes |
//! | `acquire()` is `Unpin` (with a token or a timeout added, none is) | yes | yes | yes | no future | yes | no |
//! | allocations of a wait | none, but to lengthen the queue | none, but to lengthen the queue, and 1 for an item that is made by an asynchronous function | 4; and 2 each time it is woken in vain | none; with tokens, some | 1 | 1; and 1 each time it is woken in vain |
//! | the holder panics | the permit comes back | the item comes back, or if the pool can make items a new one is made | the permit comes back | the permit comes back | the permit comes back | the permit comes back |
//! | a waker panics when it is called | contained; all others are woken | contained; all others are woken | contained; all others are woken | no wakers | goes on unwinding | goes on unwinding |
//! | feature | | | `channel`, a default | | `tokio`, a default | `async-lock` |
//!
//! # By key
//!
//! Each key of a [`Keyed`](crate::Keyed) is as a `Semaphore` or a `RateLimiter`, as far as these
//! tables go, but that it allocates more: what is kept for all keys, at the first use and as keys
//! come; a semaphore for each key that comes in no other's place; and for a rate whose caller has to
//! wait, a limiter. A call that need not wait, for a key that is there, allocates nothing.
//!
//! # How many per time
//!
//! | | [`RateLimiter`](crate::RateLimiter) | [`LeakyBucket`](crate::LeakyBucket) |
//! |---|---|---|
//! | the promise | in any interval of `t`, by the ticks of the charges, at most the burst and rate × (`t` + 1 ns); by another algorithm, [what that promises](crate::Algorithm) | as with a burst of 1 |
//! | measured when tasks go on | the same, and [`MissedTick::Burst`](crate::MissedTick) more; with `Delay`, the same, but for how late tasks run | likewise |
//! | order of waiters | first-in first-out, whatever they ask for | first-in first-out |
//! | overtaking | never | never |
//! | cost | any number; beyond the burst it is refused, or [leaves a debt](crate::Oversize) | 1 |
//! | a waiter leaves | has been charged nothing; everybody behind it is due earlier, at once | likewise |
//! | a waiter that is not polled | is charged when its turn has come, and delays nobody otherwise | likewise |
//! | the quota can be changed | yes, and those in line are timed anew | yes |
//! | `close`, bounded line | yes, [`max_waiters`](crate::RateLimiter::max_waiters) | yes, the capacity |
//! | ended by a token, ended by a timeout | yes; a wait that is known not to fit is refused at once | likewise |
//! | what was not needed | [`refund`](crate::RateLimiter::refund), [`settle`](crate::RateLimiter::settle): what time has not paid off | `refund` |
//! | depends on a runtime that is being driven | no; on tokio's clock, yes | likewise |
//! | blocks a thread | with `.wait()` | with `.wait()` |
//! | in a `static` without `LazyLock` | yes | yes |
//! | `acquire()` is `Unpin` | yes | yes |
//! | allocations | its state, at the first use; the line, for the first waiter and to lengthen it | likewise |
//! | a waker panics when it is called | contained; all others are woken | likewise |
//!
//! # Who makes far too many
//!
//! | | [`Gate`](crate::Gate) | [`Detector`](crate::Detector) |
//! |---|---|---|
//! | the promise | nobody goes through while it is shut; it opens at the exact tick | who never makes more than the threshold within the period is not flagged; who makes more than it and the error within three quarters of it, less twice the time between two passes, is |
//! | the error | none | what was recorded within the period by the number of counters, and what was lost; told by each pass |
//! | order of waiters | all at once | |
//! | ended by a token, ended by a timeout | yes; a wait that is known not to fit is refused at once | |
//! | a call costs | while it is open, one relaxed load | a record, in a table of the processor's own; it never waits |
//! | memory | a handle is a pointer | fixed, however many callers there are; and the gates that somebody has, or that are shut |
//! | in a `static` without `LazyLock` | no | yes |
//! | a [`Throttle`](crate::Throttle) | yes, by value | no; its gates are |
//! | allocations | of a wait, none, but for the first and to lengthen the line | its state, at the first use; a gate, three; none by recording and counting |
