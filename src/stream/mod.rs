//! Streams behind a throttle: how many of a stream's items are worked on at once, or per time, is
//! decided by any [`Throttle`](crate::Throttle). Needs the feature `stream`.
//!
//! And the other way round, a rate limiter as a stream: [`Ticks`].
//!
//! The methods are those of [`LimitStreamExt`]. What they have in common:
//!
//! - Items are started in the order of the stream, each when the throttle has let it in; its permit
//!   is held until its future is done. Results come in the order in which they are finished.
//! - *Back-pressure*: the next item is taken from the stream when the one before it has been let in,
//!   so one item at most waits outside.
//! - Everything happens in the task that polls. While nobody polls, nothing is taken from the stream,
//!   and what has been started stands still, and keeps its permits. The item that waits can be given
//!   its permit meanwhile, and keeps it too. So a task that waits for the same throttle between two
//!   results may wait for itself.
//! - `for_each_limited` lets other tasks go on after 64 items in one poll; `buffer_limited` is polled by
//!   others, once for each result.
//! - When the throttle refuses, for example because it was closed, the item that was refused is
//!   dropped and no other is taken; what has been started is finished; then the error comes. Only an
//!   item can be refused: that a throttle was closed is noticed when there is one to be let in, and
//!   not while the stream has none.

mod buffer_limited;
mod extension;
mod for_each_limited;
mod limited;
mod ticks;

pub use self::buffer_limited::BufferLimited;
pub use self::extension::LimitStreamExt;
pub use self::for_each_limited::ForEachLimited;
pub use self::ticks::{Ticks, TicksOwned};
