//! Lists the guarantees of each throttle.
//!
//! # Concurrency: how many at once
//!
//! - Start with [`Semaphore`](crate::Semaphore): it is fair and resizable, has weights, and serves
//!   tasks and threads.
//! - Use [`Pool<T>`](crate::Pool) when each permit comes with an item, such as a buffer or a
//!   connection.
//! - Use [`CondvarSemaphore`](crate::CondvarSemaphore) for threads only. It has somewhat more
//!   throughput when threads queue, but a thread may starve.
//! - Use `ChannelSemaphore` for the simplest throttle: it keeps its tokens, idle or busy, in a
//!   channel.
//! - Every function that takes a [`Throttle`](crate::Throttle) takes the semaphores of tokio and
//!   async-lock as well. The last two columns describe them.
//!
//! An [`AdaptiveSemaphore`] has the guarantees of a `Semaphore`,
//! except that a request is for 1 permit, that its controller changes the limit, which is at least 1,
//! and that a `static` needs a `LazyLock`. An [`AdaptiveRate`] has those
//! of a [`RateLimiter`](crate::RateLimiter) whose quota changes, except that each call costs 1. A
//! [`FairQueue`](crate::fair::FairQueue) replaces the order of the waiters of any throttle, see
//! [below](#order-who-goes-first).
//!
//! The tests check these tables, mostly with a conformance suite that runs over all types.
//!
//! | | `Semaphore` | `Pool<T>` | `ChannelSemaphore` | `CondvarSemaphore` | tokio's | async-lock's |
//! |---|---|---|---|---|---|---|
//! | order of waiters | first-in first-out | first-in first-out | roughly: each admitted waiter wakes the next, and a waiter that is woken but finds no permit goes to the end | none | first-in first-out | like `ChannelSemaphore` |
//! | overtaking: a newcomer can pass the waiters | never | never | when a permit comes back | when a permit comes back | never | when a permit comes back |
//! | permits per request | any number; large requests do not starve | 1 | 1 | 1 | 1 | 1 |
//! | the limit can be changed | yes, both ways | yes, both ways | no | no | with its own methods | with its own methods |
//! | a limit of 0 | pauses | pauses | panics in `new` | panics in `new` | waits | waits |
//! | `close` | yes | yes; drops idle items | yes | yes | with its own method | no |
//! | cancelled by dropping the future | yes, in constant time | yes, in constant time | yes | no future | yes | yes |
//! | cancelled by a token or a timeout | yes | yes | yes | yes | yes | yes |
//! | a permit that is granted to a cancelled waiter | goes to the next waiter | goes to the next waiter | goes to the next waiter, or to a newcomer | goes to another waiter, or to a newcomer | goes to the next waiter | goes to the next waiter, or to a newcomer |
//! | two permits return at once | two waiters are woken | two waiters are woken | two waiters are woken | two waiters are woken | two waiters are woken | one waiter is woken, and the second after the first has run |
//! | bounded queue | yes | no | no | no | no | no |
//! | `wait_idle` | yes | yes | no | no | no | no |
//! | blocks a thread | with `.wait()` | with `.wait()` | with `.wait()` | always | with `.wait()` | with `.wait()` |
//! | in a `static` without `LazyLock` | yes | no | no | no | yes | yes |
//! | a [`Throttle`](crate::Throttle), for [`all`](crate::all) and streams | yes | yes | yes | no | yes | yes |
//! | `acquire()` is `Unpin` (with a token or a timeout added, none is) | yes | yes | yes | no future | yes | no |
//! | allocations of a wait | none, except to enlarge the queue | none, except to enlarge the queue, and 1 for each call of a function that makes or checks an item | 4; and 2 each time it is woken and finds no permit | none; with tokens, some | 1 | 1; and 1 each time it is woken and finds no permit |
//! | the holder panics | the permit returns | the item returns, or a pool that can make items makes a new one | the permit returns | the permit returns | the permit returns | the permit returns |
//! | a waker panics when it is called | contained; all other waiters are woken | contained; all other waiters are woken | contained; all other waiters are woken | no wakers | the panic propagates | the panic propagates |
//! | a waker polls its task at once | [nests 32 calls](#wakers-that-poll-at-once) | nests 32 calls | deadlocks | no wakers | nests as many calls as there are waiters | deadlocks |
//! | feature | | | `channel`, a default | | `tokio`, a default | `async-lock` |
//!
//! # Wakers that poll at once
//!
//! A waker may poll its task inside of `wake`, as some executors do. If the task returns its permit
//! there, the next waiter is woken inside of that call, and so on. At most 32 calls of wakers are nested
//! on a thread, over all throttles of this crate. Further wakers are deferred: the outermost of these calls
//! calls them, in their order, before it returns. So a queue of any length takes a bounded part of the stack.
//! But a waker inside 32 others that **blocks its thread** until a deferred waiter has run blocks forever. A
//! [`ManualClock`](crate::time::ManualClock) that a waker advances nests without a bound.
//!
//! # By key
//!
//! Each key of a [`Keyed`](crate::Keyed) has the guarantees of a `Semaphore`, a `RateLimiter` or a `Gate`,
//! except that it allocates more: the table, at the first use and as keys are added; a semaphore
//! for a new key; a gate for a key that is paused; and a limiter for a key whose caller has to wait. A call for a
//! key in the table that need not wait allocates nothing. A paused key is never evicted, and a key of a map of
//! gates that is not paused has no entry.
//!
//! # Rate: how many per time
//!
//! | | [`RateLimiter`](crate::RateLimiter) | [`LeakyBucket`](crate::LeakyBucket) |
//! |---|---|---|
//! | the promise | in any interval `t`, by the ticks of the charges, at most the burst + rate × (`t` + 1 ns); other algorithms have [promises of their own](crate::Algorithm) | the same, with a burst of 1 |
//! | measured when tasks resume | the same, plus the `max` of [`MissedTickBehavior::Burst`](crate::rate::MissedTickBehavior); with `Delay`, the same, plus the delay of the executor | likewise |
//! | order of waiters | first-in first-out, whatever their cost | first-in first-out |
//! | overtaking | never | never |
//! | cost | any number; beyond the burst it is rejected, or [overdraws](crate::rate::Oversize) | 1 |
//! | a waiter is cancelled | it has been charged nothing; all waiters behind it are due earlier, at once | likewise |
//! | a waiter that is not polled | is charged at its turn, and delays no other waiter | likewise |
//! | the quota can be changed | yes, and the queue is rescheduled | yes |
//! | `close`, bounded queue | yes, [`max_waiters`](crate::RateLimiter::max_waiters) | yes, the capacity |
//! | cancelled by a token or a timeout | yes; a wait that cannot fit is rejected at once | likewise |
//! | unused cost | [`refund`](crate::RateLimiter::refund), [`settle`](crate::RateLimiter::settle): the part that has not been replenished | `refund` |
//! | needs a runtime that is being driven | no; on tokio's clock, yes | likewise |
//! | blocks a thread | with `.wait()` | with `.wait()` |
//! | in a `static` without `LazyLock` | yes | yes |
//! | `acquire()` is `Unpin` | yes | yes |
//! | allocations | its state, at the first use; the queue, for the first waiter and to enlarge it; for waiters of many different costs also some now and then, for the sums of the costs, unless it [overdraws](crate::rate::Oversize) | its state and the queue likewise; nothing for costs, which are all 1 |
//! | a waker panics when it is called | contained; all other waiters are woken | likewise |
//! | a waker polls its task at once | [nests 32 calls](#wakers-that-poll-at-once) | likewise |
//!
//! # Blocking: no calls for a while
//!
//! | | [`Gate`](crate::Gate) |
//! |---|---|
//! | the promise | no caller passes while it is blocked; it opens at the exact tick |
//! | order of waiters | all at once |
//! | [`before`](crate::Gate::before) a throttle | nobody is admitted while it is blocked, and who was stopped holds nothing of the throttle |
//! | cancelled by a token or a timeout | yes; a wait that cannot fit is rejected at once |
//! | a check costs | one relaxed load, while it is open |
//! | memory | a handle is a pointer |
//! | in a `static` without `LazyLock` | no |
//! | a [`Throttle`](crate::Throttle) | yes, by value |
//! | a waker polls its task at once | [nests 32 calls](#wakers-that-poll-at-once) |
//! | allocations of a wait | none, except for the first waiter and to enlarge the queue |
//!
//! The crate [`tollgate-detector`] decides which callers to block, and reports the error of its counts.
//!
//! # Order: who goes first
//!
//! | | [`FairQueue`](crate::fair::FairQueue) |
//! |---|---|
//! | order of waiters | by priority, then by weighted share, then first-in first-out; within a class, first-in first-out or [newest first](crate::fair::Class::adaptive_lifo) |
//! | overtaking: a newcomer can pass the waiters | where it can in the throttle |
//! | memory | bounded by the maximum of classes and of waiters |
//! | cancelled by a token or a timeout | yes |
//! | a permit that is granted to a cancelled waiter | goes to the waiter that is then chosen; without one it is rolled back |
//! | `close` | that of the throttle; a permit that was granted before may still go to a newcomer |
//! | needs a runtime that is being driven | if the throttle does |
//! | in a `static` without `LazyLock` | no |
//! | a [`Throttle`](crate::Throttle) | each class, by value |
//! | a waker polls its task at once | [nests 32 calls](#wakers-that-poll-at-once), if the throttle does |
//! | allocations of a wait | those of the throttle; and the queue grows as waiters come |
//!
//! [`tollgate-detector`]: https://docs.rs/tollgate-detector/latest/tollgate_detector/
//! [`AdaptiveSemaphore`]: https://docs.rs/tollgate-adaptive/latest/tollgate_adaptive/struct.AdaptiveSemaphore.html
//! [`AdaptiveRate`]: https://docs.rs/tollgate-adaptive/latest/tollgate_adaptive/struct.AdaptiveRate.html
