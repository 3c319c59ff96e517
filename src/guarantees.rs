//! What each concurrency throttle guarantees: which type do I want?
//!
//! | I want | type |
//! |---|---|
//! | at most N at once, in tasks or threads, in order | [`Semaphore`](crate::Semaphore) |
//! | the same, and each of the N is something: a buffer, a connection | `Pool<T>` |
//! | at most N threads, as many goes in a second as can be, in no order | [`CondvarSemaphore`](crate::CondvarSemaphore) |
//! | a channel as a semaphore, to compare it with | `ChannelSemaphore` |
//! | to keep the semaphore of tokio or async-lock that I have | that one, as a [`Throttle`](crate::Throttle) |
//! | several of these at once | [`all`](crate::all) |
//!
//! # The table
//!
//! The last two columns are about those types as throttles of this crate. What is in it is checked by
//! the conformance suite and the tests of the types.
//!
//! | | `Semaphore` | `Pool<T>` | `ChannelSemaphore` | `CondvarSemaphore` | tokio's | async-lock's |
//! |---|---|---|---|---|---|---|
//! | waiters are let in in the order in which they came | always | unless a newcomer overtakes | unless a newcomer overtakes | no order | always | unless a newcomer overtakes |
//! | a newcomer can take what a waiter was woken for | no | yes | yes | yes | no | yes |
//! | weight: what one call asks for | any, and large ones are not starved | 1 item | 1 | 1 | 1 | 1 |
//! | resize | both ways, live, exact | no | no | no | by its own methods | by its own methods |
//! | a limit of 0 | a pause | refused by `new` | refused by `new` | refused by `new` | waits | waits |
//! | close | yes | yes; idle items are dropped | yes | yes | yes | no |
//! | cancelled by dropping the future | yes, in constant time | yes | yes | there is no future | yes | yes |
//! | cancelled by a token, and by a deadline | yes | yes | yes | yes | yes | yes |
//! | cancelled after being woken | what it had goes to the next | the next is woken | the next is woken | the next is woken | what it had goes to the next | the next is woken |
//! | two that come back at once wake two | yes | yes | yes | yes | yes | the second one after the first has run |
//! | bounded line, `wait_idle` | yes | no | no | no | no | no |
//! | blocks a thread with `.wait()` | yes | yes | yes | does nothing else | yes | yes |
//! | in a `static` without `LazyLock` | yes | no | no | no | yes | yes |
//! | a [`Throttle`](crate::Throttle), for adapters and [`all`](crate::all) | yes | yes | yes | no | yes | yes |
//! | futures are `Unpin` | yes | owned ones | owned ones | there are none | yes | no |
//! | allocates to wait | no, once warm | once; owned, twice | once; owned, twice | no; once for each token | once | once |
//! | when the holder panics | the permit comes back | the item comes back, or is replaced by a new one | the permit comes back | the permit comes back | the permit comes back | the permit comes back |
//!
//! Needs features: `Pool` and `ChannelSemaphore` need `channel`, tokens and tokio's semaphore `tokio`,
//! both defaults; async-lock's semaphore needs `async-lock`.
