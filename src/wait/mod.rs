//! What every wait has: a token that cancels it, a timeout, and waiting by blocking the thread.
//!
//! [`Waiting`] wraps every future that waits, and has the three methods. The first two wrap the future
//! inside, [`CancelOn`] and [`Timeout`], so they stack in any order and nobody imports a trait to wait.

use std::future::Future;
use std::pin::Pin;

use crate::error::AcquireError;

mod block;
#[cfg(feature = "tokio")]
mod boxed_when_waiting;
#[cfg(feature = "tokio")]
mod cancel_on;
mod deadline_hint;
mod outcome;
mod timeout;
mod waiting;

pub(crate) use self::block::{block_on, is_blocking};
#[cfg(feature = "tokio")]
pub(crate) use self::boxed_when_waiting::BoxedWhenWaiting;
#[cfg(feature = "tokio")]
pub use self::cancel_on::CancelOn;
pub use self::deadline_hint::remaining_timeout;
pub(crate) use self::deadline_hint::{report_clock, without_hint};
pub use self::outcome::Outcome;
pub use self::timeout::Timeout;
pub use self::waiting::Waiting;

/// A wait of a type that is not known.
pub(crate) type BoxFuture<'a, P> =
    Pin<Box<dyn Future<Output = Result<P, AcquireError>> + Send + 'a>>;
