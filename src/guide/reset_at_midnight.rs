//! A quota that resets at midnight: of a time zone, on days of 23 and 25 hours, and over restarts of the program.
//!
//! A [`FixedWindow`](crate::Algorithm::FixedWindow) admits the whole count in each window, and
//! [`window_ends_in`](crate::RateLimiter::window_ends_in) begins in the middle of one. Only a crate of time
//! zones knows when the day ends, for example [jiff](https://docs.rs/jiff). It is no dependency of this crate.
//!
//! ```toml
//! [dependencies]
//! jiff = "1"
//! tollgate = { path = "../tollgate" }
//! ```
//!
//! ```text
#![doc = include_str!("programs/reset_at_midnight.rs")]
//! ```
//!
//! Call `store` when the program ends, and as often as a lost count matters: after a crash, the mails since
//! then are not counted. A missing file begins a day; one that cannot be read is an error. The example `daily_quota`
//! in the folder `examples/operate` sends a mail each minute over a change to summer time, with a restart each 700
//! minutes and a clock that is set back: 1,000 on each day.
//!
//! # Choices
//!
//! - *Waiting until midnight*: sleep for the `retry_after()` of a refusal, which is an hour after midnight, or
//!   until midnight, and call `send` again. Do not wait in `mails.acquire()`: callers that wait for the limiter
//!   of the old day are admitted by its next window, beside those of the new day.
//! - *Another end*: any time works, such as the reset that a provider documents. Compute `left` until then.
//! - *Windows that all have one length*: the window of an hour needs no new limiter. Begin in the middle of the
//!   first one, and the next ones follow. After a restart, [`restore`](crate::RateLimiter::restore) goes on
//!   from the [state](crate::RateLimiter::state) of the last process, with the same ends.
//! - *Any other quota over restarts*: `state` and `restore`. The example `restart` keeps it in a file of JSON, with the
//!   feature `serde`.
//! - *Each user*: `Keyed` has [`states`](crate::Keyed::states) and [`restore`](crate::Keyed::restore). All
//!   windows of a map end together.
//! - *Several processes at once*, also a command that two people start: a state in one file is for one process. Use the
//!   crate `tollgate-file` on one machine, which keeps its state by itself, or [Redis](super::share_a_limit).
//!
//! # Traps
//!
//! - Twice the count may be used around midnight, in a minute. [`SlidingLog`](crate::Algorithm::SlidingLog) has no such
//!   edge, and does not reset at midnight either.
//! - The wall clock and the clock of a limiter differ by the corrections of the wall clock. So the limiter of a
//!   day ends by the date, in `send`, and its window ends an hour later: if it ended first, because the wall
//!   clock was set back, the same date would have a second window. The time in a refusal is that of the window.
//! - A clock that is set back over midnight begins no day again, but a restart before the second midnight does.
//! - Read the wall clock after `state` and before `restore`. If it went back meanwhile, pass zero for the time that has
//!   passed: the limiter then owes more, never less.
