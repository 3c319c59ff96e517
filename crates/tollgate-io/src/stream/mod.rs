//! Streams behind a throttle: any [`Throttle`](tollgate::Throttle) limits how many items of a stream
//! are processed at once, or per time. Needs the feature `stream`.
//!
//! The reverse, a rate limiter as a stream, is [`Ticks`]. [`LimitSinkExt`] limits what a sink takes.
//!
//! [`LimitStreamExt`] has the methods. Their common behavior:
//!
//! - Items start in the order of the stream, each when the throttle admits it. Its permit is held
//!   until its future is done. Results come in the order in which the futures finish.
//! - *Back-pressure*: the next item is taken from the stream after the admission of the previous
//!   one, so at most one item waits for the throttle.
//! - All work happens in the task that polls. While that task does not poll, no item is taken, and
//!   running work makes no progress and keeps its permits. The waiting item may be granted its
//!   permit meanwhile, and keeps it too. So a task that waits for the same throttle between two
//!   results may deadlock with itself.
//! - *Cooperation*: after 64 items have started, or 64 results of `for_each_limited` have come, in
//!   one poll, the task is woken and yields, so that a token, a timeout and other tasks are noticed
//!   while every item is ready.
//! - When the throttle rejects an item, for example because it was closed, that item is dropped and
//!   no further item is taken. Running work is finished, and then the error comes. The throttle can
//!   reject only items: while the stream has none, a closed throttle goes unnoticed.

mod limited;
mod sink;
mod ticks;

pub use self::limited::{BufferLimited, ForEachLimited, LimitStreamExt};
pub use self::sink::{LimitSinkExt, LimitedSink, SinkError};
pub use self::ticks::{ThrottleStreamExt, Ticks};
